//! Wake-ups: of this handle, and of others through the ensemble.
//!
//! A transaction that concerns others rings: it writes a node below `/bell`, which all who listen watch. Each listener
//! has nodes of its own, so that it recognises what it has rung itself; they disappear with its client. Watches are
//! hints: they are laid again after every reconnect, because the client does not send them again, and then everyone is
//! woken.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use zookeeper_client::{AddWatchMode, Client, CreateMode, Error, EventType, PersistentWatcher, SessionState};

use super::failure::failed;
use super::link::Link;
use super::paths::BELL;
use crate::Result;

/// The pause before the listener connects again.
const AGAIN: Duration = Duration::from_millis(500);

/// Rings for everybody: for handles without a listener.
const ANYBODY: &str = "any";

/// What a ring is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    /// Anything that engines look at.
    General,
    /// Documents.
    Documents,
}

impl News {
    fn node(self, of: &str) -> String {
        let letter = match self {
            News::General => 'g',
            News::Documents => 'd',
        };
        format!("{BELL}/{letter}~{of}")
    }

    /// What is rung by this node, and for whom.
    fn of(path: &str) -> Option<(Self, &str)> {
        let (letter, of) = path.strip_prefix(BELL)?.strip_prefix('/')?.split_once('~')?;
        match letter {
            "g" => Some((News::General, of)),
            "d" => Some((News::Documents, of)),
            _ => None,
        }
    }
}

/// The nodes that every store has.
pub(super) fn common_nodes() -> [String; 2] {
    [News::General.node(ANYBODY), News::Documents.node(ANYBODY)]
}

/// The nodes that a long plan has to write. Another process may finish the plan after this handle's own nodes have
/// disappeared, so it rings only those that stay.
pub(super) fn lasting_nodes(is_loud: bool, has_documents: bool) -> Vec<String> {
    wanted(is_loud, has_documents, ANYBODY)
}

fn wanted(is_loud: bool, has_documents: bool, of: &str) -> Vec<String> {
    let wanted = [(is_loud, News::General), (has_documents, News::Documents)];
    wanted.into_iter().filter(|(is_wanted, _)| *is_wanted).map(|(_, news)| news.node(of)).collect()
}

/// A node of this client that rings for nobody, and disappears with it: its creation says the ensemble's time.
pub(super) fn silent_node(client: &Client) -> String {
    format!("{BELL}/t~{:x}", client.session_id().0)
}

/// Whether this is a node that rings.
pub(super) fn is_node(path: &str) -> bool {
    News::of(path).is_some()
}

pub(super) struct Bell {
    changed: watch::Sender<u64>,
    documents: watch::Sender<u64>,
    /// The name of this handle's own nodes, while it listens.
    own: Mutex<Option<String>>,
    /// Started by the first subscriber.
    listener: Mutex<Option<JoinHandle<()>>>,
}

impl Bell {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            changed: watch::Sender::new(0),
            documents: watch::Sender::new(0),
            own: Mutex::default(),
            listener: Mutex::default(),
        })
    }

    /// Wakes everyone in this process who waits for such news.
    pub(super) fn wake(&self, news: News) {
        match news {
            News::General => self.changed.send_modify(|n| *n += 1),
            News::Documents => self.documents.send_modify(|n| *n += 1),
        }
    }

    /// The nodes that a transaction has to write.
    pub(super) fn nodes(&self, is_loud: bool, has_documents: bool) -> Vec<String> {
        let own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        wanted(is_loud, has_documents, own.as_deref().unwrap_or(ANYBODY))
    }

    /// Its own nodes are gone: it rings for everybody, itself included, until it listens again.
    pub(super) fn lost_its_nodes(&self) {
        self.owns(None);
    }

    fn owns(&self, name: Option<String>) {
        *self.own.lock().unwrap_or_else(PoisonError::into_inner) = name;
    }

    /// Wakes on every change from now on.
    pub(super) fn subscribe(self: &Arc<Self>, link: &Arc<Link>) -> watch::Receiver<u64> {
        self.listen(link);
        self.changed.subscribe()
    }

    /// Wakes on every change of a document from now on.
    pub(super) fn subscribe_documents(self: &Arc<Self>, link: &Arc<Link>) -> watch::Receiver<u64> {
        self.listen(link);
        self.documents.subscribe()
    }

    fn listen(self: &Arc<Self>, link: &Arc<Link>) {
        let mut listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner);
        if listener.is_none() {
            *listener = Some(tokio::spawn(listen(Arc::clone(self), Arc::clone(link))));
        }
    }

    /// Ends the listener.
    pub(super) fn stop(&self) {
        if let Some(listener) = self.listener.lock().unwrap_or_else(PoisonError::into_inner).take() {
            listener.abort();
        }
    }
}

/// Listens for ever. After each connect everyone is woken: rings may have been missed.
async fn listen(bell: Arc<Bell>, link: Arc<Link>) {
    loop {
        if let Ok((mut watcher, own)) = link.within(lay(&link)).await {
            bell.owns(Some(own.clone()));
            bell.wake(News::General);
            bell.wake(News::Documents);
            if hear(&bell, &mut watcher, &own).await {
                continue;
            }
        }
        bell.owns(None);
        tokio::time::sleep(AGAIN.mul_f64(0.2 + 0.8 * crate::rules::ledger::a_fraction())).await;
    }
}

/// Passes on what is rung, until the watch has to be laid again. Returns whether the client is connected.
async fn hear(bell: &Bell, watcher: &mut PersistentWatcher, own: &str) -> bool {
    loop {
        let event = watcher.changed().await;
        match event.event_type {
            EventType::Session => match event.session_state {
                SessionState::SyncConnected => return true,
                state if state.is_terminated() => return false,
                _ => {}
            },
            EventType::NodeDataChanged => {
                if let Some((news, _)) = News::of(&event.path).filter(|(_, of)| *of != own) {
                    bell.wake(news);
                }
            }
            _ => {}
        }
    }
}

/// Creates this client's own nodes, and watches all.
async fn lay(link: &Link) -> Result<(PersistentWatcher, String)> {
    let client: Client = link.client().await?;
    let own = format!("{:x}", client.session_id().0);
    let options = CreateMode::Ephemeral.with_acls(link.acls());
    for news in [News::General, News::Documents] {
        match client.create(&news.node(&own), b"", &options).await {
            // Of this very client, before it reconnected.
            Ok(_) | Err(Error::NodeExists) => {}
            Err(error) => return Err(failed(error)),
        }
    }
    let watcher = client.watch(BELL, AddWatchMode::PersistentRecursive).await.map_err(failed)?;
    Ok((watcher, own))
}
