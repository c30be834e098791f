//! What a landing or a daemon works with: the engine's context, from a project.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use regatta_engine::context::{Assembly, Context, Memory, RunOptions};
use regatta_engine::notice::Notices;
use regatta_engine::trust::Purpose;
use regatta_store::{SessionId, Store};

use crate::project::{Project, require_writable, this_program};
use crate::refusal::Refusal;

/// The variable that names claude's program, as parallel-agents has it.
pub const CLAUDE_BIN: &str = "PARALLEL_AGENTS_CLAUDE_BIN";

/// The engine's context for work that goes on with what is there.
pub async fn assemble(
    project: &Project,
    store: Arc<dyn Store>,
    session: SessionId,
    trust: Purpose,
    notices: Notices,
) -> Result<Arc<Context>, Refusal> {
    assemble_with(project, store, session, trust, notices, Memory::default()).await
}

/// The same with what is remembered from before.
pub async fn assemble_with(
    project: &Project,
    store: Arc<dyn Store>,
    session: SessionId,
    trust: Purpose,
    notices: Notices,
    memory: Memory,
) -> Result<Arc<Context>, Refusal> {
    require_writable(&project.lanes_root(), "lanes_root")?;
    let exe =
        this_program().map_err(|error| Refusal::io("finding", std::path::Path::new("regatta"), &error))?;
    let assembly = Assembly {
        repo: project.repo.clone(),
        lanes_root: project.lanes_root(),
        store,
        store_url: project.store_url.clone(),
        session,
        config: project.config.clone(),
        options: RunOptions {
            fail_fast: false,
            resume: true,
            trust,
            again: false,
            keep_lanes: project.config.lane.keep == regatta_core::config::Keep::Always,
            log_dir: None,
            no_log: false,
            claude_exe: std::env::var_os(CLAUDE_BIN).filter(|path| !path.is_empty()).map(PathBuf::from),
            grace: Duration::from_secs(5),
        },
        target: project.decide_target()?,
        regatta_exe: exe,
        inherited: std::env::vars_os().collect(),
        notices,
        memory,
    };
    let assembled = tokio::task::spawn_blocking(move || Context::assemble(assembly)).await;
    Ok(Arc::new(assembled.expect("assembling does not panic")?))
}
