//! The board: which task a member gets when it asks for work.

use serde::{Deserialize, Serialize};

use super::name::{MemberName, Role};

/// The members a task is meant for; by default, all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// Only this member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member: Option<MemberName>,
    /// Only members with this role.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
}

impl Wanted {
    /// True if any member may take it.
    pub fn is_anybody(&self) -> bool {
        *self == Self::default()
    }
}

/// The member that asks for work.
#[derive(Clone, Copy, Debug)]
pub struct Asker<'a> {
    pub name: &'a MemberName,
    pub role: &'a Role,
}

/// How well a task suits the asking member, best first. Ties go to the higher priority, then to the older task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fit {
    /// It was assigned to this member.
    Assigned,
    /// It asks for this member's role.
    Role,
    /// Any member may take it.
    Anybody,
    /// It was assigned to a member that has left, or asks for a role that `general` members substitute for.
    StandIn,
}

/// Whether, and how well, a task suits the asking member. `has_left` is true for members who were registered and have
/// left: their tasks must not wait forever. A task for a member who has not registered yet keeps waiting.
pub fn fit(wanted: &Wanted, asker: Asker<'_>, has_left: impl Fn(&MemberName) -> bool) -> Option<Fit> {
    let is_general = asker.role.as_str() == Role::GENERAL;
    match (&wanted.member, &wanted.role) {
        (Some(member), _) if member.is(asker.name) => Some(Fit::Assigned),
        (Some(member), role) if has_left(member) => {
            let suits = role.as_ref().is_none_or(|role| role == asker.role || is_general);
            suits.then_some(Fit::StandIn)
        }
        (Some(_), _) => None,
        (None, Some(role)) if role == asker.role => Some(Fit::Role),
        (None, Some(_)) => is_general.then_some(Fit::StandIn),
        (None, None) => Some(Fit::Anybody),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whom_a_task_suits() {
        let check = |member: Option<&str>, role: Option<&str>, asker: (&str, &str), expected: Option<Fit>| {
            let name = |text: &str| MemberName::parse(text).unwrap();
            let role_of = |text: &str| Role::parse(text).unwrap();
            let wanted = Wanted { member: member.map(name), role: role.map(role_of) };
            let (who, what) = (name(asker.0), role_of(asker.1));
            let fit = fit(&wanted, Asker { name: &who, role: &what }, |member| member.as_str() == "gone");
            assert_eq!(fit, expected, "{wanted:?} for {asker:?}");
        };
        check(None, None, ("jerry", "developer"), Some(Fit::Anybody));
        check(Some("Jerry"), None, ("jerry", "developer"), Some(Fit::Assigned));
        check(Some("jerry"), Some("tester"), ("jerry", "developer"), Some(Fit::Assigned));
        check(Some("bob"), None, ("jerry", "developer"), None);
        check(Some("bob"), None, ("jerry", "general"), None);
        check(Some("gone"), None, ("jerry", "developer"), Some(Fit::StandIn));
        check(Some("gone"), Some("tester"), ("jerry", "developer"), None);
        check(Some("gone"), Some("tester"), ("jerry", "tester"), Some(Fit::StandIn));
        check(Some("gone"), Some("tester"), ("jerry", "general"), Some(Fit::StandIn));
        check(None, Some("developer"), ("jerry", "developer"), Some(Fit::Role));
        check(None, Some("tester"), ("jerry", "developer"), None);
        check(None, Some("tester"), ("jerry", "general"), Some(Fit::StandIn));
        assert!(Fit::Assigned < Fit::Role && Fit::Role < Fit::Anybody && Fit::Anybody < Fit::StandIn);
    }
}
