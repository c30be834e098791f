//! Which files a tool is about to change, and how, from its input. Only a few lines, never the whole change.

use serde_json::Value;

use super::event::{AgentEvent, FileChange, clip};
use super::json::text;

/// Maximum number of lines kept of one file's change.
const MAX_LINES: usize = 40;
/// Maximum number of bytes kept of one file's change.
const MAX_BYTES: usize = 4 * 1024;
/// Longest line kept.
const MAX_LINE: usize = 400;
/// Maximum number of files reported for one call.
const MAX_FILES: usize = 20;
/// Longest path kept.
const MAX_PATH: usize = 1024;

/// One file that a tool changes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Edit {
    pub(super) path: String,
    pub(super) kind: FileChange,
    pub(super) diff: Diff,
}

impl Edit {
    pub(super) fn new(path: &str, kind: FileChange) -> Self {
        Self { path: clip(path, MAX_PATH), kind, diff: Diff::default() }
    }

    pub(super) fn event(self, cwd: Option<&str>, sub: bool) -> AgentEvent {
        let path = super::json::seen_from(&self.path, cwd).to_owned();
        AgentEvent::File { path, kind: self.kind, diff: self.diff.text, more: self.diff.more, sub }
    }
}

/// Lines prefixed with ` `, `-` or `+`, as many as are worth showing.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Diff {
    text: String,
    lines: usize,
    more: u32,
}

impl Diff {
    pub(super) fn push(&mut self, sign: char, line: &str) {
        if self.lines >= MAX_LINES || self.text.len() >= MAX_BYTES {
            self.more = self.more.saturating_add(1);
            return;
        }
        if self.lines > 0 {
            self.text.push('\n');
        }
        self.text.push(sign);
        self.text.push_str(&clip(line, MAX_LINE.min(MAX_BYTES.saturating_sub(self.text.len()).max(4))));
        self.lines += 1;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lines == 0
    }

    /// Replaces `old` by `new`: the common beginning and end are left out, except for one line of context.
    fn replaced(&mut self, old: &str, new: &str) {
        let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
        let same = |pair: &(&&str, &&str)| pair.0 == pair.1;
        let before = old.iter().zip(&new).take_while(same).count();
        let after = old[before..].iter().rev().zip(new[before..].iter().rev()).take_while(same).count();
        let (gone, come) = (&old[before..old.len() - after], &new[before..new.len() - after]);
        if let Some(line) = before.checked_sub(1).and_then(|at| old.get(at)) {
            self.push(' ', line);
        }
        // If both are long, each gets half of the room.
        let room = MAX_LINES.saturating_sub(self.lines);
        let shown = if come.is_empty() { room } else { room - come.len().min(room / 2) };
        for line in gone.iter().take(shown) {
            self.push('-', line);
        }
        self.more += u32::try_from(gone.len().saturating_sub(shown)).unwrap_or(u32::MAX);
        for line in come {
            self.push('+', line);
        }
        if let Some(line) = (after > 0).then(|| old.get(old.len() - after)).flatten() {
            self.push(' ', line);
        }
    }

    /// The lines of an existing patch, without its headers.
    pub(super) fn of_patch(text: &str) -> Self {
        let mut diff = Self::default();
        for line in text.lines() {
            let is_header = ["---", "+++", "@@", "diff ", "Index:", "index ", "=====", "\\ "]
                .iter()
                .any(|header| line.starts_with(header));
            let Some(sign) = line.chars().next().filter(|sign| matches!(sign, '+' | '-' | ' ')) else {
                continue;
            };
            if !is_header {
                diff.push(sign, &line[1..]);
            }
        }
        diff
    }
}

/// The files that a call of this tool changes, if it changes files.
pub(super) fn edits(tool: &str, input: &Value) -> Vec<Edit> {
    let either = |keys: [&str; 2]| keys.iter().find_map(|key| text(input, key));
    let path = || either(["file_path", "filePath"]).or_else(|| text(input, "path"));
    match tool.to_ascii_lowercase().as_str() {
        "write" | "write_file" => {
            let Some(path) = path() else { return Vec::new() };
            let mut edit = Edit::new(path, FileChange::Add);
            edit.diff.replaced("", text(input, "content").unwrap_or_default());
            vec![edit]
        }
        "edit" | "replace" => {
            let Some(path) = path() else { return Vec::new() };
            let mut edit = Edit::new(path, FileChange::Update);
            replace(&mut edit, input);
            vec![edit]
        }
        "multiedit" => {
            let Some(path) = path() else { return Vec::new() };
            let mut edit = Edit::new(path, FileChange::Update);
            for part in input.get("edits").and_then(Value::as_array).into_iter().flatten() {
                replace(&mut edit, part);
            }
            vec![edit]
        }
        "notebookedit" => {
            let Some(path) = text(input, "notebook_path") else { return Vec::new() };
            let mut edit = Edit::new(path, FileChange::Update);
            edit.diff.replaced("", text(input, "new_source").unwrap_or_default());
            vec![edit]
        }
        "patch" | "apply_patch" => {
            let patch = either(["patchText", "patch"]).or_else(|| text(input, "input"));
            patch.map(patched).unwrap_or_default()
        }
        _ => Vec::new(),
    }
}

fn replace(edit: &mut Edit, input: &Value) {
    let either = |keys: [&str; 2]| keys.iter().find_map(|key| text(input, key)).unwrap_or_default();
    edit.diff.replaced(either(["old_string", "oldString"]), either(["new_string", "newString"]));
}

/// The files of a patch in the form that codex and opencode's models write.
fn patched(patch: &str) -> Vec<Edit> {
    let mut edits: Vec<Edit> = Vec::new();
    for line in patch.lines() {
        let kinds = [
            ("*** Add File: ", FileChange::Add),
            ("*** Update File: ", FileChange::Update),
            ("*** Delete File: ", FileChange::Delete),
        ];
        let begun = kinds.iter().find_map(|(head, kind)| Some((line.strip_prefix(head)?, *kind)));
        if let Some((path, kind)) = begun {
            if edits.len() == MAX_FILES {
                break;
            }
            edits.push(Edit::new(path.trim(), kind));
        } else if let (Some(edit), Some(sign)) = (edits.last_mut(), line.chars().next())
            && matches!(sign, '+' | '-' | ' ')
        {
            edit.diff.push(sign, &line[1..]);
        }
    }
    edits
}

/// The files of a list such as `[{"path": "a.rs", "kind": "add"}]`, in codex's form.
pub(super) fn listed(changes: &Value) -> Vec<Edit> {
    let changes = changes.as_array().map_or(&[][..], Vec::as_slice);
    let edit = |change: &Value| {
        let kind = match text(change, "kind")? {
            "add" => FileChange::Add,
            "delete" => FileChange::Delete,
            _ => FileChange::Update,
        };
        let mut edit = Edit::new(text(change, "path")?, kind);
        edit.diff = text(change, "diff").map(Diff::of_patch).unwrap_or_default();
        Some(edit)
    };
    changes.iter().filter_map(edit).take(MAX_FILES).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(tool: &str, input: Value, expected: &[(&str, FileChange, &str, u32)]) {
        let found = edits(tool, &input);
        let found: Vec<_> = found
            .iter()
            .map(|edit| (edit.path.as_str(), edit.kind, edit.diff.text.as_str(), edit.diff.more))
            .collect();
        assert_eq!(found, expected, "{tool} {input}");
    }

    #[test]
    fn each_agents_tools_that_change_files_tell_which_and_how() {
        use FileChange::{Add, Delete, Update};
        check("Write", json!({"file_path": "a", "content": "x\ny\n"}), &[("a", Add, "+x\n+y", 0)]);
        check("write_file", json!({"file_path": "a", "content": ""}), &[("a", Add, "", 0)]);
        check("write", json!({"filePath": "a", "content": "x"}), &[("a", Add, "+x", 0)]);
        let (old, new) = ("fn a() {\n    1\n}\nend\n", "fn a() {\n    2\n    3\n}\nend\n");
        let diff = " fn a() {\n-    1\n+    2\n+    3\n }";
        check(
            "Edit",
            json!({"file_path": "a", "old_string": old, "new_string": new}),
            &[("a", Update, diff, 0)],
        );
        check(
            "replace",
            json!({"file_path": "a", "old_string": old, "new_string": new}),
            &[("a", Update, diff, 0)],
        );
        check(
            "edit",
            json!({"filePath": "a", "oldString": old, "newString": new}),
            &[("a", Update, diff, 0)],
        );
        let parts = json!([{"old_string": "a", "new_string": "b"}, {"old_string": "c", "new_string": ""}]);
        check("MultiEdit", json!({"file_path": "a", "edits": parts}), &[("a", Update, "-a\n+b\n-c", 0)]);
        check("NotebookEdit", json!({"notebook_path": "n", "new_source": "1"}), &[("n", Update, "+1", 0)]);
        let patch = "*** Begin Patch\n*** Add File: a b\n+x\n*** Update File: c\n@@ fn\n-y\n+z\n*** Delete File: d\n*** End Patch";
        let expected = [("a b", Add, "+x", 0), ("c", Update, "-y\n+z", 0), ("d", Delete, "", 0)];
        check("apply_patch", json!({ "input": patch }), &expected);
        check("patch", json!({ "patchText": patch }), &expected);
        check("Bash", json!({"command": "rm a", "file_path": "a"}), &[]);
        check("Write", json!({"content": 7}), &[]);
    }

    #[test]
    fn a_change_is_told_in_few_lines_however_large_it_is() {
        let many = "a line\n".repeat(100_000);
        for input in [
            json!({"file_path": "a", "old_string": many, "new_string": ""}),
            json!({"file_path": "a", "old_string": "", "new_string": many}),
            json!({"file_path": "a", "old_string": many, "new_string": many.replace('a', "b")}),
            json!({"file_path": "a", "old_string": "", "new_string": "long ".repeat(1_000_000)}),
            json!({"file_path": "a".repeat(100_000), "old_string": "é".repeat(100_000), "new_string": "y"}),
        ] {
            let edit = edits("Edit", &input).remove(0);
            assert!(edit.diff.text.lines().count() <= MAX_LINES && edit.diff.text.len() <= MAX_BYTES + 8);
            assert!(edit.path.len() <= MAX_PATH);
        }
        let both = json!({"file_path": "a", "old_string": many, "new_string": many.replace('a', "b")});
        let edit = edits("Edit", &both).remove(0);
        let signs = |sign: char| edit.diff.text.lines().filter(|line| line.starts_with(sign)).count();
        assert_eq!((signs('-'), signs('+'), edit.diff.more), (20, 20, 199_960));
    }
}
