//! The agent versions that Regatta's own tests drive. Other versions may print or count things differently.

use regatta_core::config::AgentKind;

/// For each kind the tested versions, oldest first: those of `scripts/agents/package.json`.
const TESTED: [(AgentKind, &[&str]); 4] = [
    (AgentKind::Claude, &["2.1.197", "2.1.325"]),
    (AgentKind::Codex, &["0.166.0"]),
    (AgentKind::Gemini, &["0.61.0"]),
    (AgentKind::Opencode, &["1.18.33"]),
];

/// Why a reported version is doubtful; `None` if it lies between tested ones or cannot be compared.
pub(super) fn doubt(kind: AgentKind, said: &str) -> Option<String> {
    let (_, tested) = TESTED.iter().find(|(tested, _)| *tested == kind)?;
    let (oldest, newest) = (tested.first()?, tested.last()?);
    let version = said.split_whitespace().find_map(numbers)?;
    if version > numbers(newest)? {
        return Some(format!("newer than {newest}, the newest that Regatta was tested with"));
    }
    (version < numbers(oldest)?)
        .then(|| format!("older than {oldest}, the oldest that Regatta was tested with"))
}

/// Parses `2.1.325`, also with a leading `v` or a trailing `-beta`.
fn numbers(word: &str) -> Option<[u64; 3]> {
    let word = word.strip_prefix('v').unwrap_or(word);
    let plain = word.split(['-', '+']).next()?;
    let mut parts = plain.split('.').map(|part| part.parse::<u64>().ok());
    let version = [parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tested_versions_are_those_that_the_tests_install() {
        let pinned = include_str!("../../../../../scripts/agents/package.json");
        let pinned: serde_json::Value = serde_json::from_str(pinned).unwrap();
        let mut pinned: Vec<String> = pinned["dependencies"]
            .as_object()
            .unwrap()
            .values()
            .map(|version| {
                let version = version.as_str().unwrap();
                version.rsplit_once('@').map_or(version, |(_, version)| version).to_owned()
            })
            .collect();
        let mut tested: Vec<&str> =
            TESTED.iter().flat_map(|(_, versions)| versions.iter().copied()).collect();
        pinned.sort_unstable();
        tested.sort_unstable();
        assert_eq!(pinned, tested);
    }

    #[test]
    fn only_what_lies_beyond_the_tested_versions_is_doubtful() {
        let doubt = |said: &str| doubt(AgentKind::Claude, said);
        for said in ["2.1.197 (Claude Code)", "2.1.250", "v2.1.325", "no version", "2.1"] {
            assert_eq!(doubt(said), None, "{said}");
        }
        assert!(doubt("2.1.326 (Claude Code)").unwrap().contains("newer than 2.1.325"));
        assert!(doubt("2.0.999-beta").unwrap().contains("older than 2.1.197"));
    }
}
