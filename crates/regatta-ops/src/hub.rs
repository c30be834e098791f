//! The hub: makes one, and tries whether it can do what Regatta needs.

use regatta_core::config::HubAddress;
use regatta_engine::git::GitError;
use regatta_engine::hub::{Answer, Hub, HubError, MakeError, Move, names};

use crate::documents::{HubCheckDocument, HubMadeDocument, HubTriedDocument};
use crate::project::Project;
use crate::refusal::{Refusal, RefusalKind};

impl Project {
    /// Makes a bare repository at `address` and pushes the target to it.
    pub async fn make_hub(&self, address: &str) -> Result<HubMadeDocument, Refusal> {
        let parsed = HubAddress::parse(address).map_err(|why| {
            Refusal::usage(format!("{address:?} {why}"))
                .hinted("give a path such as /srv/project.git, or ssh://HOST/PATH")
        })?;
        let target = self.decide_target()?;
        let (repo, work) = (self.repo.clone(), self.work()?);
        let tip = repo.read_ref(&names::branch(&target))?.ok_or_else(|| {
            Refusal::refused(format!("there is no branch {target} to push"))
                .hinted("make the first commit, or name another branch with `target` in regatta.yaml")
        })?;
        let branch = target.clone();
        let made = tokio::task::spawn_blocking(move || Hub::make(&repo, &work, &parsed, &branch)).await;
        let hub = made.expect("making a repository does not panic")?;
        let (name, commit) = (hub.name().to_owned(), tip.clone());
        let branch = names::branch(&target);
        let pushed = tokio::task::spawn_blocking(move || {
            // One that has the branch already keeps it as it is.
            match hub.read(&[&branch])?.remove(&branch) {
                Some(there) => Ok((Answer::Done, there)),
                None => Ok((hub.push(&[Move::create(branch, tip.clone())], false)?, tip)),
            }
        })
        .await;
        let (answer, there) =
            pushed.expect("pushing does not panic").map_err(|error: GitError| Refusal::from(error))?;
        match answer {
            Answer::Done => {
                let pushed = there == commit;
                Ok(HubMadeDocument { hub: name, target, commit: there, pushed })
            }
            Answer::Stale(_) => Err(Refusal::refused(format!("someone else pushed {target} to {name}"))
                .hinted("`regatta hub check` shows what the hub has")),
            Answer::Refused(why) | Answer::Unknown(why) => Err(Refusal::new(RefusalKind::Git, why)
                .hinted("the repository is there; run the same command again to push the branch")),
        }
    }

    /// Tries the hub that the settings name.
    pub async fn check_hub(&self) -> Result<HubCheckDocument, Refusal> {
        let target = self.decide_target()?;
        let shared = !self.store_url.starts_with("sqlite:");
        let hub = Hub::find(&self.repo, &self.work()?, &self.config, shared)?.ok_or_else(|| {
            Refusal::not_found("no hub is configured")
                .hinted("name one with `hub` in regatta.yaml, or make one: regatta hub init ssh://HOST/PATH")
        })?;
        let name = hub.name().to_owned();
        let branch = target.clone();
        let tried = tokio::task::spawn_blocking(move || hub.try_out(&branch)).await;
        let tried = tried.expect("trying does not panic")?;
        let steps: Vec<HubTriedDocument> = tried
            .into_iter()
            .map(|one| HubTriedDocument { what: one.ability.as_str(), ok: one.ok, detail: one.detail })
            .collect();
        Ok(HubCheckDocument { ok: steps.iter().all(|step| step.ok), hub: name, target, steps })
    }
}

impl From<HubError> for Refusal {
    fn from(error: HubError) -> Self {
        regatta_engine::engine::EngineError::Hub(error).into()
    }
}

impl From<MakeError> for Refusal {
    fn from(error: MakeError) -> Self {
        let text = error.to_string();
        match error {
            MakeError::Git(error) => error.into(),
            MakeError::NoPlace(_) => Refusal::usage(text)
                .hinted("give a path or ssh://HOST/PATH; elsewhere, create the repository there and set `hub` to its address"),
            MakeError::InTheWay(_) => Refusal::refused(text).hinted("name a directory that does not exist yet"),
            MakeError::Failed { .. } => {
                Refusal::new(RefusalKind::Git, text).hinted("`ssh HOST git --version` must work without a question")
            }
        }
    }
}
