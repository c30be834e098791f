//! Real programs under a real shim in a real sandbox, at both levels, as root and as an ordinary user.

mod ending;
mod files;
mod network;
mod refusals;
mod syscalls;

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use regatta_core::exit::Exit;
use regatta_core::sandbox::plan::VERSION;
use regatta_core::sandbox::{Confinement, Level, Net, PathAccess, PathRule};
use regatta_engine::confine::{Confined, Machine, probe};
use regatta_engine::process::sweep;
use serde_json::{Value, json};

const EXE: &str = env!("CARGO_BIN_EXE_regatta-test-shim");

/// The user that an ordinary one is played by.
const ORDINARY: u32 = 1000;

/// The binary, where every user may run it.
fn exe() -> &'static Path {
    static PLACE: OnceLock<(tempfile::TempDir, PathBuf)> = OnceLock::new();
    let (_, path) = PLACE.get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let path = dir.path().join("regatta");
        // By another process: a descriptor of this one could be inherited by a child of another test, and a program that
        // somebody has open for writing cannot be started.
        assert!(Command::new("cp").arg(EXE).arg(&path).status().unwrap().success());
        (dir, path)
    });
    path
}

/// What this machine can do. Both levels are tried everywhere; what the machine lacks fails here, with its reason.
fn machine() -> Machine {
    probe(Path::new(EXE))
}

/// As whom a test runs: the current user, and an ordinary one if the current one is root.
fn users() -> Vec<Option<u32>> {
    if rustix::process::geteuid().is_root() { vec![None, Some(ORDINARY)] } else { vec![None] }
}

/// A user's home, project, lanes and box, in a directory of its own.
struct World {
    dir: tempfile::TempDir,
    user: Option<u32>,
    run_id: String,
    runs: std::cell::Cell<u32>,
}

/// How one program ended, and what it said.
#[derive(Debug)]
struct Ran {
    exit: Exit,
    stdout: String,
    #[expect(dead_code, reason = "shown by a failed test")]
    stderr: String,
    confined: Option<Confined>,
}

/// One that is running.
struct Running {
    launcher: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
    shim: u32,
    agent: u32,
    confined: Option<Confined>,
    run_dir: PathBuf,
}

impl World {
    fn new(user: Option<u32>) -> Self {
        Self::within(tempfile::tempdir().unwrap(), user)
    }

    fn within(dir: tempfile::TempDir, user: Option<u32>) -> Self {
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let run_id = format!("test-{}", dir.path().file_name().unwrap().display());
        let world = Self { dir, user, run_id, runs: std::cell::Cell::new(0) };
        for (file, text) in [
            ("home/.bashrc", "echo hello\n"),
            ("home/.ssh/id", "a key\n"),
            ("home/.netrc", "a password\n"),
            ("home/.agent/settings", "honest\n"),
            ("home/.agent/state", "old\n"),
            ("project/README", "read me\n"),
            ("project/.regatta/store", "a token\n"),
            ("lanes/other/work", "another's\n"),
            ("lanes/mine/work", "mine\n"),
            ("box/tmp/.keep", ""),
            ("box/upperdir/.keep", ""),
            ("box/workdir/.keep", ""),
        ] {
            let path = world.path(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        for place in ["box/tmp", "box/upperdir", "box/workdir"] {
            fs::remove_file(world.path(place).join(".keep")).unwrap();
        }
        fs::create_dir_all(world.path("runs")).unwrap();
        world.give(world.dir.path());
        world
    }

    /// Gives everything below to the user.
    fn give(&self, path: &Path) {
        let Some(user) = self.user else { return };
        chown(path, Some(user), Some(user)).unwrap();
        if path.is_dir() {
            for entry in fs::read_dir(path).unwrap() {
                self.give(&entry.unwrap().path());
            }
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        // A temporary directory may be reached through a link.
        self.dir.path().canonicalize().unwrap().join(name)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// As an attempt's: the lane is written, the home is copied, secrets and other lanes are hidden.
    fn document(&self, level: Level) -> Confinement {
        let copy = PathAccess::Copy { upper: self.path("box/upperdir"), work: self.path("box/workdir") };
        // In the worst order: the mounts have to sort them.
        let rules = [
            ("project/.regatta", PathAccess::Hide),
            ("lanes/mine", PathAccess::Write),
            ("home/.ssh", PathAccess::Hide),
            ("home/.netrc", PathAccess::Hide),
            ("home/.agent", PathAccess::Write),
            ("home/.agent/settings", PathAccess::Read),
            ("home/.missing", PathAccess::Hide),
            ("project", PathAccess::Read),
            ("lanes", PathAccess::Hide),
            ("home", copy),
        ];
        let mut rules: Vec<PathRule> =
            rules.into_iter().map(|(path, access)| PathRule { path: self.path(path), access }).collect();
        // The program that tries things.
        rules.push(PathRule { path: exe().canonicalize().unwrap(), access: PathAccess::Read });
        Confinement {
            version: VERSION,
            level,
            rules,
            tmp: self.path("box/tmp"),
            network: Net::Host,
            sockets: Vec::new(),
            devices: Vec::new(),
            nested: false,
            processes: None,
            memory: None,
            abi: None,
        }
    }

    fn start(&self, document: Option<&Confinement>, argv: &[&str], more: Value) -> Running {
        self.start_in(&[], document, argv, more)
    }

    /// Like `start`, by a launcher that another program starts.
    fn start_in(
        &self,
        around: &[&str],
        document: Option<&Confinement>,
        argv: &[&str],
        more: Value,
    ) -> Running {
        let n = self.runs.replace(self.runs.get() + 1);
        let run_dir = self.path(&format!("runs/{n}"));
        let mut launch = json!({
            "run_dir": run_dir, "argv": argv, "cwd": self.path("lanes/mine"), "run_id": self.run_id,
            "env": ["PATH=/usr/bin:/bin", format!("HOME={}", self.path("home").display())],
            "confine": document,
        });
        launch.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let file = self.path(&format!("runs/{n}.json"));
        fs::write(&file, launch.to_string()).unwrap();
        let words =
            around.iter().map(|word| OsStr::new(*word)).chain([exe().as_os_str()]).collect::<Vec<_>>();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).arg("launch-file").arg(&file).stdin(Stdio::null()).stdout(Stdio::piped());
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        let mut launcher = command.spawn().unwrap();
        let mut lines = BufReader::new(launcher.stdout.take().unwrap()).lines();
        let started: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        Running {
            launcher,
            lines,
            shim: started["shim"].as_u64().unwrap().try_into().unwrap(),
            agent: started["agent"].as_u64().unwrap_or_default().try_into().unwrap(),
            confined: serde_json::from_value(started["confined"].clone()).unwrap(),
            run_dir,
        }
    }

    fn run(&self, document: &Confinement, argv: &[&str]) -> Ran {
        self.start(Some(document), argv, json!({})).ended()
    }

    fn shell(&self, document: &Confinement, script: &str) -> Ran {
        self.run(document, &["sh", "-c", script])
    }

    /// What `try` says inside.
    fn attempt(&self, document: &Confinement, what: &[&str]) -> String {
        let exe = exe().canonicalize().unwrap();
        let argv: Vec<&str> =
            [exe.to_str().unwrap(), "try"].into_iter().chain(what.iter().copied()).collect();
        let ran = self.run(document, &argv);
        assert_eq!(ran.exit, Exit::Exited { code: 0 }, "{what:?}: {ran:?}");
        ran.stdout.trim().to_owned()
    }
}

impl Running {
    fn ended(mut self) -> Ran {
        let exit = serde_json::from_str(&self.lines.next().unwrap().unwrap()).unwrap();
        self.launcher.wait().unwrap();
        let read = |name: &str| {
            String::from_utf8_lossy(&fs::read(self.run_dir.join(name)).unwrap_or_default()).into_owned()
        };
        Ran { exit, stdout: read("stdout"), stderr: read("stderr"), confined: self.confined }
    }

    /// The record that the shim left.
    fn record(run_dir: &Path) -> Value {
        serde_json::from_slice(&fs::read(run_dir.join("exit.json")).unwrap()).unwrap()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        sweep(&self.run_id);
    }
}

/// Every level for every user, each in a world of its own.
fn everywhere(test: impl Fn(&World, &Confinement)) {
    for user in users() {
        for level in [Level::Full, Level::Files] {
            let world = World::new(user);
            let document = world.document(level);
            test(&world, &document);
        }
    }
}

/// The full level for every user.
fn in_full(test: impl Fn(&World, Confinement)) {
    for user in users() {
        let world = World::new(user);
        let document = world.document(Level::Full);
        test(&world, document);
    }
}

/// Waits until the condition holds; a test that waits too long says for what.
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let held = regatta_testkit::daemon::within(Duration::from_secs(60), || holds().then_some(()));
    assert!(held.is_some(), "waited too long for: {what}");
}

#[test]
fn this_machine_has_both_levels_and_says_so() {
    let machine = machine();
    assert_eq!(machine.namespaces, Ok(()));
    assert_eq!(machine.overlay, Ok(()));
    assert_eq!(machine.proc, Ok(()));
    assert!(machine.usable_landlock().is_some() && machine.seccomp);
    assert_eq!(machine.best(), Level::Full);
}

#[test]
fn a_machine_that_lacks_something_is_described() {
    let asked = |forced: &str| -> Machine {
        let output = Command::new(EXE)
            .args(["confine", "--probe"])
            .env("REGATTA_TEST_SANDBOX", forced)
            .output()
            .unwrap();
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let without = asked("no-userns");
    assert!(without.namespaces.is_err() && without.overlay.is_err() && without.proc.is_err());
    assert_eq!(without.best(), Level::Files);
    assert_eq!(asked("no-userns,abi=1").best(), Level::Off);
    let weak = asked("no-overlay,no-proc,abi=4");
    assert_eq!((weak.best(), weak.landlock), (Level::Full, Some(4)));
    assert!(weak.overlay.is_err() && weak.proc.is_err());
}
