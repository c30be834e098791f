//! Saved work at the hub: what this clone saved goes there, and what others saved can be had from there.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use regatta_core::id::TaskId;

use crate::context::Context;
use crate::git::{GitCommand, GitError, Oid, SALVAGE};
use crate::hub::{Answer, Hub, Move, names};
use crate::session;

/// Maximum number of refs in one push.
const MOST_REFS: usize = 50;

/// The name of this clone in refs: the node's, and enough of the clone's id to tell two of one node apart.
pub fn clone_name() -> Option<String> {
    let place = session::place()?;
    let id = place.id.get(..8).unwrap_or(&place.id);
    // A ref name must not have two dots in a row.
    let node: String = place.node.replace("..", ".-");
    Some(format!("{}-{id}", node.trim_end_matches('.')))
}

/// The first of these paths that a commit after `known` touches.
pub(super) fn first_of(
    command: GitCommand,
    paths: &BTreeSet<PathBuf>,
    known: &[&Oid],
    commit: &Oid,
) -> Result<Option<String>, GitError> {
    if paths.is_empty() {
        return Ok(None);
    }
    let command = command.env("GIT_LITERAL_PATHSPECS", "1");
    let flags = ["log", "-m", "--format=", "--name-only", "--no-renames"];
    let mut command = command.args(flags).arg(commit).arg("--not");
    for commit in known {
        command = command.arg(*commit);
    }
    let touched = command.arg("--").args(paths).text()?;
    Ok(touched.lines().find(|line| !line.is_empty()).map(str::to_owned))
}

/// Work that stays in this clone, and why.
pub(crate) struct StaysHere {
    pub(crate) name: String,
    pub(crate) why: String,
}

/// Pushes saved work that is not at the hub yet. Returns what must not go there.
pub(crate) fn send(ctx: &Context, hub: &Hub) -> Result<Vec<StaysHere>, GitError> {
    let Some(clone) = clone_name() else { return Ok(Vec::new()) };
    let repo = &ctx.repository.repo;
    let sent: BTreeMap<String, Oid> = repo.refs_below(&names::here(names::SALVAGE))?.into_iter().collect();
    let (mut moves, mut own_names, mut stays) = (Vec::new(), Vec::new(), Vec::new());
    for (name, oid) in repo.refs_below(SALVAGE)? {
        let Some((task, n)) = parts(&name) else { continue };
        let there = names::salvage(&task, &clone, n);
        if sent.get(&names::here(&there)) == Some(&oid) {
            continue;
        }
        match reason_to_stay(ctx, &task, &oid)? {
            Some(why) => stays.push(StaysHere { name, why }),
            None => {
                moves.push(Move::create(there, oid));
                own_names.push(name);
            }
        }
    }
    for (some, own_names) in moves.chunks(MOST_REFS).zip(own_names.chunks(MOST_REFS)) {
        let Some(why) = push(hub, some)? else { continue };
        // The hub may refuse all for the sake of one.
        let mut refused = Vec::new();
        for (one, name) in some.iter().zip(own_names) {
            if let Some(why) = push(hub, std::slice::from_ref(one))? {
                refused.push(StaysHere { name: name.clone(), why: format!("the hub refuses it: {why}") });
            }
        }
        if refused.len() == some.len() && refused.len() > 1 {
            return Err(GitError::HubAway { hub: hub.name().to_owned(), why });
        }
        stays.extend(refused);
    }
    Ok(stays)
}

/// Pushes some refs. Returns why the hub refuses one of them, if it does; others may have arrived.
fn push(hub: &Hub, some: &[Move]) -> Result<Option<String>, GitError> {
    let stale = match hub.push(some, false)? {
        Answer::Done => Vec::new(),
        Answer::Stale(names) => names,
        Answer::Refused(why) => return Ok(Some(why)),
        Answer::Unknown(why) => return Err(GitError::HubAway { hub: hub.name().to_owned(), why }),
    };
    let there = if stale.is_empty() { BTreeMap::new() } else { hub.read(&stale)? };
    for Move { name, to, .. } in some {
        let Some(oid) = to else { continue };
        match there.get(name) {
            Some(other) if other != oid => send_beside(hub, name, oid)?,
            _ => {}
        }
        // It marks what is at the hub.
        hub.hold(name, oid)?;
    }
    Ok(None)
}

/// Another clone with the same name has saved other work under this number: it gets the next free one.
fn send_beside(hub: &Hub, name: &str, oid: &Oid) -> Result<(), GitError> {
    let Some((task, (clone, _))) = names::task_of(name).zip(names::saved_by(name)) else { return Ok(()) };
    let taken = hub.read_below(&names::salvage_of(&task))?;
    if taken.values().any(|there| there == oid) {
        return Ok(());
    }
    let own = taken.keys().filter_map(|name| names::saved_by(name)).filter(|(by, _)| *by == clone);
    let next = own.map(|(_, n)| n).max().unwrap_or(0) + 1;
    match super::create(hub, &names::salvage(&task, clone, next), oid)? {
        super::Created::There => Ok(()),
        super::Created::Taken => Err(GitError::RefMoved { name: name.to_owned(), now: None }),
    }
}

/// The task and the number of a salvage ref of this clone.
fn parts(name: &str) -> Option<(TaskId, u64)> {
    let (task, n) = name.strip_prefix(SALVAGE)?.split_once('/')?;
    Some((TaskId::parse(task).ok()?, n.parse().ok()?))
}

/// Why saved work must not leave this clone: it has a file that was copied into the lane, or may have one.
fn reason_to_stay(ctx: &Context, task: &TaskId, oid: &Oid) -> Result<Option<String>, GitError> {
    let Some(private) = ctx.repository.lanes.known_brought_in(task)? else {
        return Ok(Some("it is not known which files were copied into the lane".to_owned()));
    };
    if private.is_empty() {
        return Ok(None);
    }
    let branch = names::branch(&ctx.repository.target);
    let mut known = Vec::new();
    for name in [names::here(&branch), branch] {
        known.extend(ctx.repository.repo.read_ref(&name)?);
    }
    let path = first_of(ctx.repository.work.bare(), &private, &known.iter().collect::<Vec<_>>(), oid)?;
    Ok(path.map(|path| format!("it has {path}, which was copied into the lane")))
}

/// Fetches what other clones have saved, of one task or of all.
pub fn fetch(hub: &Hub, task: Option<&TaskId>) -> Result<(), GitError> {
    let prefix = task.map_or_else(|| names::SALVAGE.to_owned(), names::salvage_of);
    let own = clone_name();
    let there = hub.read_below(&prefix)?;
    let others = there
        .into_keys()
        .filter(|name| names::saved_by(name).is_some_and(|(clone, _)| Some(clone) != own.as_deref()));
    let others: Vec<String> = others.collect();
    if others.is_empty() {
        return Ok(());
    }
    hub.fetch(&others).map(drop)
}

/// The directory of run records of a task.
pub(super) fn runs_of(state_dir: &Path, task: &TaskId) -> PathBuf {
    state_dir.join("runs").join(task.as_str())
}
