//! Reports of agents.
//!
//! Invariant: a report counts only while its attempt is claimed or running, and only with that attempt's token; both
//! are compared by the plan that stores it.

use std::sync::Arc;

use regatta_core::state::TaskState;
use regatta_core::time::Timestamp;

use super::record::{Kept, Key, Said, Want, folded};
use super::{Call, Draft, Rule};
use crate::stored::bounded;
use crate::{RequestId, StoreError, Word, WorkerReport};

/// Stores a report.
pub(crate) fn report<'a>(report: &'a WorkerReport, request: &'a RequestId, at: Timestamp) -> Call<'a, ()> {
    let wants = move || {
        let task = folded(&report.task);
        vec![
            Want::Record(Key::Task(Arc::clone(&task))),
            Want::Record(Key::Request(request.clone(), "report", Some(Arc::clone(&task)))),
            Want::Record(Key::Report(task, report.attempt)),
        ]
    };
    Call::new(at, wants, move |draft| report_in(draft, report, request))
}

fn report_in(draft: &mut Draft<'_>, report: &WorkerReport, request: &RequestId) -> Rule<()> {
    let task = draft.require(&report.task)?;
    if !draft.remember(request, "report", Some(&task))? {
        return Ok(());
    }
    let row = draft.task(&task)?;
    let fenced = |why: String| Err(StoreError::Fenced(why).into());
    let (TaskState::Claimed { attempt } | TaskState::Running { attempt, .. }) = row.state else {
        return fenced(format!("{} is {}: no agent is working on it", row.id, row.state.name()));
    };
    if attempt != report.attempt {
        return fenced(format!("{} is in attempt {attempt} by now, not in {}", row.id, report.attempt));
    }
    if row.token_hash.as_deref() != Some(&report.token_hash) {
        return fenced(format!("the token is not that of attempt {attempt} of {}", row.id));
    }
    let key = Key::Report(task, attempt);
    match &report.word {
        Word::Done(statement) => {
            let statement = Some(bounded("the verdict", statement)?);
            draft.put(key, Said { statement, stuck: None }.record())?;
        }
        Word::Stuck(why) => {
            let statement = draft.get::<Said>(&key)?.and_then(|said| said.statement.clone());
            draft.put(key, Said { statement, stuck: Some(why.clone()) }.record())?;
        }
        Word::Progress { .. } => {}
    }
    draft.append(Some(&row), Some(attempt), &report.word.event())
}
