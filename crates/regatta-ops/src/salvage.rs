//! Saved work: what there is, what is in it, and how it comes back.

use regatta_core::id::TaskId;
use regatta_engine::git::{
    DiffStyle, Expect, Oid, RefEdit, RefOutcome, Salvage, salvages, salvages_elsewhere, salvages_of,
};
use regatta_engine::travel;

use crate::documents::{RestoredDocument, SavedDocument, SavedPatchDocument};
use crate::look::train::shared_hub;
use crate::project::{Project, find_task};
use crate::refusal::Refusal;

/// Selects one of a task's salvages.
#[derive(Clone, Debug)]
pub struct SalvageRequest {
    /// The task, or the beginning of its id.
    pub task: String,
    /// The number in its ref; by default the last one.
    pub number: Option<u64>,
}

/// The content of a salvage.
pub struct SavedPatch {
    /// The salvage as a document.
    pub saved: SavedDocument,
    /// The commit it is compared with.
    pub base: Oid,
    /// The patch, byte by byte.
    pub patch: Vec<u8>,
}

impl SavedPatch {
    /// The same as a document.
    pub fn document(&self) -> SavedPatchDocument {
        let SavedDocument { clone, commit, number, reference, saved_at, task, why } = self.saved.clone();
        let (base, patch) = (self.base.clone(), String::from_utf8_lossy(&self.patch).into_owned());
        SavedPatchDocument { base, clone, commit, number, patch, reference, saved_at, task, why }
    }
}

impl Project {
    /// All saved work; where clones share work through a hub, also that of other clones. Also returns why the hub could
    /// not be asked.
    pub async fn salvages(&self) -> Result<(Vec<SavedDocument>, Option<String>), Refusal> {
        let away = fetch(self, None).await?;
        let mut all = Vec::new();
        for project in self.usable_repos() {
            all.extend(salvages(&project.repo)?);
        }
        if away.is_some() || shared_hub(self)?.is_some() {
            all.extend(salvages_elsewhere(&self.repo, None)?);
        }
        Ok((all.iter().map(SavedDocument::from).collect(), away))
    }

    /// One salvage as a patch.
    pub async fn salvage(&self, request: &SalvageRequest) -> Result<SavedPatch, Refusal> {
        let (project, salvage) = find(self, request).await?;
        let work = project.work()?;
        let base = work.parent_of(&salvage.oid)?.unwrap_or_else(|| salvage.oid.clone());
        let patch = work.diff_styled(&base, &salvage.oid, DiffStyle::Patch)?;
        Ok(SavedPatch { saved: SavedDocument::from(&salvage), base, patch })
    }

    /// Puts a salvage on a new branch. Nothing is checked out.
    pub async fn restore(&self, request: &SalvageRequest) -> Result<RestoredDocument, Refusal> {
        let (project, salvage) = find(self, request).await?;
        let number = match &salvage.by {
            Some(clone) => format!("{clone}.{}", salvage.number),
            None => salvage.number.to_string(),
        };
        let branch = format!("{}-salvage-{number}", salvage.task.branch());
        let name = format!("refs/heads/{branch}");
        let edit = RefEdit { name, new: Some(salvage.oid.clone()), old: Expect::Absent };
        let there = match project.repo.update_refs(&[edit], "regatta: salvage restored")? {
            RefOutcome::Done => None,
            RefOutcome::Moved { now, .. } => now,
        };
        // An earlier restore of the same commit is fine.
        if there.is_some_and(|now| now != salvage.oid) {
            return Err(Refusal::refused(format!("branch {branch} already exists with other content"))
                .hinted(format!("create another branch for the commit: git branch NAME {}", salvage.name)));
        }
        Ok(RestoredDocument { branch, commit: salvage.oid, reference: salvage.name })
    }
}

async fn find(project: &Project, request: &SalvageRequest) -> Result<(Project, Salvage), Refusal> {
    let store = project.store().await?;
    let spec = find_task(store.as_ref(), &request.task).await?.spec;
    let project = &project.of_task(&spec)?;
    let id: TaskId = spec.id;
    let choose = |mut all: Vec<Salvage>| match request.number {
        Some(n) => all.into_iter().find(|salvage| salvage.number == n),
        None => all.pop(),
    };
    let mut found = choose(salvages_of(&project.repo, &id)?);
    if found.is_none() && shared_hub(project)?.is_some() {
        if let Some(why) = fetch(project, Some(&id)).await? {
            return Err(Refusal::new(crate::refusal::RefusalKind::Git, why));
        }
        let mut elsewhere = salvages_elsewhere(&project.repo, Some(&id))?;
        elsewhere.sort_by_key(|salvage| salvage.at);
        found = choose(elsewhere);
    }
    let found = found.ok_or_else(|| {
        Refusal::not_found(match request.number {
            Some(n) => format!("there is no salvage {n} of {id}"),
            None => format!("there is no saved work of {id}"),
        })
        .hinted(format!("`regatta salvage list` shows all; `regatta diff {id}` shows its work"))
    })?;
    Ok((project.clone(), found))
}

/// Fetches what other clones have saved. Returns why that was not possible.
async fn fetch(project: &Project, task: Option<&TaskId>) -> Result<Option<String>, Refusal> {
    let Some(hub) = shared_hub(project)? else { return Ok(None) };
    // So that it knows which clone it is.
    project.store().await?;
    let task = task.cloned();
    let fetched = tokio::task::spawn_blocking(move || travel::salvage::fetch(&hub, task.as_ref()));
    let fetched = fetched.await.expect("fetching does not panic");
    Ok(fetched.err().map(|error| format!("could not {error}")))
}
