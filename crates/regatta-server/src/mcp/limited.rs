//! Limits connections: their number, and how long one may stay open without a request.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Sleep, sleep};

/// The maximum number of connections at once; further ones wait.
const MOST_CONNECTIONS: usize = 256;
/// How long a client may take for the head of its first request.
const HEAD: Duration = Duration::from_secs(10);

/// A listener that hands out at most [`MOST_CONNECTIONS`] connections.
pub(super) struct Limited {
    listener: TcpListener,
    room: Arc<Semaphore>,
}

impl Limited {
    pub(super) fn new(listener: TcpListener) -> Self {
        Self { listener, room: Arc::new(Semaphore::new(MOST_CONNECTIONS)) }
    }
}

impl Listener for Limited {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        let permit = self.room.clone().acquire_owned().await.expect("it is never closed");
        let (stream, address) = Listener::accept(&mut self.listener).await;
        (Connection { stream, waiting: Some(Box::pin(sleep(HEAD))), end: 0, _permit: permit }, address)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// One connection. The time limit applies until the head of the first request has arrived.
pub(super) struct Connection {
    stream: TcpStream,
    waiting: Option<Pin<Box<Sleep>>>,
    /// How many bytes of the empty line at the end of a head were seen last.
    end: usize,
    _permit: OwnedSemaphorePermit,
}

impl Connection {
    fn look(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.end = match (self.end, byte) {
                (0 | 2, b'\r') | (1 | 3, b'\n') => self.end + 1,
                (_, b'\r') => 1,
                _ => 0,
            };
            if self.end == 4 {
                self.waiting = None;
                return;
            }
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(waiting) = &mut self.waiting
            && waiting.as_mut().poll(cx).is_ready()
        {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        if self.waiting.is_some() {
            let bytes = buf.filled()[before..].to_vec();
            self.look(&bytes);
        }
        read
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    #[tokio::test]
    async fn the_next_connection_waits_until_one_ends() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut limited = Limited { listener, room: Arc::new(Semaphore::new(1)) };
        let _clients =
            (TcpStream::connect(address).await.unwrap(), TcpStream::connect(address).await.unwrap());
        let (first, _) = limited.accept().await;
        {
            let mut next = std::pin::pin!(limited.accept());
            let now = std::future::poll_fn(|cx| Poll::Ready(next.as_mut().poll(cx).is_ready())).await;
            assert!(!now, "there is room for one");
        }
        drop(first);
        limited.accept().await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_sends_no_request_loses_its_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut limited = Limited::new(listener);
        let mut client = TcpStream::connect(address).await.unwrap();
        let (mut connection, _) = limited.accept().await;
        client.write_all(b"POST /mcp HTTP/1.1\r\n").await.unwrap();
        let mut all = Vec::new();
        let ended = connection.read_to_end(&mut all).await;
        assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::TimedOut);

        let mut client = TcpStream::connect(address).await.unwrap();
        let (mut connection, _) = limited.accept().await;
        client.write_all(b"POST /mcp HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        let mut head = [0; 31];
        connection.read_exact(&mut head).await.unwrap();
        assert!(connection.waiting.is_none());
    }
}
