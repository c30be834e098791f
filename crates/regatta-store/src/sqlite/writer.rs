//! The only writing thread, and group commit.
//!
//! Invariant: a caller is answered only after the transaction with its write is on disk. Writes that wait together are
//! committed together, each inside its own savepoint: a failing one reverts its own changes and no others. If the
//! commit fails, all of their callers get an unknown outcome.

use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::mpsc;
use std::thread::JoinHandle;

use rusqlite::Connection;
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW};
use tokio::sync::{oneshot, watch};

use super::migrate;
use crate::{Result, StoreError};

/// Maximum number of writes in one commit.
const GROUP: usize = 256;

/// Permission to write: exists only inside the writer's transaction.
pub(super) struct Tx<'a> {
    db: &'a Connection,
    path: &'a Path,
    reading: Reading,
}

/// How rules get what they read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// Each record when the rule asks for it.
    AtOnce,
    /// In rounds, as a store over a network has to: for tests of the rules.
    #[cfg_attr(not(feature = "conformance"), expect(dead_code, reason = "only the suite opens such a store"))]
    InRounds,
}

impl Tx<'_> {
    pub(super) fn reading(&self) -> Reading {
        self.reading
    }
}

#[cfg(test)]
impl<'a> Tx<'a> {
    pub(super) fn for_test(db: &'a Connection) -> Self {
        Self { db, path: Path::new("test"), reading: Reading::AtOnce }
    }
}

impl Deref for Tx<'_> {
    type Target = Connection;
    fn deref(&self) -> &Connection {
        self.db
    }
}

enum Message {
    Write(Box<dyn Write>),
    /// The file changed: check whether another process has committed.
    Look,
}

/// One write on its way through a group: executed, then answered once the result of the group is known.
trait Write: Send {
    fn run(&mut self, tx: &Tx);
    /// Whether nobody has to be woken for it.
    fn is_quiet(&self) -> bool;
    fn answer(self: Box<Self>, committed: &Result<()>);
}

struct Call<T, F> {
    work: Option<F>,
    outcome: Option<Result<T>>,
    reply: oneshot::Sender<Result<T>>,
    is_quiet: bool,
    is_marked: bool,
}

impl<T, F> Write for Call<T, F>
where
    T: Send,
    F: FnOnce(&Tx) -> Result<T> + Send,
{
    fn run(&mut self, tx: &Tx) {
        if let Some(work) = self.work.take() {
            let is_marked = self.is_marked;
            self.outcome = Some(in_savepoint(tx, move |tx| {
                if !is_marked {
                    migrate::refuse_marked(tx, tx.path)?;
                }
                work(tx)
            }));
        }
    }

    fn is_quiet(&self) -> bool {
        self.is_quiet
    }

    fn answer(self: Box<Self>, committed: &Result<()>) {
        let answer = match (committed, self.outcome) {
            (Ok(()), Some(outcome)) => outcome,
            (Ok(()), None) => Err(StoreError::Unavailable("the write was not begun".into())),
            // The transaction never began.
            (Err(StoreError::Busy(why)), _) => Err(StoreError::Busy(why.clone())),
            // Even if this write itself was refused: what it was refused for has been rolled back.
            (Err(error), _) => Err(StoreError::Unavailable(error.to_string())),
        };
        // A caller that no longer listens loses nothing: it may ask again.
        let _gone = self.reply.send(answer);
    }
}

/// The writer's mailbox.
pub(super) struct Writer {
    inbox: Option<mpsc::Sender<Message>>,
    thread: Option<JoinHandle<()>>,
    changed: watch::Sender<u64>,
}

/// Lets another thread ask the writer to check the file.
pub(super) struct Looker(mpsc::Sender<Message>);

impl Looker {
    /// False once the writer is gone.
    pub(super) fn look(&self) -> bool {
        self.0.send(Message::Look).is_ok()
    }
}

impl Writer {
    pub(super) fn start(db: Connection, path: &Path, reading: Reading) -> Result<Self> {
        let (inbox, messages) = mpsc::channel();
        let changed = watch::Sender::new(0);
        let thread = {
            let (changed, path) = (changed.clone(), path.to_owned());
            std::thread::Builder::new()
                .name("regatta-store".into())
                .spawn(move || run(&Tx { db: &db, path: &path, reading }, &path, &messages, &changed))
                .map_err(|error| StoreError::Unavailable(format!("no thread for the store: {error}")))?
        };
        Ok(Self { inbox: Some(inbox), thread: Some(thread), changed })
    }

    /// Runs `work` in a transaction and returns once it is on disk.
    pub(super) async fn call<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Tx) -> Result<T> + Send + 'static,
    {
        self.write(work, false, false).await
    }

    /// The same, even if the store has a mark.
    pub(super) async fn call_marked<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Tx) -> Result<T> + Send + 'static,
    {
        self.write(work, false, true).await
    }

    /// The same for a write that no reader of this process waits for.
    pub(super) async fn call_quietly<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Tx) -> Result<T> + Send + 'static,
    {
        self.write(work, true, false).await
    }

    async fn write<T, F>(&self, work: F, is_quiet: bool, is_marked: bool) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Tx) -> Result<T> + Send + 'static,
    {
        let gone = || StoreError::Unavailable("the store was closed".into());
        let (reply, answer) = oneshot::channel();
        let call = Call { work: Some(work), outcome: None, reply, is_quiet, is_marked };
        let inbox = self.inbox.as_ref().ok_or_else(gone)?;
        inbox.send(Message::Write(Box::new(call))).map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }

    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    pub(super) fn looker(&self) -> Option<Looker> {
        self.inbox.clone().map(Looker)
    }
}

impl Drop for Writer {
    /// Pending writes are still executed.
    fn drop(&mut self) {
        self.inbox = None;
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}

fn run(db: &Tx, path: &Path, messages: &mpsc::Receiver<Message>, changed: &watch::Sender<u64>) {
    let mut version = data_version(db);
    while let Ok(message) = messages.recv() {
        let changes = db.total_changes();
        let group = match message {
            Message::Write(first) => Some(group(db, first, messages)),
            Message::Look => None,
        };
        let is_loud = group.as_ref().is_some_and(Group::is_loud);
        let wrote = is_loud && db.total_changes() != changes;
        let seen = data_version(db);
        if wrote || seen != version {
            changed.send_modify(|n| *n += 1);
        }
        version = seen;
        // After the wake-up: a caller that reads once it has its answer has seen what it was woken for.
        if let Some(group) = group {
            group.answer();
        }
        if wrote {
            touch(path);
        }
    }
}

/// Differs from the last answer if another connection has committed since.
fn data_version(db: &Connection) -> Option<i64> {
    db.prepare_cached("pragma data_version")
        .and_then(|mut pragma| pragma.query_row([], |row| row.get(0)))
        .ok()
}

/// Notifies the other processes through inotify, after the commit: the log's own change comes before it.
fn touch(path: &Path) {
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    let times = Timestamps { last_access: now, last_modification: now };
    // Only a hint: a process that misses it checks by itself every few seconds.
    let _missed = rustix::fs::utimensat(CWD, path, &times, AtFlags::empty());
}

/// Writes that were committed together, or failed together; not answered yet.
struct Group {
    writes: Vec<Box<dyn Write>>,
    committed: Result<()>,
}

impl Group {
    /// Whether anybody has to be woken for it.
    fn is_loud(&self) -> bool {
        self.writes.iter().any(|write| !write.is_quiet())
    }

    fn answer(self) {
        for write in self.writes {
            write.answer(&self.committed);
        }
    }
}

/// Executes `first` and all writes waiting behind it, and commits once.
fn group(db: &Tx, first: Box<dyn Write>, messages: &mpsc::Receiver<Message>) -> Group {
    let mut writes = Vec::new();
    let committed = begin_and_run(db, first, messages, &mut writes);
    Group { writes, committed }
}

fn begin_and_run(
    db: &Tx,
    first: Box<dyn Write>,
    messages: &mpsc::Receiver<Message>,
    writes: &mut Vec<Box<dyn Write>>,
) -> Result<()> {
    let begun = execute(db, "begin immediate");
    writes.push(first);
    if let Err(error) = begun {
        // Those behind it would each wait as long for the same lock: they are answered now.
        writes.extend(std::iter::from_fn(|| next_write(messages)));
        return Err(error);
    }
    loop {
        if let Some(write) = writes.last_mut() {
            write.run(db);
        }
        // Some failures, such as a full disk, make SQLite roll back the whole transaction by itself.
        if db.is_autocommit() {
            return Err(StoreError::Unavailable("SQLite took the transaction back".into()));
        }
        if writes.len() == GROUP {
            break;
        }
        let Some(write) = next_write(messages) else { break };
        writes.push(write);
    }
    execute(db, "commit").map_err(|error| {
        let _nothing_left_to_roll_back = execute(db, "rollback");
        StoreError::Unavailable(error.to_string())
    })
}

fn next_write(messages: &mpsc::Receiver<Message>) -> Option<Box<dyn Write>> {
    loop {
        match messages.try_recv() {
            Ok(Message::Write(write)) => return Some(write),
            // The file is checked after the commit anyway.
            Ok(Message::Look) => {}
            Err(_) => return None,
        }
    }
}

fn in_savepoint<T>(db: &Tx, work: impl FnOnce(&Tx) -> Result<T>) -> Result<T> {
    execute(db, "savepoint write")?;
    let outcome = catch_unwind(AssertUnwindSafe(|| work(db))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic");
        Err(StoreError::Corrupt(format!("a defect in Regatta's store, nothing was written: {text}")))
    });
    if outcome.is_err() {
        let _taken_back_already = execute(db, "rollback to write");
    }
    if !db.is_autocommit() {
        execute(db, "release write")?;
    }
    outcome
}

fn execute(db: &Connection, sql: &str) -> Result<()> {
    db.prepare_cached(sql)?.execute([])?;
    Ok(())
}

#[cfg(test)]
mod tests;
