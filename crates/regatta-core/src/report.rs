//! What a run came to: every task, attempt, verdict, check, cost and commit, and the time line. As a value, as
//! JSON (through serde) and as Markdown.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::{Deserialize, Serialize};

use crate::attempt::{Attempt, Evidence};
use crate::event::{Event, EventBody, describe_unknown};
use crate::id::TaskId;
use crate::state::TaskState;
use crate::time::{Timestamp, human};
use crate::train::LandStep;

/// A whole run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Shape of this document.
    pub version: u32,
    /// The plan's name, or the files that were given.
    pub plan: String,
    /// The branch work lands on.
    pub target: String,
    /// First event.
    pub started_at: Option<Timestamp>,
    /// Last event.
    pub ended_at: Option<Timestamp>,
    /// How many tasks are in each state.
    pub counts: BTreeMap<String, usize>,
    /// Dollars, as far as agents counted them.
    pub cost_usd: f64,
    /// Tokens read.
    pub tokens_in: u64,
    /// Tokens written.
    pub tokens_out: u64,
    /// The tasks, in the order of the plan.
    pub tasks: Vec<TaskReport>,
    /// What happened, in order.
    pub timeline: Vec<Event>,
}

/// One task of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskReport {
    /// Its name.
    pub id: TaskId,
    /// One line.
    pub title: String,
    /// The state's name.
    pub state: String,
    /// The reason that goes with it.
    pub reason: Option<String>,
    /// What it depends on.
    pub deps: Vec<TaskId>,
    /// Which of those are not met.
    pub waiting_on: Vec<TaskId>,
    /// The commit on the target.
    pub landed_commit: Option<String>,
    /// Its attempts, oldest first.
    pub attempts: Vec<Attempt>,
}

impl Report {
    /// Puts a report together.
    pub fn new(plan: &str, target: &str, tasks: Vec<TaskReport>, timeline: Vec<Event>) -> Self {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for task in &tasks {
            *counts.entry(task.state.clone()).or_default() += 1;
        }
        let attempts = || tasks.iter().flat_map(|task| &task.attempts);
        Self {
            version: 1,
            plan: plan.to_owned(),
            target: target.to_owned(),
            started_at: timeline.first().map(|event| event.at),
            ended_at: timeline.last().map(|event| event.at),
            counts,
            cost_usd: dollars(attempts()),
            tokens_in: attempts().map(|attempt| attempt.tokens_in).sum(),
            tokens_out: attempts().map(|attempt| attempt.tokens_out).sum(),
            tasks,
            timeline,
        }
    }

    /// True when every task is done or landed.
    pub fn is_good(&self) -> bool {
        self.tasks.iter().all(|task| task.state == "done" || task.state == "landed")
    }

    /// The report for people.
    pub fn markdown(&self) -> String {
        let mut text = format!("# Run of {}\n\n", cell(&self.plan));
        let counts: Vec<String> = self.counts.iter().map(|(state, n)| format!("{n} {state}")).collect();
        let _ = writeln!(text, "- target: `{}`", self.target);
        let _ = writeln!(text, "- tasks: {} ({})", self.tasks.len(), counts.join(", "));
        if let (Some(start), Some(end)) = (self.started_at, self.ended_at) {
            let _ = writeln!(text, "- time: {start} to {end} ({})", human(end.since(start)));
        }
        let _ = writeln!(
            text,
            "- cost: ${:.4}, {} tokens in, {} tokens out\n",
            self.cost_usd, self.tokens_in, self.tokens_out
        );
        text.push_str(
            "| task | state | attempts | verdict | cost | commit | reason |\n|---|---|---|---|---|---|---|\n",
        );
        for task in &self.tasks {
            let last = task.attempts.last();
            let verdict = last.and_then(|attempt| attempt.verdict).map_or("", |verdict| verdict.as_str());
            let cost = dollars(&task.attempts);
            let commit = task.landed_commit.as_deref().map_or("", |commit| &commit[..commit.len().min(12)]);
            let reason = task.reason.clone().unwrap_or_else(|| waiting(&task.waiting_on));
            let _ = writeln!(
                text,
                "| {} | {} | {} | {verdict} | ${cost:.4} | {commit} | {} |",
                task.id,
                task.state,
                task.attempts.len(),
                cell(&reason)
            );
        }
        for task in &self.tasks {
            task.write(&mut text);
        }
        text.push_str("\n## Time line\n\n");
        for event in &self.timeline {
            let task = event.task.as_ref().map_or("", TaskId::as_str);
            let _ = writeln!(text, "- {} {task}: {}", event.at, describe(&event.body));
        }
        text
    }
}

impl TaskReport {
    /// The commit of a landed state.
    pub fn landed_commit(state: &TaskState) -> Option<String> {
        match state {
            TaskState::Landed { commit, .. } => Some(commit.clone()),
            _ => None,
        }
    }

    fn write(&self, text: &mut String) {
        let _ = write!(text, "\n## {}: {}\n", self.id, cell(&self.title));
        for attempt in &self.attempts {
            let took = match (attempt.started_at, attempt.ended_at) {
                (Some(start), Some(end)) => human(end.since(start)),
                _ => "not started".to_owned(),
            };
            let exit = attempt.exit.as_ref().map_or_else(String::new, |exit| format!(", {exit}"));
            let class = attempt.class.as_ref().map_or_else(String::new, |class| format!(", {class}"));
            let verdict = attempt.verdict.map_or_else(String::new, |verdict| format!(", verdict {verdict}"));
            let profile =
                attempt.profile.as_ref().map_or_else(String::new, |profile| format!(" as {profile}"));
            let model =
                attempt.model_in_words().map_or_else(String::new, |model| format!(" with {}", cell(&model)));
            let _ = write!(
                text,
                "\nAttempt {} by {}{profile}{model} ({took}{exit}{class}{verdict})",
                attempt.n, attempt.agent
            );
            if !attempt.summary.is_empty() {
                let _ = write!(text, ": {}", cell(&attempt.summary));
            }
            text.push('\n');
            for evidence in &attempt.evidence {
                let _ = writeln!(text, "- {}", describe_evidence(evidence));
            }
            if let Some(head) = &attempt.head {
                let _ = writeln!(text, "- commit {head}");
            }
        }
        if let Some(commit) = &self.landed_commit {
            let _ = writeln!(text, "\nLanded as {commit}.");
        }
    }
}

/// What attempts cost together. The sum of no numbers is a negative zero, which nobody wants to read.
fn dollars<'a>(attempts: impl IntoIterator<Item = &'a Attempt>) -> f64 {
    attempts.into_iter().filter_map(|attempt| attempt.cost_usd).sum::<f64>() + 0.0
}

fn waiting(on: &[TaskId]) -> String {
    match on {
        [] => String::new(),
        on => format!("waits for {}", on.iter().map(TaskId::as_str).collect::<Vec<_>>().join(", ")),
    }
}

/// Text that cannot break a table, a heading or a list.
fn cell(text: &str) -> String {
    text.replace(['\n', '\r'], " ").replace('|', "\\|")
}

/// A piece of evidence in one line.
pub fn describe_evidence(evidence: &Evidence) -> String {
    match evidence {
        Evidence::Said { by, statement } => {
            let mut text = format!("{by} says {}", statement.verdict);
            if !statement.summary.is_empty() {
                text.push_str(&format!(": {}", cell(&statement.summary)));
            }
            match statement.metrics.describe() {
                numbers if numbers.is_empty() => text,
                numbers => format!("{text} ({numbers})"),
            }
        }
        Evidence::Check { command, tree, passed_in: Some(n), .. } => {
            let tree = &tree[..tree.len().min(12)];
            format!("check `{command}`: not run again, it passed in attempt {n} on the same tree {tree}")
        }
        Evidence::Check { command, exit, millis, tree, .. } => {
            format!("check `{command}`: {exit} in {millis} ms on tree {}", &tree[..tree.len().min(12)])
        }
        Evidence::Diff { files, tree, .. } => {
            let plural = if *files == 1 { "" } else { "s" };
            format!("{files} file{plural} changed, tree {}", &tree[..tree.len().min(12)])
        }
        Evidence::Note { text } => cell(text),
        Evidence::CommitRefused { by, salvage, .. } => {
            let kept = salvage.as_deref().map_or_else(String::new, |salvage| format!("; kept as {salvage}"));
            format!("the commit was refused by {by}{kept}")
        }
        Evidence::Bounced { onto, files, .. } => {
            format!("it did not merge with {} in {}", &onto[..onto.len().min(12)], cell(&files.join(", ")))
        }
    }
}

/// That something landed: where, and as which commit.
pub fn landed_as(target: Option<&str>, commit: &str) -> String {
    match target {
        Some(target) => format!("landed on {target} as {commit}"),
        None => format!("landed as {commit}"),
    }
}

/// An event in one line.
pub fn describe(body: &EventBody) -> String {
    let short = |id: &str| id[..id.len().min(12)].to_owned();
    match body {
        EventBody::Enqueued { .. } => "enqueued".to_owned(),
        EventBody::Claimed { node } => format!("claimed by {node}"),
        EventBody::LaneReady { lane, base } => format!("lane {lane} at {}", short(base)),
        EventBody::Started { pid } => format!("agent started, process {pid}"),
        EventBody::Exited { exit } => format!("agent ended: {exit}"),
        EventBody::Progressed { label, detail, .. } => match detail {
            Some(detail) => format!("{} ({})", cell(label), cell(detail)),
            None => cell(label),
        },
        EventBody::Reported { statement } => {
            format!("reported {}: {}", statement.verdict, cell(&statement.summary))
        }
        EventBody::Stuck { why } => format!("stuck: {}", cell(why)),
        EventBody::Judged { verdict, summary } if summary.is_empty() => format!("verdict {verdict}"),
        EventBody::Judged { verdict, summary } => format!("verdict {verdict}: {}", cell(summary)),
        EventBody::Retrying { class, why, .. } => format!("will be tried again ({class}): {}", cell(why)),
        EventBody::Released { why } => format!("back in the queue, not charged: {}", cell(why)),
        EventBody::Parked { until, detail, .. } => {
            format!("parked until {}: {}", until.in_utc(), cell(detail))
        }
        EventBody::Due => "due again".to_owned(),
        EventBody::Approved { head } => format!("approved, joins the train with {}", short(head)),
        EventBody::Done { .. } => "done".to_owned(),
        EventBody::Landing { landing, target } => match landing {
            LandStep::Intend { intent } => match (&intent.onto, target) {
                (Some(onto), Some(target)) => format!("landing on {target} at {}", short(onto)),
                (Some(onto), None) => format!("landing on {}", short(onto)),
                (None, Some(target)) => format!("landing on {target}, a new branch"),
                (None, None) => "landing on a new branch".to_owned(),
            },
            LandStep::Tested { candidate, cars, outcome, millis, note } => format!(
                "gate {} in {} on {} ({}){}",
                outcome.as_str(),
                crate::time::human(std::time::Duration::from_millis(*millis)),
                short(candidate),
                if cars.len() == 1 { "alone".to_owned() } else { format!("{} cars", cars.len()) },
                if note.is_empty() { String::new() } else { format!(": {}", cell(note)) },
            ),
            LandStep::Bounce { detail, .. } => format!("back to its agent: {}", cell(detail)),
            LandStep::Gate { candidate, note } => format!("candidate {}: {}", short(candidate), cell(note)),
            LandStep::Wait { why } => format!("waits to land: {}", cell(why)),
            LandStep::Landed { commit } => landed_as(target.as_deref(), &short(commit)),
            LandStep::AlreadyIn { commit } => format!("nothing left to land, {} has it", short(commit)),
            LandStep::Reject { reason, detail, .. } => {
                format!("refused by the train ({reason}): {}", cell(detail))
            }
        },
        EventBody::Failed { why } => format!("failed: {}", cell(why)),
        EventBody::Blocked { reason, detail } => format!("blocked ({reason}): {}", cell(detail)),
        EventBody::Skipped { dependency } => format!("skipped, {dependency} will not come"),
        EventBody::Rearmed => "back, its dependency came back".to_owned(),
        EventBody::Cancelled { by } => format!("cancelled by {by}"),
        EventBody::Adopted { session } => format!("adopted by {session}"),
        EventBody::ConflictAhead { with, files } => {
            format!("would conflict with {with} in {}", cell(&files.join(", ")))
        }
        EventBody::Suspected { sign, why } => format!("may need a person ({sign}): {}", cell(why)),
        EventBody::WentOn { sign } => format!("goes on ({sign})"),
        EventBody::BudgetWarned { scope, detail } => {
            format!("budget of {scope} nearly spent: {}", cell(detail))
        }
        EventBody::BudgetSpent { scope, detail } => format!("budget of {scope} spent: {}", cell(detail)),
        EventBody::Salvaged { reference, why } => format!("work kept as {reference}: {}", cell(why)),
        EventBody::PromptQueued { prompt, by, beginning, .. } => {
            format!("follow-up {prompt} from {by}: {}", cell(beginning))
        }
        EventBody::FollowingUp { after } => format!("goes on with a follow-up; otherwise {}", cell(after)),
        EventBody::Stands { commit, .. } => format!("changed nothing; {} stays landed", short(commit)),
        EventBody::Noted { text } => cell(text),
        EventBody::Unknown(fields) => cell(&describe_unknown(fields)),
    }
}
