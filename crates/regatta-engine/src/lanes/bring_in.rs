//! Files of the user's checkout that a lane needs and git does not carry: `.env`, local settings, personas.
//!
//! Invariant: a brought-in file is never committed by Regatta, never replaces a tracked file, and never leaves the
//! lane: no path may climb out, and no link on the way is followed.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use super::{Lane, Lanes};
use crate::git::{GitError, absent_is_none, io, replace_file};

/// What to bring in, relative to the user's checkout.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Includes {
    /// Lines of `.worktreeinclude`, in gitignore syntax. Only untracked files are taken.
    pub patterns: Vec<String>,
    /// Paths or globs to copy.
    pub include: Vec<String>,
    /// Paths to link.
    pub link: Vec<String>,
    /// Directories of agent definitions, such as `.claude/agents`.
    pub personas: Vec<String>,
}

/// The result of bringing in files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BroughtIn {
    /// Copied files.
    pub copied: Vec<PathBuf>,
    /// Links.
    pub linked: Vec<PathBuf>,
    /// Requested paths that were left out, with the reason.
    pub skipped: Vec<(PathBuf, &'static str)>,
}

impl Lanes {
    /// The lines of the checkout's `.worktreeinclude`; empty if there is no such file.
    pub fn worktree_include(&self) -> Result<Vec<String>, GitError> {
        let path = self.checkout_root().join(".worktreeinclude");
        let text = absent_is_none(fs::read_to_string(&path)).map_err(io("read", &path))?.unwrap_or_default();
        Ok(text.lines().map(str::to_owned).collect())
    }

    /// Copies and links from the user's checkout into the lane.
    pub fn bring_in(&self, lane: &Lane, includes: &Includes) -> Result<BroughtIn, GitError> {
        let mut done = BroughtIn::default();
        let copies = self.untracked_matching(includes)?;
        let links = includes.link.iter().map(|path| inside(path)).collect::<Result<Vec<_>, _>>()?;
        if copies.is_empty() && links.is_empty() {
            // Known to be nothing, which is not the same as unknown.
            if self.known_brought_in(&lane.task)?.is_none() {
                self.save_brought_in(&lane.task, &BTreeSet::new())?;
            }
            return Ok(done);
        }
        let tracked = self.tracked_in_base(lane)?;
        // Recorded before anything is written: a crash in between must not turn a secret into work.
        let mut brought_in = self.load_brought_in(&lane.task)?;
        let wanted = copies.iter().chain(&links).filter(|path| !is_tracked(path, &tracked));
        brought_in.extend(wanted.filter(|path| lane.path.join(path).symlink_metadata().is_err()).cloned());
        self.save_brought_in(&lane.task, &brought_in)?;
        for path in copies {
            let from = self.checkout_root().join(&path);
            match self.free_place(lane, &path, &tracked)? {
                Err(why) => done.skipped.push((path, why)),
                Ok(_) if !from.is_file() => done.skipped.push((path, "not a regular file")),
                Ok(to) => {
                    fs::copy(&from, &to).map_err(io("copy", &from))?;
                    done.copied.push(path);
                }
            }
        }
        for path in links {
            let target = self.checkout_root().join(&path);
            match self.free_place(lane, &path, &tracked)? {
                Err(why) => done.skipped.push((path, why)),
                Ok(_) if !target.exists() => done.skipped.push((path, "not in the checkout")),
                Ok(at) => {
                    std::os::unix::fs::symlink(&target, &at).map_err(io("link", &at))?;
                    done.linked.push(path);
                }
            }
        }
        Ok(done)
    }

    /// Variables for the agent's own git: no background maintenance, and brought-in files are ignored, so that the
    /// agent's `git add -A` does not take them either.
    pub fn agent_git_env(&self, lane: &Lane) -> Result<Vec<(String, String)>, GitError> {
        if lane.own {
            // Everything is in its own git directory.
            self.refresh_refs(lane)?;
            return self.refresh_git(lane).map(|()| Vec::new());
        }
        let mut rules = self.work.trust().user_excludes();
        rules.push(b'\n');
        for path in self.load_brought_in(&lane.task)? {
            rules.extend_from_slice(&ignore_rule(&path));
        }
        let file = self.records_dir().join(format!("{}.exclude", lane.task));
        replace_file(&file, &rules)?;
        let settings = [
            ("gc.auto", "0"),
            ("maintenance.auto", "false"),
            ("core.excludesFile", file.to_str().unwrap_or_default()),
        ];
        let mut env = vec![("GIT_CONFIG_COUNT".to_owned(), settings.len().to_string())];
        for (n, (key, value)) in settings.into_iter().enumerate() {
            env.push((format!("GIT_CONFIG_KEY_{n}"), key.to_owned()));
            env.push((format!("GIT_CONFIG_VALUE_{n}"), value.to_owned()));
        }
        Ok(env)
    }

    pub(super) fn checkout_root(&self) -> &Path {
        self.repo.main_worktree.as_ref().unwrap_or(&self.repo.toplevel)
    }

    /// Untracked files of the checkout that match one of the patterns.
    fn untracked_matching(&self, includes: &Includes) -> Result<Vec<PathBuf>, GitError> {
        let mut rules = includes.patterns.join("\n");
        for path in includes.include.iter().chain(&includes.personas) {
            let path = inside(path)?;
            rules.push_str(&format!("\n/{}", path.display()));
        }
        if rules.trim().is_empty() {
            return Ok(Vec::new());
        }
        let file = self.work.scratch_path("includes");
        fs::write(&file, rules).map_err(io("write", &file))?;
        let root = self.checkout_root();
        let git_dir =
            if self.repo.main_worktree.is_some() { &self.repo.common_dir } else { &self.repo.git_dir };
        let command = self.work.at(root, git_dir, None)?;
        let listed = command.args(["ls-files", "-z", "--others", "--ignored", "-X"]).arg(&file).bytes();
        fs::remove_file(&file).ok();
        let listed = listed?;
        let names = listed.split(|b| *b == 0).filter(|name| !name.is_empty() && !name.ends_with(b"/"));
        let own = |path: &PathBuf| root.join(path).starts_with(&self.repo.state_dir);
        Ok(names.map(|name| PathBuf::from(OsStr::from_bytes(name))).filter(|path| !own(path)).collect())
    }

    pub(super) fn tracked_in_base(&self, lane: &Lane) -> Result<BTreeSet<PathBuf>, GitError> {
        let listed = self.work.bare().args(["ls-tree", "-r", "-z", "--name-only"]).arg(&lane.base).bytes()?;
        Ok(listed.split(|b| *b == 0).filter(|p| !p.is_empty()).map(|p| OsStr::from_bytes(p).into()).collect())
    }

    /// Where to write `path` in the lane, with its directories created; or why not.
    pub(super) fn free_place(
        &self,
        lane: &Lane,
        path: &Path,
        tracked: &BTreeSet<PathBuf>,
    ) -> Result<Result<PathBuf, &'static str>, GitError> {
        if is_tracked(path, tracked) {
            return Ok(Err("tracked in the base"));
        }
        let mut at = lane.path.clone();
        for part in path.parent().into_iter().flat_map(Path::components) {
            at.push(part);
            match at.symlink_metadata() {
                Ok(meta) if meta.is_dir() => {}
                Ok(_) => return Ok(Err("a link or a file is in its way")),
                Err(_) => fs::create_dir(&at).map_err(io("create", &at))?,
            }
        }
        let place = lane.path.join(path);
        Ok(if place.symlink_metadata().is_ok() { Err("already there") } else { Ok(place) })
    }
}

/// Whether the path itself or something below it is tracked.
pub(super) fn is_tracked(path: &Path, tracked: &BTreeSet<PathBuf>) -> bool {
    tracked.range(path.to_owned()..).next().is_some_and(|next| next.starts_with(path))
}

/// A configured path, refused unless it stays inside.
fn inside(path: &str) -> Result<PathBuf, GitError> {
    let given = Path::new(path);
    let escapes = |why| GitError::Escapes { path: given.to_owned(), why };
    let mut clean = PathBuf::new();
    for part in given.components() {
        match part {
            Component::Normal(name) if name.eq_ignore_ascii_case(".git") => {
                return Err(escapes("it names a git directory"));
            }
            Component::Normal(name) => clean.push(name),
            Component::CurDir => {}
            Component::ParentDir => return Err(escapes("'..' leaves the checkout")),
            Component::RootDir | Component::Prefix(_) => {
                return Err(escapes("it is not relative to the checkout"));
            }
        }
    }
    if clean.as_os_str().is_empty() || path.contains('\n') {
        Err(escapes("it names nothing"))
    } else {
        Ok(clean)
    }
}

/// A gitignore line that matches exactly this path.
pub(super) fn ignore_rule(path: &Path) -> Vec<u8> {
    let name = path.as_os_str().as_bytes();
    if name.contains(&b'\n') {
        return Vec::new();
    }
    let mut rule = vec![b'/'];
    for byte in name {
        if matches!(byte, b'\\' | b'*' | b'?' | b'[' | b' ') {
            rule.push(b'\\');
        }
        rule.push(*byte);
    }
    rule.push(b'\n');
    rule
}
