//! How a person continues an agent's conversation by hand.

use std::path::PathBuf;
use std::sync::Arc;

use regatta_core::attempt::{Attempt, Place};
use regatta_engine::agents::{AgentProfile, by_hand};
use regatta_engine::lanes::Lane;
use regatta_engine::profiles::with_home;
use regatta_engine::travel::is_elsewhere;
use regatta_store::{Store, TaskRecord};

use crate::documents::AttachDocument;
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
    let there = attempt.place.as_ref().filter(|_| is_elsewhere(attempt));
    let home = if there.is_none() { std::env::var("HOME").ok() } else { None };
    let profile = with_account(AgentProfile::of(&attempt.agent, agent), attempt, project, home.as_deref());
    let model = attempt.model_asked.as_deref().or(profile.model.as_deref());
    let Some(by_hand) = by_hand(&profile, session, model, &task.spec.env) else {
        return Err(no_session(task, &attempts, project));
    };
    let (lane, workdir) = match there {
        Some(place) => {
            let lane = lane_there(task, attempt, place, restore)?;
            // Whether the directory exists is not known here.
            let workdir = lane.join(&task.spec.workdir).components().collect();
            (lane, workdir)
        }
        None => {
            let lane = lane(&queue, task, attempt, restore).await?;
            let own = lane.join(&task.spec.workdir);
            let workdir: PathBuf = if own.is_dir() { own.components().collect() } else { lane.clone() };
            (lane, workdir)
        }
    };
    let dir = workdir.to_string_lossy();
    let resume_command = match there {
        Some(place) => by_hand.line_at(&place.node, &dir),
        None => by_hand.line(&dir),
    };
    Ok(AttachDocument {
        task_id: id.clone(),
        session_id: session.to_owned(),
        agent: attempt.agent.clone(),
        attempt: attempt.n,
        state: task.state.kind(),
        running: task.state.is_claimed(),
        resume_command,
        node: there.map(|place| place.node.clone()),
        argv: by_hand.argv.clone(),
        env: by_hand.env.iter().cloned().collect(),
        worktree_path: lane,
    })
}

/// The agent with the attempt's account, which is where the conversation is kept.
fn with_account(
    mut agent: AgentProfile,
    attempt: &Attempt,
    project: &Project,
    home: Option<&str>,
) -> AgentProfile {
    let account =
        project.config.profiles.iter().find(|profile| Some(&profile.name) == attempt.profile.as_ref());
    for (name, value) in account.iter().flat_map(|account| &account.env) {
        agent.env.insert(name.clone(), with_home(value, home));
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

/// The attempt's lane on another machine, where nothing is made again from here.
fn lane_there(
    task: &TaskRecord,
    attempt: &Attempt,
    place: &Place,
    restore: bool,
) -> Result<PathBuf, Refusal> {
    let (id, node) = (&task.spec.id, &place.node);
    match &attempt.lane {
        Some(lane) if !restore => Ok(lane.clone()),
        _ => Err(Refusal::refused(format!("the lane of {id} and its conversation are on {node}")).hinted(
            format!("run `regatta attach --restore {id}` there, or `regatta send {id} \"…\"` from here"),
        )),
    }
}

/// The attempt's lane. A lane that is gone is made again only with `restore`.
async fn lane(
    queue: &Operator,
    task: &TaskRecord,
    attempt: &Attempt,
    restore: bool,
) -> Result<PathBuf, Refusal> {
    let id = &task.spec.id;
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
