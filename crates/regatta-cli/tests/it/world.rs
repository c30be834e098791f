//! A scratch repository and the real `regatta`, which sees nothing of the machine's own settings.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use regatta_testkit::repo::ScratchRepo;
use rustix::process::Pid;
use serde_json::Value;

/// The plan of most tests: one task for each ending that needs no conflict.
pub(crate) const PLAN: &str = r#"---
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

/// A repository, and `regatta` to run in it.
pub(crate) struct World {
    repo: ScratchRepo,
}

impl Deref for World {
    type Target = ScratchRepo;
    fn deref(&self) -> &ScratchRepo {
        &self.repo
    }
}

/// The result of a command.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    /// Asserts that it ended with this code.
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, code, "stdout:\n{}\nstderr:\n{}", self.out, self.err);
        self
    }

    /// Standard output as one JSON document.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {}", self.out))
    }

    /// Standard output as one JSON document per line.
    #[track_caller]
    pub(crate) fn json_lines(&self) -> Vec<Value> {
        self.out.lines().map(|line| serde_json::from_str(line).expect("each line is an object")).collect()
    }

    /// Standard error as the object of a failed command.
    #[track_caller]
    pub(crate) fn error(&self) -> Value {
        serde_json::from_str(&self.err).unwrap_or_else(|error| panic!("{error}: {}", self.err))
    }
}

impl World {
    pub(crate) fn new() -> Self {
        Self { repo: ScratchRepo::new() }
    }

    pub(crate) fn of(repo: ScratchRepo) -> Self {
        Self { repo }
    }

    /// After a run of [`PLAN`].
    pub(crate) fn after_plan() -> Self {
        let world = Self::new();
        world.run_plan(PLAN).exits(1);
        world
    }

    /// Writes `plan.md` beside the checkout, so that it is not part of it, and runs it.
    pub(crate) fn run_plan(&self, plan: &str) -> Ran {
        let path = self.plan_file(plan);
        self.run(["run".as_ref(), "--no-dashboard".as_ref(), path.as_os_str()])
    }

    pub(crate) fn plan_file(&self, plan: &str) -> PathBuf {
        let path = self.outside().join("plan.md");
        std::fs::write(&path, plan).expect("the plan can be written");
        path
    }

    /// `regatta` in the checkout.
    pub(crate) fn run<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Ran {
        ended(self.command(self.root(), args))
    }

    /// The same in another directory.
    pub(crate) fn run_in<S: AsRef<OsStr>>(&self, dir: &Path, args: impl IntoIterator<Item = S>) -> Ran {
        ended(self.command(dir, args))
    }

    /// The same with more variables.
    pub(crate) fn run_with<S: AsRef<OsStr>>(
        &self,
        variables: &[(&str, &str)],
        args: impl IntoIterator<Item = S>,
    ) -> Ran {
        let mut command = self.command(self.root(), args);
        command.envs(variables.iter().copied());
        ended(command)
    }

    pub(crate) fn command<S: AsRef<OsStr>>(&self, dir: &Path, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_regatta"));
        command.current_dir(dir).env_clear().envs(self.env()).env("TZ", "UTC").env("USER", "ada");
        command.args(args).stdin(Stdio::null());
        command
    }

    /// Starts `regatta`, to be read line by line.
    pub(crate) fn start<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Running {
        let mut command = self.command(self.root(), args);
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("regatta can be started");
        let out = BufReader::new(child.stdout.take().expect("it was piped"));
        Running { child, out }
    }

    /// A named pipe that an agent can wait for; see [`let_go`].
    pub(crate) fn fifo(&self) -> PathBuf {
        let path = self.outside().join("go");
        let made = Command::new("mkfifo").arg(&path).status().expect("mkfifo can be started");
        assert!(made.success());
        path
    }

    /// A plan with one task of the `sh` agent that waits for the pipe.
    pub(crate) fn waiting_plan(&self, fifo: &Path) -> PathBuf {
        let script = format!("echo hello; read go < {}; echo bye; echo x > waiter.txt", fifo.display());
        self.plan_file(&format!(
            "---\nregatta: 1\ntasks:\n  - id: waiter\n    agent: sh\n    prompt: |\n      {script}\n---\n"
        ))
    }
}

/// Lets the reader of the pipe continue. Returns once it has opened the pipe.
pub(crate) fn let_go(fifo: &Path) {
    std::fs::write(fifo, "go\n").expect("the pipe can be written");
}

/// A running command; ended when dropped.
pub(crate) struct Running {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Running {
    /// The next line; `None` at the end.
    pub(crate) fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let n = self.out.read_line(&mut line).expect("it can be read");
        (n > 0).then(|| line.trim_end().to_owned())
    }

    /// Reads until a line matches.
    #[track_caller]
    pub(crate) fn until(&mut self, wanted: impl Fn(&str) -> bool) -> String {
        let mut seen = Vec::new();
        while let Some(line) = self.line() {
            if wanted(&line) {
                return line;
            }
            seen.push(line);
        }
        panic!("it ended without that line: {seen:#?}");
    }

    /// Kills it.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("it is ours to kill");
        self.child.wait().expect("it can be waited for");
    }

    /// Asks it to end, as Ctrl-C does.
    pub(crate) fn interrupt(&self) {
        let pid = Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it is ours");
    }

    /// All remaining lines, and the exit code.
    pub(crate) fn rest(mut self) -> (Vec<String>, i32) {
        let lines = std::iter::from_fn(|| self.line()).collect();
        let status = self.child.wait().expect("it can be waited for");
        (lines, status.code().unwrap_or(-1))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Asked and not killed, so that a run ends its agents and a failing test leaves nothing behind.
        if let Ok(None) = self.child.try_wait() {
            let pid = Pid::from_child(&self.child);
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let _ = self.child.wait();
    }
}

fn ended(mut command: Command) -> Ran {
    let output = command.output().expect("regatta can be started");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ran { code: output.status.code().unwrap_or(-1), out: text(&output.stdout), err: text(&output.stderr) }
}

/// The keys of an object, sorted.
pub(crate) fn keys(value: &Value) -> Vec<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
}
