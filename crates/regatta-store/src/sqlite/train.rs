//! Reads roles, cars and passed trees.

use regatta_core::id::TaskId;
use regatta_core::oid::Oid;
use regatta_core::train::Car;
use rusqlite::{Connection, OptionalExtension, params};

use crate::rules::record::Holding;
use crate::stored::{from_json, has_valid_ids, unreadable};
use crate::{Result, SessionId};

/// Maximum number of trees that are kept.
pub(super) const MOST_PASSES: i64 = 10_000;

pub(super) fn holding(db: &Connection, role: &str) -> Result<Option<Holding>> {
    let mut query = db.prepare_cached("select session, term from role where role = ?1")?;
    let found = query.query_row([role], |row| {
        let session = row.get::<_, Option<String>>(0)?.map(SessionId);
        Ok(Holding { session, term: row.get::<_, i64>(1)?.cast_unsigned() })
    });
    Ok(found.optional()?)
}

pub(super) fn cars(db: &Connection, target: &str) -> Result<Vec<Car>> {
    let mut query = db.prepare_cached(
        "select t.id, c.attempt, t.rank, c.seq, c.request, c.step from car c join task t on t.seq = c.task \
         where c.target = ?1 order by c.seq",
    )?;
    let mut rows = query.query([target])?;
    let mut cars = Vec::new();
    while let Some(row) = rows.next()? {
        let task =
            TaskId::parse(&row.get::<_, String>(0)?).map_err(|error| unreadable("a task id", error))?;
        let priority =
            i32::try_from(-row.get::<_, i64>(2)?).map_err(|error| unreadable("a priority", error))?;
        let (request, step): (String, String) = (row.get(4)?, row.get(5)?);
        let read = from_json("a car's request", &request)
            .and_then(|request| Ok((request, from_json("a car's step", &step)?)));
        let (request, step) = match read {
            Ok(read) => read,
            // Only a newer version can read it, so that version has to move it. No version writes an id that is not one.
            Err(_) if has_valid_ids(&request) && has_valid_ids(&step) => continue,
            Err(error) => return Err(error),
        };
        cars.push(Car {
            task,
            attempt: row.get(1)?,
            priority,
            seq: row.get::<_, i64>(3)?.cast_unsigned(),
            request,
            step,
        });
    }
    Ok(cars)
}

/// Trees that passed a gate, newest first.
pub(super) fn passes(db: &Connection, gate: &str) -> Result<Vec<Oid>> {
    let mut query = db.prepare_cached("select tree from pass where gate = ?1 order by seq desc limit ?2")?;
    let rows = query.query_map(params![gate, MOST_PASSES], |row| row.get::<_, String>(0))?;
    let trees = rows.collect::<std::result::Result<Vec<_>, _>>()?;
    // A row that names no tree only costs another run of the gate.
    Ok(trees.iter().filter_map(|tree| Oid::parse(tree).ok()).collect())
}
