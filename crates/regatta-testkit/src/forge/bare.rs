//! The bare repositories, and the plumbing that works in them.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};

use super::state::Method;
use crate::repo::{script, write};

/// What a ref that is not there points at.
pub(super) const NOTHING: &str = "0000000000000000000000000000000000000000";

/// The file in a bare repository that lists refs which refuse pushes.
const PROTECTED: &str = "forge-protected";
/// The file to which every accepted update is appended.
const ACCEPTED: &str = "forge-accepted";

/// One commit of a person: `Ann <ann@example.org>`.
pub(super) struct Author<'a> {
    pub(super) name: &'a str,
    pub(super) email: String,
    /// As git writes it; now if empty.
    pub(super) date: String,
}

impl<'a> Author<'a> {
    pub(super) fn person(login: &'a str) -> Self {
        Self { name: login, email: format!("{login}@example.org"), date: String::new() }
    }
}

/// A bare repository.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bare<'a>(pub(super) &'a Path);

impl Bare<'_> {
    /// Makes an empty one, with hooks that know protected branches and write down what was accepted.
    pub(super) fn init(&self, default_branch: &str) {
        fs::create_dir_all(self.0).expect("a directory can be made");
        self.git(["init", "--quiet", "--bare", "--initial-branch", default_branch, "."]);
        for (key, value) in [
            ("http.receivepack", "true"),
            ("gc.auto", "0"),
            ("receive.autogc", "false"),
            ("uploadpack.allowAnySHA1InWant", "true"),
            ("transfer.hideRefs", "refs/hidden"),
        ] {
            self.git(["config", key, value]);
        }
        self.protect(&[]);
        script(
            &self.0.join("hooks/update"),
            &format!(
                "if grep -qxF -- \"$1\" {PROTECTED}; then\n\
                 echo \"error: GH006: Protected branch update failed for $1.\" >&2\n\
                 echo 'error: Changes must be made through a pull request.' >&2\n\
                 exit 1\nfi\n\
                 case $1 in refs/pull/*) echo 'error: deny updating a hidden ref' >&2; exit 1;; esac"
            ),
        );
        script(&self.0.join("hooks/post-receive"), &format!("cat >>{ACCEPTED}"));
    }

    /// Sets the branches that refuse pushes.
    pub(super) fn protect(&self, branches: &[&str]) {
        let lines: String = branches.iter().map(|branch| format!("refs/heads/{branch}\n")).collect();
        write(&self.0.join(PROTECTED), lines);
    }

    /// All updates that were accepted so far: old, new, ref.
    pub(super) fn accepted(&self) -> Vec<[String; 3]> {
        let text = fs::read_to_string(self.0.join(ACCEPTED)).unwrap_or_default();
        let line = |line: &str| {
            let mut words = line.splitn(3, ' ').map(str::to_owned);
            Some([words.next()?, words.next()?, words.next()?])
        };
        text.lines().filter_map(line).collect()
    }

    fn command<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new("git");
        command.current_dir(self.0).env_clear().envs(isolated()).args(args).stdin(Stdio::null());
        let author = Author { name: "GitHub", email: "noreply@github.com".to_owned(), date: String::new() };
        set_author(&mut command, "COMMITTER", &author);
        set_author(&mut command, "AUTHOR", &author);
        command
    }

    /// Runs git; it must succeed.
    #[track_caller]
    pub(super) fn git<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> String {
        succeeded(&mut self.command(args))
    }

    /// Runs git; returns its output if it succeeds.
    pub(super) fn ask<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Option<String> {
        let output = self.command(args).output().expect("git can be started");
        output.status.success().then(|| text(&output))
    }

    /// The commit of a branch.
    pub(super) fn tip(&self, branch: &str) -> Option<String> {
        self.resolve(&format!("refs/heads/{branch}"))
    }

    /// The commits of all branches.
    pub(super) fn tips(&self) -> BTreeMap<String, String> {
        let refs = self.git(["for-each-ref", "--format=%(objectname) %(refname:lstrip=2)", "refs/heads"]);
        let pair = |line: &str| line.split_once(' ').map(|(sha, name)| (name.to_owned(), sha.to_owned()));
        refs.lines().filter_map(pair).collect()
    }

    /// The commit that a name stands for.
    pub(super) fn resolve(&self, name: &str) -> Option<String> {
        self.ask(["rev-parse", "--verify", "--quiet", "--end-of-options", &format!("{name}^{{commit}}")])
    }

    /// Whether `earlier` is `later` or one of its ancestors.
    pub(super) fn contains(&self, later: &str, earlier: &str) -> bool {
        self.ask(["merge-base", "--is-ancestor", earlier, later]).is_some()
    }

    /// Number of commits of `head` that are not in `base`.
    pub(super) fn ahead(&self, base: &str, head: &str) -> u64 {
        let count = self.ask(["rev-list", "--count", &format!("{base}..{head}")]);
        count.and_then(|count| count.parse().ok()).unwrap_or(0)
    }

    /// Lines added and removed and files changed since the two diverged.
    pub(super) fn changes(&self, base: &str, head: &str) -> (u64, u64, u64) {
        let diff = self.ask(["diff", "--numstat", &format!("{base}...{head}")]).unwrap_or_default();
        let number = |word: Option<&str>| word.and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
        diff.lines().fold((0, 0, 0), |(added, removed, files), line| {
            let mut words = line.split('\t');
            (added + number(words.next()), removed + number(words.next()), files + 1)
        })
    }

    /// Moves a ref from one commit to another; says whether it was still at the first.
    pub(super) fn update(&self, name: &str, new: &str, old: &str) -> bool {
        match new {
            NOTHING => self.ask(["update-ref", "-d", name, old]).is_some(),
            _ => self.ask(["update-ref", name, new, old]).is_some(),
        }
    }

    /// The tree of a merge of the two; none if they conflict.
    pub(super) fn merged_tree(&self, base: &str, head: &str) -> Option<String> {
        self.ask(["merge-tree", "--write-tree", "--no-messages", base, head])
    }

    /// Copies of the head's own commits on top of the base; none if one of them conflicts or is a merge.
    pub(super) fn rebased(&self, base: &str, head: &str) -> Option<String> {
        let commits =
            self.ask(["rev-list", "--reverse", "--topo-order", "--parents", &format!("{base}..{head}")])?;
        let mut onto = base.to_owned();
        for line in commits.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let [commit, parent] = words[..] else { return None };
            let base = format!("--merge-base={parent}");
            let tree = self.ask(["merge-tree", "--write-tree", "--no-messages", &base, &onto, commit])?;
            let fields = self.git(["show", "-s", "--format=%an%n%ae%n%ad%n%B", "--date=raw", commit]);
            let mut fields = fields.splitn(4, '\n');
            let (name, email) = (fields.next()?, fields.next()?.to_owned());
            let author = Author { name, email, date: fields.next()?.to_owned() };
            onto = self.commit(&tree, &[&onto], &author, fields.next().unwrap_or_default());
        }
        Some(onto)
    }

    /// Whether the two can be merged.
    pub(super) fn can_merge(&self, base: &str, head: &str) -> bool {
        remembered("merge", base, head, || self.merged_tree(base, head).is_some())
    }

    /// Whether the head can be rebased onto the base.
    pub(super) fn can_rebase(&self, base: &str, head: &str) -> bool {
        remembered("rebase", base, head, || self.rebased(base, head).is_some())
    }

    /// A commit of a tree.
    pub(super) fn commit(&self, tree: &str, parents: &[&str], author: &Author, message: &str) -> String {
        let mut command = self.command(["commit-tree", tree, "-F", "-"]);
        for parent in parents {
            command.args(["-p", parent]);
        }
        set_author(&mut command, "AUTHOR", author);
        fed(&mut command, message.as_bytes())
    }

    /// The commit that brings `head` into `base` this way; none if it cannot be made.
    pub(super) fn joined(&self, method: Method, base: &str, head: &str, message: &str) -> Option<String> {
        if method == Method::Rebase {
            return self.rebased(base, head);
        }
        let tree = self.merged_tree(base, head)?;
        let name = self.git(["show", "-s", "--format=%an", head]);
        let email = self.git(["show", "-s", "--format=%ae", head]);
        let author = Author { name: &name, email, date: String::new() };
        let parents = if method == Method::Merge { &[base, head][..] } else { &[base][..] };
        Some(self.commit(&tree, parents, &author, message))
    }

    /// A commit on `parent` (or a first one) that writes these files.
    pub(super) fn commit_files(
        &self,
        parent: Option<&str>,
        files: &[(&str, &str)],
        author: &str,
        message: &str,
    ) -> String {
        let index = tempfile::NamedTempFile::new_in(self.0).expect("a file can be made").into_temp_path();
        fs::remove_file(&index).expect("it was just made");
        let with_index = |args: &[&str]| {
            let mut command = self.command(args);
            command.env("GIT_INDEX_FILE", &index);
            command
        };
        if let Some(parent) = parent {
            succeeded(&mut with_index(&["read-tree", parent]));
        }
        for (path, content) in files {
            let blob = fed(&mut self.command(["hash-object", "-w", "--stdin"]), content.as_bytes());
            let entry = format!("100644,{blob},{path}");
            succeeded(&mut with_index(&["update-index", "--add", "--cacheinfo", &entry]));
        }
        let tree = succeeded(&mut with_index(&["write-tree"]));
        let parents: Vec<&str> = parent.into_iter().collect();
        self.commit(&tree, &parents, &Author::person(author), message)
    }
}

/// The answer to a question about two commits, which stays the same for ever.
fn remembered(question: &'static str, base: &str, head: &str, answer: impl FnOnce() -> bool) -> bool {
    static KNOWN: Mutex<BTreeMap<(&str, String, String), bool>> = Mutex::new(BTreeMap::new());
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let key = (question, base.to_owned(), head.to_owned());
    if let Some(answer) = known().get(&key) {
        return *answer;
    }
    let answer = answer();
    known().insert(key, answer);
    answer
}

/// Variables with which git sees nothing of the machine.
pub(super) fn isolated() -> Vec<(&'static str, std::ffi::OsString)> {
    vec![
        ("PATH", std::env::var_os("PATH").unwrap_or_default()),
        ("HOME", "/nonexistent".into()),
        ("GIT_CONFIG_NOSYSTEM", "1".into()),
        ("GIT_CONFIG_GLOBAL", "/dev/null".into()),
        ("LC_ALL", "C".into()),
    ]
}

fn set_author(command: &mut Command, role: &str, author: &Author) {
    command.env(format!("GIT_{role}_NAME"), author.name).env(format!("GIT_{role}_EMAIL"), &author.email);
    if !author.date.is_empty() {
        command.env(format!("GIT_{role}_DATE"), &author.date);
    }
}

#[track_caller]
fn succeeded(command: &mut Command) -> String {
    let output = command.output().expect("git can be started");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    text(&output)
}

#[track_caller]
fn fed(command: &mut Command, input: &[u8]) -> String {
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("git can be started");
    child.stdin.take().expect("it was asked for").write_all(input).expect("git reads");
    let output = child.wait_with_output().expect("git ends");
    assert!(output.status.success(), "{command:?}");
    text(&output)
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}
