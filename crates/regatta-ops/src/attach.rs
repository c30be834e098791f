//! How a person continues an agent's conversation by hand.

use std::path::PathBuf;
use std::sync::Arc;

use regatta_core::attempt::Attempt;
use regatta_engine::agents::{AgentProfile, by_hand};
use regatta_engine::lanes::Lane;
use regatta_engine::profiles::with_home;
use regatta_store::{Store, TaskRecord};

use crate::documents::AttachDocument;
use crate::look::status::lane_elsewhere;
use crate::operator::Operator;
use crate::project::{Project, find_task};
use crate::refusal::Refusal;

/// A request for how to continue a task's conversation by hand.
#[derive(Clone, Debug)]
pub struct AttachRequest {
    /// The task, or the beginning of its id.
    pub task: String,
    /// Make the lane again if it is gone, with the task's last commit in it.
    pub restore: bool,
}

impl Project {
    /// How to continue a task's conversation by hand. Nothing is started.
    pub async fn attach(&self, request: &AttachRequest) -> Result<AttachDocument, Refusal> {
        let store = self.store().await?;
        let task = find_task(store.as_ref(), &request.task).await?;
        attach(self, store, &task, request.restore).await
    }
}

/// The same for a task that was read already.
pub async fn attach(
    project: &Project,
    store: Arc<dyn Store>,
    task: &TaskRecord,
    restore: bool,
) -> Result<AttachDocument, Refusal> {
    let id = task.spec.id.clone();
    let attempts = store.attempts(&id).await?;
    let queue = Operator::of(project, store).await?;
    let conversed = attempts.iter().rev().find_map(|attempt| Some((attempt, attempt.session.as_deref()?)));
    let Some((attempt, session)) = conversed else { return Err(no_session(task, &attempts, project)) };
    let Some(agent) = project.config.agents.get(&attempt.agent) else {
        return Err(Refusal::refused(format!(
            "{id} has the session {session} of the agent {:?}, which is no longer in regatta.yaml",
            attempt.agent
        ))
        .hinted("add it to `agents` again, or resume the session with that program itself"));
    };
    let profile = with_account(AgentProfile::of(&attempt.agent, agent), attempt, project);
    let model = attempt.model_asked.as_deref().or(profile.model.as_deref());
    let Some(by_hand) = by_hand(&profile, session, model, &task.spec.env) else {
        return Err(no_session(task, &attempts, project));
    };
    let lane = lane(&queue, task, attempt, restore).await?;
    let own = lane.join(&task.spec.workdir);
    let workdir: PathBuf = if own.is_dir() { own.components().collect() } else { lane.to_owned() };
    Ok(AttachDocument {
        task_id: id.clone(),
        session_id: session.to_owned(),
        agent: attempt.agent.clone(),
        attempt: attempt.n,
        state: task.state.kind(),
        running: task.state.is_claimed(),
        resume_command: by_hand.line(&workdir.to_string_lossy()),
        argv: by_hand.argv.clone(),
        env: by_hand.env.iter().cloned().collect(),
        worktree_path: lane,
    })
}

/// The agent with the attempt's account, which is where the conversation is kept.
fn with_account(mut agent: AgentProfile, attempt: &Attempt, project: &Project) -> AgentProfile {
    let account =
        project.config.profiles.iter().find(|profile| Some(&profile.name) == attempt.profile.as_ref());
    let home = std::env::var("HOME").ok();
    for (name, value) in account.iter().flat_map(|account| &account.env) {
        agent.env.insert(name.clone(), with_home(value, home.as_deref()));
    }
    agent
}

/// Why there is no conversation to continue.
fn no_session(task: &TaskRecord, attempts: &[Attempt], project: &Project) -> Refusal {
    let id = &task.spec.id;
    let agent = project.config.agents.get(&task.spec.agent);
    let converses = agent.is_some_and(|agent| {
        by_hand(&AgentProfile::of(&task.spec.agent, agent), "x", None, &task.spec.env).is_some()
    });
    let error = Refusal::refused(match (converses, attempts.is_empty()) {
        (false, _) => format!("{id} has no session: its agent, {}, has no conversations", task.spec.agent),
        (true, true) => format!("{id} has no session yet: it has not been started"),
        (true, false) => format!("{id} has no session yet: its agent has not reported one"),
    });
    error.hinted(match (converses, attempts.is_empty()) {
        (false, _) => {
            format!("`regatta lane path {id}` shows where it works, `regatta send {id} \"…\"` continues it")
        }
        (true, true) => format!("`regatta status {id}` shows what it waits for"),
        (true, false) => format!("`regatta logs {id}` shows how far it got"),
    })
}

/// The attempt's lane. A lane that is gone is made again only with `restore`.
async fn lane(
    queue: &Operator,
    task: &TaskRecord,
    attempt: &Attempt,
    restore: bool,
) -> Result<PathBuf, Refusal> {
    let id = &task.spec.id;
    if let Some(lane) = lane_elsewhere(Some(attempt)) {
        return Err(Refusal::refused(format!(
            "the lane of {id} and its conversation are on another machine: {lane}"
        ))
        .hinted(format!("run `regatta attach {id}` there, or `regatta send {id} \"…\"` from here")));
    }
    if let Some(lane) = attempt.lane.as_ref().filter(|lane| lane.is_dir()) {
        return Ok(lane.clone());
    }
    let head = attempt.head.as_ref().or(attempt.base.as_ref());
    let (Some(lanes), Some(base), Some(head)) = (queue.lanes()?, attempt.base.as_ref(), head) else {
        return Err(Refusal::refused(format!("the lane of {id} was removed"))
            .hinted(format!("`regatta send {id} \"…\"` continues it in a new one")));
    };
    if !restore {
        return Err(Refusal::refused(format!("the lane of {id} is gone, and its conversation belongs to that directory"))
            .hinted(format!(
                "`regatta attach --restore {id}` creates it again at {}; `regatta send {id} \"…\"` continues the task",
                head.short()
            )));
    }
    let _alone = queue.alone(id).await?;
    let state = queue.store.task(id).await?.state;
    if state.is_claimed() {
        return Err(Refusal::refused(format!("{id} is {}, so its lane is being prepared", state.name()))
            .hinted(format!("`regatta wait {id}` waits until it ends")));
    }
    let id = id.clone();
    let (base, head) = (base.clone(), head.clone());
    let made = tokio::task::spawn_blocking(move || lanes.again(&id, &base, &head));
    let lane: Lane = made.await.expect("making a lane does not panic")?;
    Ok(lane.path)
}
