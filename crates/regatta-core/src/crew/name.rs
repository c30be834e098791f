//! Identity in the crew: a member's name and its role.
//!
//! Invariant: a name follows the rules of a task id. Both share one address space, so a message can go to a member or
//! to a task's agent, and a name is just as safe in a path or an argument.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::id::{IdError, TaskId};

/// A member's name, or the id of the task whose agent is meant. Compared case-insensitively.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MemberName(TaskId);

impl MemberName {
    /// Parses `text` by the rules of a task id.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        TaskId::parse(text).map(Self)
    }

    /// The name as it was written.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// The form in which two names are compared.
    pub fn folded(&self) -> String {
        self.0.folded()
    }

    /// Whether both name the same member.
    pub fn is(&self, other: &MemberName) -> bool {
        self.folded() == other.folded()
    }

    /// The task id with the same text.
    pub fn as_task(&self) -> &TaskId {
        &self.0
    }
}

impl From<TaskId> for MemberName {
    fn from(id: TaskId) -> Self {
        Self(id)
    }
}

impl fmt::Display for MemberName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for MemberName {
    type Err = IdError;
    fn from_str(text: &str) -> Result<Self, IdError> {
        Self::parse(text)
    }
}

/// A member's role: `leader`, `developer`, `tester` or any other word, in lower case.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Role(String);

impl Role {
    /// The leading role; a store has at most one leader.
    pub const LEADER: &'static str = "leader";
    /// The role that takes any task.
    pub const GENERAL: &'static str = "general";
    /// The role of an agent that Regatta started.
    pub const AGENT: &'static str = "agent";

    /// Parses `text` by the rules of a task id and lower-cases it: `Developer` is `developer`.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        TaskId::parse(text).map(|word| Self(word.folded()))
    }

    /// The role's name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// True for the role that only one member may hold.
    pub fn is_leader(&self) -> bool {
        self.0 == Self::LEADER
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for Role {
    type Err = IdError;
    fn from_str(text: &str) -> Result<Self, IdError> {
        Self::parse(text)
    }
}

impl TryFrom<String> for Role {
    type Error = IdError;
    fn try_from(text: String) -> Result<Self, IdError> {
        Self::parse(&text)
    }
}

impl From<Role> for String {
    fn from(role: Role) -> String {
        role.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_roles_keep_the_rules_of_ids() {
        for ok in ["Tom", "jerry-2", "PRD-010", "tester"] {
            assert!(MemberName::parse(ok).is_ok() && Role::parse(ok).is_ok(), "{ok}");
        }
        for bad in ["", "-rf", "../x", "a b", "é", "x\n"] {
            assert!(MemberName::parse(bad).is_err() && Role::parse(bad).is_err(), "{bad:?}");
        }
        assert!(MemberName::parse("Tom").unwrap().is(&MemberName::parse("tOM").unwrap()));
        assert_eq!(Role::parse("Leader").unwrap().as_str(), Role::LEADER);
    }
}
