//! A server over HTTP: on one address, with one token, for any number of clients.
//!
//! Invariant: a client without the token gets no answer, and neither does a page of another site in a browser on this
//! machine (`Host` and `Origin` are checked).

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::TcpListener;

use super::Server;
use super::limited::Limited;

/// The path of the protocol.
pub const PATH: &str = "/mcp";
/// The longest request, in bytes.
const LONGEST_REQUEST_BYTES: usize = 4 * 1024 * 1024;

/// Who may connect.
pub struct Door {
    /// The token that every request has to carry, as `Authorization: Bearer TOKEN`.
    pub token: String,
    /// Names of this machine, besides those of the loopback interface.
    pub hosts: Vec<String>,
}

/// Serves on `listener` until `end` completes. Each client gets its own server from `make`.
pub async fn serve(
    listener: TcpListener,
    door: Door,
    make: impl Fn() -> Server + Send + Sync + 'static,
    end: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let own = listener.local_addr()?;
    let loopback = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
    let hosts: Vec<String> = loopback.into_iter().chain(door.hosts).chain(named(own)).collect();
    let origin = |host: &String| {
        let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
        ["http", "https"].map(|scheme| format!("{scheme}://{host}:*"))
    };
    let own_hosts = hosts.clone();
    let origins: Vec<String> = hosts.iter().flat_map(origin).collect();
    let config = StreamableHttpServerConfig::default()
        .with_allowed_hosts(hosts)
        .with_allowed_origins(origins)
        .with_max_request_body_bytes(LONGEST_REQUEST_BYTES);
    let ending = config.cancellation_token.clone();
    let sessions = Arc::new(LocalSessionManager::default());
    let service = StreamableHttpService::new(move || Ok(make()), sessions, config);
    let guard = Arc::new(Guard { token: door.token, hosts: own_hosts });
    let router = Router::new()
        .route_service(PATH, service)
        .fallback(|| async {
            (StatusCode::NOT_FOUND, format!("there is nothing here; the protocol is spoken at {PATH}\n"))
        })
        .layer(from_fn_with_state(guard, check));
    let end = async move {
        end.await;
        ending.cancel();
    };
    axum::serve(Limited::new(listener), router).with_graceful_shutdown(end).await
}

fn named(own: SocketAddr) -> Option<String> {
    (!own.ip().is_unspecified()).then(|| own.ip().to_string())
}

/// What every request is checked against.
struct Guard {
    token: String,
    hosts: Vec<String>,
}

/// Whether an `Origin` is exactly this machine: a scheme, one of its names, and a port if any.
fn is_own(origin: &str, hosts: &[String]) -> bool {
    let rest = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    let Some(rest) = rest else { return false };
    let (host, port) = match rest.strip_prefix('[') {
        Some(inside) => match inside.split_once(']') {
            Some((host, port)) => (host, port),
            None => return false,
        },
        None => rest.split_at(rest.find(':').unwrap_or(rest.len())),
    };
    let is_port =
        port.is_empty() || port.strip_prefix(':').is_some_and(|digits| digits.parse::<u16>().is_ok());
    is_port && hosts.iter().any(|own| own.eq_ignore_ascii_case(host))
}

/// Passes requests that have the token and do not come from a page of another site.
async fn check(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    let origin = request.headers().get(header::ORIGIN);
    if origin.is_some_and(|origin| !origin.to_str().is_ok_and(|origin| is_own(origin, &guard.hosts))) {
        let why = "requests from pages of other sites are refused\n";
        return (StatusCode::FORBIDDEN, [(header::CONNECTION, "close")], why).into_response();
    }
    let given = request.headers().get(header::AUTHORIZATION).map(|value| value.as_bytes());
    let given = given.and_then(|value| {
        let (scheme, rest) = value.split_at_checked("bearer ".len())?;
        scheme.eq_ignore_ascii_case(b"bearer ").then_some(rest)
    });
    if given.is_some_and(|given| is_same(given, guard.token.as_bytes())) {
        next.run(request).await
    } else {
        let why = "this server needs its token: send `Authorization: Bearer TOKEN`; the server printed the path of the token file when it started\n";
        let headers = [(header::WWW_AUTHENTICATE, "Bearer"), (header::CONNECTION, "close")];
        (StatusCode::UNAUTHORIZED, headers, why).into_response()
    }
}

/// Compares in constant time, so that the duration does not reveal where the difference is.
fn is_same(given: &[u8], wanted: &[u8]) -> bool {
    let mut differs = given.len() ^ wanted.len();
    for (n, byte) in given.iter().enumerate() {
        let other = wanted.get(n % wanted.len().max(1)).copied().unwrap_or(0);
        differs |= usize::from(byte ^ other);
    }
    std::hint::black_box(differs) == 0 && !wanted.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server's answer to these bytes, up to the end of its first line.
    async fn answered(head: &str, body: &[u8]) -> String {
        use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _};
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let door = Door { token: "secret".to_owned(), hosts: Vec::new() };
        let make = || -> Server { unreachable!("no request comes so far") };
        let server = tokio::spawn(serve(listener, door, make, std::future::pending()));
        let client = tokio::net::TcpStream::connect(address).await.unwrap();
        let (read, mut write) = client.into_split();
        let sent = async {
            // The server may close the connection before it has read everything.
            let _ = write.write_all(head.as_bytes()).await;
            let _ = write.write_all(body).await;
        };
        let mut line = String::new();
        let mut read = tokio::io::BufReader::new(read);
        let (_, answer) = tokio::join!(sent, read.read_line(&mut line));
        answer.unwrap();
        server.abort();
        line.trim_end().to_owned()
    }

    #[tokio::test]
    async fn a_request_that_is_too_long_is_refused_and_one_without_the_token_before_it_is_read() {
        let head = |token: &str, length: usize| {
            format!(
                "POST {PATH} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\
                 Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
                 Content-Length: {length}\r\n\r\n"
            )
        };
        let long = vec![b' '; LONGEST_REQUEST_BYTES + 1];
        assert_eq!(answered(&head("secret", long.len()), &long).await, "HTTP/1.1 413 Payload Too Large");
        assert_eq!(answered(&head("guess", long.len()), b"").await, "HTTP/1.1 401 Unauthorized");
        // A body that is just short enough is read, and refused because it is no JSON.
        let line = answered(&head("secret", LONGEST_REQUEST_BYTES), &long[1..]).await;
        assert!(line.starts_with("HTTP/1.1 4") && !line.contains("413"), "{line}");
    }

    #[test]
    fn only_this_machine_is_an_origin() {
        let hosts = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
        for own in ["http://localhost", "http://localhost:3000", "https://127.0.0.1:1", "http://[::1]:80"] {
            assert!(is_own(own, &hosts), "{own}");
        }
        let strangers = [
            "http://localhost:3000.evil.com",
            "http://localhost.evil.com",
            "http://evil.com",
            "http://localhost:",
            "http://localhost:99999",
            "http://localhost:80@evil.com",
            "http://[::1].evil.com",
            "null",
            "localhost",
            "",
        ];
        for stranger in strangers {
            assert!(!is_own(stranger, &hosts), "{stranger}");
        }
    }

    #[test]
    fn only_the_token_itself_is_the_token() {
        assert!(is_same(b"secret", b"secret"));
        for wrong in ["", "secre", "secrets", "secretsecret", "Secret"] {
            assert!(!is_same(wrong.as_bytes(), b"secret"), "{wrong}");
        }
        assert!(!is_same(b"", b""));
    }
}
