//! MCP servers in the form of `--mcp-config`.

use std::path::Path;

use regatta_core::bounds::McpServer;
use serde_json::{Map, Value, json};

use crate::agents::launch::OWN_SERVER;

/// The file's text; `own` is Regatta itself with the variables it needs, if it is one of them.
pub(super) fn as_json<'a>(
    servers: impl Iterator<Item = (&'a str, &'a McpServer)>,
    own: Option<(&Path, &[&str])>,
) -> String {
    let entry = |server: &McpServer| match server {
        McpServer::Program { command, args, env } => json!({ "command": command, "args": args, "env": env }),
        McpServer::Remote { url, headers } => json!({ "type": "http", "url": url, "headers": headers }),
    };
    let mut all: Map<String, Value> =
        servers.map(|(name, server)| (name.to_owned(), entry(server))).collect();
    if let Some((regatta, variables)) = own {
        // Claude fills in the values from its own environment, so that the token is in no file.
        let env: Map<String, Value> =
            variables.iter().map(|name| ((*name).to_owned(), format!("${{{name}}}").into())).collect();
        all.insert(OWN_SERVER.to_owned(), json!({ "command": regatta, "args": ["mcp"], "env": env }));
    }
    json!({ "mcpServers": all }).to_string()
}
