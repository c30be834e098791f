//! Who is told about what: which event is which kind of notification, its text and its JSON.
//!
//! Once per transition: each change of state is one event in the log, so each event is at most one notification, and
//! a place in the log says which have been told.

mod address;

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use serde_json::{Value, json};

use crate::event::{Event, EventBody};
use crate::id::TaskId;
use crate::state::{BlockReason, StateName};
use crate::time::Timestamp;
use crate::train::LandStep;

pub use address::{WebhookUrl, is_public};

/// Longest reason that is sent, in characters.
const LONGEST_REASON: usize = 2000;
/// Longest title that is sent, in characters.
const LONGEST_TITLE: usize = 200;

/// What a notification is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum NotifyKind {
    /// Work is on the target branch.
    Landed,
    /// A task is done, with nothing to land.
    Done,
    /// A task needs a person.
    Blocked,
    /// A task is given up.
    Failed,
    /// A task waits for a time.
    Parked,
    /// A worker asked for something, which is a way to be blocked; or one that runs looks as if it waited for somebody.
    NeedsInput,
    /// Two tasks that run would conflict if both landed.
    ConflictAhead,
    /// Most of a budget, or all of it, is spent.
    Budget,
    /// Nothing is left to do.
    Idle,
}

impl NotifyKind {
    /// All of them, as written in `notify[].on`.
    pub const NAMES: [(&'static str, NotifyKind); 9] = [
        ("landed", NotifyKind::Landed),
        ("done", NotifyKind::Done),
        ("blocked", NotifyKind::Blocked),
        ("failed", NotifyKind::Failed),
        ("parked", NotifyKind::Parked),
        ("needs-input", NotifyKind::NeedsInput),
        ("conflict-ahead", NotifyKind::ConflictAhead),
        ("budget", NotifyKind::Budget),
        ("idle", NotifyKind::Idle),
    ];

    /// The kind of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind)
    }

    /// Its name.
    pub fn as_str(self) -> &'static str {
        Self::NAMES.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }

    /// Whether somebody who asked for `on` is told. Whoever wants to hear of what is blocked hears of questions too.
    pub fn is_wanted(self, on: &[NotifyKind]) -> bool {
        on.contains(&self) || self == NotifyKind::NeedsInput && on.contains(&NotifyKind::Blocked)
    }
}

impl fmt::Display for NotifyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Something to tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notification {
    /// What it is about.
    pub kind: NotifyKind,
    /// The event it comes from; none for [`NotifyKind::Idle`], which is no event.
    pub seq: Option<u64>,
    /// Which task.
    pub task: Option<TaskId>,
    /// The task's title.
    pub title: Option<String>,
    /// The state the task is in by that event.
    pub state: Option<StateName>,
    /// Why, where there is a reason.
    pub reason: Option<String>,
    /// When.
    pub at: Timestamp,
    /// The repository's name.
    pub project: String,
    /// The commit on the target, or the one that holds work that is done.
    pub commit: Option<String>,
    /// The branch it landed on.
    pub target: Option<String>,
    /// How many tasks are in each state, where nothing is left to do.
    pub counts: Option<BTreeMap<StateName, u64>>,
}

impl Notification {
    /// What there is to tell about an event, if anything. Its title is for the caller to add.
    ///
    /// A refusal by the train is recorded as two events, the second of which is the task's own; that one counts.
    pub fn of(event: &Event, project: &str) -> Option<Self> {
        let mut on = None;
        let (kind, state, reason, commit) = match &event.body {
            EventBody::Landing {
                landing: LandStep::Landed { commit } | LandStep::AlreadyIn { commit },
                target,
            } => {
                on.clone_from(target);
                (NotifyKind::Landed, Some(StateName::Landed), None, Some(commit.clone()))
            }
            EventBody::Done { head } => (NotifyKind::Done, Some(StateName::Done), None, head.clone()),
            EventBody::Failed { why } => {
                (NotifyKind::Failed, Some(StateName::Failed), Some(why.clone()), None)
            }
            EventBody::Parked { until, why, detail } => {
                let reason = format!("{}: {detail} (until {})", why.as_str(), until.in_utc());
                (NotifyKind::Parked, Some(StateName::Parked), Some(reason), None)
            }
            // Nobody is needed for it: the chain goes on by itself.
            EventBody::Blocked { reason: BlockReason::Changes, .. } => return None,
            EventBody::Blocked { reason, detail } => {
                let kind = match reason {
                    BlockReason::NeedsInput => NotifyKind::NeedsInput,
                    _ => NotifyKind::Blocked,
                };
                (kind, Some(StateName::Blocked), Some(format!("{reason}: {detail}")), None)
            }
            EventBody::Suspected { sign, why } => {
                (NotifyKind::NeedsInput, Some(StateName::Running), Some(format!("{sign}: {why}")), None)
            }
            EventBody::ConflictAhead { with, files } => {
                // It tells of no state: the task may be at work, wait to land or wait for a person.
                (NotifyKind::ConflictAhead, None, Some(format!("with {with} in {}", files.join(", "))), None)
            }
            // Of a plan, a run or a day: then it is no task's.
            EventBody::BudgetWarned { scope, detail } | EventBody::BudgetSpent { scope, detail } => {
                (NotifyKind::Budget, None, Some(format!("{scope}: {detail}")), None)
            }
            _ => return None,
        };
        if event.task.is_none() && kind != NotifyKind::Budget {
            return None;
        }
        Some(Self {
            kind,
            seq: Some(event.seq),
            task: event.task.clone(),
            title: None,
            state,
            reason,
            at: event.at,
            project: project.to_owned(),
            commit,
            target: on,
            counts: None,
        })
    }

    /// That nothing is left to do, with what it came to.
    pub fn idle(project: &str, at: Timestamp, counts: impl IntoIterator<Item = (StateName, u64)>) -> Self {
        let counts: BTreeMap<StateName, u64> = counts.into_iter().filter(|(_, n)| *n > 0).collect();
        let shown: Vec<String> = counts.iter().map(|(state, n)| format!("{n} {state}")).collect();
        Self {
            kind: NotifyKind::Idle,
            seq: None,
            task: None,
            title: None,
            state: None,
            reason: Some(shown.join(", ")),
            at,
            project: project.to_owned(),
            commit: None,
            target: None,
            counts: Some(counts),
        }
    }

    /// The same as it may leave this machine: `mask` takes secrets out, and nothing is longer than anybody reads.
    #[must_use]
    pub fn fit_to_send(mut self, mask: impl Fn(&str) -> String) -> Self {
        let fit = |text: &str, longest: usize| {
            let text = mask(text).replace('\0', "");
            match text.char_indices().nth(longest) {
                Some((at, _)) => format!("{}…", &text[..at]),
                None => text,
            }
        };
        self.title = self.title.map(|title| fit(&title, LONGEST_TITLE));
        self.reason = self.reason.map(|reason| fit(&reason, LONGEST_REASON));
        self.project = fit(&self.project, LONGEST_TITLE);
        self
    }

    /// In one line.
    pub fn text(&self) -> String {
        let mut text = format!("{}: ", self.project);
        if let Some(task) = &self.task {
            text.push_str(&format!("{task} "));
        }
        text.push_str(match self.kind {
            NotifyKind::NeedsInput => "needs input",
            NotifyKind::ConflictAhead => "would conflict",
            kind => kind.as_str(),
        });
        if let Some(target) = &self.target {
            text.push_str(&format!(" on {target}"));
        }
        if let Some(commit) = &self.commit {
            text.push_str(&format!(" as {}", commit.get(..12).unwrap_or(commit)));
        }
        let reason = self.reason.as_deref().unwrap_or_default();
        let reason = match self.kind {
            NotifyKind::NeedsInput => reason.strip_prefix("needs-input: ").unwrap_or(reason),
            _ => reason,
        };
        if self.kind == NotifyKind::ConflictAhead {
            text.push_str(&format!(" {reason}"));
        } else if !reason.is_empty() {
            text.push_str(&format!(": {reason}"));
        }
        if let Some(title) = self.title.as_deref().filter(|title| !title.is_empty()) {
            text.push_str(&format!(" ({title})"));
        }
        text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
    }

    /// What webhooks are sent and commands read: one object, whose keys are always there save `counts`.
    pub fn payload(&self) -> Value {
        let mut payload = json!({
            "kind": self.kind,
            "task": self.task,
            "title": self.title,
            "state": self.state,
            "reason": self.reason,
            "at": self.at,
            "project": self.project,
            "commit": self.commit,
            "target": self.target,
            "seq": self.seq,
            "text": self.text(),
        });
        if let Some(counts) = &self.counts {
            payload["counts"] = json!(counts);
        }
        payload
    }

    /// The same as variables, for commands. What is not known is empty.
    pub fn variables(&self) -> Vec<(&'static str, String)> {
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        vec![
            ("REGATTA_NOTIFY_KIND", self.kind.to_string()),
            ("REGATTA_NOTIFY_TASK", self.task.as_ref().map_or_else(String::new, TaskId::to_string)),
            ("REGATTA_NOTIFY_TITLE", text(&self.title)),
            ("REGATTA_NOTIFY_STATE", self.state.map_or("", StateName::as_str).to_owned()),
            ("REGATTA_NOTIFY_REASON", text(&self.reason)),
            ("REGATTA_NOTIFY_AT", self.at.to_string()),
            ("REGATTA_NOTIFY_PROJECT", self.project.clone()),
            ("REGATTA_NOTIFY_COMMIT", text(&self.commit)),
            ("REGATTA_NOTIFY_TEXT", self.text()),
        ]
    }
}

#[cfg(test)]
mod tests;
