//! What is found otherwise than by its key: entries whose names say all that a lookup needs.
//!
//! Invariant: an entry is created and deleted by the transaction that changes the record it stands for, so the two are
//! never at odds. Which entries a record has follows from the record alone.

use regatta_core::attempt::Attempt;
use regatta_core::sandbox::Level;
use regatta_core::state::{StateName, TaskState};
use regatta_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::paths::{self, HELD, OPEN, QUEUES, SPENT, name, padded};
use crate::rules::record::{Folded, Task};
use crate::stored::to_json;
use crate::{ReadyKey, SessionId};

/// An entry: its node and its data.
pub(super) type Entry = (String, String);

fn marker(path: String) -> Entry {
    (path, String::new())
}

/// The directory of a queue's tasks in one state.
pub(super) fn in_state(queue: &str, state: &str) -> String {
    format!("{}/{}", states(queue), name(state))
}

pub(super) fn states(queue: &str) -> String {
    format!("{}/s", of_queue(queue))
}

pub(super) fn of_queue(queue: &str) -> String {
    format!("{QUEUES}/{}", name(queue))
}

pub(super) fn ready(queue: &str) -> String {
    format!("{}/ready", of_queue(queue))
}

pub(super) fn timers(queue: &str) -> String {
    format!("{}/timers", of_queue(queue))
}

/// The directories that a task's entries need, parents first.
pub(super) fn directories_of(task: &Task, state: &str) -> Vec<String> {
    let queue = &task.queue;
    let mut directories = vec![of_queue(queue), states(queue), ready(queue), timers(queue)];
    directories.extend(StateName::ALL.iter().map(|state| in_state(queue, state.as_str())));
    directories.push(in_state(queue, state));
    directories
}

/// The entries of a task: by the name of its state, and as one that is ready, waits for a time, or is held.
pub(super) fn of_task(folded: &Folded, task: &Task, state: &str) -> Vec<Entry> {
    let (seq, id) = (padded(task.seq), name(folded));
    let mut entries = vec![marker(format!("{}/{seq}~{id}", in_state(&task.queue, state)))];
    if matches!(task.state, TaskState::Pending { not_before: None }) && task.unmet == 0 {
        entries.push(marker(format!("{}/{}~{seq}~{id}", ready(&task.queue), rank(task.priority))));
    }
    if let Some(at) = task.state.wakes_at() {
        let at = at.millis().cast_unsigned() ^ (1 << 63);
        entries.push(marker(format!("{}/{at:020}~{seq}~{id}", timers(&task.queue))));
    }
    if let Some(session) = &task.session {
        entries.push(marker(format!("{HELD}/{seq}~{id}~{}", name(&session.0))));
    }
    entries
}

/// A priority as part of a name: the higher, the earlier.
fn rank(priority: i32) -> String {
    format!("{:010}", i64::from(i32::MAX) - i64::from(priority))
}

/// The position and the task of a name among those that are ready.
pub(super) fn read_ready(name: &str) -> Option<(ReadyKey, Folded)> {
    let mut parts = name.split('~');
    let rank: i64 = parts.next()?.parse().ok()?;
    let priority = i32::try_from(i64::from(i32::MAX) - rank).ok()?;
    let seq = parts.next()?.parse().ok()?;
    Some((ReadyKey { priority, seq }, paths::text(parts.next()?).into()))
}

/// The number and the task of a name in a state's directory.
pub(super) fn read_in_state(name: &str) -> Option<(u64, Folded)> {
    let (seq, id) = name.split_once('~')?;
    Some((seq.parse().ok()?, paths::text(id).into()))
}

/// The task of a name among those that wait for a time.
pub(super) fn read_timer(name: &str) -> Option<Folded> {
    Some(paths::text(name.split('~').nth(2)?).into())
}

/// The task and the session of a name among those that are held.
pub(super) fn read_held(name: &str) -> Option<(Folded, SessionId)> {
    let mut parts = name.split('~').skip(1);
    Some((paths::text(parts.next()?).into(), SessionId(paths::text(parts.next()?))))
}

/// The entry of an open session.
pub(super) fn of_session(session: &SessionId) -> Entry {
    marker(format!("{OPEN}/{}", name(&session.0)))
}

/// A task among the dependents of another.
pub(super) fn of_dependency(parent: &str, child: &str) -> Entry {
    marker(paths::of_task(parent, &format!("k~{}", name(child))))
}

/// The dependents in the names below a task.
pub(super) fn read_children(names: &[String]) -> Vec<Folded> {
    names.iter().filter_map(|name| Some(paths::text(name.strip_prefix("k~")?).into())).collect()
}

/// The numbers of the attempts (`a`) or prompts (`p`) in the names below a task, in order.
pub(super) fn read_numbers(names: &[String], letter: char) -> Vec<u32> {
    let mut numbers: Vec<u32> =
        names.iter().filter_map(|name| name.strip_prefix(letter)?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

/// A task among those that wait to land on a target.
pub(super) fn of_car(target: &str, task: &str) -> Entry {
    marker(format!("{}/{}", paths::cars(target), name(task)))
}

/// What an attempt has used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Spent {
    pub(super) agent: String,
    pub(super) model: String,
    pub(super) plan: Option<String>,
    pub(super) at: Option<Timestamp>,
    pub(super) usd: Option<f64>,
    pub(super) priced: bool,
    pub(super) tokens_in: u64,
    pub(super) tokens_out: u64,
}

const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// The name of a day; `none` for attempts without a time.
pub(super) fn day(at: Option<Timestamp>) -> String {
    at.map_or_else(|| "none".into(), |at| at.millis().div_euclid(DAY_MS).to_string())
}

fn when(attempt: &Attempt) -> Option<Timestamp> {
    attempt.ended_at.or(attempt.started_at)
}

/// The directory of what an attempt has used.
pub(super) fn spent_directory(attempt: &Attempt) -> String {
    format!("{SPENT}/{}", day(when(attempt)))
}

/// Where it is recorded what an attempt has used.
pub(super) fn spent_node(task: &str, attempt: &Attempt) -> String {
    format!("{}/{}~{}", spent_directory(attempt), name(task), attempt.n)
}

/// What an attempt has used.
pub(super) fn spent(attempt: &Attempt, plan: Option<String>) -> String {
    to_json(&Spent {
        agent: attempt.agent.clone(),
        model: attempt.model.clone().or_else(|| attempt.model_asked.clone()).unwrap_or_default(),
        plan,
        at: when(attempt),
        usd: attempt.cost_usd.filter(|usd| usd.is_finite()),
        priced: attempt.priced,
        tokens_in: attempt.tokens_in,
        tokens_out: attempt.tokens_out,
    })
}

/// The task and the attempt of a name among what was used.
pub(super) fn read_spent(name: &str) -> Option<(Folded, u32)> {
    let (task, n) = name.split_once('~')?;
    Some((paths::text(task).into(), n.parse().ok()?))
}

/// How firmly an attempt was confined, if it is known.
pub(super) fn confinement(attempt: &Attempt) -> Option<String> {
    attempt.sandbox.map(|level| to_json(&level).trim_matches('"').to_owned())
}

pub(super) fn read_confinement(text: &str) -> Option<Level> {
    Level::parse(text)
}

#[cfg(test)]
mod tests {
    use regatta_core::id::TaskId;
    use regatta_core::time::Timestamp;

    use super::{rank, read_held, read_in_state, read_ready};
    use crate::ReadyKey;

    #[test]
    fn names_sort_as_tasks_are_claimed() {
        let mut ranks = [5, -1, i32::MAX, 0, i32::MIN].map(rank);
        ranks.sort();
        assert_eq!(ranks, [i32::MAX, 5, 0, -1, i32::MIN].map(rank));
        let name = format!("{}~000000000007~b%2Fx", rank(-3));
        assert_eq!(read_ready(&name).unwrap(), (ReadyKey { priority: -3, seq: 7 }, "b/x".into()));
        assert_eq!(read_in_state("000000000012~a-1").unwrap(), (12, "a-1".into()));
        let (task, session) = read_held("000000000012~a-1~run-7").unwrap();
        assert_eq!((&*task, session.0.as_str()), ("a-1", "run-7"));
        assert!(TaskId::parse("a-1").is_ok() && super::day(Some(Timestamp::from_millis(-1))) == "-1");
    }
}
