//! Files that decide what Regatta itself runs: work that changes them waits for a person.
//!
//! Commands of the settings (`lane.setup`, gates, notifications) and hooks run for the user. An agent must not be able to
//! land its own.

use crate::writes::WritePath;

/// Files of a repository from which Regatta takes commands or files to copy into lanes, and from which the user's own
/// agents take commands in a checkout.
const OWN: [&str; 13] = [
    "regatta.yaml",
    "regatta.yml",
    "rookery.yaml",
    ".worktreeinclude",
    ".claude/settings.json",
    ".claude/settings.local.json",
    ".claude/hooks",
    ".mcp.json",
    ".codex",
    ".gemini/settings.json",
    ".opencode",
    "opencode.json",
    "opencode.jsonc",
];

/// The first of `changed` that only a person may land. `hooks` is the directory of hooks inside the repository, if there
/// is one; `more` are the user's own paths and globs.
pub fn guarded<'a>(changed: &'a [String], hooks: Option<&str>, more: &[String]) -> Option<&'a str> {
    let own = OWN.into_iter().chain(hooks).chain(more.iter().map(String::as_str));
    let places: Vec<WritePath> = own.filter_map(|text| WritePath::parse(text).ok()).collect();
    // A link in place of a directory above such a file leads to another one.
    let is_above = |path: &str, place: &WritePath| {
        place.path().strip_prefix(path).is_some_and(|rest| rest.starts_with('/'))
    };
    let is_guarded = |path: &str| places.iter().any(|place| place.covers(path) || is_above(path, place));
    changed.iter().map(String::as_str).find(|path| is_guarded(path))
}

/// Why the work waits.
pub fn why_guarded(path: &str, task: &str) -> String {
    format!(
        "it changes {path}, and so what Regatta or your own agents run; `regatta diff {task}` shows it, `regatta land {task}` lands it"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_regatta_runs_is_guarded() {
        let found = |path: &str, hooks: Option<&str>, more: &[&str]| {
            let more: Vec<String> = more.iter().map(|text| (*text).to_owned()).collect();
            guarded(&["src/a.rs".to_owned(), path.to_owned()], hooks, &more).is_some()
        };
        assert!(found("regatta.yaml", None, &[]) && found(".worktreeinclude", None, &[]));
        assert!(found(".husky/pre-commit", Some(".husky"), &[]));
        assert!(found(".claude/settings.json", None, &[]) && found(".claude/hooks/a.sh", None, &[]));
        assert!(found(".mcp.json", None, &[]) && found(".codex/config.toml", None, &[]));
        assert!(found(".claude", None, &[]) && found(".gemini", None, &[]), "a link to another directory");
        assert!(found("opencode.json", None, &[]) && found(".opencode/plugin/x.ts", None, &[]));
        assert!(!found(".claude/skills/x.md", None, &[]) && !found("web/.mcp.json", None, &[]));
        assert!(found(".github/workflows/x.yml", None, &[".github"]));
        assert!(found("a/Dockerfile", None, &["**/Dockerfile"]));
        assert!(!found("docs/regatta.yaml", None, &[]) && !found("regatta.yaml.md", None, &[]));
        assert!(!found(".husky/pre-commit", None, &[]) && !found("src/b.rs", Some(".husky"), &["docs"]));
    }
}
