//! Which repository builds on which.

use std::collections::{BTreeMap, BTreeSet};

use super::{RepoConfig, RepoName};

/// The repositories of a project with what each builds on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graph(BTreeMap<RepoName, BTreeSet<RepoName>>);

impl Graph {
    /// The declared graph.
    pub fn declared(repos: &[RepoConfig]) -> Self {
        let edges = |repo: &RepoConfig| repo.depends_on.declared().iter().cloned().collect();
        Self(repos.iter().map(|repo| (repo.name.clone(), edges(repo))).collect())
    }

    /// Adds that `from` builds on `to`. Refused, with the circle, if that closes one.
    pub fn add(&mut self, from: &RepoName, to: &RepoName) -> Result<(), Vec<RepoName>> {
        let is_new = self.0.entry(from.clone()).or_default().insert(to.clone());
        match self.circle() {
            Some(circle) if is_new => {
                self.0.entry(from.clone()).or_default().remove(to);
                Err(circle)
            }
            _ => Ok(()),
        }
    }

    /// What `name` builds on directly.
    pub fn direct(&self, name: &RepoName) -> impl Iterator<Item = &RepoName> {
        self.0.get(name).into_iter().flatten()
    }

    /// Everything that `name` builds on, directly or through others, without itself.
    pub fn below(&self, name: &RepoName) -> BTreeSet<RepoName> {
        let mut found = BTreeSet::new();
        let mut next: Vec<&RepoName> = self.direct(name).collect();
        while let Some(one) = next.pop() {
            if one != name && found.insert(one.clone()) {
                next.extend(self.direct(one));
            }
        }
        found
    }

    /// The first circle, with its first repository repeated at the end.
    pub fn circle(&self) -> Option<Vec<RepoName>> {
        let mut sound = BTreeSet::new();
        self.0.keys().find_map(|name| self.circle_from(name, &mut Vec::new(), &mut sound))
    }

    fn circle_from<'a>(
        &'a self,
        name: &'a RepoName,
        way: &mut Vec<&'a RepoName>,
        sound: &mut BTreeSet<&'a RepoName>,
    ) -> Option<Vec<RepoName>> {
        if sound.contains(name) {
            return None;
        }
        if let Some(start) = way.iter().position(|before| *before == name) {
            let circle = way[start..].iter().copied().chain([name]);
            return Some(circle.cloned().collect());
        }
        way.push(name);
        let found = self.direct(name).find_map(|next| self.circle_from(next, way, sound));
        way.pop();
        sound.insert(name);
        found
    }
}

/// A circle as people read it: `api → shared → api`.
pub(crate) fn drawn(circle: &[RepoName]) -> String {
    circle.iter().map(RepoName::as_str).collect::<Vec<_>>().join(" → ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> RepoName {
        RepoName::parse(text).unwrap()
    }

    #[test]
    fn circles_are_found_and_refused() {
        let mut graph = Graph::default();
        for (from, to) in [("web", "api"), ("api", "shared"), ("web", "shared")] {
            graph.add(&name(from), &name(to)).unwrap();
        }
        assert_eq!(graph.circle(), None);
        let below: Vec<String> = graph.below(&name("web")).iter().map(ToString::to_string).collect();
        assert_eq!(below, ["api", "shared"]);
        let circle = graph.add(&name("shared"), &name("web")).unwrap_err();
        assert_eq!(drawn(&circle), "api → shared → web → api");
        assert_eq!(graph.circle(), None, "it was not added");
        graph.add(&name("api"), &name("shared")).unwrap();
        assert_eq!(drawn(&graph.add(&name("a"), &name("a")).unwrap_err()), "a → a");
    }
}
