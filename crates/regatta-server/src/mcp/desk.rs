//! What a server acts on: the operations on one project and one store.

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

/// A project with its crew, as clients of the protocol reach it.
pub struct Desk {
    /// What the crew can do, on its project and its store.
    pub crew: Crew,
    /// No process stands for members that register, but their calls, at most this far apart: their clients are
    /// somewhere else.
    pub lease: Option<Duration>,
}

impl Desk {
    pub(super) fn store(&self) -> &dyn Store {
        self.crew.store.as_ref()
    }

    /// Joins the crew; the member is there as long as this server is, or is heard.
    pub async fn join(&self, name: &MemberName, role: &Role) -> Result<MemberDocument, Refusal> {
        let stands = self.lease.map_or(Stands::Here, Stands::Heartbeats);
        let (name, role) = (name.clone(), role.clone());
        let member = self.crew.join(&RegisterRequest { name, role, stands, wait: false }).await?;
        self.crew.document(&member).await
    }

    /// The member of that name called a tool: it is there.
    pub(super) async fn heard(&self, name: &MemberName) {
        if self.lease.is_some() {
            self.crew.heard(name).await;
        }
    }

    /// Everything about one task.
    pub(super) async fn status(&self, task: &str) -> Result<StatusDocument, Refusal> {
        let task = find_task(self.store(), task).await?;
        look::status::document(&self.crew.project, self.store(), &task).await
    }

    /// Whose work meets; none where nothing is under way. Only what concerns `task` if one is named.
    pub(super) async fn radar(&self, task: Option<&str>) -> Result<Option<RadarDocument>, Refusal> {
        let mut only = BTreeSet::new();
        if let Some(text) = task {
            only.insert(find_task(self.store(), text).await?.spec.id);
        }
        let seen = look::radar::radar(&self.crew.project, self.store(), &only).await?;
        Ok(seen.as_ref().map(RadarDocument::from))
    }

    /// Who takes work from the daemon's queue, in a sentence.
    pub(super) async fn takers(&self) -> Result<String, Refusal> {
        let operator = Operator::of(&self.crew.project, self.crew.store.clone()).await?;
        Ok(operator.takers.sentence(MAIN_QUEUE))
    }
}
