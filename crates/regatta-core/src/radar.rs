//! The conflict radar's decisions: whose work meets, which meetings are worth reporting, and how the train separates
//! work that does not merge.
//!
//! Invariant: a pair that [`meetings`] leaves out merges without a conflict. A shared path is not the only way to meet:
//! one side may have a file where the other has a directory, and git moves what one side added to a directory that the
//! other side renamed. Such pairs are [`Meeting::Near`]: worth a trial merge, and worth reporting only if it conflicts.

mod meeting;
mod order;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::id::TaskId;
use crate::oid::Oid;
use crate::spec::TaskSpec;
use crate::time::Timestamp;
use crate::writes::WritePath;

pub use meeting::{Meeting, meetings};
pub use order::{CarPlace, spread};

/// What happened to a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Touch {
    /// It was added.
    Added,
    /// Its content, mode or type changed.
    Changed,
    /// It was deleted.
    Deleted,
}

/// Paths from the repository root, each with what happened to it. A rename is a deletion and an addition.
pub type Touched = BTreeMap<String, Touch>;

/// Work that is not on the target yet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Head<'a> {
    /// What it has changed so far.
    pub touched: &'a Touched,
    /// The places it declares to write.
    pub writes: &'a [WritePath],
}

/// The other side of a meeting.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Other {
    /// Another task.
    Task(TaskId),
    /// What is on the target branch by now.
    Target(String),
}

impl fmt::Display for Other {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Other::Task(task) => f.pad(task.as_str()),
            Other::Target(branch) => f.pad(branch),
        }
    }
}

/// The kind of a meeting, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A merge of the two would conflict.
    Conflict,
    /// They share places; whether they merge is unknown.
    Overlap,
    /// They share files and merge cleanly.
    Merges,
}

impl Kind {
    /// A description in words.
    pub const fn as_str(self) -> &'static str {
        match self {
            Kind::Conflict => "would conflict",
            Kind::Overlap => "overlaps",
            Kind::Merges => "merges cleanly",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The result of a trial merge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Cleanly.
    Clean,
    /// With conflicts.
    Conflict {
        /// The files in conflict; at most [`MOST_FILES`].
        files: Vec<String>,
        /// The number of all files in conflict.
        n_files: usize,
    },
}

impl Outcome {
    /// Conflicts in `files`.
    pub fn conflict(mut files: Vec<String>) -> Self {
        let n_files = files.len();
        files.truncate(MOST_FILES);
        Outcome::Conflict { files, n_files }
    }
}

/// Two pieces of work that meet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// One of them; of two tasks, the one whose id comes first.
    pub task: TaskId,
    /// The other.
    pub with: Other,
    /// The kind of the meeting.
    pub kind: Kind,
    /// The files in conflict, or those they share; at most [`MOST_FILES`].
    pub files: Vec<String>,
    /// The number of all such files.
    pub n_files: usize,
}

/// Maximum number of files that one finding names.
pub const MOST_FILES: usize = 50;

impl Finding {
    /// The finding for a meeting, if it is worth reporting; `outcome` is the result of a trial merge, if there was one.
    pub fn of(task: &TaskId, with: Other, meeting: Meeting, outcome: Option<Outcome>) -> Option<Self> {
        let (kind, mut files, n_files) = match (outcome, meeting) {
            (Some(Outcome::Conflict { files, n_files }), _) => (Kind::Conflict, files, n_files),
            (Some(Outcome::Clean), Meeting::Shared(files)) => (Kind::Merges, files, 0),
            (None, Meeting::Shared(files)) | (_, Meeting::Declared(files)) => (Kind::Overlap, files, 0),
            (_, Meeting::Near) => return None,
        };
        let n_files = n_files.max(files.len());
        files.truncate(MOST_FILES);
        let (task, with) = match with {
            Other::Task(other) if other < *task => (other, Other::Task(task.clone())),
            with => (task.clone(), with),
        };
        Some(Self { task, with, kind, files, n_files })
    }

    /// The side that `task` meets, if it is one of the two.
    pub fn other(&self, task: &TaskId) -> Option<Other> {
        match &self.with {
            with if self.task == *task => Some(with.clone()),
            Other::Task(with) if with == task => Some(Other::Task(self.task.clone())),
            _ => None,
        }
    }

    /// The two tasks, if the finding is a conflict between tasks.
    pub fn conflicting(&self) -> Option<(&TaskId, &TaskId)> {
        match (&self.with, self.kind) {
            (Other::Task(with), Kind::Conflict) => Some((&self.task, with)),
            _ => None,
        }
    }
}

/// Sorts for display: the worst first, the target before other tasks.
pub fn sort(findings: &mut [Finding]) {
    findings.sort_by(|a, b| {
        let key = |finding: &Finding| (finding.kind, matches!(finding.with, Other::Task(_)));
        key(a).cmp(&key(b)).then_with(|| (&a.task, &a.with).cmp(&(&b.task, &b.with)))
    });
}

/// The result of one scan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sighting {
    /// When it was taken.
    pub at: Timestamp,
    /// The branch work lands on.
    pub target: String,
    /// The tip of that branch.
    pub tip: Oid,
    /// Tasks whose work was examined.
    pub tasks: Vec<TaskId>,
    /// Tasks whose uncommitted work could not be examined, and why.
    #[serde(default)]
    pub unread: Vec<(TaskId, String)>,
    /// How many more tasks have work that was not examined because there were too many.
    #[serde(default)]
    pub left_out: usize,
    /// The meetings, worst first.
    pub findings: Vec<Finding>,
    /// How many more findings there were.
    #[serde(default)]
    pub more: usize,
}

impl Sighting {
    /// The findings about `task`, each with the other side.
    pub fn about<'a>(&'a self, task: &'a TaskId) -> impl Iterator<Item = (Other, &'a Finding)> {
        self.findings.iter().filter_map(move |finding| finding.other(task).map(|other| (other, finding)))
    }

    /// All tasks that a finding is about.
    pub fn involved(&self) -> BTreeSet<TaskId> {
        let with = self.findings.iter().filter_map(|finding| match &finding.with {
            Other::Task(task) => Some(task),
            Other::Target(_) => None,
        });
        self.findings.iter().map(|finding| &finding.task).chain(with).cloned().collect()
    }
}

/// The pairs of tasks that would conflict, as input for [`spread`].
pub fn conflicts(findings: &[Finding]) -> BTreeSet<(TaskId, TaskId)> {
    let pairs = findings.iter().filter_map(Finding::conflicting);
    pairs.map(|(a, b)| (a.clone(), b.clone())).collect()
}

/// Ready tasks in the order in which to start them: within one priority, tasks whose work would conflict with running
/// ones come last, so that others use the time until those have landed.
pub fn yielding<'a>(
    mut ready: Vec<&'a TaskSpec>,
    at_work: &BTreeSet<TaskId>,
    conflicts: &BTreeSet<(TaskId, TaskId)>,
) -> Vec<&'a TaskSpec> {
    let meets = |task: &TaskId| {
        conflicts.iter().any(|(a, b)| a == task && at_work.contains(b) || b == task && at_work.contains(a))
    };
    ready.sort_by_key(|spec| (std::cmp::Reverse(spec.priority), meets(&spec.id)));
    ready
}

#[cfg(test)]
mod tests;
