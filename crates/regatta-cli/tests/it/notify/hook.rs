//! The other end of a webhook: a server on this machine that takes, refuses or ignores requests.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use regatta_testkit::shown::shown;
use regatta_testkit::world::Ran;
use serde_json::Value;

/// Longer than anything takes on a busy machine.
const DEADLINE: Duration = Duration::from_secs(120);

/// What it does with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mood {
    /// Answers with this status.
    Answers(u16),
    /// Reads it and never answers.
    Hangs,
}

/// The server; it runs until the test's process ends.
pub(crate) struct Hook {
    port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    mood: Mutex<Mood>,
    posts: Mutex<Vec<Post>>,
    came: Condvar,
    tls: Option<Arc<rustls::ServerConfig>>,
}

/// A request that was read completely.
#[derive(Clone, Debug)]
pub(crate) struct Post {
    pub(crate) head: String,
    pub(crate) body: Value,
    pub(crate) mood: Mood,
}

impl Hook {
    pub(crate) fn new(mood: Mood) -> Self {
        Self::serve(mood, None)
    }

    /// Over TLS, as `localhost`; also returns the certificate to trust.
    pub(crate) fn with_tls() -> (Self, String) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        (Self::serve(Mood::Answers(200), Some(Arc::new(config))), made.cert.pem())
    }

    fn serve(mood: Mood, tls: Option<Arc<rustls::ServerConfig>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared =
            Arc::new(Shared { mood: Mutex::new(mood), posts: Mutex::default(), came: Condvar::new(), tls });
        let server = shared.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let server = server.clone();
                std::thread::spawn(move || server.talk(stream));
            }
        });
        Self { port, shared }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}/{path}", self.port)
    }

    pub(crate) fn set(&self, mood: Mood) {
        *self.shared.mood.lock().unwrap() = mood;
    }

    /// What a run printed to standard error, with a word in place of the port.
    pub(crate) fn without_port(&self, ran: &Ran) -> String {
        shown(&ran.stderr.replace(&self.port.to_string(), "PORT"))
    }

    /// The requests so far.
    pub(crate) fn posts(&self) -> Vec<Post> {
        self.shared.posts.lock().unwrap().clone()
    }

    /// `kind task` of the requests that were answered successfully, sorted.
    pub(crate) fn told(&self) -> Vec<String> {
        let taken = self.posts().into_iter().filter(|post| post.mood == Mood::Answers(200));
        let mut told: Vec<String> = taken.map(|post| line(&post.body)).collect();
        told.sort();
        told
    }

    /// Waits until this many have come.
    #[track_caller]
    pub(crate) fn wait(&self, n: usize) {
        let posts = self.shared.posts.lock().unwrap();
        let (posts, waited) =
            self.shared.came.wait_timeout_while(posts, DEADLINE, |posts| posts.len() < n).unwrap();
        assert!(!waited.timed_out(), "only {posts:#?}");
    }
}

pub(crate) fn line(body: &Value) -> String {
    let text = |key: &str| body[key].as_str().unwrap_or_default().to_owned();
    format!("{} {}", text("kind"), text("task")).trim_end().to_owned()
}

impl Shared {
    fn talk(&self, stream: TcpStream) {
        match &self.tls {
            None => self.answer(stream),
            Some(config) => {
                let tls = rustls::ServerConnection::new(config.clone()).unwrap();
                self.answer(rustls::StreamOwned::new(tls, stream));
            }
        }
    }

    fn answer(&self, stream: impl Read + Write) {
        let mut stream = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            match stream.read_line(&mut head) {
                Ok(n) if n > 0 => {}
                _ => return,
            }
        }
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
        });
        let mut body = vec![0; length.unwrap_or(0)];
        if stream.read_exact(&mut body).is_err() {
            return;
        }
        let mood = *self.mood.lock().unwrap();
        let body = serde_json::from_slice(&body).unwrap_or_default();
        self.posts.lock().unwrap().push(Post { head, body, mood });
        self.came.notify_all();
        match mood {
            Mood::Answers(status) => {
                let text = format!(
                    "HTTP/1.1 {status} x\r\nlocation: /elsewhere\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok"
                );
                let _ = stream.get_mut().write_all(text.as_bytes());
                let _ = stream.get_mut().flush();
            }
            Mood::Hangs => std::thread::sleep(2 * DEADLINE),
        }
    }
}
