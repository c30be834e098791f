//! A small world to run the real `regatta` in: a repository, an empty home, nothing inherited from the machine.
//!
//! A test waits for a line that the program prints, a process that ends or a pipe that an agent opens, each with a
//! deadline. Nothing here sleeps just to be safe.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;

use serde_json::Value;

use crate::daemon::{DEADLINE, within};
use crate::repo::{ScratchRepo, write};
pub use crate::running::{Ran, Running};

/// One task for each ending that needs no conflict; see [`World::after_plan`].
pub const PLAN: &str = r#"---
regatta: 1
name: small
defaults: { agent: sim, max_attempts: 1 }
tasks:
  - id: good
    priority: 3
    prompt: |
      # Do something good
      say I will write a file
      tool Write good.txt
      write good.txt good\n
      cost 0.25
      tokens 10 3
      report pass Write the good file
  - id: script
    agent: sh
    prompt: |
      # Run a script
      echo hello from the script
      echo oops >&2
      echo script > script.txt
  - id: broken
    prompt: |
      # Cannot succeed
      say the oven is cold
      report block The oven is cold
  - id: after
    deps: [broken]
    prompt: |
      # Never comes
      write never.txt never\n
---
"#;

/// A repository and the program under test.
#[derive(Debug)]
pub struct World {
    repo: ScratchRepo,
    exe: PathBuf,
    env: Vec<(OsString, OsString)>,
}

/// A point at which an agent reports that it has arrived and waits to continue.
#[derive(Debug)]
pub struct Barrier {
    arrive: PathBuf,
    leave: PathBuf,
}

impl World {
    /// One commit on `main`. `exe` is `env!("CARGO_BIN_EXE_regatta")`.
    pub fn new(exe: &str) -> Self {
        Self::around(exe, ScratchRepo::new())
    }

    /// The same, with agents and commands that run without a sandbox: for what only such an agent can do, and for what
    /// has to hold without a sandbox too.
    pub fn without_sandbox(exe: &str) -> Self {
        let mut world = Self::new(exe);
        world.env("REGATTA_SANDBOX", "off");
        world
    }

    /// In another repository.
    pub fn around(exe: &str, repo: ScratchRepo) -> Self {
        Self { repo, exe: exe.into(), env: Vec::new() }
    }

    /// After a run of [`PLAN`].
    pub fn after_plan(exe: &str) -> Self {
        let world = Self::new(exe);
        world.run_plan(PLAN).exited(1);
        // The two that land run at the same time; screens show what changed last first.
        let db =
            rusqlite::Connection::open(world.root().join(".regatta/regatta.db")).expect("there is a store");
        let both = "id in ('good', 'script')";
        let same = format!(
            "update task set updated_at = (select max(updated_at) from task where {both}) where {both}"
        );
        db.execute(&same, []).expect("tasks have a time");
        world
    }

    /// The repository.
    pub fn repo(&self) -> &ScratchRepo {
        &self.repo
    }

    /// The path of the checkout.
    pub fn root(&self) -> &Path {
        self.repo.root()
    }

    /// A path beside the checkout.
    pub fn outside(&self, name: &str) -> PathBuf {
        self.repo.outside().join(name)
    }

    /// Where lanes are by default.
    pub fn lanes(&self) -> PathBuf {
        let mut name = self.root().file_name().expect("a checkout has a name").to_owned();
        name.push(".lanes");
        self.root().with_file_name(name)
    }

    /// Sets a variable for every program that is started from now on.
    pub fn env(&mut self, name: &str, value: impl AsRef<OsStr>) -> &mut Self {
        self.env.push((name.into(), value.as_ref().to_owned()));
        self
    }

    /// Writes a plan beside the checkout: `tasks` is the YAML list below `tasks:`, `head` the lines above it.
    pub fn plan_with(&self, head: &str, tasks: &str) -> PathBuf {
        let path = self.outside("plan.md");
        let head = head.trim_end();
        let tasks: String = tasks.trim_matches('\n').lines().map(|line| format!("  {line}\n")).collect();
        write(&path, format!("---\nregatta: 1\nname: test\n{head}\ntasks:\n{tasks}---\n"));
        path
    }

    /// A plan for the agent `sh`, whose prompt is a shell script.
    pub fn plan(&self, tasks: &str) -> PathBuf {
        self.plan_with("defaults: { agent: sh, max_attempts: 1 }", tasks)
    }

    /// A plan for the simulated agent.
    pub fn sim(&self, tasks: &str) -> PathBuf {
        self.plan_with("defaults: { agent: sim, max_attempts: 1 }", tasks)
    }

    /// Writes a whole plan beside the checkout.
    pub fn plan_file(&self, plan: &str) -> PathBuf {
        let path = self.outside("plan.md");
        write(&path, plan);
        path
    }

    /// A plan whose only task, `waiter`, waits for the pipe; see [`let_go`].
    pub fn waiting_plan(&self, fifo: &Path) -> PathBuf {
        let script = format!("echo hello; read go < {}; echo bye; echo x > waiter.txt", fifo.display());
        self.plan_file(&format!(
            "---\nregatta: 1\ntasks:\n  - id: waiter\n    title: Wait for a word\n    agent: sh\n    prompt: |\n      {script}\n---\n"
        ))
    }

    /// Writes `regatta.yaml` and commits it.
    pub fn config(&self, yaml: &str) {
        self.repo.commit_file("regatta.yaml", yaml, "settings");
    }

    /// A bare repository named `origin` with the content of the checkout, to which landings are pushed.
    pub fn remote(&mut self) -> PathBuf {
        let path = self.outside("origin.git");
        self.repo.git(["init", "--quiet", "--bare", "--initial-branch=main", &path.display().to_string()]);
        self.repo.git(["remote", "add", "origin", &path.display().to_string()]);
        self.repo.git(["push", "--quiet", "origin", "main"]);
        self.env("REGATTA_LAND_PUSH", "true");
        path
    }

    /// Runs git in the checkout with the variables of this world; it must succeed. Returns its output, trimmed.
    #[track_caller]
    pub fn git<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> String {
        let mut command = Command::new("git");
        command.current_dir(self.root()).env_clear().envs(self.variables()).args(args);
        let output = command.output().expect("git can be started");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command:?}: {said}");
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    /// Every variable that a program of this world sees.
    pub fn variables(&self) -> Vec<(OsString, OsString)> {
        // With fixed dates all commits of one run would have the same second, and agents would not inherit them anyway.
        let git = self.repo.env().into_iter().filter(|(name, _)| !name.to_string_lossy().ends_with("_DATE"));
        let fixed = [("TZ", "UTC"), ("USER", "ada")].map(|(name, value)| (name.into(), value.into()));
        // Agents of tests leave signs beside the repository. It, the home and the lanes stay as they are for everybody.
        let opened = [("REGATTA_TEST_SANDBOX_WRITE".into(), self.repo.outside().into_os_string())];
        git.chain(fixed).chain(opened).chain(self.env.iter().cloned()).collect()
    }

    /// `regatta` in this directory, not started yet.
    pub fn command<S: AsRef<OsStr>>(&self, dir: &Path, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(&self.exe);
        command.current_dir(dir).env_clear().envs(self.variables()).args(args).stdin(Stdio::null());
        command
    }

    /// Runs `regatta` in the checkout until it ends.
    pub fn regatta<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Ran {
        self.regatta_in(self.root(), args)
    }

    /// The same in another directory.
    pub fn regatta_in<S: AsRef<OsStr>>(&self, dir: &Path, args: impl IntoIterator<Item = S>) -> Ran {
        Running::start(self.command(dir, args)).wait()
    }

    /// The same in the checkout, with more variables.
    pub fn regatta_with<S: AsRef<OsStr>>(
        &self,
        variables: &[(&str, &str)],
        args: impl IntoIterator<Item = S>,
    ) -> Ran {
        let mut command = self.command(self.root(), args);
        command.envs(variables.iter().copied());
        Running::start(command).wait()
    }

    /// Writes a whole plan with [`World::plan_file`] and runs it.
    pub fn run_plan(&self, plan: &str) -> Ran {
        self.run(&self.plan_file(plan), &["--no-dashboard"])
    }

    /// Runs a plan until it ends, with more flags.
    pub fn run(&self, plan: &Path, flags: &[&str]) -> Ran {
        self.regatta(run_args(plan, flags))
    }

    /// Starts a plan.
    pub fn start(&self, plan: &Path, flags: &[&str]) -> Running {
        Running::start(self.command(self.root(), run_args(plan, flags)))
    }

    /// Starts `regatta` in the checkout.
    pub fn begin<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Running {
        self.begin_in(self.root(), args)
    }

    /// The same in another directory.
    pub fn begin_in<S: AsRef<OsStr>>(&self, dir: &Path, args: impl IntoIterator<Item = S>) -> Running {
        Running::start(self.command(dir, args))
    }

    /// Runs this program from now on: another copy, another version.
    pub fn use_program(&mut self, exe: &Path) {
        self.exe = exe.to_owned();
    }

    /// Everything in the store, as `regatta report --json` prints it.
    pub fn report(&self) -> Value {
        let ran = self.regatta(["report", "--json"]).exited(0);
        serde_json::from_str(&ran.stdout).expect("a report is JSON")
    }

    /// One task of the report.
    pub fn task(&self, id: &str) -> Value {
        let report = self.report();
        let found = report["tasks"].as_array().and_then(|tasks| tasks.iter().find(|task| task["id"] == id));
        found.cloned().unwrap_or_else(|| panic!("no task {id} in {report:#}"))
    }

    /// `id state` of every task, sorted.
    pub fn states(&self) -> Vec<String> {
        let report = self.report();
        let mut states: Vec<String> = report["tasks"]
            .as_array()
            .expect("tasks are a list")
            .iter()
            .map(|task| format!("{} {}", text(&task["id"]), text(&task["state"])))
            .collect();
        states.sort();
        states
    }

    /// Asserts the states of all tasks, as `["a landed", …]` in the order of ids.
    #[track_caller]
    pub fn assert_states<const N: usize>(&self, expected: [&str; N]) {
        let states = self.states();
        assert_eq!(states, expected, "{:#}", self.report()["tasks"]);
    }

    /// Gives a task a lane as older versions made it: a worktree that shares the project's git directory. The store must
    /// exist.
    pub fn old_lane(&self, id: &str) {
        let (made, path) = (self.lanes().join(format!("regatta-{id}")), self.lanes().join(id));
        let text = |path: &Path| path.to_str().expect("a path that is text").to_owned();
        self.repo.git(["worktree", "add", "-q", "--detach", &text(&made), "main"]);
        self.repo.git(["worktree", "move", &text(&made), &text(&path)]);
        let base = self.repo.rev("main");
        let record =
            format!(r#"{{"base":"{base}","admin":"regatta-{id}","ready":true,"hooks":{{}},"fence":0}}"#);
        crate::repo::write(&self.state_dir().join(format!("lanes/{id}.json")), &record);
    }

    /// Subjects of the branch's commits, newest first.
    pub fn subjects(&self, branch: &str) -> Vec<String> {
        self.repo.git(["log", "--format=%s", branch, "--"]).lines().map(str::to_owned).collect()
    }

    /// A file on the branch.
    pub fn landed(&self, path: &str) -> Option<String> {
        let output = self.repo.try_git(self.root(), &["show", &format!("main:{path}")]);
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// How many commits of the branch touch the file.
    pub fn commits_of(&self, path: &str) -> usize {
        self.repo.git(["log", "--format=%H", "main", "--", path]).lines().count()
    }

    /// The salvage refs.
    pub fn salvaged(&self) -> Vec<String> {
        let refs = self.repo.git(["for-each-ref", "--format=%(refname)", "refs/regatta/salvage/"]);
        refs.lines().map(str::to_owned).collect()
    }

    /// All live processes of this world: by environment, working directory or arguments.
    pub fn processes(&self) -> Vec<String> {
        let place = self.repo.outside().into_os_string().into_encoded_bytes();
        let mentions = |bytes: &[u8]| bytes.windows(place.len()).any(|part| part == place);
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").expect("there is /proc").flatten() {
            let path = entry.path();
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
                continue;
            };
            if pid == std::process::id() {
                continue;
            }
            let read = |name: &str| fs::read(path.join(name)).unwrap_or_default();
            let stat = String::from_utf8_lossy(&read("stat")).into_owned();
            let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
            let cwd =
                fs::read_link(path.join("cwd")).unwrap_or_default().into_os_string().into_encoded_bytes();
            let ours = mentions(&read("environ")) || mentions(&cwd) || mentions(&read("cmdline"));
            if ours && !matches!(state, Some('Z' | 'X') | None) {
                let line = String::from_utf8_lossy(&read("cmdline")).replace('\0', " ");
                found.push(format!("{pid} {line}"));
            }
        }
        found
    }

    /// Asserts that no process of the run is alive, no lane is left and the repository is intact.
    #[track_caller]
    pub fn assert_tidy(&self) {
        self.assert_no_process();
        let lanes = self.lane_dirs();
        assert!(lanes.is_empty(), "lanes left: {lanes:?}");
        let worktrees = self.repo.git(["worktree", "list", "--porcelain"]);
        let count = worktrees.lines().filter(|line| line.starts_with("worktree ")).count();
        assert_eq!(count, 1, "worktrees left:\n{worktrees}");
        self.assert_sound();
    }

    /// Asserts that `git fsck` finds nothing wrong and that no lock is left.
    #[track_caller]
    pub fn assert_sound(&self) {
        let fsck = self.repo.try_git(self.root(), &["fsck", "--full", "--strict", "--no-dangling"]);
        assert!(fsck.status.success(), "{}", String::from_utf8_lossy(&fsck.stderr));
        let lock = self.repo.git(["rev-parse", "--path-format=absolute", "--git-path", "index.lock"]);
        assert!(!Path::new(&lock).exists(), "{lock} was left");
    }

    /// Asserts that no process of the run is alive. The kernel may need a moment for killed ones.
    #[track_caller]
    pub fn assert_no_process(&self) {
        let mut alive = Vec::new();
        let gone = within(DEADLINE, || {
            alive = self.processes();
            alive.is_empty().then_some(())
        });
        assert!(gone.is_some(), "still alive: {alive:#?}");
    }

    /// Existing directories of lanes and readers.
    pub fn lane_dirs(&self) -> Vec<String> {
        let mut found = Vec::new();
        for dir in [self.lanes(), self.lanes().join(".readers"), self.lanes().join(".trash")] {
            for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
                let path = entry.path();
                if !matches!(
                    entry.file_name().to_str(),
                    Some(".readers" | ".trash" | ".kept" | ".pool" | ".cache")
                ) {
                    found.push(path.strip_prefix(self.lanes()).unwrap_or(&path).display().to_string());
                }
            }
        }
        found.sort();
        found
    }

    /// Makes a barrier for agents; an agent runs its `script`.
    pub fn barrier(&self, name: &str) -> Barrier {
        let [arrive, leave] = ["arrive", "leave"].map(|end| self.fifo(&format!("{name}.{end}")));
        Barrier { arrive, leave }
    }

    /// A named pipe beside the checkout, for which an agent can wait with `read`; see [`let_go`].
    pub fn fifo(&self, name: &str) -> PathBuf {
        let path = self.outside(name);
        let made = Command::new("mkfifo").arg(&path).status();
        assert!(made.is_ok_and(|status| status.success()), "a pipe can be made");
        path
    }
}

impl Drop for World {
    /// Leaves no process behind when a test fails half-way: ends only those of this world.
    fn drop(&mut self) {
        for process in self.processes() {
            if let Some(pid) = process.split(' ').next() {
                let _ = Command::new("kill").args(["-9", pid]).stderr(Stdio::null()).status();
            }
        }
    }
}

impl Barrier {
    /// The shell text with which an agent arrives and waits.
    pub fn script(&self) -> String {
        format!("echo here >'{}'; read _ <'{}'", self.arrive.display(), self.leave.display())
    }

    /// Waits until an agent has arrived.
    #[track_caller]
    pub fn arrived(&self) {
        let path = self.arrive.clone();
        let (send, receive) = channel();
        std::thread::spawn(move || {
            let mut text = String::new();
            let read = fs::File::open(path).and_then(|mut pipe| pipe.read_to_string(&mut text));
            let _ = send.send(read.map(|_| text));
        });
        let arrived = receive.recv_timeout(DEADLINE);
        assert!(matches!(arrived, Ok(Ok(_))), "nobody arrived: {arrived:?}");
    }

    /// Lets the waiting agent continue.
    #[track_caller]
    pub fn open(&self) {
        let_go(&self.leave);
    }
}

/// Lets the reader of a pipe continue. Returns when it has opened the pipe.
#[track_caller]
pub fn let_go(fifo: &Path) {
    let path = fifo.to_owned();
    let (send, receive) = channel();
    std::thread::spawn(move || {
        let opened = fs::OpenOptions::new().write(true).open(path);
        let _ = send.send(opened.and_then(|mut pipe| pipe.write_all(b"go\n")));
    });
    let opened = receive.recv_timeout(DEADLINE);
    assert!(matches!(opened, Ok(Ok(()))), "nobody waits: {opened:?}");
}

/// An entry of a plan: `keys` are further lines of YAML, `prompt` is taken literally.
pub fn task(id: &str, keys: &str, prompt: &str) -> String {
    let keys: String =
        keys.trim_matches('\n').lines().map(|line| format!("  {}\n", line.trim_end())).collect();
    let prompt: String = prompt.lines().map(|line| format!("    {line}\n")).collect();
    format!("- id: {id}\n{keys}  prompt: |\n{prompt}")
}

/// The text of a JSON string, empty for anything else.
pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The keys of an object, sorted.
pub fn keys(value: &Value) -> Vec<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
}

fn run_args(plan: &Path, flags: &[&str]) -> Vec<OsString> {
    let mut args: Vec<OsString> = vec!["run".into()];
    args.extend(flags.iter().map(OsString::from));
    args.push(plan.into());
    args
}
