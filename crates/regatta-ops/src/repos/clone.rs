//! Clones the repositories of a project that this machine does not have.

use regatta_core::repos::RepoConfig;
use regatta_core::repos::remote::{RemoteAddress, to_clone};
use regatta_engine::cloning::{Cloned, clone};
use regatta_engine::survey::addresses;

use super::several::{ProjectRepos, aside, some_at_once};
use crate::documents::{CloneResult, RepoClonedDocument};
use crate::refusal::Refusal;

impl ProjectRepos {
    /// Clones the repositories with these names, or all, where they are missing. Nothing that exists is changed.
    pub async fn clone_missing(&self, names: &[String]) -> Result<Vec<RepoClonedDocument>, Refusal> {
        let (repos, rows) = (self.clone(), self.rows(names)?);
        Ok(aside(move || some_at_once(rows, |row| repos.cloned(&row))).await)
    }

    fn cloned(&self, row: &RepoConfig) -> RepoClonedDocument {
        let dir = self.project.repo_path(row);
        let (remote, result, why) = match self.open(row) {
            Ok(_) => (row.remote.clone(), CloneResult::There, None),
            Err(refusal) if dir.symlink_metadata().is_ok() => {
                (row.remote.clone(), CloneResult::Held, Some(refusal.message))
            }
            Err(_) => match self.clone_row(row, &dir) {
                Ok(remote) => (Some(remote), CloneResult::Cloned, None),
                Err(why) => (row.remote.clone(), CloneResult::Held, Some(why)),
            },
        };
        let plain = |text: String| RemoteAddress::parse(&text).map_or(text, |address| address.to_string());
        RepoClonedDocument {
            name: row.name.clone(),
            path: self.dir(row),
            remote: remote.map(plain),
            result,
            why,
        }
    }

    /// Clones the repository of a row. Returns where from, or why it could not be cloned.
    fn clone_row(&self, row: &RepoConfig, dir: &std::path::Path) -> Result<String, String> {
        let home = &self.project.repo;
        let Some(remote) = &row.remote else {
            return Err(format!(
                "its row in regatta.yaml has no `remote`, and there is no directory {}",
                dir.display()
            ));
        };
        let beside = addresses(home).ok().and_then(|found| found.into_iter().next());
        let address = to_clone(remote, beside.as_ref().map(|(_, url)| url.as_str()));
        let Some(address) = address else {
            return Err(format!(
                "`remote` in regatta.yaml is {remote:?}, which is neither OWNER/NAME nor an address"
            ));
        };
        match clone(home, &address, row.target.as_deref(), dir) {
            Ok(Cloned::Done) => Ok(address),
            Ok(Cloned::Exists) => Err(format!("something is at {} already", dir.display())),
            Ok(Cloned::Failed(why)) => Err(why),
            Err(error) => Err(format!("could not {error}")),
        }
    }
}
