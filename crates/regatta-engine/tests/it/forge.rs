//! The client for GitHub: the real `gh`, against a GitHub-shaped server.

mod deciding;
mod doors;
mod issues;
mod pulls;
mod trouble;

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use regatta_core::config::Github;
use regatta_core::forge::Slug;
use regatta_core::oid::Oid;
use regatta_engine::environment::Environment;
use regatta_engine::forge::github::GitHub;
use regatta_engine::forge::wire::GhWire;
use regatta_engine::forge::{Forge as _, MergeRequest, NewPull, OpenError, Pull, open_with};
use regatta_engine::git::{GitEnv, Repo, TrustSnapshot, Work};
use regatta_testkit::forge::Forge;
use regatta_testkit::repo::ScratchRepo;

/// A repository whose remote is on the server.
struct Desk {
    server: Forge,
    scratch: ScratchRepo,
}

fn shop() -> Slug {
    Slug::parse("acme/shop").unwrap()
}

impl Desk {
    fn new() -> Self {
        let desk = Self { server: Forge::with_shop(), scratch: ScratchRepo::new() };
        desk.scratch.git(["remote", "add", "origin", &desk.server.remote("acme/shop")]);
        desk
    }

    /// A client with its own memory, so that the pauses of another one do not hold it up.
    fn client(&self) -> Arc<GitHub> {
        self.client_with(&Github::default(), self.server.world_env())
    }

    fn client_with(&self, github: &Github, more: Vec<(String, OsString)>) -> Arc<GitHub> {
        self.try_client(github, more).unwrap()
    }

    fn try_client(&self, github: &Github, more: Vec<(String, OsString)>) -> Result<Arc<GitHub>, OpenError> {
        let mut vars = self.scratch.env();
        for (name, value) in more {
            vars.retain(|(known, _)| *known != *name);
            vars.push((name.into(), value));
        }
        let repo = Repo::discover_in(self.scratch.root(), None, GitEnv::new(vars.clone())).unwrap();
        let work = Work::new(&repo, TrustSnapshot::take(&repo).unwrap());
        let environment = Environment::passed_on(vars, Path::new("/nonexistent"));
        let wire = GhWire::new(&environment, &github.token_command, &repo.root)
            .within(Duration::from_secs(20), Duration::ZERO);
        drop(std::fs::remove_dir_all(repo.state_dir.join("forge")));
        open_with(&repo, &work, github, &environment, Arc::new(wire))
    }

    /// A branch with one commit more than `main`.
    fn branch(&self, name: &str) -> Oid {
        let file = format!("{}.txt", name.replace('/', "-"));
        Oid::parse(&self.server.as_user("octo").push(name, &[(&file, "work\n")])).unwrap()
    }

    /// An open pull request of such a branch.
    async fn pull(&self, client: &GitHub, branch: &str) -> Pull {
        self.branch(branch);
        client.propose(&shop(), &new_pull(branch)).await.unwrap()
    }
}

fn new_pull(branch: &str) -> NewPull {
    NewPull {
        title: format!("Work of {branch}"),
        body: "It works.\n\n<!-- regatta task=a -->".into(),
        head_repo: shop(),
        branch: branch.into(),
        base: "main".into(),
        draft: false,
        labels: Vec::new(),
        reviewers: Vec::new(),
    }
}

fn squash() -> MergeRequest {
    MergeRequest::Now {
        method: regatta_core::train::Strategy::Squash,
        title: "Work".into(),
        message: "All of it.".into(),
    }
}
