//! Reads cars and passed trees.

use regatta_core::oid::Oid;
use regatta_core::train::Car;

use super::connection::Connection;
use super::rows::{parse_id, priority};
use super::wire::{get_text, get_u32, get_u64};
use crate::Result;
use crate::stored::{from_json, has_valid_ids};

/// Maximum number of trees that are kept.
pub(super) const MOST_PASSES: i64 = 10_000;

pub(super) async fn cars(db: &Connection, target: &str) -> Result<Vec<Car>> {
    let sql = "select t.id, c.attempt, t.rank, c.seq, c.request, c.step from car c \
        join task t on t.seq = c.task where c.target = $1 order by c.seq";
    let mut cars = Vec::new();
    for row in &db.rows(sql, &[&target]).await? {
        let (request, step) = (get_text(row, 4)?, get_text(row, 5)?);
        let read = from_json("a car's request", &request)
            .and_then(|request| Ok((request, from_json("a car's step", &step)?)));
        let (request, step) = match read {
            Ok(read) => read,
            // Only a newer version can read it, so that version has to move it.
            Err(_) if has_valid_ids(&request) && has_valid_ids(&step) => continue,
            Err(error) => return Err(error),
        };
        cars.push(Car {
            task: parse_id(&get_text(row, 0)?)?,
            attempt: get_u32(row, 1)?,
            priority: priority(row, 2)?,
            seq: get_u64(row, 3)?,
            request,
            step,
        });
    }
    Ok(cars)
}

/// Trees that passed a gate, newest first.
pub(super) async fn passes(db: &Connection, gate: &str) -> Result<Vec<Oid>> {
    let sql = "select tree from pass where gate = $1 order by seq desc limit $2";
    let rows = db.rows(sql, &[&gate, &MOST_PASSES]).await?;
    let trees = rows.iter().map(|row| get_text(row, 0)).collect::<Result<Vec<_>>>()?;
    // A row that names no tree only costs another run of the gate.
    Ok(trees.iter().filter_map(|tree| Oid::parse(tree).ok()).collect())
}
