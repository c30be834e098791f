//! The board: tasks that members take by hand.

use regatta_core::verdict::Verdict;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::schemars::{self, JsonSchema};
use rmcp::{tool, tool_router};
use serde::Deserialize;
use serde_json::json;

use super::crew::count;
use crate::mcp::answer::{Answer, ToolResult, refusal};
use crate::mcp::{Server, input};
use regatta_ops::Refusal;
use regatta_ops::crew::{ClaimRequest, CompleteRequest, Held, Pick, PushRequest};
use regatta_ops::documents::crew::board;
use regatta_ops::look;

/// How many tasks are listed by default, and at most.
const LISTED: usize = 100;
const MOST_LISTED: usize = 500;
/// The maximum size of a result in bytes, because it is shown and sent.
const LONGEST_RESULT: usize = 64 * 1024;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Push {
    /// One line that describes it.
    title: String,
    /// What to do, in full.
    description: Option<String>,
    /// Its id; TASK-001 and so on by default.
    id: Option<String>,
    /// Higher numbers are taken first.
    #[serde(default)]
    priority: i32,
    /// Only this member may take it.
    assignee: Option<String>,
    /// Only members with this role may take it.
    role: Option<String>,
    /// Ids of tasks that have to be done first.
    #[serde(default, alias = "depends_on")]
    deps: Vec<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Claim {
    /// The task; by default the next one for you.
    #[serde(alias = "task_id", alias = "id")]
    task: Option<String>,
    /// Make a git worktree for it, whose work is checked and landed when you complete it.
    #[serde(default)]
    lane: bool,
    /// Act as this member; by default the one that registered here.
    #[serde(rename = "as")]
    who: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Complete {
    /// The task.
    #[serde(alias = "task_id", alias = "id")]
    task: String,
    /// The result.
    #[serde(default)]
    result: String,
    /// pass, warn, block or unknown; by default pass.
    verdict: Option<String>,
    /// The token that claim_task returned: refused if another member has taken the task since.
    token: Option<String>,
    /// Act as this member; by default the one that registered here.
    #[serde(rename = "as")]
    who: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListTasks {
    /// Only in this state: pending, claimed, running, judging, landing, done, landed, failed, cancelled, skipped,
    /// parked, blocked; `active` for all in which something may still happen, `completed` for done and landed.
    status: Option<String>,
    /// Only tasks of the board, with who each is for and who holds it.
    #[serde(default)]
    board: bool,
    /// List at most this many; by default 100.
    limit: Option<usize>,
}

#[tool_router(router = board_tools, vis = "pub(super)")]
impl Server {
    /// Add a task to the board, for any member, for a role, or for one member. To start an agent, use `enqueue`.
    #[tool(annotations(read_only_hint = false, destructive_hint = false, open_world_hint = false))]
    async fn push_task(&self, Parameters(args): Parameters<Push>) -> ToolResult {
        let request = PushRequest {
            title: input::text("title", args.title, 1000)?,
            description: args.description,
            id: args.id.as_deref().map(|text| input::id("id", text)).transpose()?,
            priority: priority(args.priority)?,
            role: args.role.as_deref().map(input::role).transpose()?,
            assignee: input::maybe_name("assignee", args.assignee.as_deref())?,
            deps: input::ids("deps", &args.deps)?,
            ..PushRequest::default()
        };
        let task = self.desk.crew.push(&request).await?;
        Ok(Answer::said(format!("{} is on the board", task.task.id), &task))
    }

    /// Take a task from the board: the next one for you, or the one you name. Only you hold it then.
    #[tool(annotations(read_only_hint = false, destructive_hint = false, open_world_hint = false))]
    async fn claim_task(&self, Parameters(args): Parameters<Claim>) -> ToolResult {
        let who = input::speaker(args.who.as_deref(), self.registered())?;
        let pick = args.task.map_or(Pick::Next, Pick::Named);
        let claim = self.desk.crew.claim(&ClaimRequest { who, pick, lane: args.lane }).await?;
        let id = claim.task.task.id.clone();
        Ok(Answer::found(format!("{id} is yours; complete_task when it is done"), &claim))
    }

    /// Hand in a task that you hold, with its result.
    #[tool(annotations(read_only_hint = false, destructive_hint = false, open_world_hint = false))]
    async fn complete_task(&self, Parameters(args): Parameters<Complete>) -> ToolResult {
        let who = input::speaker(args.who.as_deref(), self.registered())?;
        let request = CompleteRequest {
            held: Held { task: args.task, who, token: args.token },
            result: input::bounded("result", args.result, LONGEST_RESULT)?,
            verdict: verdict(args.verdict.as_deref().unwrap_or("pass"))?,
            tell: None,
        };
        let task = self.desk.crew.complete(&request).await?;
        Ok(Answer::said(format!("{} is {}", task.task.id, task.task.state), &task))
    }

    /// List tasks by state: those of agents, and those of the board.
    #[tool(annotations(read_only_hint = true, open_world_hint = false))]
    async fn list_tasks(&self, Parameters(args): Parameters<ListTasks>) -> ToolResult {
        let limit = args.limit.unwrap_or(LISTED).clamp(1, MOST_LISTED);
        let status = args.status.as_deref().unwrap_or("all");
        if args.board {
            let mut found = board(self.store(), look::tasks::states(status)?).await?;
            let left_out = found.len().saturating_sub(limit);
            let tasks: Vec<_> = found.drain(left_out..).map(|(_, task)| task).collect();
            let text = format!("{} of the board{}", count(tasks.len(), "task"), more(left_out));
            return Ok(Answer::found(text, &json!({ "tasks": tasks, "left_out": left_out })));
        }
        let tasks = look::tasks::documents(&self.desk.crew.project, self.store(), status, limit + 1).await?;
        let is_more = tasks.len() > limit;
        let tasks = &tasks[..tasks.len().min(limit)];
        let text = format!(
            "{}{}",
            count(tasks.len(), "task"),
            if is_more { ", and more that changed before" } else { "" }
        );
        Ok(Answer::found(text, &json!({ "tasks": tasks, "more": is_more })))
    }
}

fn more(left_out: usize) -> String {
    if left_out == 0 { String::new() } else { format!(", and {left_out} older ones") }
}

pub(super) fn priority(n: i32) -> Result<i32, Refusal> {
    if (-9999..=9999).contains(&n) {
        Ok(n)
    } else {
        Err(refusal(format!("`priority` {n} is not between -9999 and 9999"), "0 is usual"))
    }
}

pub(super) fn verdict(text: &str) -> Result<Verdict, Refusal> {
    text.parse().map_err(|error: regatta_core::verdict::NoVerdict| {
        refusal(format!("`verdict` {error}"), "`unknown` if you cannot tell")
    })
}
