//! The machine that asks: copies a log into files of its own, or takes an answer as a whole.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use regatta_core::attempt::Place;
use regatta_core::hex::unhex;
use regatta_core::id::TaskId;
use regatta_store::{DocumentWrite, LOG_PIECE, LOG_REQUEST, RequestId, Store, StoreError};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::{Piece, RENEW, Request, Wanted, piece_id, request_id};
use crate::clock;
use crate::files::unique_suffix;
use crate::persist::for_test;

/// How long to wait for the first answer, and for the rest once all of it was asked for.
fn patience() -> Duration {
    for_test("REGATTA_TEST_PATIENCE_MS").unwrap_or(Duration::from_secs(20))
}

/// How often pieces are looked for without a wake-up.
const LOOK_ANYWAY: Duration = Duration::from_secs(1);

/// Why an answer cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum NotServed {
    /// No engine works in that clone.
    #[error("no engine runs there now")]
    NoEngine,
    /// It does not answer.
    #[error("its engine does not answer")]
    Silent,
    /// Its answer ended too early, cannot be read, or is longer than any answer.
    #[error("its engine did not answer completely")]
    Incomplete,
    /// The copy cannot be written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The copy.
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A copy of an attempt's log that grows with it. Removed when dropped.
pub struct Mirror {
    dir: PathBuf,
    path: PathBuf,
    finish: watch::Sender<bool>,
    streams: Vec<Copying>,
}

/// One file that is copied.
struct Copying {
    task: JoinHandle<Result<(), NotServed>>,
    answered: watch::Receiver<bool>,
}

impl Drop for Mirror {
    fn drop(&mut self) {
        // The engine drops requests that are not renewed.
        self.streams.iter().for_each(|stream| stream.task.abort());
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

impl Mirror {
    /// Asks for the log of an attempt that ran elsewhere. The copy is made below `state_dir`.
    pub async fn start(
        store: &Arc<dyn Store>,
        place: &Place,
        task: &TaskId,
        attempt: u32,
        state_dir: &Path,
    ) -> Result<Self, NotServed> {
        require_engine(store, place).await?;
        let dir = state_dir.join("elsewhere").join(unique_suffix());
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&dir);
        made.map_err(|source| NotServed::Io { path: dir.clone(), source })?;
        let path = dir.join(format!("{attempt}.jsonl"));
        let (finish, finishing) = watch::channel(false);
        let mut mirror = Self { dir, path, finish, streams: Vec::new() };
        for wanted in [Wanted::Stdout, Wanted::Stderr] {
            let (answers, answered) = watch::channel(false);
            let sink = Sink::File { path: wanted.path(&mirror.path), file: None };
            let request = Request::new(task, attempt, wanted);
            let mut copy = Copy::new(store, place, request, sink, finishing.clone(), answers);
            let task = tokio::spawn(async move { copy.run().await });
            mirror.streams.push(Copying { task, answered });
        }
        Ok(mirror)
    }

    /// The copy of its standard output; that of its standard error is beside it. Missing if there is none.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Waits for the first answer: whether there is a log.
    pub async fn begin(&mut self) -> Result<(), NotServed> {
        for stream in &mut self.streams {
            let answered = stream.answered.wait_for(|answered| *answered);
            // What was answered is not kept: it is no value for other threads.
            let answered = tokio::time::timeout(patience(), answered).await.map(|answer| answer.is_ok());
            match answered {
                Ok(true) => {}
                Ok(false) => return Err(ended(&mut stream.task).await),
                Err(_) => return Err(NotServed::Silent),
            }
        }
        Ok(())
    }

    /// Waits until everything that is there now was copied.
    pub async fn finish(&mut self) -> Result<(), NotServed> {
        let _ = self.finish.send(true);
        for stream in &mut self.streams {
            if !stream.task.is_finished() || *stream.answered.borrow() {
                match (&mut stream.task).await {
                    Ok(copied) => copied?,
                    Err(_) => return Err(NotServed::Silent),
                }
            }
        }
        self.streams.clear();
        Ok(())
    }
}

/// Why a copy has ended.
async fn ended(task: &mut JoinHandle<Result<(), NotServed>>) -> NotServed {
    match task.await {
        Ok(Err(why)) => why,
        _ => NotServed::Silent,
    }
}

/// Refuses if no engine works in that clone.
async fn require_engine(store: &Arc<dyn Store>, place: &Place) -> Result<(), NotServed> {
    let works_there = |node: &regatta_store::NodeInfo| node.place.as_ref() == Some(&place.id);
    let sessions = store.sessions().await?;
    sessions.iter().any(|info| works_there(&info.node)).then_some(()).ok_or(NotServed::NoEngine)
}

/// Takes the whole answer to a request, of at most this many bytes.
pub(super) async fn ask(
    store: &Arc<dyn Store>,
    place: &Place,
    request: Request,
    most: usize,
) -> Result<Vec<u8>, NotServed> {
    require_engine(store, place).await?;
    let (_finish, finishing) = watch::channel(true);
    let sink = Sink::Memory { bytes: Vec::new(), most };
    let mut copy = Copy::new(store, place, request, sink, finishing, watch::channel(false).0);
    copy.run().await?;
    match copy.sink {
        Sink::Memory { bytes, .. } => Ok(bytes),
        Sink::File { .. } => Err(NotServed::Incomplete),
    }
}

/// Where the pieces go.
enum Sink {
    File { path: PathBuf, file: Option<File> },
    Memory { bytes: Vec<u8>, most: usize },
}

impl Sink {
    fn write(&mut self, piece: &Piece) -> Result<(), NotServed> {
        let bytes = unhex(&piece.data).ok_or(NotServed::Incomplete)?;
        match self {
            Sink::File { .. } if !piece.exists => Ok(()),
            Sink::File { path, file } => {
                let written = write_at(path, file, &bytes, piece.offset);
                written.map_err(|source| NotServed::Io { path: path.clone(), source })
            }
            Sink::Memory { bytes: all, most } => {
                let is_next = u64::try_from(all.len()).is_ok_and(|len| len == piece.offset);
                if !is_next || all.len() + bytes.len() > *most {
                    return Err(NotServed::Incomplete);
                }
                all.extend(bytes);
                Ok(())
            }
        }
    }
}

/// Writes at the place that the bytes have in the original, so that a hole stays a hole.
fn write_at(path: &Path, file: &mut Option<File>, bytes: &[u8], offset: u64) -> io::Result<()> {
    let file = match file {
        Some(file) => file,
        None => {
            let open = OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(path);
            file.insert(open?)
        }
    };
    file.write_all_at(bytes, offset)
}

/// A copy under way.
struct Copy {
    store: Arc<dyn Store>,
    /// Of the request.
    id: String,
    request: Request,
    sink: Sink,
    finishing: watch::Receiver<bool>,
    answers: watch::Sender<bool>,
}

impl Copy {
    fn new(
        store: &Arc<dyn Store>,
        place: &Place,
        request: Request,
        sink: Sink,
        finishing: watch::Receiver<bool>,
        answers: watch::Sender<bool>,
    ) -> Self {
        let id = request_id(&place.id, &RequestId::fresh().0);
        Self { store: store.clone(), id, request, sink, finishing, answers }
    }

    async fn run(&mut self) -> Result<(), NotServed> {
        let copied = self.copy().await;
        let store = &self.store;
        let gone = store.put_document(&DocumentWrite::deletion(LOG_REQUEST, &self.id), clock::now()).await;
        copied.and(gone.map(drop).map_err(NotServed::from))
    }

    async fn copy(&mut self) -> Result<(), NotServed> {
        let mut news = self.store.subscribe_documents().await?;
        self.request.finish = *self.finishing.borrow();
        self.renew().await?;
        let (mut renewed, mut heard) = (Instant::now(), Instant::now());
        loop {
            let _ = news.borrow_and_update();
            let before = self.request.taken;
            if self.take().await? {
                return Ok(());
            }
            let finish = *self.finishing.borrow_and_update();
            if self.request.taken > before {
                heard = Instant::now();
            }
            let is_due = self.request.taken > before || finish != self.request.finish;
            if is_due || renewed.elapsed() >= RENEW {
                self.request.finish = finish;
                self.renew().await?;
                renewed = Instant::now();
            }
            let is_awaited = finish || !*self.answers.borrow();
            if is_awaited && heard.elapsed() >= patience() {
                return Err(NotServed::Silent);
            }
            if !is_awaited {
                heard = Instant::now();
            }
            tokio::select! {
                changed = news.changed() => if changed.is_err() { return Err(NotServed::Silent) },
                _ = self.finishing.changed() => {}
                () = tokio::time::sleep(LOOK_ANYWAY) => {}
            }
        }
    }

    /// Writes the request, so that it differs from before.
    async fn renew(&mut self) -> Result<(), NotServed> {
        self.request.renewed += 1;
        let body = serde_json::to_string(&self.request).unwrap_or_default();
        self.store.put_document(&DocumentWrite::new(LOG_REQUEST, &self.id, body), clock::now()).await?;
        Ok(())
    }

    /// Takes the pieces that are next. Returns whether the last one was among them.
    async fn take(&mut self) -> Result<bool, NotServed> {
        for found in self.store.documents(LOG_PIECE, &format!("{}/", self.id)).await? {
            if found.id != piece_id(&self.id, self.request.taken) {
                continue;
            }
            let Ok(piece) = serde_json::from_str::<Piece>(&found.body) else {
                return Err(NotServed::Silent);
            };
            if piece.after != self.request.reached {
                // Two engines have answered in turn, and what one sent is not what the other continues.
                return Err(NotServed::Silent);
            }
            self.sink.write(&piece)?;
            self.store.put_document(&DocumentWrite::deletion(LOG_PIECE, &found.id), clock::now()).await?;
            self.request.taken += 1;
            self.request.reached = piece.reaches();
            self.answers.send_replace(true);
            if piece.end {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
