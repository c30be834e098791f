//! Plans that are too long for one transaction.
//!
//! A long plan is written down in parts under a node of its own, first what it expects, then what it does. Then the gate
//! is closed: its node names the plan and the next part. Every transaction checks that the gate is open, and every
//! reader that it was open all the time, so nobody can see or change anything meanwhile. Each part that is carried out
//! moves the gate by the same transaction, so no part is carried out twice, whether the plan's owner does it or
//! another process that finds the gate closed. The last part opens the gate. So the plan happens whole, or not at all, also if its
//! owner ends in the middle; and nobody waits for anybody who is away.
//!
//! While the store is moved or copied, its open gate carries the mark. Plans are refused then; each step of a copy
//! replaces the mark by the same transaction.

use std::time::{SystemTime, UNIX_EPOCH};

use zookeeper_client::{Client, Error, MultiReadResult};

use super::bell;
use super::failure::{failed, is_stale};
use super::link::Link;
use super::ops::{self, ANY, Kind, Op, Outcome};
use super::paths::{GATE, PLANS};
use crate::model::random_hex;
use crate::transfer::Mark;
use crate::{Result, StoreError};

/// How long a part is at most, in bytes of requests.
const PART: usize = 450_000;

/// How many operations it has at most.
const MOST: usize = 2000;

/// How many nodes one request asks for.
const BATCH: usize = 500;

/// A plan that was written down this long ago and never begun is removed.
const ABANDONED_MS: i64 = 3_600_000;

/// What became of a long plan.
pub(super) enum Fate {
    Done,
    /// Nothing is written: this node is not as it was expected.
    Refused(String),
}

impl Link {
    /// Carries out a long plan. `expected` are versions; [`ABSENT`] and [`PRESENT`] stand for any that are not, or are,
    /// there.
    pub(super) async fn carry_out_long(&self, expected: Vec<(String, i32)>, work: Vec<Op>) -> Result<Fate> {
        let client = self.client().await?;
        let expected: Vec<Op> =
            expected.into_iter().map(|(path, version)| Op::check(path, version)).collect();
        let mut parts = parted(expected, &self.address.chroot);
        parts.extend(parted(work, &self.address.chroot));
        let plan = format!("{PLANS}/{}", random_hex());
        self.write_down(&client, &plan, &parts).await?;
        // Begins with the first part, once the gate is open.
        loop {
            let closed = state(&plan, parts.len(), 0);
            let gate = match self.passage().await {
                Ok(gate) => gate,
                Err(refused) => {
                    self.forget(&client, &plan, parts.len()).await;
                    return Err(refused);
                }
            };
            let begin = [Op::set(GATE, closed, gate), Op::check(plan.clone(), 0)];
            match ops::carry_out(&client, self.acls(), &begin).await? {
                Outcome::Done => break,
                Outcome::Failed(0, _) => self.settle().await?,
                Outcome::Failed(_, error) => return Err(failed(error)),
            }
        }
        self.settle().await?;
        let (fate, _) = client.get_data(&plan).await.map_err(failed)?;
        let fate = String::from_utf8_lossy(&fate).into_owned();
        self.forget(&client, &plan, parts.len()).await;
        match fate.split_once(' ') {
            Some(("refused", path)) => Ok(Fate::Refused(path.to_owned())),
            _ if fate == "done" => Ok(Fate::Done),
            _ => Err(StoreError::Corrupt(format!("the long plan {plan} ended as {fate:?}"))),
        }
    }

    async fn write_down(&self, client: &Client, plan: &str, parts: &[Vec<Op>]) -> Result<()> {
        let options = zookeeper_client::CreateMode::Persistent.with_acls(self.acls());
        let made = client.create(plan, b"", &options);
        let names: Vec<String> = (0..parts.len()).map(|n| part(plan, n)).collect();
        let texts: Vec<String> = parts.iter().map(|part| ops::written(part)).collect();
        let sent: Vec<_> = names
            .iter()
            .zip(&texts)
            .map(|(name, text)| client.create(name, text.as_bytes(), &options))
            .collect();
        made.await.map_err(failed)?;
        for answer in sent {
            answer.await.map_err(failed)?;
        }
        Ok(())
    }

    /// Waits until the gate is open, by finishing the plan that closed it.
    pub(super) async fn settle(&self) -> Result<()> {
        let client = self.client().await?;
        loop {
            let synced = client.sync(GATE);
            let gate = client.get_data(GATE);
            synced.await.map_err(failed)?;
            let (text, stat) = gate.await.map_err(failed)?;
            let text = String::from_utf8_lossy(&text).into_owned();
            if let Some(mark) = mark_of(&text) {
                self.saw_gate(stat.version, mark?);
                return Ok(());
            }
            let Some((plan, parts, next)) = parse(&text) else {
                return Err(StoreError::Corrupt(format!("the gate of the store says {text:?}")));
            };
            let found = match client.get_data(&part(plan, next)).await {
                Ok((found, _)) => String::from_utf8_lossy(&found).into_owned(),
                // Finished and removed by another process.
                Err(Error::NoNode) => {
                    let (again, now) = client.get_data(GATE).await.map_err(failed)?;
                    if again == text.as_bytes() && now.version == stat.version {
                        return Err(StoreError::Corrupt(format!(
                            "part {next} of the long plan {plan} is missing"
                        )));
                    }
                    continue;
                }
                Err(error) => return Err(failed(error)),
            };
            let work = ops::read(&found)?;
            let mut step = vec![Op::set(GATE, String::new(), stat.version)];
            let unexpected = unexpected(&client, &work).await?;
            if let Some(path) = unexpected {
                step.push(Op::set(plan, format!("refused {path}"), ANY));
            } else {
                if next + 1 < parts {
                    step[0].data = state(plan, parts, next + 1);
                } else {
                    step.push(Op::set(plan, "done", ANY));
                }
                step.extend(work.into_iter().filter(|op| op.kind != Kind::Check));
            }
            let outcome = loop {
                let outcome = ops::carry_out(&client, self.acls(), &step).await?;
                match &outcome {
                    // The bell of a listener that is gone: nobody would hear it.
                    Outcome::Failed(n, Error::NoNode)
                        if step.get(*n).is_some_and(|op| bell::is_node(&op.path)) =>
                    {
                        step.remove(*n);
                    }
                    _ => break outcome,
                }
            };
            match outcome {
                Outcome::Done => {}
                // Another process has done it.
                Outcome::Failed(0, error) if is_stale(&error) => {}
                Outcome::Failed(n, error) => {
                    let path = step.get(n).map_or("", |op| &op.path);
                    return Err(StoreError::Corrupt(format!(
                        "the long plan {plan} cannot be finished: ZooKeeper: {path}: {error}"
                    )));
                }
            }
        }
    }

    /// Removes a plan that has ended. What stays behind is removed by [`Link::sweep`].
    async fn forget(&self, client: &Client, plan: &str, parts: usize) {
        let mut names: Vec<String> = (0..parts).map(|n| part(plan, n)).collect();
        names.push(plan.to_owned());
        let sent: Vec<_> = names.iter().map(|name| client.delete(name, None)).collect();
        for answer in sent {
            let _swept_later = answer.await;
        }
    }

    /// Removes plans that were never begun, or whose remains were left behind.
    pub(super) async fn sweep(&self, client: &Client) -> Result<()> {
        self.settle().await?;
        let gate = self.gate().version;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_millis());
        let now = i64::try_from(now).unwrap_or(i64::MAX);
        for name in client.list_children(PLANS).await.map_err(failed)? {
            let plan = format!("{PLANS}/{name}");
            let Ok((parts, stat)) = client.get_children(&plan).await else { continue };
            if now - stat.ctime < ABANDONED_MS {
                continue;
            }
            let mut removal = vec![Op::check(GATE, gate)];
            removal.extend(parts.iter().map(|part| Op::delete(format!("{plan}/{part}"), ANY)));
            removal.push(Op::delete(plan, ANY));
            // Whether it worked or not: the next who opens the store tries again.
            let _tried = ops::carry_out(client, self.acls(), &removal).await?;
        }
        Ok(())
    }
}

/// A node that must not exist.
pub(super) const ABSENT: i32 = -2;

/// A node that must exist, in any version.
pub(super) const PRESENT: i32 = ANY;

/// The first node that is not as the checks among these operations expect it.
async fn unexpected(client: &Client, work: &[Op]) -> Result<Option<String>> {
    let checks: Vec<&Op> = work.iter().filter(|op| op.kind == Kind::Check).collect();
    let mut sent = Vec::new();
    for batch in checks.chunks(BATCH) {
        let mut reader = client.new_multi_reader();
        for check in batch {
            reader.add_get_data(&check.path).map_err(failed)?;
        }
        sent.push(reader.commit());
    }
    let mut found = Vec::with_capacity(checks.len());
    for batch in sent {
        for answer in batch.await.map_err(failed)? {
            found.push(match answer {
                MultiReadResult::Data { stat, .. } => Some(stat.version),
                MultiReadResult::Error { err: Error::NoNode } => None,
                MultiReadResult::Error { err } => return Err(failed(err)),
                _ => return Err(StoreError::Corrupt("ZooKeeper gave an answer of an unknown kind".into())),
            });
        }
    }
    let is_as_expected = |check: &Op, version: Option<i32>| match (check.version, version) {
        (ABSENT, found) => found.is_none(),
        (PRESENT, found) => found.is_some(),
        (expected, found) => found == Some(expected),
    };
    let first = checks.iter().zip(found).find(|(check, version)| !is_as_expected(check, *version));
    Ok(first.map(|(check, _)| check.path.clone()))
}

/// Operations in parts that a request has room for.
fn parted(work: Vec<Op>, chroot: &str) -> Vec<Vec<Op>> {
    let mut parts: Vec<Vec<Op>> = Vec::new();
    let mut size = usize::MAX;
    for op in work {
        let more = op.size(chroot);
        if size.saturating_add(more) > PART || parts.last().is_none_or(|part| part.len() >= MOST) {
            parts.push(Vec::new());
            size = 0;
        }
        size += more;
        if let Some(part) = parts.last_mut() {
            part.push(op);
        }
    }
    parts
}

fn part(plan: &str, n: usize) -> String {
    format!("{plan}/{n:06}")
}

/// The mark in the text of a gate; `None` if the gate is closed. An open gate says nothing else.
pub(super) fn mark_of(text: &str) -> Option<Result<Option<Mark>>> {
    if text.is_empty() {
        return Some(Ok(None));
    }
    text.starts_with('{').then(|| Mark::parse(text).map(Some))
}

/// What a closed gate says.
fn state(plan: &str, parts: usize, next: usize) -> String {
    format!("{plan} {parts} {next}")
}

fn parse(text: &str) -> Option<(&str, usize, usize)> {
    let mut fields = text.split(' ');
    Some((fields.next()?, fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::{MOST, Op, PART, parse, parted, state};

    #[test]
    fn parts_are_short_enough_and_nothing_is_left_out() {
        let long = "x".repeat(60_000);
        let work: Vec<Op> = (0..30).map(|n| Op::create(format!("/{n}"), long.clone())).collect();
        let parts = parted(work.clone(), "/regatta");
        assert!(parts.iter().all(|part| part.iter().map(|op| op.size("/regatta")).sum::<usize>() <= PART));
        assert_eq!(parts.concat(), work);
        let many: Vec<Op> = (0..2 * MOST + 1).map(|n| Op::delete(format!("/{n}"), -1)).collect();
        assert_eq!(parted(many, "").len(), 3);
        assert!(parted(Vec::new(), "").is_empty());
    }

    #[test]
    fn a_closed_gate_says_which_plan_and_which_part() {
        assert_eq!(parse(&state("/plans/x", 7, 3)), Some(("/plans/x", 7, 3)));
        assert_eq!(parse("?"), None);
    }
}
