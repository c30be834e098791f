//! The message of the commit that Regatta makes on a worker's behalf: a conventional subject, and trailers that
//! say where it came from.

use crate::id::TaskId;
use crate::spec::TaskSpec;

/// Longest subject line.
const SUBJECT_LEN: usize = 72;

/// Types of a conventional commit that a title may already carry.
const TYPES: [&str; 11] =
    ["feat", "fix", "docs", "style", "refactor", "perf", "test", "build", "ci", "chore", "revert"];

/// `feat(<id>): <summary>` with the task and the attempt as trailers.
pub fn commit_message(spec: &TaskSpec, attempt: u32, summary: &str) -> String {
    let subject =
        subject(&spec.id, first_line(summary).or_else(|| first_line(&spec.title)).unwrap_or("work"));
    let rest = summary.lines().skip(1).collect::<Vec<_>>().join("\n");
    let body = if rest.trim().is_empty() { String::new() } else { format!("{}\n\n", rest.trim()) };
    format!("{subject}\n\n{body}Regatta-Task: {}\nRegatta-Attempt: {attempt}\n", spec.id)
}

fn first_line(text: &str) -> Option<&str> {
    text.lines().map(|line| line.trim_start_matches('#').trim()).find(|line| !line.is_empty())
}

fn subject(id: &TaskId, text: &str) -> String {
    // Control characters and a leading comment sign would not survive git's own clean-up.
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
            let message = commit_message(&task, 2, summary);
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
    fn a_longer_summary_becomes_the_body() {
        let message = commit_message(&spec("a"), 1, "Short.\n\nBecause of reasons.");
        assert_eq!(
            message,
            "feat(a): Short.\n\nBecause of reasons.\n\nRegatta-Task: a\nRegatta-Attempt: 1\n"
        );
    }
}
