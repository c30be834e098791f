//! Wake-ups: of this handle, and of others through the server.
//!
//! An announcement is sent after its commit and outside of it, because the server takes a lock of all its databases for
//! announcements; and at most every [`PAUSE`]. It is only a hint: engines look by themselves every few seconds.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::connection::Connection;
use super::pool::Pool;
use crate::Result;
use crate::model::random_hex;

/// The shortest time between two announcements of one handle.
const PAUSE: Duration = Duration::from_millis(20);

/// The pause before the listener connects again.
const AGAIN: Duration = Duration::from_millis(500);

/// What an announcement is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    /// Anything that engines look at.
    General,
    /// Documents.
    Documents,
    Both,
}

impl News {
    fn mark(self) -> &'static str {
        match self {
            News::General => "g",
            News::Documents => "d",
            News::Both => "b",
        }
    }

    /// What an announcement of another handle is about; one of another version may be about anything.
    fn of(mark: &str) -> Self {
        match mark {
            "g" => News::General,
            "d" => News::Documents,
            _ => News::Both,
        }
    }
}

pub(super) struct Bell {
    changed: watch::Sender<u64>,
    documents: watch::Sender<u64>,
    schema: String,
    /// Signs announcements, so that this handle is not woken by its own.
    name: String,
    last: Mutex<Option<Instant>>,
    is_late: AtomicBool,
    /// Started by the first subscriber.
    listener: Mutex<Option<JoinHandle<()>>>,
}

impl Bell {
    pub(super) fn new(schema: &str) -> Arc<Self> {
        Arc::new(Self {
            changed: watch::Sender::new(0),
            documents: watch::Sender::new(0),
            schema: schema.to_owned(),
            name: random_hex(),
            last: Mutex::new(None),
            is_late: AtomicBool::new(false),
            listener: Mutex::new(None),
        })
    }

    /// Wakes everyone in this process who waits for such news.
    pub(super) fn wake(&self, news: News) {
        if news != News::Documents {
            self.changed.send_modify(|n| *n += 1);
        }
        if news != News::General {
            self.documents.send_modify(|n| *n += 1);
        }
    }

    /// Whether the last announcement is long enough ago. If so, the caller sends the next one.
    pub(super) fn may_ring(&self) -> bool {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let may = last.is_none_or(|last| last.elapsed() >= PAUSE);
        if may {
            *last = Some(Instant::now());
        }
        may
    }

    /// The statement that wakes all other handles.
    pub(super) fn announcement(&self, news: News) -> String {
        format!("notify {}, '{} {}'", self.schema, self.name, news.mark())
    }

    /// Announces a change once the pause is over, together with others.
    pub(super) fn ring_later(self: &Arc<Self>, pool: &Arc<Pool>) {
        if self.is_late.swap(true, Ordering::AcqRel) {
            return;
        }
        let (bell, pool) = (Arc::clone(self), Arc::clone(pool));
        tokio::spawn(async move {
            tokio::time::sleep(PAUSE).await;
            bell.is_late.store(false, Ordering::Release);
            bell.may_ring();
            let announced = async {
                let db = pool.lease().await?;
                db.keep(db.batch(&bell.announcement(News::Both)).await)
            };
            // Only a hint.
            let _missed = pool.within(announced).await;
        });
    }

    /// Wakes on every change from now on.
    pub(super) fn subscribe(self: &Arc<Self>, pool: &Arc<Pool>) -> watch::Receiver<u64> {
        self.listen(pool);
        self.changed.subscribe()
    }

    /// Wakes on every change of a document from now on.
    pub(super) fn subscribe_documents(self: &Arc<Self>, pool: &Arc<Pool>) -> watch::Receiver<u64> {
        self.listen(pool);
        self.documents.subscribe()
    }

    fn listen(self: &Arc<Self>, pool: &Arc<Pool>) {
        let mut listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner);
        if listener.is_none() {
            *listener = Some(tokio::spawn(listen(Arc::clone(self), Arc::clone(pool))));
        }
    }

    /// Ends the listener.
    pub(super) fn stop(&self) {
        if let Some(listener) = self.listener.lock().unwrap_or_else(PoisonError::into_inner).take() {
            listener.abort();
        }
    }
}

/// Listens for ever. After each connect everyone is woken: announcements may have been missed.
async fn listen(bell: Arc<Bell>, pool: Arc<Pool>) {
    loop {
        if let Ok((connection, mut announced)) = connect(&bell, &pool).await {
            bell.wake(News::Both);
            while let Some(announced) = announced.recv().await {
                let (name, mark) = announced.split_once(' ').unwrap_or((&announced, ""));
                if name != bell.name {
                    bell.wake(News::of(mark));
                }
            }
            drop(connection);
        }
        tokio::time::sleep(AGAIN.mul_f64(0.2 + 0.8 * crate::rules::ledger::a_fraction())).await;
    }
}

async fn connect(bell: &Bell, pool: &Pool) -> Result<(Connection, mpsc::UnboundedReceiver<String>)> {
    let (announced, announcements) = mpsc::unbounded_channel();
    let listening = async {
        let connection = Connection::open(&pool.address, &pool.tls, Some(announced)).await?;
        connection.batch(&format!("listen {}", bell.schema)).await?;
        Ok(connection)
    };
    Ok((pool.within(listening).await?, announcements))
}
