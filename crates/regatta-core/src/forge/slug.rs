//! Names on a forge: hosts, repositories, pull requests, issues, and values in the paths of its API.
//!
//! Invariant: a [`Slug`], a [`ForgeHost`] and a [`NodeId`] are never an option, contain no path traversal, and may be
//! passed to `gh` and git as arguments.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Longest owner, repository name or host.
const LONGEST: usize = 253;

/// Why a text is not a name on a forge.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not {expected}")]
pub struct NameError {
    /// The beginning of the text.
    text: String,
    expected: &'static str,
}

impl NameError {
    pub(crate) fn new(text: &str, expected: &'static str) -> Self {
        Self { text: text.chars().take(80).collect(), expected }
    }
}

/// A repository on a forge: `owner/name`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Slug {
    owner: String,
    name: String,
}

impl Slug {
    /// A repository by its owner and its name, each checked.
    pub fn new(owner: &str, name: &str) -> Result<Self, NameError> {
        if is_part(owner) && is_part(name) {
            Ok(Self { owner: owner.to_owned(), name: name.to_owned() })
        } else {
            Err(NameError::new(&format!("{owner}/{name}"), EXPECTED_SLUG))
        }
    }

    /// Parses `owner/name`.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        let (owner, name) = text.split_once('/').ok_or_else(|| NameError::new(text, EXPECTED_SLUG))?;
        Self::new(owner, name).map_err(|_| NameError::new(text, EXPECTED_SLUG))
    }

    /// The user or organisation.
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// The name of the repository.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether both name the same repository: forges ignore the case of letters.
    pub fn is_same(&self, other: &Slug) -> bool {
        self.owner.eq_ignore_ascii_case(&other.owner) && self.name.eq_ignore_ascii_case(&other.name)
    }
}

const EXPECTED_SLUG: &str = "a repository: expected owner/name with letters, digits, `.`, `_` and `-`";

fn is_part(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    let dots = text.bytes().all(|byte| byte == b'.');
    !text.is_empty() && text.len() <= LONGEST && !text.starts_with('-') && !dots && text.bytes().all(allowed)
}

impl fmt::Display for Slug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}/{}", self.owner, self.name))
    }
}

impl FromStr for Slug {
    type Err = NameError;
    fn from_str(text: &str) -> Result<Self, NameError> {
        Self::parse(text)
    }
}

impl TryFrom<String> for Slug {
    type Error = NameError;
    fn try_from(text: String) -> Result<Self, NameError> {
        Self::parse(&text)
    }
}

impl From<Slug> for String {
    fn from(slug: Slug) -> String {
        slug.to_string()
    }
}

/// The host of a forge, in lower case and without a port: `github.com`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ForgeHost(String);

impl ForgeHost {
    /// GitHub's own host.
    pub fn github() -> Self {
        Self("github.com".to_owned())
    }

    /// Parses a host name. A port is an error: `gh` takes none.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        let host = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        let label = |part: &str| {
            !part.is_empty()
                && !part.starts_with('-')
                && !part.ends_with('-')
                && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
        };
        if host.len() <= LONGEST && host.split('.').all(label) {
            Ok(Self(host))
        } else {
            Err(NameError::new(text, "a host name such as github.com, without a scheme and a port"))
        }
    }

    /// The host name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether GitHub runs here without anybody saying so.
    pub fn is_known_github(&self) -> bool {
        matches!(self.0.as_str(), "github.com" | "github.localhost") || self.0.ends_with(".ghe.com")
    }
}

impl fmt::Display for ForgeHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl TryFrom<String> for ForgeHost {
    type Error = NameError;
    fn try_from(text: String) -> Result<Self, NameError> {
        Self::parse(&text)
    }
}

impl From<ForgeHost> for String {
    fn from(host: ForgeHost) -> String {
        host.0
    }
}

/// The id that a forge gave to a thing, whatever that thing is called today. Visible ASCII, bounded.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct NodeId(String);

impl NodeId {
    /// Checks an id from a forge.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        let visible = text.bytes().all(|byte| byte.is_ascii_graphic());
        if !text.is_empty() && text.len() <= LONGEST && visible && !text.starts_with('-') {
            Ok(Self(text.to_owned()))
        } else {
            Err(NameError::new(text, "an id of a forge"))
        }
    }

    /// The id.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl TryFrom<String> for NodeId {
    type Error = NameError;
    fn try_from(text: String) -> Result<Self, NameError> {
        Self::parse(&text)
    }
}

impl From<NodeId> for String {
    fn from(id: NodeId) -> String {
        id.0
    }
}

/// The number of a pull request or of an issue, which share one sequence. Shown as `#12`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PullNumber(pub u64);

impl fmt::Display for PullNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("#{}", self.0))
    }
}

/// An issue or pull request as people write it: `42`, `#42`, `acme/shop#42`, or its address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssueRef {
    /// The host, if an address was given.
    pub host: Option<ForgeHost>,
    /// The repository, if it was named.
    pub repo: Option<Slug>,
    /// Its number.
    pub number: PullNumber,
}

impl IssueRef {
    /// Parses one of the four forms.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        let error = || NameError::new(text, "an issue: expected 42, #42, owner/name#42 or its address");
        let number = |digits: &str| {
            let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            let number = digits.parse().ok().filter(|n| is_number && *n > 0);
            number.map(PullNumber).ok_or_else(error)
        };
        let text = text.trim();
        let address = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
        if let Some(rest) = address {
            let rest = rest.split(['?', '#']).next().unwrap_or(rest);
            let mut parts = rest.trim_end_matches('/').split('/');
            let mut part = || parts.next().ok_or_else(error);
            let host = ForgeHost::parse(part()?).map_err(|_| error())?;
            let repo = Slug::new(part()?, part()?).map_err(|_| error())?;
            if !matches!(part()?, "issues" | "pull" | "pulls") {
                return Err(error());
            }
            let number = number(part()?)?;
            return Ok(Self { host: Some(host), repo: Some(repo), number });
        }
        let (repo, digits) = text.rsplit_once('#').unwrap_or(("", text));
        let repo = if repo.is_empty() { None } else { Some(Slug::parse(repo).map_err(|_| error())?) };
        Ok(Self { host: None, repo, number: number(digits)? })
    }
}

/// A value for a path of the API. Everything but letters, digits, `-`, `.`, `_` and `~` is encoded: `gh` replaces
/// `:owner` and `{owner}` in paths from the repository it runs in, and a slash would name something else.
pub fn encoded(value: &str) -> String {
    let mut path = String::with_capacity(value.len());
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            path.push(char::from(byte));
        } else {
            path.push_str(&format!("%{byte:02X}"));
        }
    }
    path
}
