//! Git's complaints about objects that break its own rules, told with the path of the object.

use std::collections::BTreeMap;

use super::{GitCommand, GitError, Oid};

/// Git's complaint about one object.
pub(crate) struct Complaint {
    object: String,
    rule: String,
    words: String,
}

impl Complaint {
    /// Parses `error: object <id>: <rule>: <words>`.
    pub(crate) fn of(stderr: &str) -> Option<Self> {
        stderr.lines().find_map(|line| {
            let (_, rest) = line.split_once("object ")?;
            let mut parts = rest.splitn(3, ": ");
            let (object, rule, words) = (parts.next()?, parts.next()?, parts.next()?);
            let object = object.split(' ').next()?;
            let is_rule = !rule.is_empty() && rule.bytes().all(|byte| byte.is_ascii_alphanumeric());
            (Oid::parse(object).is_ok() && is_rule).then(|| Self {
                object: object.to_owned(),
                rule: rule.to_owned(),
                words: words.to_owned(),
            })
        })
    }

    /// The complaint as a sentence. `git` makes a command that reads the objects of `heads`.
    pub(crate) fn told(
        &self,
        git: &dyn Fn() -> GitCommand,
        known: &[&Oid],
        heads: &[&Oid],
    ) -> Result<String, GitError> {
        let places = new_objects(&git(), known, heads)?;
        let place = match places.get(&self.object).map(String::as_str) {
            None => format!("commit {}", &self.object[..self.object.len().min(12)]),
            Some("") => self.entry(git, "")?.unwrap_or_else(|| "its top directory".to_owned()),
            Some(path) => self.entry(git, path)?.unwrap_or_else(|| path.to_owned()),
        };
        Ok(format!("git's own checks refuse what it committed, in {place}: {} ({})", self.words, self.rule))
    }

    /// The entry of a directory that is not allowed there.
    fn entry(&self, git: &dyn Fn() -> GitCommand, path: &str) -> Result<Option<String>, GitError> {
        if !self.rule.starts_with("has") {
            return Ok(None);
        }
        let ran = git().args(["ls-tree", "-z", "--name-only"]).arg(&self.object).run()?;
        let names = String::from_utf8_lossy(&ran.stdout).into_owned();
        let odd = |name: &&str| {
            matches!(*name, "." | "..") || name.to_lowercase().starts_with(".git") || name.contains('~')
        };
        Ok(names.split('\0').find(odd).map(|name| match path {
            "" => name.to_owned(),
            path => format!("{path}/{name}"),
        }))
    }
}

/// New trees and files by id, each with a path. The top directory has none; commits are not included.
pub(crate) fn new_objects(
    git: &GitCommand,
    known: &[&Oid],
    heads: &[&Oid],
) -> Result<BTreeMap<String, String>, GitError> {
    let command = git.clone().args(["rev-list", "--objects"]).args(heads);
    let listed = command.args(known.iter().map(|oid| format!("^{oid}"))).arg("--").bytes()?;
    let listed = String::from_utf8_lossy(&listed).into_owned();
    let pairs = listed.lines().filter_map(|line| line.split_once(' '));
    Ok(pairs.map(|(oid, path)| (oid.to_owned(), path.to_owned())).collect())
}
