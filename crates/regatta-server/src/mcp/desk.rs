//! What a server acts on: the operations on one project and its store.

use std::collections::BTreeSet;
use std::time::Duration;

use regatta_core::crew::{MemberName, Role};
use regatta_ops::crew::{Crew, RegisterRequest, Stands};
use regatta_ops::documents::crew::MemberDocument;
use regatta_ops::documents::{RadarDocument, StatusDocument};
use regatta_ops::look;
use regatta_ops::project::find_task;
use regatta_ops::{Operator, Refusal};
use regatta_store::{MAIN_QUEUE, Store};

/// A project with its crew, as MCP clients reach it.
pub struct Desk {
    /// The crew's operations, on its project and its store.
    pub crew: Crew,
    /// If set, members that register depend on their calls, at most this far apart, instead of a process, because their
    /// clients may be on other machines.
    pub lease: Option<Duration>,
}

impl Desk {
    pub(super) fn store(&self) -> &dyn Store {
        self.crew.store.as_ref()
    }

    /// Joins the crew; the member stays as long as this server runs, or as its calls come in time.
    pub async fn join(&self, name: &MemberName, role: &Role) -> Result<MemberDocument, Refusal> {
        let stands = self.lease.map_or(Stands::Here, Stands::Heartbeats);
        let (name, role) = (name.clone(), role.clone());
        let member = self.crew.join(&RegisterRequest { name, role, stands, wait: false }).await?;
        self.crew.document(&member).await
    }

    /// Counts a call of the named member as a heartbeat.
    pub(super) async fn heard(&self, name: &MemberName) {
        if self.lease.is_some() {
            self.crew.heard(name).await;
        }
    }

    /// All details of one task.
    pub(super) async fn status(&self, task: &str) -> Result<StatusDocument, Refusal> {
        let task = find_task(self.store(), task).await?;
        look::status::document(&self.crew.project, self.store(), &task).await
    }

    /// Which tasks would conflict; `None` before the first run. With `task`, only findings about that task.
    pub(super) async fn radar(&self, task: Option<&str>) -> Result<Option<RadarDocument>, Refusal> {
        let mut only = BTreeSet::new();
        if let Some(text) = task {
            only.insert(find_task(self.store(), text).await?.spec.id);
        }
        let seen = look::radar::radar(&self.crew.project, self.store(), &only).await?;
        Ok(seen.as_ref().map(RadarDocument::from))
    }

    /// Who takes tasks from the daemon's queue, in a sentence.
    pub(super) async fn takers(&self) -> Result<String, Refusal> {
        let operator = Operator::of(&self.crew.project, self.crew.store.clone()).await?;
        Ok(operator.takers.sentence(MAIN_QUEUE))
    }
}
