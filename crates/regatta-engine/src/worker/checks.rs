//! The task's checks: run by Regatta itself, on a clean checkout of exactly the commit that would land.
//!
//! Invariant: nothing that an agent left in its lane without committing it (ignored files, index flags, other branches)
//! reaches a check. What a check needs besides the commit is provided as for a gate: brought-in files, `lane.setup` and
//! `lane.build_dirs`.

use std::time::Instant;

use regatta_core::attempt::{Attempt, Evidence};
use regatta_core::event::EventBody;
use regatta_core::plain::last_lines;
use regatta_core::report::CHECK_LINES;

use super::settle::tail_of;
use super::{Site, Worker, WorkerError};
use crate::commands::{NO_LIMIT, Shell};
use crate::git::Oid;
use crate::lanes::Leased;
use crate::persist::until_answered;

/// Time limit of a check if the task has none of its own.
const CHECK_LIMIT: std::time::Duration = std::time::Duration::from_secs(30 * 60);

impl Worker {
    /// Runs each check; the first failure is the reason.
    pub(super) async fn run_checks(
        &mut self,
        site: &Site,
        head: &Oid,
        tree: &Oid,
    ) -> Result<Option<String>, WorkerError> {
        let limit = self.claim.spec.limits.total.unwrap_or(CHECK_LIMIT);
        let before = if self.claim.spec.checks.is_empty() {
            Vec::new()
        } else {
            until_answered(|| self.ctx.services.store.attempts(&self.claim.task)).await?
        };
        let mut clean: Option<Leased> = None;
        for (n, command) in self.claim.spec.checks.clone().into_iter().enumerate() {
            let dir = site.run_dir.join(format!("check-{}", n + 1));
            let shell = Shell::for_lane(&self.ctx, &self.claim, &site.lane, &dir);
            let environment = shell.fingerprint();
            if let Some(passed) = self.passed_before(&before, &command, tree, &environment) {
                self.record.evidence.push(passed);
                continue;
            }
            if clean.is_none() {
                match self.clean_checkout(site, head).await? {
                    Ok(lane) => clean = Some(lane),
                    Err(why) => return Ok(Some(why)),
                }
            }
            let place = clean.as_deref().unwrap_or(&site.lane);
            let shell = Shell::for_lane(&self.ctx, &self.claim, place, &dir);
            let started = Instant::now();
            let ran = shell.run(&self.ctx, &command, limit, self.stop.clone()).await;
            if let Some(why) = ran.never_ran() {
                let source = std::io::Error::other(why.to_owned());
                return Err(WorkerError::Io { doing: "running the checks in", path: dir, source });
            }
            let tail = self.redact(tail_of(&ran.output));
            let millis = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
            let failed = !ran.exit.success();
            let why = format!("the check `{command}` {}", ran.exit.predicate());
            let tree = tree.clone();
            let output = last_lines(&tail, CHECK_LINES).join("\n");
            self.record.evidence.push(Evidence::Check {
                command,
                exit: ran.exit,
                tree,
                millis,
                tail,
                environment,
                passed_in: None,
            });
            if failed {
                self.note(EventBody::Noted { text: format!("{why}\n{output}") }).await;
                return Ok(Some(why));
            }
        }
        if let Some(lane) = clean {
            self.blocking(move |_| lane.give_back()).await?;
        }
        Ok(None)
    }

    /// A check that passed in an earlier attempt on the same tree, in the same environment, would pass again.
    fn passed_before(&self, before: &[Attempt], wanted: &str, on: &Oid, there: &str) -> Option<Evidence> {
        let earlier = before.iter().filter(|attempt| attempt.n < self.claim.attempt);
        earlier.flat_map(|attempt| attempt.evidence.iter().map(|one| (attempt.n, one))).find_map(
            |(n, evidence)| match evidence {
                Evidence::Check { command, exit, tree, environment, passed_in, .. }
                    if command == wanted && tree == on && environment == there && exit.success() =>
                {
                    let mut again = evidence.clone();
                    if let Evidence::Check { passed_in: again, .. } = &mut again {
                        *again = passed_in.or(Some(n));
                    }
                    Some(again)
                }
                _ => None,
            },
        )
    }

    /// A checkout of `head` for the checks, made like those for gates; or why it could not be set up.
    async fn clean_checkout(
        &mut self,
        site: &Site,
        head: &Oid,
    ) -> Result<Result<Leased, String>, WorkerError> {
        let commit = head.clone();
        let lane = self.blocking(move |ctx| ctx.repository.lanes.lease(&commit)).await?;
        self.ctx.lay_out_siblings(&lane, &self.record.siblings).await?;
        self.ctx.furnish(&lane, &self.claim.spec.workdir).await?;
        let Some(due) = self.ctx.setup_due(&lane).await? else { return Ok(Ok(lane)) };
        let dir = site.run_dir.join("check-setup");
        let shell = Shell::for_lane(&self.ctx, &self.claim, &lane, &dir);
        let limit = self.ctx.settings.config.lane.setup_timeout.unwrap_or(NO_LIMIT);
        let ran = shell.run(&self.ctx, &due.command, limit, self.stop.clone()).await;
        if ran.exit.success() {
            self.ctx.setup_done(&lane, &due).await?;
            return Ok(Ok(lane));
        }
        if let Some(why) = ran.never_ran() {
            let source = std::io::Error::other(why.to_owned());
            return Err(WorkerError::Io { doing: "running lane.setup for the checks in", path: dir, source });
        }
        let last = self.redact(ran.output.trim_end().lines().last().unwrap_or_default());
        Ok(Err(format!("before the checks, lane.setup `{}` {}: {last}", due.command, ran.exit.predicate())))
    }
}
