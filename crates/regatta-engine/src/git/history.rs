//! Commits and the differences between them.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use super::{GitError, Oid, Work, oid_line};

/// A commit as it is replayed or shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedCommit {
    /// Its id.
    pub oid: Oid,
    /// Its tree.
    pub tree: Oid,
    /// Its parents, the first one first.
    pub parents: Vec<Oid>,
    /// Author's name.
    pub author_name: String,
    /// Author's address.
    pub author_email: String,
    /// Author's date as git stores it: seconds and time zone.
    pub author_date: String,
    /// The whole message.
    pub message: Vec<u8>,
}

impl LoggedCommit {
    /// The first line.
    pub fn subject(&self) -> String {
        String::from_utf8_lossy(&self.message).lines().next().unwrap_or_default().to_owned()
    }
}

/// The entry of an index or a tree at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) mode: String,
    pub(crate) oid: String,
}

impl Entry {
    fn of(mode: &str, oid: &str) -> Option<Self> {
        (mode != "000000").then(|| Self { mode: mode.to_owned(), oid: oid.to_owned() })
    }

    /// Parses `<mode> <id> <stage> TAB <path>` of `git ls-files -s`; `None` for one side of a conflict.
    pub(crate) fn listed(line: &[u8]) -> Option<(PathBuf, Self)> {
        let tab = line.iter().position(|b| *b == b'\t')?;
        let head = std::str::from_utf8(&line[..tab]).ok()?;
        let mut words = head.split(' ');
        let (mode, oid, stage) = (words.next()?, words.next()?, words.next()?);
        let path = OsStr::from_bytes(&line[tab + 1..]).into();
        (stage == "0").then(|| (path, Self { mode: mode.to_owned(), oid: oid.to_owned() }))
    }
}

/// A path that differs between two commits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shift {
    pub(crate) path: PathBuf,
    pub(crate) old: Option<Entry>,
    pub(crate) new: Option<Entry>,
}

impl Shift {
    pub(crate) fn is_submodule(&self) -> bool {
        [&self.old, &self.new].into_iter().flatten().any(|entry| entry.mode == "160000")
    }
}

/// A list of paths that end with a zero byte.
pub(crate) fn paths(listed: &[u8]) -> std::collections::BTreeSet<PathBuf> {
    listed.split(|b| *b == 0).filter(|p| !p.is_empty()).map(|p| OsStr::from_bytes(p).into()).collect()
}

const FORMAT: &str = "--format=%H%x00%T%x00%P%x00%an%x00%ae%x00%ad%x00%B";
const FIELDS: usize = 7;

impl Work {
    /// Commits of `head` that are not in `base`, oldest first.
    pub fn commits_between(&self, base: &Oid, head: &Oid) -> Result<Vec<LoggedCommit>, GitError> {
        self.commits_beyond(&[base], head)
    }

    /// Commits of `head` that are in none of `known`, parents before children.
    pub(crate) fn commits_beyond(&self, known: &[&Oid], head: &Oid) -> Result<Vec<LoggedCommit>, GitError> {
        let command = (self.bare())
            .args([
                "log",
                "-z",
                "--topo-order",
                "--reverse",
                "--no-show-signature",
                "--date=raw",
                "--encoding=UTF-8",
            ])
            .args(["--no-decorate", "--no-color", "--no-notes", "--no-mailmap", FORMAT])
            .arg(head)
            .args(known.iter().map(|oid| format!("^{oid}")))
            .arg("--");
        let listed = command.bytes()?;
        let fields: Vec<&[u8]> = listed.strip_suffix(b"\0").unwrap_or(&listed).split(|b| *b == 0).collect();
        if listed.is_empty() {
            return Ok(Vec::new());
        }
        fields.chunks(FIELDS).map(logged).collect()
    }

    /// The tree that a commit names, read from the object itself; `None` if the commit does not exist.
    pub(crate) fn stored_tree(&self, commit: &Oid) -> Result<Option<Oid>, GitError> {
        let ran = self.bare().args(["cat-file", "commit"]).arg(commit).run()?;
        let line = ran.stdout.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let tree = line.strip_prefix(b"tree ").filter(|_| ran.code == Some(0));
        tree.map(oid_line).transpose()
    }

    /// Paths that differ between two commits or trees.
    pub fn paths_between(&self, from: &Oid, to: &Oid) -> Result<Vec<PathBuf>, GitError> {
        self.named_between(from, to, &[])
    }

    /// Paths that exist in `to` but not in `from`.
    pub(crate) fn paths_added(&self, from: &Oid, to: &Oid) -> Result<Vec<PathBuf>, GitError> {
        self.named_between(from, to, &["--diff-filter=A"])
    }

    /// Every path that differs, with its old and new entry.
    pub(crate) fn shifts_between(&self, from: &Oid, to: &Oid) -> Result<Vec<Shift>, GitError> {
        if from == to {
            return Ok(Vec::new());
        }
        let flags = ["diff-tree", "-r", "-z", "--raw", "--no-abbrev", "--no-renames"];
        let listed = self.bare().args(flags).arg(from).arg(to).arg("--").bytes()?;
        let mut fields = listed.split(|b| *b == 0).filter(|field| !field.is_empty());
        let mut shifts = Vec::new();
        while let Some(field) = fields.next() {
            // `:<old mode> <new mode> <old id> <new id> <letter>`
            let text = String::from_utf8_lossy(field).into_owned();
            let words: Vec<&str> = text.trim_start_matches(':').split(' ').collect();
            let (&[old_mode, new_mode, old, new, _], Some(path)) = (words.as_slice(), fields.next()) else {
                let what = "a change without its path".to_owned();
                return Err(GitError::Unexpected { command: "git diff-tree".into(), what });
            };
            let path = OsStr::from_bytes(path).into();
            shifts.push(Shift { path, old: Entry::of(old_mode, old), new: Entry::of(new_mode, new) });
        }
        Ok(shifts)
    }

    fn named_between(&self, from: &Oid, to: &Oid, extra: &[&str]) -> Result<Vec<PathBuf>, GitError> {
        if from == to {
            return Ok(Vec::new());
        }
        let command = self.bare().args(["diff-tree", "-r", "-z", "--name-only", "--no-renames"]).args(extra);
        let listed = command.arg(from).arg(to).arg("--").bytes()?;
        Ok(listed.split(|b| *b == 0).filter(|p| !p.is_empty()).map(|p| OsStr::from_bytes(p).into()).collect())
    }

    /// Files with conflict markers at `to` that had none at `from`: first the existing files, then the new ones. Only
    /// differing files are read.
    pub(crate) fn files_newly_marked(
        &self,
        from: &Oid,
        to: &Oid,
    ) -> Result<(Vec<PathBuf>, Vec<PathBuf>), GitError> {
        let touching = |mark: &str| self.named_between(from, to, &["--no-textconv", &format!("-G^{mark} ")]);
        let mut marked = touching("<<<<<<<")?;
        if marked.is_empty() {
            return Ok((Vec::new(), Vec::new()));
        }
        let ends = touching(">>>>>>>")?;
        marked.retain(|file| ends.contains(file));
        let named: Vec<String> = marked.iter().filter_map(|file| Some(file.to_str()?.to_owned())).collect();
        let before = self.files_with_marks(from, &named)?;
        let now = self.files_with_marks(to, &named)?;
        let added = self.paths_added(from, to)?;
        let news = now.into_iter().filter(|file| !before.contains(file));
        Ok(news.partition(|file| !added.contains(file)))
    }

    /// The files among these that contain conflict markers.
    pub(crate) fn files_with_marks(&self, commit: &Oid, files: &[String]) -> Result<Vec<PathBuf>, GitError> {
        if files.is_empty() {
            return Ok(Vec::new());
        }
        let command =
            self.bare().args(["grep", "-z", "-l", "-I", "-E", "-e", "^(<{7}|>{7})( |$)"]).arg(commit);
        let ran = command.arg("--").args(files.iter().map(|file| format!(":(literal,top){file}"))).run()?;
        let prefix = format!("{commit}:").into_bytes();
        match ran.code {
            Some(0 | 1) => Ok(ran
                .stdout
                .split(|b| *b == 0)
                .filter_map(|name| name.strip_prefix(prefix.as_slice()))
                .map(|name| OsStr::from_bytes(name).into())
                .collect()),
            _ => Err(ran.into_error()),
        }
    }

    /// The changes to these files, as a patch.
    pub(crate) fn diff_of(&self, from: &Oid, to: &Oid, paths: &[PathBuf]) -> Result<Vec<u8>, GitError> {
        let plain = ["diff-tree", "-p", "--no-ext-diff", "--no-textconv", "--no-color", "--no-renames"];
        let command = self.bare().set("core.quotePath=false").args(plain).arg(from).arg(to).arg("--");
        command
            .args(paths.iter().map(|path| {
                let mut literal = std::ffi::OsString::from(":(literal,top)");
                literal.push(path);
                literal
            }))
            .bytes()
    }

    /// The difference between two commits or trees as a patch, without running any external program.
    pub fn diff(&self, from: &Oid, to: &Oid) -> Result<Vec<u8>, GitError> {
        let flags =
            ["diff-tree", "-r", "-p", "--no-ext-diff", "--no-textconv", "--no-color", "--find-renames"];
        self.bare().args(flags).arg(from).arg(to).arg("--").bytes()
    }
}

fn logged(fields: &[&[u8]]) -> Result<LoggedCommit, GitError> {
    let &[oid, tree, parents, name, email, date, message] = fields else {
        return Err(GitError::Unexpected {
            command: "git log".into(),
            what: "a record with missing fields".into(),
        });
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(LoggedCommit {
        oid: Oid::parse(&text(oid))?,
        tree: Oid::parse(&text(tree))?,
        parents: text(parents).split_whitespace().map(Oid::parse).collect::<Result<_, _>>()?,
        author_name: text(name),
        author_email: text(email),
        author_date: format!("@{}", text(date)),
        message: message.to_vec(),
    })
}
