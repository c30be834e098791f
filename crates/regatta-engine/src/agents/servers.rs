//! MCP servers as the agents' own settings have them.

use regatta_core::bounds::McpServer;
use serde_json::{Map, Value, json};

/// The form that Claude Code and Gemini CLI share; they differ in the word for where a remote one is.
pub(super) fn as_json<'a>(
    servers: impl Iterator<Item = (&'a str, &'a McpServer)>,
    remote: impl Fn(&str) -> Map<String, Value>,
) -> Value {
    let mut all = Map::new();
    for (name, server) in servers {
        let server = match server {
            McpServer::Program { command, args, env } => {
                json!({ "command": command, "args": args, "env": env })
            }
            McpServer::Remote { url, headers } => {
                let mut server = remote(url);
                server.insert("headers".to_owned(), json!(headers));
                Value::Object(server)
            }
        };
        all.insert(name.to_owned(), server);
    }
    json!({ "mcpServers": all })
}
