//! `regatta msg send --wake`: a message as the next prompt of a task's agent.

use std::sync::Arc;

use regatta_core::crew::MemberName;
use regatta_engine::agents::{AgentProfile, Kind};
use regatta_engine::clock;
use regatta_engine::templates::{self, Text};
use regatta_store::{BOARD_QUEUE, InboxQuery, Mark, Posted, Store, StoreError, TaskRecord};

use super::post::unusable;
use crate::error::CliError;
use crate::project::Project;
use crate::queue::Operator;
use regatta_ops::tasks::{SendRequest, When};

/// The task whose agent would be woken. What somebody writes is never run: an agent whose prompt is a script is refused.
pub(super) async fn sleeper(
    project: &Project,
    store: &dyn Store,
    name: &MemberName,
) -> Result<TaskRecord, CliError> {
    let task = match store.task(name.as_task()).await {
        Err(StoreError::NotFound(_)) => {
            return Err(CliError::usage(format!("{name} is no task: only an agent can be woken"))
                .hinted("without --wake it is in their inbox"));
        }
        task => task?,
    };
    let (id, agent) = (&task.spec.id, &task.spec.agent);
    let kind = project.config.agents.get(agent).map(|found| AgentProfile::of(agent, found).kind);
    match kind {
        _ if task.queue == BOARD_QUEUE => {
            Err(CliError::refused(format!("{id} is on the board: it has no agent"))
                .hinted("send it to the member that holds it"))
        }
        None | Some(Kind::Command | Kind::Sim) => Err(CliError::refused(format!(
            "the prompt of {id} is a script for {agent}, and a message must not be run"
        ))
        .hinted(format!("without --wake it is in its inbox; `regatta send {id}` adds to the script"))),
        Some(_) => Ok(task),
    }
}

/// Makes a message that is in its inbox the next prompt of a task's agent.
pub(super) async fn wake(
    project: &Project,
    store: &Arc<dyn Store>,
    task: &TaskRecord,
    posted: &Posted,
) -> Result<(), CliError> {
    let name = MemberName::from(task.spec.id.clone());
    let query = InboxQuery { after: posted.id.saturating_sub(1), limit: 1, ..InboxQuery::default() };
    let Some(message) = store.inbox(&name, &query).await?.pop().filter(|message| message.id == posted.id)
    else {
        return Ok(());
    };
    let template = Text::Message.load(&project.repo.state_dir).map_err(unusable)?;
    let operator = Operator::of(project, store.clone()).await?;
    let text = templates::message(&template, &message);
    operator.send(&SendRequest { task: task.spec.id.to_string(), text, when: When::Next }).await?;
    store.mark(&name, &[message.id], Mark::Read, clock::now()).await?;
    Ok(())
}
