//! Where Claude Code stores a conversation, and whether it stored ours.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The directory in `CLAUDE_CONFIG_DIR`, else `~/.claude`.
pub fn config_dir(var: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let set = |name| var(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("CLAUDE_CONFIG_DIR").or_else(|| set("HOME").map(|home| home.join(".claude")))
}

/// True if the conversation can be resumed: claude writes its file about half a second after the start, so an attempt
/// killed before that must start again under the same id. A wrong answer is harmless: claude then reports it, and the
/// ending is `NoSession` or `SessionExists`.
pub fn session_file_exists(config_dir: &Path, cwd: &Path, uuid: &str) -> bool {
    if !is_uuid(uuid) {
        return false;
    }
    let projects = config_dir.join("projects");
    let file = format!("{uuid}.jsonl");
    let cwd = cwd.canonicalize().unwrap_or_else(|_| cwd.to_owned());
    if projects.join(project_dir(&cwd)).join(&file).is_file() {
        return true;
    }
    // Long paths are stored under a shortened name, and a conversation may have started in another worktree.
    let Ok(entries) = projects.read_dir() else { return false };
    entries.flatten().any(|entry| entry.path().join(&file).is_file())
}

/// Claude's folder name for a path: everything except letters and digits becomes a dash.
fn project_dir(cwd: &Path) -> String {
    cwd.to_string_lossy().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.char_indices().all(|(at, c)| match at {
            8 | 13 | 18 | 23 => c == '-',
            _ => c.is_ascii_hexdigit(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "398d1177-83ca-4030-b7de-39deb75b63e2";

    #[test]
    fn a_session_is_found_under_the_mangled_path_of_its_directory() {
        assert_eq!(project_dir(Path::new("/lab/my_repo.lanes/a-1")), "-lab-my-repo-lanes-a-1");
        let home = tempfile::tempdir().unwrap();
        let cwd = Path::new("/lab/my_repo.lanes/a-1");
        assert!(!session_file_exists(home.path(), cwd, ID));
        let project = home.path().join("projects/-lab-my-repo-lanes-a-1");
        std::fs::create_dir_all(&project).unwrap();
        assert!(!session_file_exists(home.path(), cwd, ID));
        std::fs::write(project.join(format!("{ID}.jsonl")), "").unwrap();
        assert!(session_file_exists(home.path(), cwd, ID));
        assert!(session_file_exists(home.path(), Path::new("/another/worktree"), ID));
        assert!(!session_file_exists(home.path(), cwd, "../x"));
    }

    #[test]
    fn the_config_directory_follows_the_variable_and_then_home() {
        let both = |name: &str| Some(OsString::from(if name == "HOME" { "/h" } else { "/c" }));
        assert_eq!(config_dir(both), Some("/c".into()));
        let home = |name: &str| (name == "HOME").then(|| "/h".into());
        assert_eq!(config_dir(home), Some("/h/.claude".into()));
        assert_eq!(config_dir(|_| None), None);
    }
}
