//! A server on standard input and output. Standard output carries only the protocol.

use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::io::{stdio, stdio_pipes};
use rmcp::{RoleServer, ServiceExt};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite};

use super::Server;

/// The longest line to read, in bytes.
const LONGEST_LINE_BYTES: usize = 4 * 1024 * 1024;

/// Serves until the client closes standard input.
pub async fn serve(server: Server) -> Result<(), String> {
    let (input, output) = stdio_pipes();
    over(server, input, output).await
}

/// The same for a client of whom these bytes were read already, over FIFOs. They are used as they are: a FIFO that is
/// opened again after its writers have gone never reports its end.
pub async fn serve_after(server: Server, read: Vec<u8>) -> Result<(), String> {
    let (input, output) = stdio();
    over(server, std::io::Cursor::new(read).chain(input), output).await
}

async fn over<R, W>(server: Server, input: R, output: W) -> Result<(), String>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let transport =
        AsyncRwTransport::<RoleServer, _, _>::new(input, output).with_max_line_length(LONGEST_LINE_BYTES);
    let running = match server.serve(transport).await {
        Ok(running) => running,
        // The client has gone or never sent a request; that is no error.
        Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => return Err(error.to_string()),
    };
    running.waiting().await.map(drop).map_err(|error| error.to_string())
}
