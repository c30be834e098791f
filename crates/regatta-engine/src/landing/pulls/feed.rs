//! Reviews, failed checks and refusals of the queue, sent to the agent as follow-ups: each once, in batches, capped.
//!
//! What is sent is recorded with its request id before it is sent, and the store accepts a request once: a crash in
//! between repeats the same prompt, which the store then knows.

use regatta_core::config::AgentKind;
use regatta_core::forge::feedback::{CheckOutput, Gathered, ci_prompt, queue_prompt, review_prompt};
use regatta_core::forge::fence::Fence;
use regatta_core::forge::pull::Check;
use regatta_core::forge::record::{PullRecord, Sending, Speaker, rounds};
use regatta_core::plain;
use regatta_core::prompt::MAX_PROMPT;
use regatta_core::state::BlockReason;
use regatta_core::train::{Car, HeldBy};
use regatta_store::{NewPrompt, RequestId, StoreError};

use super::desk::Desk;
use super::look::Looked;
use super::{Pulls, Trouble};
use crate::forge::ForgeError;
use crate::landing::train::LandError;
use crate::persist::until_answered;
use crate::{clock, failpoint, tokens};

/// The name under which Regatta acts on what people did at the forge.
pub(super) const FORGE: &str = "forge";
/// Most failed checks whose output is read.
const MOST_OUTPUTS: usize = 5;
/// Longest beginning of a prompt in the event log.
const BEGINNING: usize = 80;

impl Pulls {
    /// Sends what reviewers and commenters wrote.
    pub(super) async fn tell_review(&mut self, looked: &Looked, gathered: &Gathered) -> Result<(), Trouble> {
        let Looked { car, record, facts, .. } = looked;
        let bots = &self.train.ctx.settings.config.github.bots;
        let is_bot = |login: &str| {
            bots.iter().any(|bot| bot.trim_end_matches("[bot]") == login.trim_end_matches("[bot]"))
        };
        let by = if gathered.authors().into_iter().all(is_bot) { Speaker::Bots } else { Speaker::Review };
        let text = review_prompt(&record.repo, facts, gathered, &fence());
        self.tell(car, record.clone(), by, text, gathered.keys.clone()).await
    }

    /// Runs failed checks again, as often as configured, then sends their output.
    pub(super) async fn tell_ci(
        &mut self,
        desk: &Desk,
        looked: &Looked,
        failed: &[Check],
        key: &str,
    ) -> Result<(), Trouble> {
        let Looked { car, record, facts, .. } = looked;
        let ctx = self.train.ctx.clone();
        let mut record = record.clone();
        let runs: std::collections::BTreeSet<u64> = failed.iter().filter_map(|check| check.run).collect();
        let done =
            record.reruns.as_ref().filter(|(head, _)| *head == facts.head.commit).map_or(0, |(_, n)| *n);
        if done < ctx.settings.config.land.retries && !runs.is_empty() {
            record.reruns = Some((facts.head.commit.clone(), done + 1));
            self.records.put(record.clone()).await?;
            for run in runs {
                match desk.forge.rerun(&record.repo, run).await {
                    Ok(()) | Err(ForgeError::Refused(_) | ForgeError::Gone(_)) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            self.look_again_at(&car.task, clock::now().plus(super::PAUSE));
            let why = format!("{}: failed checks run again", facts.number);
            self.waits(car, why, HeldBy::Forge).await?;
            return Ok(());
        }
        let mut outputs = Vec::new();
        for check in failed.iter().take(MOST_OUTPUTS) {
            let output = match desk.forge.output(&record.repo, check).await {
                Ok(output) => ctx.settings.redact(&output),
                Err(ForgeError::Refused(_) | ForgeError::Gone(_)) => ctx.settings.redact(&check.summary),
                Err(error) => return Err(error.into()),
            };
            outputs.push(CheckOutput { check: check.clone(), text: output });
        }
        let text = ci_prompt(&record.repo, facts, &outputs, &fence());
        self.tell(car, record, Speaker::Ci, text, vec![key.to_owned()]).await
    }

    /// Sends why the queue of the target refused it.
    pub(super) async fn tell_queue(
        &mut self,
        looked: &Looked,
        reason: &str,
        key: &str,
    ) -> Result<(), Trouble> {
        let Looked { car, record, facts, .. } = looked;
        let text = queue_prompt(&record.repo, facts, &self.train.ctx.settings.redact(reason), &fence());
        self.tell(car, record.clone(), Speaker::Queue, text, vec![key.to_owned()]).await
    }

    /// Sends one follow-up, unless its agent cannot read it or has had enough of them.
    async fn tell(
        &mut self,
        car: &Car,
        mut record: PullRecord,
        by: Speaker,
        text: String,
        keys: Vec<String>,
    ) -> Result<(), Trouble> {
        let ctx = self.train.ctx.clone();
        let task = until_answered(|| ctx.services.store.task(&car.task)).await?;
        let number = record.pull.as_ref().map(|pull| pull.number.to_string()).unwrap_or_default();
        let agent = ctx.settings.config.agents.get(&task.spec.agent);
        let runs_it = agent.is_none_or(|agent| {
            matches!(agent.kind, AgentKind::Command | AgentKind::Sim) && !agent.follow_ups
        });
        if runs_it {
            record.heard.add(keys);
            self.records.put(record).await?;
            let detail = format!(
                "{number}: there is feedback, and the prompt of its agent {} is a script, which feedback must not become",
                task.spec.agent
            );
            self.train.reject(car, BlockReason::NeedsInput, detail, Vec::new()).await?;
            return Ok(());
        }
        let prompts = until_answered(|| ctx.services.store.prompts(&car.task)).await?;
        let had = rounds(prompts.iter().map(|prompt| prompt.by.as_str()));
        let most = ctx.settings.config.land.pr.rounds;
        if Speaker::is_machine(by.as_str()) && had >= most {
            record.heard.add(keys);
            self.records.put(record).await?;
            let detail = format!(
                "{number}: {most} rounds of feedback have not settled it; `regatta send {} \"…\"` continues",
                car.task
            );
            self.train.reject(car, BlockReason::NeedsInput, detail, Vec::new()).await?;
            return Ok(());
        }
        let text = clipped(ctx.settings.redact(&text));
        record.sending = Some(Sending { request: RequestId::fresh().0, by, text, keys });
        self.records.put(record.clone()).await?;
        self.send(record).await?;
        Ok(())
    }

    /// Sends what was recorded, and records that it was sent.
    async fn send(&mut self, mut record: PullRecord) -> Result<(), LandError> {
        let Some(sending) = record.sending.clone() else { return Ok(()) };
        let ctx = self.train.ctx.clone();
        let prompt = NewPrompt {
            beginning: beginning(&sending.text),
            text: sending.text,
            by: sending.by.as_str().to_owned(),
            queue: None,
            urgent: false,
        };
        let request = RequestId(sending.request);
        let sent =
            until_answered(|| ctx.services.store.send(&record.task, &prompt, &request, clock::now())).await;
        match sent {
            Ok(_) => {}
            // The task was cancelled meanwhile, or removed.
            Err(StoreError::Refused(_) | StoreError::NotFound(_)) => {}
            Err(error) => return Err(error.into()),
        }
        failpoint::reach("fed");
        record.heard.add(sending.keys);
        record.sending = None;
        self.records.put(record).await?;
        self.load_after_sending().await
    }

    /// Prompts that were recorded before a crash.
    pub(super) async fn finish_sending(&mut self) -> Result<(), LandError> {
        let left: Vec<PullRecord> =
            self.records.all().filter(|record| record.sending.is_some()).cloned().collect();
        for record in left {
            self.send(record).await?;
        }
        Ok(())
    }

    async fn load_after_sending(&mut self) -> Result<(), LandError> {
        self.train.load_cars().await.map(drop)
    }
}

/// The first words of a prompt, on one line.
fn beginning(text: &str) -> String {
    let words = plain::words(&plain::clean_line(text));
    match words.char_indices().nth(BEGINNING) {
        Some((end, _)) => format!("{}…", &words[..end]),
        None => words,
    }
}

/// A prompt that the store accepts.
fn clipped(mut text: String) -> String {
    if text.len() > MAX_PROMPT {
        let end = (0..=MAX_PROMPT).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
    }
    text
}

fn fence() -> Fence {
    Fence::new(tokens::random_bytes())
}
