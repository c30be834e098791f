//! The tools by what they are about. Each reads its arguments, lets the host or the store act, and says what came of it.

mod board;
mod context;
mod crew;
mod messages;
mod tasks;
mod work;

use rmcp::handler::server::router::tool::ToolRouter;

use super::Server;

impl Server {
    /// Every tool there is, for whomever it may be.
    pub(super) fn all_tools() -> ToolRouter<Self> {
        Self::crew_tools()
            + Self::board_tools()
            + Self::message_tools()
            + Self::context_tools()
            + Self::task_tools()
            + Self::work_tools()
    }
}
