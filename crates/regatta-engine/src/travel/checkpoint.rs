//! Checkpoints: unfinished work of a running attempt, saved at the hub.
//!
//! Invariant: a checkpoint changes nothing in the lane, and has nothing that a commit of the task must not have: files
//! that were copied into the lane stay out, and a lane whose commits have some of them is not saved. It is a commit on
//! the lane's HEAD whose tree is everything that git sees and does not ignore.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use regatta_core::time::Timestamp;
use regatta_store::Claim;

use crate::clock;
use crate::context::Context;
use crate::git::{GitCommand, GitError, Oid, Quarantine, Work, oid_line};
use crate::hub::{Answer, Hub, Move, names};
use crate::lanes::{Capture, Captured, Lane};
use crate::persist::for_test;

/// The first line of a checkpoint's message.
const SUBJECT: &str = "regatta checkpoint";
/// The address of its author.
const ADDRESS: &str = "regatta@localhost";
/// The first line of the message of work that a capture found uncommitted.
const UNCOMMITTED: &str = "not committed yet";

/// Where the objects of checkpoints are made, in the state directory.
const DIRECTORY: &str = "checkpoints";
/// What an engine that was killed left there is removed after this time.
const LEFT: Duration = Duration::from_secs(24 * 3600);

/// Removes what engines that were killed left.
pub(super) fn sweep(state_dir: &Path) {
    for entry in std::fs::read_dir(state_dir.join(DIRECTORY)).into_iter().flatten().flatten() {
        let changed = entry.metadata().and_then(|meta| meta.modified());
        if changed.is_ok_and(|at| at.elapsed().is_ok_and(|age| age > LEFT)) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Work that was saved at the hub, as a lane is made from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SavedWork {
    /// The attempt that made it.
    pub(crate) attempt: u32,
    /// The commit its lane started from.
    pub(crate) base: Oid,
    /// Its last commit.
    pub(crate) head: Oid,
    /// The files beyond that commit.
    pub(crate) tree: Option<Oid>,
    /// When it was saved, if it is a checkpoint.
    pub(crate) at: Option<Timestamp>,
}

impl SavedWork {
    /// Work that was committed.
    pub(super) fn committed(base: &Oid, head: &Oid) -> Self {
        Self { attempt: 0, base: base.clone(), head: head.clone(), tree: None, at: None }
    }
}

/// What a commit says of itself.
struct Said {
    subject: String,
    address: String,
    at: Timestamp,
    tree: Oid,
    parent: Option<Oid>,
}

fn said(command: GitCommand, commit: &Oid) -> Result<Said, GitError> {
    let format = "--format=%T%n%P%n%ct%n%ae%n%s";
    let text = command.args(["log", "-1", "--no-show-signature", format]).arg(commit).text()?;
    let mut lines = text.lines();
    let mut next = || lines.next().unwrap_or_default().to_owned();
    let (tree, parents, at, address, subject) = (next(), next(), next(), next(), next());
    Ok(Said {
        subject,
        address,
        at: Timestamp::from_millis(at.parse::<i64>().unwrap_or(0) * 1000),
        tree: Oid::parse(&tree)?,
        parent: parents.split(' ').next().filter(|parent| !parent.is_empty()).map(Oid::parse).transpose()?,
    })
}

/// The work in a checkpoint, or in a commit that is none.
pub(crate) fn read_checkpoint(work: &Work, base: &Oid, commit: &Oid) -> Result<SavedWork, GitError> {
    let said = said(work.bare(), commit)?;
    let plain = SavedWork::committed(base, commit);
    Ok(match said.parent {
        Some(head) if said.subject == SUBJECT && said.address == ADDRESS => {
            SavedWork { head, tree: Some(said.tree), at: Some(said.at), ..plain }
        }
        _ => plain,
    })
}

/// The checkpoints of one attempt.
pub(crate) struct Checkpoints {
    ctx: Arc<Context>,
    hub: Hub,
    lane: Lane,
    /// Its ref at the hub.
    name: String,
    /// Where their objects are made.
    dir: PathBuf,
    saved: Mutex<Saved>,
}

#[derive(Default)]
struct Saved {
    /// The value of the ref at the hub.
    at_hub: Option<Oid>,
    capture: Option<Capture>,
    /// What was captured.
    commit: Option<Oid>,
}

/// The result of saving a lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// It is at the hub.
    Saved,
    /// Nothing has changed since the last checkpoint.
    Unchanged,
    /// Only a part of it was saved, or nothing, for this reason.
    NotAll(String),
}

impl Checkpoints {
    /// The checkpoints of an attempt, if clones exchange work.
    pub(crate) fn of(ctx: &Arc<Context>, claim: &Claim, lane: &Lane) -> Option<Arc<Self>> {
        let hub = ctx.shared_hub()?;
        let own = format!("{}.{}.{}", claim.task, claim.attempt, claim.fence);
        let dir = ctx.repository.state_dir.join(DIRECTORY).join(own);
        Some(Arc::new(Self {
            ctx: ctx.clone(),
            hub,
            lane: lane.clone(),
            name: names::wip(&claim.task, claim.attempt, claim.fence),
            dir,
            saved: Mutex::default(),
        }))
    }

    /// Saves the lane until the task is dropped.
    pub(crate) async fn keep_on(self: Arc<Self>) {
        let configured = self.ctx.settings.config.hub_checkpoint;
        let Some(interval) = for_test("REGATTA_TEST_CHECKPOINT_MS").or(configured) else {
            return std::future::pending().await;
        };
        let interval = interval.max(Duration::from_millis(50));
        let mut told = String::new();
        loop {
            tokio::time::sleep(interval).await;
            let why = match self.save_now().await {
                Ok(Kept::Saved | Kept::Unchanged) => String::new(),
                Ok(Kept::NotAll(why)) => why,
                Err(error) => format!("could not {error}"),
            };
            if !why.is_empty() && why != told {
                let task = &self.lane.task;
                self.ctx.say(format!("{task}: its unfinished work is not all saved at the hub: {why}"));
            }
            told = why;
        }
    }

    /// Saves the lane.
    pub(crate) async fn save_now(self: &Arc<Self>) -> Result<Kept, GitError> {
        let own = self.clone();
        tokio::task::spawn_blocking(move || own.save()).await.expect("saving does not panic")
    }

    fn save(&self) -> Result<Kept, GitError> {
        // One at a time: an attempt that ends waits for the checkpoint under way.
        let mut saved = self.saved.lock().unwrap_or_else(PoisonError::into_inner);
        let (lanes, work) = (&self.ctx.repository.lanes, &self.ctx.repository.work);
        let quarantine = Quarantine::open(&self.dir)?;
        let (commit, capture, mut left_out) =
            match lanes.capture(&self.lane, &quarantine, saved.capture.as_ref())? {
                Captured::Work(capture) => (capture.commit.clone(), Some(capture), None),
                Captured::Named { head, why, .. } => (head, None, Some(why)),
            };
        if capture.is_some() {
            saved.capture = capture;
        }
        let kept = |why: Option<String>, otherwise| why.map_or(otherwise, Kept::NotAll);
        let is_new = saved.commit.as_ref() != Some(&commit) && commit != self.lane.base;
        if !is_new {
            return Ok(kept(left_out, Kept::Unchanged));
        }
        if let Some(path) = self.private_in(&quarantine, &commit)? {
            left_out = Some(format!("it committed {path}, which was copied into its lane"));
            return Ok(kept(left_out, Kept::Unchanged));
        }
        let of = said(quarantine.bare(work), &commit)?;
        let head = match of.parent {
            Some(head) if of.subject == UNCOMMITTED && of.address == ADDRESS => head,
            _ => commit.clone(),
        };
        let checkpoint = self.commit(&quarantine, &of.tree, &head)?;
        self.push(&mut saved, &quarantine, &checkpoint)?;
        saved.commit = Some(commit);
        Ok(kept(left_out, Kept::Saved))
    }

    /// A file in its commits that was copied into the lane.
    fn private_in(&self, quarantine: &Quarantine, commit: &Oid) -> Result<Option<String>, GitError> {
        let private = self.ctx.repository.lanes.brought_in(&self.lane.task)?;
        let command = quarantine.bare(&self.ctx.repository.work);
        super::salvage::first_of(command, &private, &[&self.lane.base], commit)
    }

    fn commit(&self, quarantine: &Quarantine, tree: &Oid, head: &Oid) -> Result<Oid, GitError> {
        let command = quarantine.bare(&self.ctx.repository.work).arg("commit-tree");
        let mut command = command.arg(tree).arg("-p").arg(head);
        let date = format!("@{} +0000", clock::now().seconds());
        for role in ["AUTHOR", "COMMITTER"] {
            for (what, value) in [("NAME", "Regatta"), ("EMAIL", ADDRESS), ("DATE", date.as_str())] {
                command = command.env(&format!("GIT_{role}_{what}"), value);
            }
        }
        let message = format!("{SUBJECT}\n");
        oid_line(&command.args(["--no-gpg-sign", "-F", "-"]).stdin(message).bytes()?)
    }

    fn push(&self, saved: &mut Saved, quarantine: &Quarantine, checkpoint: &Oid) -> Result<(), GitError> {
        let away = |why| GitError::HubAway { hub: self.hub.name().to_owned(), why };
        // The second time, an engine that was adopted, or a push whose answer was lost, has moved it.
        for _ in 0..2 {
            let moving =
                Move { name: self.name.clone(), from: saved.at_hub.clone(), to: Some(checkpoint.clone()) };
            match self.hub.push_with(&[moving], false, &[quarantine.objects()])? {
                Answer::Done => {
                    saved.at_hub = Some(checkpoint.clone());
                    return Ok(());
                }
                Answer::Stale(_) => saved.at_hub = self.hub.read(&[&self.name])?.remove(&self.name),
                Answer::Refused(why) | Answer::Unknown(why) => return Err(away(why)),
            }
        }
        Err(GitError::RefMoved { name: self.name.clone(), now: saved.at_hub.clone() })
    }
}

impl Drop for Checkpoints {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}
