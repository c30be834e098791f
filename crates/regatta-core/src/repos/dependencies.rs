//! All dependencies between the repositories of a project: those that are declared, and those that manifests show.
//!
//! Invariant: what is in force has no circle. A declared circle is an error when the settings are read; dependencies
//! from manifests that would close one are dropped, all of them, since nothing says which one is meant.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::detected::{DetectedEdge, Evidence};
use super::{DependsOn, Graph, RepoConfig, RepoName, drawn};
use crate::graph;

/// Whether a dependency counts, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// `depends_on` names it.
    Declared,
    /// Manifests show it, and `depends_on: auto` takes it from there.
    Auto,
    /// Manifests show it, and `depends_on` does not name it: it does not count.
    Undeclared,
    /// `depends_on: auto` would take it, but it is part of a circle: it does not count.
    Dropped,
}

/// One repository depends on another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Dependency {
    /// The dependent.
    pub from: RepoName,
    /// What it depends on.
    pub to: RepoName,
    /// Whether it counts.
    pub standing: Standing,
    /// The manifests that show it.
    pub evidence: Vec<Evidence>,
}

impl Dependency {
    /// Whether it counts.
    pub fn is_in_force(&self) -> bool {
        matches!(self.standing, Standing::Declared | Standing::Auto)
    }

    /// The first place that shows it: `Cargo.toml:7`.
    pub fn place(&self) -> Option<String> {
        self.evidence.first().map(|first| format!("{}:{}", first.file, first.line))
    }
}

/// All dependencies of a project.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dependencies {
    /// The repositories, in the order of the settings.
    pub repos: Vec<RepoName>,
    /// In the order of the repositories.
    pub all: Vec<Dependency>,
    /// Circles that were dropped, each as a sentence.
    pub warnings: Vec<String>,
}

impl Dependencies {
    /// From the settings, and from what manifests show among the same repositories.
    pub fn of(rows: &[RepoConfig], detected: &[DetectedEdge]) -> Self {
        let mut all = Vec::new();
        for row in rows {
            let shown = |to: &RepoName| {
                let edge =
                    detected.iter().find(|edge| edge.from == row.name.as_str() && edge.to == to.as_str());
                edge.map(|edge| edge.evidence.clone()).unwrap_or_default()
            };
            for other in rows.iter().filter(|other| other.name != row.name) {
                let evidence = shown(&other.name);
                let standing = match &row.depends_on {
                    DependsOn::These(names) if names.contains(&other.name) => Standing::Declared,
                    _ if evidence.is_empty() => continue,
                    DependsOn::These(_) => Standing::Undeclared,
                    DependsOn::Auto => Standing::Auto,
                };
                all.push(Dependency { from: row.name.clone(), to: other.name.clone(), standing, evidence });
            }
        }
        let repos = rows.iter().map(|row| row.name.clone()).collect();
        let mut dependencies = Self { repos, all, warnings: Vec::new() };
        dependencies.drop_circles();
        dependencies
    }

    /// What counts, as a graph.
    pub fn in_force(&self) -> Graph {
        let mut graph = Graph::default();
        for edge in self.all.iter().filter(|edge| edge.is_in_force()) {
            // Circles were dropped; a declared one is refused with the settings.
            let _ = graph.add(&edge.from, &edge.to);
        }
        graph
    }

    /// Those that manifests show and no setting names.
    pub fn undeclared(&self) -> impl Iterator<Item = &Dependency> {
        self.all.iter().filter(|edge| edge.standing == Standing::Undeclared)
    }

    /// What counts, as a tree: each repository below the first one that it depends on.
    pub fn draw(&self) -> String {
        let links: Vec<(&RepoName, Vec<&RepoName>)> = self
            .repos
            .iter()
            .map(|repo| {
                let edges = self.all.iter().filter(|edge| edge.from == *repo && edge.is_in_force());
                (repo, edges.map(|edge| &edge.to).collect())
            })
            .collect();
        graph::draw(&links, ToString::to_string)
    }

    fn drop_circles(&mut self) {
        let mut told: BTreeSet<BTreeSet<RepoName>> = BTreeSet::new();
        let mut dropped = Vec::new();
        for (index, edge) in self.all.iter().enumerate() {
            if edge.standing != Standing::Auto {
                continue;
            }
            let Some(back) = self.way(&edge.to, &edge.from) else { continue };
            dropped.push(index);
            let circle: Vec<RepoName> = std::iter::once(edge.from.clone()).chain(back).collect();
            if told.insert(circle.iter().cloned().collect()) {
                self.warnings.push(self.warning(&circle));
            }
        }
        for index in dropped {
            self.all[index].standing = Standing::Dropped;
        }
    }

    /// The shortest way from one repository to another, with both.
    fn way(&self, from: &RepoName, to: &RepoName) -> Option<Vec<RepoName>> {
        let mut before: BTreeMap<&RepoName, &RepoName> = BTreeMap::new();
        let mut layer = vec![from];
        while !layer.is_empty() && !layer.contains(&to) {
            let mut next = Vec::new();
            for at in layer {
                let edges = self.all.iter().filter(|edge| edge.from == *at && edge.is_in_force());
                for Dependency { to: beyond, .. } in edges {
                    if beyond != from && !before.contains_key(beyond) {
                        before.insert(beyond, at);
                        next.push(beyond);
                    }
                }
            }
            layer = next;
        }
        if layer.is_empty() {
            return None;
        }
        let mut way = vec![to.clone()];
        let mut at = to;
        while let Some(previous) = before.get(at) {
            way.push((*previous).clone());
            at = previous;
        }
        way.reverse();
        Some(way)
    }

    /// Names the circle and the file behind each of its steps.
    fn warning(&self, circle: &[RepoName]) -> String {
        let steps = circle.windows(2).filter_map(|pair| {
            let edge = self.all.iter().find(|edge| edge.from == pair[0] && edge.to == pair[1])?;
            let place = edge.place().unwrap_or_else(|| "`depends_on`".to_owned());
            Some(format!("{} by {place}", pair[0]))
        });
        let steps: Vec<String> = steps.collect();
        format!(
            "the manifests depend on each other: {} ({}); `depends_on: auto` takes none of these",
            drawn(circle),
            steps.join(", ")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse;
    use crate::repos::detected::By;

    fn rows(text: &str) -> Vec<RepoConfig> {
        let (config, diagnostics) = parse("regatta.yaml", text);
        assert!(diagnostics.is_empty(), "{diagnostics:?}");
        config.repos
    }

    fn edge(from: &str, to: &str, file: &str) -> DetectedEdge {
        let evidence = vec![Evidence { file: file.into(), line: 3, by: By::Path, what: format!("../{to}") }];
        DetectedEdge { from: from.into(), to: to.into(), evidence }
    }

    fn shown(dependencies: &Dependencies) -> Vec<String> {
        let line = |edge: &Dependency| format!("{} {} {:?}", edge.from, edge.to, edge.standing);
        dependencies.all.iter().map(line).collect()
    }

    #[test]
    fn declared_and_detected_ones_are_told_apart() {
        let rows = rows(
            "repos:\n- name: shared\n- name: api\n  depends_on: [shared]\n- name: web\n  depends_on: auto\n- name: docs\n",
        );
        let detected = [
            edge("api", "shared", "go.mod"),
            edge("web", "api", "package.json"),
            edge("docs", "web", "x/go.mod"),
        ];
        let found = Dependencies::of(&rows, &detected);
        assert_eq!(shown(&found), ["api shared Declared", "web api Auto", "docs web Undeclared"]);
        assert_eq!(found.undeclared().count(), 1);
        assert!(found.warnings.is_empty());
        insta::assert_snapshot!(found.draw(), @r"
        shared
        └─ api
           └─ web
        docs
        ");
        let below: Vec<String> =
            found.in_force().below(&rows[2].name).iter().map(ToString::to_string).collect();
        assert_eq!(below, ["api", "shared"]);
    }

    #[test]
    fn circles_of_manifests_are_dropped_whole_and_name_both_files() {
        let rows = rows(
            "repos:\n- name: a\n  depends_on: auto\n- name: b\n  depends_on: auto\n- name: c\n  depends_on: auto\n",
        );
        let detected =
            [edge("a", "b", "go.mod"), edge("b", "a", "Cargo.toml"), edge("c", "a", "package.json")];
        let found = Dependencies::of(&rows, &detected);
        assert_eq!(shown(&found), ["a b Dropped", "b a Dropped", "c a Auto"]);
        insta::assert_snapshot!(found.warnings.join("\n"), @"the manifests depend on each other: a → b → a (a by go.mod:3, b by Cargo.toml:3); `depends_on: auto` takes none of these");
    }

    #[test]
    fn a_declared_dependency_wins_over_one_from_a_manifest() {
        let rows = rows("repos:\n- name: a\n  depends_on: [b]\n- name: b\n  depends_on: auto\n");
        let found = Dependencies::of(&rows, &[edge("b", "a", "go.mod")]);
        assert_eq!(shown(&found), ["a b Declared", "b a Dropped"]);
        assert!(found.warnings[0].contains("b by go.mod:3, a by `depends_on`"), "{}", found.warnings[0]);
    }
}
