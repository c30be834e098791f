//! The machine that has the log.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use regatta_core::hex::hex;
use regatta_store::{DocumentWrite, LOG_PIECE, LOG_REQUEST, Store, StoreError};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::{FORGOTTEN, MOST_WAITING, PIECE, Piece, Request, piece_id};
use crate::clock;
use crate::context::Context;
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

/// Answers requests for logs of this clone until it is dropped.
pub(crate) async fn serve(ctx: Arc<Context>) {
    let Some(place) = session::place() else { return };
    let mut answering = Answering(BTreeMap::new());
    let store = ctx.services.store.clone();
    let mut news = loop {
        match store.subscribe_documents().await {
            Ok(news) => break news,
            Err(_) => tokio::time::sleep(AGAIN).await,
        }
    };
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

/// The answers under way, by request. They end with the engine.
struct Answering(BTreeMap<String, AbortHandle>);

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.values().for_each(AbortHandle::abort);
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
    answering.0.retain(|_, answer| !answer.is_finished());
    let requests = store.documents(LOG_REQUEST, &format!("{place}/")).await?;
    // One engine of the clone answers: the others would send the same pieces.
    if requests.is_empty() || store.elect(&format!("logs:{place}"), &ctx.services.session).await?.is_none() {
        return Ok(());
    }
    for request in requests {
        if answering.0.len() < MOST_REQUESTS && !answering.0.contains_key(&request.id) {
            let answer = answer(ctx.clone(), request.id.clone(), news.clone());
            answering.0.insert(request.id, tokio::spawn(answer).abort_handle());
        }
    }
    Ok(())
}

/// Answers one request to its end.
async fn answer(ctx: Arc<Context>, id: String, news: watch::Receiver<u64>) {
    let store = ctx.services.store.clone();
    let mut sent = None;
    // An error of the store ends the answer; the next look starts it again, from where the reader is.
    if send(&ctx, &id, news, &mut sent).await.is_ok() {
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

/// Sends pieces until the reader has all of them, or is gone.
async fn send(
    ctx: &Context,
    id: &str,
    mut news: watch::Receiver<u64>,
    sent: &mut Option<Sent>,
) -> Result<(), StoreError> {
    let store = &ctx.services.store;
    let mut renewed = (0, Instant::now());
    loop {
        let _ = news.borrow_and_update();
        let Some(found) = store.document(LOG_REQUEST, id).await? else { return Ok(()) };
        let Ok(request) = serde_json::from_str::<Request>(&found.body) else { return Ok(()) };
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
        let path = request.stream.path(&ctx.log_file(&request.task, request.attempt));
        while !sent.has_ended && sent.n.saturating_sub(request.taken) < MOST_WAITING {
            let Some(piece) = next_piece(&path, sent, request.finish) else { break };
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

/// What comes next, if there is anything to say. The first piece comes at once: it says whether there is a file.
fn next_piece(path: &Path, sent: &Sent, finish: bool) -> Option<Piece> {
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
