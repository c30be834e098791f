//! The repositories of a project: their names, their settings, and which of them builds on which.

pub mod dependencies;
pub mod detected;
pub mod freshness;
mod graph;
pub mod manifests;
mod name;
pub mod remote;
pub mod rows;
mod upstream;

use std::path::{Component, Path};

use serde::Serialize;

pub use graph::Graph;
pub(crate) use graph::drawn;
pub use name::{RepoName, RepoNameError};
pub use upstream::{OpenTask, upstream};

use crate::bounds::Bounds;
use crate::config::Land;

/// One row of `repos`, with the project's settings where it has none of its own.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RepoConfig {
    /// Its name, unique in the project.
    pub name: RepoName,
    /// Its directory, from the directory of `regatta.yaml`; `.` for the project's own repository.
    pub path: String,
    /// Where it comes from: `owner/name` or an address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote: Option<String>,
    /// The branch its work lands on; if unset, the first run decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// The repositories that it builds on.
    pub depends_on: DependsOn,
    /// Which work in those holds its own tasks back.
    pub wait: Wait,
    /// How many of its attempts can run at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_workers: Option<u32>,
    /// Command to run in a new lane; if unset, the project's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub setup: Option<String>,
    /// How its work reaches the target branch.
    pub land: Land,
    /// What its agents may do, on top of the project's defaults.
    #[serde(flatten)]
    pub bounds: Bounds,
    /// What happens when its remote is ahead.
    pub pull: Pull,
}

impl RepoConfig {
    /// Whether this row describes the project's own repository.
    pub fn is_home(&self) -> bool {
        is_home(&self.path)
    }
}

/// Whether a path leads nowhere else than where it starts.
pub fn is_home(path: &str) -> bool {
    Path::new(path).components().all(|part| part == Component::CurDir)
}

/// Which repositories a repository builds on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DependsOn {
    /// Those that its manifests name.
    Auto,
    /// These.
    #[serde(untagged)]
    These(Vec<RepoName>),
}

impl DependsOn {
    /// Those that are declared.
    pub fn declared(&self) -> &[RepoName] {
        match self {
            DependsOn::Auto => &[],
            DependsOn::These(names) => names,
        }
    }
}

/// Which work in a repository holds back tasks of those that build on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wait {
    /// Tasks that agents work on.
    #[default]
    Working,
    /// All tasks that are not landed, done or given up yet.
    Landed,
    /// None: only the tasks' own dependencies count.
    Never,
}

impl Wait {
    /// The words of `wait`.
    pub const NAMES: &[&str] = &["working", "landed", "never"];

    /// The value with this name.
    pub fn named(word: &str) -> Option<Self> {
        match word {
            "working" => Some(Wait::Working),
            "landed" => Some(Wait::Landed),
            "never" => Some(Wait::Never),
            _ => None,
        }
    }
}

/// What happens when the remote of a repository is ahead of its target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pull {
    /// Nothing: the remote is not asked.
    #[default]
    Never,
    /// It is reported.
    Check,
    /// It is fetched and used.
    Auto,
}

impl Pull {
    /// The words of `pull`.
    pub const NAMES: &[&str] = &["never", "check", "auto"];

    /// The value with this name.
    pub fn named(word: &str) -> Option<Self> {
        match word {
            "never" => Some(Pull::Never),
            "check" => Some(Pull::Check),
            "auto" => Some(Pull::Auto),
            _ => None,
        }
    }
}
