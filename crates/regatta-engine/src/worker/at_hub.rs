//! An attempt whose work travels through the hub: what is fetched before its lane is made, saved while its agent runs,
//! and pushed before it is settled.

use std::sync::Arc;
use std::time::Duration;

use regatta_core::attempt::Attempt;
use regatta_core::causes::with_causes;
use regatta_core::event::EventBody;
use regatta_core::exit::Exit;
use regatta_core::state::TaskState;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::follow_up::Unlanded;
use super::prepare::Bounced;
use super::{Site, Stop, Worker, WorkerError};
use crate::clock;
use crate::git::{GitError, Oid};
use crate::hub::{Hub, names};
use crate::lanes::{Lane, RetireMode, Retired};
use crate::persist::for_test;
use crate::travel::{self, Checkpoints, Kept, SavedWork};

/// The first pause before finished work is pushed again.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// How long an attempt that ends without finished work waits for its last checkpoint.
const LAST_CHECKPOINT: Duration = Duration::from_secs(60);

/// Checkpoints in the background; they end when it is dropped.
pub(crate) struct Saving {
    checkpoints: Arc<Checkpoints>,
    task: JoinHandle<()>,
}

impl Drop for Saving {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Worker {
    /// The target at the hub; `None` without a hub, or if the hub has no such branch yet.
    pub(super) async fn tip_at_hub(&self) -> Result<Option<Oid>, WorkerError> {
        let Some(hub) = self.ctx.shared_hub() else { return Ok(None) };
        let branch = names::branch(&self.ctx.repository.target);
        self.blocking(move |_| Ok(hub.fetch(&[&branch])?.remove(&branch))).await
    }

    /// Earlier attempts do not count after the task was started over.
    pub(super) async fn forget_started_over(&self, history: &mut Vec<Attempt>) -> Result<(), WorkerError> {
        if history.is_empty() {
            return Ok(());
        }
        let store = self.ctx.services.store.as_ref();
        let before = travel::started_over(store, &self.claim.task).await?;
        history.retain(|attempt| attempt.n > before);
        Ok(())
    }

    /// Fetches the work of dependencies that are done.
    pub(super) async fn fetch_dependencies(&self, hub: &Hub) -> Result<(), WorkerError> {
        let records = self.dependencies().await?;
        let mut wanted = Vec::new();
        for dependency in &self.claim.spec.deps {
            let met = records.get(dependency).and_then(|record| record.met());
            if let Some(TaskState::Done { head: Some(head), .. }) = met {
                wanted.push((dependency.clone(), head.clone()));
            }
        }
        let hub = hub.clone();
        self.blocking(move |ctx| travel::bring(&ctx.repository.work, &hub, &wanted)).await
    }

    /// Fetches this task's own commits that its lane will be made from.
    pub(super) async fn fetch_own(
        &self,
        hub: &Hub,
        unlanded: Option<&Unlanded>,
        bounced: Option<&Bounced>,
    ) -> Result<(), WorkerError> {
        let unlanded = unlanded.map(|unlanded| [unlanded.head.clone(), unlanded.base.clone()]);
        let bounced = bounced.map(|bounced| [bounced.head.clone(), bounced.base.clone()]);
        let commits = unlanded.into_iter().chain(bounced).flatten();
        let wanted: Vec<_> = commits.map(|commit| (self.claim.task.clone(), commit)).collect();
        let hub = hub.clone();
        self.blocking(move |ctx| travel::bring(&ctx.repository.work, &hub, &wanted)).await
    }

    /// Gives up the lane that an attempt left here before the task went on elsewhere, or was started over. What is in
    /// it is saved.
    pub(super) async fn give_up_old_lane(&self, history: &[Attempt]) -> Result<(), WorkerError> {
        const WHY: &str = "its task went on without this lane";
        let is_old = travel::last_with_lane(history).is_none_or(travel::is_elsewhere);
        if self.claim.attempt == 1 || self.claim.spec.read_only || !is_old {
            return Ok(());
        }
        let (task, at) = (self.claim.task.clone(), clock::now());
        let retired = self
            .blocking(move |ctx| ctx.repository.lanes.retire(&task, RetireMode::SalvageFirst, at))
            .await?;
        match retired {
            Retired::Removed { salvaged: Some(kept) } => self.tell_salvaged(&kept, WHY).await,
            Retired::Removed { salvaged: None } | Retired::NoLane => {}
            Retired::Kept(why) => {
                let why = format!("{WHY}, and the lane cannot be removed: {why}");
                return Err(WorkerError::Impossible(why));
            }
        }
        Ok(())
    }

    /// What attempts in other clones have saved at the hub, if this one continues from it.
    pub(super) async fn saved_elsewhere(
        &mut self,
        hub: &Hub,
        history: &[Attempt],
        fresh: &Oid,
    ) -> Result<Option<SavedWork>, WorkerError> {
        let since = self.since_landing(history);
        let Some(last) = travel::last_with_lane(since).filter(|last| travel::is_elsewhere(last)) else {
            return Ok(None);
        };
        let (task, own, hub) = (self.claim.task.clone(), since.to_vec(), hub.clone());
        let saved =
            self.blocking(move |ctx| travel::saved_of(&ctx.repository.work, &hub, &task, &own)).await?;
        let node = last.place.as_ref().map_or("another machine", |place| place.node.as_str()).to_owned();
        let Some(saved) = saved else {
            let text = format!("attempt {} on {node} saved nothing at the hub; it starts again", last.n);
            self.note(EventBody::Noted { text }).await;
            return Ok(None);
        };
        let lacking = self.not_in(self.work_of_dependencies().await?, &saved.base).await?;
        if !lacking.is_empty() && self.not_in(lacking.clone(), fresh).await?.len() < lacking.len() {
            // The plan has changed since: what was done without its dependencies stays at the hub.
            let text =
                format!("what attempt {} on {node} saved lacks its dependencies; it starts again", last.n);
            self.note(EventBody::Noted { text }).await;
            return Ok(None);
        }
        self.arrived = Some(what_arrived(last, &node, &saved));
        let text = format!("it continues from what attempt {} saved on {node}", saved.attempt);
        self.note(EventBody::Noted { text }).await;
        Ok(Some(saved))
    }

    /// A lane at the last commit of saved work.
    pub(super) async fn lane_of_saved(&self, saved: &SavedWork) -> Result<Lane, WorkerError> {
        let (task, saved) = (self.claim.task.clone(), saved.clone());
        self.blocking(move |ctx| ctx.repository.lanes.again(&task, &saved.base, &saved.head)).await
    }

    /// Puts saved work that was not committed into its lane.
    pub(super) async fn lay_out(&self, lane: &Lane, saved: &SavedWork) -> Result<(), WorkerError> {
        let Some(tree) = saved.tree.clone() else { return Ok(()) };
        let lane = lane.clone();
        self.blocking(move |ctx| ctx.repository.lanes.lay_out(&lane, &tree)).await
    }

    /// Starts to save unfinished work at the hub.
    pub(super) fn begin_saving(&mut self, site: &Site) {
        if self.claim.spec.read_only {
            return;
        }
        self.saving = Checkpoints::of(&self.ctx, &self.claim, &site.lane).map(|checkpoints| {
            let task = tokio::spawn(checkpoints.clone().keep_on());
            Saving { checkpoints, task }
        });
    }

    /// Saves what an attempt without finished work left, for a next attempt on another machine. A failure is only
    /// reported: the lane is here.
    pub(super) async fn save_last(&mut self, site: &Site) {
        let at_once = matches!(self.stopped(), Some(Stop::Interrupt { now: true, .. }));
        let checkpoints = match self.saving.take() {
            Some(saving) => Some(saving.checkpoints.clone()),
            None => Checkpoints::of(&self.ctx, &self.claim, &site.lane),
        };
        let Some(checkpoints) = checkpoints.filter(|_| !at_once) else { return };
        let why = match tokio::time::timeout(LAST_CHECKPOINT, checkpoints.save_now()).await {
            Ok(Ok(Kept::Saved | Kept::Unchanged)) => return,
            Ok(Ok(Kept::NotAll(why))) => why,
            Ok(Err(error)) => format!("could not {}", with_causes(&error)),
            Err(_) => "no answer".to_owned(),
        };
        self.ctx.say(format!("{}: what it left is not all saved at the hub: {why}", self.claim.task));
    }

    /// Pushes finished work to the hub before the store says that it is done. Waits for a hub that is away.
    pub(super) async fn send_work(&mut self, site: &Site) -> Result<(), WorkerError> {
        self.saving = None;
        let (Some(hub), Some(head)) = (self.ctx.shared_hub(), self.record.head.clone()) else {
            return Ok(());
        };
        let patience = for_test("REGATTA_TEST_HUB_PATIENCE_MS").or(self.ctx.settings.config.hub_patience);
        let begun = Instant::now();
        let mut pause = FIRST_PAUSE;
        let mut is_told = false;
        let mut stop = self.stop.clone();
        loop {
            let (hub, claim, base, head) =
                (hub.clone(), self.claim.clone(), site.lane.base.clone(), head.clone());
            let sent = self.blocking(move |ctx| travel::send_work(ctx, &hub, &claim, &base, &head)).await;
            let Err(error) = sent else { return Ok(()) };
            let why = match &error {
                WorkerError::Git(GitError::HubAway { why, .. }) => self.redact(why),
                error => self.redact(&with_causes(error)),
            };
            if self.stopped().is_some() || patience.is_some_and(|patience| begun.elapsed() >= patience) {
                return Err(WorkerError::NotSent(why));
            }
            if !std::mem::replace(&mut is_told, true) {
                let text = format!("its finished work waits for the hub: {why}");
                self.note(EventBody::Noted { text }).await;
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                _ = stop.wait_for(Option::is_some) => {}
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

/// What an agent has to know about work that came from another machine.
fn what_arrived(last: &Attempt, node: &str, saved: &SavedWork) -> String {
    let how = match last.exit {
        Some(Exit::Lost) => format!("The machine that ran attempt {} ({node}) was lost.", last.n),
        _ => format!("Attempt {} ran on another machine ({node}).", last.n),
    };
    let what = match saved.at {
        Some(at) => format!("What was saved up to {} is in this working directory", at.in_utc()),
        None => "Its commits are in this working directory".to_owned(),
    };
    format!(
        "{how} {what}; the conversation is not. Look at the work with `git status`, `git diff` and `git log` first, \
         keep what is good, and continue from there.\n"
    )
}

#[cfg(test)]
mod tests {
    use regatta_core::time::Timestamp;

    use super::*;

    #[test]
    fn an_agent_learns_where_its_work_comes_from() {
        let oid = Oid::parse(&"a".repeat(40)).unwrap();
        let saved = SavedWork {
            attempt: 2,
            base: oid.clone(),
            head: oid,
            tree: None,
            at: Some(Timestamp::from_millis(1_763_182_800_000)),
        };
        let lost = Attempt { exit: Some(Exit::Lost), ..Attempt::new(2, "claude") };
        insta::assert_snapshot!(what_arrived(&lost, "big-1", &saved), @"The machine that ran attempt 2 (big-1) was lost. What was saved up to 2025-11-15 05:00 UTC is in this working directory; the conversation is not. Look at the work with `git status`, `git diff` and `git log` first, keep what is good, and continue from there.");
        let failed = Attempt { exit: Some(Exit::Exited { code: 1 }), ..lost };
        insta::assert_snapshot!(what_arrived(&failed, "big-1", &SavedWork { at: None, ..saved }), @"Attempt 2 ran on another machine (big-1). Its commits are in this working directory; the conversation is not. Look at the work with `git status`, `git diff` and `git log` first, keep what is good, and continue from there.");
    }
}
