//! Reading an inbox: nothing is lost, and nothing is shown as new twice.

use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use regatta_core::crew::MemberName;
use regatta_engine::clock;
use regatta_store::{InboxQuery, Mark, Message, Store, StoreError};
use tokio::time::Instant;

use super::messages::no_message;
use super::{Crew, Speaker, deaf};
use crate::project::Project;
use crate::refusal::Refusal;

/// Who waits looks by itself this often; a message wakes it before.
const LOOK: Duration = Duration::from_secs(5);

/// Which messages of an inbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboxRequest {
    /// Whose.
    pub reader: MemberName,
    /// Those that were shown before, too.
    pub all: bool,
    /// Only from this one.
    pub from: Option<MemberName>,
    /// Only answers to this message.
    pub reply_to: Option<u64>,
    /// At most this many, the oldest.
    pub limit: usize,
}

impl InboxRequest {
    /// All that is new for a reader.
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

/// Messages to wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitRequest {
    /// Which.
    pub inbox: InboxRequest,
    /// No longer than this.
    pub until: Option<Instant>,
    /// The reader stays in the crew by waiting.
    pub keeps_there: bool,
}

/// Messages that were read, and not yet marked: who shows them calls [`Letters::shown`] afterwards. Until then, or until they
/// are dropped, no other process reads this inbox. What was shown and not marked is shown again, so nothing is lost.
pub struct Letters {
    /// The messages, the oldest first.
    pub messages: Vec<Message>,
    reader: MemberName,
    store: Arc<dyn Store>,
    /// Given back by a crash too.
    _turn: Option<File>,
}

impl Letters {
    /// Marks those that were new as read.
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
    /// These, by their numbers.
    Numbers(Vec<u64>),
    /// Every message that was shown.
    Shown,
}

/// Messages to mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkRequest {
    /// In whose inbox.
    pub who: Speaker,
    /// Which.
    pub which: Which,
    /// As what.
    pub mark: Mark,
}

impl Crew {
    /// Whose inbox is meant.
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

    /// Reads messages by their numbers.
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

    /// New messages if there are any; nobody is held up where there are none.
    pub async fn new_letters(&self, request: &InboxRequest) -> Result<Option<Letters>, Refusal> {
        let found = self.store.inbox(&request.reader, &request.query()).await?;
        if !found.iter().any(|message| request.is_it(message)) {
            return Ok(None);
        }
        let letters = self.inbox(request).await?;
        Ok(Some(letters).filter(|letters| !letters.messages.is_empty()))
    }

    /// Messages as soon as there are some; `None` if the time is over.
    pub async fn wait_for_letters(&self, request: &WaitRequest) -> Result<Option<Letters>, Refusal> {
        let mut changes = self.store.subscribe().await?;
        loop {
            changes.borrow_and_update();
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
            tokio::select! {
                more = changes.changed() => if more.is_err() {
                    return Err(deaf());
                },
                () = tokio::time::sleep(left.unwrap_or(LOOK).min(LOOK)) => {}
            }
        }
    }

    /// Marks messages, and says which.
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
                .hinted("`regatta msg inbox --all` shows what there is"),
            error => error.into(),
        })?;
        Ok(ids)
    }
}

/// The right to show the inbox of a member and mark what was shown: one process at a time.
async fn turn(project: &Project, name: &MemberName) -> Result<File, Refusal> {
    let dir = project.repo.state_dir.join("inboxes");
    std::fs::create_dir_all(&dir).map_err(|error| Refusal::io("making", &dir, &error))?;
    let path = dir.join(format!("{}.lock", name.folded()));
    let locked = tokio::task::spawn_blocking(move || {
        let file = File::options().create(true).truncate(false).write(true).open(&path);
        let locked = file.and_then(|file| file.lock().map(|()| file));
        locked.map_err(|error| Refusal::io("locking", &path, &error))
    });
    locked.await.expect("locking does not panic")
}
