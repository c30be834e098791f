//! What kinds of processes open a session in the store.

use serde::{Deserialize, Serialize};

use crate::crew::MemberName;

/// What opened a session. Decisions depend on this type; the text beside it is only for display.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SessionKind {
    /// The daemon, which works on the main queue.
    Daemon,
    /// A run in the foreground, with a queue of its own.
    Run,
    /// A command that lands what it was asked to land.
    Land,
    /// A member of the crew.
    Member(MemberName),
    /// A kind that only a newer version knows.
    #[serde(untagged)]
    Unknown(serde_json::Value),
}

impl SessionKind {
    /// The kind of a session that an older version opened: it has only the text.
    pub fn of_text(what: &str) -> Self {
        let (word, rest) = what.split_once(' ').unwrap_or((what, ""));
        match (word, MemberName::parse(rest)) {
            ("member", Ok(name)) => SessionKind::Member(name),
            ("daemon", _) => SessionKind::Daemon,
            ("land", _) => SessionKind::Land,
            _ => SessionKind::Run,
        }
    }

    /// The name of the member that opened it, if one did.
    pub const fn member(&self) -> Option<&MemberName> {
        match self {
            SessionKind::Member(name) => Some(name),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_an_older_version_names_its_kind() {
        let tom = MemberName::parse("Tom").unwrap();
        for (what, kind) in [
            ("daemon", SessionKind::Daemon),
            ("daemon --profiles a", SessionKind::Daemon),
            ("run plans/spring.md", SessionKind::Run),
            ("run member Tom", SessionKind::Run),
            ("land a b", SessionKind::Land),
            ("member Tom", SessionKind::Member(tom)),
        ] {
            assert_eq!(SessionKind::of_text(what), kind, "{what}");
        }
    }

    #[test]
    fn a_kind_of_a_newer_version_is_read_and_written_as_it_is() {
        for text in [r#""pilot""#, r#"{"guest":"Tom"}"#] {
            let kind: SessionKind = serde_json::from_str(text).unwrap();
            assert!(matches!(kind, SessionKind::Unknown(_)) && kind.member().is_none(), "{kind:?}");
            assert_eq!(serde_json::to_string(&kind).unwrap(), text);
        }
    }

    #[test]
    fn stored_kinds_stay_readable() {
        let tom = SessionKind::Member(MemberName::parse("Tom").unwrap());
        let kinds = [SessionKind::Daemon, SessionKind::Run, SessionKind::Land, tom];
        let text = serde_json::to_string(&kinds).unwrap();
        assert_eq!(text, r#"["daemon","run","land",{"member":"Tom"}]"#);
        assert_eq!(serde_json::from_str::<Vec<SessionKind>>(&text).unwrap(), kinds);
    }
}
