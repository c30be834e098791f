//! What attempts have used: recorded beside their records, by day, and added up here.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::entries::{self, Spent};
use super::look::{Ask, Look, Seeing};
use super::paths::SPENT;
use super::tasks;
use crate::rules::record::{Folded, Task, folded};
use crate::stored::from_json;
use crate::{QUARTER, SpendBy, SpendQuery, Spending};

pub(super) async fn read(look: &Look<'_>, wanted: &SpendQuery) -> Seeing<Vec<Spending>> {
    let found = recorded(look, wanted).await?;
    let needs_task = wanted.by == SpendBy::Task || wanted.queue.is_some() || wanted.since_restart;
    let mut known: HashMap<Folded, Task> = HashMap::new();
    if needs_task {
        let mut names: Vec<Folded> = found.iter().map(|(task, _)| task.clone()).collect();
        names.sort_unstable();
        names.dedup();
        known.extend(tasks::read(look, &names).await?);
    }
    let mut sums: BTreeMap<(i64, String), Spending> = BTreeMap::new();
    if wanted.by == SpendBy::All {
        sums.insert((0, String::new()), Spending::default());
    }
    for (name, spent) in &found {
        let task = known.get(name);
        let is_counted = wanted.since.is_none_or(|since| spent.at.is_some_and(|at| at >= since))
            && wanted.plan.as_ref().is_none_or(|plan| spent.plan.as_ref() == Some(plan))
            && (!needs_task || task.is_some())
            && wanted.queue.as_ref().is_none_or(|queue| task.is_some_and(|task| task.queue == *queue))
            && (!wanted.since_restart
                || spent.at.is_none_or(|at| task.is_some_and(|task| at >= task.counted_from)));
        let Some(key) = key(wanted.by, spent, task).filter(|_| is_counted) else { continue };
        let sum = sums.entry(key).or_default();
        sum.attempts += u64::from(spent.at.is_some());
        sum.usd += spent.usd.unwrap_or(0.0);
        sum.unpriced += u64::from(spent.usd.is_none() && (spent.tokens_in > 0 || spent.tokens_out > 0));
        sum.priced += u64::from(spent.priced);
        sum.tokens_in = sum.tokens_in.saturating_add(spent.tokens_in);
        sum.tokens_out = sum.tokens_out.saturating_add(spent.tokens_out);
    }
    Ok(sums.into_iter().map(|((_, key), sum)| Spending { key, ..sum }).collect())
}

/// What attempts have used, as far as the names of the records tell which are wanted.
async fn recorded(look: &Look<'_>, wanted: &SpendQuery) -> Seeing<Vec<(Folded, Spent)>> {
    let first = wanted.since.map(|since| entries::day(Some(since)).parse::<i64>().unwrap_or(i64::MIN));
    let is_wanted_day =
        |day: &String| first.is_none_or(|first| day.parse::<i64>().is_ok_and(|day| day >= first));
    let days: Vec<String> = look.names(SPENT).await?.into_iter().filter(is_wanted_day).collect();
    let only: Option<HashSet<Folded>> = wanted.tasks.as_ref().map(|tasks| tasks.iter().map(folded).collect());
    let except: HashSet<(Folded, u32)> = wanted.except.iter().map(|(task, n)| (folded(task), *n)).collect();
    let asks: Vec<Ask> = days.iter().map(|day| Ask::Names(format!("{SPENT}/{day}"))).collect();
    let (mut names, mut asks_of_all) = (Vec::new(), Vec::new());
    for (day, answer) in days.iter().zip(look.read(&asks).await?) {
        for name in answer.names() {
            let Some((task, n)) = entries::read_spent(&name) else { continue };
            if only.as_ref().is_none_or(|only| only.contains(&task)) && !except.contains(&(task.clone(), n)) {
                asks_of_all.push(Ask::Data(format!("{SPENT}/{day}/{name}")));
                names.push(task);
            }
        }
    }
    let mut found = Vec::new();
    for (task, answer) in names.into_iter().zip(look.read(&asks_of_all).await?) {
        if let Some((text, _)) = answer.data() {
            found.push((task, from_json("what an attempt has used", &text)?));
        }
    }
    Ok(found)
}

/// The group of an attempt, with a number by which groups are sorted first.
fn key(by: SpendBy, spent: &Spent, task: Option<&Task>) -> Option<(i64, String)> {
    let key = match by {
        SpendBy::All => String::new(),
        SpendBy::Task => task?.id.to_string(),
        SpendBy::Agent => spent.agent.clone(),
        SpendBy::Model => spent.model.clone(),
        SpendBy::Plan => spent.plan.clone()?,
        SpendBy::Quarter => {
            let quarter = spent.at.map_or(0, |at| at.millis() / QUARTER);
            return Some((quarter, quarter.to_string()));
        }
    };
    Some((0, key))
}
