//! Reports of an attempt's agent about its work. The store checks the attempt's token.

use regatta_core::id::TaskId;
use regatta_core::state::TaskState;
use regatta_core::verdict::{Metrics, Statement};
use regatta_store::{Word, WorkerReport};
use rmcp::handler::server::wrapper::Parameters;
use rmcp::schemars::{self, JsonSchema};
use rmcp::{tool, tool_router};
use serde::Deserialize;
use serde_json::json;

use super::board::verdict;
use crate::mcp::answer::{Answer, ToolResult, refusal};
use crate::mcp::{Authority, Server, input};

/// The maximum length of a progress label, in bytes.
const LONGEST_LABEL: usize = 1000;
/// The maximum length of its detail, or of a text about the work, in bytes.
const LONGEST_TEXT: usize = 16 * 1024;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Progress {
    /// What you are doing, in a few words.
    label: String,
    /// More about it.
    detail: Option<String>,
    /// The phase it belongs to.
    phase: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Done {
    /// pass if it is done, warn if it works with reservations, block if it cannot be done as asked.
    verdict: String,
    /// One or two sentences that say what you did, or why not; they become the commit message.
    #[serde(default)]
    summary: String,
    /// Tests that passed.
    tests_passed: Option<u64>,
    /// Tests that failed.
    tests_failed: Option<u64>,
    /// Files changed.
    files_changed: Option<u64>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Stuck {
    /// What you need.
    why: String,
}

#[tool_router(router = work_tools, vis = "pub(super)")]
impl Server {
    /// Report your progress to people now and then. It costs nothing.
    #[tool(annotations(read_only_hint = false, destructive_hint = false, open_world_hint = false))]
    async fn progress(&self, Parameters(args): Parameters<Progress>) -> ToolResult {
        let label = input::text("label", args.label, LONGEST_LABEL)?;
        let detail = args.detail.map(|text| input::bounded("detail", text, LONGEST_TEXT)).transpose()?;
        let phase = args.phase.map(|text| input::bounded("phase", text, LONGEST_LABEL)).transpose()?;
        self.say(Word::Progress { label, detail, phase }, "progress recorded").await
    }

    /// Your last action: report your verdict on your own work, once, after checking it. Regatta then runs its own
    /// checks.
    #[tool(annotations(read_only_hint = false, destructive_hint = false, open_world_hint = false))]
    async fn done(&self, Parameters(args): Parameters<Done>) -> ToolResult {
        let verdict = verdict(&args.verdict)?;
        let summary = input::bounded("summary", args.summary, LONGEST_TEXT)?;
        let metrics = Metrics {
            tests_passed: args.tests_passed,
            tests_failed: args.tests_failed,
            files_changed: args.files_changed,
            ..Metrics::default()
        };
        let word = Word::Done(Statement { verdict, summary, metrics });
        self.say(word, &format!("verdict {verdict} recorded; end your turn now")).await
    }

    /// Report that only a person can help (access, a decision, missing facts), and stop.
    #[tool(annotations(read_only_hint = false, destructive_hint = false, open_world_hint = false))]
    async fn stuck(&self, Parameters(args): Parameters<Stuck>) -> ToolResult {
        let why = input::text("why", args.why, LONGEST_TEXT)?;
        self.say(Word::Stuck(why), "recorded: a person is needed; end your turn now").await
    }
}

impl Server {
    async fn say(&self, word: Word, answer: &str) -> ToolResult {
        let Authority::Worker { task, attempt, token_hash } = &self.authority else {
            return Err(refusal("this server is a person's", "tools/list shows the tools").into());
        };
        let report =
            WorkerReport { task: task.clone(), attempt: *attempt, token_hash: token_hash.clone(), word };
        regatta_ops::worker::report(self.store(), &self.desk.crew.project.config, report).await?;
        let document = json!({ "ok": true, "task": task, "attempt": attempt });
        Ok(Answer::said(format!("{task} attempt {attempt}: {answer}"), &document))
    }

    /// An agent is a member as long as its attempt runs; its status is reported as progress.
    pub(super) async fn worker_heartbeat(
        &self,
        task: &TaskId,
        attempt: u32,
        status: Option<String>,
    ) -> ToolResult {
        if let Some(status) = status {
            let label = input::text("status", status, LONGEST_LABEL)?;
            return self.say(Word::Progress { label, detail: None, phase: None }, "heard").await;
        }
        let record = self.store().task(task).await?;
        let is_at_it = matches!(record.state, TaskState::Claimed { .. } | TaskState::Running { .. });
        if is_at_it && record.attempts == attempt {
            Ok(Answer::said(
                format!("{task} attempt {attempt}: heard"),
                &json!({ "ok": true, "task": task, "attempt": attempt }),
            ))
        } else {
            Err(refusal(
                format!("attempt {attempt} of {task} is over"),
                "what it says no longer counts: end your turn",
            )
            .into())
        }
    }
}
