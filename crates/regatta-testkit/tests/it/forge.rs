use std::process::Command;

use regatta_testkit::forge::{Ci, Forge, Rules};
use regatta_testkit::repo::ScratchRepo;
use serde_json::{Value, json};

/// A checkout whose `origin` is the server.
struct Desk<'a> {
    forge: &'a Forge,
    repo: ScratchRepo,
}

/// What `gh api -i` printed.
#[derive(Debug)]
struct Answer {
    status: u16,
    headers: String,
    body: Value,
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.headers.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    }
}

impl<'a> Desk<'a> {
    fn new(forge: &'a Forge) -> Self {
        let repo = ScratchRepo::empty("main");
        let desk = Self { forge, repo };
        desk.repo.git(["remote", "add", "origin", &forge.remote("acme/shop")]);
        desk.git(&["fetch", "-q", "origin"]);
        desk.git(&["reset", "-q", "--hard", "origin/main"]);
        desk
    }

    fn try_git(&self, args: &[&str]) -> (bool, String) {
        let mut command = Command::new("git");
        command.current_dir(self.repo.root()).env_clear().envs(self.repo.env()).envs(self.forge.world_env());
        let output = command.args(args).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&said).trim_end().to_owned())
    }

    fn git(&self, args: &[&str]) -> String {
        let (succeeded, said) = self.try_git(args);
        assert!(succeeded, "git {args:?}: {said}");
        said
    }

    /// A commit on a branch from `main`, pushed.
    fn push(&self, branch: &str, files: &[(&str, &str)]) -> String {
        self.git(&["switch", "-q", "-C", branch, "origin/main"]);
        files.iter().for_each(|(path, content)| self.repo.write(path, content));
        let head = self.repo.commit_all(branch);
        self.git(&["push", "-q", "origin", &format!("HEAD:refs/heads/{branch}")]);
        head
    }

    fn gh(&self, method: &str, path: &str, body: Option<Value>) -> Answer {
        self.gh_with(&self.forge.world_env(), &[], method, path, body)
    }

    fn gh_with(
        &self,
        env: &[(String, std::ffi::OsString)],
        flags: &[&str],
        method: &str,
        path: &str,
        body: Option<Value>,
    ) -> Answer {
        use std::io::Write as _;
        let mut command = Command::new("gh");
        command.current_dir("/").env_clear().envs(self.repo.env()).envs(env.iter().cloned());
        command.args(["api", "-i", "-X", method, path]).args(flags);
        command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        command.stderr(std::process::Stdio::piped());
        if body.is_some() {
            command.args(["--input", "-"]);
        }
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(body.map(|body| body.to_string()).unwrap_or_default().as_bytes()).unwrap();
        drop(stdin);
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let (first, headers) = head.split_once('\n').unwrap_or((head, ""));
        let status = first.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
        let body = serde_json::from_str(body).unwrap_or_else(|_| Value::String(body.to_owned()));
        Answer { status, headers: headers.to_owned(), body }
    }

    fn open(&self, branch: &str) -> u64 {
        let body = json!({"title": branch, "head": branch, "base": "main", "body": "Closes #99"});
        let answer = self.gh("POST", "repos/acme/shop/pulls", Some(body));
        assert_eq!(answer.status, 201, "{answer:?}");
        answer.body["number"].as_u64().unwrap()
    }
}

#[test]
fn a_branch_is_pushed_proposed_checked_and_merged_for_real() {
    let forge = Forge::with_shop();
    forge.ci(Ci::Waits("ci".to_owned())).rules("main", Rules::checks(["ci"]));
    let desk = Desk::new(&forge);
    assert_eq!(desk.gh("GET", "user", None).body["login"], "octo");
    let head = desk.push("regatta/a", &[("a.txt", "a\n")]);
    let number = desk.open("regatta/a");
    let wish = json!({"sha": head, "merge_method": "squash", "commit_title": "A (#1)"});
    let path = format!("repos/acme/shop/pulls/{number}/merge");
    let early = desk.gh("PUT", &path, Some(wish.clone()));
    assert_eq!(
        (early.status, early.body["message"].as_str()),
        (405, Some("Required status check \"ci\" is in progress."))
    );
    forge.check(number, "ci", regatta_testkit::forge::Conclusion::Success);
    let merged = desk.gh("PUT", &path, Some(wish));
    assert_eq!(merged.status, 200, "{merged:?}");
    desk.git(&["fetch", "-q", "origin"]);
    assert_eq!(desk.git(&["log", "--format=%s", "origin/main"]), "A (#1)\nREADME.md by acme");
    assert_eq!(desk.git(&["rev-parse", "origin/main"]), merged.body["sha"].as_str().unwrap());
    let query = r"query Watch($ids: [ID!]!) { rateLimit { cost remaining resetAt } nodes(ids: $ids) { __typename
        ... on PullRequest { id number state merged headRefOid mergeable mergeStateStatus mergeCommit { oid } statusCheckRollup { state } mergeQueueEntry { state position } }
        ... on Issue { id issueState: state } } }";
    let id = forge.read(|state| state.pull(number).0.node_id());
    let watch = desk.gh("POST", "graphql", Some(json!({"query": query, "variables": {"ids": [id]}})));
    assert_eq!(watch.body["data"]["nodes"][0]["state"], "MERGED", "{watch:?}");
    assert_eq!(watch.body["data"]["nodes"][0]["mergeCommit"]["oid"], merged.body["sha"]);
    assert_eq!(watch.header("x-ratelimit-resource"), Some("graphql"));
    let pushes = forge.pushes();
    assert_eq!(
        pushes.last().map(|pushed| (pushed.forced, pushed.accepted)),
        Some((false, true)),
        "{pushes:?}"
    );
}
