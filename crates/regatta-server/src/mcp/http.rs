//! A server over HTTP: on one address, with one token, for as many clients as come.
//!
//! Invariant: nothing is answered to whoever does not have the token, nor to a page of some other site that a browser on
//! this machine shows (`Host` and `Origin` are looked at).

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

/// Where on the address the protocol is spoken.
pub const PATH: &str = "/mcp";
/// The longest request, in bytes.
const LONGEST: usize = 4 * 1024 * 1024;

/// Who is let in.
pub struct Door {
    /// What every request has to carry, as `Authorization: Bearer TOKEN`.
    pub token: String,
    /// Names by which this machine is reached, beside those of the loopback.
    pub hosts: Vec<String>,
}

/// Serves on `listener` until `end` is over. Each client gets a server of its own from `make`.
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
    let origins: Vec<String> = hosts.iter().flat_map(origin).collect();
    let config = StreamableHttpServerConfig::default()
        .with_allowed_hosts(hosts)
        .with_allowed_origins(origins)
        .with_max_request_body_bytes(LONGEST);
    let ending = config.cancellation_token.clone();
    let sessions = Arc::new(LocalSessionManager::default());
    let service = StreamableHttpService::new(move || Ok(make()), sessions, config);
    let token: Arc<str> = door.token.into();
    let router = Router::new()
        .route_service(PATH, service)
        .fallback(|| async {
            (StatusCode::NOT_FOUND, format!("there is nothing here; the protocol is spoken at {PATH}\n"))
        })
        .layer(from_fn_with_state(token, check));
    let end = async move {
        end.await;
        ending.cancel();
    };
    axum::serve(listener, router).with_graceful_shutdown(end).await
}

fn named(own: SocketAddr) -> Option<String> {
    (!own.ip().is_unspecified()).then(|| own.ip().to_string())
}

/// Lets through who has the token.
async fn check(State(token): State<Arc<str>>, request: Request, next: Next) -> Response {
    let given = request.headers().get(header::AUTHORIZATION).map(|value| value.as_bytes());
    let given = given.and_then(|value| {
        let (scheme, rest) = value.split_at_checked("bearer ".len())?;
        scheme.eq_ignore_ascii_case(b"bearer ").then_some(rest)
    });
    match given.is_some_and(|given| is_same(given, token.as_bytes())) {
        true => next.run(request).await,
        false => {
            let why = "this server wants its token: send `Authorization: Bearer TOKEN`; where it is kept was said when the server started\n";
            (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")], why).into_response()
        }
    }
}

/// Compares without telling by the time it takes where the difference is.
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

    #[test]
    fn only_the_token_itself_is_the_token() {
        assert!(is_same(b"secret", b"secret"));
        for wrong in ["", "secre", "secrets", "secretsecret", "Secret"] {
            assert!(!is_same(wrong.as_bytes(), b"secret"), "{wrong}");
        }
        assert!(!is_same(b"", b""));
    }
}
