//! Which hub the settings name.

use std::path::PathBuf;
use std::sync::Arc;

use regatta_core::config::{Config, HubAddress};

use super::Hub;
use crate::git::{GitError, Repo, Work, normal_path};

/// Why there is no hub although one is configured.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    /// The value cannot be used.
    #[error("`hub` {0}")]
    Unusable(&'static str),
    /// No remote of this name.
    #[error("`hub` names the remote {0}, which this repository does not have")]
    NoRemote(String),
    /// Git could not be asked.
    #[error("could not {0}")]
    Git(#[from] GitError),
}

impl Hub {
    /// The hub according to the settings. A store that machines share needs one, so a remote is then the default.
    pub fn find(repo: &Repo, work: &Work, config: &Config, shared: bool) -> Result<Option<Self>, HubError> {
        let named = match &config.hub {
            Some(text) => HubAddress::parse(text).map_err(HubError::Unusable)?,
            None if !shared => return Ok(None),
            None => match default_remote(work)? {
                Some(remote) => HubAddress::Remote(remote),
                None => return Ok(None),
            },
        };
        let address = match named {
            HubAddress::None => return Ok(None),
            HubAddress::Remote(name) if url_of(work, &name)?.is_none() => {
                return Err(HubError::NoRemote(name));
            }
            HubAddress::Remote(address) | HubAddress::Url(address) => address,
            HubAddress::Path(path) => absolute(repo, &path).to_string_lossy().into_owned(),
        };
        Ok(Some(Self { repo: repo.clone(), work: work.clone(), address, silent_since: Arc::default() }))
    }

    /// The repository at an address, whatever the settings say.
    pub fn at(repo: &Repo, work: &Work, address: &HubAddress) -> Option<Self> {
        let address = match address {
            HubAddress::None => return None,
            HubAddress::Remote(address) | HubAddress::Url(address) => address.clone(),
            HubAddress::Path(path) => absolute(repo, path).to_string_lossy().into_owned(),
        };
        Some(Self { repo: repo.clone(), work: work.clone(), address, silent_since: Arc::default() })
    }
}

/// A path as written in the settings. All worktrees mean the same by it.
pub(super) fn absolute(repo: &Repo, path: &str) -> PathBuf {
    let home = || std::env::var_os("HOME").map(PathBuf::from);
    match path.strip_prefix("~/").and_then(|rest| Some(home()?.join(rest))) {
        Some(path) => path,
        None => normal_path(&repo.root.join(path)),
    }
}

/// The address of a remote, as the user trusts it.
pub(crate) fn url_of(work: &Work, remote: &str) -> Result<Option<String>, GitError> {
    let key = format!("remote.{remote}.url");
    let ran = work.bare().args(["config", "--get", &key]).run()?;
    Ok((ran.code == Some(0)).then(|| String::from_utf8_lossy(&ran.stdout).trim().to_owned()))
}

/// `origin`, or the only remote: a single one needs no name.
pub(crate) fn default_remote(work: &Work) -> Result<Option<String>, GitError> {
    if url_of(work, "origin")?.is_some() {
        return Ok(Some("origin".to_owned()));
    }
    let listed = work.bare().args(["remote"]).text()?;
    let mut remotes = listed.lines();
    Ok(match (remotes.next(), remotes.next()) {
        (Some(only), None) => Some(only.to_owned()),
        _ => None,
    })
}
