//! The whole store at one moment.
//!
//! ZooKeeper reads node by node, while others may write. So a watch over the whole store is laid first; then everything
//! is read; then what the watch has reported meanwhile is read again, until nothing was reported during a whole
//! exchange. Events are not part of it: they never change, so their number is enough.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use zookeeper_client::{AddWatchMode, EventType, PersistentWatcher};

use super::failure::failed;
use super::link::Link;
use super::look::{Answer, Ask, Look, Seeing};
use super::paths::{self, EVENTS, HELD, OPEN, QUEUES, REQUESTS, STARTS};
use super::{events, see};
use crate::rules::record::{Counter, Key};
use crate::{Result, StoreError};

/// How many nodes are read at once.
const PAGE: usize = 500;

/// How often the whole is read before giving up: each time the connection was lost.
const TRIES: usize = 5;

/// How often what has changed is read again.
const ROUNDS: usize = 2000;

/// Directories of records.
const FLAT: [&str; 8] =
    ["/sessions", "/beats", "/roles", "/members", "/accounts", "/context", "/written", "/messages"];

/// Directories of directories of records.
const DEEP: [&str; 3] = ["/inbox", "/documents", "/passes"];

const TASKS: &str = "/t";
const CARS: &str = "/cars";

/// What is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// The records.
    Records,
    /// The records, and the entries by which they are found.
    Entries,
}

/// A node.
#[derive(Clone, Debug, Default)]
pub(super) struct Node {
    /// Its text; nothing where its name says all.
    pub(super) text: String,
    /// The transaction that created it.
    pub(super) created: i64,
    /// The transaction that wrote it last.
    pub(super) changed: i64,
}

/// The nodes of a store by their paths.
#[derive(Debug, Default)]
pub(super) struct Snapshot {
    nodes: BTreeMap<String, Node>,
    /// The number of the last event.
    pub(super) last_event: u64,
}

impl Snapshot {
    /// Reads the store.
    pub(super) async fn take(link: &Link, scope: Scope) -> Result<Self> {
        for _ in 0..TRIES {
            if let Some(snapshot) = Self::attempt(link, scope).await? {
                return Ok(snapshot);
            }
        }
        Err(StoreError::Unavailable(format!(
            "the connection to {} was lost {TRIES} times while everything was read",
            link.address.shown()
        )))
    }

    /// `None` if the connection was lost: some changes may not have been reported.
    async fn attempt(link: &Link, scope: Scope) -> Result<Option<Self>> {
        let client = link.client().await?;
        let watching = client.watch("/", AddWatchMode::PersistentRecursive);
        let mut watcher = link.within(async { watching.await.map_err(failed) }).await?;
        let mut snapshot = Self::default();
        snapshot.read_all(link, scope).await?;
        for _ in 0..ROUNDS {
            // Finishes a long plan that is half carried out.
            let stat = link.within(async {
                link.settle().await?;
                client.get_data(EVENTS).await.map_err(failed)
            });
            let (_, stat) = stat.await?;
            let Some(changed) = reported(&mut watcher) else { return Ok(None) };
            if changed.is_empty() {
                snapshot.last_event = events::last(&stat);
                return Ok(Some(snapshot));
            }
            snapshot.read_again(link, scope, changed).await?;
        }
        Err(StoreError::Unavailable(format!(
            "{} changes faster than it can be read; try again when fewer tasks run",
            link.address.shown()
        )))
    }

    async fn read_all(&mut self, link: &Link, scope: Scope) -> Result<()> {
        let counters = [Counter::Tasks, Counter::Messages, Counter::Turns];
        let mut single: Vec<String> =
            counters.into_iter().map(|counter| paths::record(&Key::Counter(counter))).collect();
        single.extend([STARTS.to_owned(), paths::CHANGES_BEFORE.to_owned()]);
        self.read(link, scope, single).await?;
        for directory in FLAT {
            let found = below(link, vec![directory.to_owned()]).await?;
            self.read(link, scope, found).await?;
        }
        for directory in DEEP {
            let directories = below(link, vec![directory.to_owned()]).await?;
            let found = below(link, directories).await?;
            self.read(link, scope, found).await?;
        }
        let tasks = below(link, vec![TASKS.to_owned()]).await?;
        for page in tasks.chunks(PAGE) {
            self.read(link, scope, page.to_vec()).await?;
            let found = below(link, page.to_vec()).await?;
            self.read(link, scope, found).await?;
        }
        self.add_names(below(link, vec![REQUESTS.to_owned()]).await?);
        if scope == Scope::Entries {
            self.add_names(below(link, vec![HELD.to_owned(), OPEN.to_owned()]).await?);
            let targets = below(link, vec![CARS.to_owned()]).await?;
            self.add_names(below(link, targets).await?);
            let parts = below(link, below(link, vec![QUEUES.to_owned()]).await?).await?;
            let (states, lists): (Vec<_>, Vec<_>) = parts.into_iter().partition(|part| part.ends_with("/s"));
            self.add_names(below(link, lists).await?);
            self.add_names(below(link, below(link, states).await?).await?);
        }
        Ok(())
    }

    fn add_names(&mut self, found: Vec<String>) {
        self.nodes.extend(found.into_iter().map(|path| (path, Node::default())));
    }

    /// Reads these nodes, as far as they are wanted.
    async fn read(&mut self, link: &Link, scope: Scope, mut found: Vec<String>) -> Result<()> {
        found.retain(|path| {
            let wanted = wanted(path, scope);
            if wanted == Wanted::Name {
                self.nodes.insert(path.clone(), Node::default());
            }
            wanted == Wanted::Text
        });
        for page in found.chunks(PAGE) {
            let asks: Vec<Ask> = page.iter().cloned().map(Ask::Data).collect();
            let answers = see!(link, look => read(&look, &asks))?;
            for (path, answer) in page.iter().zip(answers) {
                self.put(path, answer);
            }
        }
        Ok(())
    }

    /// Reads nodes again that were changed, created or deleted.
    async fn read_again(&mut self, link: &Link, scope: Scope, changed: BTreeSet<String>) -> Result<()> {
        let changed: Vec<String> =
            changed.into_iter().filter(|path| wanted(path, scope) != Wanted::Nothing).collect();
        for page in changed.chunks(PAGE) {
            let asks: Vec<Ask> = page.iter().cloned().map(Ask::Data).collect();
            let answers = see!(link, look => read(&look, &asks))?;
            for (path, answer) in page.iter().zip(answers) {
                self.put(path, answer);
            }
        }
        Ok(())
    }

    fn put(&mut self, path: &str, answer: Answer) {
        match answer.data() {
            Some((text, stat)) => {
                let node = Node { text, created: stat.czxid, changed: stat.mzxid };
                self.nodes.insert(path.to_owned(), node);
            }
            None => drop(self.nodes.remove(path)),
        }
    }

    /// A node, if it exists.
    pub(super) fn node(&self, path: &str) -> Option<&Node> {
        self.nodes.get(path)
    }

    /// The nodes below a directory, at any depth, with their names from there on.
    pub(super) fn below<'a>(
        &'a self,
        directory: &str,
    ) -> impl Iterator<Item = (&'a str, &'a Node)> + use<'a> {
        let prefix = format!("{directory}/");
        let length = prefix.len();
        let all = self.nodes.range(prefix.clone()..);
        let all = all.take_while(move |(path, _)| path.starts_with(&prefix));
        all.map(move |(path, node)| (&path[length..], node))
    }

    /// The paths of all nodes.
    pub(super) fn paths(&self) -> impl Iterator<Item = &str> {
        self.nodes.keys().map(String::as_str)
    }
}

async fn read(look: &Look<'_>, asks: &[Ask]) -> Seeing<Vec<Answer>> {
    look.read(asks).await
}

/// The nodes directly below directories.
pub(super) async fn below(link: &Link, directories: Vec<String>) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for page in directories.chunks(PAGE) {
        let asks: Vec<Ask> = page.iter().cloned().map(Ask::Names).collect();
        let answers = see!(link, look => read(&look, &asks))?;
        for (directory, answer) in page.iter().zip(answers) {
            found.extend(answer.names().into_iter().map(|name| format!("{directory}/{name}")));
        }
    }
    Ok(found)
}

/// What has to be known of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    Nothing,
    /// That it exists.
    Name,
    Text,
}

fn wanted(path: &str, scope: Scope) -> Wanted {
    let entries = if scope == Scope::Entries { Wanted::Name } else { Wanted::Nothing };
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    match parts.as_slice() {
        ["t", _] => Wanted::Text,
        ["t", _, part] => match part.chars().next() {
            // Only `brief`, `y1` and `k~task` are no records.
            Some('b' | 'y' | 'k') => entries,
            _ => Wanted::Text,
        },
        ["requests", _] => Wanted::Name,
        ["held" | "open", _] | ["cars", _, _] | ["q", _, "ready" | "timers", _] | ["q", _, "s", _, _] => {
            entries
        }
        [first, _] if FLAT.iter().any(|flat| &flat[1..] == *first) => Wanted::Text,
        [first, _, _] if DEEP.iter().any(|deep| &deep[1..] == *first) => Wanted::Text,
        [single] if single.starts_with("counter-") => Wanted::Text,
        ["starts" | "changes-before"] => Wanted::Text,
        _ => Wanted::Nothing,
    }
}

/// What the watch has reported until now: the nodes that matter, and events. `None` if the connection was lost.
fn reported(watcher: &mut PersistentWatcher) -> Option<BTreeSet<String>> {
    let mut changed = BTreeSet::new();
    let mut nobody = Context::from_waker(Waker::noop());
    loop {
        let event = match pin!(watcher.changed()).poll(&mut nobody) {
            Poll::Ready(event) => event,
            Poll::Pending => return Some(changed),
        };
        if event.event_type == EventType::Session {
            return None;
        }
        let path = event.path.to_string();
        if path.starts_with(EVENTS) || path == paths::GATE || wanted(&path, Scope::Entries) != Wanted::Nothing
        {
            changed.insert(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Scope, Wanted, wanted};

    #[test]
    fn records_are_read_and_entries_only_where_they_are_checked() {
        let both = |path: &str| (wanted(path, Scope::Records), wanted(path, Scope::Entries));
        for record in
            ["/t/a", "/t/a/spec", "/t/a/a12", "/t/a/car", "/t/a/deps", "/roles/r", "/inbox/a/1", "/starts"]
        {
            assert_eq!(both(record), (Wanted::Text, Wanted::Text), "{record}");
        }
        for entry in ["/t/a/brief", "/t/a/y1", "/t/a/k~b", "/held/x", "/q/main/ready/x", "/q/main/s/done/x"] {
            assert_eq!(both(entry), (Wanted::Nothing, Wanted::Name), "{entry}");
        }
        for other in
            ["/gate", "/bell/g~any", "/plans/x/1", "/events/e-0", "/q/main", "/spent/1/x", "/inbox/a"]
        {
            assert_eq!(both(other), (Wanted::Nothing, Wanted::Nothing), "{other}");
        }
        assert_eq!(wanted("/requests/r~k~", Scope::Records), Wanted::Name);
    }
}
