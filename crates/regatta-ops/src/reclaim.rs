//! Takes tasks back from processes that have ended.

use regatta_core::id::TaskId;
use regatta_engine::clock;
use regatta_engine::process::{FoundRun, find, sweep};
use regatta_engine::session::is_certainly_dead;
use regatta_store::{Claim, StoreError};

use crate::documents::{GoneDocument, ReclaimedDocument};
use crate::project::Project;
use crate::refusal::Refusal;

/// A request to take tasks back from processes of this machine that are certainly gone.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReclaimRequest {
    /// Also take back tasks whose agents have ended but whose work was not judged yet.
    pub all: bool,
}

impl Project {
    /// Takes tasks back from processes of this machine that are certainly gone. They are pending again, nothing is
    /// charged, and their work stays in their lanes.
    pub async fn reclaim(&self, request: &ReclaimRequest) -> Result<ReclaimedDocument, Refusal> {
        let store = self.store().await?;
        let mut document = ReclaimedDocument::default();
        for info in store.sessions().await? {
            if !is_certainly_dead(&info.node) {
                continue;
            }
            let claims = store.claims_of(&info.session).await?;
            let mut tasks: Vec<TaskId> = claims.iter().map(|claim| claim.task.clone()).collect();
            let mut why = obstacle(self, &claims, request.all).await?;
            if why.is_none() {
                match store.expire_session(&info.session, info.beat, None, clock::now()).await {
                    Ok(taken) => tasks = taken,
                    Err(StoreError::Conflict(_)) => {
                        why = Some("another process took it over just now".to_owned());
                    }
                    Err(error) => return Err(error.into()),
                }
            }
            let list = if why.is_some() { &mut document.left } else { &mut document.reclaimed };
            let (pid, what) = (info.node.pid, info.node.what);
            list.push(GoneDocument { pid, session: info.session, tasks, what, why });
        }
        Ok(document)
    }
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
