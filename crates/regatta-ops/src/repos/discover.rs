//! Finds repositories: in directories beside a project and below them, in `~/src`, as submodules, and where workspaces
//! of their manifests point to. Nothing in them is run or changed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};

use regatta_core::repos::detected::{Surveyed, edges};
use regatta_core::repos::manifests::Target;
use regatta_engine::git::{GitError, Repo};
use regatta_engine::survey::{submodules, survey};
use regatta_engine::trust::Aside;

use super::add::plain_name;
use super::several::{ProjectRepos, aside, some_at_once};
use crate::documents::{DiscoveredDocument, FoundBy, FoundRepoDocument};
use crate::parallel::siblings;
use crate::project::{Project, expand_home, normal};
use crate::refusal::Refusal;

/// At most this many directories are looked into.
const MAX_DIRS: usize = 5000;
/// At most this many repositories are described.
const MAX_REPOS: usize = 200;

/// Where to look for repositories.
#[derive(Clone)]
pub struct DiscoverRequest {
    /// Look beside this directory.
    pub from: PathBuf,
    /// Look into `~/src`, too.
    pub home: bool,
    /// How far below the directory around `from` a repository can be.
    pub depth: usize,
    /// The project, whose repositories are among the results.
    pub project: Option<Project>,
}

impl DiscoverRequest {
    /// The repositories, and how their manifests depend on each other.
    pub async fn find(self) -> Result<DiscoveredDocument, Refusal> {
        let from = self.from.canonicalize().map_err(|error| Refusal::io("reading", &self.from, &error))?;
        let siblings = siblings(&from)?;
        aside(move || Ok(self.look(&from, siblings))).await
    }

    fn look(&self, from: &Path, siblings: Vec<PathBuf>) -> DiscoveredDocument {
        let mut search = Search::default();
        let repos = self.project.as_ref().and_then(ProjectRepos::of);
        let mut names: BTreeMap<PathBuf, String> = BTreeMap::new();
        if let Some(repos) = &repos {
            for row in &repos.project.config.repos {
                let dir = if row.is_home() { repos.project.repo.toplevel.clone() } else { repos.dir(row) };
                let dir = dir.canonicalize().unwrap_or(dir);
                search.add(&dir, FoundBy::Settings);
                names.insert(dir, row.name.to_string());
            }
        }
        search.add(from, FoundBy::Directory);
        search.walk(from.parent().unwrap_or(from), self.depth);
        if self.home {
            search.walk(&expand_home("~/src"), self.depth);
        }
        let mut described: Vec<(FoundRepoDocument, Surveyed)> = Vec::new();
        // What is found by its manifests may lead further.
        while let Some(next) = search.next_round(described.len()) {
            for (found, surveyed) in
                some_at_once(next, |(repo, by)| describe(&repo, by)).into_iter().flatten()
            {
                search.follow(&surveyed);
                described.push((found, surveyed));
            }
        }
        described.sort_by(|(a, _), (b, _)| (a.found_by, &a.path).cmp(&(b.found_by, &b.path)));
        let mut used: BTreeSet<String> = names.values().cloned().collect();
        for (found, surveyed) in &mut described {
            let registered = names.get(&found.path);
            found.registered = registered.is_some();
            found.name = registered.cloned().unwrap_or_else(|| free_name(&found.path, &mut used));
            surveyed.name.clone_from(&found.name);
        }
        let (repositories, surveyed): (Vec<_>, Vec<_>) = described.into_iter().unzip();
        DiscoveredDocument { edges: edges(&surveyed), incomplete: search.incomplete, repositories, siblings }
    }
}

/// The repositories that were found so far.
#[derive(Default)]
struct Search {
    waiting: VecDeque<(Repo, FoundBy)>,
    /// Their git directories: a linked worktree or a lane is not another repository.
    known: BTreeSet<PathBuf>,
    n_dirs: usize,
    incomplete: bool,
}

impl Search {
    /// Those to be described next; `None` at the end.
    fn next_round(&mut self, n_described: usize) -> Option<Vec<(Repo, FoundBy)>> {
        let room = MAX_REPOS.saturating_sub(n_described);
        if self.waiting.is_empty() || room == 0 {
            self.incomplete |= !self.waiting.is_empty();
            return None;
        }
        Some(self.waiting.drain(..room.min(self.waiting.len())).collect())
    }

    /// Adds the repository whose top directory this is, unless it is known.
    fn add(&mut self, dir: &Path, by: FoundBy) {
        if dir.join(".git").symlink_metadata().is_err() {
            return;
        }
        let Ok(repo) = Repo::discover(dir, None) else { return };
        // Of a linked worktree, the main one is meant, if there is one.
        let repo = match &repo.main_worktree {
            Some(main) if *main != repo.toplevel => match Repo::discover(main, None) {
                Ok(main) => main,
                Err(_) => return,
            },
            _ => repo,
        };
        if self.known.insert(repo.common_dir.clone()) {
            self.waiting.push_back((repo, by));
        }
    }

    /// Adds all repositories at most `depth` levels below a directory. What is inside a repository is part of it.
    fn walk(&mut self, top: &Path, depth: usize) {
        let mut next = VecDeque::from([(top.to_owned(), 0)]);
        while let Some((dir, level)) = next.pop_front() {
            if level > 0 && dir.join(".git").symlink_metadata().is_ok() {
                self.add(&dir, FoundBy::Directory);
                continue;
            }
            if level == depth {
                continue;
            }
            if self.n_dirs >= MAX_DIRS {
                self.incomplete = true;
                return;
            }
            self.n_dirs += 1;
            let Ok(entries) = std::fs::read_dir(&dir) else { continue };
            // Links are not followed: they may lead in a circle.
            let below = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
            let mut below: Vec<PathBuf> = below
                .filter(|entry| !is_skipped(&entry.file_name().to_string_lossy()))
                .map(|entry| entry.path())
                .collect();
            below.sort();
            next.extend(below.into_iter().map(|dir| (dir, level + 1)));
        }
    }

    /// Adds the submodules of a repository, and the repositories that its manifests point into.
    fn follow(&mut self, surveyed: &Surveyed) {
        for dir in submodules(&surveyed.root) {
            self.add(&dir, FoundBy::Submodule);
        }
        let mut places = BTreeSet::new();
        for manifest in &surveyed.manifests {
            let dir = Path::new(&manifest.path).parent().unwrap_or(Path::new(""));
            for reference in &manifest.references {
                if let Target::Path(path) = &reference.target {
                    let place = normal(&surveyed.root.join(dir).join(path));
                    if !place.starts_with(&surveyed.root) {
                        places.insert(place);
                    }
                }
            }
        }
        for place in places {
            let top = place.ancestors().find(|dir| dir.join(".git").symlink_metadata().is_ok());
            if let Some(top) = top {
                self.add(top, FoundBy::Manifest);
            }
        }
    }
}

/// Directories without projects of people in them.
fn is_skipped(name: &str) -> bool {
    name.starts_with('.')
        || name.ends_with(".lanes")
        || matches!(name, "node_modules" | "target" | "vendor" | "venv" | "__pycache__")
}

/// `None` for a repository that git cannot read.
fn describe(repo: &Repo, found_by: FoundBy) -> Option<(FoundRepoDocument, Surveyed)> {
    let surveyed = survey(repo, "").ok()?;
    let problems = surveyed.manifests.iter().filter_map(|manifest| manifest.problem.clone()).collect();
    let slug = surveyed.remotes.first().and_then(|remote| remote.slug()).map(str::to_owned);
    let found = FoundRepoDocument {
        name: String::new(),
        path: surveyed.root.clone(),
        registered: false,
        slug,
        default_branch: repo.default_branch(),
        dirty: is_dirty(repo).ok(),
        found_by,
        problems,
    };
    Some((found, surveyed))
}

fn is_dirty(repo: &Repo) -> Result<bool, GitError> {
    let unreadable = |_| GitError::NotARepository { path: repo.toplevel.clone() };
    let beside = Aside::of(repo).map_err(unreadable)?;
    beside.work().map_err(unreadable)?.is_dirty(&repo.toplevel)
}

/// The name of the directory, or the first free one that begins with it.
fn free_name(path: &Path, used: &mut BTreeSet<String>) -> String {
    let name = plain_name(&path.file_name().unwrap_or_default().to_string_lossy());
    let numbered = (2..).map(|n| format!("{}-{n}", name.chars().take(28).collect::<String>()));
    let free = std::iter::once(name.clone()).chain(numbered).find(|name| !used.contains(name));
    let free = free.expect("there are more numbers than repositories");
    used.insert(free.clone());
    free
}
