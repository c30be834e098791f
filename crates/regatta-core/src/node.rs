//! Nodes: what a machine offers, and what tasks require of it.

mod record;
mod requirement;

pub use record::{
    EngineStatus, MOST_HELD, NodeDuty, NodeOrder, NodeRecord, NodeState, SettingsSeen, listed, requirements,
};
pub use requirement::{Amount, Fact, Requirement};

/// The longest node name or label, in bytes.
pub const MAX_NODE_WORD: usize = 64;

/// Why a text cannot be a node's name or label; `None` if it can.
pub fn no_node_word(word: &str) -> Option<String> {
    let is_inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    match word.chars().next() {
        None => Some("is empty".to_owned()),
        Some(first) if !first.is_ascii_alphanumeric() => {
            Some("must begin with a letter or a digit".to_owned())
        }
        Some(_) if word.len() > MAX_NODE_WORD => Some(format!("is longer than {MAX_NODE_WORD} characters")),
        Some(_) => {
            let bad = word.chars().find(|c| !is_inner(*c))?;
            Some(format!("contains {bad:?}; allowed are `A-Z a-z 0-9 . _ -`"))
        }
    }
}

/// A node name made from a host name: other characters become dashes.
pub fn node_word(host: &str) -> String {
    let word: String = host
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') { c } else { '-' })
        .skip_while(|c| !c.is_ascii_alphanumeric())
        .take(MAX_NODE_WORD)
        .collect();
    if word.is_empty() { "node".to_owned() } else { word }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_name_becomes_a_node_name() {
        for (host, name) in
            [("big-1", "big-1"), ("", "node"), ("--x", "x"), ("a b\u{1b}", "a-b-"), ("é", "node")]
        {
            assert_eq!(node_word(host), name);
            assert_eq!(no_node_word(&node_word(host)), None, "{host:?}");
        }
        assert_eq!(node_word(&"x".repeat(300)).len(), MAX_NODE_WORD);
        for bad in ["", "-x", "a:b", "a>=1", "ü", &"x".repeat(65)] {
            assert!(no_node_word(bad).is_some(), "{bad:?}");
        }
    }
}
