//! The server as a test sees it: started, furnished, watched.

use std::ffi::OsString;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::backend::Pushed;
use super::bare::Bare;
use super::call::Called;
use super::checks::{Check, Conclusion, Status, StatusState};
use super::door::{Bucket, Inner, Shared, Used};
use super::faults::{Fault, Gate};
use super::people::Person;
use super::rules::Rules;
use super::state::{Ci, Method, Moment, Permission, Repo, State, User};
use crate::daemon::DEADLINE;
use crate::repo::write;
use crate::world::World;

/// The user whose token a world has.
const VIEWER: &str = "octo";

/// The server, which listens until it is dropped.
#[derive(Debug)]
pub struct Forge {
    shared: Arc<Shared>,
    dir: TempDir,
}

impl Default for Forge {
    fn default() -> Self {
        Self::start()
    }
}

impl Forge {
    /// Listens on a free port and on a socket. There is one user, `octo`, and no repository.
    pub fn start() -> Self {
        // A socket's path must be short.
        let dir =
            tempfile::Builder::new().prefix("rg-forge-").tempdir_in("/tmp").expect("a directory can be made");
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port of the loopback can be had");
        let own = port.local_addr().expect("a listener has an address").to_string();
        let socket = UnixListener::bind(dir.path().join("s")).expect("a socket can be made");
        let shared = Arc::new(Shared::new(own));
        shared.listen_tcp(port);
        shared.listen_unix(socket);
        let forge = Self { shared, dir };
        forge.user(VIEWER);
        write(&forge.dir.path().join("gh/config.yml"), "version: '1'\nprompt: disabled\n");
        let helper = "!f() { test \\\"$1\\\" = get && test -n \\\"$GH_TOKEN\\\" && \
                      echo username=x-access-token && echo \\\"password=$GH_TOKEN\\\"; }; f";
        let config = format!("[credential \"http://github.localhost\"]\n\thelper = \"{helper}\"\n");
        write(&forge.dir.path().join("gitconfig"), config);
        forge
    }

    /// A server with `acme/shop`, to which `octo` may push and which has one commit on `main`.
    pub fn with_shop() -> Self {
        let forge = Self::start();
        forge.repo("acme/shop");
        forge.member("acme/shop", VIEWER, Permission::Write);
        forge.as_user("acme").push("main", &[("README.md", "hello\n")]);
        forge
    }

    fn inner(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.shared.lock()
    }

    /// Changes the state, and wakes those who wait for it.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let changed = change(&mut self.inner().state);
        self.shared.changed.notify_all();
        changed
    }

    /// Reads the state.
    pub fn read<T>(&self, read: impl FnOnce(&State) -> T) -> T {
        read(&self.inner().state)
    }

    /// The address of the port, for `http_proxy` and for git.
    pub fn url(&self) -> String {
        format!("http://{}", self.shared.own)
    }

    /// The path of the socket, for `http_unix_socket`.
    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("s")
    }

    /// Makes a user; its token is `gho_<login>`.
    pub fn user(&self, login: &str) -> &Self {
        self.change(|state| {
            let id = state.serial();
            let (login, token) = (login.to_owned(), token(login));
            state.users.entry(login.clone()).or_insert(User { login, id, is_bot: false, token });
        });
        self
    }

    /// Makes an app.
    pub fn bot(&self, login: &str) -> &Self {
        self.user(login);
        self.change(|state| state.users.get_mut(login).expect("it was just made").is_bot = true);
        self
    }

    /// The token of a user.
    pub fn token(&self, login: &str) -> String {
        self.inner().state.users.get(login).map(|user| user.token.clone()).expect("a user that was made")
    }

    /// Gives a user another token; the old one is void.
    pub fn new_token(&self, login: &str, token: &str) -> &Self {
        self.change(|state| {
            token.clone_into(&mut state.users.get_mut(login).expect("a user that was made").token);
        });
        self
    }

    /// Makes an empty public repository: default branch `main`, all merge methods, no rules.
    pub fn repo(&self, full_name: &str) -> &Self {
        let (owner, name) = full_name.split_once('/').expect("owner/name");
        self.user(owner);
        self.change(|state| {
            let id = state.serial();
            let dir = self.dir.path().join("repos").join(id.to_string());
            Bare(&dir).init("main");
            let created = state.moment();
            state.repos.push(Repo {
                owner: owner.to_owned(),
                name: name.to_owned(),
                id,
                dir,
                former: Vec::new(),
                parent: None,
                private: false,
                has_issues: true,
                default_branch: "main".to_owned(),
                methods: [Method::Merge, Method::Squash, Method::Rebase].into(),
                delete_branch_on_merge: false,
                members: [(owner.to_owned(), Permission::Admin)].into(),
                labels: ["bug".to_owned()].into(),
                rules: std::collections::BTreeMap::new(),
                issues: std::collections::BTreeMap::new(),
                checks: std::collections::BTreeMap::new(),
                statuses: std::collections::BTreeMap::new(),
                created,
            });
        });
        self
    }

    /// Forks a repository for a user, with all its branches.
    pub fn fork(&self, full_name: &str, owner: &str) -> String {
        let name = full_name.split('/').nth(1).expect("owner/name");
        let fork = format!("{owner}/{name}");
        self.repo(&fork);
        self.change(|state| {
            let from = state.position(full_name).expect("a repository that was made");
            let to = state.position(&fork).expect("it was just made");
            let (id, dir) = (state.repos[from].id, state.repos[from].dir.display().to_string());
            state.repos[to].bare().git(["fetch", "--quiet", &dir, "+refs/heads/*:refs/heads/*"]);
            state.repos[to].parent = Some(id);
            state.repos[to].default_branch = state.repos[from].default_branch.clone();
        });
        fork
    }

    /// Changes a repository by hand.
    pub fn repo_with(&self, full_name: &str, change: impl FnOnce(&mut Settings<'_>)) -> &Self {
        self.change(|state| {
            let at = state.position(full_name).expect("a repository that was made");
            change(&mut Settings(&mut state.repos[at]));
        });
        self
    }

    /// Gives a user a role.
    pub fn member(&self, full_name: &str, login: &str, permission: Permission) -> &Self {
        self.user(login);
        self.repo_with(full_name, |repo| repo.member(login, permission))
    }

    /// Sets the rules of a branch of the first repository.
    pub fn rules(&self, branch: &str, rules: Rules) -> &Self {
        let full_name = self.first();
        self.repo_with(&full_name, |repo| repo.rules(branch, rules))
    }

    fn first(&self) -> String {
        self.read(|state| state.repos.first().expect("a repository was made").full_name())
    }

    /// Answers Enterprise requests for this host: `/api/v3/…` and `/api/graphql`.
    pub fn enterprise(&self, host: &str) -> &Self {
        self.inner().enterprise.push(host.to_owned());
        self
    }

    /// What continuous integration does with every new head from now on.
    pub fn ci(&self, ci: Ci) -> &Self {
        self.change(|state| state.ci = ci);
        self
    }

    /// Says `UNKNOWN` about mergeability at the first looks at every new head or base.
    pub fn unknown_at_first(&self, looks: u32) -> &Self {
        self.change(|state| state.unknown_looks = looks);
        self
    }

    /// A person who acts in the first repository; made as a member who may push if unknown.
    pub fn as_user(&self, login: &str) -> Person<'_> {
        let full_name = self.first();
        let is_known = self.read(|state| state.users.contains_key(login));
        if !is_known {
            self.member(&full_name, login, Permission::Write);
        }
        Person::new(self, login, &full_name)
    }

    /// Records a check run of a commit, or of the head of a pull request (`"12"`); returns its number.
    pub fn check(&self, what: impl ToString, name: &str, conclusion: Conclusion) -> u64 {
        self.check_with(what, name, Some(conclusion), "")
    }

    /// Records a check run that is queued, or one with a log.
    pub fn check_with(
        &self,
        what: impl ToString,
        name: &str,
        conclusion: Option<Conclusion>,
        log: &str,
    ) -> u64 {
        self.change(|state| {
            let (at, sha) = commit(state, &what.to_string());
            let id = state.check(at, &sha, name, conclusion);
            let checks = state.repos[at].checks.get_mut(&sha).expect("it was just recorded");
            log.clone_into(&mut checks.last_mut().expect("it was just recorded").log);
            id
        })
    }

    /// Changes a check run: its progress, end, app, output, remarks or log.
    #[track_caller]
    pub fn edit_check(&self, id: u64, edit: impl FnOnce(&mut Check)) -> &Self {
        self.change(|state| {
            let mut checks = state.repos.iter_mut().flat_map(|repo| repo.checks.values_mut().flatten());
            edit(checks.find(|check| check.id == id).expect("a check run that was recorded"));
        });
        self
    }

    /// Records a commit status.
    pub fn status(&self, what: impl ToString, context: &str, status: StatusState) -> &Self {
        self.change(|state| {
            let (at, sha) = commit(state, &what.to_string());
            let (id, moment) = (state.serial(), state.moment());
            let status = Status {
                id,
                context: context.to_owned(),
                state: status,
                description: String::new(),
                by: "acme".to_owned(),
                at: moment,
            };
            state.repos[at].statuses.entry(sha).or_default().push(status);
        });
        self
    }

    /// Merges what stands in the queue of a branch and is ready, in order.
    pub fn run_queue(&self, branch: &str) -> &Self {
        self.change(|state| state.run_queue(0, branch));
        self
    }

    /// Takes a pull request out of the queue without a merge.
    pub fn kick_out(&self, number: u64, why: &str) -> &Self {
        self.change(|state| state.leave_queue(0, number, why));
        self
    }

    /// The next request that fits meets this fault. In a pattern such as `POST /repos/*/pulls`, `POST /graphql Watch`
    /// or `POST /acme/shop.git/git-receive-pack`, `*` stands for anything.
    pub fn next(&self, pattern: &str, fault: Fault) -> &Self {
        self.next_times(pattern, 1, fault)
    }

    /// The next request that fits waits until the test opens the gate: for what people do at just that moment.
    pub fn hold(&self, pattern: &str) -> Gate {
        let gate = Gate::default();
        self.next(pattern, Fault::Hold(gate.clone()));
        gate
    }

    /// The next requests that fit meet this fault.
    pub fn next_times(&self, pattern: &str, times: usize, fault: Fault) -> &Self {
        let mut inner = self.inner();
        let Inner { faults, state, .. } = &mut *inner;
        faults.add(pattern, fault, times, state);
        drop(inner);
        self
    }

    /// Patterns of faults that no request has met yet.
    pub fn faults_left(&self) -> Vec<String> {
        self.inner().faults.left()
    }

    /// Sets what is left of a user's quota, and in how many seconds it is whole again.
    pub fn quota(&self, login: &str, bucket: Bucket, remaining: u64, reset_in: i64) -> &Self {
        let used = Used { used: 5000 - remaining.min(5000), reset: Moment::now().0 + reset_in };
        self.inner().buckets.insert((login.to_owned(), bucket), used);
        self
    }

    /// All requests to the API so far.
    pub fn calls(&self) -> Vec<Called> {
        self.inner().calls.clone()
    }

    /// The same as lines: `GET /user`, `POST /graphql Watch`.
    pub fn call_lines(&self) -> Vec<String> {
        self.inner().calls.iter().map(Called::line).collect()
    }

    /// How many of them fit a pattern that ends where the line does.
    pub fn count(&self, line: &str) -> usize {
        self.call_lines().iter().filter(|known| *known == line).count()
    }

    /// How many of them change something.
    pub fn writes(&self) -> usize {
        self.inner().calls.iter().filter(|call| call.is_write).count()
    }

    /// The times between writes, in order.
    pub fn write_gaps(&self) -> Vec<Duration> {
        let inner = self.inner();
        let times: Vec<Instant> =
            inner.calls.iter().filter(|call| call.is_write).map(|call| call.at).collect();
        times.windows(2).map(|pair| pair[1].duration_since(pair[0])).collect()
    }

    /// The largest number of requests to the API at the same time.
    pub fn most_at_once(&self) -> usize {
        self.inner().most_in_flight
    }

    /// Forgets the calls so far.
    pub fn forget_calls(&self) -> &Self {
        self.inner().calls.clear();
        self
    }

    /// All updates that pushes asked for.
    pub fn pushes(&self) -> Vec<Pushed> {
        self.inner().pushes.clone()
    }

    pub(super) fn record_push(&self, pushed: Pushed) {
        self.inner().pushes.push(pushed);
    }

    /// Takes the requests that nothing here answers; those that are left fail the test at its end.
    pub fn take_strangers(&self) -> Vec<String> {
        std::mem::take(&mut self.inner().strangers)
    }

    /// The commit of a branch of the first repository.
    pub fn tip(&self, branch: &str) -> Option<String> {
        self.read(|state| state.repos[0].bare().tip(branch))
    }

    /// Runs git in the first bare repository; it must succeed.
    pub fn git<const N: usize>(&self, args: [&str; N]) -> String {
        let dir = self.read(|state| state.repos[0].dir.clone());
        Bare(&dir).git(args)
    }

    /// Waits until the state fits; panics with `what` if it never does.
    #[track_caller]
    pub fn wait_for<T>(&self, what: &str, fits: impl Fn(&State) -> Option<T>) -> T {
        let deadline = Instant::now() + DEADLINE;
        let mut inner = self.inner();
        loop {
            if let Some(found) = fits(&inner.state) {
                return found;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "it did not come to pass: {what}\n{:#?}", lines(&inner));
            inner = match self.shared.changed.wait_timeout(inner, left) {
                Ok((inner, _)) => inner,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
    }

    /// Waits until a request with this line has been answered that many times.
    #[track_caller]
    pub fn wait_called(&self, line: &str, times: usize) {
        let deadline = Instant::now() + DEADLINE;
        let mut inner = self.inner();
        while inner.calls.iter().filter(|call| call.line() == line).count() < times {
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "{line} did not come {times} times\n{:#?}", lines(&inner));
            inner = match self.shared.changed.wait_timeout(inner, left) {
                Ok((inner, _)) => inner,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
    }

    /// Variables with which `gh` and `git` reach this server as `http://github.localhost`, as the user `octo`, and see
    /// no login of the machine.
    pub fn world_env(&self) -> Vec<(String, OsString)> {
        self.env_of(VIEWER)
    }

    /// The same as another user.
    pub fn env_of(&self, login: &str) -> Vec<(String, OsString)> {
        let mut env = self.common_env();
        env.push(("GH_HOST".to_owned(), "github.localhost".into()));
        env.push(("GH_TOKEN".to_owned(), self.token(login).into()));
        env.push(("http_proxy".to_owned(), self.url().into()));
        env.push(("no_proxy".to_owned(), "127.0.0.1".into()));
        env
    }

    fn common_env(&self) -> Vec<(String, OsString)> {
        let path = |name: &str| self.dir.path().join(name).into_os_string();
        vec![
            ("GH_CONFIG_DIR".to_owned(), path("gh")),
            ("GH_PROMPT_DISABLED".to_owned(), "1".into()),
            ("GH_NO_UPDATE_NOTIFIER".to_owned(), "1".into()),
            ("GIT_CONFIG_GLOBAL".to_owned(), path("gitconfig")),
        ]
    }

    /// Variables with which `gh` reaches this server under the real host names: `octo` is logged in at github.com and at
    /// every Enterprise host.
    pub fn socket_env(&self) -> Vec<(String, OsString)> {
        let hosts: String = std::iter::once("github.com".to_owned())
            .chain(self.inner().enterprise.clone())
            .map(|host| format!("{host}: {{oauth_token: {}, user: {VIEWER}}}\n", token(VIEWER)))
            .collect();
        let dir = self.dir.path().join("gh-socket");
        write(&dir.join("hosts.yml"), hosts);
        let socket = self.socket();
        write(
            &dir.join("config.yml"),
            format!("version: '1'\nprompt: disabled\nhttp_unix_socket: {}\n", socket.display()),
        );
        let mut env = self.common_env();
        env.push(("GH_CONFIG_DIR".to_owned(), dir.into_os_string()));
        env
    }

    /// The address of a repository for git.
    pub fn remote(&self, full_name: &str) -> String {
        format!("http://github.localhost/{full_name}.git")
    }

    /// Puts a world's checkout at this server: `acme/shop` gets what the checkout has, and is its `origin`; the
    /// programs of the world speak as `octo`. The repository is made if it is not there.
    pub fn furnish(&self, world: &mut World) -> &Self {
        let full_name = "acme/shop";
        if self.read(|state| state.repo(full_name).is_none()) {
            self.repo(full_name).member(full_name, VIEWER, Permission::Write);
        }
        for (name, value) in self.world_env() {
            world.env(&name, value);
        }
        world.git(["remote", "add", "origin", &self.remote(full_name)]);
        world.git(["push", "--quiet", "origin", "HEAD:refs/heads/main"]);
        world.git(["fetch", "--quiet", "origin"]);
        self
    }

    /// A directory that lives as long as the server.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }
}

/// What a test may change of a repository by hand.
#[derive(Debug)]
pub struct Settings<'a>(&'a mut Repo);

impl Settings<'_> {
    /// Allows only these merge methods.
    pub fn methods<const N: usize>(&mut self, methods: [Method; N]) {
        self.0.methods = methods.into();
    }

    /// Gives a user a role.
    pub fn member(&mut self, login: &str, permission: Permission) {
        self.0.members.insert(login.to_owned(), permission);
    }

    /// Makes it private.
    pub fn private(&mut self) {
        self.0.private = true;
    }

    /// Turns issues off.
    pub fn no_issues(&mut self) {
        self.0.has_issues = false;
    }

    /// Deletes head branches after merges.
    pub fn delete_branch_on_merge(&mut self) {
        self.0.delete_branch_on_merge = true;
    }

    /// Sets the rules of a branch.
    pub fn rules(&mut self, branch: &str, rules: Rules) {
        self.0.rules.insert(branch.to_owned(), rules);
        let protected: Vec<&str> =
            self.0.rules.iter().filter(|(_, rules)| rules.protected).map(|(name, _)| name.as_str()).collect();
        self.0.bare().protect(&protected);
    }
}

impl Drop for Forge {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::Release);
        // Wakes the listeners, which then end.
        let _ = TcpStream::connect(&self.shared.own);
        let _ = UnixStream::connect(self.socket());
        if !std::thread::panicking() {
            let strangers = self.take_strangers();
            assert!(strangers.is_empty(), "nothing answers these requests: {strangers:#?}");
        }
    }
}

fn token(login: &str) -> String {
    format!("gho_{login}")
}

fn lines(inner: &Inner) -> Vec<String> {
    inner.calls.iter().map(|call| format!("{} {:?}", call.line(), call.status)).collect()
}

/// The repository and the commit that a test means: a pull request's number, a commit or a branch.
#[track_caller]
fn commit(state: &State, what: &str) -> (usize, String) {
    let number = what.parse::<u64>().ok().filter(|_| what.len() < 10);
    if let Some((_, pull)) = number.and_then(|number| state.repos[0].pull(number)) {
        return (0, pull.head_sha.clone());
    }
    let found = state.repos.iter().enumerate().find_map(|(at, repo)| Some((at, repo.bare().resolve(what)?)));
    found.unwrap_or_else(|| panic!("{what} is no pull request, commit or branch"))
}
