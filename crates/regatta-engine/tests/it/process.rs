//! Real trees under a real shim: how they end, who survives whom, and what is left on disk.

mod adoption;
mod ending;
mod launching;
mod recording;
mod stopping;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use regatta_engine::process::{ExitRecord, FoundRun, Identity, Launch, Shim, Stdin, Supervisor, find, sweep};

const SHIM_EXE: &str = env!("CARGO_BIN_EXE_regatta-test-shim");

/// A scratch directory in which one run is launched, and a check that nothing outlives the test.
struct Scratch {
    dir: tempfile::TempDir,
    run_id: String,
}

impl Scratch {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let run_id = format!("test-{}", dir.path().file_name().unwrap().display());
        Self { dir, run_id }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn run_dir(&self) -> PathBuf {
        self.path("run")
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    fn launch(&self, argv: &[&str]) -> Launch {
        Launch {
            run_dir: self.run_dir(),
            argv: argv.iter().map(OsString::from).collect(),
            cwd: self.dir.path().to_owned(),
            env: vec![("PATH".into(), "/usr/bin:/bin".into())],
            secrets: Vec::new(),
            stdin: Stdin::Null,
            stdout: self.path("stdout"),
            stderr: self.path("stderr"),
            run_id: self.run_id.clone(),
            limit: None,
            grace: Duration::from_secs(20),
            log_limit: None,
            hold: None,
            confine: None,
            door: None,
            proxy: None,
        }
    }

    fn shell(&self, script: &str) -> Launch {
        self.launch(&["sh", "-c", script])
    }

    fn record(&self) -> ExitRecord {
        serde_json::from_str(&self.read("run/exit.json")).unwrap()
    }

    /// The process whose pid a script wrote into this file.
    async fn process(&self, name: &str) -> Identity {
        let mut identity = None;
        eventually(name, || {
            identity = self.read(name).trim().parse().ok().and_then(|pid| Identity::of(pid).ok());
            identity.is_some()
        })
        .await;
        identity.unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A test that failed must not leave its processes to the next.
        sweep(&self.run_id);
    }
}

/// A process that is killed with the test.
struct Engine(Child);

impl Engine {
    fn start(command: &mut Command) -> Self {
        Self(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

fn supervisor() -> Supervisor {
    Supervisor::new(SHIM_EXE)
}

/// Waits until the condition holds; a test that waits too long says for what.
async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !holds() {
        assert!(Instant::now() < deadline, "waited too long for: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn adopted(run_dir: &Path) -> Shim {
    match find(run_dir).unwrap() {
        FoundRun::Alive(shim) => shim,
        other => panic!("expected a living shim, found {other:?}"),
    }
}

fn kill(pid: u32, signal: &str) {
    assert!(Command::new("kill").args([signal, &pid.to_string()]).status().unwrap().success());
}

/// Ignores what can be ignored and hides where one can hide: a session of its own, two forks, no environment.
/// They end with the scratch directory, so that a test that failed leaves nobody.
const HIDE: &str = r#"
    trap '' INT TERM HUP
    ( ( exec setsid env -i /bin/sh -c 'trap "" INT TERM HUP; echo $$ > hidden; while [ -e hidden ]; do /bin/sleep 1; done' ) & )
    sh -c 'trap "" INT TERM; echo $$ > plain; while [ -e plain ]; do sleep 1; done' &
"#;
