//! Dependencies between repositories that their manifests show.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use serde::Serialize;

use super::manifests::{Ecosystem, Manifest, Target};
use super::remote::RemoteAddress;

/// At most this many places are kept per edge.
const MAX_PLACES: usize = 20;

/// A repository and what its manifests say.
#[derive(Clone, Debug)]
pub struct Surveyed {
    /// Its name, unique among those that are compared.
    pub name: String,
    /// The absolute path of its checkout.
    pub root: PathBuf,
    /// Where it is fetched from.
    pub remotes: Vec<RemoteAddress>,
    /// Its manifests.
    pub manifests: Vec<Manifest>,
}

/// How a manifest refers to another repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum By {
    /// By a path into its checkout.
    Path,
    /// By the address of its remote.
    Git,
    /// By the name of a package in it.
    Package,
}

/// The place that shows a dependency.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Evidence {
    /// The manifest, from the root of the dependent repository.
    pub file: String,
    /// Counted from 1.
    pub line: usize,
    /// How it refers to the other repository.
    pub by: By,
    /// The path, the address or the name, without a password.
    pub what: String,
}

/// One repository depends on another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct DetectedEdge {
    /// The dependent.
    pub from: String,
    /// What it depends on.
    pub to: String,
    /// Where this can be seen; never empty.
    pub evidence: Vec<Evidence>,
}

/// All dependencies among the repositories, in the order of their names.
pub fn edges(repos: &[Surveyed]) -> Vec<DetectedEdge> {
    let mut offered: BTreeMap<(Ecosystem, &str), BTreeSet<usize>> = BTreeMap::new();
    for (index, repo) in repos.iter().enumerate() {
        for (ecosystem, name) in repo.manifests.iter().flat_map(|manifest| &manifest.provides) {
            offered.entry((*ecosystem, name)).or_default().insert(index);
        }
    }
    let mut found: BTreeMap<(&str, &str), BTreeSet<Evidence>> = BTreeMap::new();
    for (index, repo) in repos.iter().enumerate() {
        for manifest in &repo.manifests {
            for reference in &manifest.references {
                let (to, by) = match &reference.target {
                    Target::Path(path) => (by_path(repos, repo, &manifest.path, path), By::Path),
                    Target::Git(address) => (by_address(repos, index, address), By::Git),
                    Target::Package(ecosystem, name) => {
                        (by_name(offered.get(&(*ecosystem, name)), index), By::Package)
                    }
                };
                let Some(to) = to.filter(|to| *to != index) else { continue };
                let evidence = Evidence {
                    file: manifest.path.clone(),
                    line: reference.line,
                    by,
                    what: shown(&reference.target),
                };
                let places = found.entry((&repo.name, &repos[to].name)).or_default();
                if places.len() < MAX_PLACES {
                    places.insert(evidence);
                }
            }
        }
    }
    found
        .into_iter()
        .map(|((from, to), evidence)| DetectedEdge {
            from: from.to_owned(),
            to: to.to_owned(),
            evidence: evidence.into_iter().collect(),
        })
        .collect()
}

/// The repository whose checkout a path leads into: the innermost one, since one may be inside another.
fn by_path(repos: &[Surveyed], repo: &Surveyed, manifest: &str, path: &str) -> Option<usize> {
    let dir = Path::new(manifest).parent().unwrap_or(Path::new(""));
    let target = normal(&repo.root.join(dir).join(path));
    let around = repos.iter().enumerate().filter(|(_, other)| target.starts_with(&other.root));
    around.max_by_key(|(_, other)| other.root.components().count()).map(|(index, _)| index)
}

fn by_address(repos: &[Surveyed], own: usize, address: &str) -> Option<usize> {
    let meant: Vec<RemoteAddress> = match RemoteAddress::parse(address) {
        Some(address) => vec![address],
        None => repos[own].remotes.iter().filter_map(|remote| remote.join(address)).collect(),
    };
    let is_meant = |repo: &Surveyed| {
        repo.remotes.iter().any(|remote| meant.iter().any(|address| address.is_same(remote)))
    };
    repos.iter().position(is_meant)
}

/// The only other repository that offers the name. A name that the repository has itself means its own package, and
/// one that several others have means none of them.
fn by_name(offers: Option<&BTreeSet<usize>>, own: usize) -> Option<usize> {
    let offers = offers?;
    if offers.contains(&own) || offers.len() != 1 { None } else { offers.first().copied() }
}

fn shown(target: &Target) -> String {
    match target {
        Target::Path(path) => path.clone(),
        Target::Package(_, name) => name.clone(),
        Target::Git(address) => {
            RemoteAddress::parse(address).map_or_else(|| address.clone(), |address| address.to_string())
        }
    }
}

/// Removes `.` and `..`, by the text alone.
fn normal(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                clean.pop();
            }
            part => clean.push(part),
        }
    }
    clean
}

#[cfg(test)]
mod tests;
