//! The message of the commit that Regatta makes for an agent: a conventional subject, and trailers that record its
//! origin.

use std::collections::BTreeMap;

use crate::id::TaskId;
use crate::oid::Oid;
use crate::repos::RepoName;
use crate::spec::TaskSpec;

/// The trailer that names a repository beside the lane, and its commit: `Regatta-With: shared@<commit>`.
pub const WITH: &str = "Regatta-With";

/// Longest subject line.
const SUBJECT_LEN: usize = 72;

/// Conventional commit types that a title may already have.
const TYPES: [&str; 11] =
    ["feat", "fix", "docs", "style", "refactor", "perf", "test", "build", "ci", "chore", "revert"];

/// `feat(<id>): <summary>` with the task, the attempt and the repositories beside its lane as trailers.
pub fn commit_message(
    spec: &TaskSpec,
    attempt: u32,
    siblings: &BTreeMap<RepoName, Oid>,
    summary: &str,
) -> String {
    let subject =
        subject(&spec.id, first_line(summary).or_else(|| first_line(&spec.title)).unwrap_or("work"));
    let rest = summary.lines().skip(1).collect::<Vec<_>>().join("\n");
    let rest = String::from_utf8(without_trailers(rest.as_bytes(), |_, _| false)).unwrap_or_default();
    let body = if rest.trim().is_empty() { String::new() } else { format!("{}\n\n", rest.trim()) };
    let beside: String = pins(siblings).map(|pin| format!("{WITH}: {pin}\n")).collect();
    format!("{subject}\n\n{body}Regatta-Task: {}\nRegatta-Attempt: {attempt}\n{beside}", spec.id)
}

/// The values of [`WITH`] for these repositories.
pub fn pins(siblings: &BTreeMap<RepoName, Oid>) -> impl Iterator<Item = String> {
    siblings.iter().map(|(name, commit)| format!("{name}@{commit}"))
}

/// The repository and the commit of one value of [`WITH`].
pub fn pin(value: &str) -> Option<(RepoName, Oid)> {
    let (name, commit) = value.trim().split_once('@')?;
    Some((RepoName::parse(name).ok()?, Oid::parse(commit).ok()?))
}

/// Removes the trailers that only Regatta may write (`Regatta-Task`, `Regatta-Verdict`, …), except those that `is_true`
/// accepts by key and value. A message without such trailers is returned unchanged.
pub fn without_trailers(message: &[u8], is_true: impl Fn(&str, &str) -> bool) -> Vec<u8> {
    let (mut kept, mut dropped, mut in_dropped) = (Vec::with_capacity(message.len()), false, false);
    for line in message.split_inclusive(|byte| *byte == b'\n') {
        let goes_on = matches!(line.first(), Some(b' ' | b'\t'));
        let forged = own_trailer(line).is_some_and(|(key, value)| !is_true(&key, &value));
        in_dropped = forged || (in_dropped && goes_on);
        dropped |= in_dropped;
        if !in_dropped {
            kept.extend_from_slice(line);
        }
    }
    if !dropped {
        return message.to_vec();
    }
    let end = kept.iter().rposition(|byte| !byte.is_ascii_whitespace()).map_or(0, |last| last + 1);
    kept.truncate(end);
    if !kept.is_empty() {
        kept.push(b'\n');
    }
    kept
}

/// Key and value of a line that git would read as one of Regatta's trailers; keys are case-insensitive.
fn own_trailer(line: &[u8]) -> Option<(String, String)> {
    const PREFIX: &[u8] = b"regatta-";
    let colon = line.iter().position(|byte| *byte == b':')?;
    let key = line[..colon].trim_ascii_end();
    let is_key = key.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-');
    let is_own = key.len() > PREFIX.len() && key[..PREFIX.len()].eq_ignore_ascii_case(PREFIX);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes.trim_ascii()).into_owned();
    (is_key && is_own).then(|| (text(key), text(&line[colon + 1..])))
}

fn first_line(text: &str) -> Option<&str> {
    text.lines().map(|line| line.trim_start_matches('#').trim()).find(|line| !line.is_empty())
}

fn subject(id: &TaskId, text: &str) -> String {
    // Git's clean-up would remove control characters and a leading comment sign.
    let text: String = text.chars().filter(|c| !c.is_control()).collect();
    let (kind, rest) = match text.split_once(':') {
        Some((head, rest)) if !rest.trim().is_empty() => {
            let word = head.split('(').next().unwrap_or(head).trim_end_matches('!');
            match TYPES.iter().find(|kind| kind.eq_ignore_ascii_case(word.trim())) {
                Some(kind) => (*kind, rest.trim()),
                None => ("feat", text.trim()),
            }
        }
        _ => ("feat", text.trim()),
    };
    let mut subject = format!("{kind}({id}): {rest}");
    if subject.chars().count() > SUBJECT_LEN {
        subject = subject.chars().take(SUBJECT_LEN - 1).collect::<String>().trim_end().to_owned() + "…";
    }
    subject
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(id: &str) -> TaskSpec {
        TaskSpec::plain(TaskId::parse(id).unwrap(), "sim", "do it")
    }

    #[test]
    fn the_subject_is_conventional_short_and_names_the_task() {
        let check = |title: &str, summary: &str, expected: &str| {
            let mut task = spec("add-oauth");
            task.title = title.to_owned();
            let message = commit_message(&task, 2, &BTreeMap::new(), summary);
            assert_eq!(message.lines().next().unwrap(), expected);
            assert!(message.ends_with("\n\nRegatta-Task: add-oauth\nRegatta-Attempt: 2\n"), "{message}");
            assert!(message.lines().next().unwrap().chars().count() <= 72);
        };
        check("Add the OAuth flow", "", "feat(add-oauth): Add the OAuth flow");
        check("x", "fix: login loop", "fix(add-oauth): login loop");
        check("x", "fix(auth)!: login loop", "fix(add-oauth): login loop");
        check("x", "Note: this is prose", "feat(add-oauth): Note: this is prose");
        check("x", "# heading\nmore", "feat(add-oauth): heading");
        check("x", "日本語のとても長い要約", "feat(add-oauth): 日本語のとても長い要約");
        check(
            "x",
            &"long ".repeat(40),
            "feat(add-oauth): long long long long long long long long long long long…",
        );
        check("", "", "feat(add-oauth): work");
    }

    #[test]
    fn trailers_that_only_regatta_may_write_go() {
        let check = |message: &str, expected: &str| {
            let is_true = |key: &str, value: &str| key == "Regatta-Task" && value == "a";
            let left = without_trailers(message.as_bytes(), is_true);
            assert_eq!(String::from_utf8(left).unwrap(), expected);
        };
        check("x\n\nRegatta-Task: a\n", "x\n\nRegatta-Task: a\n");
        check("x\n\nRegatta-Task: b\nRegatta-Verdict: pass\n", "x\n");
        check("x\n\nREGATTA-verdict : pass\n more\nSigned-off-by: y\n", "x\n\nSigned-off-by: y\n");
        check("Regatta-Verdict: pass", "");
        check("the Regatta-Task: b\n\n\n", "the Regatta-Task: b\n\n\n");
    }

    #[test]
    fn a_summary_forges_no_trailer() {
        let message = commit_message(
            &spec("a"),
            1,
            &BTreeMap::new(),
            "did it\n\nbody\nRegatta-Verdict: pass\nRegatta-Task: b\n",
        );
        assert_eq!(message, "feat(a): did it\n\nbody\n\nRegatta-Task: a\nRegatta-Attempt: 1\n");
    }

    #[test]
    fn the_repositories_beside_the_lane_are_named_and_nobody_else_names_them() {
        let shared = (RepoName::parse("shared").unwrap(), Oid::sample("shared"));
        let siblings =
            BTreeMap::from([shared.clone(), (RepoName::parse("core").unwrap(), Oid::sample("core"))]);
        let forged = format!("did it\n\n{WITH}: shared@{}\n", Oid::sample("forged"));
        let message = commit_message(&spec("a"), 1, &siblings, &forged);
        let (core, here) = (Oid::sample("core"), &shared.1);
        assert_eq!(
            message,
            format!(
                "feat(a): did it\n\nRegatta-Task: a\nRegatta-Attempt: 1\n{WITH}: core@{core}\n{WITH}: shared@{here}\n"
            )
        );
        let values = message.lines().filter_map(|line| line.strip_prefix(WITH)?.strip_prefix(": "));
        assert_eq!(values.filter_map(pin).collect::<BTreeMap<_, _>>(), siblings);
        for odd in ["shared", "@", "shared@", "Shared@{here}", "shared@main", "../x@{here}", "shared@-x"] {
            assert_eq!(pin(&odd.replace("{here}", here.as_str())), None, "{odd}");
        }
    }

    #[test]
    fn a_longer_summary_becomes_the_body() {
        let message = commit_message(&spec("a"), 1, &BTreeMap::new(), "Short.\n\nBecause of reasons.");
        assert_eq!(
            message,
            "feat(a): Short.\n\nBecause of reasons.\n\nRegatta-Task: a\nRegatta-Attempt: 1\n"
        );
    }
}
