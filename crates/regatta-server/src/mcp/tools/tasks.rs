//! Tasks for agents, and their progress.

use rmcp::handler::server::wrapper::Parameters;
use rmcp::schemars::{self, JsonSchema};
use rmcp::{tool, tool_router};
use serde::Deserialize;
use serde_json::json;

use super::board::priority;
use super::crew::count;
use crate::mcp::answer::{Answer, ToolResult, refusal};
use crate::mcp::{Authority, Server, input};
use regatta_ops::tasks::{AddRequest, EnqueueRequest, Source};
use regatta_ops::{Refusal, look};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Enqueue {
    /// What one agent is to do, with all it needs to know: it sees only the repository and this text.
    prompt: Option<String>,
    /// With `prompt`: its id, short and descriptive; GEN-001 and so on by default.
    id: Option<String>,
    /// With `prompt`: one line for people.
    title: Option<String>,
    /// With `prompt`: ids of tasks whose work it needs. It starts when they have landed or are done.
    #[serde(default)]
    deps: Vec<String>,
    /// With `prompt`: the entry of `agents` in regatta.yaml to use.
    agent: Option<String>,
    /// With `prompt`: higher numbers start first.
    priority: Option<i32>,
    /// With `prompt`: land the work if it passes, even if regatta.yaml does not say so.
    #[serde(default)]
    land: bool,
    /// Instead of `prompt`: the Markdown of a task file or of a whole plan.
    plan: Option<String>,
    /// Instead of `prompt`: task files, plans, directories of them, or ids of files in tasks/.
    #[serde(default)]
    files: Vec<String>,
    /// With `plan` or `files`: start existing tasks over, unless they are being worked on.
    #[serde(default)]
    replace: bool,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Status {
    /// The task, or the beginning of its id; by default an agent's own.
    #[serde(alias = "task_id", alias = "id")]
    task: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Radar {
    /// Only findings about this task.
    #[serde(alias = "task_id", alias = "id")]
    task: Option<String>,
}

#[tool_router(router = task_tools, vis = "pub(super)")]
impl Server {
    /// Queue a task for an agent in its own git worktree, beside others. Returns at once; `regatta daemon` starts it.
    #[tool(annotations(read_only_hint = false, destructive_hint = false, open_world_hint = false))]
    async fn enqueue(&self, Parameters(args): Parameters<Enqueue>) -> ToolResult {
        let project = &self.desk.crew.project;
        let enqueued = match order(args)? {
            Order::Add(request) => project.add(&request).await?,
            Order::Enqueue(request) => project.enqueue(&request).await?,
        };
        let changes = enqueued.document().await?;
        let ids: Vec<String> = changes.tasks.iter().map(|changed| changed.task.id.to_string()).collect();
        let takers = self.desk.takers().await?;
        Ok(Answer::said(
            format!("enqueued {}: {}; {takers}", count(ids.len(), "task"), ids.join(", ")),
            &changes,
        ))
    }

    /// Show one task: state, attempts, verdicts, evidence, cost, where its work is, and what to do next.
    #[tool(annotations(read_only_hint = true, open_world_hint = false))]
    async fn status(&self, Parameters(args): Parameters<Status>) -> ToolResult {
        let task = match (args.task, &self.authority) {
            (Some(task), _) => task,
            (None, Authority::Worker { task, .. }) => task.to_string(),
            (None, Authority::Operator) => {
                return Err(refusal("`task` is missing", "list_tasks shows the tasks").into());
            }
        };
        let status = self.desk.status(&task).await?;
        let reason = status.reason.as_ref().map_or_else(String::new, |why| format!(" ({why})"));
        Ok(Answer::found(format!("{} is {}{reason}", status.id, status.state), &status))
    }

    /// Show whose work would conflict before it lands: running agents, waiting work, and the target branch.
    #[tool(annotations(read_only_hint = true, open_world_hint = false))]
    async fn radar(&self, Parameters(args): Parameters<Radar>) -> ToolResult {
        match self.desk.radar(args.task.as_deref()).await? {
            None => Ok(Answer::said("nothing is under way", &json!({ "findings": [] }))),
            Some(seen) => {
                let n = seen.findings.len();
                Ok(Answer::found(format!("{} of tasks that share files", count(n, "pair")), &seen))
            }
        }
    }

    /// Show the train: what waits to land on the target, in order, what is under test, and what landed last.
    #[tool(annotations(read_only_hint = true, open_world_hint = false))]
    async fn land_status(&self) -> ToolResult {
        let train = look::train::train(&self.desk.crew.project).await?;
        Ok(Answer::found(format!("{} in the train", count(train.cars.len(), "car")), &train))
    }
}

/// What to queue.
enum Order {
    /// One task from a prompt.
    Add(AddRequest),
    /// A plan, or files.
    Enqueue(EnqueueRequest),
}

fn order(args: Enqueue) -> Result<Order, Refusal> {
    let ways = [args.prompt.is_some(), args.plan.is_some(), !args.files.is_empty()];
    if ways.iter().filter(|way| **way).count() != 1 {
        return Err(refusal(
            "give exactly one of `prompt`, `plan` and `files`",
            "`prompt` for one task, `plan` for the Markdown of several",
        ));
    }
    if let Some(prompt) = args.prompt {
        let deps = input::ids("deps", &args.deps)?;
        return Ok(Order::Add(AddRequest {
            prompt: input::text("prompt", prompt, input::MOST_ARGUMENT_BYTES)?,
            id: args.id.as_deref().map(|text| input::id("id", text)).transpose()?,
            title: args.title,
            deps: (!deps.is_empty()).then_some(deps),
            agent: args.agent,
            priority: args.priority.map(priority).transpose()?,
            land: args.land,
            ..AddRequest::default()
        }));
    }
    let of_prompt =
        args.id.is_some() || args.title.is_some() || !args.deps.is_empty() || args.agent.is_some();
    if of_prompt || args.priority.is_some() || args.land {
        return Err(refusal(
            "`id`, `title`, `deps`, `agent`, `priority` and `land` go with `prompt`",
            "write them into the front matter of the plan",
        ));
    }
    let source = match args.plan {
        Some(text) => Source::Text(input::text("plan", text, input::MOST_ARGUMENT_BYTES)?),
        None => Source::Files(args.files),
    };
    Ok(Order::Enqueue(EnqueueRequest { replace: args.replace, ..EnqueueRequest::new(source) }))
}
