//! The tools by what they are about. Each reads its arguments, lets the host or the store act, and says what came of it.

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
    /// Every tool there is, for whomever it may be.
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

/// What may be left out need not be `null` as well: some clients know only one type for a value.
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
