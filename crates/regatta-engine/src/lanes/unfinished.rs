//! Unfinished git operations of an agent: the commits and the staged content that only git's state files name.
//!
//! An unfinished merge, rebase or cherry-pick keeps commits in files of the lane's git directory. They are removed with
//! the lane, so they are part of what is saved before.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::{Lane, Lanes};
use crate::git::{CommandPlace, GitError, Oid, copy_index, read_plain};

/// Largest of these files that is read.
const MAX_FILE: u64 = 4 << 20;
/// Files whose first word is a commit.
const HEADS: [&str; 5] =
    ["MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge/orig-head", "rebase-apply/orig-head"];
/// Lists of commits still to be picked, one per line after a verb.
const LISTS: [&str; 2] = ["rebase-merge/git-rebase-todo", "sequencer/todo"];

impl Lanes {
    /// The commits of an unfinished operation that neither `head` nor a ref holds.
    pub(super) fn begun_in(&self, lane: &Lane, head: &Oid) -> Result<Vec<Oid>, GitError> {
        let mut named: Vec<String> = Vec::new();
        let read = |name: &str| {
            let content = read_plain(&lane.git_dir.join(name), MAX_FILE).ok().flatten().unwrap_or_default();
            String::from_utf8_lossy(&content).into_owned()
        };
        for name in HEADS {
            named.extend(read(name).lines().map(|line| line.trim().to_owned()));
        }
        for name in LISTS {
            let words = |line: &str| line.split_whitespace().nth(1).map(str::to_owned);
            named.extend(read(name).lines().filter(|line| !line.starts_with('#')).filter_map(words));
        }
        let mut found: Vec<Oid> = Vec::new();
        for name in named {
            let is_id = name.len() >= 4 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
            // The files are the agent's: entries that are not commits are ignored.
            let Some(oid) = (if is_id { self.commit_named(lane, &name)? } else { None }) else { continue };
            if oid != *head && self.take_commits(lane, &[&oid]).is_err() {
                continue;
            }
            if !found.contains(&oid) && !self.work.is_ancestor(&oid, head)? && !self.is_held(&oid)? {
                found.push(oid);
            }
        }
        Ok(found)
    }

    fn commit_named(&self, lane: &Lane, name: &str) -> Result<Option<Oid>, GitError> {
        let name = format!("{name}^{{commit}}");
        let ran =
            self.reading(lane).args(["rev-parse", "--verify", "--quiet", "--end-of-options", &name]).run()?;
        if ran.code == Some(0) { crate::git::oid_line(&ran.stdout).map(Some) } else { Ok(None) }
    }

    /// The trees of the staged content. With conflicts there are two: our side and theirs.
    pub(super) fn staged_trees(
        &self,
        lane: &Lane,
        index: &Path,
    ) -> Result<Vec<(Oid, &'static str)>, GitError> {
        if let Some(tree) = self.write_tree(lane, index)? {
            return Ok(vec![(tree, "staged, then changed again")]);
        }
        let mut trees = Vec::new();
        for (side, what) in [(2, "staged, with our side of the conflicts"), (3, "staged, with their side")] {
            let scratch = self.work.scratch_path("salvage-side");
            let tree = (|| {
                copy_index(index, &scratch)?;
                self.take_side(lane, &scratch, side)?;
                self.write_tree(lane, &scratch)
            })();
            fs::remove_file(&scratch).ok();
            trees.extend(tree?.map(|tree| (tree, what)));
        }
        Ok(trees)
    }

    /// Resolves every conflict of an index to one side, or to whichever exists.
    fn take_side(&self, lane: &Lane, index: &Path, side: u8) -> Result<(), GitError> {
        let objects = self.work.objects_dir();
        let place = CommandPlace { worktree: &lane.path, index, objects: &objects, head: None };
        let listed = self.work.at_place(&place)?.args(["ls-files", "--unmerged", "-z"]).bytes()?;
        let mut chosen: BTreeMap<&[u8], (u8, &[u8])> = BTreeMap::new();
        for entry in listed.split(|byte| *byte == 0) {
            let Some(tab) = entry.iter().position(|byte| *byte == b'\t') else { continue };
            let (about, path) = (&entry[..tab], &entry[tab + 1..]);
            let (Some(stage), Some(space)) =
                (about.last().map(|digit| digit - b'0'), about.iter().rposition(|byte| *byte == b' '))
            else {
                continue;
            };
            let best = chosen.entry(path).or_insert((stage, &about[..space]));
            if stage == side {
                *best = (stage, &about[..space]);
            }
        }
        let mut script = Vec::new();
        for (path, (_, about)) in chosen {
            let zero = "0".repeat(about.len() - 7);
            script
                .extend([format!("0 {zero}\t").as_bytes(), path, b"\0", about, b"\t", path, b"\0"].concat());
        }
        let command = self.work.at_place(&place)?.args(["update-index", "-z", "--index-info"]);
        command.stdin(script).bytes().map(drop)
    }
}
