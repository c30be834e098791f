//! A scratch repository, whose git sees nothing of the machine it runs on.
//!
//! The environment is applied where git is started, so no test has to set it: no global configuration, no prompts,
//! fixed identity and dates.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// A temporary directory with a repository in `repo`, an empty home and room for lanes.
#[derive(Debug)]
pub struct ScratchRepo {
    dir: TempDir,
    root: PathBuf,
}

impl Default for ScratchRepo {
    fn default() -> Self {
        Self::new()
    }
}

impl ScratchRepo {
    /// One commit on `main` with `README.md`.
    pub fn new() -> Self {
        let repo = Self::empty("main");
        repo.write("README.md", "hello\n");
        repo.commit_all("first");
        repo
    }

    /// The same, in a temporary directory below this one.
    pub fn below(parent: &Path) -> Self {
        let repo = Self::made_in(Some(parent), "repo", "main", &[]);
        repo.write("README.md", "hello\n");
        repo.commit_all("first");
        repo
    }

    /// No commit yet; `branch` is checked out.
    pub fn empty(branch: &str) -> Self {
        Self::at("repo", branch, &[])
    }

    /// An empty repository in a directory with this name, made with more flags for `git init`.
    pub fn at(name: &str, branch: &str, init_flags: &[&str]) -> Self {
        Self::made_in(None, name, branch, init_flags)
    }

    fn made_in(parent: Option<&Path>, name: &str, branch: &str, init_flags: &[&str]) -> Self {
        let mut builder = tempfile::Builder::new();
        builder.prefix("regatta-test-");
        let dir = parent.map_or_else(|| builder.tempdir(), |parent| builder.tempdir_in(parent));
        let dir = dir.expect("a temporary directory can be made");
        let base = dir.path().canonicalize().expect("the temporary directory exists");
        let root = base.join(name);
        fs::create_dir_all(base.join("home")).expect("home can be made");
        fs::create_dir_all(&root).expect("the repository's directory can be made");
        let repo = Self { dir, root };
        repo.git(["init", "-q", "-b", branch].iter().chain(init_flags));
        repo.git(["config", "user.name", "Ada"]);
        repo.git(["config", "user.email", "ada@example.org"]);
        repo
    }

    /// The path of the checkout.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The directory around the checkout, the home and the lanes.
    pub fn outside(&self) -> PathBuf {
        self.dir.path().canonicalize().expect("the temporary directory exists")
    }

    /// Every variable git may see.
    pub fn env(&self) -> Vec<(OsString, OsString)> {
        let home = self.outside().join("home");
        let path = std::env::var_os("PATH").unwrap_or_default();
        let fixed: [(&str, &OsStr); 9] = [
            ("PATH", &path),
            ("HOME", home.as_os_str()),
            ("XDG_CONFIG_HOME", home.as_os_str()),
            ("GIT_CONFIG_NOSYSTEM", "1".as_ref()),
            ("GIT_CONFIG_GLOBAL", "/dev/null".as_ref()),
            ("GIT_TERMINAL_PROMPT", "0".as_ref()),
            ("GIT_AUTHOR_DATE", "@1700000000 +0000".as_ref()),
            ("GIT_COMMITTER_DATE", "@1700000000 +0000".as_ref()),
            ("LC_ALL", "C".as_ref()),
        ];
        fixed.into_iter().map(|(name, value)| (name.into(), value.into())).collect()
    }

    /// Runs git in the checkout; it must succeed. Returns its output, trimmed.
    pub fn git<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> String {
        self.git_in(&self.root, args)
    }

    /// The same in another directory.
    pub fn git_in<S: AsRef<OsStr>>(&self, dir: &Path, args: impl IntoIterator<Item = S>) -> String {
        let args: Vec<OsString> = args.into_iter().map(|arg| arg.as_ref().to_owned()).collect();
        let output = self.try_git(dir, &args);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "git {args:?} in {}: {said}", dir.display());
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    /// Runs git and returns its result, whether or not it succeeded.
    pub fn try_git<S: AsRef<OsStr>>(&self, dir: &Path, args: &[S]) -> Output {
        let mut command = Command::new("git");
        command.current_dir(dir).env_clear().envs(self.env()).args(args);
        command.output().expect("git can be started")
    }

    /// Writes a file of the checkout, creating directories as needed.
    pub fn write(&self, path: impl AsRef<Path>, content: impl AsRef<[u8]>) {
        write(&self.root.join(path), content);
    }

    /// Commits everything; returns the commit.
    pub fn commit_all(&self, message: &str) -> String {
        self.commit_all_in(&self.root, message)
    }

    /// The same in another worktree.
    pub fn commit_all_in(&self, dir: &Path, message: &str) -> String {
        self.git_in(dir, ["add", "-A"]);
        self.git_in(dir, ["commit", "-q", "-m", message]);
        self.git_in(dir, ["rev-parse", "HEAD"])
    }

    /// Writes a file and commits it.
    pub fn commit_file(&self, path: &str, content: &str, message: &str) -> String {
        self.write(path, content);
        self.commit_all(message)
    }

    /// The commit a name stands for.
    pub fn rev(&self, name: &str) -> String {
        self.git(["rev-parse", "--verify", "--end-of-options", name])
    }

    /// Every file of the checkout outside `.git` and `.regatta`, with its content: what a user would notice.
    pub fn snapshot(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let mut files = Vec::new();
        collect(&self.root, &self.root, &mut files);
        files.sort();
        files
    }
}

/// Writes a file anywhere, creating directories as needed.
pub fn write(path: &Path, content: impl AsRef<[u8]>) {
    fs::create_dir_all(path.parent().expect("a file has a directory")).expect("directories can be made");
    fs::write(path, content).expect("the file can be written");
}

/// Writes an executable shell script.
pub fn script(path: &Path, body: &str) {
    let aside = path.with_extension("text");
    write(&aside, format!("#!/bin/sh\n{body}\n"));
    program(&aside, path);
    fs::remove_file(aside).expect("it was just written");
}

/// Copies a program. Another process does it: a child that another test starts at the same moment inherits this
/// process's open files for an instant, and then the copy cannot be run ("text file busy").
pub fn program(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("--").args([from, to]).status();
    assert!(copied.is_ok_and(|status| status.success()), "{} can be copied", from.display());
    fs::set_permissions(to, fs::Permissions::from_mode(0o755)).expect("the mode can be set");
}

fn collect(root: &Path, dir: &Path, files: &mut Vec<(PathBuf, Vec<u8>)>) {
    for entry in fs::read_dir(dir).expect("the directory can be listed").flatten() {
        let path = entry.path();
        let name = entry.file_name();
        if dir == root && (name == ".git" || name == ".regatta") {
            continue;
        }
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            collect(root, &path, files);
        } else {
            let content = fs::read_link(&path).map(|link| link.into_os_string().into_encoded_bytes());
            let content = content.or_else(|_| fs::read(&path)).expect("the file can be read");
            files.push((path.strip_prefix(root).expect("it lies below").to_owned(), content));
        }
    }
}
