//! The commit message after the hooks have run.

/// Cleans up a message as git does: no trailing blanks, no runs of empty lines. Comment lines are removed only if a
/// hook added them, so that a subject such as `#123: fix` stays.
pub(super) fn tidy(asked_for: &str, now: &str) -> String {
    let own: Vec<&str> = asked_for.lines().map(str::trim_end).collect();
    let mut lines: Vec<&str> = Vec::new();
    for line in now.lines().map(str::trim_end) {
        if line.starts_with("# ------------------------ >8") {
            break;
        }
        let comment = line.starts_with('#') && !own.contains(&line);
        let repeated_gap = line.is_empty() && lines.last().is_none_or(|last| last.is_empty());
        if !comment && !repeated_gap {
            lines.push(line);
        }
    }
    while lines.last().is_some_and(|last| last.is_empty()) {
        lines.pop();
    }
    let mut message = lines.join("\n");
    message.push('\n');
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_of_hooks_go_and_subjects_with_a_hash_stay() {
        assert_eq!(tidy("#12: fix\n", "#12: fix\n\n\nbody  \n# please enter\n\n"), "#12: fix\n\nbody\n");
        assert_eq!(tidy("a", "\n\na"), "a\n");
    }
}
