//! Drives chains: executes through the store what `core::chain::decide` says about each chain with news.
//!
//! Every step carries a request id derived from its purpose, so that repeating it, after a crash or beside another
//! engine, changes nothing.

use std::collections::BTreeSet;
use std::sync::Arc;

use regatta_core::attempt::Attempt;
use regatta_core::chain::{self, Action, At, Build, Edition, LinkStatus, Picture, SPEAKER};
use regatta_core::event::Event;
use regatta_core::id::TaskId;
use regatta_core::oid::Oid;
use regatta_core::part::{Link, Part};
use regatta_core::plain;
use regatta_core::spec::TaskSpec;
use regatta_core::state::{BlockReason, TaskState};
use regatta_core::train::{LandRequest, why_guarded};
use regatta_core::verdict::Verdict;
use regatta_store::{NewPrompt, Operation, RequestId, StoreError, TaskRecord};

use super::{Engine, EngineError};
use crate::context::Context;
use crate::persist::until_answered;
use crate::records::Records;
use crate::templates::Text;
use crate::{clock, failpoint};

/// Characters of the feedback to a builder that the event log keeps.
const EVENT_EXCERPT: usize = 80;

/// Chains known to this engine, by their builds.
#[derive(Default)]
pub(super) struct Chains {
    known: BTreeSet<TaskId>,
    /// Chains with news since they were last checked.
    stirred: BTreeSet<TaskId>,
}

impl Chains {
    /// Takes in the chain that a task is part of.
    pub(super) fn find(&mut self, spec: &TaskSpec) {
        if let Some(chain) = spec.part.as_ref().and_then(|part| part.chain(&spec.id)) {
            self.known.insert(chain.clone());
            self.stirred.insert(chain.clone());
        }
    }

    /// All of them are checked again.
    pub(super) fn stir_all(&mut self) {
        self.stirred.clone_from(&self.known);
    }

    /// Takes in an event of a task.
    pub(super) fn heard(&mut self, event: &Event) {
        let Some(task) = &event.task else { return };
        if let Some((build, _)) = Link::of_id(task) {
            self.known.insert(build.clone());
            self.stirred.insert(build);
        }
        if self.known.contains(task) {
            self.stirred.insert(task.clone());
        }
    }
}

/// A chain as stored.
struct ChainRecord {
    build: TaskRecord,
    links: Vec<(Link, TaskRecord, Vec<Attempt>)>,
    edition: Edition,
    rounds: u32,
    picture: Picture,
}

impl Engine {
    /// Checks every chain with news, and does what follows.
    pub(super) async fn advance_chains(&mut self) -> Result<(), EngineError> {
        for chain in std::mem::take(&mut self.chains.stirred) {
            let Some(found) = self.find_chain(&chain).await? else {
                self.chains.known.remove(&chain);
                continue;
            };
            for action in chain::decide(&found.picture) {
                failpoint::reach("chain-decided");
                // What it changes is in the log.
                self.due.log = true;
                match self.act(&found, action).await {
                    Ok(()) => failpoint::reach("chain-acted"),
                    // It was changed meanwhile, which is news again.
                    Err(EngineError::Store(StoreError::Refused(_) | StoreError::Conflict(_))) => break,
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// The chain of a build; `None` if it is not a chain, or not one of ours.
    async fn find_chain(&self, chain: &TaskId) -> Result<Option<ChainRecord>, EngineError> {
        let store = &self.ctx.services.store;
        let links: Vec<TaskId> = Link::ALL.iter().filter_map(|link| link.task(chain)).collect();
        let mut records = Records::load(store.as_ref(), links.iter().chain([chain])).await?;
        let Some(build) = records.remove(chain) else { return Ok(None) };
        let Some(Part::Builder { links: names, lands }) = build.spec.part.clone() else { return Ok(None) };
        let prompts = until_answered(|| store.prompts(chain)).await?;
        let mut links = Vec::new();
        for link in names {
            let Some(id) = link.task(chain) else { return Ok(None) };
            let Some(record) = records.remove(&id) else { return Ok(None) };
            let attempts = until_answered(|| store.attempts(&id)).await?;
            links.push((link, record, attempts));
        }
        let ours = |record: &TaskRecord| record.queue == self.queue;
        if !ours(&build) && !links.iter().any(|(_, record, _)| ours(record)) {
            return Ok(None);
        }
        let head = match &build.state {
            TaskState::Done { head, .. } => head.clone(),
            _ => None,
        };
        let edition = Edition::of(head, &prompts);
        let is_done = matches!(build.state, TaskState::Done { .. });
        let picture = Picture {
            build: if is_done { Build::Done(edition.clone()) } else { Build::Elsewhere },
            lands,
            links: links.iter().map(|(link, record, attempts)| seen(*link, record, attempts)).collect(),
        };
        Ok(Some(ChainRecord { build, links, edition, rounds: chain::rounds(&prompts), picture }))
    }

    async fn act(&self, found: &ChainRecord, action: Action) -> Result<(), EngineError> {
        let (chain, at) = (&found.build.spec.id, clock::now());
        let Edition { head, told } = &found.edition;
        let request = |what: &str| {
            RequestId(format!("chain-{what}-{chain}-{told}-{}", head.as_ref().map_or("nothing", Oid::as_str)))
        };
        let store = &self.ctx.services.store;
        match action {
            Action::Restart(link) => {
                let Some(id) = link.task(chain) else { return Ok(()) };
                let (operation, request) =
                    (Operation::Requeue { by: SPEAKER.to_owned() }, request(link.as_str()));
                Ok(until_answered(|| store.operate(&id, &operation, &request, at)).await?)
            }
            Action::SendBack(link) => {
                let said = found.links.iter().find(|(other, ..)| *other == link);
                let last =
                    said.and_then(|(_, _, attempts)| attempts.iter().rev().find(|attempt| is_block(attempt)));
                let Some(last) = last else { return Ok(()) };
                let text = self.feedback(found, link, &last.summary);
                let beginning: String =
                    format!("{link}: {}", last.summary).chars().take(EVENT_EXCERPT).collect();
                let prompt = NewPrompt {
                    urgent: false,
                    beginning: plain::spaced(&beginning),
                    by: SPEAKER.to_owned(),
                    queue: Some(self.queue.clone()),
                    text,
                };
                let request = request(&format!("back-{link}-{}", last.n));
                until_answered(|| store.send(chain, &prompt, &request, at)).await?;
                Ok(())
            }
            Action::Land => {
                let attempts = until_answered(|| store.attempts(chain)).await?;
                let work = |made: &Attempt| made.base.clone().zip(made.head.clone());
                let mut made = attempts.iter().rev().filter(|made| made.head == *head);
                let Some((made, work)) = made.find_map(|made| Some((made, work(made)?))) else {
                    let head = head.as_ref().map_or("nothing", Oid::as_str);
                    self.ctx.say(format!(
                        "{chain}: the attempt that made {head} was not found, so it does not land"
                    ));
                    return Ok(());
                };
                let ctx = match self.ctx.of(found.build.spec.repo.as_ref()) {
                    Ok(ctx) => ctx,
                    Err(why) => {
                        self.ctx.say(format!("{chain}: it does not land: {why}"));
                        return Ok(());
                    }
                };
                if let Some(path) = guarded(&ctx, made).await? {
                    if self.ctx.memory.first_word_about_guard(chain, head.as_ref()) {
                        self.ctx.say(format!("{chain}: {}", why_guarded(&path, chain.as_str())));
                    }
                    return Ok(());
                }
                let operation = Operation::Land {
                    by: SPEAKER.to_owned(),
                    attempt: made.n,
                    request: LandRequest::new(
                        &found.build.spec,
                        made,
                        work,
                        ctx.repository.train(),
                        ctx.settings.config.land.strategy,
                    ),
                };
                let request = request("land");
                Ok(until_answered(|| store.operate(chain, &operation, &request, at)).await?)
            }
        }
    }

    /// The follow-up to a builder, from the project's template.
    fn feedback(&self, found: &ChainRecord, link: Link, said: &str) -> String {
        let template = Text::Feedback.load(&self.ctx.repository.project_dir).unwrap_or_else(|fault| {
            self.ctx.say(format!("{fault}; the default text is sent to the builder"));
            Text::Feedback.standard()
        });
        template.render(|name| match name {
            "chain" => found.build.spec.id.to_string(),
            "link" => link.to_string(),
            "role" => link.role().to_owned(),
            "round" => (found.rounds + 1).to_string(),
            "rounds" => self.ctx.settings.config.chain.rounds.to_string(),
            _ => said.to_owned(),
        })
    }
}

fn is_block(attempt: &Attempt) -> bool {
    attempt.verdict == Some(Verdict::Block) && attempt.judged.is_some()
}

fn seen(link: Link, record: &TaskRecord, attempts: &[Attempt]) -> LinkStatus {
    let judged = attempts.iter().rev().find_map(|attempt| attempt.judged.clone());
    let at = match &record.state {
        TaskState::Done { .. } | TaskState::Landed { .. } => At::Passed,
        TaskState::Blocked { reason: BlockReason::Changes, .. } => At::Asks,
        TaskState::Blocked { .. } | TaskState::Failed { .. } => At::Stuck,
        TaskState::Cancelled { .. } | TaskState::Skipped { .. } => At::Gone,
        _ => At::Open,
    };
    LinkStatus { link, at, judged }
}

/// The file of this work that only a person may land.
async fn guarded(ctx: &Arc<Context>, made: &Attempt) -> Result<Option<String>, EngineError> {
    let (Some(base), Some(head)) = (made.base.clone(), made.head.clone()) else { return Ok(None) };
    Ok(ctx.blocking(move |ctx| ctx.guarded(&base, &head)).await?)
}
