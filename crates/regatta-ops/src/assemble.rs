//! Builds the engine's context from a project, for a landing or a daemon, and builds it again with reloaded settings.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use regatta_engine::context::{Assembly, Context, RunOptions, SettingsInput};
use regatta_engine::notice::Notices;
use regatta_engine::trust::Purpose;
use regatta_store::{SessionId, Store};

use crate::project::{Project, require_writable, this_program};
use crate::refusal::Refusal;

/// The variable that names claude's program, as in parallel-agents.
pub const CLAUDE_BIN: &str = "PARALLEL_AGENTS_CLAUDE_BIN";

/// The engine's context for a landing or a daemon.
pub async fn assemble(
    project: &Project,
    store: Arc<dyn Store>,
    session: SessionId,
    trust: Purpose,
    notices: Notices,
) -> Result<Arc<Context>, Refusal> {
    let settings = settings(project, trust)?;
    let exe =
        this_program().map_err(|error| Refusal::io("finding", std::path::Path::new("regatta"), &error))?;
    let assembly = Assembly {
        settings,
        repo: project.repo.clone(),
        target: project.decide_target()?,
        store,
        store_url: project.store_url.clone(),
        session,
        regatta_exe: exe,
        notices,
    };
    let assembled = tokio::task::spawn_blocking(move || Context::assemble(assembly)).await;
    Ok(Arc::new(assembled.expect("assembling does not panic")?))
}

/// The same context with the settings of `project`, which were read again.
pub async fn reload(ctx: &Arc<Context>, project: &Project) -> Result<Arc<Context>, Refusal> {
    let settings = settings(project, Purpose::Continue)?;
    let ctx = ctx.clone();
    let reloaded = tokio::task::spawn_blocking(move || ctx.reload(settings)).await;
    Ok(Arc::new(reloaded.expect("assembling does not panic")?))
}

/// The settings of a project for work that continues existing tasks.
fn settings(project: &Project, trust: Purpose) -> Result<SettingsInput, Refusal> {
    require_writable(&project.lanes_root(), "lanes_root")?;
    let options = RunOptions {
        fail_fast: false,
        resume: true,
        trust,
        again: false,
        keep_lanes: project.config.lane.keep == regatta_core::config::Keep::Always,
        log_dir: None,
        no_log: false,
        claude_exe: std::env::var_os(CLAUDE_BIN).filter(|path| !path.is_empty()).map(PathBuf::from),
        grace: Duration::from_secs(5),
    };
    Ok(SettingsInput {
        config: project.config.of_repo(None),
        options,
        inherited: std::env::vars_os().collect(),
        lanes_root: project.lanes_root(),
        others: project.others()?,
        graph: project.graph(),
        file: project.settings_file(),
    })
}
