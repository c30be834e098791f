//! Tasks without a given id: they get the next free number.

use regatta_core::id::TaskId;
use regatta_core::spec::TaskSpec;
use regatta_engine::clock;
use regatta_store::{IfPresent, NewTask, RequestId, Store, StoreError, TaskQuery};

use crate::project::Project;
use crate::refusal::Refusal;

/// How many numbers to try; that many tasks are never added at the same time.
const TRIES: u64 = 1000;

/// How to name tasks without a given id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Naming {
    /// The text before the number.
    pub prefix: &'static str,
    /// The minimum number of digits.
    pub width: usize,
    /// The first number.
    pub first: u64,
}

impl Naming {
    /// The id with this number.
    pub fn id(&self, n: u64) -> TaskId {
        let Naming { prefix, width, .. } = *self;
        TaskId::parse(&format!("{prefix}{n:0width$}")).expect("letters and digits make a task id")
    }
}

/// Adds the task under the next free number. If another process takes that number first, the next one is tried.
pub(crate) async fn put_numbered(
    project: &Project,
    store: &dyn Store,
    queue: &str,
    naming: &Naming,
    make: impl Fn(&TaskId) -> Result<TaskSpec, Refusal>,
) -> Result<TaskSpec, Refusal> {
    let prefix = naming.prefix;
    let query = TaskQuery { prefix: Some(prefix.to_owned()), ..TaskQuery::default() };
    let number = |id: &TaskId| id.as_str().get(prefix.len()..)?.parse::<u64>().ok();
    let taken = store.briefs(&query).await?;
    let next = taken.iter().filter_map(|task| number(&task.id)).max().map_or(naming.first, |last| last + 1);
    for n in next..next.saturating_add(TRIES) {
        let id = naming.id(n);
        // A branch of that name holds a task's work, even if the store no longer knows the task.
        if project.repo.branch_tip(&id.branch())?.is_some() {
            continue;
        }
        let spec = make(&id)?;
        if put(store, queue, &spec).await? {
            return Ok(spec);
        }
    }
    Err(Refusal::refused("no free number was found").hinted("choose an id with --id ID"))
}

/// Adds the task to a queue. Returns false if the id is taken.
pub(crate) async fn put(store: &dyn Store, queue: &str, spec: &TaskSpec) -> Result<bool, Refusal> {
    let new = [NewTask { spec: spec.clone(), queue: queue.to_owned(), if_present: IfPresent::Refuse }];
    match store.enqueue(&new, &RequestId::fresh(), clock::now()).await {
        Ok(()) => Ok(true),
        Err(StoreError::Conflict(_)) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
