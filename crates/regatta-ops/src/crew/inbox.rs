//! Reads inboxes: no message is lost, and none is shown as new twice.

use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use regatta_core::crew::MemberName;
use regatta_engine::clock;
use regatta_store::{InboxQuery, Mark, Message, Store, StoreError};
use tokio::time::Instant;

use super::messages::no_message;
use super::{Crew, Speaker};
use crate::changes::StoreChanges;
use crate::project::Project;
use crate::refusal::Refusal;

/// How often a waiting reader looks without a wake-up; a message wakes it earlier.
const INBOX_INTERVAL: Duration = Duration::from_secs(5);

/// Selects messages of an inbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboxRequest {
    /// The owner of the inbox.
    pub reader: MemberName,
    /// Include messages that were shown before.
    pub all: bool,
    /// Only messages from this member.
    pub from: Option<MemberName>,
    /// Only answers to this message.
    pub reply_to: Option<u64>,
    /// At most this many, oldest first.
    pub limit: usize,
}

impl InboxRequest {
    /// All new messages of a reader.
    pub fn new(reader: MemberName) -> Self {
        Self { reader, all: false, from: None, reply_to: None, limit: InboxQuery::default().limit }
    }

    fn is_it(&self, message: &Message) -> bool {
        self.from.as_ref().is_none_or(|name| name.is(&message.from))
            && self.reply_to.is_none_or(|id| message.reply_to == Some(id))
    }

    fn query(&self) -> InboxQuery {
        InboxQuery { unread: !self.all, limit: self.limit, ..InboxQuery::default() }
    }
}

/// A request to wait for messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitRequest {
    /// Which messages.
    pub inbox: InboxRequest,
    /// When to give up.
    pub until: Option<Instant>,
    /// Whether waiting counts as a heartbeat of the reader.
    pub keeps_there: bool,
}

/// Messages that were read but not yet marked: after showing them, call [`Letters::shown`]. Until then, or until this
/// is dropped, no other process reads the inbox. Messages that were shown but not marked are shown again, so none is
/// lost.
pub struct Letters {
    /// The messages, oldest first.
    pub messages: Vec<Message>,
    reader: MemberName,
    store: Arc<dyn Store>,
    /// The lock of the inbox, which a crash releases too.
    _turn: Option<File>,
}

impl Letters {
    /// Marks the new messages as read.
    pub async fn shown(self) -> Result<Vec<Message>, Refusal> {
        let is_new = |message: &&Message| message.read_at.is_none();
        let new: Vec<u64> = self.messages.iter().filter(is_new).map(|message| message.id).collect();
        if !new.is_empty() {
            self.store.mark(&self.reader, &new, Mark::Read, clock::now()).await?;
        }
        Ok(self.messages)
    }
}

/// Which messages to mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Which {
    /// By number.
    Numbers(Vec<u64>),
    /// Every message that was shown.
    Shown,
}

/// A request to mark messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkRequest {
    /// The owner of the inbox.
    pub who: Speaker,
    /// Which messages.
    pub which: Which,
    pub mark: Mark,
}

impl Crew {
    /// The owner of the inbox.
    pub async fn reader(&self, who: &Speaker) -> Result<MemberName, Refusal> {
        who.reader(self.store()).await
    }

    /// Reads messages. New ones stay new until they are marked.
    pub async fn inbox(&self, request: &InboxRequest) -> Result<Letters, Refusal> {
        let turn = turn(&self.project, &request.reader).await?;
        let mut messages = self.store.inbox(&request.reader, &request.query()).await?;
        messages.retain(|message| request.is_it(message));
        Ok(self.letters(&request.reader, messages, Some(turn)))
    }

    /// Reads messages by number.
    pub async fn read(&self, who: &Speaker, ids: &[u64]) -> Result<Letters, Refusal> {
        let reader = self.reader(who).await?;
        let mut messages = self.store.inbox(&reader, &InboxQuery::default()).await?;
        if let Some(id) = ids.iter().find(|id| !messages.iter().any(|message| message.id == **id)) {
            return Err(no_message(*id, &reader));
        }
        messages.retain(|message| ids.contains(&message.id));
        Ok(self.letters(&reader, messages, None))
    }

    fn letters(&self, reader: &MemberName, messages: Vec<Message>, turn: Option<File>) -> Letters {
        Letters { messages, reader: reader.clone(), store: self.store.clone(), _turn: turn }
    }

    /// New messages, if any; does not wait for the inbox if there are none.
    pub async fn new_letters(&self, request: &InboxRequest) -> Result<Option<Letters>, Refusal> {
        let found = self.store.inbox(&request.reader, &request.query()).await?;
        if !found.iter().any(|message| request.is_it(message)) {
            return Ok(None);
        }
        let letters = self.inbox(request).await?;
        Ok(Some(letters).filter(|letters| !letters.messages.is_empty()))
    }

    /// Waits for messages; `None` if the time is over.
    pub async fn wait_for_letters(&self, request: &WaitRequest) -> Result<Option<Letters>, Refusal> {
        let mut changes = StoreChanges::of(self.store.as_ref()).await?;
        loop {
            if let Some(letters) = self.new_letters(&request.inbox).await? {
                return Ok(Some(letters));
            }
            let left = request.until.map(|until| until.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(None);
            }
            if request.keeps_there {
                self.heard(&request.inbox.reader).await;
            }
            changes.next_within(left.unwrap_or(INBOX_INTERVAL).min(INBOX_INTERVAL)).await?;
        }
    }

    /// Marks messages, and returns their numbers.
    pub async fn mark(&self, request: MarkRequest) -> Result<Vec<u64>, Refusal> {
        let reader = self.reader(&request.who).await?;
        let ids = match request.which {
            Which::Numbers(ids) => ids,
            Which::Shown => {
                let all = self.store.inbox(&reader, &InboxQuery::default()).await?;
                all.iter().filter(|message| message.read_at.is_some()).map(|message| message.id).collect()
            }
        };
        let marked = self.store.mark(&reader, &ids, request.mark, clock::now()).await;
        marked.map_err(|error| match error {
            StoreError::NotFound(what) => Refusal::not_found(format!("there is no {what}"))
                .hinted("`regatta msg inbox --all` shows all messages"),
            error => error.into(),
        })?;
        Ok(ids)
    }
}

/// The lock for showing a member's inbox and marking what was shown: one process at a time.
async fn turn(project: &Project, name: &MemberName) -> Result<File, Refusal> {
    let dir = project.repo.state_dir.join("inboxes");
    project.make_state_dir_once()?;
    std::fs::create_dir_all(&dir).map_err(|error| Refusal::io("making", &dir, &error))?;
    let path = dir.join(format!("{}.lock", name.folded()));
    let locked = tokio::task::spawn_blocking(move || {
        let file = File::options().create(true).truncate(false).write(true).open(&path);
        let locked = file.and_then(|file| file.lock().map(|()| file));
        locked.map_err(|error| Refusal::io("locking", &path, &error))
    });
    locked.await.expect("locking does not panic")
}
