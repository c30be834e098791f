//! Tasks and attempts as JSON documents. Their field names are published; see the test at the end.

mod commands;
pub mod crew;
mod daemon;
mod diff;
mod hub;
mod lanes;
mod nodes;
mod parallel;
pub mod plans;
mod prompts;
mod pulls;
mod repos;
mod stores;
mod train;
mod watch;

pub use commands::*;
pub use daemon::*;
pub use diff::*;
pub use hub::*;
pub use lanes::*;
pub use nodes::*;
pub use parallel::*;
pub use prompts::*;
pub use pulls::*;
pub use repos::*;
pub use stores::*;
pub use train::*;
pub use watch::*;
mod cost;

use std::collections::BTreeMap;
use std::path::PathBuf;

use regatta_core::attempt::{Attempt, Evidence};
use regatta_core::diagnostic::Diagnostic;
use regatta_core::exit::Exit;
use regatta_core::failure::FailureClass;
use regatta_core::forge::pull::Column;
use regatta_core::id::TaskId;
use regatta_core::oid::Oid;
use regatta_core::part::Part;
use regatta_core::radar::{Finding, Kind, Other, Sighting};
use regatta_core::report::{Landing, Report, TaskReport};
use regatta_core::repos::RepoName;
use regatta_core::sandbox::Level;
use regatta_core::state::StateName;
use regatta_core::suspicion::Suspicion;
use regatta_core::time::Timestamp;
use regatta_core::verdict::Verdict;
use regatta_store::{TaskBrief, TaskRecord};
use serde::Serialize;
use serde_json::Value;

use crate::refusal::Refusal;
use crate::step::Step;

pub use cost::{BudgetDocument, CostDocument, CostRow};

/// One task, as in `list --json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TaskDocument {
    pub id: TaskId,
    /// One line for people.
    pub title: String,
    /// The state's name.
    pub state: StateName,
    /// The reason for the state.
    pub reason: Option<String>,
    /// Higher numbers start first.
    pub priority: i32,
    /// Attempts so far.
    pub attempts: u32,
    /// Dependencies that are not met yet.
    pub waiting_on: Vec<TaskId>,
    /// The repository it works in, if it is not the project's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repo: Option<RepoName>,
    /// The agent that does the work.
    pub agent: String,
    /// The kinds of work.
    pub labels: Vec<String>,
    /// The role of its agent if it plans or belongs to a chain (`planner`, `builder`, `reviewer`), or the role of the
    /// members it is for.
    pub role: Option<String>,
    /// The chain it belongs to, by the id of its build.
    pub chain: Option<TaskId>,
    /// Its link in the chain: `build`, `verify`, `review` or `accept`.
    pub link: Option<&'static str>,
    /// The branch that holds, or would hold, its work.
    pub branch: Option<String>,
    /// When its state last changed.
    pub updated_at: Timestamp,
    /// Why it is ready but not started.
    pub held: Option<String>,
    /// Tasks and branches that its work conflicts or overlaps with, as last seen.
    pub radar: Vec<MarkDocument>,
    /// Why its running agent may need a person.
    pub suspicions: Vec<Suspicion>,
    /// What its running agent is doing: its last tool or words.
    pub doing: Option<String>,
    /// How firmly its newest attempt is or was confined: `full`, `files` or `off`.
    pub sandbox: Option<Level>,
    /// What its attempts have cost so far, as far as known.
    pub cost_usd: Option<f64>,
    /// Since when a candidate with its work is under test.
    pub under_test_since: Option<Timestamp>,
    /// In a list by review: who acts next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<Column>,
}

/// One task with all details, as in `status --json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StatusDocument {
    pub id: TaskId,
    /// One line for people.
    pub title: String,
    /// The state's name.
    pub state: StateName,
    /// The reason for the state.
    pub reason: Option<String>,
    /// Higher numbers start first.
    pub priority: i32,
    /// Every attempt, oldest first.
    pub attempts: Vec<AttemptDocument>,
    /// Dependencies that are not met yet.
    pub waiting_on: Vec<TaskId>,
    /// The repository it works in, if it is not the project's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repo: Option<RepoName>,
    /// The agent that does the work.
    pub agent: String,
    /// The kinds of work.
    pub labels: Vec<String>,
    /// The role of its agent if it plans or belongs to a chain (`planner`, `builder`, `reviewer`), or the role of the
    /// members it is for.
    pub role: Option<String>,
    /// The chain it belongs to, by the id of its build.
    pub chain: Option<TaskId>,
    /// Its link in the chain: `build`, `verify`, `review` or `accept`.
    pub link: Option<&'static str>,
    /// The branch that holds, or would hold, its work.
    pub branch: Option<String>,
    /// When its state last changed.
    pub updated_at: Timestamp,
    /// The landed commit on the target.
    pub landed_commit: Option<Oid>,
    /// Every landing of its work, oldest first.
    pub landings: Vec<Landing>,
    /// The lane of the last attempt, if it exists.
    pub lane: Option<PathBuf>,
    /// Its saved work.
    pub salvage: Vec<SalvageDocument>,
    /// What it depends on.
    pub deps: Vec<TaskId>,
    /// The plan it came from.
    pub plan: Option<String>,
    /// `file:line` of its definition.
    pub source: String,
    /// How many work failures are allowed.
    pub max_attempts: u32,
    /// Work failures so far.
    pub charged: u32,
    /// When it entered the queue.
    pub created_at: Timestamp,
    /// Why it is ready but not started.
    pub held: Option<String>,
    /// Tasks and branches that its work conflicts or overlaps with, as last seen.
    pub radar: Vec<MarkDocument>,
    /// Its follow-up prompts, in order.
    pub prompts: Vec<PromptDocument>,
    /// Why its running agent may need a person.
    pub suspicions: Vec<Suspicion>,
    /// Its budget and what it has used of it, if it has one.
    pub budget: Option<BudgetDocument>,
    /// What the user should do next, in a sentence.
    pub next: Option<String>,
    /// The actions that its state allows, the most useful first.
    pub next_steps: Vec<Step>,
    /// What its running agent is doing: its last tool or words.
    pub doing: Option<String>,
    /// How firmly its newest attempt is or was confined.
    pub sandbox: Option<Level>,
    /// What its attempts have cost so far, as far as known.
    pub cost_usd: Option<f64>,
    /// Since when a candidate with its work is under test.
    pub under_test_since: Option<Timestamp>,
}

/// A task or branch that a task's work conflicts or overlaps with.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MarkDocument {
    /// The other task, or the target branch.
    pub with: String,
    /// Whether it is the target branch.
    pub target: bool,
    /// `conflict`, `overlap` or `merges`.
    pub kind: Kind,
    /// The files, as far as they are listed.
    pub files: Vec<String>,
    /// The number of files.
    pub n_files: usize,
    /// When the scan was made.
    pub at: Timestamp,
}

/// The document of `radar --json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RadarDocument {
    /// When the scan was made.
    pub at: Timestamp,
    /// The branch work lands on.
    pub target: String,
    /// The tip of that branch.
    pub tip: Oid,
    /// Tasks whose work was scanned.
    pub tasks: Vec<TaskId>,
    /// The findings, worst first.
    pub findings: Vec<FindingDocument>,
    /// How many findings are left out.
    pub more: usize,
    /// Tasks of whose uncommitted work only file names are known.
    pub unread: Vec<UnreadDocument>,
    /// How many tasks were left out because there were too many.
    pub left_out: usize,
}

/// A conflict or an overlap.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FindingDocument {
    /// One of them.
    pub task: TaskId,
    /// The other: a task, or the target branch.
    pub with: String,
    /// Whether that is the target branch.
    pub target: bool,
    /// `conflict`, `overlap` or `merges`.
    pub kind: Kind,
    /// The files, as far as they are listed.
    pub files: Vec<String>,
    /// The number of files.
    pub n_files: usize,
}

/// A task whose uncommitted work could not be read.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct UnreadDocument {
    pub task: TaskId,
    /// The reason.
    pub why: String,
}

impl MarkDocument {
    /// What a sighting says about one task.
    pub fn of(sighting: &Sighting, task: &TaskId) -> Vec<Self> {
        let marks = sighting.about(task).map(|(other, finding)| Self {
            with: other.to_string(),
            target: matches!(other, Other::Target(_)),
            kind: finding.kind,
            files: finding.files.clone(),
            n_files: finding.n_files,
            at: sighting.at,
        });
        marks.collect()
    }
}

impl From<&Sighting> for RadarDocument {
    fn from(sighting: &Sighting) -> Self {
        let finding = |finding: &Finding| FindingDocument {
            task: finding.task.clone(),
            with: finding.with.to_string(),
            target: matches!(finding.with, Other::Target(_)),
            kind: finding.kind,
            files: finding.files.clone(),
            n_files: finding.n_files,
        };
        let unread = sighting.unread.iter();
        Self {
            at: sighting.at,
            target: sighting.target.clone(),
            tip: sighting.tip.clone(),
            tasks: sighting.tasks.clone(),
            findings: sighting.findings.iter().map(finding).collect(),
            more: sighting.more,
            unread: unread
                .map(|(task, why)| UnreadDocument { task: task.clone(), why: why.clone() })
                .collect(),
            left_out: sighting.left_out,
        }
    }
}

/// The parts of a status that are not in the store: facts from the disk, from git and from running engines.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Surroundings {
    /// The lane of the last attempt, if it exists.
    pub lane: Option<PathBuf>,
    /// Its saved work.
    pub salvage: Vec<SalvageDocument>,
    /// Why it is ready but not started.
    pub held: Option<String>,
    /// Tasks and branches that its work conflicts or overlaps with, as last seen.
    pub radar: Vec<MarkDocument>,
    /// Its follow-up prompts, in order.
    pub prompts: Vec<PromptDocument>,
    /// Why its running agent may need a person.
    pub suspicions: Vec<Suspicion>,
    /// Every landing of its work.
    pub landings: Vec<Landing>,
    /// What the user should do next, in a sentence.
    pub next: Option<String>,
    /// The actions that its state allows, the most useful first.
    pub next_steps: Vec<Step>,
    /// Its budget, if it has one.
    pub budget: Option<BudgetDocument>,
}

/// One attempt.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AttemptDocument {
    /// Its number; 1 for the first.
    pub n: u32,
    /// The agent that worked.
    pub agent: String,
    /// The profile whose account it used.
    pub profile: Option<String>,
    /// Its model, as the agent named it.
    pub model: Option<String>,
    /// The model it was started with.
    pub model_asked: Option<String>,
    /// How firmly it was confined.
    pub sandbox: Option<Level>,
    /// Why that model: `label documentation`, `escalated after 1 failure`.
    pub tier: Option<String>,
    /// The id of its conversation.
    pub session: Option<String>,
    /// How it ended, in words.
    pub exit: Option<String>,
    /// How it ended, as data.
    pub exit_detail: Option<Exit>,
    /// The verdict that counts.
    pub verdict: Option<Verdict>,
    /// The class of its failure.
    pub class: Option<&'static str>,
    /// The same as data, with the end of a limit if the agent gave one.
    pub class_detail: Option<FailureClass>,
    /// A summary in one or two sentences.
    pub summary: String,
    /// The last words of a model's agent.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub last_words: String,
    /// When the agent was started.
    pub started_at: Option<Timestamp>,
    /// When it was settled.
    pub ended_at: Option<Timestamp>,
    /// Cost in dollars.
    pub cost_usd: Option<f64>,
    /// Whether the cost was computed with `models.prices`.
    pub priced: bool,
    /// Tokens read.
    pub tokens_in: u64,
    /// Tokens written.
    pub tokens_out: u64,
    /// The commit it started from.
    pub base: Option<Oid>,
    /// The commits of the repositories beside its lane.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub siblings: BTreeMap<RepoName, Oid>,
    /// The commit it ended with.
    pub head: Option<Oid>,
    /// The node it ran on, if machines share the store: the lane and the log are there.
    pub node: Option<String>,
    pub lane: Option<PathBuf>,
    /// The file with its output.
    pub log: Option<PathBuf>,
    /// Whether it counts against `max_attempts`.
    pub charged: bool,
    /// The number of the follow-up it was started with.
    pub prompt: Option<u32>,
    /// What the verdict is based on.
    pub evidence: Vec<Evidence>,
}

/// An account that agents rotate through, as in `profiles --json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProfileDocument {
    pub name: String,
    /// Its state for each kind of agent that may use it.
    pub accounts: Vec<AccountDocument>,
    /// Its variables. Only those that name a path have their value here.
    pub variables: BTreeMap<String, Option<String>>,
}

/// The state of a profile for one kind of agent.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AccountDocument {
    /// The kind of agent.
    pub agent: &'static str,
    /// `ready`, `strained`, `cooling` or `set-aside`.
    pub state: &'static str,
    /// The limit that was reached.
    pub limit: Option<String>,
    /// When the limit ends, if it ends by itself.
    pub until: Option<Timestamp>,
    /// The reason, in the agent's words.
    pub why: Option<String>,
    /// When the limit was reported.
    pub since: Option<Timestamp>,
    /// Attempts that use it right now.
    pub in_use: usize,
    /// Attempts that were started with it in the last 24 hours.
    pub attempts_24h: usize,
    /// What those cost, as far as their agents reported it.
    pub cost_usd_24h: f64,
    /// Whether there is a sign of a login; `null` if that cannot be judged.
    pub signed_in: Option<bool>,
}

/// Saved work.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SalvageDocument {
    /// The ref that holds it.
    #[serde(rename = "ref")]
    pub reference: String,
    pub commit: Oid,
    /// Why it was saved.
    pub why: String,
}

/// How many tasks are in each state, as in `summary --json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SummaryDocument {
    /// The number of tasks by state.
    pub counts: BTreeMap<StateName, u64>,
    /// The number of all tasks.
    pub total: u64,
}

/// What a command did to tasks. Every command that changes tasks prints this document: `enqueue`, `add`, `cancel`,
/// `requeue`, `retry`, `park`, `unpark`. A command that could change nothing prints only its error.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChangesDocument {
    /// The changed tasks, in order.
    pub tasks: Vec<ChangedDocument>,
    /// The refused tasks, and why; the error on standard error says the same in one sentence.
    pub refused: Vec<RefusedDocument>,
    /// The daemon that takes tasks from the queue, if one runs.
    pub daemon: Option<DaemonDocument>,
    /// Warnings about files and settings.
    pub warnings: Vec<Diagnostic>,
}

/// A changed task, in its new state.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChangedDocument {
    #[serde(flatten)]
    pub task: TaskDocument,
    /// The ref that holds the work from its lane, if that was saved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub salvaged: Option<String>,
}

/// A refused task.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RefusedDocument {
    pub id: TaskId,
    /// The reason.
    pub error: String,
    /// The next steps in one line.
    pub hint: String,
    /// The state that was in the way, if it was one.
    pub state: Option<&'static str>,
    /// The next steps one by one.
    pub next: Vec<Step>,
}

impl RefusedDocument {
    /// The refusal of an operation on this task.
    pub fn of(id: &TaskId, refusal: &Refusal) -> Self {
        Self {
            id: id.clone(),
            error: refusal.message.clone(),
            hint: refusal.hint(),
            state: refusal.task.as_ref().map(|(_, state)| *state),
            next: refusal.next.clone(),
        }
    }
}

/// The daemon of a project.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DaemonDocument {
    /// The machine it runs on.
    pub node: String,
    /// Its process id.
    pub pid: u32,
}

impl From<TaskBrief> for TaskDocument {
    fn from(brief: TaskBrief) -> Self {
        Self {
            state: brief.state.kind(),
            reason: brief.state.reason(),
            priority: brief.priority,
            attempts: brief.attempts,
            role: brief.part.as_ref().map(|part| part.role().to_owned()),
            chain: brief.part.as_ref().and_then(|part| part.chain(&brief.id)).cloned(),
            link: brief.part.as_ref().and_then(Part::link),
            branch: (!brief.read_only).then(|| brief.id.branch()),
            updated_at: brief.updated_at,
            id: brief.id,
            title: brief.title,
            waiting_on: brief.waiting_on,
            repo: None,
            agent: brief.agent,
            labels: brief.labels,
            held: None,
            radar: Vec::new(),
            suspicions: Vec::new(),
            doing: None,
            sandbox: brief.sandbox,
            cost_usd: None,
            under_test_since: None,
            column: None,
        }
    }
}

impl From<&TaskRecord> for TaskDocument {
    fn from(record: &TaskRecord) -> Self {
        Self { repo: record.spec.repo.clone(), ..Self::from(TaskBrief::from(record)) }
    }
}

impl From<&Attempt> for AttemptDocument {
    fn from(attempt: &Attempt) -> Self {
        Self {
            n: attempt.n,
            agent: attempt.agent.clone(),
            profile: attempt.profile.clone(),
            model: attempt.model.clone(),
            sandbox: attempt.sandbox,
            model_asked: attempt.model_asked.clone(),
            tier: attempt.tier.clone(),
            session: attempt.session.clone(),
            exit: attempt.exit.as_ref().map(ToString::to_string),
            exit_detail: attempt.exit.clone(),
            verdict: attempt.verdict,
            class: attempt.class.as_ref().map(|class| class.as_str()),
            class_detail: attempt.class.clone(),
            summary: attempt.summary.clone(),
            last_words: attempt.last_words.clone(),
            started_at: attempt.started_at,
            ended_at: attempt.ended_at,
            cost_usd: attempt.cost_usd,
            priced: attempt.priced,
            tokens_in: attempt.tokens_in,
            tokens_out: attempt.tokens_out,
            base: attempt.base.clone(),
            siblings: attempt.siblings.clone(),
            head: attempt.head.clone(),
            node: attempt.place.as_ref().map(|place| place.node.clone()),
            lane: attempt.lane.clone(),
            log: attempt.log.clone(),
            charged: attempt.charged,
            prompt: attempt.prompt,
            evidence: attempt.evidence.clone(),
        }
    }
}

/// A report with its attempts in the form of `status --json`.
pub fn report_document(report: &Report) -> Value {
    let mut document = serde_json::to_value(report).expect("our own values serialise");
    let tasks = document["tasks"].as_array_mut().into_iter().flatten();
    for (task, shown) in report.tasks.iter().zip(tasks) {
        let attempts: Vec<AttemptDocument> = task.attempts.iter().map(AttemptDocument::from).collect();
        shown["attempts"] = serde_json::to_value(attempts).expect("our own values serialise");
    }
    document
}

impl StatusDocument {
    /// Builds the document.
    pub fn new(record: &TaskRecord, attempts: &[Attempt], around: Surroundings) -> Self {
        let task = TaskDocument::from(record);
        Self {
            id: task.id,
            title: task.title,
            state: task.state,
            reason: task.reason,
            priority: task.priority,
            attempts: attempts.iter().map(AttemptDocument::from).collect(),
            waiting_on: task.waiting_on,
            repo: record.spec.repo.clone(),
            agent: task.agent,
            labels: task.labels,
            role: task.role,
            chain: task.chain,
            link: task.link,
            branch: task.branch,
            updated_at: task.updated_at,
            landed_commit: record.met().and_then(TaskReport::landed_commit),
            landings: around.landings,
            lane: around.lane,
            salvage: around.salvage,
            deps: record.spec.deps.clone(),
            plan: record.spec.plan.clone(),
            source: record.spec.source.clone(),
            max_attempts: record.spec.max_attempts,
            charged: record.charged,
            created_at: record.created_at,
            held: around.held,
            radar: around.radar,
            prompts: around.prompts,
            suspicions: around.suspicions,
            budget: around.budget,
            next: around.next,
            next_steps: around.next_steps,
            doing: None,
            sandbox: attempts.last().and_then(|attempt| attempt.sandbox),
            cost_usd: None,
            under_test_since: None,
        }
    }
}

impl SummaryDocument {
    /// From the store's counts.
    pub fn new(counts: impl IntoIterator<Item = (StateName, u64)>) -> Self {
        let counts: BTreeMap<StateName, u64> = counts.into_iter().collect();
        Self { total: counts.values().sum(), counts }
    }
}

#[cfg(test)]
mod tests {
    use regatta_core::spec::TaskSpec;
    use regatta_core::state::TaskState;

    use super::*;

    fn record() -> TaskRecord {
        TaskRecord {
            spec: TaskSpec::plain(TaskId::parse("a").unwrap(), "claude", "do it"),
            state: TaskState::Landed { attempt: 1, commit: Oid::sample("c"), target: Some("main".into()) },
            seq: 1,
            queue: "q".into(),
            attempts: 1,
            charged: 0,
            environment_failures: 0,
            waiting_on: Vec::new(),
            session: None,
            fence: 1,
            cancel_asked: None,
            interrupt_asked: None,
            standing: None,
            created_at: Timestamp::from_millis(0),
            updated_at: Timestamp::from_millis(0),
        }
    }

    fn fields(value: &serde_json::Value) -> Vec<String> {
        value.as_object().unwrap().keys().cloned().collect()
    }

    #[test]
    fn published_fields_stay() {
        let list = serde_json::to_value(TaskDocument::from(&record())).unwrap();
        let promised =
            ["id", "state", "reason", "priority", "attempts", "waiting_on", "agent", "branch", "updated_at"];
        for field in promised {
            assert!(fields(&list).contains(&field.to_owned()), "list --json promises {field}");
        }
        let attempt = Attempt::new(1, "claude");
        let status = StatusDocument::new(&record(), &[attempt], Surroundings::default());
        let status = serde_json::to_value(status).unwrap();
        for field in promised.iter().chain(&["landed_commit", "lane"]) {
            assert!(fields(&status).contains(&(*field).to_owned()), "status --json promises {field}");
        }
        let promised = [
            "n",
            "exit",
            "verdict",
            "class",
            "started_at",
            "ended_at",
            "cost_usd",
            "tokens_in",
            "tokens_out",
            "base",
            "head",
        ];
        for field in promised {
            let attempt = &status["attempts"][0];
            assert!(fields(attempt).contains(&field.to_owned()), "status --json promises attempts[].{field}");
        }
        let changes = ChangesDocument {
            tasks: vec![ChangedDocument { task: TaskDocument::from(&record()), salvaged: None }],
            refused: Vec::new(),
            daemon: None,
            warnings: Vec::new(),
        };
        let changes = serde_json::to_value(changes).unwrap();
        assert_eq!(fields(&changes), ["daemon", "refused", "tasks", "warnings"]);
        assert_eq!(changes["tasks"][0], list, "a changed task is a task of the list");
        let summary = SummaryDocument::new([(StateName::Pending, 3), (StateName::Landed, 2)]);
        assert_eq!(serde_json::to_value(summary).unwrap()["total"], 5);
    }
}
