//! Reads git's configuration as a list, and writes a list out so that git reads the same values.

use super::{GitCommand, GitError};

/// One setting, in the order git applies them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    /// `system`, `global`, `local`, `worktree`.
    pub(crate) scope: String,
    /// Section and variable in lower case, the subsection as written.
    pub(crate) key: String,
    /// `None` for a bare `[x] y`, which git reads as true.
    pub(crate) value: Option<Vec<u8>>,
}

impl Setting {
    /// Section, subsection, variable.
    pub(crate) fn parts(&self) -> (&str, Option<&str>, &str) {
        let (section, rest) = self.key.split_once('.').unwrap_or((&self.key, ""));
        match rest.rsplit_once('.') {
            Some((subsection, name)) => (section, Some(subsection), name),
            None => (section, None, rest),
        }
    }

    pub(crate) fn text(&self) -> String {
        self.value.as_deref().map_or_else(|| "true".to_owned(), |v| String::from_utf8_lossy(v).into_owned())
    }

    pub(crate) fn is_true(&self) -> bool {
        matches!(self.text().to_ascii_lowercase().as_str(), "true" | "yes" | "on" | "1")
    }
}

/// All effective settings, except those from the command line.
pub(crate) fn load(command: GitCommand) -> Result<Vec<Setting>, GitError> {
    let listed = command.args(["config", "--list", "-z", "--show-scope", "--includes"]).bytes()?;
    let mut fields = listed.split(|b| *b == 0);
    let mut settings = Vec::new();
    while let (Some(scope), Some(entry)) = (fields.next(), fields.next()) {
        let scope = String::from_utf8_lossy(scope).into_owned();
        if scope == "command" {
            continue;
        }
        let (key, value) = match entry.iter().position(|b| *b == b'\n') {
            Some(at) => (&entry[..at], Some(entry[at + 1..].to_vec())),
            None => (entry, None),
        };
        settings.push(Setting { scope, key: String::from_utf8_lossy(key).into_owned(), value });
    }
    Ok(settings)
}

/// The last value of `key`, which is the one git uses.
pub(crate) fn last<'a>(settings: &'a [Setting], key: &str) -> Option<&'a Setting> {
    settings.iter().rev().find(|setting| setting.key == key)
}

/// Writes settings as a file that git reads back as the same list.
pub(crate) fn render<'a>(settings: impl IntoIterator<Item = &'a Setting>) -> Vec<u8> {
    let mut out = Vec::new();
    for setting in settings {
        let (section, subsection, name) = setting.parts();
        out.extend_from_slice(b"[");
        out.extend_from_slice(section.as_bytes());
        if let Some(subsection) = subsection {
            out.extend_from_slice(b" \"");
            for byte in subsection.bytes() {
                if matches!(byte, b'"' | b'\\') {
                    out.push(b'\\');
                }
                out.push(byte);
            }
            out.push(b'"');
        }
        out.extend_from_slice(b"]\n\t");
        out.extend_from_slice(name.as_bytes());
        if let Some(value) = &setting.value {
            out.extend_from_slice(b" = \"");
            for byte in value {
                match byte {
                    b'"' | b'\\' => out.extend_from_slice(&[b'\\', *byte]),
                    b'\n' => out.extend_from_slice(b"\\n"),
                    b'\t' => out.extend_from_slice(b"\\t"),
                    _ => out.push(*byte),
                }
            }
            out.push(b'"');
        }
        out.push(b'\n');
    }
    out
}
