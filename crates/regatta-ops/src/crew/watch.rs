//! Follows the board and the shared context: first as they are, then every change.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use regatta_core::id::TaskId;
use regatta_engine::crew::MemberWatch;
use regatta_store::{ContextEntry, ContextQuery, Store};

use super::Crew;
use crate::changes::StoreChanges;
use crate::documents::crew::{BoardTaskDocument, board};
use crate::refusal::Refusal;

/// How often to check for members who have left.
const MEMBERS_INTERVAL: Duration = Duration::from_secs(1);
/// Time between two looks at the context without a wake-up; a change wakes it earlier.
const CONTEXT_INTERVAL: Duration = Duration::from_secs(5);

impl Crew {
    /// Follows the board.
    pub async fn watch_board(&self) -> Result<BoardWatch, Refusal> {
        Ok(BoardWatch {
            changes: StoreChanges::of(self.store()).await?,
            store: self.store.clone(),
            members: MemberWatch::default(),
            seen: None,
        })
    }

    /// Follows the values with these keys; without keys, all of them.
    pub async fn watch_context(&self, keys: Vec<String>) -> Result<ContextWatch, Refusal> {
        Ok(ContextWatch {
            changes: StoreChanges::of(self.store()).await?,
            store: self.store.clone(),
            seen: ContextSeen::new(keys),
        })
    }
}

/// Follows the board. Members who have left meanwhile lose their tasks.
pub struct BoardWatch {
    store: Arc<dyn Store>,
    changes: StoreChanges,
    members: MemberWatch,
    /// The board as it was last returned.
    seen: Option<HashMap<TaskId, BoardTaskDocument>>,
}

impl BoardWatch {
    /// At first the whole board, which may be empty; then waits for a change, and returns the tasks that changed.
    pub async fn next(&mut self) -> Result<Vec<BoardTaskDocument>, Refusal> {
        loop {
            let is_first = self.seen.is_none();
            if !is_first {
                self.changes.next_within(MEMBERS_INTERVAL).await?;
            }
            let changed = self.look().await?;
            if is_first || !changed.is_empty() {
                return Ok(changed);
            }
        }
    }

    async fn look(&mut self) -> Result<Vec<BoardTaskDocument>, Refusal> {
        self.members.look(self.store.as_ref()).await?;
        let seen = self.seen.get_or_insert_default();
        let mut changed = Vec::new();
        for (_, task) in board(self.store.as_ref(), Vec::new()).await? {
            if seen.get(&task.task.id) != Some(&task) {
                seen.insert(task.task.id.clone(), task.clone());
                changed.push(task);
            }
        }
        Ok(changed)
    }
}

/// Follows values of the shared context. Of several changes of a value at once only the last is returned.
pub struct ContextWatch {
    store: Arc<dyn Store>,
    changes: StoreChanges,
    seen: ContextSeen,
}

impl ContextWatch {
    /// At first the values as they are, possibly none; then waits for a change, and returns the values that changed.
    pub async fn next(&mut self) -> Result<Vec<ContextEntry>, Refusal> {
        loop {
            let after = self.seen.after();
            if after.is_some() {
                self.changes.next_within(CONTEXT_INTERVAL).await?;
            }
            let found = self.store.contexts(&ContextQuery { prefix: String::new(), after }).await?;
            let wanted = self.seen.take(found);
            if after.is_none() || !wanted.is_empty() {
                return Ok(wanted);
            }
        }
    }
}

/// Which changes of the shared context a caller has seen, wherever it gets them from.
#[derive(Clone, Debug, Default)]
pub struct ContextSeen {
    keys: Vec<String>,
    /// The last change, once something was asked for.
    last: Option<u64>,
}

impl ContextSeen {
    /// Nothing yet, of these keys; without keys, of all.
    pub fn new(keys: Vec<String>) -> Self {
        Self { keys, last: None }
    }

    /// The change to ask from; `None` for the values as they are.
    pub fn after(&self) -> Option<u64> {
        self.last
    }

    /// Notes values as seen, and returns those with the wanted keys.
    pub fn take(&mut self, found: Vec<ContextEntry>) -> Vec<ContextEntry> {
        let newest = found.iter().map(|entry| entry.change).max().unwrap_or_default();
        self.last = Some(self.last.unwrap_or_default().max(newest));
        let is_wanted = |entry: &ContextEntry| self.keys.is_empty() || self.keys.contains(&entry.key);
        found.into_iter().filter(is_wanted).collect()
    }
}
