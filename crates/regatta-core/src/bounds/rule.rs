//! One rule in Claude Code's notation: a tool, and in parentheses which uses of it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// `Edit`, `Bash(git push:*)`, `Read(./secrets/**)`, `WebFetch(domain:example.org)`.
///
/// Safe as part of a comma-separated list: it contains no comma, and its parentheses match.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Rule {
    tool: String,
    of: Option<String>,
}

impl Rule {
    /// Parses a rule. The error completes a sentence that begins with the rule.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (tool, of) = match text.split_once('(') {
            Some((tool, rest)) => match rest.strip_suffix(')') {
                Some(of) => (tool, Some(of)),
                None => return Err("has a `(` and does not end in `)`".into()),
            },
            None => (text, None),
        };
        let named = tool.starts_with(|c: char| c.is_ascii_alphabetic())
            && tool.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
        if !named {
            return Err("does not begin with the name of a tool, such as `Bash(git push:*)` or `Edit`".into());
        }
        if let Some(of) = of {
            if of.trim().is_empty() || of.trim() != of {
                return Err("has nothing between its parentheses, or spaces next to them".into());
            }
            if of.contains(|c: char| c.is_control() || matches!(c, '(' | ')' | ',')) {
                return Err(
                    "has a comma, a parenthesis or a control character between its parentheses".into()
                );
            }
        }
        Ok(Self { tool: tool.to_owned(), of: of.map(str::to_owned) })
    }

    /// The tool's name.
    pub fn tool(&self) -> &str {
        &self.tool
    }

    /// The part in parentheses; without one, the rule covers every use.
    pub fn of(&self) -> Option<&str> {
        self.of.as_deref()
    }

    /// The prefix of a command rule, as in `Bash(git push:*)`.
    pub fn command_prefix(&self) -> Option<&str> {
        let prefix = self.of.as_deref()?.strip_suffix(":*")?;
        (self.tool == "Bash" && !prefix.is_empty() && !prefix.contains('*')).then_some(prefix)
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.of {
            Some(of) => write!(f, "{}({of})", self.tool),
            None => f.write_str(&self.tool),
        }
    }
}

impl TryFrom<String> for Rule {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Rule::parse(&text).map_err(|why| format!("rule {text:?} {why}"))
    }
}

impl From<Rule> for String {
    fn from(rule: Rule) -> String {
        rule.to_string()
    }
}
