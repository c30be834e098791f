//! Values that the whole crew shares.

use regatta_store::{ContextQuery, MAX_CONTEXT_KEY, MAX_CONTEXT_VALUE};
use rmcp::handler::server::wrapper::Parameters;
use rmcp::schemars::{self, JsonSchema};
use rmcp::{tool, tool_router};
use serde::Deserialize;
use serde_json::json;

use super::crew::count;
use crate::mcp::answer::{Answer, ToolResult, refusal};
use crate::mcp::{Server, input};
use regatta_ops::crew::{DeleteContextRequest, SetContextRequest};
use regatta_ops::documents::crew::ContextDocument;

/// The maximum number of keys listed.
const MOST_KEYS: usize = 1000;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Set {
    /// The key.
    key: String,
    /// The value, of at most 64 KiB.
    value: String,
    /// Only if the value has this version; 0 means it must not exist yet.
    if_version: Option<u64>,
    /// Act as this member; by default the one that registered here.
    #[serde(rename = "as")]
    who: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Get {
    /// The key.
    key: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Delete {
    /// The key.
    key: String,
    /// Only if the value has this version.
    if_version: Option<u64>,
    /// Act as this member; by default the one that registered here.
    #[serde(rename = "as")]
    who: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListKeys {
    /// Only keys that start with this.
    #[serde(default)]
    prefix: String,
}

#[tool_router(router = context_tools, vis = "pub(super)")]
impl Server {
    /// Write a value that all crew members and agents can read.
    #[tool(annotations(
        read_only_hint = false,
        destructive_hint = false,
        idempotent_hint = true,
        open_world_hint = false
    ))]
    async fn set_context(&self, Parameters(args): Parameters<Set>) -> ToolResult {
        let request = SetContextRequest {
            who: input::speaker(args.who.as_deref(), self.registered())?,
            key: input::text("key", args.key, MAX_CONTEXT_KEY)?,
            value: input::bounded("value", args.value, MAX_CONTEXT_VALUE)?,
            if_version: args.if_version,
            epoch: None,
        };
        let entry = self.desk.crew.set_context(&request).await?;
        Ok(Answer::said(format!("{} is now at version {}", entry.key, entry.version), &entry))
    }

    /// Read a value of the shared context.
    #[tool(annotations(read_only_hint = true, open_world_hint = false))]
    async fn get_context(&self, Parameters(args): Parameters<Get>) -> ToolResult {
        match self.store().context(&args.key).await? {
            Some(entry) => {
                let text = format!("{}, version {}", entry.key, entry.version);
                Ok(Answer::found(text, &ContextDocument::from(&entry)))
            }
            None => {
                Err(refusal(format!("there is no value {:?}", args.key), "list_context_keys shows the keys")
                    .into())
            }
        }
    }

    /// Delete a value.
    #[tool(annotations(
        read_only_hint = false,
        destructive_hint = true,
        idempotent_hint = true,
        open_world_hint = false
    ))]
    async fn delete_context(&self, Parameters(args): Parameters<Delete>) -> ToolResult {
        let who = input::speaker(args.who.as_deref(), self.registered())?;
        let (key, if_version) = (args.key, args.if_version);
        let request = DeleteContextRequest { who, key, if_version, epoch: None };
        let entry = self.desk.crew.delete_context(&request).await?;
        Ok(Answer::said(format!("{} is gone", entry.key), &entry))
    }

    /// List the keys of the shared context, with their versions.
    #[tool(annotations(read_only_hint = true, open_world_hint = false))]
    async fn list_context_keys(&self, Parameters(args): Parameters<ListKeys>) -> ToolResult {
        let found = self.store().contexts(&ContextQuery { prefix: args.prefix, after: None }).await?;
        let keys: Vec<_> = found
            .iter()
            .take(MOST_KEYS)
            .map(
                |entry| json!({ "key": entry.key, "version": entry.version, "by": entry.by, "at": entry.at }),
            )
            .collect();
        let left_out = found.len() - keys.len();
        Ok(Answer::found(count(found.len(), "key"), &json!({ "keys": keys, "left_out": left_out })))
    }
}
