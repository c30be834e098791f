//! MCP servers in the form of `--mcp-config`.

use regatta_core::bounds::McpServer;
use serde_json::{Map, Value, json};

/// The file's text.
pub(super) fn as_json<'a>(servers: impl Iterator<Item = (&'a str, &'a McpServer)>) -> String {
    let entry = |server: &McpServer| match server {
        McpServer::Program { command, args, env } => json!({ "command": command, "args": args, "env": env }),
        McpServer::Remote { url, headers } => json!({ "type": "http", "url": url, "headers": headers }),
    };
    let all: Map<String, Value> = servers.map(|(name, server)| (name.to_owned(), entry(server))).collect();
    json!({ "mcpServers": all }).to_string()
}
