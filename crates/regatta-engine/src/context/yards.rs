//! The repositories of a project: each has its own git, lanes, target and train; the store, the session and what the
//! engine remembers of the project are shared.
//!
//! Invariant: a repository that cannot be opened holds only its own tasks back.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use regatta_core::config::Config;
use regatta_core::repos::{Graph, RepoName};

use super::{Context, Memory, Repository, Settings};
use crate::git::Repo;
use crate::siblings::Layout;

/// A repository besides the project's own, as the settings name it.
pub struct OtherRepository {
    /// Its name.
    pub name: RepoName,
    /// What is there, or why it cannot be used.
    pub place: Result<OtherPlace, String>,
}

/// A repository that was found.
pub struct OtherPlace {
    /// The repository.
    pub repo: Repo,
    /// The branch its work lands on.
    pub target: String,
    /// The directory of its lanes.
    pub lanes_root: PathBuf,
    /// The settings for its tasks.
    pub config: Config,
}

/// One repository of a project, opened.
#[derive(Clone)]
pub(super) struct Yard {
    pub(super) settings: Arc<Settings>,
    pub(super) memory: Memory,
    pub(super) repository: Arc<Repository>,
}

/// All repositories of a project.
pub struct Yards {
    pub(super) home: Yard,
    pub(super) others: BTreeMap<RepoName, Result<Yard, String>>,
    /// The name of the project's own repository, if it has one.
    pub(super) home_name: Option<RepoName>,
    pub(super) graph: Graph,
}

impl Yards {
    /// Where the lanes of a repository with siblings are in their bays.
    pub(super) fn with_bays(mut self) -> Self {
        let root = |yard: &Yard| yard.repository.repo.root.clone();
        let mut roots: BTreeMap<RepoName, PathBuf> = BTreeMap::new();
        roots.extend(self.home_name.iter().map(|name| (name.clone(), root(&self.home))));
        let opened = self.others.iter().filter_map(|(name, yard)| Some((name, yard.as_ref().ok()?)));
        roots.extend(opened.map(|(name, yard)| (name.clone(), root(yard))));
        let graph = &self.graph;
        let place = |name: &RepoName| {
            let below = graph.below(name).into_iter();
            let siblings: Vec<_> = below.filter_map(|one| roots.get_key_value(&one)).collect();
            let siblings: Vec<_> =
                siblings.into_iter().map(|(one, dir)| (one.clone(), dir.clone())).collect();
            (!siblings.is_empty()).then(|| Layout::of(&roots[name], &siblings).own)
        };
        let others = self.others.iter_mut().filter_map(|(name, yard)| Some((name, yard.as_mut().ok()?)));
        let home = self.home_name.as_ref().map(|name| (name, &mut self.home));
        for (name, yard) in home.into_iter().chain(others) {
            if let Some(repository) = Arc::get_mut(&mut yard.repository) {
                repository.lanes = repository.lanes.clone().in_bays(place(name));
            }
        }
        self
    }

    fn yard(&self, repo: Option<&RepoName>) -> Result<&Yard, String> {
        let Some(name) = repo.filter(|name| self.home_name.as_ref() != Some(name)) else {
            return Ok(&self.home);
        };
        match self.others.get(name) {
            Some(Ok(yard)) => Ok(yard),
            Some(Err(why)) => Err(format!("its repository {name} cannot be used: {why}")),
            None => Err(format!("its repository {name} is not in `repos` of regatta.yaml")),
        }
    }
}

impl Context {
    /// The context of another repository of the project; `None` is the project's own. The error says why it cannot be
    /// used.
    pub fn of(&self, repo: Option<&RepoName>) -> Result<Arc<Context>, String> {
        Ok(Arc::new(self.in_yard(self.yards.yard(repo)?)))
    }

    /// The contexts of all repositories that can be used, the project's own first.
    pub fn all(&self) -> Vec<Arc<Context>> {
        let others = self.yards.others.values().filter_map(|yard| yard.as_ref().ok());
        std::iter::once(&self.yards.home).chain(others).map(|yard| Arc::new(self.in_yard(yard))).collect()
    }

    /// The checkout of the project's own repository.
    pub fn project_checkout(&self) -> &std::path::Path {
        &self.yards.home.repository.checkout
    }

    /// Whether the project has several repositories.
    pub fn has_several(&self) -> bool {
        !self.yards.others.is_empty()
    }

    /// The repositories that cannot be used, and why.
    pub fn unusable(&self) -> impl Iterator<Item = (&RepoName, &str)> {
        self.yards.others.iter().filter_map(|(name, yard)| Some((name, yard.as_ref().err()?.as_str())))
    }

    /// The repositories that this one builds on, directly or through others.
    pub fn builds_on(&self) -> BTreeSet<RepoName> {
        let name = self.repository.name.as_ref().or(self.yards.home_name.as_ref());
        name.map(|name| self.yards.graph.below(name)).unwrap_or_default()
    }

    /// Which repository builds on which.
    pub fn graph(&self) -> &Graph {
        &self.yards.graph
    }

    /// The name of this repository, if it has one.
    pub fn repo_name(&self) -> Option<&RepoName> {
        self.repository.name.as_ref().or(self.yards.home_name.as_ref())
    }

    /// The name of the project's own repository, if it has one.
    pub fn home_name(&self) -> Option<&RepoName> {
        self.yards.home_name.as_ref()
    }

    fn in_yard(&self, yard: &Yard) -> Context {
        let Yard { settings, memory, repository } = yard.clone();
        Context { settings, services: self.services.clone(), memory, repository, yards: self.yards.clone() }
    }
}
