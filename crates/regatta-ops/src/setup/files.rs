//! Regatta's files among the user's.
//!
//! Invariant: a file is replaced or removed only if it is byte for byte as Regatta wrote it: its last line has the hash
//! of everything above. All other files are the user's, and stay.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use regatta_engine::files::{self, Durability};
use regatta_engine::tokens::token_hash as sha256;

use crate::refusal::Refusal;

const BEGIN: &str = "<!-- written by `regatta setup`, which replaces it while nobody has edited it; sha256 ";
const END: &str = " -->\n";

/// What is done, or was done, with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileDone {
    /// It did not exist.
    Written,
    /// It was an older version of ours.
    Replaced,
    /// It is up to date.
    Current,
    /// It was ours.
    Removed,
    /// It does not exist.
    Absent,
    /// It is the user's, or was edited by the user.
    Kept,
}

/// One file, and what is done with it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct FileStep {
    pub path: PathBuf,
    pub done: FileDone,
    /// What is in the way, and what to do about it.
    pub why: Option<String>,
}

impl FileStep {
    pub(super) fn of(path: &Path, done: FileDone) -> Self {
        Self { path: path.to_owned(), done, why: None }
    }

    pub(super) fn kept(path: &Path, why: impl Into<String>) -> Self {
        Self { path: path.to_owned(), done: FileDone::Kept, why: Some(why.into()) }
    }
}

/// A text with our mark.
pub(super) fn marked(text: &str) -> String {
    let text = text.trim_end().to_owned() + "\n\n";
    let hash = sha256(&text);
    format!("{text}{BEGIN}{hash}{END}")
}

/// Whether a text is as some version of Regatta wrote it.
pub(super) fn is_ours(text: &str) -> bool {
    let Some((above, mark)) = text.rfind(BEGIN).map(|at| text.split_at(at)) else { return false };
    let hash = mark.strip_prefix(BEGIN).and_then(|rest| rest.strip_suffix(END));
    hash.is_some_and(|hash| hash == sha256(above))
}

/// Writes one of our files.
pub(super) fn put(path: &Path, text: &str, dry: bool) -> Result<FileStep, Refusal> {
    let text = marked(text);
    let done = match found(path)? {
        Existing::Nothing => FileDone::Written,
        Existing::Ours(there) if there == text => return Ok(FileStep::of(path, FileDone::Current)),
        Existing::Ours(_) => FileDone::Replaced,
        Existing::Users => return Ok(FileStep::kept(path, in_the_way(path))),
    };
    if !dry {
        write(path, &text)?;
    }
    Ok(FileStep::of(path, done))
}

/// Removes one of our files, and then empty directories up to `root`.
pub(super) fn take_away(path: &Path, root: &Path, dry: bool) -> Result<FileStep, Refusal> {
    match found(path)? {
        Existing::Nothing => Ok(FileStep::of(path, FileDone::Absent)),
        Existing::Users => {
            Ok(FileStep::kept(path, "it was edited, or is your own file: remove it yourself if you want to"))
        }
        Existing::Ours(_) => {
            if !dry {
                fs::remove_file(path).map_err(|error| Refusal::io("removing", path, &error))?;
                let above = path.ancestors().skip(1).take_while(|dir| dir.starts_with(root) && *dir != root);
                for dir in above {
                    // A directory that is not empty has other files in it.
                    if fs::remove_dir(dir).is_err() {
                        break;
                    }
                }
            }
            Ok(FileStep::of(path, FileDone::Removed))
        }
    }
}

fn in_the_way(path: &Path) -> String {
    format!("it was edited, or is your own file; `mv {0} {0}.mine` makes room for Regatta's", path.display())
}

enum Existing {
    Nothing,
    Ours(String),
    Users,
}

fn found(path: &Path) -> Result<Existing, Refusal> {
    // A symbolic link leads to a file that is not ours.
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Existing::Nothing),
        Err(error) => return Err(Refusal::io("looking at", path, &error)),
        Ok(meta) if !meta.is_file() => return Ok(Existing::Users),
        Ok(_) => {}
    }
    let bytes = fs::read(path).map_err(|error| Refusal::io("reading", path, &error))?;
    Ok(match String::from_utf8(bytes) {
        Ok(text) if is_ours(&text) => Existing::Ours(text),
        _ => Existing::Users,
    })
}

/// Writes a file atomically.
pub(super) fn write(path: &Path, text: &str) -> Result<(), Refusal> {
    let dir = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(dir).map_err(|error| Refusal::io("making", dir, &error))?;
    // The file may be private.
    let mode = fs::metadata(path).ok().map(|meta| meta.permissions().mode() & 0o7777);
    files::replace_as(path, text.as_bytes(), Durability::Durable, mode)
        .map_err(|error| Refusal::io("writing", path, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_ours_until_a_byte_of_it_changes() {
        let text = marked("---\nname: x\n---\n\nDo it.\n");
        assert!(is_ours(&text));
        assert!(!is_ours(&text.replace("Do it", "Do that")));
        assert!(!is_ours(&format!("{text}more\n")) && !is_ours(&format!(" {text}")));
        assert!(!is_ours("Do it.\n") && !is_ours(""));
    }
}
