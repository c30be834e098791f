//! `regatta reclaim`: takes tasks back from processes that have ended.

use regatta_engine::clock;
use regatta_engine::process::{FoundRun, find, sweep};
use regatta_engine::session::is_certainly_dead;
use regatta_store::{Claim, SessionInfo, StoreError};
use serde_json::{Value, json};

use crate::cli::Global;
use crate::exit::Exit;
use crate::project::Project;
use crate::ui::Ui;
use regatta_ops::Refusal;

/// Take back tasks from processes of this machine that are certainly gone.
///
/// They are pending again, nothing is charged, and their work stays in their lanes. If an agent is still alive, or
/// has ended and was not judged yet, its task is not taken back: `regatta daemon` and `regatta run --resume` adopt it
/// and lose nothing.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Also take back tasks whose agents have ended but whose work was not judged yet.
    #[arg(long)]
    all: bool,
}

/// A session that was ended, or why it was not.
struct Outcome {
    info: SessionInfo,
    tasks: Vec<String>,
    left: Option<String>,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let project = Project::open(&global.options())?;
    let store = project.store().await?;
    let mut outcomes = Vec::new();
    for info in store.sessions().await? {
        if !is_certainly_dead(&info.node) {
            continue;
        }
        let claims = store.claims_of(&info.session).await?;
        let mut tasks: Vec<String> = claims.iter().map(|claim| claim.task.to_string()).collect();
        let mut left = obstacle(&project, &claims, args.all).await?;
        if left.is_none() {
            match store.expire_session(&info.session, info.beat, None, clock::now()).await {
                Ok(taken) => tasks = taken.iter().map(ToString::to_string).collect(),
                Err(StoreError::Conflict(_)) => {
                    left = Some("another process took it over just now".to_owned());
                }
                Err(error) => return Err(error.into()),
            }
        }
        outcomes.push(Outcome { info, tasks, left });
    }
    show(&outcomes, ui);
    Ok(Exit::Ok)
}

/// Why the claims of a dead process should be left to the engine that adopts them. Ends processes that lost their shim,
/// so that none is left afterwards.
async fn obstacle(project: &Project, claims: &[Claim], all: bool) -> Result<Option<String>, Refusal> {
    let mut lost = Vec::new();
    for claim in claims {
        let task = &claim.task;
        let dir = project.repo.state_dir.join("runs").join(task.as_str()).join(claim.attempt.to_string());
        match find(&dir) {
            Ok(FoundRun::Alive(_)) => return Ok(Some(format!("the agent of {task} is alive"))),
            Ok(FoundRun::Ended(_)) if !all => {
                return Ok(Some(format!("the agent of {task} has ended, and its work was not judged yet")));
            }
            Ok(FoundRun::Lost { run_id, .. }) => lost.push(run_id),
            Ok(FoundRun::Ended(_) | FoundRun::NeverStarted) => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                return Ok(Some(format!("the agent of {task} is starting")));
            }
            Err(error) => return Err(Refusal::io("reading", &dir, &error)),
        }
    }
    for run_id in lost {
        tokio::task::spawn_blocking(move || sweep(&run_id)).await.expect("sweeping does not panic");
    }
    Ok(None)
}

fn show(outcomes: &[Outcome], ui: &Ui) {
    if ui.json {
        let object = |outcome: &Outcome| -> Value {
            let node = &outcome.info.node;
            let mut object = json!({ "session": outcome.info.session, "what": node.what, "pid": node.pid, "tasks": outcome.tasks });
            if let Some(why) = &outcome.left {
                object["why"] = json!(why);
            }
            object
        };
        let of = |left: bool| -> Vec<Value> {
            outcomes.iter().filter(|outcome| outcome.left.is_some() == left).map(object).collect()
        };
        ui.document(&json!({ "reclaimed": of(false), "left": of(true) }));
        return;
    }
    for outcome in outcomes {
        let who = format!("`{}`, process {}", outcome.info.node.what, outcome.info.node.pid);
        let tasks = if outcome.tasks.is_empty() { "nothing".to_owned() } else { outcome.tasks.join(", ") };
        match &outcome.left {
            None => ui.line(format!("{who} is gone; it held {tasks}")),
            Some(why) => {
                ui.line(format!("{who} is gone and holds {tasks}, but {why}"));
                if !ui.quiet {
                    ui.line("  `regatta daemon` or `regatta run --resume PLAN` adopts what it left");
                }
            }
        }
    }
    if outcomes.is_empty() && !ui.quiet {
        ui.note("nothing to reclaim");
    }
}
