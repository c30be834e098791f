//! From the agent's end to its consequences: judge, commit, check, settle, and clean up.

use regatta_core::attempt::Evidence;
use regatta_core::commit_message::commit_message;
use regatta_core::config::Keep;
use regatta_core::event::EventBody;
use regatta_core::exit::Exit;
use regatta_core::failure::FailureClass;
use regatta_core::state::BlockReason;
use regatta_core::train::{LandRequest, why_guarded};
use regatta_core::verdict::{Statement, Verdict};
use regatta_store::{Outcome, Reported, Step};

use super::gather::{self, Heard};
use super::marks::Marks;
use super::prepare::{listed, reopen};
use super::{Site, Stop, Worker, WorkerError};
use crate::agents::{self, AgentEnd};
use crate::commands::Shell;
use crate::git::{GitError, Oid};
use crate::judge::{self, Facts, Judgement, SoFar};
use crate::landing::boarding::{self, Boarded, Passenger};
use crate::lanes::{CommitOutcome, CommitRequest, Hooks, RetireMode, SalvageRef};
use crate::persist::until_answered;
use crate::process::hold;
use crate::profiles::last_begun;
use crate::shim::proxy::refused_hosts;
use crate::{clock, failpoint};

/// After this many lost agents of its task in a row, a lost agent is assumed to cause the loss itself.
const LOST_IN_A_ROW: usize = 2;

/// What committing and checking showed about a good statement.
pub(super) enum Proven {
    /// It holds. Contains the verdict, and the commit if there is one.
    Good { verdict: Verdict, head: Option<Oid> },
    /// It does not hold.
    Bad { why: String },
    /// The work must not land, whatever it does.
    Unfit { why: String },
}

impl Worker {
    /// Judges the attempt and executes the outcome.
    pub(crate) async fn settle(
        &mut self,
        site: &Site,
        exit: &Exit,
        heard: &Heard,
    ) -> Result<(), WorkerError> {
        let spec = self.claim.spec.clone();
        let harm = self.mend(site).await?;
        self.keep_stashes(site).await?;
        let mut reported =
            until_answered(|| self.ctx.services.store.reported(&spec.id, self.claim.attempt)).await?;
        if reported == Reported::default() {
            reported.statement = self.said_before_it_was_cut_short(heard).await?;
        }
        let marker = gather::marker(&site.lane.path, spec.id.as_str());
        let facts = Facts {
            spec: &spec,
            attempt: self.claim.attempt,
            exit,
            end: &heard.ending.end,
            reported: &reported,
            marker: marker.as_deref(),
            last_words: &heard.last_words,
            has_model: self.ctx.settings.agent(&spec.agent)?.kind.has_model(),
            own_command: self
                .claim
                .prompt
                .as_ref()
                .is_some_and(|prompt| agents::is_own_command(&prompt.text)),
        };
        let mut judgement = judge::weigh(&facts).within_reason(clock::now());
        if *exit == Exit::Lost && self.lost_before().await? >= LOST_IN_A_ROW {
            let why = "its supervisor was killed again: something in the task kills it".to_owned();
            judgement = Judgement::Bad { verdict: Verdict::Block, by: "exit-code", why };
        }
        if matches!(heard.ending.end, AgentEnd::NoSession | AgentEnd::SessionExists) && !self.went_on() {
            let why = "the agent did not start the new conversation that it was given".to_owned();
            judgement = Judgement::Environment(why);
        }
        if let Some(why) = self.sandbox_failed(site, &judgement, heard).await? {
            judgement = Judgement::Permanent(why);
        }
        if let Some(why) = &self.planted {
            judgement = Judgement::Permanent(why.clone());
        }
        if let (Judgement::Good { statement, .. }, false) = (&mut judgement, self.strayed.is_empty()) {
            statement.verdict = Verdict::Warn;
        }
        for text in self.strayed.clone() {
            self.record.evidence.push(Evidence::Note { text });
        }
        self.heard_of_account(&judgement, heard.rejected.as_deref()).await?;
        if matches!(heard.ending.end, AgentEnd::NoSession) {
            self.record.session = None;
        }
        if !heard.ending.denials.is_empty() {
            let text = format!("refused by the agent's own permissions: {}", heard.ending.denials.join(", "));
            self.record.evidence.push(Evidence::Note { text });
        }
        let refused: Vec<String> =
            refused_hosts(&site.run_dir).iter().map(|refused| refused.to_string()).collect();
        if !refused.is_empty() {
            let text = format!("refused by the sandbox: {}", refused.join("; "));
            self.record.evidence.push(Evidence::Note { text });
        }
        let halted = self.meter.halted().filter(|_| matches!(exit, Exit::Stopped { .. }));
        match self.stopped() {
            Some(Stop::Cancel { by }) => {
                return self.put_away(site, Outcome::Cancel { by }, "cancelled").await;
            }
            _ if halted.is_some() => {
                self.record.class = Some(FailureClass::Budget);
                let halt = halted.expect("it was just looked at");
                let why = halt.detail.clone();
                return self.put_away(site, halt.outcome(), &why).await;
            }
            Some(Stop::Interrupt { why, .. }) if matches!(exit, Exit::Stopped { .. }) => {
                return self.put_away(site, Outcome::Release { why: why.clone() }, &why).await;
            }
            _ => {}
        }
        if let (Judgement::Bad { .. } | Judgement::NeedsInput(_), Some(said)) =
            (&judgement, &reported.statement)
        {
            self.record.evidence.push(self.said("db", said));
        }
        if let Some(why) = harm {
            return self.harmed(judgement, why).await;
        }
        if let Judgement::Good { by, .. } = judgement
            && self.took_the_target(site).await?
        {
            // What it committed there is already on the target, untested. It cannot be undone, only reported.
            let why = format!(
                "it checked out {} in its lane: its commits are on that branch, untested",
                self.ctx.repository.target
            );
            judgement = Judgement::Bad { verdict: Verdict::Block, by, why };
        }
        if let Judgement::Good { by, statement } = judgement {
            self.record.evidence.push(self.said(by, &statement));
            match self.prove(site, &statement).await? {
                Proven::Good { verdict, head } => match self.propose(&heard.last_words).await? {
                    None => return self.good(site, verdict, &statement, head).await,
                    Some(why) => judgement = Judgement::Bad { verdict: Verdict::Unknown, by: "plan", why },
                },
                Proven::Bad { why } => {
                    judgement = Judgement::Bad { verdict: Verdict::Block, by: "check", why }
                }
                Proven::Unfit { why } => {
                    self.record.verdict = Some(Verdict::Block);
                    let outcome = Outcome::Block { reason: BlockReason::Policy, detail: why.clone() };
                    return self.put_away(site, outcome, &why).await;
                }
            }
            // Cancelled or stopped while a check or a hook ran: nothing was proven either way.
            match self.stopped() {
                Some(Stop::Cancel { by }) => {
                    return self.put_away(site, Outcome::Cancel { by }, "cancelled").await;
                }
                Some(Stop::Interrupt { why, .. }) => {
                    return self.put_away(site, Outcome::Release { why: why.clone() }, &why).await;
                }
                None => {}
            }
        }
        if let Some(outcome) = self.not_content(&judgement, &heard.last_words).await? {
            return self.put_away(site, outcome, "it asked for changes").await;
        }
        self.bad(site, &judgement).await
    }

    /// Why an attempt is void because its sandbox does not work on this machine. The agent's own report is then
    /// worthless: it could not do what it was asked for.
    async fn sandbox_failed(
        &self,
        site: &Site,
        judgement: &Judgement,
        heard: &Heard,
    ) -> Result<Option<String>, WorkerError> {
        let Some(said) = &heard.ending.sandbox else { return Ok(None) };
        if !matches!(judgement, Judgement::Good { .. } | Judgement::Bad { .. }) {
            return Ok(None);
        }
        // A file that may not be written is not a failure of a sandbox that forbids just that.
        let spec = &self.claim.spec;
        let lane = site.lane.path.to_string_lossy();
        let in_lane = said.contains(&*lane) && !said.contains("/.git") && !said.contains("/.codex");
        if !said.starts_with("bwrap: ") && (spec.read_only || !in_lane) {
            return Ok(None);
        }
        let changed = self.git(site, |ctx, lane| ctx.repository.lanes.changed_paths(lane)).await?;
        Ok(changed.is_empty().then(|| {
            format!(
                "codex's sandbox does not work on this machine: {said}; `regatta doctor` tries it: update or remove \
                 bubblewrap (codex has its own), keep CODEX_HOME out of the directory for temporary files, or set \
                 `sandbox: off`, then `regatta retry {}`",
                spec.id
            )
        }))
    }

    /// Repairs what the agent broke in its lane; returns what cannot be repaired.
    pub(super) async fn mend(&self, site: &Site) -> Result<Option<&'static str>, WorkerError> {
        let read_only = self.claim.spec.read_only;
        let (harm, odd) = self
            .git(site, move |ctx, lane| {
                let lanes = &ctx.repository.lanes;
                let harm = lanes.harm(lane);
                let damage = if harm.is_none() { lanes.damage(lane)? } else { None };
                if harm.is_none() && !read_only {
                    reopen(ctx, &lane.task)?;
                }
                lanes.clear_abandoned_locks(lane);
                // From now on, a git command by hand runs nothing that the agent planted.
                lanes.refresh_git(lane)?;
                let odd = match damage {
                    Some(damage) => Some(damage),
                    None if harm.is_none() => lanes.rebuild_index(lane).err(),
                    None => None,
                };
                Ok((harm, odd))
            })
            .await?;
        let Some(odd) = odd else { return Ok(harm) };
        if let GitError::Damaged { why } = odd {
            return Err(WorkerError::Impossible(self.redact(&why)));
        }
        // A tree that git cannot even read.
        match self.board(site).await {
            Ok(Boarded::Unfit(why)) => Err(WorkerError::Impossible(why)),
            _ => Err(odd.into()),
        }
    }

    /// Where commits were made since the agent started that are neither in its lane nor on the target.
    async fn strays(&self, site: &Site) -> Result<Vec<String>, WorkerError> {
        let Some(since) = self.record.started_at else { return Ok(Vec::new()) };
        let target = self.ctx.repository.target.clone();
        self.git(site, move |ctx, lane| ctx.repository.lanes.left_elsewhere(lane, &target, since)).await
    }

    /// Whether the agent has the target branch itself checked out; its lane is then detached.
    pub(super) async fn took_the_target(&mut self, site: &Site) -> Result<bool, WorkerError> {
        let target = self.ctx.repository.target.clone();
        // A branch of its own git directory is not the project's, whatever its name.
        let took = self
            .git(site, move |_, lane| Ok(!lane.has_own_git() && lane.branch()?.as_deref() == Some(&*target)))
            .await?;
        self.had_the_target |= took;
        if took {
            self.git(site, |ctx, lane| ctx.repository.lanes.detach(lane)).await?;
        }
        Ok(self.had_the_target)
    }

    /// Whether this attempt resumed a conversation of an earlier one.
    fn went_on(&self) -> bool {
        let last = last_begun(&self.history, &self.record.agent);
        last.is_some_and(|last| last.session.is_some() && last.session == self.record.session)
    }

    /// How many attempts right before this one were lost.
    async fn lost_before(&self) -> Result<usize, WorkerError> {
        let attempts = until_answered(|| self.ctx.services.store.attempts(&self.claim.task)).await?;
        let before = attempts.iter().rev().filter(|attempt| attempt.n < self.claim.attempt);
        Ok(before.take_while(|attempt| attempt.exit == Some(Exit::Lost)).count())
    }

    /// Commits what the agent left and runs the checks on the committed tree.
    pub(super) async fn prove(&mut self, site: &Site, statement: &Statement) -> Result<Proven, WorkerError> {
        let spec = self.claim.spec.clone();
        let mut verdict = statement.verdict;
        if spec.read_only {
            let changed = self.git(site, |ctx, lane| ctx.repository.lanes.changed_paths(lane)).await?;
            if let Some(first) = changed.first() {
                let why = format!(
                    "the task is read_only but {} changed, first {}",
                    regatta_core::time::counted(changed.len(), "file"),
                    first.display()
                );
                return Ok(Proven::Bad { why });
            }
        } else if spec.auto_commit {
            if let Some(why) = self.commit(site, &statement.summary).await? {
                return Ok(Proven::Bad { why });
            }
            failpoint::reach("committed");
        } else if let Some(first) =
            self.git(site, |ctx, lane| ctx.repository.lanes.uncommitted(lane)).await?.first()
        {
            let why = format!("it left work uncommitted, first {}, and auto_commit is off", first.display());
            return Ok(Proven::Bad { why });
        }
        if !spec.read_only {
            match self.board(site).await? {
                Boarded::Unfit(why) => return Ok(Proven::Unfit { why }),
                Boarded::Fit { taken_out, large, .. } => {
                    if !taken_out.is_empty() {
                        let text = format!(
                            "copied files that it had committed were removed from the commit: {}",
                            listed(&taken_out)
                        );
                        self.record.evidence.push(Evidence::Note { text });
                    }
                    if let Some(text) = boarding::warning(&large) {
                        verdict = Verdict::Warn;
                        self.record.evidence.push(Evidence::Note { text });
                    }
                }
            }
        }
        let head = self.git(site, |ctx, lane| ctx.repository.lanes.take_over(lane)).await?;
        let at = head.clone();
        let (tree, files) = self
            .git(site, move |ctx, lane| {
                Ok((ctx.repository.work.tree_of(&at)?, ctx.repository.work.paths_between(&lane.base, &at)?))
            })
            .await?;
        if let Some(state) = files.iter().find(|path| crate::git::is_state(path)) {
            let why = format!(
                "it committed {}, but Regatta's state must never be committed; remove it from the commits",
                state.display()
            );
            return Ok(Proven::Bad { why });
        }
        match self.marks_left(site, &head).await? {
            Marks::None => {}
            Marks::New(text) => {
                verdict = Verdict::Warn;
                self.record.evidence.push(Evidence::Note { text });
            }
            Marks::Left(why) => return Ok(Proven::Bad { why }),
        }
        if let Some(why) = self.took_a_stash(site, &head).await? {
            return Ok(Proven::Unfit { why });
        }
        let changed = head != site.lane.base && !files.is_empty();
        if changed {
            self.record.head = Some(head.clone());
            self.record.evidence.push(Evidence::Diff {
                files: files.len(),
                head: head.clone(),
                tree: tree.clone(),
            });
        } else if !spec.read_only {
            // An answer to a question needs no change.
            if self.claim.prompt.is_none() && !self.is_link() {
                verdict = Verdict::Warn;
            }
            let text = match self.strays(site).await? {
                places if places.is_empty() => "it changed nothing".to_owned(),
                places => format!(
                    "it changed nothing in its lane, but commits were made elsewhere in the meantime: {}; work \
                     there does not land: `regatta send {} \"bring your commits into this directory\"`",
                    places.join(", "),
                    spec.id
                ),
            };
            self.record.evidence.push(Evidence::Note { text });
        }
        if !spec.read_only && !spec.checks.is_empty() {
            self.restore(site, &head).await?;
        }
        if let Some(why) = self.run_checks(site, &head, &tree).await? {
            return Ok(Proven::Bad { why });
        }
        failpoint::reach("checked");
        Ok(Proven::Good { verdict, head: changed.then_some(head) })
    }

    /// Moves the lane's HEAD to the commit of its work that may land.
    pub(super) async fn board(&self, site: &Site) -> Result<Boarded, WorkerError> {
        let (ctx, attempt, own) = (self.ctx.clone(), self.claim.attempt, self.own_secrets.clone());
        let siblings = self.record.siblings.clone();
        self.git(site, move |_, lane| {
            let head = ctx.repository.lanes.take_over(lane)?;
            let (task, base, target) = (&lane.task, &lane.base, ctx.repository.target.as_str());
            let passenger = Passenger { task, attempt, siblings: &siblings, base, head: &head, target };
            let mask = |text: &str| own.redact(&ctx.settings.redact(text)).into_owned();
            let boarded = boarding::board(&ctx.repository.lanes, &passenger, &mask)?;
            if let Boarded::Fit { head: fit, .. } = &boarded {
                ctx.repository.lanes.set_head(lane, &head, fit, clock::now())?;
            }
            Ok(boarded)
        })
        .await
    }

    /// Checks see what is committed: a differing file, whatever hid or changed it, is saved and restored.
    async fn restore(&mut self, site: &Site, head: &Oid) -> Result<(), WorkerError> {
        let head = head.clone();
        let restored =
            self.git(site, move |ctx, lane| ctx.repository.lanes.restore(lane, &head, clock::now())).await?;
        let Some(restored) = restored else { return Ok(()) };
        let why = "its files were not what it committed";
        if let Some(salvaged) = &restored.salvaged {
            self.tell_salvaged(salvaged, why).await;
        }
        let text = format!("{why}; the checks ran on the commit: {}", listed(&restored.paths));
        self.record.evidence.push(Evidence::Note { text });
        Ok(())
    }

    /// Commits what the agent left; returns the reason if that was refused. Refused work is kept.
    pub(super) async fn commit(&mut self, site: &Site, summary: &str) -> Result<Option<String>, WorkerError> {
        let summary = self.redact(summary);
        let message = commit_message(&self.claim.spec, self.claim.attempt, &self.record.siblings, &summary);
        let shell = Shell::for_lane(&self.ctx, &self.claim, &site.lane, &site.run_dir.join("hooks"));
        let (handle, stop) = (tokio::runtime::Handle::current(), self.stop.clone());
        let outcome = self
            .git(site, move |ctx, lane| {
                let mut run = |call| handle.block_on(shell.hook(ctx, call, stop.clone()));
                let hooks = Hooks::Run(&mut run);
                ctx.repository
                    .lanes
                    .commit(lane, CommitRequest { message, at: clock::now(), exclude: Vec::new(), hooks })
            })
            .await?;
        let (by, output, salvaged) = match outcome {
            CommitOutcome::NothingToCommit => return Ok(None),
            CommitOutcome::Committed(committed) => {
                if !committed.nested.is_empty() {
                    let text = format!(
                        "repositories inside its lane are not committed: {}",
                        listed(&committed.nested)
                    );
                    self.record.evidence.push(Evidence::Note { text });
                }
                if !committed.unknown_hooks.is_empty() {
                    let text = format!(
                        "hooks that appeared during the attempt were not run: {}",
                        committed.unknown_hooks.join(", ")
                    );
                    self.record.evidence.push(Evidence::Note { text });
                }
                return Ok(None);
            }
            CommitOutcome::HookRefused { hook, output, salvaged } => {
                (format!("the {hook} hook"), output, salvaged)
            }
            CommitOutcome::SigningFailed { output, salvaged } => ("signing".to_owned(), output, salvaged),
            CommitOutcome::DirtySubmodule { path } => {
                let text =
                    "commit inside the submodule first; Regatta commits only the outer repository".to_owned();
                (format!("uncommitted changes in the submodule {}", path.display()), text, None)
            }
            CommitOutcome::TooMuch { why } => ("the size of the work".to_owned(), why, None),
            CommitOutcome::HookChanged { files, salvaged } => {
                let text =
                    "the hooks of this lane were changed during the attempt and were not run".to_owned();
                (format!("changed hooks ({})", files.join(", ")), text, salvaged)
            }
            CommitOutcome::Unfinished { operation, paths, salvaged } => {
                (format!("an unfinished {operation}"), listed(&paths), salvaged)
            }
        };
        if let Some(salvaged) = &salvaged {
            self.tell_salvaged(salvaged, &format!("the commit was refused by {by}")).await;
        }
        let tail = self.redact(tail_of(&output));
        let first = tail.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim().to_owned();
        let salvage = salvaged.map(|salvaged| salvaged.name);
        self.record.evidence.push(Evidence::CommitRefused { by: by.clone(), tail, salvage });
        Ok(Some(format!("the commit was refused by {by}: {first}")))
    }

    pub(super) async fn good(
        &mut self,
        site: &Site,
        verdict: Verdict,
        statement: &Statement,
        head: Option<Oid>,
    ) -> Result<(), WorkerError> {
        let spec = self.claim.spec.clone();
        self.record.verdict = Some(verdict);
        self.record.summary = self.redact(&statement.summary);
        let guard = match &head {
            Some(head) if spec.land => {
                let (base, head) = (site.lane.base.clone(), head.clone());
                self.blocking(move |ctx| ctx.guarded(&base, &head)).await?
            }
            _ => None,
        };
        let outcome = match (&head, guard) {
            (Some(_), Some(path)) => {
                Outcome::Block { reason: BlockReason::Policy, detail: why_guarded(&path, spec.id.as_str()) }
            }
            (Some(head), None) if spec.land => Outcome::Approve(LandRequest::new(
                &spec,
                &self.record,
                (site.lane.base.clone(), head.clone()),
                self.ctx.repository.train(),
                self.ctx.settings.config.land.way(&spec),
            )),
            _ => Outcome::Done { head: head.clone() },
        };
        let landing = matches!(outcome, Outcome::Approve(_));
        if let Some(head) = head.clone() {
            self.git(site, move |ctx, lane| {
                let mut held = vec![head.clone()];
                if !ctx.repository.work.is_ancestor(&lane.base, &head)? {
                    held.push(lane.base.clone());
                }
                ctx.repository.repo.keep(&lane.task, &held)
            })
            .await?;
            failpoint::reach("kept");
            self.send_work(site).await?;
        }
        // Good work that does not land yet is on its branch, whatever the result of a follow-up.
        if head.is_some() && (!landing || self.more_was_said().await?) {
            self.git(site, |ctx, lane| ctx.repository.lanes.set_branch(lane)).await?;
        }
        self.settled(outcome).await?;
        failpoint::reach("settled");
        if !landing && !spec.read_only {
            self.ctx.clone().retire(&spec.id, RetireMode::IfClean).await;
        }
        if self.ctx.settings.options.no_log {
            let (stdout, stderr) = self.log_files();
            let _ = (std::fs::remove_file(stdout), std::fs::remove_file(stderr));
        }
        Ok(())
    }

    async fn bad(&mut self, site: &Site, judgement: &Judgement) -> Result<(), WorkerError> {
        if let Judgement::Bad { verdict, .. } = judgement {
            self.record.verdict = Some(*verdict);
        }
        let outcome = self.failure(judgement);
        let outcome = self.unless_repeated(site, outcome).await;
        let why = match &outcome {
            Outcome::Retry { why, .. } | Outcome::Fail { why } | Outcome::Release { why } => why.clone(),
            Outcome::Block { detail, .. } | Outcome::Park { detail, .. } => detail.clone(),
            _ => String::new(),
        };
        self.put_away(site, outcome, &why).await
    }

    /// The agent left no lane to examine. What it had committed is kept, and the next attempt gets a new lane, with the
    /// user's files in it.
    async fn harmed(&mut self, judgement: Judgement, why: &str) -> Result<(), WorkerError> {
        let judgement = match judgement {
            // A missing report says nothing about an agent whose lane was removed.
            Judgement::Good { .. } | Judgement::Bad { verdict: Verdict::Unknown, .. } => {
                Judgement::Bad { verdict: Verdict::Block, by: "check", why: why.to_owned() }
            }
            other => other,
        };
        self.record.evidence.push(Evidence::Note { text: why.to_owned() });
        if !self.claim.spec.read_only {
            let (task, at) = (self.claim.task.clone(), clock::now());
            self.blocking(move |ctx| ctx.repository.lanes.retire(&task, RetireMode::SalvageFirst, at))
                .await?;
        }
        let outcome = self.failure(&judgement);
        if let Judgement::Bad { verdict, why, .. } = &judgement {
            self.record.verdict = Some(*verdict);
            self.record.summary = self.redact(why);
        }
        self.settled(outcome).await
    }

    /// Saves uncommitted work under a salvage ref, then settles.
    async fn put_away(&mut self, site: &Site, outcome: Outcome, why: &str) -> Result<(), WorkerError> {
        if self.record.summary.is_empty() {
            self.record.summary = self.redact(why);
        }
        if !self.claim.spec.read_only {
            self.salvage(site, why).await?;
            failpoint::reach("salvaged");
            self.save_last(site).await;
        }
        let given_up =
            matches!(outcome, Outcome::Fail { .. } | Outcome::Block { .. } | Outcome::Cancel { .. });
        self.settled(outcome).await?;
        if given_up && self.ctx.settings.config.lane.keep == Keep::Never && !self.claim.spec.read_only {
            self.ctx.clone().retire(&self.claim.task, RetireMode::SalvageFirst).await;
        }
        Ok(())
    }

    async fn salvage(&self, site: &Site, why: &str) -> Result<(), WorkerError> {
        let why = self.redact(why);
        let reason = why.clone();
        let kept = self
            .git(site, move |ctx, lane| match ctx.repository.lanes.harm(lane) {
                None => ctx.repository.lanes.salvage(lane, &reason, clock::now()),
                Some(_) => Ok(None),
            })
            .await?;
        if let Some(kept) = kept {
            self.tell_salvaged(&kept, &why).await;
        }
        Ok(())
    }

    pub(crate) async fn tell_salvaged(&self, kept: &SalvageRef, why: &str) {
        self.note(EventBody::Salvaged { reference: kept.name.clone(), why: why.to_owned() }).await;
        self.ctx.memory.saved.notify_one();
    }

    /// The attempt's last step.
    pub(crate) async fn settled(&mut self, outcome: Outcome) -> Result<(), WorkerError> {
        self.record.ended_at = Some(clock::now());
        self.record.summary = self.redact(&self.record.summary);
        let outcome = self.without_secrets(outcome);
        // No process is in the lane any more; if one is after all, the lock stays.
        hold::discard(&self.ctx.repository.hold_of(&self.claim.task));
        self.advance(Step::Settled { attempt: self.record.clone(), outcome }).await
    }

    /// Texts of agents, checks and git are stored with the task and shown, so secrets are masked.
    fn without_secrets(&self, outcome: Outcome) -> Outcome {
        match outcome {
            Outcome::Retry { not_before, class, why } => {
                Outcome::Retry { not_before, class, why: self.redact(&why) }
            }
            Outcome::Release { why } => Outcome::Release { why: self.redact(&why) },
            Outcome::Fail { why } => Outcome::Fail { why: self.redact(&why) },
            Outcome::Park { until, why, detail } => {
                Outcome::Park { until, why, detail: self.redact(&detail) }
            }
            Outcome::Block { reason, detail } => Outcome::Block { reason, detail: self.redact(&detail) },
            Outcome::Approve(_) | Outcome::Done { .. } | Outcome::Cancel { .. } => outcome,
        }
    }

    /// A statement as it is stored.
    fn said(&self, by: &str, statement: &Statement) -> Evidence {
        let summary = self.redact(&statement.summary);
        Evidence::Said { by: by.to_owned(), statement: Statement { summary, ..statement.clone() } }
    }

    /// Regatta's own part failed: parked, not charged.
    pub(crate) fn environment_failure(&mut self, why: &str) -> Outcome {
        self.failure(&Judgement::Environment(why.to_owned()))
    }

    /// The task's own setup failed: charged.
    pub(crate) fn work_failure(&mut self, why: &str) -> Outcome {
        self.failure(&Judgement::Bad { verdict: Verdict::Block, by: "setup", why: why.to_owned() })
    }

    /// The outcome for a failure; its class and whether it is charged go into the record.
    fn failure(&mut self, judgement: &Judgement) -> Outcome {
        let so_far = SoFar {
            spec: &self.claim.spec,
            charged: self.claim.charged,
            environment_failures: self.claim.environment_failures,
            backoff: &self.ctx.settings.backoff,
            now: clock::now(),
            next: &self.next,
        };
        let (mut outcome, class, charged) = judge::after_failure(judgement, &so_far);
        if let (Judgement::Budget(_), Some(allowance)) = (judgement, &self.meter.allowance) {
            outcome = allowance.halt(self.meter.used()).outcome();
        }
        self.record.class = Some(class);
        self.record.charged = charged;
        outcome
    }
}

/// The end of some output, short enough for a record.
pub(super) fn tail_of(output: &str) -> &str {
    &output[output.ceil_char_boundary(output.len().saturating_sub(4096))..]
}
