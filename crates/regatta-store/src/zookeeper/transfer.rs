//! The whole store as lines, and lines back into its nodes.

use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::mpsc;
use zookeeper_client::{Client, Error};

use super::export::{self, Lines};
use super::failure::failed;
use super::import::Import;
use super::link::{Gate, Link};
use super::ops::{self, ANY, Op, Outcome};
use super::paths::{self, DIRECTORIES, EVENTS, GATE};
use super::snapshot::{Scope, Snapshot, below};
use super::{ZookeeperStore, commit, see};
use crate::rules;
use crate::rules::record::{Counter, Key};
use crate::transfer::{Cell, Kind, Line, Mark, Pages, Place, Transfer, derived};
use crate::{Result, StoreError};

/// Lines of a page.
const PAGE: usize = 500;

/// How many events are read at once.
const EVENTS_AT_ONCE: u64 = 2000;

/// A page ends after this many bytes.
const PAGE_BYTES: usize = 1 << 20;

/// How many nodes are deleted at once.
const DELETED: usize = 1000;

/// How often the mark is tried to be set while long plans are carried out.
const TRIES: usize = 20;

/// The sender of pages.
type Out = mpsc::Sender<Result<Vec<Line>>>;

#[async_trait]
impl Transfer for ZookeeperStore {
    fn address(&self) -> String {
        self.link.address.whole()
    }

    async fn mark(&self) -> Result<Option<Mark>> {
        self.link.within(self.link.settle()).await?;
        Ok(self.link.gate().mark)
    }

    async fn set_mark(&self, before: Option<&Mark>, mark: Option<&Mark>) -> Result<()> {
        self.link.within(set_mark(&self.link, before, mark)).await
    }

    async fn export(&self, from: Place) -> Result<Pages> {
        let (send, pages) = mpsc::channel(4);
        let link = self.apart();
        tokio::spawn(async move {
            if let Err(error) = export(&link, from, &send).await {
                // A caller that is gone needs no answer.
                let _ = send.send(Err(error)).await;
            }
        });
        Ok(pages)
    }

    async fn import(&self, lines: Vec<Line>, before: &Mark, after: &Mark) -> Result<()> {
        let imported = import_all(&self.link, &lines, before, after).await;
        if imported.is_err() {
            // How far it came is known again before the next step.
            let _known_later = self.link.within(self.link.settle()).await;
        }
        imported
    }

    async fn clear(&self) -> Result<()> {
        clear(&self.link).await
    }

    async fn damage(&self) -> Result<Vec<String>> {
        export::at_odds(&Snapshot::take(&self.apart(), Scope::Entries).await?)
    }

    async fn raise_era(&self) -> Result<u64> {
        self.write(&rules::era::raise()).await
    }
}

impl ZookeeperStore {
    /// A connection for reading everything: its watch ends with it, and nobody waits for what it reads.
    fn apart(&self) -> Arc<Link> {
        Link::new(self.link.address.clone())
    }
}

fn another_copies() -> StoreError {
    StoreError::Conflict("another process copies this store at the same time".into())
}

/// Replaces the mark. From then on the gate has another version, so no transaction that began before can succeed.
async fn set_mark(link: &Link, before: Option<&Mark>, mark: Option<&Mark>) -> Result<()> {
    let client = link.client().await?;
    for _ in 0..TRIES {
        link.settle().await?;
        let gate = link.gate();
        if gate.mark.as_ref() != before {
            return Err(another_copies());
        }
        let text = mark.map_or_else(String::new, Mark::to_json);
        match ops::carry_out(&client, link.acls(), &[Op::set(GATE, text, gate.version)]).await? {
            Outcome::Done => return link.settle().await,
            // A long plan was faster, or another process that copies.
            Outcome::Failed(_, Error::BadVersion) => {}
            Outcome::Failed(_, error) => return Err(failed(error)),
        }
    }
    Err(super::look::overtaken())
}

async fn export(link: &Link, from: Place, out: &Out) -> Result<()> {
    let snapshot = Snapshot::take(link, Scope::Records).await?;
    let lines = Lines::new(&snapshot)?;
    for kind in Kind::ALL.into_iter().filter(|kind| *kind >= from.kind) {
        let skipped = if kind == from.kind { from.done } else { 0 };
        let is_heard = if kind == Kind::Event {
            send_events(link, skipped, snapshot.last_event, out).await?
        } else {
            send(lines.of(kind)?, skipped, out).await
        };
        if !is_heard {
            return Ok(());
        }
    }
    Ok(())
}

/// Returns whether the caller still listens.
async fn send(lines: Vec<Line>, skipped: u64, out: &Out) -> bool {
    let (mut page, mut size) = (Vec::new(), 0);
    for line in lines.into_iter().skip(usize::try_from(skipped).unwrap_or(usize::MAX)) {
        size += length(&line);
        page.push(line);
        if page.len() == PAGE || size >= PAGE_BYTES {
            size = 0;
            if out.send(Ok(std::mem::take(&mut page))).await.is_err() {
                return false;
            }
        }
    }
    page.is_empty() || out.send(Ok(page)).await.is_ok()
}

/// The length of a line's texts.
fn length(line: &Line) -> usize {
    let text = |cell: &Cell| if let Cell::Text(text) = cell { text.len() } else { 0 };
    line.cells().iter().map(text).sum()
}

/// Events are never changed, so they can be read after the rest.
async fn send_events(link: &Link, skipped: u64, last: u64, out: &Out) -> Result<bool> {
    let mut next = skipped + 1;
    while next <= last {
        let until = last.min(next + EVENTS_AT_ONCE - 1);
        let lines = see!(link, look => export::events(&look, next..=until))?;
        if !send(lines, 0, out).await {
            return Ok(false);
        }
        next = until + 1;
    }
    Ok(true)
}

/// Adds lines, as many at a time as the time limit of a call has room for.
async fn import_all(link: &Link, lines: &[Line], before: &Mark, after: &Mark) -> Result<()> {
    let Mark::Copying { from, kind, done } = after else {
        return link.within(set_mark(link, Some(before), Some(after))).await;
    };
    let client = link.within(link.client()).await?;
    let mut done = done.saturating_sub(u64::try_from(lines.len()).unwrap_or(u64::MAX));
    let mut before = before.clone();
    let mut rest = lines;
    while !rest.is_empty() {
        let mut size = 0;
        let is_enough = |line: &Line| {
            size += length(line);
            size >= PAGE_BYTES
        };
        let count = rest.iter().position(is_enough).map_or(rest.len(), |n| n + 1);
        let (some, more) = rest.split_at(count);
        let so_far = done + u64::try_from(count).unwrap_or(u64::MAX);
        let after = Mark::Copying { from: from.clone(), kind: *kind, done: so_far };
        link.within(import(link, &client, some, &before, &after, (*kind, done))).await?;
        (before, done, rest) = (after, so_far, more);
    }
    Ok(())
}

/// Adds lines of a kind, of which `done` are there already.
async fn import(
    link: &Link,
    client: &Client,
    lines: &[Line],
    before: &Mark,
    after: &Mark,
    (kind, done): (Kind, u64),
) -> Result<()> {
    if link.gate().mark.as_ref() != Some(before) {
        link.settle().await?;
    }
    let Gate { version, mark } = link.gate();
    if mark.as_ref() != Some(before) {
        return Err(another_copies());
    }
    let mut import = Import::of(link, lines).await?;
    link.make(client, std::mem::take(&mut import.directories)).await?;
    commit::keep(link, client, std::mem::take(&mut import.pieces)).await?;
    let mut so_far = done;
    let mut sent = Vec::new();
    let steps = import.steps(&link.address.chroot);
    let mut next = version;
    // All are sent at once, and carried out in this order; each rests on the one before.
    for step in steps {
        so_far += step.lines;
        let mut mark = after.clone();
        if let Mark::Copying { done, .. } = &mut mark {
            *done = so_far;
        }
        let mut work = vec![Op::set(GATE, mark.to_json(), next)];
        work.extend(step.work);
        sent.push(ops::send(client, link.acls(), &work)?);
        next += 1;
    }
    for step in sent {
        match step.await?.0 {
            Outcome::Done => {}
            Outcome::Failed(0, Error::BadVersion) => return Err(another_copies()),
            Outcome::Failed(_, Error::NodeExists) => {
                return Err(StoreError::Invalid(format!("a {kind} is there twice")));
            }
            Outcome::Failed(_, Error::NoNode) if kind == Kind::Counters => {
                return Err(StoreError::Invalid(
                    "the last event is missing; `regatta store check` lists what is wrong with the store"
                        .into(),
                ));
            }
            Outcome::Failed(_, Error::NoNode) => return Err(derived::no_task(kind)),
            Outcome::Failed(_, error) => return Err(failed(error)),
        }
    }
    link.saw_gate(next, Some(after.clone()));
    Ok(())
}

/// Removes every record and every entry, but no directory: others know them to exist.
async fn clear(link: &Link) -> Result<()> {
    let client = link.client().await?;
    link.within(link.settle()).await?;
    let gate = link.gate();
    let last = {
        let (_, stat) = link.within(async { client.get_data(EVENTS).await.map_err(failed) }).await?;
        super::events::last(&stat)
    };
    let mut first = 1;
    while first <= last {
        let until = last.min(first + DELETED as u64 - 1);
        delete(link, &client, gate.version, (first..=until).map(paths::event).collect()).await?;
        first = until + 1;
    }
    // A directory that is created again counts from its beginning.
    let again = [Op::check(GATE, gate.version), Op::delete(EVENTS, ANY), Op::create(EVENTS, "")];
    match link.within(ops::carry_out(&client, link.acls(), &again)).await? {
        Outcome::Done => {}
        Outcome::Failed(0, _) => return Err(another_copies()),
        Outcome::Failed(_, error) => return Err(failed(error)),
    }
    let counters = [Counter::Tasks, Counter::Messages, Counter::Turns];
    let mut single: Vec<String> =
        counters.into_iter().map(|counter| paths::record(&Key::Counter(counter))).collect();
    single.extend([paths::STARTS.into(), paths::record(&Key::Crew), paths::CHANGES_BEFORE.into()]);
    delete(link, &client, gate.version, single).await?;
    for directory in
        DIRECTORIES.into_iter().filter(|directory| ![EVENTS, paths::BELL, paths::PLANS].contains(directory))
    {
        let found = below(link, vec![directory.to_owned()]).await?;
        match directory {
            // A task's parts before the task.
            "/t" => {
                for page in found.chunks(DELETED) {
                    let parts = below(link, page.to_vec()).await?;
                    delete(link, &client, gate.version, parts).await?;
                    delete(link, &client, gate.version, page.to_vec()).await?;
                }
            }
            paths::QUEUES => {
                let parts = below(link, found).await?;
                let (states, lists): (Vec<_>, Vec<_>) =
                    parts.into_iter().partition(|part| part.ends_with("/s"));
                delete(link, &client, gate.version, below(link, lists).await?).await?;
                let states = below(link, states).await?;
                delete(link, &client, gate.version, below(link, states).await?).await?;
            }
            paths::SPENT | "/cars" | "/passes" | "/inbox" | "/documents" => {
                delete(link, &client, gate.version, below(link, found).await?).await?;
            }
            _ => delete(link, &client, gate.version, found).await?,
        }
    }
    link.start_over();
    Ok(())
}

/// Deletes nodes, as far as they exist, while the gate stays in this version.
async fn delete(link: &Link, client: &Client, gate: i32, nodes: Vec<String>) -> Result<()> {
    for page in nodes.chunks(DELETED) {
        let mut left: Vec<&String> = page.iter().collect();
        loop {
            let mut work = vec![Op::check(GATE, gate)];
            work.extend(left.iter().map(|node| Op::delete(node.as_str(), ANY)));
            match link.within(ops::carry_out(client, link.acls(), &work)).await? {
                Outcome::Done => break,
                Outcome::Failed(0, _) => return Err(another_copies()),
                // Deleted by a process that was cut off.
                Outcome::Failed(n, Error::NoNode) => drop(left.remove(n - 1)),
                Outcome::Failed(_, error) => return Err(failed(error)),
            }
        }
    }
    Ok(())
}
