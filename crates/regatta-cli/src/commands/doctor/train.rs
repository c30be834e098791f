//! The train: a target that lost landed work, and checkouts that did not fully follow it.

use regatta_engine::landing::{target, unfinished};
use regatta_ops::look::train::behind;

use super::Finding;
use crate::project::Project;

pub(super) fn look(project: &Project, fix: bool) -> Vec<Finding> {
    let mut found = Vec::new();
    let stopped = project.target().ok().and_then(|target| target::stopped(&project.repo.state_dir, &target));
    if let Some(stopped) = stopped {
        found.push(
            Finding::warning("train", stopped.why)
                .hinted("restore the branch, or accept it as it is: regatta land resume"),
        );
    }
    match behind(project) {
        Ok(Some(behind)) => found.push(Finding::warning("branch", behind.why).hinted(&behind.hint)),
        Ok(None) => {}
        Err(error) => found.push(Finding::from_error("branch", error)),
    }
    let moves = match unfinished::unfinished(&project.repo.state_dir) {
        Ok(moves) => moves,
        Err(error) => return vec![Finding::from_error("checkout", error.into())],
    };
    if !fix || moves.is_empty() {
        found.extend(moves.iter().map(|one| {
            let at = one.checkout.display();
            Finding::warning("checkout", format!("{at} is not fully updated to the last landing"))
                .hinted("`regatta doctor --fix` finishes it; so does the next landing")
        }));
        return found;
    }
    let finished = project.work().and_then(|work| Ok(unfinished::finish(&project.repo, &work)?));
    match finished {
        Err(error) => found.push(Finding::from_error("checkout", error)),
        Ok(looked) => {
            for (checkout, kept) in looked.finished {
                let kept: Vec<String> = kept.iter().map(|file| file.display().to_string()).collect();
                let kept = if kept.is_empty() {
                    String::new()
                } else {
                    format!(", except for your own changes: {}", kept.join(", "))
                };
                let text = format!("{} is now updated to the last landing{kept}", checkout.display());
                found.push(Finding::warning("checkout", text).fixed());
            }
            found.extend(looked.unfinished.into_iter().map(|(_, why)| Finding::warning("checkout", why)));
        }
    }
    found
}
