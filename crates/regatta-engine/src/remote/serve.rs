//! The machine that has what is asked for.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use regatta_core::hex::hex;
use regatta_store::{DocumentWrite, LOG_PIECE, LOG_REQUEST, Store, StoreError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::{AbortHandle, JoinHandle};

use super::{FORGOTTEN, MOST_WAITING, PIECE, Piece, Request, Wanted, diff, is_request_id, piece_id};
use crate::clock;
use crate::context::Context;
use crate::fleet;
use crate::process::read_past_holes;
use crate::session;

/// How often a file that is followed is looked at.
const LOOK: Duration = Duration::from_millis(200);
/// How often requests are looked for without a wake-up.
const LOOK_ANYWAY: Duration = Duration::from_secs(60);
/// The pause after an error of the store.
const AGAIN: Duration = Duration::from_secs(2);
/// Most requests that are answered at the same time.
const MOST_REQUESTS: usize = 64;
/// Most differences that are made and sent at the same time; each is held in memory.
const MOST_DIFFS: usize = 4;
/// How often a reader hears that its answer is being made.
const SAY_ANYWAY: Duration = Duration::from_secs(5);

/// Answers requests to this clone until it is dropped.
pub(crate) async fn serve(ctx: Arc<Context>) {
    let Some(place) = session::place() else { return };
    let mut answering = Answering { requests: BTreeMap::new(), diffs: Arc::new(Semaphore::new(MOST_DIFFS)) };
    let mut news = fleet::document_news(ctx.services.store.as_ref()).await;
    loop {
        let _ = news.borrow_and_update();
        if look(&ctx, &place.id, &news, &mut answering).await.is_err() {
            tokio::time::sleep(AGAIN).await;
        }
        if let Ok(Err(_)) = tokio::time::timeout(LOOK_ANYWAY, news.changed()).await {
            return;
        }
    }
}

/// The answers under way. They end with the engine.
struct Answering {
    /// By request.
    requests: BTreeMap<String, AbortHandle>,
    /// One for each difference that is made or sent.
    diffs: Arc<Semaphore>,
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.requests.values().for_each(AbortHandle::abort);
    }
}

/// Starts an answer for every new request.
async fn look(
    ctx: &Arc<Context>,
    place: &str,
    news: &watch::Receiver<u64>,
    answering: &mut Answering,
) -> Result<(), StoreError> {
    let store = &ctx.services.store;
    answering.requests.retain(|_, answer| !answer.is_finished());
    let requests = store.documents(LOG_REQUEST, &format!("{place}/")).await?;
    // One engine of the clone answers: the others would send the same pieces.
    if requests.is_empty() || store.elect(&format!("logs:{place}"), &ctx.services.session).await?.is_none() {
        return Ok(());
    }
    for request in requests {
        if !is_request_id(place, &request.id) {
            store.put_document(&DocumentWrite::deletion(LOG_REQUEST, &request.id), clock::now()).await?;
        } else if answering.requests.len() < MOST_REQUESTS && !answering.requests.contains_key(&request.id) {
            let answer = answer(ctx.clone(), request.id.clone(), news.clone(), answering.diffs.clone());
            answering.requests.insert(request.id, tokio::spawn(answer).abort_handle());
        }
    }
    Ok(())
}

/// Answers one request to its end.
async fn answer(ctx: Arc<Context>, id: String, news: watch::Receiver<u64>, diffs: Arc<Semaphore>) {
    let store = ctx.services.store.clone();
    let mut sent = None;
    // An error of the store ends the answer; the next look starts it again, from where the reader is.
    if send(&ctx, &id, news, diffs, &mut sent).await.is_ok() {
        let waiting = sent.map_or(0..0, |sent| sent.n.saturating_sub(MOST_WAITING)..sent.n);
        for n in waiting {
            let piece = DocumentWrite::deletion(LOG_PIECE, &piece_id(&id, n));
            let _ = store.put_document(&piece, clock::now()).await;
        }
        let _ = store.put_document(&DocumentWrite::deletion(LOG_REQUEST, &id), clock::now()).await;
    }
}

/// How far an answer got.
struct Sent {
    /// The number of pieces.
    n: u64,
    /// Where the next one begins.
    offset: u64,
    /// What was said last about whether there is a file.
    exists: Option<bool>,
    has_ended: bool,
}

/// Where the bytes of an answer come from.
enum Source {
    /// A file that may grow.
    Log(PathBuf),
    /// It is being made. The time of the last message to the reader that says so.
    Making(Making, Option<Instant>),
    Made(Answer),
}

/// A whole answer.
#[derive(Default)]
struct Answer {
    bytes: Vec<u8>,
    /// Until it was sent.
    _turn: Option<OwnedSemaphorePermit>,
}

/// An answer that is being made. The work ends with it, as far as it can be ended.
struct Making(JoinHandle<Answer>);

impl Drop for Making {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Source {
    /// What a request asks for. `begun` says whether another engine has sent some of it.
    fn of(ctx: &Arc<Context>, request: &Request, begun: bool, diffs: Arc<Semaphore>) -> Self {
        match &request.wanted {
            Wanted::Stdout | Wanted::Stderr => {
                Source::Log(request.wanted.path(&ctx.log_file(&request.task, request.attempt)))
            }
            // The rest of what another engine has made is not known here; the reader finds the end missing.
            Wanted::Diff(_) if begun => Source::Made(Answer::default()),
            Wanted::Diff(wanted) => {
                let (ctx, task, wanted) = (ctx.clone(), request.task.clone(), wanted.clone());
                let making = async move {
                    let turn = diffs.acquire_owned().await.ok();
                    Answer { bytes: diff::answer(ctx, task, wanted).await, _turn: turn }
                };
                Source::Making(Making(tokio::spawn(making)), None)
            }
        }
    }

    /// What comes next, if there is anything to say.
    async fn next_piece(&mut self, sent: &Sent, finish: bool) -> Option<Piece> {
        if let Source::Making(making, _) = self
            && making.0.is_finished()
        {
            // One that could not be made is an answer without a heading.
            *self = Source::Made((&mut making.0).await.unwrap_or_default());
        }
        match self {
            Source::Log(path) => next_of_log(path, sent, finish),
            Source::Making(_, said) => {
                if said.is_some_and(|said| said.elapsed() < SAY_ANYWAY) {
                    return None;
                }
                *said = Some(Instant::now());
                Some(Piece {
                    after: sent.offset,
                    offset: sent.offset,
                    data: String::new(),
                    exists: true,
                    end: false,
                })
            }
            Source::Made(Answer { bytes, .. }) => {
                let begin = usize::try_from(sent.offset).map_or(bytes.len(), |begin| begin.min(bytes.len()));
                let end = bytes.len().min(begin + PIECE);
                Some(Piece {
                    after: sent.offset,
                    offset: sent.offset,
                    data: hex(&bytes[begin..end]),
                    exists: true,
                    end: end == bytes.len(),
                })
            }
        }
    }
}

/// Sends pieces until the reader has all of them, or is gone.
async fn send(
    ctx: &Arc<Context>,
    id: &str,
    mut news: watch::Receiver<u64>,
    diffs: Arc<Semaphore>,
    sent: &mut Option<Sent>,
) -> Result<(), StoreError> {
    let store = &ctx.services.store;
    let mut renewed = (0, Instant::now());
    let mut begun: Option<(Request, Source)> = None;
    loop {
        let _ = news.borrow_and_update();
        let Some(found) = store.document(LOG_REQUEST, id).await? else { return Ok(()) };
        let Some(request) = Request::read(&found.body) else { return Ok(()) };
        if renewed.0 != found.version {
            renewed = (found.version, Instant::now());
        } else if renewed.1.elapsed() > FORGOTTEN {
            return Ok(());
        }
        // Another engine may have begun the answer.
        let sent = sent.get_or_insert(Sent {
            n: request.taken,
            offset: request.reached,
            exists: None,
            has_ended: false,
        });
        let (first, source) = begun.get_or_insert_with(|| {
            let source = Source::of(ctx, &request, request.reached > 0, diffs.clone());
            (request.clone(), source)
        });
        if !first.asks_for_the_same(&request) {
            return Ok(());
        }
        while !sent.has_ended && sent.n.saturating_sub(request.taken) < MOST_WAITING {
            let Some(piece) = source.next_piece(sent, request.finish).await else { break };
            put(store.as_ref(), id, sent.n, &piece).await?;
            sent.n += 1;
            sent.offset = piece.reaches();
            sent.exists = Some(piece.exists);
            sent.has_ended = piece.end;
        }
        let _ = tokio::time::timeout(LOOK, news.changed()).await;
    }
}

async fn put(store: &dyn Store, request: &str, n: u64, piece: &Piece) -> Result<(), StoreError> {
    let body = serde_json::to_string(piece).unwrap_or_default();
    store.put_document(&DocumentWrite::new(LOG_PIECE, &piece_id(request, n), body), clock::now()).await?;
    Ok(())
}

/// What comes next of a log. The first piece comes at once: it says whether there is a file.
fn next_of_log(path: &Path, sent: &Sent, finish: bool) -> Option<Piece> {
    let (offset, data, exists) = match read(path, sent.offset) {
        Ok((at, bytes)) => (at, hex(&bytes), true),
        // It cannot be read, or does not exist yet.
        Err(_) => (sent.offset, String::new(), false),
    };
    let end = finish && data.is_empty();
    let says_something = end || !data.is_empty() || sent.exists != Some(exists);
    says_something.then_some(Piece { after: sent.offset, offset, data, exists, end })
}

fn read(path: &Path, offset: u64) -> io::Result<(u64, Vec<u8>)> {
    let mut bytes = vec![0; PIECE];
    let (at, n) = read_past_holes(&File::open(path)?, &mut bytes, offset)?;
    bytes.truncate(n);
    Ok((at, bytes))
}
