//! Reads cars and passed trees, and forgets old ones of these.

use std::sync::Arc;

use regatta_core::oid::Oid;
use regatta_core::train::Car;

use super::look::{Answer, Ask, Look, Seeing};
use super::ops::{self, ANY, Op};
use super::{ZookeeperStore, codec, paths, tasks};
use crate::rules::record::{Folded, Key};
use crate::stored::{from_json, has_valid_ids};

/// About how many trees of a gate are kept: their order is read from each.
const MOST_PASSES: usize = 1000;

/// Old trees are removed this many at a time.
const SURPLUS: usize = 100;

pub(super) async fn cars(look: &Look<'_>, target: &str) -> Seeing<Vec<Car>> {
    let names = look.names(&paths::cars(target)).await?;
    let names: Vec<Folded> = names.iter().map(|name| paths::text(name).into()).collect();
    let found = tasks::read(look, &names).await?;
    let asks: Vec<Ask> =
        found.iter().map(|(name, _)| Ask::Data(paths::record(&Key::Car(Arc::clone(name))))).collect();
    let mut cars = Vec::new();
    for ((_, task), answer) in found.into_iter().zip(look.read(&asks).await?) {
        let Some((text, stat)) = answer.data() else { continue };
        let car: codec::CarText<'_> = from_json("a car", &text)?;
        if car.target != target {
            continue;
        }
        let (request, step) = (car.request.as_str(), car.step.get());
        let read = from_json("a car's request", request)
            .and_then(|request| Ok((request, from_json("a car's step", step)?)));
        let (request, step) = match read {
            Ok(read) => read,
            // Only a newer version can read it, so that version has to move it.
            Err(_) if has_valid_ids(request) && has_valid_ids(step) => continue,
            Err(error) => return Err(error.into()),
        };
        // The transaction that added the car is its place in the order of approval.
        let seq = codec::zxid(stat.czxid);
        let car = Car { task: task.id, attempt: car.attempt, priority: task.priority, seq, request, step };
        cars.push((task.seq, car));
    }
    cars.sort_by_key(|(task, car)| (car.seq, *task));
    Ok(cars.into_iter().map(|(_, car)| car).collect())
}

/// Trees that passed a gate, newest first.
pub(super) async fn passes(look: &Look<'_>, gate: &str) -> Seeing<Vec<Oid>> {
    Ok(in_order(look, gate)
        .await?
        .into_iter()
        .filter_map(|name| Oid::parse(&paths::text(&name)).ok())
        .collect())
}

async fn in_order(look: &Look<'_>, gate: &str) -> Seeing<Vec<String>> {
    let directory = paths::passes(gate);
    let names = look.names(&directory).await?;
    let asks: Vec<Ask> = names.iter().map(|name| Ask::Data(format!("{directory}/{name}"))).collect();
    let mut found = Vec::new();
    for (name, answer) in names.into_iter().zip(look.read(&asks).await?) {
        if let Some((_, stat)) = answer.data() {
            found.push((stat.czxid, name));
        }
    }
    found.sort_unstable_by(|a, b| b.cmp(a));
    Ok(found.into_iter().map(|(_, name)| name).collect())
}

/// Removes the oldest trees of a gate that has too many. A tree that is gone only costs another run of the gate, so
/// this may fail.
pub(super) async fn forget_passes(store: &ZookeeperStore, gate: &str) -> Seeing<()> {
    let look = store.link.look().await?;
    let directory = paths::passes(gate);
    let count = look.read(&[Ask::Data(directory.clone())]).await?.into_iter().next().and_then(Answer::data);
    let count = count.map_or(0, |(_, stat)| usize::try_from(stat.num_children).unwrap_or(0));
    if count < MOST_PASSES + SURPLUS {
        return Ok(());
    }
    let client = store.link.client().await?;
    let mut removal = vec![Op::check(paths::GATE, store.link.passage().await?)];
    let old = in_order(&look, gate).await?.into_iter().skip(MOST_PASSES);
    removal.extend(old.map(|name| Op::delete(format!("{directory}/{name}"), ANY)));
    // If another process was faster, the next who records a tree tries again.
    let _outcome = ops::carry_out(&client, store.link.acls(), &removal).await?;
    Ok(())
}
