//! One server for one client: its tools, resources and prompts under its authority.

use std::sync::{Arc, Mutex};

use regatta_core::crew::MemberName;
use regatta_store::Store;
use rmcp::handler::server::router::tool::ToolRouter;
use rmcp::handler::server::tool::{IntoCallToolResult, ToolCallContext};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, GetPromptRequestParams, GetPromptResponse, Implementation,
    ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
    PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse, ServerCapabilities,
    ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::{ErrorData, ServerHandler};

use super::answer::{Refused, refusal};
use super::{Authority, Desk, SERVER_NAME, input, prompts, resources};

const FOR_OPERATORS: &str = "\
Regatta runs coding agents side by side, each on its own task in its own git worktree, checks what they made and lands it. \
To have several things done in parallel: `enqueue` one task for each (they must not edit the same files; name in `deps` what \
has to come first), look with `list_tasks` and `status`, and at what would conflict with `radar`. The tools of the crew \
(register_instance, push_task, claim_task, send_message, set_context …) are for people and agents who work together by hand.";

const FOR_WORKERS: &str = "\
You are the agent of one task that Regatta runs unattended. Say now and then what you are at with `progress`. When you are \
finished, and have checked your work, call `done` once with your verdict; if only a person can help, call `stuck` and stop.";

/// A server. Cheap to clone; clones share their state.
#[derive(Clone)]
pub struct Server {
    pub(super) desk: Arc<Desk>,
    pub(super) authority: Authority,
    /// The member that registered here.
    registered: Arc<Mutex<Option<MemberName>>>,
    tools: ToolRouter<Self>,
}

impl Server {
    /// A server with this authority, acting as `member` if one is named.
    pub fn new(desk: Arc<Desk>, authority: Authority, member: Option<MemberName>) -> Self {
        let mut tools = Self::all_tools();
        let names: Vec<String> = tools.map.keys().map(ToString::to_string).collect();
        for name in names.iter().filter(|name| !authority.allows(name)) {
            tools.remove_route(name);
        }
        Self { desk, authority, registered: Arc::new(Mutex::new(member)), tools }
    }

    pub(super) fn store(&self) -> &dyn Store {
        self.desk.store()
    }

    /// The member that registered here, if any.
    pub(super) fn registered(&self) -> Option<MemberName> {
        self.registered.lock().expect("nobody panics here").clone()
    }

    /// From now on this server acts as that member.
    pub(super) fn remember(&self, member: MemberName) {
        *self.registered.lock().expect("nobody panics here") = Some(member);
    }

    async fn call(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let name = request.name.to_string();
        if !self.tools.has_route(&name) {
            let why = if Self::all_tools().has_route(&name) {
                self.authority.refusal(&name)
            } else {
                format!("there is no tool {name:?}")
            };
            return Refused::from(refusal(why, "tools/list shows the tools")).into_call_tool_result();
        }
        let size = request
            .arguments
            .as_ref()
            .map_or(0, |arguments| serde_json::to_vec(arguments).map_or(usize::MAX, |bytes| bytes.len()));
        if size > input::MOST_ARGUMENT_BYTES {
            let why = format!(
                "the arguments have {size} bytes; at most {} are allowed",
                input::MOST_ARGUMENT_BYTES
            );
            let refused = refusal(why, "write the text to a file and give its path");
            return Refused::from(refused).into_call_tool_result();
        }
        if let Some(member) = self.registered() {
            self.desk.heard(&member).await;
        }
        self.tools.call(ToolCallContext::new(self, request, context)).await
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let instructions = match self.authority {
            Authority::Operator => FOR_OPERATORS,
            Authority::Worker { .. } => FOR_WORKERS,
        };
        let capabilities =
            ServerCapabilities::builder().enable_tools().enable_resources().enable_prompts().build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new(SERVER_NAME, env!("CARGO_PKG_VERSION")))
            .with_instructions(instructions)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult { tools: self.tools.list_all(), ..ListToolsResult::default() })
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.tools.get(name).cloned()
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.call(request, context).await
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        resources::list(self).await
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(resources::templates())
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        resources::read(self, &request.uri).await.map(Into::into)
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Ok(prompts::list(&self.authority))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        prompts::get(self, &request.name, &request.arguments.unwrap_or_default()).await.map(Into::into)
    }
}
