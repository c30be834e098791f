//! The members of the crew.

use regatta_core::time::counted;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::schemars::{self, JsonSchema};
use rmcp::{tool, tool_router};
use serde::Deserialize;
use serde_json::json;

use crate::mcp::answer::{Answer, ToolResult, refusal};
use crate::mcp::{Authority, Server, input};
use regatta_ops::crew::HeartbeatRequest;
use regatta_ops::documents::crew::crew;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Register {
    /// Your name: letters, digits, '.', '_' and '-'.
    name: String,
    /// Your role: leader, architect, developer, tester, general, reviewer, or any other word.
    role: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Heartbeat {
    /// The task that you hold and are working on.
    #[serde(alias = "current_task", alias = "task_id")]
    task: Option<String>,
    /// What you are doing, in a few words.
    status: Option<String>,
    /// Act as this member; by default the one that registered here.
    #[serde(rename = "as")]
    who: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListInstances {
    /// Include members who have left.
    #[serde(default)]
    all: bool,
}

#[tool_router(router = crew_tools, vis = "pub(super)")]
impl Server {
    /// Join the crew under a name, with a role. You are a member as long as this server runs.
    #[tool(annotations(read_only_hint = false, destructive_hint = false, open_world_hint = false))]
    async fn register_instance(&self, Parameters(args): Parameters<Register>) -> ToolResult {
        let name = input::name("name", &args.name)?;
        let role = input::role(args.role.as_deref().unwrap_or("general"))?;
        if let Some(before) = self.registered()
            && !before.is(&name)
            && self.store().members().await?.iter().any(|member| member.is_there && member.name.is(&before))
        {
            return Err(refusal(
                format!("this server already acts for {before}"),
                "start another server for a second member, or name them with `as`",
            )
            .into());
        }
        let member = self.desk.join(&name, &role).await?;
        self.remember(member.name.clone());
        Ok(Answer::said(format!("{} is in the crew as {}", member.name, member.role), &member))
    }

    /// Report that you are alive and, with `task`, which task you are working on.
    #[tool(annotations(
        read_only_hint = false,
        destructive_hint = false,
        idempotent_hint = true,
        open_world_hint = false
    ))]
    async fn heartbeat(&self, Parameters(args): Parameters<Heartbeat>) -> ToolResult {
        if let Authority::Worker { task, attempt, .. } = &self.authority {
            return self.worker_heartbeat(task, *attempt, args.status).await;
        }
        let who = input::speaker(args.who.as_deref(), self.registered())?;
        let member = self.desk.crew.heartbeat(&HeartbeatRequest { who, task: args.task }).await?;
        Ok(Answer::said(format!("{}: heartbeat recorded", member.name), &member))
    }

    /// List crew members and running agents: their roles, and what each is doing.
    #[tool(annotations(read_only_hint = true, open_world_hint = false))]
    async fn list_instances(&self, Parameters(args): Parameters<ListInstances>) -> ToolResult {
        let mut found = crew(self.store()).await?;
        found.retain(|member| args.all || member.status != "gone");
        Ok(Answer::found(count(found.len(), "instance"), &json!({ "instances": found })))
    }

    /// Show Regatta's health: its store, task counts by state, the crew, and whether a daemon is running.
    #[tool(annotations(read_only_hint = true, open_world_hint = false))]
    async fn server_status(&self) -> ToolResult {
        let counts = self.store().counts(None).await?;
        let tasks: serde_json::Map<_, _> =
            counts.into_iter().map(|(state, n)| (state.to_string(), n.into())).collect();
        let here = crew(self.store()).await?.iter().filter(|one| one.status != "gone").count();
        let takers = self.desk.takers().await?;
        let (who, name) = match &self.authority {
            Authority::Operator => ("operator", self.registered().map(|name| name.to_string())),
            Authority::Worker { task, .. } => ("worker", Some(task.to_string())),
        };
        let document = json!({
            "status": "ok",
            "version": env!("CARGO_PKG_VERSION"),
            "store": self.store().describe(),
            "authority": who,
            "name": name,
            "tasks": tasks,
            "instances": here,
            "queue": takers,
        });
        Ok(Answer::found("Regatta is up", &document))
    }
}

/// Formats `3 tasks`.
pub(super) fn count(n: usize, what: &str) -> String {
    match n {
        0 => format!("no {what}s"),
        n => counted(n, what),
    }
}
