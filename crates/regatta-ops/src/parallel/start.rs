//! Gives a task its prompt and starts it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use regatta_core::config::AgentKind;
use regatta_core::state::TaskState;
use regatta_engine::agents::{AgentProfile, Brief, SessionPlan, invocation};
use regatta_engine::clock;
use regatta_store::{IfPresent, MAIN_QUEUE, NewTask, RequestId, StoreError};

use super::registry::Registry;
use super::{FoundTask, ParallelOptions, Repositories, session_name};
use crate::changes::StoreChanges;
use crate::documents::{DaemonStarted, ParallelPreview, ParallelStarted, ParallelStatus};
use crate::look::events::started_pid;
use crate::project::this_program;
use crate::refusal::{Refusal, RefusalKind};
use crate::taskfiles::{missing_hint, missing_program};
use crate::tasks::{SendRequest, When};

/// How long to wait for its process; preparing the lane may take longer.
const PROCESS_PATIENCE: Duration = Duration::from_secs(30);

/// A request to start a task.
#[derive(Clone, Debug)]
pub struct StartRequest {
    pub task_id: String,
    /// The prompt for its agent.
    pub prompt: String,
    /// The program to start instead of claude.
    pub claude: Option<String>,
}

impl ParallelOptions {
    /// Starts a task with a prompt, and its daemon if none runs. A task that has ended continues with the prompt.
    pub async fn start(&self, request: &StartRequest) -> Result<ParallelStarted, Refusal> {
        require_prompt(&request.prompt)?;
        let (registry, lock) = Registry::load_locked(self).await?;
        let repositories = Repositories::open(&registry, self).await?;
        let mut found = startable(&repositories, &registry, request).await?;
        let claude = request.claude.as_deref();
        require_program(&found, claude).await?;
        let daemon = begin(&mut found, &request.prompt, claude).await?;
        drop(lock);
        wait_for_process(&mut found).await?;
        if let TaskState::Blocked { detail, .. } = &found.task.state {
            let id = &found.task.spec.id;
            return Err(Refusal::new(RefusalKind::CannotWork, format!("Task {id} did not start: {detail}"))
                .hinted(format!("`regatta status {id}` shows what you can do")));
        }
        Ok(ParallelStarted { daemon, task: found.document(&registry).await? })
    }

    /// What [`ParallelOptions::start`] would start.
    pub async fn preview(&self, request: &StartRequest) -> Result<ParallelPreview, Refusal> {
        require_prompt(&request.prompt)?;
        let registry = Registry::load(self)?;
        let repositories = Repositories::open(&registry, self).await?;
        let found = startable(&repositories, &registry, request).await?;
        let document = found.document(&registry).await?;
        Ok(ParallelPreview {
            agent: found.task.spec.agent.clone(),
            command: command(&found, document.session_id.as_deref(), request)?,
            cwd: document.worktree_path,
            dry_run: true,
            log_path: document.log_path,
            session_id: document.session_id,
            session_name: session_name(&found.task),
            stdin: request.prompt.clone(),
            task_id: found.task.spec.id.clone(),
            would_start_daemon: found.repository.queue().await?.takers.daemon().is_none(),
        })
    }
}

pub(super) fn require_prompt(prompt: &str) -> Result<(), Refusal> {
    if prompt.trim().is_empty() {
        Err(Refusal::usage("the prompt is empty").hinted("say what to do: --prompt \"…\""))
    } else {
        Ok(())
    }
}

/// The task, if it can be started now.
async fn startable<'a>(
    repositories: &'a Repositories,
    registry: &Registry,
    request: &StartRequest,
) -> Result<FoundTask<'a>, Refusal> {
    let found = repositories.find(registry, &request.task_id).await?;
    match found.status(registry) {
        ParallelStatus::Destroyed => Err(destroyed(&found)),
        ParallelStatus::Running | ParallelStatus::AwaitingMerge => Err(running(&found).await?),
        _ => Ok(found),
    }
}

/// The refusal of an operation on a task that was destroyed.
pub(super) fn destroyed(found: &FoundTask<'_>) -> Refusal {
    Refusal::refused(format!("No active task: {}", found.task.spec.id))
        .hinted("it was destroyed; `regatta task create` creates it again")
}

/// Fails if the agent's program is missing. A daemon that already runs may find other programs, so it is left to report
/// that.
async fn require_program(found: &FoundTask<'_>, claude: Option<&str>) -> Result<(), Refusal> {
    let (spec, project) = (&found.task.spec, &found.repository.project);
    let exe = claude.map(PathBuf::from);
    let Some(program) = missing_program(project, spec, exe.as_deref()) else { return Ok(()) };
    if found.repository.queue().await?.takers.daemon().is_some() {
        return Ok(());
    }
    let message = format!("Task {} cannot start: its agent's program {program:?} was not found", spec.id);
    Err(Refusal::new(RefusalKind::CannotWork, message).hinted(missing_hint(project, &spec.agent)))
}

/// The program and arguments that would be started now. The prompt goes to standard input.
fn command(
    found: &FoundTask<'_>,
    session: Option<&str>,
    request: &StartRequest,
) -> Result<Vec<String>, Refusal> {
    let (spec, project) = (&found.task.spec, &found.repository.project);
    let Some(agent) = project.config.agents.get(&spec.agent) else { return Ok(Vec::new()) };
    let profile = AgentProfile::of(&spec.agent, agent);
    let exe = request.claude.as_deref().map(PathBuf::from);
    let regatta = this_program().map_err(|error| Refusal::io("finding", Path::new("regatta"), &error))?;
    let brief = Brief {
        task: &spec.id,
        attempt: found.task.attempts + 1,
        prompt: &request.prompt,
        guidance: None,
        follow_up: None,
        model: spec.model.as_deref(),
        max_usd: None,
        persona: spec.persona.as_deref(),
        read_only: spec.read_only,
        bounds: &spec.bounds,
        run_dir: &project.repo.state_dir.join("runs").join(spec.id.as_str()),
        session: session.map_or(SessionPlan::New("NEW"), SessionPlan::Resume),
        reports: true,
        answers: true,
        attach: project.config.mcp.attach && matches!(profile.kind, AgentKind::Claude | AgentKind::Codex),
        door: false,
        limited_network: false,
        pull_request: !spec.land && spec.id.is_prd(),
        is_root: rustix::process::geteuid().is_root(),
        exe: exe.as_deref().filter(|_| profile.kind == AgentKind::Claude),
        regatta: &regatta,
    };
    let invocation = invocation(&profile, &brief, &|name| std::env::var_os(name).is_some());
    let invocation = invocation.map_err(|why| Refusal::refused(why.to_string()))?;
    Ok(invocation.argv.iter().map(|word| word.to_string_lossy().into_owned()).collect())
}

/// Runs the task with this prompt. Returns the daemon that was started for it, if one was.
pub(super) async fn begin(
    found: &mut FoundTask<'_>,
    prompt: &str,
    claude: Option<&str>,
) -> Result<Option<DaemonStarted>, Refusal> {
    if found.is_unstarted() {
        let spec = found.repository.order(&found.task.spec.id, &found.task.spec.title, prompt)?;
        let new = [NewTask { spec, queue: MAIN_QUEUE.to_owned(), if_present: IfPresent::Restart }];
        match found.store.enqueue(&new, &RequestId::fresh(), clock::now()).await {
            Ok(()) => {}
            Err(StoreError::Refused(_)) => {
                found.reload().await?;
                return Err(running(found).await?);
            }
            Err(error) => return Err(error.into()),
        }
    } else {
        let queue = found.repository.queue().await?;
        let request =
            SendRequest { task: found.task.spec.id.to_string(), text: prompt.to_owned(), when: When::Next };
        queue.send(&request).await?;
    }
    let daemon = found.repository.serve(claude).await;
    let daemon = daemon.map_err(|error| {
        let id = &found.task.spec.id;
        Refusal {
            message: format!("{id} is in the queue, but no daemon serves it: {}", error.message),
            ..error
        }
    })?;
    found.reload().await?;
    Ok(daemon)
}

async fn running(found: &FoundTask<'_>) -> Result<Refusal, Refusal> {
    let (id, state) = (&found.task.spec.id, found.task.state.name());
    let pid = started_pid(found.store.as_ref(), id, found.task.attempts).await?;
    let pid = pid.map_or_else(|| state.to_owned(), |pid| format!("pid={pid}"));
    Ok(Refusal::refused(format!("Task {id} is already running ({pid})"))
        .hinted(format!("`regatta task send --task-id {id} --prompt \"…\"` sends it a follow-up")))
}

/// Whether its repository has room for one more agent.
async fn has_turn(found: &FoundTask<'_>) -> Result<bool, Refusal> {
    let counts = found.store.counts(None).await?;
    let busy = counts.iter().filter(|(state, _)| state.is_claimed());
    Ok(busy.map(|(_, n)| n).sum::<u64>() < found.repository.project.config.max_workers.into())
}

/// Waits until its agent runs, it is settled, or it has to wait its turn.
pub(super) async fn wait_for_process(found: &mut FoundTask<'_>) -> Result<(), Refusal> {
    let store = found.store.clone();
    let mut changes = StoreChanges::of(store.as_ref()).await?;
    let there = async {
        loop {
            found.reload().await?;
            match found.task.state {
                TaskState::Claimed { .. } => {}
                // Its agent could not be started; the next state will show what follows.
                TaskState::Running { attempt, .. } | TaskState::Judging { attempt, .. }
                    if started_pid(store.as_ref(), &found.task.spec.id, attempt).await?.is_none() => {}
                TaskState::Pending { .. } if has_turn(found).await? => {}
                _ => return Ok(()),
            }
            changes.next().await?;
        }
    };
    tokio::time::timeout(PROCESS_PATIENCE, there).await.unwrap_or(Ok(()))
}
