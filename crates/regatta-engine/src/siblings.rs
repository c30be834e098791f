//! The repositories beside a lane: those that the lane's repository builds on, at commits that contain what landed.
//!
//! A lane of such a repository is in a bay, a directory in which every repository has the place that the user's own
//! checkouts have from their common parent. So `../shared` means the same there and here. A sibling is a plain tree of
//! files without a git directory, read-only. Regatta's index of it is in the sibling's own `.regatta`.
//!
//! Invariant: what a person changed in a sibling is saved in its own repository before it is replaced or removed.

mod fresh;
mod layout;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use regatta_core::id::TaskId;
use regatta_core::oid::Oid;
use regatta_core::repos::RepoName;

pub(crate) use fresh::{Fresh, LastLook};
pub(crate) use layout::Layout;

use crate::clock;
use crate::context::Context;
use crate::git::{CommandPlace, GitError, Identity, io, oid_line, save_commit};
use crate::lanes::{Lane, SalvageRef};

/// The commit of each sibling.
pub(crate) type Pins = BTreeMap<RepoName, Oid>;

/// A sibling that a person changed, and where that is saved.
pub(crate) struct Changed {
    pub(crate) repo: RepoName,
    pub(crate) saved: SalvageRef,
}

impl Context {
    /// Where siblings are from a bay; `None` if this repository builds on no other.
    pub(crate) fn layout(&self) -> Option<Layout> {
        let roots: Vec<(RepoName, PathBuf)> = self
            .builds_on()
            .into_iter()
            .filter_map(|name| {
                let yard = self.of(Some(&name)).ok()?;
                Some((name, yard.repository.repo.root.clone()))
            })
            .collect();
        (!roots.is_empty()).then(|| Layout::of(&self.repository.repo.root, &roots))
    }

    /// The siblings of a checkout, each with its directory.
    pub(crate) fn siblings_of(&self, checkout: &Path) -> Vec<(RepoName, PathBuf)> {
        let Some(layout) = self.layout() else { return Vec::new() };
        let Some(bay) = layout.bay_of(checkout, self.repository.lanes.root()) else { return Vec::new() };
        let found = layout.siblings.into_iter().map(|(name, place)| (name, bay.join(place)));
        found.filter(|(_, dir)| dir.is_dir()).collect()
    }

    /// The variables that name the repository of a checkout and its siblings.
    pub(crate) fn sibling_variables(&self, checkout: &Path) -> Vec<(String, std::ffi::OsString)> {
        if !self.has_several() {
            return Vec::new();
        }
        let mut found = Vec::new();
        if let Some(name) = self.repo_name() {
            found.push(("REGATTA_REPO".to_owned(), name.as_str().into()));
        }
        let siblings = self.siblings_of(checkout);
        let bay = self.layout().and_then(|layout| layout.bay_of(checkout, self.repository.lanes.root()));
        if let Some(bay) = bay.filter(|_| !siblings.is_empty()) {
            found.push(("REGATTA_SIBLINGS".to_owned(), bay.into()));
        }
        for (name, dir) in siblings {
            let variable = format!("REGATTA_SIBLING_{}", name.in_variable());
            let pin = self.of(Some(&name)).ok().and_then(|yard| pinned(&yard, &dir));
            found.extend(pin.map(|pin| (format!("{variable}_COMMIT"), pin.as_str().into())));
            found.push((variable, dir.into()));
        }
        found
    }

    /// Puts the siblings beside a lane. Returns what was changed in those that were there.
    pub(crate) async fn lay_out_siblings(
        self: &Arc<Self>,
        lane: &Lane,
        pins: &Pins,
    ) -> Result<Vec<Changed>, GitError> {
        let (Some(layout), Some(bay)) = (self.layout(), lane.bay.clone()) else { return Ok(Vec::new()) };
        let (pins, task) = (pins.clone(), lane.task.clone());
        self.blocking(move |ctx| {
            let mut changed = Vec::new();
            for (name, pin) in pins {
                let (Some(place), Ok(yard)) = (layout.siblings.get(&name), ctx.of(Some(&name))) else {
                    continue;
                };
                let dir = bay.join(place);
                changed.extend(save_changes(&yard, &name, &task, &dir)?);
                fill(&yard, &dir, &pin)?;
            }
            Ok(changed)
        })
        .await
    }

    /// Saves what a person changed in the siblings of a lane, and restores them.
    pub(crate) async fn save_siblings(self: &Arc<Self>, lane: &Lane) -> Result<Vec<Changed>, GitError> {
        if lane.bay.is_none() {
            return Ok(Vec::new());
        }
        let (path, task) = (lane.path.clone(), lane.task.clone());
        self.blocking(move |ctx| {
            let mut changed = Vec::new();
            for (name, dir) in ctx.siblings_of(&path) {
                let Ok(yard) = ctx.of(Some(&name)) else { continue };
                let found = save_changes(&yard, &name, &task, &dir)?;
                if let (Some(_), Some(pin)) = (&found, pinned(&yard, &dir)) {
                    fill(&yard, &dir, &pin)?;
                }
                changed.extend(found);
            }
            Ok(changed)
        })
        .await
    }

    /// The newest commits of the siblings' targets.
    pub(crate) fn newest_pins(&self) -> Result<Pins, GitError> {
        let mut pins = Pins::new();
        for name in self.builds_on() {
            let Ok(yard) = self.of(Some(&name)) else { continue };
            if let Some(tip) = yard.repository.repo.branch_tip(&yard.repository.target)? {
                pins.insert(name, tip.oid().clone());
            }
        }
        Ok(pins)
    }
}

/// Where Regatta keeps its index of a sibling's tree, and the commit of it.
fn records(yard: &Context, dir: &Path) -> (PathBuf, PathBuf) {
    let name = crate::tokens::token_hash(&dir.to_string_lossy());
    let at = yard.repository.state_dir.join("siblings").join(&name[..name.len().min(24)]);
    (at.join("index"), at.join("commit"))
}

/// The commit that a sibling was filled with.
fn pinned(yard: &Context, dir: &Path) -> Option<Oid> {
    let (_, commit) = records(yard, dir);
    Oid::parse(fs::read_to_string(commit).ok()?.trim()).ok()
}

/// Fills a directory with the files of a commit, read-only.
fn fill(yard: &Context, dir: &Path, pin: &Oid) -> Result<(), GitError> {
    let (index, commit) = records(yard, dir);
    let at = index.parent().unwrap_or(dir);
    for dir in [dir, at] {
        fs::create_dir_all(dir).map_err(io("create", dir))?;
    }
    let work = &yard.repository.work;
    let objects = work.objects_dir();
    let place = CommandPlace { worktree: dir, index: &index, objects: &objects, head: None };
    work.at_place(&place)?.args(["read-tree", "--reset", "-u"]).arg(pin).bytes()?;
    fs::write(&commit, format!("{pin}\n")).map_err(io("write", &commit))?;
    read_only(dir)
}

/// Takes the right to write from all files below a directory.
fn read_only(dir: &Path) -> Result<(), GitError> {
    for entry in fs::read_dir(dir).map_err(io("list", dir))? {
        let entry = entry.map_err(io("list", dir))?;
        let (path, kind) = (entry.path(), entry.file_type().map_err(io("look at", dir))?);
        if kind.is_dir() {
            read_only(&path)?;
        } else if kind.is_file() {
            let meta = entry.metadata().map_err(io("look at", &path))?;
            let mode = meta.permissions().mode();
            if mode & 0o222 != 0 {
                let less = fs::Permissions::from_mode(mode & !0o222);
                fs::set_permissions(&path, less).map_err(io("change the mode of", &path))?;
            }
        }
    }
    Ok(())
}

/// Saves what differs from the commit that the directory was filled with, in the sibling's own repository.
fn save_changes(
    yard: &Context,
    name: &RepoName,
    task: &TaskId,
    dir: &Path,
) -> Result<Option<Changed>, GitError> {
    let (index, _) = records(yard, dir);
    let (Some(pin), true) = (pinned(yard, dir), dir.is_dir() && index.is_file()) else { return Ok(None) };
    let (work, objects) = (&yard.repository.work, yard.repository.work.objects_dir());
    let copy = index.with_extension("now");
    fs::copy(&index, &copy).map_err(io("copy", &index))?;
    let place = CommandPlace { worktree: dir, index: &copy, objects: &objects, head: None };
    work.at_place(&place)?.args(["add", "--all", "--", "."]).bytes()?;
    let tree = oid_line(&work.at_place(&place)?.arg("write-tree").bytes()?)?;
    fs::remove_file(&copy).ok();
    if tree == work.tree_of(&pin)? {
        return Ok(None);
    }
    let who = Identity::fallback();
    let date = format!("{} +0000", clock::now().seconds());
    let mut command = work.bare().durable().arg("commit-tree").arg(&tree).arg("-p").arg(&pin);
    for (role, value) in [("NAME", &who.name), ("EMAIL", &who.email), ("DATE", &date)] {
        command =
            command.env(&format!("GIT_AUTHOR_{role}"), value).env(&format!("GIT_COMMITTER_{role}"), value);
    }
    let message = format!("regatta: {task} changed {name}, which is not its repository\n");
    let commit = oid_line(&command.args(["-F", "-"]).stdin(message).bytes()?)?;
    let (reference, oid) = save_commit(&yard.repository.repo, task, &commit)?;
    Ok(Some(Changed { repo: name.clone(), saved: SalvageRef { name: reference, oid } }))
}
