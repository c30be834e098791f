//! The listener, and what it records.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::asked::Asked;
use super::script::{Script, Turn, parts};
use crate::daemon::until;
use crate::http::{Received, Reply, begin_events, end_events, send_event, wait_for_leave};

/// The API, which listens until it is dropped.
#[derive(Debug)]
pub struct Api {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    memory: Mutex<Memory>,
    serial: AtomicU64,
    closed: AtomicBool,
}

#[derive(Debug, Default)]
struct Memory {
    scripts: BTreeMap<String, Script>,
    asked: Vec<Asked>,
    strangers: Vec<String>,
    unknown: Vec<String>,
}

impl Api {
    /// Listens on a free port of the loopback interface.
    pub fn start() -> Self {
        let listener =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port of the loopback can be had");
        let address = listener.local_addr().expect("a listener has an address");
        let shared = Arc::new(Shared::default());
        let server = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if server.closed.load(Ordering::Acquire) {
                    return;
                }
                let shared = Arc::clone(&server);
                // A client that has disconnected is no error here.
                std::thread::spawn(move || drop(shared.serve(&stream)));
            }
        });
        Self { address, shared }
    }

    /// `http://127.0.0.1:<port>`, for base addresses and for the proxy.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Sets the answers to prompts that contain [`tag`](super::tag)`(name)`.
    pub fn script(&self, name: &str, script: Script) -> &Self {
        self.shared.memory().scripts.insert(name.to_owned(), script);
        self
    }

    /// All requests of that script so far, in order.
    pub fn asked(&self, script: &str) -> Vec<Asked> {
        let memory = self.shared.memory();
        memory.asked.iter().filter(|asked| asked.script() == Some(script)).cloned().collect()
    }

    /// How many requests the script has answered.
    pub fn answered(&self, script: &str) -> usize {
        self.shared.memory().scripts.get(script).map_or(0, Script::taken)
    }

    /// Waits until the script has had this many requests.
    #[track_caller]
    pub fn wait_asked(&self, script: &str, times: usize) {
        until(&format!("{script} is asked {times} times"), || (self.answered(script) >= times).then_some(()));
    }

    /// Other hosts that clients tried to reach.
    pub fn strangers(&self) -> Vec<String> {
        self.shared.memory().strangers.clone()
    }

    /// Requests that nothing here answers.
    pub fn unknown(&self) -> Vec<String> {
        self.shared.memory().unknown.clone()
    }
}

impl Drop for Api {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::Release);
        // Wakes the listener, which then ends.
        let _ = TcpStream::connect(self.address);
    }
}

impl Shared {
    fn memory(&self) -> std::sync::MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, stream: &TcpStream) -> io::Result<()> {
        let _ = stream.set_nodelay(true);
        let received = Received::read(stream)?;
        if received.method == "CONNECT" || !received.target.starts_with('/') {
            self.memory().strangers.push(received.target.clone());
            let body = json!({"error": "tests talk to nobody else"});
            return Reply::json(403, &body).send(stream);
        }
        let body = serde_json::from_slice(&received.body).unwrap_or(Value::Null);
        let is_post = received.method == "POST";
        let asked = Asked::read(received.path(), &body, key(&received)).filter(|_| is_post);
        let Some(asked) = asked else {
            return self.besides(&received).send(stream);
        };
        let turn = self.take(&asked);
        self.answer(&turn, &asked, stream)
    }

    /// Answers requests that are not for a model.
    fn besides(&self, received: &Received) -> Reply {
        let path = received.path();
        if path.ends_with("count_tokens") || path.ends_with(":countTokens") {
            return Reply::json(200, &json!({"input_tokens": 100, "totalTokens": 100}));
        }
        // Codex prefers a web socket; if there is none, it uses plain requests.
        if !received.header("upgrade").is_empty() {
            return Reply::json(426, &json!({"error": {"message": "no web sockets here"}}));
        }
        if path.ends_with("/models") {
            return Reply::json(200, &json!({"object": "list", "data": [], "models": []}));
        }
        self.memory().unknown.push(format!("{} {}", received.method, received.target));
        Reply::json(
            404,
            &json!({"type": "error", "error": {"type": "not_found_error", "message": "nothing here"}}),
        )
    }

    /// The turn for this request. Side requests are answered without one.
    fn take(&self, asked: &Asked) -> Turn {
        let mut memory = self.memory();
        memory.asked.push(asked.clone());
        if asked.is_aside() {
            return Turn::say("A title");
        }
        let script = asked.script().and_then(|name| memory.scripts.get_mut(name));
        script.and_then(Script::next).unwrap_or_else(|| Turn::say("The script has no more turns."))
    }

    fn answer(&self, turn: &Turn, asked: &Asked, stream: &TcpStream) -> io::Result<()> {
        let serial = self.serial.fetch_add(1, Ordering::Relaxed);
        if let Turn::Refuse(refusal) = *turn {
            return asked.dialect.refusal(refusal, now()).send(stream);
        }
        let parts = parts(turn, asked);
        if !asked.streams {
            return Reply::json(200, &asked.dialect.whole(&parts, asked, serial)).send(stream);
        }
        let mut events = asked.dialect.events(&parts, asked, serial);
        let is_cut = matches!(turn, Turn::Stall | Turn::Break);
        if is_cut {
            events.truncate(events.len() / 2);
        }
        begin_events(stream)?;
        for event in &events {
            send_event(stream, event)?;
        }
        match turn {
            Turn::Stall => {
                wait_for_leave(stream);
                Ok(())
            }
            Turn::Break => stream.shutdown(Shutdown::Both),
            _ => end_events(stream),
        }
    }
}

/// The key of a request, in the header that its vendor uses.
fn key(received: &Received) -> String {
    let places = ["x-api-key", "authorization", "x-goog-api-key"];
    let found = places.into_iter().map(|name| received.header(name)).find(|value| !value.is_empty());
    found.unwrap_or_default().trim_start_matches("Bearer ").to_owned()
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
