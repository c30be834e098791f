//! The tools by topic. Each parses its arguments, calls an operation, and reports the result.

mod board;
mod context;
mod crew;
mod messages;
mod tasks;
mod work;

use std::sync::Arc;

use rmcp::handler::server::router::tool::ToolRouter;
use serde_json::Value;

use super::Server;

impl Server {
    /// All tools, for every authority.
    pub(super) fn all_tools() -> ToolRouter<Self> {
        let mut tools = Self::crew_tools()
            + Self::board_tools()
            + Self::message_tools()
            + Self::context_tools()
            + Self::task_tools()
            + Self::work_tools();
        for route in tools.map.values_mut() {
            of_one_type(Arc::make_mut(&mut route.attr.input_schema));
        }
        tools
    }
}

/// Makes optional values of one type instead of that type or `null`, because some clients know only one type per value.
fn of_one_type(schema: &mut rmcp::model::JsonObject) {
    let Some(Value::Object(properties)) = schema.get_mut("properties") else { return };
    for property in properties.values_mut() {
        if let Some(types) = property["type"].as_array_mut() {
            types.retain(|name| name != "null");
            if let [one] = types.as_slice() {
                property["type"] = one.clone();
            }
        }
    }
}
