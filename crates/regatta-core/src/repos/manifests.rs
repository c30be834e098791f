//! What the manifests of a repository say about other repositories: the packages it offers, and what it refers to by
//! path, by the address of a git repository, or by the name of a package.
//!
//! Texts in, values out: nothing here reads a file or starts a program. A malformed file yields what could be read of
//! it and one diagnostic.

mod cargo;
mod go;
mod lines;
mod node;
mod python;
mod submodules;
#[cfg(test)]
mod tests;
mod toml_text;

pub use submodules::paths as submodule_paths;

use serde::Serialize;

use crate::diagnostic::{Diagnostic, Pos, Report};

/// Longer manifests are reported and not read.
pub const MAX_BYTES: u64 = 1024 * 1024;

/// Where the name of a package is unique.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ecosystem {
    /// Rust.
    Cargo,
    /// JavaScript.
    Npm,
    /// Go.
    Go,
    /// Python.
    Python,
}

/// What a file is, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ManifestKind {
    /// `Cargo.toml`.
    Cargo,
    /// `package.json`.
    Npm,
    /// `pnpm-workspace.yaml`.
    Pnpm,
    /// `go.mod`.
    GoModule,
    /// `go.work`.
    GoWorkspace,
    /// `pyproject.toml`.
    Pyproject,
    /// `requirements*.txt`.
    Requirements,
    /// `.gitmodules` at the top of the repository.
    Submodules,
}

impl ManifestKind {
    /// The kind of the file at `path`, which begins at the repository's root. `None` if it is not a manifest, or is
    /// part of an installed or vendored package.
    pub fn of(path: &str) -> Option<Self> {
        let (dirs, name) = path.rsplit_once('/').unwrap_or(("", path));
        let is_installed = dirs.split('/').any(|dir| {
            matches!(dir, "node_modules" | "vendor" | "third_party" | "site-packages" | ".venv" | "venv")
        });
        if is_installed {
            return None;
        }
        Some(match name {
            "Cargo.toml" => Self::Cargo,
            "package.json" => Self::Npm,
            "pnpm-workspace.yaml" => Self::Pnpm,
            "go.mod" => Self::GoModule,
            "go.work" => Self::GoWorkspace,
            "pyproject.toml" => Self::Pyproject,
            ".gitmodules" if dirs.is_empty() => Self::Submodules,
            name if name.starts_with("requirements") && name.ends_with(".txt") => Self::Requirements,
            _ => return None,
        })
    }
}

/// What a manifest refers to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// A path from the manifest's directory, or an absolute one.
    Path(String),
    /// The address of a git repository. It may be relative to the manifest's own remote (`../shared.git`).
    Git(String),
    /// The name of a package.
    Package(Ecosystem, String),
}

/// One reference and its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The line, counted from 1.
    pub line: usize,
    /// What is referred to.
    pub target: Target,
}

/// What one manifest says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    /// The file, from the repository's root.
    pub path: String,
    /// The packages that other repositories can depend on by name.
    pub provides: Vec<(Ecosystem, String)>,
    /// What it refers to, in the order of the text.
    pub references: Vec<Reference>,
    /// Why it could not be read to the end.
    pub problem: Option<Diagnostic>,
}

impl Manifest {
    /// Parses the file at `path`, which begins at the repository's root. `None` if it is not a manifest.
    pub fn parse(path: &str, text: &str) -> Option<Self> {
        let kind = ManifestKind::of(path)?;
        let mut manifest = Self { path: path.to_owned(), ..Self::default() };
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let parsed = match kind {
            ManifestKind::Cargo => cargo::read(text, &mut manifest),
            ManifestKind::Npm => node::read_package(text, &mut manifest),
            ManifestKind::Pnpm => node::read_workspace(text, &mut manifest),
            ManifestKind::GoModule => go::read_module(text, &mut manifest),
            ManifestKind::GoWorkspace => go::read_workspace(text, &mut manifest),
            ManifestKind::Pyproject => python::read_project(text, &mut manifest),
            ManifestKind::Requirements => {
                python::read_requirements(text, &mut manifest);
                Ok(())
            }
            ManifestKind::Submodules => {
                submodules::read(text, &mut manifest);
                Ok(())
            }
        };
        if let Err(Mistake { pos, message }) = parsed {
            manifest.problem = Some(manifest.wrong(pos, &message));
        }
        manifest.references.sort_by_key(|reference| reference.line);
        Some(manifest)
    }

    /// A file that exists and was not read.
    pub fn unread(path: &str, why: &str) -> Self {
        let mut manifest = Self { path: path.to_owned(), ..Self::default() };
        manifest.problem = Some(manifest.wrong(Pos::START, why));
        manifest
    }

    fn wrong(&self, pos: Pos, message: &str) -> Diagnostic {
        let mut report = Report::new(&self.path);
        report.warn(pos, "", message);
        report.diagnostics.remove(0)
    }

    fn refer(&mut self, line: usize, target: Target) {
        self.references.push(Reference { line, target });
    }

    /// A member of a workspace, which may be a pattern: only the part before its first wildcard counts.
    fn refer_to_member(&mut self, line: usize, pattern: &str) {
        if pattern.starts_with('!') {
            return;
        }
        let fixed = pattern.split('/').take_while(|part| !part.contains(['*', '?', '[', '{']));
        let fixed: Vec<&str> = fixed.collect();
        self.refer(line, Target::Path(fixed.join("/")));
    }
}

/// Why a text could not be read to the end.
struct Mistake {
    pos: Pos,
    message: String,
}
