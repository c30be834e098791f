//! What runs left behind: dead sessions, broken lanes, leftovers, changed settings.

use regatta_core::state::TaskState;
use regatta_engine::git::StaleLock;
use regatta_engine::lanes::Lanes;
use regatta_engine::process::{FoundRun, find};
use regatta_engine::session::is_certainly_dead;
use regatta_engine::trust::{self, Aside, state_dir};
use regatta_store::Store;

use super::Finding;
use crate::project::{Project, shown};
use crate::trust::{Verdict, assess};
use regatta_ops::Refusal;

/// Runs in progress, and runs that died while they held tasks.
pub(super) async fn sessions(project: &Project, store: &dyn Store) -> Result<Vec<Finding>, Refusal> {
    let mut found = Vec::new();
    for info in store.sessions().await?.into_iter().filter(|info| !info.node.is_member()) {
        let who = format!("`{}`, process {} on {}", info.node.what, info.node.pid, info.node.node);
        if !is_certainly_dead(&info.node) {
            found.push(Finding::ok("run", format!("{who} is under way")));
            continue;
        }
        let claims = store.claims_of(&info.session).await?;
        let run_dir = |task: &str, n: u32| project.repo.state_dir.join("runs").join(task).join(n.to_string());
        let live = claims
            .iter()
            .filter(|claim| {
                matches!(find(&run_dir(claim.task.as_str(), claim.attempt)), Ok(FoundRun::Alive(_)))
            })
            .count();
        let tasks: Vec<&str> = claims.iter().map(|claim| claim.task.as_str()).collect();
        let held = if tasks.is_empty() { "nothing".to_owned() } else { tasks.join(", ") };
        found.push(
            Finding::warning(
                "run",
                format!("{who} is gone; it held {held}; agents still running: {live}"),
            )
            .hinted("`regatta daemon` or `regatta run --resume PLAN` takes over its work; `regatta reclaim` only returns it to the queue"),
        );
    }
    Ok(found)
}

/// Broken lanes, and leftovers in the lanes directory.
pub(super) async fn look(
    project: &Project,
    store: Option<&dyn Store>,
    fix: bool,
) -> Result<Vec<Finding>, Refusal> {
    let lanes = match project.lanes() {
        Ok(Some(lanes)) => lanes,
        Ok(None) => return Ok(vec![Finding::ok("lanes", "none yet")]),
        Err(error) => return Ok(vec![Finding::from_error("lanes", error)]),
    };
    let all = lanes.list()?;
    let pooled = match lanes.pooled().len() {
        0 => String::new(),
        n => format!(", and {n} in the pool for the next tasks"),
    };
    let mut found =
        vec![Finding::ok("lanes", format!("{} in {}{pooled}", all.len(), lanes.root().display()))];
    for lane in all {
        let _alone = if fix && lane.broken.is_some() { Some(lanes.alone(&lane.task)?) } else { None };
        let task = match store {
            Some(store) => store.task(&lane.task).await.ok(),
            None => None,
        };
        let state = task.as_ref().map(|task| &task.state);
        if let Some(why) = lane.broken {
            let text = format!("the lane of {}: {why}", lane.task);
            let idle = state.is_none_or(|state| !state.is_claimed());
            found.push(if fix && idle {
                match lanes.prepare(&lane.task, &lane.base) {
                    Ok(_) => Finding::warning("lane", text).fixed(),
                    Err(error) => Finding::from_error("lane", error.into()),
                }
            } else {
                Finding::warning("lane", text).hinted(
                    "`regatta doctor --fix` repairs it without losing anything; so does its next attempt",
                )
            });
        } else if matches!(state, Some(TaskState::Landed { .. } | TaskState::Done { .. })) {
            found.push(
                Finding::warning("lane", format!("{} is settled, but its lane still exists", lane.task))
                    .hinted(format!(
                        "`regatta diff {0}` shows its changes; `regatta lane retire {0}` removes it",
                        lane.task
                    )),
            );
        }
    }
    found.extend(leftovers(&lanes, fix));
    Ok(found)
}

fn leftovers(lanes: &Lanes, fix: bool) -> Vec<Finding> {
    let count =
        |below: &str| std::fs::read_dir(lanes.root().join(below)).map_or(0, |entries| entries.count());
    let mut found = Vec::new();
    let trash = count(".trash");
    if trash > 0 {
        let finding = Finding::warning("leftovers", format!("{trash} removed lanes are not deleted yet"));
        found.push(if fix {
            match lanes.empty_trash() {
                Ok(()) => finding.fixed(),
                Err(error) => Finding::from_error("leftovers", error.into()),
            }
        } else {
            finding.hinted("`regatta doctor --fix` deletes them; their work was saved before")
        });
    }
    let kept = count(".kept");
    if kept > 0 {
        let place = lanes.root().join(".kept");
        found.push(
            Finding::warning(
                "leftovers",
                format!("{kept} files or directories were moved out of the way of a lane"),
            )
            .hinted(format!("look through {} and delete what you do not need", place.display())),
        );
    }
    found
}

/// Git lock files that no process holds any more.
pub(super) fn locks(project: &Project, fix: bool) -> Vec<Finding> {
    let repo = &project.repo;
    let one = |lock: StaleLock| {
        let place = lock.path.display();
        let whose = if lock.ours { "a lock on Regatta's own refs or lanes" } else { "a lock of git" };
        let finding =
            Finding::warning("lock", format!("{whose} is left over, and no process holds it: {place}"));
        if fix && repo.clear_lock(&lock.path) {
            finding.fixed()
        } else if lock.ours {
            finding.hinted("`regatta doctor --fix` removes it; so does the next git command that needs it")
        } else {
            finding.hinted(format!("if no git is running in this repository, remove it: rm {place}"))
        }
    };
    repo.stale_locks().into_iter().map(one).collect()
}

/// What the repository may run, and whether the user has trusted it.
pub(super) async fn trust(project: &Project) -> Finding {
    if let Err(error) =
        state_dir::refuse_tracked(&project.repo).and_then(|()| state_dir::check(&project.repo))
    {
        return Finding::from_error("trust", error.into());
    }
    if let Ok(Verdict::Untrusted(why)) = assess(project).await {
        let keys: Vec<String> = project.asked_for().into_iter().map(|(key, _)| key).collect();
        let file = project.config_file.as_deref().map_or_else(String::new, shown);
        return Finding::warning(
            "trust",
            format!("{file} {why}; you have not agreed to {}", keys.join(", ")),
        )
        .hinted("`regatta trust` shows what it runs, and records that you agree");
    }
    match Aside::of(&project.repo).and_then(|aside| aside.git()) {
        Ok(in_force) if in_force.ignored.is_empty() => {
            Finding::ok("trust", "git settings, hooks and regatta.yaml are yours or trusted by you")
        }
        Ok(in_force) => {
            let names = trust::names(&in_force.ignored);
            Finding::warning("trust", format!("git settings or hooks that you do not trust yet: {names}"))
                .hinted("`regatta trust` shows them; if you did not make them, an agent did: look at .git/config and .git/hooks")
        }
        Err(error) => Finding::from_error("trust", error.into()),
    }
}
