//! The repositories beside an attempt's lane: which commits of them, and what its agent changed there.

use std::collections::BTreeMap;

use regatta_core::event::EventBody;
use regatta_core::repos::RepoName;
use regatta_core::state::TaskState;
use tokio::task::JoinSet;

use super::{Worker, WorkerError};
use crate::clock;
use crate::git::Oid;
use crate::landing::candidate::{Combined, combine};
use crate::lanes::Lane;
use crate::siblings::{Changed, Fresh, Pins};

impl Worker {
    /// Chooses the commits of the siblings: those of the last attempt, unless a dependency landed since; otherwise the
    /// tips of their targets, or newer ones of their remotes with `pull: auto`, with the work of dependencies that do
    /// not land.
    pub(super) async fn choose_pins(&mut self) -> Result<(), WorkerError> {
        let names = self.ctx.builds_on();
        if names.is_empty() {
            return Ok(());
        }
        let attempts = self.ctx.services.store.attempts(&self.claim.task).await?;
        let before = attempts.into_iter().rev().find(|attempt| !attempt.siblings.is_empty());
        let before = before.map(|attempt| attempt.siblings).unwrap_or_default();
        let mut fresh = self.how_current(names.iter()).await;
        let mut pins = Pins::new();
        self.behind.clear();
        for name in names {
            let Fresh { newer, note } = fresh.remove(&name).unwrap_or_default();
            let pin = self.pin(&name, before.get(&name), newer).await?;
            self.behind.extend(note.map(|note| format!("{name}: {note}")));
            pins.insert(name, pin);
        }
        self.record.siblings = pins;
        Ok(())
    }

    /// How current the siblings are, asked at the same time.
    async fn how_current(&self, names: impl Iterator<Item = &RepoName>) -> BTreeMap<RepoName, Fresh> {
        let mut looks = JoinSet::new();
        for name in names {
            if let (Some(row), Ok(yard)) = (self.ctx.settings.config.repo(name), self.ctx.of(Some(name))) {
                let (name, pull) = (name.clone(), row.pull);
                looks.spawn(async move { (name, yard.fresh(pull).await) });
            }
        }
        looks.join_all().await.into_iter().collect()
    }

    /// Which siblings are behind their remotes, for the agent.
    pub(super) fn behind_in_words(&self) -> Option<String> {
        let rows: Vec<String> = self.behind.iter().map(|row| format!("- {row}\n")).collect();
        (!rows.is_empty()).then(|| {
            format!(
                "## Repositories beside this one\n\nThese are not what their remotes have now:\n\n{}\nWork with \
                 what is here, and mention it if that matters.\n",
                rows.concat()
            )
        })
    }

    async fn pin(
        &self,
        name: &RepoName,
        before: Option<&Oid>,
        newer: Option<Oid>,
    ) -> Result<Oid, WorkerError> {
        let yard = self.ctx.of(Some(name)).map_err(WorkerError::Impossible)?;
        let (mut landed, mut heads) = (Vec::new(), Vec::new());
        let records = self.dependencies().await?;
        for record in self.claim.spec.deps.iter().filter_map(|dependency| records.get(dependency)) {
            if record.spec.repo != yard.repository.name {
                continue;
            }
            match record.met() {
                Some(TaskState::Landed { commit, .. }) => {
                    landed.push((record.spec.id.clone(), commit.clone()));
                }
                Some(TaskState::Done { head: Some(head), .. }) => heads.push(head.clone()),
                _ => {}
            }
        }
        let (name, before) = (name.clone(), before.cloned());
        let found = yard.blocking(move |yard| {
            let work = &yard.repository.work;
            let has = |tip: &Oid, commit: &Oid| -> Result<bool, crate::git::GitError> {
                Ok(work.has_commit(commit)? && work.is_ancestor(commit, tip)?)
            };
            if let Some(before) = before.filter(|before| work.has_commit(before).unwrap_or(false)) {
                let needed = landed.iter().map(|(_, commit)| commit).chain(&heads);
                if needed
                    .map(|commit| has(&before, commit))
                    .collect::<Result<Vec<_>, _>>()?
                    .iter()
                    .all(|has| *has)
                {
                    return Ok(Ok(before));
                }
            }
            let target = &yard.repository.target;
            let Some(tip) = yard.repository.repo.branch_tip(target)? else {
                return Ok(Err(format!("{name} has no branch {target}")));
            };
            let mut tip = tip.oid().clone();
            if let Some(newer) = newer
                && has(&newer, &tip)?
            {
                tip = newer;
            }
            for (task, commit) in &landed {
                if !has(&tip, commit)? {
                    let commit = commit.short();
                    return Ok(Err(format!(
                        "{target} of {name} does not contain {commit}, which {task} landed"
                    )));
                }
            }
            if heads.is_empty() {
                return Ok(Ok(tip));
            }
            Ok(match combine(work, &tip, &heads, &work.identity(), clock::now())? {
                Combined::Base(base) => Ok(base),
                Combined::Conflict { paths, .. } => {
                    Err(format!("its dependencies in {name} conflict in {}", super::prepare::listed(&paths)))
                }
            })
        });
        found.await?.map_err(WorkerError::Impossible)
    }

    /// Puts the siblings beside a lane.
    pub(super) async fn beside(&mut self, lane: &Lane) -> Result<(), WorkerError> {
        if self.record.siblings.is_empty() {
            return Ok(());
        }
        let changed = self.ctx.lay_out_siblings(lane, &self.record.siblings).await?;
        self.tell_strayed(&changed).await;
        Ok(())
    }

    /// Saves what the agent changed beside its lane.
    pub(super) async fn look_at_siblings(&mut self, lane: &Lane) -> Result<(), WorkerError> {
        let changed = self.ctx.save_siblings(lane).await?;
        self.tell_strayed(&changed).await;
        self.strayed.extend(changed.iter().map(|changed| {
            format!(
                "it changed {}, which is not its repository; saved there as {}",
                changed.repo, changed.saved.name
            )
        }));
        Ok(())
    }

    async fn tell_strayed(&self, changed: &[Changed]) {
        for Changed { repo, saved } in changed {
            let why = format!("it changed {repo}, which is not its repository");
            self.note(EventBody::Salvaged { reference: format!("{repo}:{}", saved.name), why }).await;
        }
    }
}
