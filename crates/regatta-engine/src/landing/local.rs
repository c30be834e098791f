//! The user's branch follows a target that is at a hub, or at its remote.
//!
//! Invariant: it only moves forwards, and no commit or file of the user's is touched. A checkout in the way, or a
//! branch with commits that the other side does not have, holds up this branch and nothing else.

use std::path::PathBuf;
use std::sync::Arc;

use regatta_core::causes::with_causes;
use regatta_core::time::counted;

use super::moving::waiting_for;
use super::publish::{PublishRequest, Published, in_the_way, publish};
use super::unfinished;
use crate::context::{Context, SettingsFile};
use crate::failpoint;
use crate::fleet::AtHub;
use crate::git::{GitError, Oid, Repo, Work};
use crate::hub::names;

/// How often to look again if the branch moves meanwhile.
const RACES: u32 = 5;

/// The result of following another side: a hub, a remote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Followed {
    /// The branch has what the other side has, or does not exist.
    Even,
    /// It moved. These files changed at the last moment, and stay as the user has them.
    Moved { kept: Vec<PathBuf> },
    /// It could not.
    Behind { why: String },
}

/// A branch that does not have what is on the target at the hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Behind {
    /// What is wrong, as a sentence.
    pub why: String,
    /// What to do about it.
    pub hint: String,
}

/// Brings the user's branch and its checkouts to the commit that the hub has, and reports what is in the way.
pub(crate) async fn bring_along(ctx: &Arc<Context>, tip: Oid) {
    let at = tip.clone();
    let followed = ctx.blocking(move |ctx| {
        let (repo, target) = (&ctx.repository.repo, &ctx.repository.target);
        if let Some(hub) = &ctx.repository.hub {
            hub.hold(&names::branch(target), &tip)?;
        }
        follow(repo, &ctx.repository.work, target, &tip, "the hub")
    });
    let target = &ctx.repository.target;
    let behind = match followed.await {
        Ok(Followed::Even) => None,
        Ok(Followed::Moved { kept }) => {
            for file in kept {
                ctx.say(format!("{} changed at the last moment; your version is kept", file.display()));
            }
            None
        }
        Ok(Followed::Behind { why }) => Some(why),
        Err(error) => Some(format!("could not {}", with_causes(&error))),
    };
    // After the checkout has followed: a process that reads the file again finds it.
    learn_settings(ctx, at).await;
    if ctx.memory.train.set_behind(behind.clone()) {
        match behind {
            Some(why) => ctx.say(format!("{target} is behind the hub: {why}")),
            None => ctx.say(format!("{target} follows the hub again")),
        }
    }
}

/// The longest file of settings that is compared, in bytes.
const LONGEST_SETTINGS: u64 = 1 << 20;

/// Reads the settings that are at the hub's target. They are only compared with those in force: what may run here is
/// decided here.
async fn learn_settings(ctx: &Arc<Context>, tip: Oid) {
    let known = ctx.memory.fleet.at_hub.borrow().clone();
    let read = ctx.blocking(move |ctx| {
        let (work, name) = (&ctx.repository.work, format!("{tip}:{}", ctx.settings.file.name));
        let found =
            work.bare().args(["rev-parse", "--verify", "--quiet", "--end-of-options"]).arg(&name).run()?;
        let text = String::from_utf8_lossy(&found.stdout);
        let file = Oid::parse(text.trim()).ok().filter(|_| found.code == Some(0));
        if let Some(known) = known.filter(|known| known.file == file) {
            return Ok(known);
        }
        let Some(blob) = &file else { return Ok(AtHub { file, digest: None }) };
        let size = work.bare().args(["cat-file", "-s"]).arg(blob).text()?;
        if size.trim().parse::<u64>().is_ok_and(|size| size > LONGEST_SETTINGS) {
            return Ok(AtHub { file, digest: Some("too long".to_owned()) });
        }
        let text = work.bare().args(["cat-file", "blob"]).arg(blob).bytes()?;
        Ok(AtHub { file, digest: Some(SettingsFile::digest(&text)) })
    });
    // What cannot be read now is read at the next look.
    if let Ok(now) = read.await {
        ctx.memory.fleet.learn_settings(now, ctx.settings.file.digest.as_deref());
    }
}

/// Fetches the target from the hub and lets the user's branch follow. Returns whether the branch has what the hub has.
pub(crate) async fn follow_hub(ctx: Arc<Context>) -> bool {
    let Some(hub) = ctx.repository.hub.clone() else { return true };
    let branch = names::branch(&ctx.repository.target);
    let name = branch.clone();
    match ctx.blocking(move |_| hub.fetch(&[&name])).await {
        Ok(there) => {
            if let Some(tip) = there.get(&branch).cloned() {
                bring_along(&ctx, tip).await;
            }
            !ctx.memory.train.is_behind()
        }
        // The step that needs the hub reports that it is away.
        Err(_) => false,
    }
}

/// Moves the branch and its checkouts forwards to a commit that is here and that `source` has.
pub fn follow(repo: &Repo, work: &Work, target: &str, tip: &Oid, source: &str) -> Result<Followed, GitError> {
    for _ in 0..RACES {
        let Some(here) = repo.read_ref(&names::branch(target))? else { return Ok(Followed::Even) };
        if work.is_ancestor(tip, &here)? {
            let unfinished = unfinished::finish(repo, work)?.unfinished.pop();
            return Ok(unfinished.map_or(Followed::Even, |(_, why)| Followed::Behind { why }));
        }
        if !work.is_ancestor(&here, tip)? {
            return Ok(Followed::Behind { why: diverged(target, &here, tip, source) });
        }
        let request = PublishRequest {
            target: target.to_owned(),
            old: Some(here),
            new: tip.clone(),
            message: format!("regatta: follow {source}"),
        };
        let published = match in_the_way(repo, work, &request)? {
            Some(waiting) => waiting,
            None => publish(repo, work, &request)?,
        };
        return Ok(match published {
            Published::Moved { kept, .. } => {
                failpoint::reach("ref-moved");
                Followed::Moved { kept }
            }
            Published::HalfWay { why } | Published::Unfinished { why } => Followed::Behind { why },
            Published::WaitingForCheckout { worktree, paths, why } => {
                Followed::Behind { why: waiting_for(&worktree, &paths, &why).why }
            }
            Published::TargetMoved { .. } => continue,
        });
    }
    Ok(Followed::Behind { why: format!("{target} moves all the time") })
}

fn diverged(target: &str, here: &Oid, tip: &Oid, source: &str) -> String {
    format!("{target} ({}) has commits that {source} ({}) does not have", here.short(), tip.short())
}

/// Whether the user's branch lacks what the target had at the hub when it was last seen. Asks nobody.
pub fn behind(repo: &Repo, work: &Work, target: &str) -> Result<Option<Behind>, GitError> {
    let branch = names::branch(target);
    let seen = names::here(&branch);
    let (Some(tip), Some(here)) = (repo.read_ref(&seen)?, repo.read_ref(&branch)?) else { return Ok(None) };
    if !work.has_commit(&tip)? || work.is_ancestor(&tip, &here)? {
        return Ok(None);
    }
    if !work.is_ancestor(&here, &tip)? {
        let hint =
            format!("bring both together, and push your commits to the hub: git rebase {seen} {target}");
        return Ok(Some(Behind { why: diverged(target, &here, &tip, "the hub"), hint }));
    }
    let number = counted(work.commits_between(&here, &tip)?.len(), "commit");
    let request =
        PublishRequest { target: target.to_owned(), old: Some(here), new: tip, message: String::new() };
    let mut why = format!("{target} is {number} behind the hub");
    let mut hint = "it follows while a daemon or a run is working".to_owned();
    if let Some(Published::WaitingForCheckout { worktree, paths, why: what }) =
        in_the_way(repo, work, &request)?
    {
        why = format!("{why}: {}", waiting_for(&worktree, &paths, &what).why);
        hint = format!("{hint}, once nothing is in its way");
    }
    Ok(Some(Behind { why, hint }))
}

/// The target at the hub when it was last seen.
pub fn seen_at_hub(repo: &Repo, target: &str) -> Result<Option<Oid>, GitError> {
    repo.read_ref(&names::here(&names::branch(target)))
}
