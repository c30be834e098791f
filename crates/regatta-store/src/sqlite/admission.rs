//! Limits over all engines, checked in the transaction of the claim.
//!
//! Invariant: after a successful claim, the claims of all open sessions exceed none of its limits.

use std::time::Duration;

use regatta_core::id::TaskId;
use regatta_core::time::Timestamp;
use regatta_core::writes::{WritePath, first_overlap};
use rusqlite::{Connection, OptionalExtension};

use super::rows::{Row, from_json};
use super::writer::Tx;
use crate::{ClaimLimits, Held, Holder, NodeInfo, Result, SessionId};

/// A claim of an engine.
struct Active {
    task: TaskId,
    group: Option<String>,
    writes: Vec<WritePath>,
    session: SessionId,
    node: NodeInfo,
}

impl Active {
    /// Its engine, with this one claim.
    fn holder(&self) -> Holder {
        let NodeInfo { kind, what, .. } = &self.node;
        Holder { session: self.session.clone(), kind: kind.clone(), what: what.clone(), claims: 1 }
    }
}

/// The limit that the claim of `row` would exceed, if any.
pub(super) fn crossed(tx: &Tx, row: &Row, limits: &ClaimLimits, at: Timestamp) -> Result<Option<Held>> {
    if let Some(left) = stagger_left(tx, limits.stagger, at)? {
        return Ok(Some(Held::Stagger { left }));
    }
    let (group, writes) = compared(tx, row.seq)?;
    let active = active(tx, row.seq, &limits.uncounted)?;
    if let Some(max) = limits.max_workers
        && count(active.len()) >= max
    {
        return Ok(Some(Held::Workers { max, holders: holders(&active) }));
    }
    if let (Some(group), Some(max)) = (group, limits.group) {
        let same: Vec<Active> = active_of(tx, row.seq, limits, &group)?;
        if count(same.len()) >= max {
            return Ok(Some(Held::Group { group, max, holders: holders(&same) }));
        }
    }
    for other in active {
        if let Some((_, theirs)) = first_overlap(&writes, &other.writes) {
            let holder = other.holder();
            return Ok(Some(Held::Writes { path: theirs.clone(), other: other.task, holder }));
        }
    }
    Ok(None)
}

/// Records that an engine starts a task now.
pub(super) fn started(tx: &Tx, at: Timestamp) -> Result<()> {
    tx.prepare_cached(
        "insert into started(one, at) values(1, ?1) on conflict(one) do update set at = excluded.at",
    )?
    .execute([at.millis()])?;
    Ok(())
}

fn stagger_left(db: &Connection, stagger: Option<Duration>, at: Timestamp) -> Result<Option<Duration>> {
    let Some(stagger) = stagger else { return Ok(None) };
    let last: Option<i64> =
        db.prepare_cached("select at from started")?.query_row([], |row| row.get(0)).optional()?;
    let Some(last) = last else { return Ok(None) };
    let apart = Duration::from_millis(at.millis().abs_diff(last));
    Ok(stagger.checked_sub(apart).filter(|left| !left.is_zero()))
}

fn compared(db: &Connection, seq: i64) -> Result<(Option<String>, Vec<WritePath>)> {
    let mut query = db.prepare_cached("select concurrency_group, writes from task where seq = ?1")?;
    let (group, writes): (Option<String>, Option<String>) =
        query.query_row([seq], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok((group, parsed(writes)?))
}

fn parsed(writes: Option<String>) -> Result<Vec<WritePath>> {
    writes.map_or(Ok(Vec::new()), |writes| from_json("the writes of a task", &writes))
}

/// All claims of engines except that on `seq` itself.
fn active(db: &Connection, seq: i64, uncounted: &[TaskId]) -> Result<Vec<Active>> {
    let mut query = db.prepare_cached(
        "select t.id, t.concurrency_group, t.writes, t.session, s.node from task t \
         join session s on s.id = t.session where t.session is not null and t.seq <> ?1 order by t.seq",
    )?;
    let mut rows = query.query([seq])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let id: String = row.get(0)?;
        let node: NodeInfo = from_json("a session's node", &row.get::<_, String>(4)?)?;
        let task = TaskId::parse(&id)
            .map_err(|error| super::failure::unreadable(&format!("the task id {id:?}"), error))?;
        if node.is_member() || uncounted.contains(&task) {
            continue;
        }
        found.push(Active {
            task,
            group: row.get(1)?,
            writes: parsed(row.get(2)?)?,
            session: SessionId(row.get(3)?),
            node,
        });
    }
    Ok(found)
}

fn active_of(db: &Connection, seq: i64, limits: &ClaimLimits, group: &str) -> Result<Vec<Active>> {
    let mut active = active(db, seq, &limits.uncounted)?;
    active.retain(|other| other.group.as_deref() == Some(group));
    Ok(active)
}

/// Claims per engine, the most first.
fn holders(active: &[Active]) -> Vec<Holder> {
    let mut holders: Vec<Holder> = Vec::new();
    for claim in active {
        match holders.iter_mut().find(|holder| holder.session == claim.session) {
            Some(holder) => holder.claims += 1,
            None => holders.push(claim.holder()),
        }
    }
    holders.sort_by_key(|holder| std::cmp::Reverse(holder.claims));
    holders
}

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
