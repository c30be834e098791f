//! Requirement documents: `PRD-<N>*.md`, with a title and their dependencies.

use std::path::{Path, PathBuf};

use regatta_core::diagnostic::{Diagnostic, Pos};
use regatta_core::id::TaskId;
use regatta_store::{Store, StoreError};

use crate::project::shown;
use crate::refusal::Refusal;

/// Directories that contain no documents of the project itself.
const PASSED_BY: [&str; 4] = ["node_modules", "target", "vendor", "dist"];
/// Claude's custom command that implements such a document.
const COMMAND: &str = "implement-prd";
/// How many directory levels are searched.
const DEPTH: usize = 8;

/// A requirement document.
pub(super) struct Document {
    /// `PRD-` and its digits, as in the file name.
    pub(super) id: TaskId,
    pub(super) title: String,
    path: PathBuf,
    shown: String,
    text: String,
    depends_on: Vec<TaskId>,
}

/// The only document with that number: `10`, `010` or `PRD-010`.
pub(super) fn find(root: &Path, text: &str) -> Result<Document, Refusal> {
    let digits = number(text)
        .filter(|(_, rest)| rest.is_empty())
        .map(|(digits, _)| digits)
        .or_else(|| (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())).then_some(text))
        .ok_or_else(|| {
            Refusal::usage(format!("--prd {text:?} is not a number")).hinted("for example: --prd 10")
        })?;
    let mut found = Vec::new();
    walk(root, DEPTH, &mut |path, own| {
        if own.trim_start_matches('0') == digits.trim_start_matches('0') {
            found.push((path.to_owned(), own.to_owned()));
        }
    });
    // If PRD-1 and PRD-001 both exist, the digits decide.
    if found.iter().any(|(_, own)| own == digits) {
        found.retain(|(_, own)| own == digits);
    }
    found.sort();
    let names: Vec<String> = found.iter().map(|(path, _)| in_repo(root, path)).collect();
    match found.as_slice() {
        [(path, own)] => Document::load(root, path, own),
        [] => Err(Refusal::not_found(format!("there is no PRD-{digits}*.md in {}", root.display()))
            .hinted("write one, for example docs/prd/PRD-010-title.md, or omit --prd")),
        _ => Err(Refusal::usage(format!("PRD-{digits} could be {}", names.join(" or ")))
            .hinted("rename or remove all but one of them")),
    }
}

/// The digits after `PRD-`, and what follows them.
fn number(name: &str) -> Option<(&str, &str)> {
    let rest = name.get(..4).filter(|head| head.eq_ignore_ascii_case("prd-")).and_then(|_| name.get(4..))?;
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    (end > 0).then(|| rest.split_at(end))
}

fn walk(dir: &Path, depth: usize, each: &mut dyn FnMut(&Path, &str)) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let Some(name) = name.to_str() else { continue };
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => {
                let passed_by = depth == 0 || name.starts_with('.') || PASSED_BY.contains(&name);
                if !passed_by {
                    walk(&path, depth - 1, each);
                }
            }
            Ok(kind) if kind.is_file() => {
                if let Some(stem) = name.strip_suffix(".md")
                    && let Some((digits, _)) = number(stem)
                {
                    each(&path, digits);
                }
            }
            _ => {}
        }
    }
}

fn in_repo(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).display().to_string()
}

impl Document {
    fn load(root: &Path, path: &Path, digits: &str) -> Result<Self, Refusal> {
        let text = std::fs::read(path).map_err(|error| Refusal::io("reading", path, &error))?;
        let shown = in_repo(root, path);
        let text = String::from_utf8(text).map_err(|_| Refusal::usage(format!("{shown} is not UTF-8")))?;
        let id = TaskId::parse(&format!("PRD-{digits}"))
            .map_err(|why| Refusal::usage(format!("PRD-{digits} {why}")))?;
        let title = title(&text).unwrap_or_else(|| id.to_string());
        let depends_on = depends_on(&text).into_iter().filter(|other| *other != id).collect();
        Ok(Self { id, title, path: path.to_owned(), shown, text, depends_on })
    }

    /// The prompt for the agent: claude's own command for such documents, if the project or the user has one, because
    /// it knows better what to do with them. Otherwise the whole document, because the lane has its file only if it was
    /// committed.
    pub(super) fn prompt(&self, more: &str, has_command: bool) -> String {
        let more = if more.is_empty() { String::new() } else { format!("{}\n\n", more.trim_end()) };
        if has_command {
            return format!("/{COMMAND} {}\n\n{more}", self.id).trim_end().to_owned();
        }
        format!(
            "# {}\n\n{more}Implement the requirements of {}, from {}:\n\n{}",
            self.title,
            self.id,
            self.shown,
            self.text.trim()
        )
    }

    /// The dependencies that are tasks here. Documents that were done without Regatta are named in a warning.
    pub(super) async fn stored_dependencies(
        &self,
        store: &dyn Store,
        warnings: &mut Vec<Diagnostic>,
    ) -> Result<Vec<TaskId>, Refusal> {
        let mut found = Vec::new();
        for id in &self.depends_on {
            match store.task(id).await {
                Ok(task) => found.push(task.spec.id),
                Err(StoreError::NotFound(_)) => {
                    let message = format!("depends on {id}, which is not a task here, so it is ignored");
                    let file = shown(&self.path);
                    warnings.push(
                        Diagnostic::warning(file, Pos::START, message)
                            .hinted("--deps IDS says what to wait for"),
                    );
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(found)
    }
}

/// Whether claude would know the command, in this project or for this user.
pub(super) fn has_command(root: &Path) -> bool {
    let own = std::env::var_os("CLAUDE_CONFIG_DIR").map(PathBuf::from);
    let own = own.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".claude")));
    let places = [Some(root.join(".claude")), own].into_iter().flatten();
    let files = [format!("commands/{COMMAND}.md"), format!("skills/{COMMAND}/SKILL.md")];
    places.flat_map(|place| files.each_ref().map(|file| place.join(file))).any(|file| file.is_file())
}

/// `title:` in the frontmatter, otherwise the first heading.
fn title(text: &str) -> Option<String> {
    let mut lines = text.lines();
    let has_frontmatter = lines.next().is_some_and(|line| line.trim_end() == "---");
    let frontmatter = lines.take_while(|line| has_frontmatter && line.trim_end() != "---");
    let named = frontmatter.filter_map(|line| line.strip_prefix("title:")).next();
    let heading = || text.lines().find_map(|line| line.strip_prefix("# "));
    let title = named.or_else(heading)?.trim().trim_matches(['"', '\'']).trim();
    (!title.is_empty()).then(|| title.to_owned())
}

/// The documents of a line `Depends on: PRD-1, PRD-2`, in any Markdown form, or of the list below it.
fn depends_on(text: &str) -> Vec<TaskId> {
    let mut found = Vec::new();
    let mut in_list = false;
    for line in text.lines() {
        let bare = line.trim_start_matches(|c: char| !c.is_alphanumeric());
        let lower = bare.to_ascii_lowercase();
        let names = ["depends on", "depends_on", "depends-on"].iter().find_map(|name| {
            let rest = lower.strip_prefix(name)?;
            let after = rest.trim_start_matches(['*', '_', '`', ' ']);
            after.starts_with(':').then(|| &bare[bare.len() - after.len()..])
        });
        let named = match names {
            Some(named) => named,
            None if in_list && (line.trim_start().starts_with(['-', '*']) || line.trim().is_empty()) => line,
            None => {
                in_list = false;
                continue;
            }
        };
        let ids = ids(named);
        in_list = in_list || names.is_some() && ids.is_empty();
        found.extend(ids);
    }
    let mut seen = std::collections::BTreeSet::new();
    found.retain(|id: &TaskId| seen.insert(id.folded()));
    found
}

fn ids(text: &str) -> Vec<TaskId> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
    let named = words.filter_map(number).map(|(digits, _)| format!("PRD-{digits}"));
    named.filter_map(|id| TaskId::parse(&id).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_and_dependencies_are_read_in_whichever_dress() {
        let check = |text: &str, expected_title: Option<&str>, expected: &[&str]| {
            assert_eq!(title(text).as_deref(), expected_title, "{text}");
            let found: Vec<String> = depends_on(text).iter().map(ToString::to_string).collect();
            assert_eq!(found, expected, "{text}");
        };
        check(
            "---\ntitle: \"Log in\"\nDepends on: PRD-001, prd-2\n---\n# Other\n",
            Some("Log in"),
            &["PRD-001", "PRD-2"],
        );
        check(
            "# Log in\n\n**Depends on:** [PRD-009](PRD-009-x.md), PRD-8\n",
            Some("Log in"),
            &["PRD-009", "PRD-8"],
        );
        check("---\ndepends_on:\n  - PRD-3\n  - PRD-4\nother: PRD-5\n---\ntext", None, &["PRD-3", "PRD-4"]);
        check("# A\nDepends on: none\nsee PRD-7\n- PRD-6\n", Some("A"), &[]);
        check("no heading, and it depends on PRD-1 only in words", None, &[]);
    }

    #[test]
    fn a_number_ends_where_its_digits_end() {
        assert_eq!(number("PRD-010-login"), Some(("010", "-login")));
        assert_eq!(number("prd-10"), Some(("10", "")));
        assert_eq!(number("PRD-"), None);
        assert_eq!(number("APRD-1"), None);
    }
}
