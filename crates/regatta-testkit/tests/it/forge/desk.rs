//! A user's desk: a checkout whose `origin` is the server, and the real `gh` and `git`.

use std::ffi::OsString;
use std::io::Write as _;
use std::process::{Command, Stdio};

use regatta_testkit::forge::Forge;
use regatta_testkit::repo::ScratchRepo;
use serde_json::{Value, json};

use super::contract;

/// A checkout whose `origin` is `acme/shop` at the server.
pub(super) struct Desk<'a> {
    pub(super) forge: &'a Forge,
    pub(super) repo: ScratchRepo,
    env: Vec<(String, OsString)>,
    flags: Vec<&'static str>,
}

/// What `gh api -i` printed; status 0 if there was no answer.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    headers: String,
    pub(super) body: Value,
    pub(super) text: String,
}

impl Answer {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.headers.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    }

    /// The status, and GitHub's words.
    pub(super) fn said(&self) -> (u16, &str) {
        (self.status, self.body["message"].as_str().unwrap_or_default())
    }

    pub(super) fn number(&self) -> u64 {
        self.body["number"].as_u64().unwrap_or_else(|| panic!("no number in {self:?}"))
    }
}

impl<'a> Desk<'a> {
    pub(super) fn new(forge: &'a Forge) -> Self {
        let desk =
            Self { forge, repo: ScratchRepo::empty("main"), env: forge.world_env(), flags: Vec::new() };
        desk.repo.git(["remote", "add", "origin", &forge.remote("acme/shop")]);
        desk.git(&["fetch", "-q", "origin"]);
        desk.git(&["reset", "-q", "--hard", "origin/main"]);
        desk
    }

    /// The same desk with another user.
    pub(super) fn for_user(mut self, login: &str) -> Self {
        self.env = self.forge.env_of(login);
        self
    }

    /// The same desk with `gh` at the socket, for this host.
    pub(super) fn by_socket(mut self, host: &'static str) -> Self {
        self.env = self.forge.socket_env();
        self.flags = vec!["--hostname", host];
        self
    }

    pub(super) fn without(mut self, variable: &str) -> Self {
        self.env.retain(|(name, _)| name != variable);
        self
    }

    pub(super) fn try_git(&self, args: &[&str]) -> (bool, String) {
        let mut command = Command::new("git");
        command
            .current_dir(self.repo.root())
            .env_clear()
            .envs(self.repo.env())
            .envs(self.env.iter().cloned());
        let output = command.args(args).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&said).trim_end().to_owned())
    }

    #[track_caller]
    pub(super) fn git(&self, args: &[&str]) -> String {
        let (succeeded, said) = self.try_git(args);
        assert!(succeeded, "git {args:?}: {said}");
        said
    }

    /// Commits files on a branch from the newest `main`.
    pub(super) fn commit(&self, branch: &str, files: &[(&str, &str)]) -> String {
        self.git(&["fetch", "-q", "origin"]);
        self.git(&["switch", "-q", "-C", branch, "origin/main"]);
        files.iter().for_each(|(path, content)| self.repo.write(path, content));
        self.repo.commit_all(branch)
    }

    /// The same, pushed.
    pub(super) fn push(&self, branch: &str, files: &[(&str, &str)]) -> String {
        let head = self.commit(branch, files);
        self.git(&["push", "-q", "origin", &format!("HEAD:refs/heads/{branch}")]);
        head
    }

    /// Runs `gh api`; what comes back must fit GitHub's own description of its API.
    #[track_caller]
    pub(super) fn gh(&self, method: &str, path: &str, body: Option<Value>) -> Answer {
        let answer = self.gh_raw(method, path, body, &[]);
        contract::check_answer(method, path, answer.status, &answer.body);
        answer
    }

    #[track_caller]
    pub(super) fn get(&self, path: &str) -> Answer {
        self.gh("GET", path, None)
    }

    /// Runs `gh api` with more flags; what comes back may be anything.
    pub(super) fn gh_raw(&self, method: &str, path: &str, body: Option<Value>, flags: &[&str]) -> Answer {
        let mut command = Command::new("gh");
        command.current_dir("/").env_clear().envs(self.repo.env()).envs(self.env.iter().cloned());
        command.args(["api", "-i", "-X", method, path]).args(&self.flags).args(flags);
        command.args(["-H", "Accept: application/vnd.github+json", "-H", "X-GitHub-Api-Version: 2022-11-28"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        if body.is_some() {
            command.args(["--input", "-"]);
        }
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let _ = stdin.write_all(body.map(|body| body.to_string()).unwrap_or_default().as_bytes());
        drop(stdin);
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let (first, headers) = head.split_once('\n').unwrap_or((head, ""));
        let status = first.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
        Answer {
            status,
            headers: headers.to_owned(),
            body: serde_json::from_str(body).unwrap_or(Value::Null),
            text: body.to_owned(),
        }
    }

    /// Asks GraphQL for its data; query and answer must fit GitHub's schema.
    #[track_caller]
    pub(super) fn ask(&self, query: &str, variables: Value) -> Value {
        let typed = contract::typed(query);
        let answer =
            self.gh_raw("POST", "graphql", Some(json!({"query": typed, "variables": variables})), &[]);
        assert_eq!((answer.status, &answer.body["errors"]), (200, &Value::Null), "{answer:?}");
        contract::check_data(&typed, &variables, &answer.body["data"]);
        answer.body["data"].clone()
    }

    /// Opens a pull request for a branch of this repository.
    #[track_caller]
    pub(super) fn open(&self, branch: &str) -> u64 {
        let answer = self.gh("POST", "repos/acme/shop/pulls", Some(wanted(branch)));
        assert_eq!(answer.status, 201, "{answer:?}");
        answer.number()
    }

    /// Pushes a branch with a file of its name, and opens a pull request.
    #[track_caller]
    pub(super) fn propose(&self, branch: &str) -> (u64, String) {
        let head = self.push(branch, &[(&format!("{branch}.txt"), branch)]);
        (self.open(branch), head)
    }

    #[track_caller]
    pub(super) fn merge(&self, number: u64, method: &str, sha: &str) -> Answer {
        let wish = json!({"sha": sha, "merge_method": method, "commit_title": format!("Title (#{number})"), "commit_message": "Text"});
        self.gh("PUT", &format!("repos/acme/shop/pulls/{number}/merge"), Some(wish))
    }

    #[track_caller]
    pub(super) fn pull(&self, number: u64) -> Value {
        self.get(&format!("repos/acme/shop/pulls/{number}")).body
    }
}

/// The body that opens a pull request.
pub(super) fn wanted(branch: &str) -> Value {
    json!({"title": format!("Do {branch}"), "head": branch, "base": "main", "body": "Words"})
}
