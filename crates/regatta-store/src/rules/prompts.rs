//! Follow-ups to a task's agent.
//!
//! Invariant: a prompt is taken exactly while the attempt it names is claimed, by that attempt alone; at the end of the
//! claim, in the same plan, it is delivered or queued again. Each claim takes an urgent prompt first, then the one with
//! the lowest number, so that a prompt that was queued again is the next of its urgency.

use std::sync::Arc;

use regatta_core::event::EventBody;
use regatta_core::id::TaskId;
use regatta_core::prompt::{MAX_PROMPT, Prompt, PromptState};
use regatta_core::state::{BlockReason, Change, TaskState};
use regatta_core::time::Timestamp;

use super::dependents::{dead_dependency, skip_if_hopeless};
use super::queue::forget_failures;
use super::record::{Folded, Kept, Key, QueuedPrompt, SetKey, Task, Want, folded};
use super::{Call, Draft, Rule, train};
use crate::{NewPrompt, Outcome, RequestId, Result, Sent, StoreError};

/// Queues a follow-up.
pub(crate) fn send<'a>(
    task: &'a TaskId,
    prompt: &'a NewPrompt,
    request: &'a RequestId,
    at: Timestamp,
) -> Call<'a, Sent> {
    let wants = move || {
        let task = folded(task);
        vec![
            Want::Record(Key::Task(Arc::clone(&task))),
            Want::Record(Key::Deps(Arc::clone(&task))),
            Want::Record(Key::Car(Arc::clone(&task))),
            Want::Set(SetKey::PromptsOf(task)),
        ]
    };
    Call::new(at, wants, move |draft| send_in(draft, task, prompt, request))
}

/// Checks everything that needs no access to the store.
pub(crate) fn check(prompt: &NewPrompt) -> Result<()> {
    let n_bytes = prompt.text.len();
    if prompt.text.trim().is_empty() {
        return Err(StoreError::Invalid("there is nothing in the prompt to tell the agent".into()));
    }
    if n_bytes > MAX_PROMPT {
        return Err(StoreError::Invalid(format!(
            "the prompt takes {} KiB, more than the {} KiB that can be sent; put long text into a file and name it",
            n_bytes.div_ceil(1024),
            MAX_PROMPT / 1024
        )));
    }
    Ok(())
}

fn send_in(draft: &mut Draft<'_>, task: &TaskId, prompt: &NewPrompt, request: &RequestId) -> Rule<Sent> {
    let task = draft.require(task)?;
    let prompts = all(draft, &task)?;
    if let Some(earlier) = prompts.iter().find(|earlier| earlier.request == *request) {
        let QueuedPrompt { prompt, position, rearmed, .. } = &**earlier;
        return Ok(Sent { prompt: prompt.n, position: *position, rearmed: *rearmed });
    }
    let row = draft.task(&task)?;
    let rearmed = match &row.state {
        TaskState::Cancelled { .. } | TaskState::Skipped { .. } => {
            let text = format!("{}: a {} task cannot be sent a prompt", row.id, row.state.name());
            return Err(StoreError::Refused(text).into());
        }
        TaskState::Pending { .. } | TaskState::Parked { .. } => false,
        // An open pull request may stay open for days: its car leaves, and boards again with the new work.
        TaskState::Landing { .. } => train::car_of(draft, &task)?.is_some_and(|car| car.step.is_proposed()),
        state => !state.is_claimed(),
    };
    if rearmed && let Some((dependency, _)) = dead_dependency(draft, &task)? {
        return Err(StoreError::Refused(format!(
            "{}: it depends on {dependency}, which did not succeed; requeue that first",
            row.id
        ))
        .into());
    }
    let last = prompts.iter().map(|earlier| earlier.prompt.n).max().unwrap_or(0);
    let before = prompts
        .iter()
        .filter(|earlier| earlier.prompt.state == PromptState::Queued && (earlier.urgent || !prompt.urgent));
    let position = u32::try_from(before.count()).unwrap_or(u32::MAX).saturating_add(1);
    let sent = Sent { prompt: last + 1, position, rearmed };
    let queued = QueuedPrompt {
        prompt: Prompt {
            n: sent.prompt,
            text: prompt.text.clone(),
            by: prompt.by.clone(),
            at: draft.at,
            state: PromptState::Queued,
            attempt: None,
        },
        urgent: prompt.urgent,
        request: request.clone(),
        position,
        rearmed,
    };
    let key = Key::Prompt(Arc::clone(&task), sent.prompt);
    draft.create(key.clone(), queued.record());
    draft.join(SetKey::PromptsOf(Arc::clone(&task)), key);
    draft.touch_task(&task)?;
    if prompt.urgent && row.state.is_claimed() {
        draft.edit_task(&task)?.interrupt_asked = Some(prompt.by.clone());
    }
    let (by, beginning) = (prompt.by.clone(), prompt.beginning.clone());
    let event = EventBody::PromptQueued { prompt: sent.prompt, by, beginning, rearmed };
    if !rearmed {
        draft.note(&task, &event)?;
        return Ok(sent);
    }
    if let Some(queue) = &prompt.queue {
        draft.edit_task(&task)?.queue.clone_from(queue);
    }
    if matches!(row.state, TaskState::Landing { .. }) {
        train::leave(draft, &task)?;
    }
    forget_failures(draft, &task)?;
    draft.change(&task, &Change::FollowUp, &event)?;
    Ok(sent)
}

/// All follow-ups of a task, in order.
fn all(draft: &mut Draft<'_>, task: &Folded) -> Rule<Vec<Arc<QueuedPrompt>>> {
    let mut prompts = Vec::new();
    for key in draft.members(&SetKey::PromptsOf(Arc::clone(task)))? {
        prompts.extend(draft.get::<QueuedPrompt>(&key)?);
    }
    prompts.sort_by_key(|queued| queued.prompt.n);
    Ok(prompts)
}

/// The number of waiting prompts.
pub(crate) fn waiting(draft: &mut Draft<'_>, task: &Folded) -> Rule<usize> {
    let prompts = all(draft, task)?;
    Ok(prompts.iter().filter(|queued| queued.prompt.state == PromptState::Queued).count())
}

/// The newly claimed attempt takes the oldest waiting prompt, an urgent one first.
pub(crate) fn take(draft: &mut Draft<'_>, task: &Folded, attempt: u32) -> Rule<()> {
    let prompts = all(draft, task)?;
    let waiting = prompts.iter().filter(|queued| queued.prompt.state == PromptState::Queued);
    let Some(next) = waiting.min_by_key(|queued| (!queued.urgent, queued.prompt.n)) else { return Ok(()) };
    let taken = draft.edit::<QueuedPrompt>(&Key::Prompt(Arc::clone(task), next.prompt.n))?;
    taken.prompt.state = PromptState::Taken;
    taken.prompt.attempt = Some(attempt);
    Ok(())
}

/// The prompt that the current attempt has taken.
pub(crate) fn taken(draft: &mut Draft<'_>, task: &Folded) -> Rule<Option<Prompt>> {
    let prompts = all(draft, task)?;
    let taken = prompts.iter().find(|queued| queued.prompt.state == PromptState::Taken);
    Ok(taken.map(|queued| queued.prompt.clone()))
}

/// The claim ends: its prompt counts as delivered, or is the next to be taken.
pub(crate) fn put_down(draft: &mut Draft<'_>, task: &Folded, told: bool) -> Rule<()> {
    let state = if told { PromptState::Told } else { PromptState::Queued };
    for queued in all(draft, task)?.iter().filter(|queued| queued.prompt.state == PromptState::Taken) {
        let key = Key::Prompt(Arc::clone(task), queued.prompt.n);
        draft.edit::<QueuedPrompt>(&key)?.prompt.state = state;
    }
    Ok(())
}

/// Whether an attempt has answered its prompt, with whatever result: one whose agent never started has not.
pub(crate) fn answers(outcome: &Outcome, started: bool) -> bool {
    match outcome {
        Outcome::Approve(_) | Outcome::Done { .. } => true,
        Outcome::Fail { .. } => started,
        Outcome::Block { reason, .. } => {
            started && !matches!(reason, BlockReason::Policy | BlockReason::Budget)
        }
        Outcome::Retry { .. } | Outcome::Release { .. } | Outcome::Park { .. } | Outcome::Cancel { .. } => {
            false
        }
    }
}

/// Whether a running agent was interrupted for an urgent prompt: its own prompt has been delivered by then.
pub(crate) fn interrupts(row: &Task, outcome: &Outcome, started: bool) -> bool {
    started && row.interrupt_asked.is_some() && matches!(outcome, Outcome::Release { .. })
}

/// The result the task would have had without waiting prompts.
pub(crate) fn described(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Approve(_) => "it would be landing".to_owned(),
        Outcome::Block { reason, detail } => format!("blocked ({reason}): {detail}"),
        Outcome::Fail { why } => format!("failed: {why}"),
        Outcome::Release { why } => why.clone(),
        _ => "it would be done".to_owned(),
    }
}

/// A landing ended while prompts wait: the task continues with the next of them.
pub(crate) fn follow_up(draft: &mut Draft<'_>, task: &Folded, after: String) -> Rule<()> {
    forget_failures(draft, task)?;
    draft.change(task, &Change::FollowUp, &EventBody::FollowingUp { after })?;
    skip_if_hopeless(draft, task)
}
