//! The open pull requests at the end of a run.

use regatta_core::forge::PullNumber;
use regatta_core::forge::record::PullRecord;
use regatta_core::id::TaskId;
use regatta_core::report::{Report, TaskReport};
use regatta_core::state::StateName;
use regatta_store::Store;

use super::records;
use crate::refusal::Refusal;

/// An open pull request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenPull {
    /// Its task, which waits for it.
    pub task: TaskId,
    /// Its number.
    pub number: PullNumber,
    /// Its address.
    pub url: String,
}

/// The pull requests that the tasks of a run wait for.
#[derive(Clone, Debug, Default)]
pub struct Proposed {
    /// By task.
    pub open: Vec<OpenPull>,
}

impl Proposed {
    /// Those of the tasks in a report.
    pub async fn of(report: &Report, store: &dyn Store) -> Result<Self, Refusal> {
        let is_landing =
            |id: &TaskId| report.tasks.iter().any(|task| task.id == *id && task.state == StateName::Landing);
        if !report.tasks.iter().any(|task| task.state == StateName::Landing) {
            return Ok(Self::default());
        }
        let records = records(store).await?.into_iter();
        let open = records.filter(|record| record.is_open() && is_landing(&record.task));
        let open = open.filter_map(|PullRecord { task, pull, .. }| {
            let pull = pull?;
            Some(OpenPull { task, number: pull.number, url: pull.url })
        });
        Ok(Self { open: open.collect() })
    }

    /// Whether everything is done, landed or proposed.
    pub fn is_all(&self, report: &Report) -> bool {
        report.tasks.iter().all(|task| task.state.is_met() || self.has(task))
    }

    /// Whether everything that is left waits for these pull requests.
    pub fn is_awaited(&self, report: &Report) -> bool {
        let waits = |task: &TaskReport| task.state == StateName::Pending && !task.waiting_on.is_empty();
        !self.open.is_empty()
            && report.tasks.iter().all(|task| task.state.is_met() || self.has(task) || waits(task))
    }

    fn has(&self, task: &TaskReport) -> bool {
        self.open.iter().any(|pull| pull.task == task.id)
    }
}
