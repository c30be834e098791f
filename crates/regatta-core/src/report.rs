//! The result of a run: every task, attempt, verdict, check, cost and commit, and the timeline. As a value, as JSON
//! (through serde) and as Markdown.

mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use serde::{Deserialize, Serialize};

use crate::attempt::{Attempt, Evidence};
use crate::commit_message::pins;
use crate::event::{Event, EventBody};
use crate::id::TaskId;
use crate::oid::Oid;
use crate::plain::{fenced, last_lines, markdown};
use crate::sandbox::Level;
use crate::state::{StateName, TaskState};
use crate::time::{Timestamp, counted, human};

pub use words::{describe, describe_evidence, landed_as};

/// At most this many lines of a failed check are shown.
pub const CHECK_LINES: usize = 40;

/// A whole run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Version of this document's format.
    pub version: u32,
    /// The plan's name, or the given files.
    pub plan: String,
    /// The branch work lands on.
    pub target: String,
    /// Time of the first event.
    pub started_at: Option<Timestamp>,
    /// Time of the last event.
    pub ended_at: Option<Timestamp>,
    /// The number of tasks in each state.
    pub counts: BTreeMap<StateName, usize>,
    /// Dollars spent by this run's own attempts, as far as known.
    pub cost_usd: f64,
    /// Tokens read.
    pub tokens_in: u64,
    /// Tokens written.
    pub tokens_out: u64,
    /// The tasks, in the order of the plan.
    pub tasks: Vec<TaskReport>,
    /// The events, in order.
    pub timeline: Vec<Event>,
}

/// One task of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskReport {
    pub id: TaskId,
    /// Its title, one line.
    pub title: String,
    /// The state's name.
    pub state: StateName,
    /// The reason for that state.
    pub reason: Option<String>,
    /// What it depends on.
    pub deps: Vec<TaskId>,
    /// The dependencies that are not met.
    pub waiting_on: Vec<TaskId>,
    /// The commit on the target.
    pub landed_commit: Option<Oid>,
    /// Every landing of its work, oldest first, including those before it was run again.
    #[serde(default)]
    pub landings: Vec<Landing>,
    /// What its attempts in this run cost.
    #[serde(default)]
    pub cost_usd: f64,
    /// Its attempts, oldest first.
    pub attempts: Vec<Attempt>,
}

/// One landing of a task's work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Landing {
    /// The commit on the target.
    pub commit: Oid,
    /// The target branch; missing in older events.
    pub target: Option<String>,
    /// The attempt that made the work.
    pub attempt: Option<u32>,
    /// When it happened.
    pub at: Timestamp,
}

impl Landing {
    /// The landings among a task's events.
    pub fn among<'a>(events: impl IntoIterator<Item = &'a Event>) -> Vec<Self> {
        let landing = |event: &Event| match &event.body {
            EventBody::Landing { landing, target } => landing.landed_commit().map(|commit| Self {
                commit: commit.clone(),
                target: target.clone(),
                attempt: event.attempt,
                at: event.at,
            }),
            _ => None,
        };
        events.into_iter().filter_map(landing).collect()
    }

    /// The landing in one line.
    pub fn describe(&self) -> String {
        let by = self.attempt.map_or_else(String::new, |n| format!(" (attempt {n})"));
        format!("{}{by}", landed_as(self.target.as_deref(), self.commit.as_str()))
    }
}

/// The end of the output of a failed check or of a hook that refused the commit; empty for other evidence.
pub fn output_of(evidence: &Evidence) -> Vec<String> {
    match evidence {
        Evidence::Check { exit, tail, .. } if !exit.success() => last_lines(tail, CHECK_LINES),
        Evidence::CommitRefused { tail, .. } => last_lines(tail, CHECK_LINES),
        _ => Vec::new(),
    }
}

/// The attempts in which an agent worked during these events.
fn worked_on(timeline: &[Event]) -> BTreeSet<(TaskId, u32)> {
    let is_work = |body: &EventBody| {
        matches!(
            body,
            EventBody::Claimed { .. }
                | EventBody::Adopted { .. }
                | EventBody::Started { .. }
                | EventBody::Exited { .. }
                | EventBody::Judged { .. }
        )
    };
    let own = timeline.iter().filter(|event| is_work(&event.body));
    own.filter_map(|event| Some((event.task.clone()?, event.attempt?))).collect()
}

impl Report {
    /// Builds a report. Costs count for attempts that were running within the timeline.
    pub fn new(plan: &str, target: &str, mut tasks: Vec<TaskReport>, timeline: Vec<Event>) -> Self {
        let mut counts: BTreeMap<StateName, usize> = BTreeMap::new();
        for task in &tasks {
            *counts.entry(task.state).or_default() += 1;
        }
        let own = worked_on(&timeline);
        let is_own = |id: &TaskId, attempt: &Attempt| own.contains(&(id.clone(), attempt.n));
        for task in &mut tasks {
            task.cost_usd = dollars(task.attempts.iter().filter(|attempt| is_own(&task.id, attempt)));
        }
        let attempts: Vec<&Attempt> = tasks
            .iter()
            .flat_map(|task| task.attempts.iter().filter(|attempt| is_own(&task.id, attempt)))
            .collect();
        let cost_usd = dollars(attempts.iter().copied());
        let tokens_in = attempts.iter().map(|attempt| attempt.tokens_in).sum();
        let tokens_out = attempts.iter().map(|attempt| attempt.tokens_out).sum();
        Self {
            version: 1,
            plan: plan.to_owned(),
            target: target.to_owned(),
            started_at: timeline.first().map(|event| event.at),
            ended_at: timeline.last().map(|event| event.at),
            counts,
            cost_usd,
            tokens_in,
            tokens_out,
            tasks,
            timeline,
        }
    }

    /// True if every task is done or landed.
    pub fn is_good(&self) -> bool {
        self.tasks.iter().all(|task| task.state.is_met())
    }

    /// The report as Markdown.
    pub fn markdown(&self) -> String {
        let mut text = format!("# Run of {}\n\n", markdown(&self.plan));
        let counts: Vec<String> = self.counts.iter().map(|(state, n)| format!("{n} {state}")).collect();
        let _ = writeln!(text, "- target: {}", markdown(&self.target));
        let _ = writeln!(text, "- tasks: {} ({})", self.tasks.len(), counts.join(", "));
        if let (Some(start), Some(end)) = (self.started_at, self.ended_at) {
            let _ = writeln!(text, "- time: {start} to {end} ({})", human(end.since(start)));
        }
        let _ = writeln!(
            text,
            "- cost: ${:.4}, {} in, {} out\n",
            self.cost_usd,
            counted(self.tokens_in, "token"),
            counted(self.tokens_out, "token")
        );
        text.push_str(
            "| task | state | attempts | verdict | cost | commit | reason |\n|---|---|---|---|---|---|---|\n",
        );
        for task in &self.tasks {
            let last = task.attempts.last();
            let verdict = last.and_then(|attempt| attempt.verdict).map_or("", |verdict| verdict.as_str());
            let cost = task.cost_usd;
            let commit = task.landed_commit.as_ref().map_or("", Oid::short);
            let reason = task.reason.clone().unwrap_or_else(|| waiting(&task.waiting_on));
            let _ = writeln!(
                text,
                "| {} | {} | {} | {verdict} | ${cost:.4} | {commit} | {} |",
                task.id,
                task.state,
                task.attempts.len(),
                markdown(&reason)
            );
        }
        for task in &self.tasks {
            task.write(&mut text);
        }
        text.push_str("\n## Time line\n\n");
        for event in &self.timeline {
            let task = event.task.as_ref().map_or("", TaskId::as_str);
            let _ = writeln!(text, "- {} {task}: {}", event.at, markdown(&describe(&event.body)));
        }
        text
    }
}

impl TaskReport {
    /// The commit of a landed state.
    pub fn landed_commit(state: &TaskState) -> Option<Oid> {
        match state {
            TaskState::Landed { commit, .. } => Some(commit.clone()),
            _ => None,
        }
    }

    fn write(&self, text: &mut String) {
        let _ = write!(text, "\n## {}: {}\n", self.id, markdown(&self.title));
        for attempt in &self.attempts {
            let took = match (attempt.started_at, attempt.ended_at) {
                (Some(start), Some(end)) => human(end.since(start)),
                _ => "not started".to_owned(),
            };
            let exit = attempt.exit.as_ref().map_or_else(String::new, |exit| format!(", {exit}"));
            let class = attempt.class.as_ref().map_or_else(String::new, |class| format!(", {class}"));
            let verdict = attempt.verdict.map_or_else(String::new, |verdict| format!(", verdict {verdict}"));
            let profile = attempt
                .profile
                .as_ref()
                .map_or_else(String::new, |profile| format!(" as {}", markdown(profile)));
            let model = attempt
                .model_in_words()
                .map_or_else(String::new, |model| format!(" with {}", markdown(&model)));
            let sandbox = match attempt.sandbox {
                None => String::new(),
                Some(Level::Off) => ", unconfined".to_owned(),
                Some(level) => format!(", sandbox {level}"),
            };
            let _ = write!(
                text,
                "\nAttempt {} by {}{profile}{model} ({took}{sandbox}{exit}{class}{verdict})",
                attempt.n,
                markdown(&attempt.agent)
            );
            if !attempt.summary.is_empty() {
                let _ = write!(text, ": {}", markdown(&attempt.summary));
            }
            text.push('\n');
            for evidence in &attempt.evidence {
                let _ = writeln!(text, "- {}", markdown(&describe_evidence(evidence)));
                let output = output_of(evidence);
                if !output.is_empty() {
                    let _ = write!(text, "\n{}\n", fenced(&output));
                }
            }
            if let Some(head) = &attempt.head {
                let _ = writeln!(text, "- commit {head}");
            }
            for pin in pins(&attempt.siblings) {
                let _ = writeln!(text, "- with {pin}");
            }
        }
        for landing in &self.landings {
            let earlier = if self.landed_commit.as_ref() == Some(&landing.commit) { "" } else { "Earlier: " };
            let _ = writeln!(text, "\n{earlier}{}.", markdown(&landing.describe()));
        }
    }
}

/// The total cost of these attempts. The sum of no numbers is negative zero, which must not be shown.
fn dollars<'a>(attempts: impl IntoIterator<Item = &'a Attempt>) -> f64 {
    attempts.into_iter().filter_map(|attempt| attempt.cost_usd).sum::<f64>() + 0.0
}

fn waiting(on: &[TaskId]) -> String {
    match on {
        [] => String::new(),
        on => format!("waits for {}", on.iter().map(TaskId::as_str).collect::<Vec<_>>().join(", ")),
    }
}
