//! Sends follow-up prompts to agents.

use regatta_core::config::{AgentKind, Config};
use regatta_core::plain::clean_line;
use regatta_core::prompt::PromptState;
use regatta_core::state::{StateName, TaskState, how_it_ended};
use regatta_engine::clock;
use regatta_store::{MAIN_QUEUE, NewPrompt, RequestId, StoreError, TaskQuery, TaskRecord};

use crate::documents::{RefusedDocument, SentDocument};
use crate::operator::Operator;
use crate::project::find_task;
use crate::refusal::{Refusal, RefusalKind};
use crate::secrets::redactor;

/// How many characters of a prompt are in the event log.
const BEGINNING: usize = 80;

/// When the agent gets the prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// After the running attempt.
    Next,
    /// At once: the running attempt is interrupted.
    Now,
}

/// A request to send a follow-up prompt to one task's agent.
#[derive(Clone, Debug)]
pub struct SendRequest {
    /// The task, or the beginning of its id.
    pub task: String,
    /// The prompt.
    pub text: String,
    /// When the agent gets the prompt.
    pub when: When,
}

/// A request to send a follow-up prompt to every agent that can still receive one.
#[derive(Clone, Debug, Default)]
pub struct BroadcastRequest {
    /// The prompt.
    pub text: String,
    /// Only tasks in these states; if empty, all that have not ended, and those that ended and have a conversation.
    pub states: Vec<StateName>,
    /// Include landed tasks.
    pub landed: bool,
}

/// The results of a broadcast.
#[derive(Debug, Default)]
pub struct Broadcasted {
    /// The tasks it was sent to.
    pub sent: Vec<SentDocument>,
    /// Tasks that ended in between.
    pub refused: Vec<RefusedDocument>,
}

impl Operator {
    /// Sends a follow-up prompt to a task's agent, which continues its conversation in its lane.
    pub async fn send(&self, request: &SendRequest) -> Result<SentDocument, Refusal> {
        let task = find_task(self.store.as_ref(), &request.task).await?;
        self.send_to(&task, &request.text, request.when).await
    }

    /// Sends a follow-up prompt to every task's agent, as [`Operator::send`] does to one.
    pub async fn broadcast(&self, request: &BroadcastRequest) -> Result<Broadcasted, Refusal> {
        let query = TaskQuery { states: states(request), ..TaskQuery::default() };
        let mut outcome = Broadcasted::default();
        for task in self.store.tasks(&query).await? {
            if !hears(self, &task, request).await? {
                continue;
            }
            match self.send_to(&task, &request.text, When::Next).await {
                Ok(sent) => outcome.sent.push(sent),
                // It ended in between.
                Err(refusal) if refusal.kind == RefusalKind::Refused => {
                    outcome.refused.push(RefusedDocument::of(&task.spec.id, &refusal));
                }
                Err(refusal) => return Err(refusal),
            }
        }
        Ok(outcome)
    }

    async fn send_to(&self, task: &TaskRecord, text: &str, when: When) -> Result<SentDocument, Refusal> {
        let config = &self.project.config;
        let id = &task.spec.id;
        refuse_script(task, config)?;
        let prompt = NewPrompt {
            text: text.to_owned(),
            beginning: beginning(&redactor(config).redact(text)),
            by: self.by.clone(),
            // A task of a run that is over moves to the daemon's queue.
            queue: self.takers.is_abandoned(&task.queue).then(|| MAIN_QUEUE.to_owned()),
            urgent: when == When::Now,
        };
        let sent = match self.store.send(id, &prompt, &RequestId::fresh(), clock::now()).await {
            Ok(sent) => sent,
            Err(StoreError::Refused(why)) => return Err(refused(&self.store.task(id).await?, why)),
            Err(StoreError::Invalid(why)) => {
                return Err(Refusal::usage(format!("{why}; nothing was sent"))
                    .hinted("put it in a file that the agent can read, and send its path"));
            }
            Err(error) => return Err(error.into()),
        };
        let task = self.store.task(id).await?;
        let prompts = self.store.prompts(id).await?;
        let queued = prompts.iter().filter(|prompt| prompt.state == PromptState::Queued).count();
        let served = self.takers.of(&task.queue).is_some();
        Ok(SentDocument {
            task_id: id.clone(),
            dispatched: sent.rearmed && served,
            queued_count: u32::try_from(queued).unwrap_or(u32::MAX),
            position: sent.position,
            prompt: sent.prompt,
            state: task.state.kind(),
            hint: (!served).then(|| self.takers.sentence(&task.queue).replace("ID", id.as_str())),
        })
    }
}

/// A prompt becomes a command's standard input, which is a script for a shell. Text is not run unless the user
/// configured that this command understands prompts.
fn refuse_script(task: &TaskRecord, config: &Config) -> Result<(), Refusal> {
    let (id, name) = (&task.spec.id, &task.spec.agent);
    let Some(agent) = config.agents.get(name) else { return Ok(()) };
    if agent.kind != AgentKind::Command || agent.follow_ups {
        return Ok(());
    }
    Err(Refusal::refused(format!("{id}: its agent {name} is a command, which would run what is sent as its input")).hinted(
        format!("if {name} reads words and not scripts, set `agents.{name}.follow_ups: true` in regatta.yaml; `regatta requeue {id}` runs the task again"),
    ))
}

/// The result on one line, for people.
pub fn line(sent: &SentDocument, when: When) -> String {
    let id = &sent.task_id;
    if when == When::Now && sent.state.is_claimed() {
        return format!("sent to {id}: its agent is interrupted and continues with this");
    }
    match (sent.dispatched, sent.position, sent.state) {
        (true, ..) => format!("sent to {id}: it continues with this"),
        (_, 1, StateName::Pending | StateName::Parked) => {
            format!("sent to {id}, which is {}: delivered when it starts", sent.state)
        }
        (_, 1, state) => format!("sent to {id}, which is {state}: delivered when this attempt has ended"),
        (_, n, state) => {
            format!("sent to {id}, which is {state}: delivered as number {n} of the waiting messages")
        }
    }
}

/// Why the prompt was refused, and what to do first.
fn refused(task: &TaskRecord, why: String) -> Refusal {
    let id = &task.spec.id;
    match &task.state {
        TaskState::Cancelled { .. } => {
            Refusal::refused(format!("{id} is cancelled, so no agent would read it"))
                .hinted(format!("run `regatta retry {id}` first, then send it"))
        }
        TaskState::Skipped { dependency, was } => Refusal::refused(format!(
            "{id} is skipped, because its dependency {dependency} {}",
            how_it_ended(*was)
        ))
        .hinted(format!("run `regatta requeue {dependency}` first, then send it")),
        _ => Refusal::refused(why),
    }
}

/// The first words of `text`, on one line.
pub fn beginning(text: &str) -> String {
    let line = clean_line(text.trim_start());
    let words = line.split_whitespace().collect::<Vec<_>>().join(" ");
    match words.char_indices().nth(BEGINNING) {
        Some((end, _)) => format!("{}…", &words[..end]),
        None => words,
    }
}

/// The states of tasks that could be included, because landed tasks are most of a long history.
fn states(request: &BroadcastRequest) -> Vec<StateName> {
    if !request.states.is_empty() {
        return request.states.clone();
    }
    StateName::all_that(|name| name.can_hear() && (name != StateName::Landed || request.landed))
}

/// Whether this task is included.
async fn hears(operator: &Operator, task: &TaskRecord, request: &BroadcastRequest) -> Result<bool, Refusal> {
    let named = request.states.contains(&task.state.kind());
    Ok(match &task.state {
        TaskState::Cancelled { .. } | TaskState::Skipped { .. } => false,
        TaskState::Landed { .. } => request.landed || named,
        TaskState::Done { .. } | TaskState::Failed { .. } | TaskState::Blocked { .. } if !named => {
            let attempts = operator.store.attempts(&task.spec.id).await?;
            attempts.iter().any(|attempt| attempt.session.is_some())
        }
        _ => true,
    })
}
