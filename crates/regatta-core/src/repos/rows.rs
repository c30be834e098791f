//! Adds rows to `repos` in the text of `regatta.yaml`: only lines are inserted, so comments and everything else stay as
//! they are.

use std::fmt::Write as _;

use super::RepoName;

/// A row to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRow {
    /// Its name.
    pub name: RepoName,
    /// Its directory, from the directory of the file.
    pub path: String,
    /// `owner/name` or an address.
    pub remote: Option<String>,
    /// The branch that work lands on.
    pub target: Option<String>,
    /// `auto`, or names of other rows.
    pub depends_on: Vec<String>,
    /// The word of `pull`.
    pub pull: Option<String>,
}

impl NewRow {
    /// The row as YAML, its first line with `indent` spaces before the dash.
    pub fn yaml(&self, indent: usize) -> String {
        let space = " ".repeat(indent);
        let mut text = format!("{space}- name: {}\n", scalar(self.name.as_str()));
        let mut key = |name: &str, value: &str| {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{space}  {name}: {value}");
        };
        key("path", &scalar(&self.path));
        if let Some(remote) = &self.remote {
            key("remote", &scalar(remote));
        }
        if let Some(target) = &self.target {
            key("target", &scalar(target));
        }
        match self.depends_on.as_slice() {
            [] => {}
            [only] if only == "auto" => key("depends_on", "auto"),
            names => {
                let names: Vec<String> = names.iter().map(|name| scalar(name)).collect();
                key("depends_on", &format!("[{}]", names.join(", ")));
            }
        }
        if let Some(pull) = &self.pull {
            key("pull", &scalar(pull));
        }
        text
    }
}

/// Why no row can be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RowError {
    /// The rows are in brackets, where lines cannot be inserted safely.
    #[error("the rows of `repos` are written in brackets")]
    InBrackets,
}

/// The text with the rows after the last one of `repos`, or in a `repos` of its own at the end.
pub fn add(text: &str, rows: &[NewRow]) -> Result<String, RowError> {
    let ending = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let Some(at) = lines.iter().position(|line| is_repos(line)) else {
        let mut whole = text.to_owned();
        if !whole.is_empty() {
            whole.push_str(if whole.ends_with('\n') { ending } else { "\n\n" });
        }
        whole.push_str("repos:\n");
        whole.extend(rows.iter().map(|row| row.yaml(2)));
        return Ok(whole.replace("\r\n", "\n").replace('\n', ending));
    };
    let value = lines[at].split_once(':').map_or("", |(_, value)| value);
    let value = value.split(" #").next().unwrap_or_default().trim();
    let is_empty = matches!(value, "" | "[]" | "~" | "null") || value.starts_with('#');
    if !is_empty {
        return Err(RowError::InBrackets);
    }
    let is_part = |line: &&str| {
        line.trim().is_empty()
            || line.starts_with([' ', '\t', '#'])
            || line.starts_with("- ")
            || line.trim() == "-"
    };
    let block: Vec<&str> = lines[at + 1..].iter().copied().take_while(is_part).collect();
    let is_content = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
    let first = block.iter().find(|line| is_content(line));
    if first.is_some_and(|line| !line.trim_start().starts_with('-')) {
        return Err(RowError::InBrackets);
    }
    let indent = first.map_or(2, |line| line.len() - line.trim_start().len());
    let used = block.iter().rposition(is_content).map_or(0, |last| last + 1);
    let mut whole: String = lines[..at].concat();
    let head = lines[at];
    // `repos: []` becomes `repos:`; a comment behind it stays.
    whole.push_str(&if matches!(value, "[]" | "~" | "null") {
        head.replacen(&format!(" {value}"), "", 1)
    } else {
        head.to_owned()
    });
    whole.push_str(&block[..used].concat());
    if !whole.ends_with('\n') {
        whole.push_str(ending);
    }
    for row in rows {
        whole.push_str(&row.yaml(indent).replace('\n', ending));
    }
    whole.push_str(&lines[at + 1 + used..].concat());
    Ok(whole)
}

fn is_repos(line: &str) -> bool {
    line.strip_prefix("repos").is_some_and(|rest| rest.trim_start_matches(' ').starts_with(':'))
}

/// A text that YAML reads back as itself.
fn scalar(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | '~' | '@');
    let reads_as_text = text.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '/' | '.'))
        && text.chars().all(is_plain)
        && text.chars().any(|c| c.is_ascii_alphabetic() || c == '/')
        && !matches!(
            text.to_ascii_lowercase().as_str(),
            "true" | "false" | "null" | "yes" | "no" | "on" | "off" | "y" | "n" | ".nan" | ".inf"
        );
    if reads_as_text { text.to_owned() } else { serde_json::Value::from(text).to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, path: &str) -> NewRow {
        let name = RepoName::parse(name).unwrap();
        NewRow { name, path: path.into(), remote: None, target: None, depends_on: Vec::new(), pull: None }
    }

    #[track_caller]
    fn added(text: &str) -> String {
        let new = add(text, &[row("web", "../web")]).unwrap();
        let (config, diagnostics) = crate::config::parse("regatta.yaml", &new);
        assert!(diagnostics.is_empty(), "{diagnostics:?}\n{new}");
        assert_eq!(config.repos.last().unwrap().path, "../web", "{new}");
        new
    }

    #[test]
    fn rows_are_inserted_and_nothing_else_changes() {
        let block = "  - name: web\n    path: ../web\n";
        assert_eq!(added(""), format!("repos:\n{block}"));
        assert_eq!(added("max_workers: 2 # two"), format!("max_workers: 2 # two\n\nrepos:\n{block}"));
        assert_eq!(added("max_workers: 2\n"), format!("max_workers: 2\n\nrepos:\n{block}"));
        assert_eq!(
            added("repos: [] # none yet\nmax_workers: 2\n"),
            format!("repos: # none yet\n{block}max_workers: 2\n")
        );
        let text = "# mine\nrepos: # all\n  # the library\n  - name: shared # first\n    path: ../shared\n\n# workers\nmax_workers: 2\n";
        let expected = text.replace("    path: ../shared\n", &format!("    path: ../shared\n{block}"));
        assert_eq!(added(text), expected);
        assert_eq!(
            added("repos:\n- name: a\nmax_workers: 2\n"),
            "repos:\n- name: a\n- name: web\n  path: ../web\nmax_workers: 2\n"
        );
        assert_eq!(
            added("repos:\n    - name: a"),
            "repos:\n    - name: a\n    - name: web\n      path: ../web\n"
        );
        assert_eq!(
            added("repos:\r\n  - name: a\r\n"),
            "repos:\r\n  - name: a\r\n  - name: web\r\n    path: ../web\r\n"
        );
    }

    #[test]
    fn rows_in_brackets_are_left_to_the_user() {
        for text in ["repos: [{ name: a }]\n", "repos:\n  [{ name: a }]\n"] {
            assert_eq!(add(text, &[row("web", "../web")]), Err(RowError::InBrackets), "{text}");
        }
    }

    #[test]
    fn every_value_is_read_back() {
        for path in ["../a b", "../x: y", "~/src/x", "#1", "/srv/ü", "- x", "\"q\"", "on", "../a'b", "{x}"] {
            let new = NewRow {
                remote: Some("git@host:acme/api.git".into()),
                target: Some("1.0".into()),
                depends_on: vec!["other".into()],
                pull: Some("auto".into()),
                ..row("no", path)
            };
            let text = add("repos:\n- name: other\n", &[new]).unwrap();
            let (config, diagnostics) = crate::config::parse("regatta.yaml", &text);
            assert!(diagnostics.is_empty(), "{diagnostics:?}\n{text}");
            let read = &config.repos[1];
            assert_eq!((read.path.as_str(), read.target.as_deref()), (path, Some("1.0")), "{text}");
            assert_eq!(read.remote.as_deref(), Some("git@host:acme/api.git"));
        }
    }
}
