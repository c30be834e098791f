//! Notifications: which event makes which kind of notification, its text and its JSON.
//!
//! Once per transition: each change of state is one event in the log, so each event makes at most one notification, and
//! a position in the log says which have been sent.

mod address;

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use serde_json::{Value, json};

use crate::event::{Event, EventBody};
use crate::id::TaskId;
use crate::oid::Oid;
use crate::plain;
use crate::state::{BlockReason, StateName};
use crate::time::{Timestamp, counted};
use crate::train::{HeldBy, LandStep};

pub use address::{WebhookUrl, is_public};

/// Longest reason in a notification, in characters.
const LONGEST_REASON: usize = 2000;
/// Longest title in a notification, in characters.
const LONGEST_TITLE: usize = 200;

/// What a notification is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum NotifyKind {
    /// Work landed on the target branch.
    Landed,
    /// A task is done, with nothing to land.
    Done,
    /// A task needs a user.
    Blocked,
    /// A task failed for good.
    Failed,
    /// A task waits for a time.
    Parked,
    /// An agent asked for something, which is one way to be blocked; or a running agent seems to wait for a user.
    NeedsInput,
    /// The work of two running tasks would conflict if both landed.
    ConflictAhead,
    /// A budget is spent, wholly or mostly.
    Budget,
    /// A pull request was opened.
    Proposed,
    /// A pull request waits for a review.
    ReviewWanted,
    /// A pull request is ready, and a person merges it.
    Ready,
    /// A pull request was closed without a merge, which is one way to be blocked.
    Declined,
    /// No running node has what a task requires.
    Unserved,
    /// An engine started on a node that had none.
    NodeJoined,
    /// The engines of a node went away.
    NodeLost,
    /// Nothing is left to do.
    Idle,
}

impl NotifyKind {
    /// All kinds, as written in `notify[].on`.
    pub const NAMES: [(&'static str, NotifyKind); 16] = [
        ("landed", NotifyKind::Landed),
        ("done", NotifyKind::Done),
        ("blocked", NotifyKind::Blocked),
        ("failed", NotifyKind::Failed),
        ("parked", NotifyKind::Parked),
        ("needs-input", NotifyKind::NeedsInput),
        ("conflict-ahead", NotifyKind::ConflictAhead),
        ("budget", NotifyKind::Budget),
        ("proposed", NotifyKind::Proposed),
        ("review-wanted", NotifyKind::ReviewWanted),
        ("ready", NotifyKind::Ready),
        ("declined", NotifyKind::Declined),
        ("unserved", NotifyKind::Unserved),
        ("node-joined", NotifyKind::NodeJoined),
        ("node-lost", NotifyKind::NodeLost),
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

    /// Whether a sink subscribed to `on` gets this kind. A subscription to blocked tasks includes questions and
    /// declined pull requests.
    pub fn is_wanted(self, on: &[NotifyKind]) -> bool {
        let is_blocked = matches!(self, NotifyKind::NeedsInput | NotifyKind::Declined);
        on.contains(&self) || is_blocked && on.contains(&NotifyKind::Blocked)
    }
}

impl fmt::Display for NotifyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// One notification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notification {
    /// What it is about.
    pub kind: NotifyKind,
    /// The event it comes from; `None` for [`NotifyKind::Idle`], which has no event.
    pub seq: Option<u64>,
    /// The task it is about.
    pub task: Option<TaskId>,
    /// The task's title.
    pub title: Option<String>,
    /// The task's state after that event.
    pub state: Option<StateName>,
    /// The reason, if there is one.
    pub reason: Option<String>,
    /// When it happened.
    pub at: Timestamp,
    /// The repository's name.
    pub project: String,
    /// The commit on the target, or the one that holds finished work.
    pub commit: Option<Oid>,
    /// The branch it landed on.
    pub target: Option<String>,
    /// The number of tasks in each state, for [`NotifyKind::Idle`].
    pub counts: Option<BTreeMap<StateName, u64>>,
}

impl Notification {
    /// The notification for an event, if there is one. The caller adds the title.
    ///
    /// When the train refuses work, two events are recorded; the second one, about the task, counts.
    pub fn of(event: &Event, project: &str) -> Option<Self> {
        let mut on = None;
        let (kind, state, reason, commit) = match &event.body {
            EventBody::Landing { landing, target } => {
                on.clone_from(target);
                match landing {
                    LandStep::Landed { commit }
                    | LandStep::AlreadyIn { commit }
                    | LandStep::Merged { commit, .. } => {
                        (NotifyKind::Landed, Some(StateName::Landed), None, Some(commit.clone()))
                    }
                    LandStep::Proposed { head, number, url, is_new: true } => {
                        let reason = format!("pull request #{number}: {url}");
                        (NotifyKind::Proposed, Some(StateName::Landing), Some(reason), Some(head.clone()))
                    }
                    LandStep::Wait { why, held_by: HeldBy::Review } => {
                        (NotifyKind::ReviewWanted, Some(StateName::Landing), Some(why.clone()), None)
                    }
                    LandStep::Wait { why, held_by: HeldBy::Ready } => {
                        (NotifyKind::Ready, Some(StateName::Landing), Some(why.clone()), None)
                    }
                    LandStep::Wait { why, held_by: HeldBy::Person } => {
                        (NotifyKind::NeedsInput, Some(StateName::Landing), Some(why.clone()), None)
                    }
                    _ => return None,
                }
            }
            EventBody::Done { head } => (NotifyKind::Done, Some(StateName::Done), None, head.clone()),
            EventBody::Failed { why } => {
                (NotifyKind::Failed, Some(StateName::Failed), Some(why.clone()), None)
            }
            EventBody::Parked { until, why, detail } => {
                let reason = format!("{}: {detail} (until {})", why.as_str(), until.in_utc());
                (NotifyKind::Parked, Some(StateName::Parked), Some(reason), None)
            }
            // This needs no user: the chain continues by itself.
            EventBody::Blocked { reason: BlockReason::Changes, .. } => return None,
            EventBody::Blocked { reason, detail } => {
                let kind = match reason {
                    BlockReason::NeedsInput => NotifyKind::NeedsInput,
                    BlockReason::Declined => NotifyKind::Declined,
                    _ => NotifyKind::Blocked,
                };
                (kind, Some(StateName::Blocked), Some(format!("{reason}: {detail}")), None)
            }
            EventBody::Suspected { sign, why } => {
                (NotifyKind::NeedsInput, Some(StateName::Running), Some(format!("{sign}: {why}")), None)
            }
            EventBody::ConflictAhead { with, files } => {
                // It implies no state: the task may be running, landing, or waiting for a user.
                (NotifyKind::ConflictAhead, None, Some(format!("with {with} in {}", files.join(", "))), None)
            }
            // A budget of a plan, a run or a day belongs to no task.
            EventBody::BudgetWarned { scope, detail } | EventBody::BudgetSpent { scope, detail } => {
                (NotifyKind::Budget, None, Some(format!("{scope}: {detail}")), None)
            }
            EventBody::Unserved { why, .. } => {
                (NotifyKind::Unserved, Some(StateName::Pending), Some(why.clone()), None)
            }
            EventBody::NodeJoined { node } => (NotifyKind::NodeJoined, None, Some(node.clone()), None),
            EventBody::NodeLost { node, released } => {
                let released = counted(*released, "task");
                (NotifyKind::NodeLost, None, Some(format!("{node} ({released} released)")), None)
            }
            _ => return None,
        };
        let is_of_task = !matches!(kind, NotifyKind::Budget | NotifyKind::NodeJoined | NotifyKind::NodeLost);
        if event.task.is_none() && is_of_task {
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

    /// Nothing is left to do, with the number of tasks per state.
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

    /// The same, fit to leave this machine: `mask` removes secrets, and long texts are cut.
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

    /// The notification in one line.
    pub fn text(&self) -> String {
        let mut text = format!("{}: ", self.project);
        if let Some(task) = &self.task {
            text.push_str(&format!("{task} "));
        }
        text.push_str(&self.what());
        if let Some(title) = self.title.as_deref().filter(|title| !title.is_empty()) {
            text.push_str(&format!(" ({title})"));
        }
        plain::spaced(&text)
    }

    /// What happened, without the names of the project and the task.
    pub fn what(&self) -> String {
        let mut text = match self.kind {
            NotifyKind::NeedsInput => "needs input",
            NotifyKind::ConflictAhead => "would conflict",
            NotifyKind::ReviewWanted => "review wanted",
            NotifyKind::Unserved => "cannot start",
            NotifyKind::NodeJoined => "node joined",
            NotifyKind::NodeLost => "node lost",
            kind => kind.as_str(),
        }
        .to_owned();
        if let Some(target) = &self.target {
            text.push_str(&format!(" on {target}"));
        }
        if let Some(commit) = &self.commit {
            text.push_str(&format!(" as {}", commit.short()));
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
        plain::spaced(&text)
    }

    /// The JSON for webhooks and commands: one object whose keys are always present, except `counts`.
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

    /// The same as environment variables for commands. Unknown values are empty.
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
            ("REGATTA_NOTIFY_COMMIT", self.commit.as_ref().map_or_else(String::new, Oid::to_string)),
            ("REGATTA_NOTIFY_TEXT", self.text()),
        ]
    }
}

#[cfg(test)]
mod tests;
