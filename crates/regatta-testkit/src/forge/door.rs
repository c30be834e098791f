//! The listeners, and what happens to a request between them and the routes.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use serde_json::Value;

use super::backend::{self, Pushed};
use super::call::{Call, Called, query, refusal};
use super::faults::{Fault, Faults, Met};
use super::graphql::{Asked, Quota};
use super::site::{Place, Site};
use super::state::{Moment, Permission, State};
use crate::http::{Received, Reply, wait_for_leave};

/// Requests and points in an hour.
const HOURLY: u64 = 5000;
const HOUR: i64 = 3600;

/// Everything behind the listeners.
#[derive(Debug)]
pub(super) struct Shared {
    inner: Mutex<Inner>,
    pub(super) changed: Condvar,
    pub(super) closed: AtomicBool,
    /// Our own address: `127.0.0.1:4711`.
    pub(super) own: String,
}

/// What is protected by the lock.
#[derive(Debug, Default)]
pub(super) struct Inner {
    pub(super) state: State,
    pub(super) faults: Faults,
    pub(super) calls: Vec<Called>,
    pub(super) pushes: Vec<Pushed>,
    pub(super) strangers: Vec<String>,
    pub(super) enterprise: Vec<String>,
    pub(super) buckets: BTreeMap<(String, Bucket), Used>,
    in_flight: usize,
    pub(super) most_in_flight: usize,
}

/// What is counted separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bucket {
    /// REST.
    Core,
    /// GraphQL.
    Graphql,
}

/// How much of an hour's quota is used.
#[derive(Clone, Copy, Debug)]
pub(super) struct Used {
    pub(super) used: u64,
    pub(super) reset: i64,
}

impl Shared {
    pub(super) fn new(own: String) -> Self {
        let (inner, changed) = (Mutex::default(), Condvar::new());
        Self { inner, changed, closed: AtomicBool::new(false), own }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves connections of the port until the server is closed.
    pub(super) fn listen_tcp(self: &Arc<Self>, listener: TcpListener) {
        let shared = Arc::clone(self);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if shared.closed.load(Ordering::Acquire) {
                    return;
                }
                let _ = stream.set_nodelay(true);
                let shared = Arc::clone(&shared);
                // A client that has disconnected is no error here.
                std::thread::spawn(move || drop(shared.serve(&stream, &stream)));
            }
        });
    }

    /// The same for the socket.
    pub(super) fn listen_unix(self: &Arc<Self>, listener: UnixListener) {
        let shared = Arc::clone(self);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if shared.closed.load(Ordering::Acquire) {
                    return;
                }
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || drop(shared.serve(&stream, &stream)));
            }
        });
    }

    fn serve(&self, mut reader: impl Read, writer: impl Write) -> io::Result<()> {
        let received = Received::read(&mut reader)?;
        let place = {
            let inner = self.lock();
            Place::of(&received.target, received.header("host"), &self.own, &inner.enterprise)
        };
        let sent = match place {
            _ if received.method == "CONNECT" => self.stranger(&received),
            Place::Elsewhere => self.stranger(&received),
            Place::Api(site, target) => {
                let _counted = self.count();
                let sent = self.api(&received, site, &target);
                return self.send(sent, reader, writer);
            }
            Place::Web(_, target) => self.web(&received, &target),
        };
        self.send(sent, reader, writer)
    }

    fn send(&self, sent: Sent, reader: impl Read, writer: impl Write) -> io::Result<()> {
        let result = match sent {
            Sent::Whole(reply) => reply.send(writer),
            Sent::Half(reply) => {
                let bytes = reply.bytes();
                let head = bytes.len() - reply.body.len();
                let mut writer = writer;
                writer.write_all(&bytes[..head + reply.body.len() / 2])
            }
            Sent::Nothing => Ok(()),
            Sent::Hang => {
                wait_for_leave(reader);
                Ok(())
            }
        };
        self.changed.notify_all();
        result
    }

    /// Counts a request as long as the result lives.
    fn count(&self) -> InFlight<'_> {
        let mut inner = self.lock();
        inner.in_flight += 1;
        inner.most_in_flight = inner.most_in_flight.max(inner.in_flight);
        InFlight(self)
    }

    fn stranger(&self, received: &Received) -> Sent {
        let line = format!("{} {} {}", received.method, received.header("host"), received.target);
        self.lock().strangers.push(line);
        Sent::Whole(refusal(403, "tests talk to nobody else"))
    }

    fn api(&self, received: &Received, site: Site, target: &str) -> Sent {
        let (path, query_text) = target.split_once('?').unwrap_or((target, ""));
        let path = if path.len() > 1 { path.trim_end_matches('/') } else { path };
        let body: Value = serde_json::from_slice(&received.body).unwrap_or(Value::Null);
        let asked = (path == "/graphql").then(|| Asked::read(&body));
        let operation = asked.as_ref().map(|asked| asked.as_ref().map_or_else(String::clone, Asked::name));
        let mutates = matches!(&asked, Some(Ok(asked)) if asked.operation.mutates);
        let mut inner = self.lock();
        let token = received.header("authorization");
        let token = token.split_once(' ').map_or("", |(_, token)| token);
        let user = inner.state.user_of_token(token).map(|user| user.login.clone());
        let called = Called {
            method: received.method.clone(),
            path: path.to_owned(),
            query: query_text.to_owned(),
            operation,
            user: user.clone().unwrap_or_default(),
            status: None,
            at: Instant::now(),
            is_write: if path == "/graphql" { mutates } else { received.method != "GET" },
            points: 0,
        };
        let (line, place) = (called.line(), inner.calls.len());
        inner.calls.push(called);
        self.changed.notify_all();
        let met = inner.faults.take(&line);
        if let Some(Fault::Hold(gate)) = met.as_ref().map(|met| &met.fault) {
            drop(inner);
            gate.pass();
            inner = self.lock();
        }
        let call = user.map(|user| Call {
            method: received.method.clone(),
            path: path.to_owned(),
            query: query(query_text),
            body,
            user,
            site,
        });
        let sent = inner.sent(received, call, asked, met, place, &line);
        if let Sent::Whole(reply) = &sent {
            inner.calls[place].status = Some(reply.status);
        }
        sent
    }

    /// Git, and the logs of jobs.
    fn web(&self, received: &Received, target: &str) -> Sent {
        let path = target.split('?').next().unwrap_or_default();
        if let Some(log) = path.strip_prefix("/_logs/") {
            let inner = self.lock();
            let id = log.parse().ok();
            let mut checks = inner.state.repos.iter().flat_map(|repo| repo.checks.values().flatten());
            let found = checks.find(|check| Some(check.id) == id).map(|check| check.log.clone());
            return Sent::Whole(found.map_or_else(
                || refusal(404, "Not Found"),
                |log| Reply::of(200, "text/plain; charset=utf-8", log),
            ));
        }
        let Some((name, service)) = backend::split(path) else { return self.stranger(received) };
        let mut inner = self.lock();
        let met = inner.faults.take(&format!("{} {path}", received.method));
        if let Some(reply) = met.as_ref().and_then(|met| met.fault.reply()) {
            return Sent::Whole(reply);
        }
        match met.map(|met| met.fault) {
            Some(Fault::Hang) => Sent::Hang,
            Some(Fault::Refuse) => Sent::Nothing,
            Some(Fault::Hold(gate)) => {
                drop(inner);
                gate.pass();
                self.git(self.lock(), received, target, &name, service, None)
            }
            fault => self.git(inner, received, target, &name, service, fault),
        }
    }

    fn git(
        &self,
        inner: MutexGuard<'_, Inner>,
        received: &Received,
        target: &str,
        name: &str,
        service: &str,
        fault: Option<Fault>,
    ) -> Sent {
        let had = |former: &String| former.eq_ignore_ascii_case(name);
        let Some(at) = inner.state.position(name) else {
            let renamed = inner.state.repos.iter().find(|repo| repo.former.iter().any(had));
            let Some(repo) = renamed else {
                return Sent::Whole(Reply::of(404, "text/plain", "Repository not found."));
            };
            let query = target.split_once('?').map_or(String::new(), |(_, query)| format!("?{query}"));
            let address = format!("http://github.localhost/{}.git/{service}{query}", repo.full_name());
            return Sent::Whole(Reply::of(301, "text/plain", "").header("location", address));
        };
        let repo = &inner.state.repos[at];
        let user = basic(received.header("authorization"))
            .and_then(|token| inner.state.user_of_token(&token).map(|user| user.login.clone()));
        let pushes = service == "git-receive-pack" || target.contains("service=git-receive-pack");
        let may =
            user.as_ref().map_or((!repo.private).then_some(Permission::Read), |user| repo.permission(user));
        let wanted = if pushes { Permission::Write } else { Permission::Read };
        if may.is_none_or(|may| may < wanted) {
            return Sent::Whole(match &user {
                None => Reply::of(401, "text/plain", "Authentication required")
                    .header("www-authenticate", "Basic realm=\"GitHub\""),
                Some(user) => {
                    let words = format!("Permission to {}.git denied to {user}.", repo.full_name());
                    Reply::of(403, "text/plain", words)
                }
            });
        }
        let dir = repo.dir.clone();
        // A push may take long; the API answers meanwhile.
        drop(inner);
        let mut reply = backend::run(received, &dir, service, user.as_deref());
        if service == "git-receive-pack" {
            let mut inner = self.lock();
            let at = inner.state.position(name).unwrap_or(at);
            let by = user.unwrap_or_default();
            let pushed = inner.state.pushed(at, &by, backend::wanted(&received.body));
            inner.pushes.extend(pushed);
        }
        reply = reply.header("cache-control", "no-cache");
        match fault {
            Some(Fault::Lost) => Sent::Nothing,
            Some(Fault::Cut) => Sent::Half(reply),
            _ => Sent::Whole(reply),
        }
    }
}

/// A request that is not answered yet.
struct InFlight<'a>(&'a Shared);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.lock().in_flight -= 1;
    }
}

/// What the client gets.
enum Sent {
    Whole(Reply),
    Half(Reply),
    Nothing,
    Hang,
}

impl Inner {
    fn sent(
        &mut self,
        received: &Received,
        call: Option<Call>,
        asked: Option<Result<Asked, String>>,
        met: Option<Met>,
        place: usize,
        line: &str,
    ) -> Sent {
        if let Some(reply) = met.as_ref().and_then(|met| met.fault.reply()) {
            return Sent::Whole(reply);
        }
        match met.as_ref().map(|met| &met.fault) {
            Some(Fault::Hang) => return Sent::Hang,
            Some(Fault::Refuse) => return Sent::Nothing,
            _ => {}
        }
        let Some(call) = call else {
            let has_token = received.given("authorization").is_some();
            let words = if has_token { "Bad credentials" } else { "Requires authentication" };
            return Sent::Whole(refusal(401, words));
        };
        let (fault, then) = met.map(|met| (met.fault, met.then)).unzip();
        let mut lagging = then.flatten();
        let reply = self.limited(&call, asked.is_some()).unwrap_or_else(|| match asked {
            Some(asked) => self.graphql(&call, asked, place, line, lagging.as_deref_mut()),
            None => self.rest(received, &call, line, lagging.as_deref_mut()),
        });
        match fault {
            Some(Fault::Lost) => Sent::Nothing,
            Some(Fault::Cut) => Sent::Half(reply),
            _ => Sent::Whole(reply),
        }
    }

    /// The bucket of the caller; an hour that is over begins again.
    fn bucket(&mut self, user: &str, bucket: Bucket) -> &mut Used {
        let now = Moment::now().0;
        let used =
            self.buckets.entry((user.to_owned(), bucket)).or_insert(Used { used: 0, reset: now + HOUR });
        if used.reset <= now {
            *used = Used { used: 0, reset: now + HOUR };
        }
        used
    }

    /// The refusal of a caller whose quota is used up.
    fn limited(&mut self, call: &Call, is_graphql: bool) -> Option<Reply> {
        let bucket = if is_graphql { Bucket::Graphql } else { Bucket::Core };
        let used = *self.bucket(&call.user, bucket);
        let id = self.state.users.get(&call.user).map_or(0, |user| user.id);
        let reply = refusal(403, &format!("API rate limit exceeded for user ID {id}."));
        (used.used >= HOURLY).then(|| limits(reply, used, bucket))
    }

    fn rest(&mut self, received: &Received, call: &Call, line: &str, then: Option<&mut State>) -> Reply {
        let state = then.unwrap_or(&mut self.state);
        let reply = super::rest::answer(state, call).unwrap_or_else(|| {
            self.strangers.push(line.to_owned());
            refusal(404, "Not Found")
        });
        let mut hasher = DefaultHasher::new();
        reply.body.hash(&mut hasher);
        let etag = format!("W/\"{:016x}\"", hasher.finish());
        let is_read = call.method == "GET" && reply.status == 200;
        let is_same = is_read && received.given("if-none-match") == Some(&etag);
        let bucket = self.bucket(&call.user, Bucket::Core);
        bucket.used += u64::from(!is_same);
        let reply = if is_same { Reply::of(304, "application/json; charset=utf-8", "") } else { reply };
        let reply = limits(reply, *bucket, Bucket::Core);
        if is_read {
            reply.header("etag", etag).header("cache-control", "private, max-age=60, s-maxage=60")
        } else {
            reply
        }
    }

    fn graphql(
        &mut self,
        call: &Call,
        asked: Result<Asked, String>,
        place: usize,
        line: &str,
        then: Option<&mut State>,
    ) -> Reply {
        let asked = match asked {
            Ok(asked) => asked,
            Err(words) => {
                self.strangers.push(format!("{line}: {words}"));
                return Reply::json(200, &serde_json::json!({"errors": [{"message": words}]}));
            }
        };
        let points = asked.points();
        self.calls[place].points = points;
        let used = {
            let used = self.bucket(&call.user, Bucket::Graphql);
            used.used = (used.used + points).min(HOURLY);
            *used
        };
        let quota = Quota { limit: HOURLY, remaining: HOURLY - used.used, reset: used.reset };
        let state = then.unwrap_or(&mut self.state);
        let answered = asked.answer(state, &call.site, &call.user, quota);
        self.strangers.extend(answered.unknown.into_iter().map(|what| format!("{line}: {what}")));
        limits(Reply::json(200, &answered.body), used, Bucket::Graphql)
    }
}

fn limits(reply: Reply, used: Used, bucket: Bucket) -> Reply {
    let name = match bucket {
        Bucket::Core => "core",
        Bucket::Graphql => "graphql",
    };
    reply
        .header("x-ratelimit-limit", HOURLY)
        .header("x-ratelimit-remaining", HOURLY.saturating_sub(used.used))
        .header("x-ratelimit-used", used.used)
        .header("x-ratelimit-reset", used.reset)
        .header("x-ratelimit-resource", name)
        .header("x-github-media-type", "github.v3; format=json")
        .header("x-github-request-id", "0000:0000:0000:0000:00000000")
}

/// The password of a header for basic authentication.
fn basic(header: &str) -> Option<String> {
    let text = header.strip_prefix("Basic ")?;
    let mut bits = 0u32;
    let mut count = 0;
    let mut bytes = Vec::new();
    for c in text.bytes().take_while(|c| *c != b'=') {
        let value = match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = (bits << 6) | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from((bits >> count) & 0xff).expect("eight bits"));
        }
    }
    let text = String::from_utf8(bytes).ok()?;
    text.split_once(':').map(|(_, password)| password.to_owned())
}
