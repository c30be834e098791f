//! Removes from a lane's commits what must not land: brought-in files, trailers that only Regatta writes, secrets in
//! messages.
//!
//! Invariant: the result depends only on the commits and the rules, never on how or when the work was done. A commit
//! that is fit to land stays as it is; from the others only the unfit part is removed.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use regatta_core::commit_message::{WITH, pin, without_trailers};
use regatta_core::id::TaskId;
use regatta_core::repos::RepoName;
use regatta_core::time::Timestamp;

use super::candidate::author_of;
use super::merge::write_commit;
use crate::git::{GitError, LoggedCommit, Oid, Work, io, oid_line};

/// What must not be in commits that land.
pub(super) struct Rules<'a> {
    /// Paths that were brought into the lane: nothing at or below them may land.
    pub(super) private: &'a BTreeSet<PathBuf>,
    /// Regatta's trailers may name only this task,
    pub(super) task: &'a TaskId,
    /// of no later attempt,
    pub(super) attempt: u32,
    /// and only these repositories beside its lane.
    pub(super) siblings: &'a BTreeMap<RepoName, Oid>,
    /// Removes secrets from a message.
    pub(super) mask: &'a dyn Fn(&str) -> String,
}

/// The commits as they may land.
#[derive(Debug)]
pub(super) struct Cleaned {
    /// The commit to land instead; the same one if nothing had to be removed.
    pub(super) head: Oid,
    /// Files that were removed.
    pub(super) taken_out: Vec<PathBuf>,
}

/// Cleans the commits of `head` that are in none of `known`.
pub(super) fn clean(work: &Work, known: &[&Oid], head: &Oid, rules: &Rules<'_>) -> Result<Cleaned, GitError> {
    let commits = work.commits_beyond(known, head)?;
    let leaks = leaks(work, known, head, rules.private)?;
    let mut trees: HashMap<Oid, Oid> = HashMap::new();
    let mut now: HashMap<Oid, Oid> = HashMap::new();
    let who = work.identity();
    for commit in &commits {
        let tree = match trees.get(&commit.tree) {
            Some(tree) => tree.clone(),
            None if leaks.is_empty() => commit.tree.clone(),
            None => without(work, &commit.tree, &leaks)?,
        };
        trees.insert(commit.tree.clone(), tree.clone());
        let message = reworded(commit, rules);
        let parents: Vec<Oid> =
            commit.parents.iter().map(|parent| now.get(parent).unwrap_or(parent).clone()).collect();
        if tree == commit.tree && message == commit.message && parents == commit.parents {
            continue;
        }
        // The commit contained nothing else.
        if let [parent] = &parents[..]
            && tree != commit.tree
            && work.tree_of(parent)? == tree
        {
            now.insert(commit.oid.clone(), parent.clone());
            continue;
        }
        let at = Timestamp::from_millis(authored(commit).saturating_mul(1000));
        let parents: Vec<&Oid> = parents.iter().collect();
        let written = write_commit(work, &tree, &parents, &author_of(commit), (&who, at), &message)?;
        now.insert(commit.oid.clone(), written);
    }
    let head = now.get(head).unwrap_or(head).clone();
    Ok(Cleaned { head, taken_out: leaks.into_iter().collect() })
}

fn reworded(commit: &LoggedCommit, rules: &Rules<'_>) -> Vec<u8> {
    let is_true = |key: &str, value: &str| match key {
        "Regatta-Task" => value == rules.task.as_str(),
        "Regatta-Attempt" => value.parse().is_ok_and(|n: u32| (1..=rules.attempt).contains(&n)),
        WITH => pin(value).is_some_and(|(name, commit)| rules.siblings.get(&name) == Some(&commit)),
        _ => false,
    };
    let message = without_trailers(&commit.message, is_true);
    let message = match std::str::from_utf8(&message) {
        Ok(text) => (rules.mask)(text).into_bytes(),
        Err(_) => message,
    };
    if message.trim_ascii().is_empty() && !commit.message.trim_ascii().is_empty() {
        return b"(no message)\n".to_vec();
    }
    message
}

/// Seconds of `@<seconds> <zone>`.
fn authored(commit: &LoggedCommit) -> i64 {
    let seconds = commit.author_date.trim_start_matches('@').split(' ').next();
    seconds.and_then(|seconds| seconds.parse().ok()).unwrap_or_default()
}

/// Private paths in any of the commits. A path tracked by a known commit is not private any more.
fn leaks(
    work: &Work,
    known: &[&Oid],
    head: &Oid,
    private: &BTreeSet<PathBuf>,
) -> Result<BTreeSet<PathBuf>, GitError> {
    if private.is_empty() {
        return Ok(BTreeSet::new());
    }
    let command = work.bare().set("log.showRoot=true").args(["log", "-z", "--format=", "--name-only", "-m"]);
    let command = command.args(["--no-renames", "--no-ext-diff", "--no-textconv", "--no-show-signature"]);
    let listed = command.arg(head).args(known.iter().map(|oid| format!("^{oid}"))).arg("--").bytes()?;
    let mut leaks: BTreeSet<PathBuf> =
        names(&listed).filter(|path| path.ancestors().any(|above| private.contains(above))).collect();
    if leaks.is_empty() {
        return Ok(leaks);
    }
    for commit in known {
        let listed =
            work.bare().args(["ls-tree", "-r", "-z", "--name-only", "--full-tree"]).arg(commit).bytes()?;
        for path in names(&listed) {
            leaks.remove(&path);
        }
    }
    Ok(leaks)
}

fn names(listed: &[u8]) -> impl Iterator<Item = PathBuf> {
    let named = listed.split(|byte| *byte == 0).map(|name| name.strip_prefix(b"\n").unwrap_or(name));
    named.filter(|name| !name.is_empty()).map(|name| OsStr::from_bytes(name).into())
}

/// The tree without these paths.
fn without(work: &Work, tree: &Oid, paths: &BTreeSet<PathBuf>) -> Result<Oid, GitError> {
    let index = work.scratch_path("clean-index");
    // Nothing is read from or written to this directory.
    let place = index.parent().unwrap_or(&index).to_owned();
    std::fs::create_dir_all(&place).map_err(io("create", &place))?;
    let git = || work.bare().durable().env("GIT_INDEX_FILE", &index).env("GIT_WORK_TREE", &place);
    let list: Vec<u8> = paths.iter().flat_map(|path| [path.as_os_str().as_bytes(), b"\0"].concat()).collect();
    let written = (|| {
        git().arg("read-tree").arg(tree).bytes()?;
        git().args(["update-index", "--force-remove", "-z", "--stdin"]).stdin(list).bytes()?;
        oid_line(&git().arg("write-tree").bytes()?)
    })();
    std::fs::remove_file(&index).ok();
    written
}
