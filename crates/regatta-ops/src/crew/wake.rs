//! Delivers a message as the next prompt of a task's agent.

use regatta_core::config::AgentKind;
use regatta_core::crew::MemberName;
use regatta_engine::clock;
use regatta_engine::templates::{self, Text};
use regatta_store::{BOARD_QUEUE, Mark, Posted, StoreError, TaskRecord};

use super::{Crew, unusable};
use crate::operator::Operator;
use crate::refusal::Refusal;
use crate::tasks::{SendRequest, When};

/// The task whose agent would be woken. A message is never executed, so an agent whose prompt is a script is refused.
pub(super) async fn sleeper(crew: &Crew, name: &MemberName) -> Result<TaskRecord, Refusal> {
    let task = match crew.store.task(name.as_task()).await {
        Err(StoreError::NotFound(_)) => {
            return Err(Refusal::usage(format!("{name} is not a task: only agents can be woken"))
                .hinted("without --wake the message goes to their inbox"));
        }
        task => task?,
    };
    let (id, agent) = (&task.spec.id, &task.spec.agent);
    let kind = crew.project.config.agents.get(agent).map(|found| found.kind);
    match kind {
        _ if task.queue == BOARD_QUEUE => {
            Err(Refusal::refused(format!("{id} is on the board: it has no agent"))
                .hinted("send it to the member that holds it"))
        }
        None | Some(AgentKind::Command | AgentKind::Sim) => Err(Refusal::refused(format!(
            "the prompt of {id} is a script for {agent}, and a message must not be run"
        ))
        .hinted(format!("without --wake it is in its inbox; `regatta send {id}` adds to the script"))),
        Some(_) => Ok(task),
    }
}

/// Makes a message in the inbox the next prompt of a task's agent.
pub(super) async fn wake(crew: &Crew, task: &TaskRecord, posted: &Posted) -> Result<(), Refusal> {
    let name = MemberName::from(task.spec.id.clone());
    let Some(message) = crew.letter(&name, posted.id).await? else { return Ok(()) };
    let template = Text::Message.load(&crew.project.repo.state_dir).map_err(unusable)?;
    let operator = Operator::of(&crew.project, crew.store.clone()).await?;
    let text = templates::message(&template, &message);
    operator.send(&SendRequest { task: task.spec.id.to_string(), text, when: When::Next }).await?;
    crew.store.mark(&name, &[message.id], Mark::Read, clock::now()).await?;
    Ok(())
}
