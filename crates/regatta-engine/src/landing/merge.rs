//! Merges trees and writes commits without a checkout.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use regatta_core::time::Timestamp;

use crate::git::{GitError, Identity, Oid, Work, oid_line};

/// The result of merging two commits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Merged {
    Tree(Oid),
    /// `marked` has the conflict markers in its files, as an editor would show them.
    Conflict {
        paths: Vec<PathBuf>,
        details: String,
        marked: Oid,
    },
}

/// Merges `theirs` into `ours`; `base` replaces the common ancestor when a single change is replayed.
pub(super) fn merge_trees(
    work: &Work,
    base: Option<&Oid>,
    ours: &Oid,
    theirs: &Oid,
) -> Result<Merged, GitError> {
    let mut command =
        work.bare().durable().args(["merge-tree", "--write-tree", "-z", "--allow-unrelated-histories"]);
    if let Some(base) = base {
        command = command.arg(format!("--merge-base={base}"));
    }
    let ran = command.arg(ours).arg(theirs).run()?;
    match ran.code {
        Some(0) => oid_line(ran.stdout.split(|b| *b == 0).next().unwrap_or_default()).map(Merged::Tree),
        Some(1) => conflict(&ran.stdout),
        _ => Err(ran.into_error()),
    }
}

/// Parses `<tree> NUL (<mode> <oid> <stage> TAB <path> NUL)* NUL (<n> NUL <path>{n} NUL <type> NUL <message> NUL)*`.
fn conflict(said: &[u8]) -> Result<Merged, GitError> {
    let mut fields = said.split(|b| *b == 0);
    let marked = oid_line(fields.next().unwrap_or_default())?;
    let mut paths: Vec<PathBuf> = Vec::new();
    for entry in fields.by_ref().take_while(|entry| !entry.is_empty()) {
        if let Some(at) = entry.iter().position(|b| *b == b'\t') {
            paths.push(OsStr::from_bytes(&entry[at + 1..]).into());
        }
    }
    let mut details = String::new();
    while let Some(count) = fields.next().and_then(|n| std::str::from_utf8(n).ok()?.parse::<usize>().ok()) {
        let named: Vec<&[u8]> = fields.by_ref().take(count).collect();
        let kind = fields.next().unwrap_or_default();
        let message = fields.next().unwrap_or_default();
        // "Auto-merging x" is not a conflict.
        if kind.starts_with(b"CONFLICT") {
            details.push_str(&String::from_utf8_lossy(message));
            // Conflicts of whole directories have no entry above; they are named only here.
            paths.extend(named.into_iter().map(|path| PathBuf::from(OsStr::from_bytes(path))));
        }
    }
    paths.sort();
    paths.dedup();
    Ok(Merged::Conflict { paths, details, marked })
}

/// The author of a commit, and the date, as git stores them.
#[derive(Clone, Debug)]
pub(super) struct Author<'a> {
    pub(super) name: &'a str,
    pub(super) email: &'a str,
    pub(super) date: &'a str,
}

/// A commit whose whole content is given: the same arguments produce the same id.
pub(super) fn write_commit(
    work: &Work,
    tree: &Oid,
    parents: &[&Oid],
    author: &Author<'_>,
    committer: (&Identity, Timestamp),
    message: &[u8],
) -> Result<Oid, GitError> {
    let (who, at) = committer;
    // Old history may have authors without a name, but git refuses to write one.
    let (name, email) = if author.name.trim().is_empty() {
        (who.name.as_str(), who.email.as_str())
    } else {
        (author.name, author.email)
    };
    let mut command = work.bare().durable().arg("commit-tree").arg(tree);
    for parent in parents {
        command = command.arg("-p").arg(parent);
    }
    let command = command
        .env("GIT_AUTHOR_NAME", name)
        .env("GIT_AUTHOR_EMAIL", email)
        .env("GIT_AUTHOR_DATE", author.date)
        .env("GIT_COMMITTER_NAME", &who.name)
        .env("GIT_COMMITTER_EMAIL", &who.email)
        .env("GIT_COMMITTER_DATE", git_date(at));
    let commit = oid_line(&command.args(["-F", "-"]).stdin(message).bytes()?)?;
    work.remember_tree(&commit, tree);
    Ok(commit)
}

/// An instant in git's internal date format, which it parses without guessing.
pub(super) fn git_date(at: Timestamp) -> String {
    format!("@{} +0000", at.seconds())
}
