//! From good work to an open pull request: checked against the target, tested here, pushed, opened.

use regatta_core::forge::marker::Marker;
use regatta_core::forge::record::{OpenedPull, PullEnd, PullRecord};
use regatta_core::forge::text::{TEMPLATE, TaskText, pull_text};
use regatta_core::id::TaskId;
use regatta_core::oid::Oid;
use regatta_core::state::BlockReason;
use regatta_core::train::{Car, CarStep, GateOutcome, HeldBy, LandStep};
use regatta_store::StoreError;
use tokio::task::JoinError;

use super::desk::{Desk, target_there};
use super::{Ended, Passed, Pulls, Trouble, branch};
use crate::failpoint;
use crate::forge::{ForgeError, NewPull};
use crate::git::GitError;
use crate::landing::beside::Beside;
use crate::landing::gate::{self, Gate};
use crate::landing::merge::{Merged, git_date, merge_trees, write_commit};
use crate::landing::remote::{self, Pushed};
use crate::landing::train::LandError;
use crate::persist::until_answered;
use crate::{clock, tokens};

/// What the target makes of some work.
enum Candidate {
    /// The commit to test, and its tree.
    Clean(Oid, Oid),
    /// The target has all of it.
    AlreadyIn,
    Conflict(Vec<std::path::PathBuf>),
}

impl Pulls {
    /// Checks a car that has just arrived, tests it, and records that it will be proposed.
    pub(super) async fn board(&mut self, desk: &Desk, car: &Car) -> Result<Ended, Trouble> {
        if self.gated.contains(&car.task) {
            return Ok(Ended::Nothing);
        }
        let ctx = self.train.ctx.clone();
        if let Some(why) = self.is_full(car) {
            self.waits(car, why, HeldBy::Person).await?;
            return Ok(Ended::Went);
        }
        // It may have been merged while its agent answered.
        if let Some(record) = self.records.of(&car.task).filter(|record| record.is_open()).cloned()
            && let Some(ended) = self.ended_meanwhile(desk, car, record).await?
        {
            return Ok(ended);
        }
        let passed = ctx.memory.pulls.known().passed.get(&car.task).cloned();
        if passed.is_some_and(|passed| passed.head == car.request.head) {
            return self.intend(desk, car).await.map(|()| Ended::Went);
        }
        let Some(tip) = target_there(&ctx, desk).await? else {
            let why = format!("{} has no branch {}; push it first", desk.base, ctx.repository.target);
            self.waits(car, why, HeldBy::Person).await?;
            return Ok(Ended::Went);
        };
        if let Some(why) = self.is_on_unpushed_work(desk, car, &tip).await? {
            self.due_in(super::PAUSE);
            self.waits(car, why, HeldBy::Person).await?;
            return Ok(Ended::Went);
        }
        let (head, onto) = (car.request.head.clone(), tip.clone());
        match ctx.blocking(move |ctx| candidate(ctx, &onto, &head)).await? {
            Candidate::Conflict(paths) => {
                self.train.conflicts(car, &paths, &tip).await?;
            }
            Candidate::AlreadyIn => return self.is_in(desk, car, tip).await,
            Candidate::Clean(commit, tree) => self.test(car, &tip, (commit, tree)).await?,
        }
        Ok(Ended::Went)
    }

    /// Work on commits of the target that only this repository has: a pull request would contain them too.
    async fn is_on_unpushed_work(
        &self,
        desk: &Desk,
        car: &Car,
        tip: &Oid,
    ) -> Result<Option<String>, GitError> {
        let ctx = &self.train.ctx;
        let (base, tip, target) = (car.request.base.clone(), tip.clone(), ctx.repository.target.clone());
        let is_unpushed = ctx.blocking(move |ctx| {
            let work = &ctx.repository.work;
            let Some(here) = ctx.repository.repo.read_ref(&format!("refs/heads/{target}"))? else {
                return Ok(false);
            };
            Ok(!work.is_ancestor(&base, &tip)? && work.is_ancestor(&base, &here)?)
        });
        let (target, base) = (&ctx.repository.target, &desk.base);
        Ok(is_unpushed.await?.then(|| {
            format!(
                "{target} has commits that {base}/{target} does not have, and its work is built on them; push them \
                 first: git push {base} {target}"
            )
        }))
    }

    /// Why no further pull request may be opened.
    fn is_full(&self, car: &Car) -> Option<String> {
        let most = self.train.ctx.settings.config.land.pr.max_open;
        let is_open = self.records.of(&car.task).is_some_and(PullRecord::is_open);
        let open = self.records.all().filter(|record| record.is_open()).count();
        super::too_many(open, most).filter(|_| !is_open)
    }

    /// Tests a candidate in the background, unless its tree has passed already.
    async fn test(&mut self, car: &Car, tip: &Oid, (commit, tree): (Oid, Oid)) -> Result<(), LandError> {
        let ctx = self.train.ctx.clone();
        let head = car.request.head.clone();
        let with = Beside::one(&ctx, car, Some(tip)).await?;
        let Some(gate) = gate::fingerprint(&ctx, &with) else {
            let passed = Passed { head, tree: None, gate: None };
            ctx.memory.pulls.known().passed.insert(car.task.clone(), passed);
            return Ok(());
        };
        let passed = Passed { head, tree: Some(tree.clone()), gate: Some(gate.clone()) };
        if until_answered(|| ctx.services.store.passes(&gate)).await?.contains(&tree) {
            ctx.memory.pulls.known().passed.insert(car.task.clone(), passed);
            return Ok(());
        }
        let (keep, task) = (commit.clone(), car.task.clone());
        ctx.blocking(move |ctx| branch::hold(ctx, &task, &keep)).await?;
        let (task, stop) = (car.task.clone(), self.stop_gates.subscribe());
        self.gated.insert(task.clone());
        self.gates.spawn(async move {
            let gate = gate::gate(&ctx, &commit, &with, stop).await;
            (task, passed, gate)
        });
        Ok(())
    }

    /// A gate has ended: its car is proposed next, or leaves.
    pub(super) async fn gate_ended(
        &mut self,
        ended: Result<(TaskId, Passed, Result<Gate, LandError>), JoinError>,
    ) -> Result<(), LandError> {
        let Ok((task, passed, gate)) = ended else { return Ok(()) };
        self.gated.remove(&task);
        let ctx = self.train.ctx.clone();
        self.load().await?;
        let found = self.train.cars.iter().find(|car| car.task == task && car.request.head == passed.head);
        let Some(car) = found.cloned() else { return Ok(()) };
        let (outcome, note) = match gate? {
            Gate::Passed { note, flaky } => {
                (if flaky { GateOutcome::Flaky } else { GateOutcome::Passed }, note)
            }
            Gate::Failed { detail } => (GateOutcome::Failed, detail),
            Gate::Stopped => return Ok(()),
            Gate::Trouble { why } => return self.waits(&car, why, HeldBy::Other).await,
        };
        let note = ctx.settings.redact(&note);
        let tested = LandStep::Tested {
            candidate: passed.head.clone(),
            cars: vec![task.clone()],
            outcome,
            millis: 0,
            note: note.clone(),
        };
        self.train.take_steps(&[(task.clone(), tested)]).await?;
        if outcome == GateOutcome::Failed {
            return self.train.eject(car, note).await;
        }
        if let (Some(gate), Some(tree)) = (&passed.gate, &passed.tree) {
            until_answered(|| ctx.services.store.record_pass(gate, tree, clock::now())).await?;
        }
        ctx.memory.pulls.known().passed.insert(task, passed);
        Ok(())
    }

    /// Records what will be pushed where.
    async fn intend(&mut self, desk: &Desk, car: &Car) -> Result<(), Trouble> {
        let ctx = self.train.ctx.clone();
        let mut record = match self.records.of(&car.task).cloned() {
            Some(record) if !matches!(record.end, Some(PullEnd::Merged { .. })) => record,
            // A follow-up to merged work is another pull request.
            _ => self.new_record(desk, car).await?,
        };
        if record.pull.is_none() {
            let spec = until_answered(|| ctx.services.store.task(&car.task)).await?.spec;
            record.draft |= spec.landing.draft.unwrap_or(ctx.settings.config.land.pr.draft);
            record.draft |= car.request.proposal.draft;
        }
        record.no_review |= car.request.proposal.no_review;
        let Some(head) = self.joined(desk, car, &record, &car.request.head).await? else { return Ok(()) };
        let (task, keep) = (car.task.clone(), head.clone());
        ctx.blocking(move |ctx| branch::hold(ctx, &task, &keep)).await?;
        let branch = record.branch.clone();
        let passed = ctx.memory.pulls.known().passed.get(&car.task).cloned();
        let is_tested = passed.is_some_and(|passed| passed.head == head && passed.tree.is_some());
        record.tested = is_tested.then(|| head.clone());
        self.records.put(record).await?;
        let step = LandStep::Propose { head, branch };
        self.train.take_steps(&[(car.task.clone(), step)]).await?;
        failpoint::reach("pr-intended");
        Ok(())
    }

    /// The commit to push: the work with everything that its branch has at the remote. `None` if they do not go
    /// together: the car has left.
    async fn joined(
        &mut self,
        desk: &Desk,
        car: &Car,
        record: &PullRecord,
        work: &Oid,
    ) -> Result<Option<Oid>, Trouble> {
        let ctx = self.train.ctx.clone();
        // A new branch was looked up when its name was chosen.
        let may_be_there = record.pull.is_some() || matches!(car.step, CarStep::Proposing { .. });
        let there = if may_be_there {
            let (remote, name, task) = (desk.head.clone(), record.branch.clone(), car.task.clone());
            ctx.blocking(move |ctx| branch::fetch(ctx, &remote, &name, &task)).await?
        } else {
            None
        };
        let (ours, theirs, own) = (record.head.clone(), there.clone(), work.clone());
        let joined =
            ctx.blocking(move |ctx| branch::joined(ctx, ours.as_ref(), theirs.as_ref(), &own)).await?;
        let Some(there) = there.filter(|there| Some(there) != record.head.as_ref()) else {
            return Ok(joined);
        };
        if joined.is_some() {
            self.note_taken_over(desk, car, &record.branch, &there).await?;
        } else {
            self.gone_different_ways(desk, car, record, Some(work), &there).await?;
        }
        Ok(joined)
    }

    /// A record with a branch that nobody else has at the remote.
    async fn new_record(&mut self, desk: &Desk, car: &Car) -> Result<PullRecord, Trouble> {
        let ctx = self.train.ctx.clone();
        let usual = car.task.branch();
        let (remote, name) = (desk.head.clone(), usual.clone());
        let there = ctx.blocking(move |ctx| branch::tip_there(ctx, &remote, &name)).await?;
        // Work that an agent pushed itself is its own.
        let is_ours = match there {
            None => true,
            Some(tip) => {
                let head = car.request.head.clone();
                ctx.blocking(move |ctx| {
                    Ok::<_, GitError>(
                        ctx.repository.work.exists(&tip)? && ctx.repository.work.is_ancestor(&tip, &head)?,
                    )
                })
                .await?
            }
        };
        let branch = if is_ours { usual } else { format!("{usual}-{}", &tokens::fresh_token()[..4]) };
        Ok(PullRecord {
            task: car.task.clone(),
            train: ctx.repository.train(),
            host: desk.forge.host().as_str().to_owned(),
            repo: desk.forge.base().clone(),
            head_repo: desk.forge.head().clone(),
            branch,
            base: ctx.repository.target.clone(),
            head: None,
            pushed_at: None,
            pull: None,
            end: None,
            draft: false,
            no_review: false,
            heard: Default::default(),
            sending: None,
            tested: None,
            reruns: None,
            allowed: None,
            print: None,
            unknown_looks: 0,
            shown: None,
            comment: None,
        })
    }

    /// Pushes the branch of a car and opens its pull request. Each may have happened already.
    pub(super) async fn push_and_open(&mut self, desk: &Desk, car: &Car) -> Result<(), Trouble> {
        let CarStep::Proposing { head } = &car.step else { return Ok(()) };
        let Some(mut record) = self.records.of(&car.task).cloned() else {
            // The record is written first, so a person must have removed it.
            let why = "the record of its pull request is gone from the store".to_owned();
            self.train.reject(car, BlockReason::Policy, why, Vec::new()).await?;
            return Ok(());
        };
        if record.head.as_ref() != Some(head) && !self.push(desk, car, &mut record, head).await? {
            return Ok(());
        }
        let mut is_new = false;
        let opened = match &record.pull {
            Some(pull) if record.end.is_none() => pull.clone(),
            Some(pull) => match self.reopen(desk, &record, pull).await? {
                Some(pull) => pull,
                None => {
                    is_new = true;
                    self.open(desk, car, &record).await?
                }
            },
            None => {
                is_new = true;
                self.open(desk, car, &record).await?
            }
        };
        failpoint::reach("pr-opened");
        record.pull = Some(opened.clone());
        record.end = None;
        record.print = None;
        record.shown = None;
        self.records.put(record).await?;
        let (number, url) = (opened.number.0, opened.url);
        let step = LandStep::Proposed { head: head.clone(), number, url, is_new };
        self.train.take_steps(&[(car.task.clone(), step)]).await?;
        failpoint::reach("pr-recorded");
        let mut known = self.train.ctx.memory.pulls.known();
        known.passed.remove(&car.task);
        known.look_at = None;
        Ok(())
    }

    /// Brings the branch at the remote to `head`. Returns whether it is there.
    async fn push(
        &mut self,
        desk: &Desk,
        car: &Car,
        record: &mut PullRecord,
        head: &Oid,
    ) -> Result<bool, Trouble> {
        let ctx = self.train.ctx.clone();
        let (remote, name) = (desk.head.clone(), record.branch.clone());
        let there = ctx.blocking(move |ctx| branch::tip_there(ctx, &remote, &name)).await?;
        if there.as_ref() != Some(head) {
            if there.is_some() && there != record.head && !self.is_before(there.as_ref(), head).await? {
                // A person pushed meanwhile: their commits are taken over first.
                let Some(head) = self.joined(desk, car, record, head).await? else { return Ok(false) };
                let (task, keep) = (car.task.clone(), head.clone());
                ctx.blocking(move |ctx| branch::hold(ctx, &task, &keep)).await?;
                let step = LandStep::Propose { head, branch: record.branch.clone() };
                self.train.take_steps(&[(car.task.clone(), step)]).await?;
                return Ok(false);
            }
            let stop = self.train.stop.clone();
            let pushed =
                remote::push_branch(&ctx, &desk.head, &record.branch, there, head.clone(), stop).await?;
            match pushed {
                Pushed::Done => failpoint::reach("pr-pushed"),
                Pushed::Moved => return Ok(false),
                Pushed::Refused(why) => {
                    self.due_in(super::PAUSE * 10);
                    self.waits(car, why, HeldBy::Person).await?;
                    return Ok(false);
                }
                Pushed::Unknown(why) => {
                    self.due_in(super::PAUSE);
                    self.waits(car, why, HeldBy::Other).await?;
                    return Ok(false);
                }
            }
        }
        record.head = Some(head.clone());
        record.pushed_at = Some(clock::now());
        self.records.put(record.clone()).await?;
        Ok(true)
    }

    async fn is_before(&self, there: Option<&Oid>, head: &Oid) -> Result<bool, GitError> {
        let (Some(there), head) = (there.cloned(), head.clone()) else { return Ok(true) };
        let ctx = &self.train.ctx;
        ctx.blocking(move |ctx| {
            Ok(ctx.repository.work.exists(&there)? && ctx.repository.work.is_ancestor(&there, &head)?)
        })
        .await
    }

    async fn open(&self, desk: &Desk, car: &Car, record: &PullRecord) -> Result<OpenedPull, Trouble> {
        let ctx = &self.train.ctx;
        let task = until_answered(|| ctx.services.store.task(&car.task)).await?;
        let attempts = until_answered(|| ctx.services.store.attempts(&car.task)).await?;
        let made = attempts.iter().find(|attempt| attempt.n == car.attempt);
        let summary = ctx.settings.redact(made.map(|attempt| attempt.summary.as_str()).unwrap_or_default());
        let gate = ctx.settings.config.land.test_command.clone();
        let checks: Vec<String> = task.spec.checks.iter().cloned().chain(gate).collect();
        let title = ctx.settings.redact(&task.spec.title);
        let text = TaskText {
            task: car.task.as_str(),
            title: &title,
            summary: &summary,
            checks: &checks,
            closes: None,
            target: &record.base,
            marker: Marker::new().with("task", car.task.as_str()),
        };
        let template = self.template()?;
        let text = pull_text(&template, &text)
            .map_err(|mistake| ForgeError::Refused(format!("templates/pull-request.md: {mistake}")))?;
        let pr = &ctx.settings.config.land.pr;
        let reviewers = task.spec.landing.reviewers.clone().unwrap_or_else(|| pr.reviewers.clone());
        let new = NewPull {
            title: text.title,
            body: text.body,
            head_repo: record.head_repo.clone(),
            branch: record.branch.clone(),
            base: record.base.clone(),
            draft: record.draft,
            labels: pr.labels.clone(),
            reviewers,
        };
        let pull = desk.forge.propose(&record.repo, &new).await?;
        Ok(OpenedPull { number: pull.number, id: pull.id, url: pull.url })
    }

    /// The text of pull requests: the user's own, or ours.
    fn template(&self) -> Result<String, ForgeError> {
        let path = self.train.ctx.repository.state_dir.join("templates").join("pull-request.md");
        match std::fs::read_to_string(&path) {
            Ok(text) => Ok(text),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(TEMPLATE.to_owned()),
            Err(error) => Err(ForgeError::Refused(format!("{} cannot be read: {error}", path.display()))),
        }
    }

    /// Opens a closed pull request again; `None` if the forge does not allow it.
    async fn reopen(
        &self,
        desk: &Desk,
        record: &PullRecord,
        pull: &OpenedPull,
    ) -> Result<Option<OpenedPull>, Trouble> {
        let facts = desk.forge.pull(&pull.id).await?;
        match desk.forge.set_open(&super::look::as_pull(record, &facts), true).await {
            Ok(()) => Ok(Some(pull.clone())),
            Err(ForgeError::Refused(_) | ForgeError::Gone(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The target has all of a car's work already.
    async fn is_in(&mut self, desk: &Desk, car: &Car, tip: Oid) -> Result<Ended, Trouble> {
        if !self.follow(desk, car, &tip).await? {
            return Ok(Ended::Went);
        }
        let step = LandStep::AlreadyIn { commit: tip };
        match self.train.take_steps(&[(car.task.clone(), step)]).await {
            Ok(()) => self.train.retire(car).await,
            Err(LandError::Store(StoreError::Conflict(_))) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(Ended::Went)
    }
}

/// Work on a target, as the forge would merge it.
fn candidate(ctx: &crate::context::Context, tip: &Oid, head: &Oid) -> Result<Candidate, GitError> {
    let work = &ctx.repository.work;
    if work.is_ancestor(head, tip)? {
        return Ok(Candidate::AlreadyIn);
    }
    let tree = match merge_trees(work, None, tip, head)? {
        Merged::Tree(tree) => tree,
        Merged::Conflict { paths, .. } => return Ok(Candidate::Conflict(paths)),
    };
    if tree == work.tree_of(tip)? {
        return Ok(Candidate::AlreadyIn);
    }
    let (who, at) = (work.identity(), clock::now());
    let date = git_date(at);
    let author = crate::landing::merge::Author { name: &who.name, email: &who.email, date: &date };
    let message = format!("Test {} on {}\n", head.short(), tip.short());
    let commit = write_commit(work, &tree, &[tip, head], &author, (&who, at), message.as_bytes())?;
    Ok(Candidate::Clean(commit, tree))
}
