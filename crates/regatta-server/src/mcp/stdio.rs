//! A server over its standard streams. Standard output carries nothing but the protocol.

use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::io::stdio_pipes;
use rmcp::{RoleServer, ServiceExt};

use super::Server;

/// The longest line that is read, in bytes.
const LONGEST: usize = 4 * 1024 * 1024;

/// Serves until the other side closes standard input.
pub async fn serve(server: Server) -> Result<(), String> {
    let (input, output) = stdio_pipes();
    let transport = AsyncRwTransport::<RoleServer, _, _>::new(input, output).with_max_line_length(LONGEST);
    let running = match server.serve(transport).await {
        Ok(running) => running,
        // Whoever started it has gone, or never spoke: nothing was asked, and nothing is missing.
        Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => return Err(error.to_string()),
    };
    running.waiting().await.map(drop).map_err(|error| error.to_string())
}
