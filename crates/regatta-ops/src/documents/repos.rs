//! The documents of `repo` in a project with `repos` in its settings.

use std::path::PathBuf;

use regatta_core::diagnostic::Diagnostic;
use regatta_core::oid::Oid;
use regatta_core::repos::dependencies::Dependency;
use regatta_core::repos::detected::DetectedEdge;
use regatta_core::repos::freshness::Freshness;
use regatta_core::repos::{DependsOn, Pull, RepoName, Wait};
use serde::Serialize;

/// The document of `repo list --json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProjectReposDocument {
    /// The file with the rows.
    pub file: Option<PathBuf>,
    pub repositories: Vec<ProjectRepoDocument>,
    /// The root of the project.
    pub root: PathBuf,
}

/// One repository of a project.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProjectRepoDocument {
    pub name: RepoName,
    /// The absolute path of its checkout.
    pub path: PathBuf,
    /// Whether it is the project's own repository.
    pub home: bool,
    /// The branch its work lands on, if that is known.
    pub target: Option<String>,
    /// `owner/name` or an address.
    pub remote: Option<String>,
    /// `auto`, or names.
    pub depends_on: DependsOn,
    pub wait: Wait,
    pub pull: Pull,
    /// Why it cannot be opened.
    pub problem: Option<String>,
    /// What is odd about it: its remote is not the one in the settings.
    pub warning: Option<String>,
}

/// The document of `repo add --json` and `repo import --json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReposAddedDocument {
    /// The new rows.
    pub added: Vec<ProjectRepoDocument>,
    /// The file they were added to.
    pub file: PathBuf,
    /// Registered repositories that were left out.
    pub skipped: Vec<SkippedRepoDocument>,
}

/// A repository that was left out, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SkippedRepoDocument {
    pub name: String,
    pub why: String,
}

/// The document of `repo discover --json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DiscoveredDocument {
    /// Dependencies that manifests show, by the names below.
    pub edges: Vec<DetectedEdge>,
    /// Whether there were more directories than are looked at.
    pub incomplete: bool,
    pub repositories: Vec<FoundRepoDocument>,
    /// Directories beside the first place that contain a repository.
    pub siblings: Vec<PathBuf>,
}

/// One repository that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FoundRepoDocument {
    /// Its registered name, or one that it could get.
    pub name: String,
    pub path: PathBuf,
    /// Whether the project has it.
    pub registered: bool,
    /// `owner/name`, if its remote is on a host.
    pub slug: Option<String>,
    pub default_branch: Option<String>,
    /// Whether it has uncommitted changes; null if that could not be found out.
    pub dirty: Option<bool>,
    /// How it was found.
    pub found_by: FoundBy,
    /// Manifests that could not be read to the end.
    pub problems: Vec<Diagnostic>,
}

/// How a repository was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FoundBy {
    /// The settings name it.
    Settings,
    /// It is in a directory that was searched.
    Directory,
    /// It is a submodule.
    Submodule,
    /// A manifest points to it.
    Manifest,
}

/// One repository in `repo status --json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RepoStatusDocument {
    pub name: RepoName,
    pub path: PathBuf,
    pub target: Option<String>,
    pub state: Freshness,
    /// Whether its checkout has uncommitted changes; null if there is none.
    pub dirty: Option<bool>,
    pub remote: Option<String>,
    /// The local commit of the target.
    pub here: Option<Oid>,
    /// The remote's.
    pub there: Option<Oid>,
    /// How many commits only the remote has; null if they are not here.
    pub behind: Option<usize>,
    /// How many commits only the local branch has.
    pub ahead: Option<usize>,
    /// Why the state is what it is.
    pub why: Option<String>,
}

/// One repository in `repo pull --json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RepoPulledDocument {
    pub name: RepoName,
    pub target: Option<String>,
    pub result: PullResult,
    /// Where the branch was before.
    pub from: Option<Oid>,
    /// Where it is now.
    pub to: Option<Oid>,
    /// Files that changed at the last moment, and stay as the user has them.
    pub kept: Vec<PathBuf>,
    /// Why it did not move.
    pub why: Option<String>,
}

/// The result of a pull.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PullResult {
    /// There was nothing to pull.
    Even,
    /// The branch moved, and its checkouts with it.
    Moved,
    /// It could not; nothing was changed.
    Held,
}

/// One repository in `repo clone --json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RepoClonedDocument {
    pub name: RepoName,
    pub path: PathBuf,
    /// Where it comes from, without a user and a password.
    pub remote: Option<String>,
    pub result: CloneResult,
    /// Why it was not cloned.
    pub why: Option<String>,
}

/// The result of a clone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CloneResult {
    /// It was cloned.
    Cloned,
    /// The repository was there already.
    There,
    /// It could not be cloned; nothing was changed.
    Held,
}

/// The document of `repo graph --json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RepoGraphDocument {
    pub edges: Vec<Dependency>,
    /// Manifests that could not be read to the end, each with its repository.
    pub problems: Vec<RepoProblemDocument>,
    pub repositories: Vec<RepoName>,
    /// Circles that were dropped, each as a sentence.
    pub warnings: Vec<String>,
    /// What counts, as a tree.
    #[serde(skip)]
    pub drawing: String,
}

/// What is wrong with a repository or one of its manifests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RepoProblemDocument {
    pub repo: RepoName,
    pub problem: String,
}
