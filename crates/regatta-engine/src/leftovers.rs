//! Ends commands that a killed run left running (checks, hooks, setup, gates) before others run in their place.

use std::path::{Path, PathBuf};

use crate::process::{FoundRun, OVERDUE, StopRequest, find, sweep};

/// Ends the trees of all attempts of a task, and what they started.
pub(crate) async fn end_in(runs_of_task: &Path) {
    for place in subdirectories(runs_of_task) {
        end_at(&place, &|_| true).await;
        end_below(&place, |_| true).await;
    }
}

/// Ends what runs under `dir/*/*`, where each launch has its own directory, if `is_dead` is true for its marker.
pub(crate) async fn end_below(dir: &Path, is_dead: impl Fn(&str) -> bool) {
    for place in subdirectories(dir).iter().flat_map(|dir| subdirectories(dir)) {
        end_at(&place, &is_dead).await;
    }
}

async fn end_at(place: &Path, is_dead: &impl Fn(&str) -> bool) {
    match find(place) {
        Ok(FoundRun::Alive(shim)) if is_dead(shim.run_id()) => {
            let why = "its run had ended".to_owned();
            // One that cannot be signalled is gone.
            let request = StopRequest::Asked(why);
            let _ = shim.kill_now(&request);
            shim.wait_at_most(OVERDUE, request.into()).await;
        }
        Ok(FoundRun::Lost { run_id, .. }) if is_dead(&run_id) => {
            let swept = tokio::task::spawn_blocking(move || sweep(&run_id));
            swept.await.expect("sweeping does not panic");
        }
        // What cannot be read cannot be ended; a later user of the place will report it.
        _ => {}
    }
}

fn subdirectories(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}
