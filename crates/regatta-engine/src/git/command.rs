//! The only place that starts git processes: pinned environment, argument arrays, bounded waiting for locks.

use std::ffi::{OsStr, OsString};
use std::hash::{BuildHasher, Hasher};
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{GitError, Lookout, limited, locks};

/// The `GIT_*` variables that git may inherit: how to reach the network and where the user's configuration is, nothing
/// that would point it at another repository.
const KEPT_GIT_VARIABLES: [&str; 10] = [
    "GIT_ASKPASS",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_NOSYSTEM",
    "GIT_CONFIG_SYSTEM",
    "GIT_EXEC_PATH",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_SSL_CAINFO",
    "GIT_SSL_CAPATH",
    "GIT_PROXY_COMMAND",
];

/// Settings that every command gets, whatever the configuration says.
const ALWAYS: [&str; 9] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "submodule.recurse=false",
    "core.quotePath=false",
    // A full object id always means itself, even if a ref has the same name: this saves six lookups per id.
    "core.warnAmbiguousRefs=false",
    // Parents and trees come from the commits themselves, not from a cache that any process can write.
    "core.commitGraph=false",
    // An index is one file: it is copied, compared and replaced as one.
    "core.splitIndex=false",
];

/// Variables that make every object mean what its id says: no `refs/replace`, no grafts. For Regatta's own git, and for
/// every command that Regatta runs to judge work. An existing grafts file, even an empty one, would make git print
/// advice.
pub(crate) const AS_STORED: [(&str, &str); 2] =
    [("GIT_NO_REPLACE_OBJECTS", "1"), ("GIT_GRAFT_FILE", "/dev/null/none")];

const FIRST_WAIT: Duration = Duration::from_millis(20);
const LONGEST_WAIT: Duration = Duration::from_secs(2);
const LOCK_TRIES: u32 = 9;
/// How often to run a command that a signal ended: every command can be repeated, and callers that move a ref check
/// where it is.
const KILLED_TRIES: u32 = 4;
const STDERR_TAIL: usize = 4000;
/// Linux never makes a pipe smaller than a page.
const PIPE_ROOM: usize = 4096;

/// The environment of git processes. Tests pass in their own.
#[derive(Clone, Debug)]
pub struct GitEnv {
    variables: Arc<Vec<(OsString, OsString)>>,
    program: Arc<Path>,
}

impl GitEnv {
    /// This process's environment.
    pub fn inherited() -> Self {
        Self::new(std::env::vars_os())
    }

    /// Exactly these variables, without the `GIT_*` ones that would mislead git.
    pub fn new(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let keep = |name: &OsStr| {
            let name = name.to_string_lossy();
            (!name.starts_with("GIT_") || KEPT_GIT_VARIABLES.contains(&name.as_ref()))
                && !matches!(name.as_ref(), "LANGUAGE" | "LANG")
                && !name.starts_with("LC_")
        };
        let variables: Vec<_> = variables.into_iter().filter(|(name, _)| keep(name)).collect();
        let path = variables.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.as_os_str());
        let program = find_git(path).unwrap_or_else(|| PathBuf::from("git")).into();
        Self { variables: Arc::new(variables), program }
    }

    /// The variables, as a hook or another child should see them.
    pub fn variables(&self) -> &[(OsString, OsString)] {
        &self.variables
    }

    /// The value of one variable.
    pub(crate) fn get(&self, name: &str) -> Option<&OsStr> {
        self.variables.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_os_str())
    }
}

/// The path of git. A bare name would be looked up again for every process, and the standard library looks up names in
/// a custom environment only after a `fork`, which copies this process's page tables. Relative entries are ignored:
/// they would be looked up in a lane.
fn find_git(path: Option<&OsStr>) -> Option<PathBuf> {
    let places = std::env::split_paths(path?).filter(|dir| dir.is_absolute());
    places.map(|dir| dir.join("git")).find(|git| super::is_executable(git))
}

/// A git command being built.
#[derive(Clone, Debug)]
pub(crate) struct GitCommand {
    base: GitEnv,
    settings: Vec<OsString>,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    cwd: Option<PathBuf>,
    stdin: Option<Vec<u8>>,
    /// A file to read from, and one to write to, in place of pipes.
    from_file: Option<PathBuf>,
    into_file: Option<PathBuf>,
    /// The directory with the records of our own ref edits.
    ref_edits: Option<PathBuf>,
    only_once: bool,
    /// The time limit of a command that talks to another machine.
    limit: Option<Duration>,
    lookout: Option<Lookout>,
}

/// The result of a command that was allowed to fail.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
    pub(crate) command: String,
}

impl GitCommand {
    pub(crate) fn new(base: &GitEnv) -> Self {
        Self {
            base: base.clone(),
            settings: ALWAYS.iter().map(OsString::from).collect(),
            args: Vec::new(),
            env: Vec::new(),
            cwd: None,
            stdin: None,
            from_file: None,
            into_file: None,
            ref_edits: None,
            only_once: false,
            limit: None,
            lookout: None,
        }
    }

    /// It talks to another machine: killed after this time with everything it started, never repeated, and a lock that
    /// it complains about is left alone, because it may be the other machine's.
    pub(crate) fn within(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self.only_once = true;
        self
    }

    /// Killed as well if the other machine is silent.
    pub(crate) fn watched(mut self, lookout: Lookout) -> Self {
        self.lookout = Some(lookout);
        self
    }

    /// Not repeated after a kill: the caller first checks what it did.
    pub(crate) fn only_once(mut self) -> Self {
        self.only_once = true;
        self
    }

    pub(crate) fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    pub(crate) fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// `-c name=value`.
    pub(crate) fn set(mut self, setting: impl Into<OsString>) -> Self {
        self.settings.push(setting.into());
        self
    }

    /// Its writes must survive a power cut: by default git syncs nothing on a commit.
    pub(crate) fn durable(self) -> Self {
        self.set("core.fsync=committed,loose-object,reference")
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.env.push((name.into(), value.as_ref().to_owned()));
        self
    }

    pub(crate) fn cwd(mut self, dir: &Path) -> Self {
        self.cwd = Some(dir.to_owned());
        self
    }

    pub(crate) fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = Some(bytes.into());
        self
    }

    /// Its input is this file.
    pub(crate) fn reading_from(mut self, path: &Path) -> Self {
        self.from_file = Some(path.to_owned());
        self
    }

    /// Its output goes to this file, whatever it contained.
    pub(crate) fn into_file(mut self, path: &Path) -> Self {
        self.into_file = Some(path.to_owned());
        self
    }

    /// Reads also the objects in these stores, after those of its own store, and in this order.
    pub(crate) fn borrowing<P: AsRef<Path>>(self, stores: impl IntoIterator<Item = P>) -> Self {
        let mut list = OsString::new();
        for store in stores {
            if !list.is_empty() {
                list.push(":");
            }
            list.push(super::quoted(store.as_ref()));
        }
        if list.is_empty() { self } else { self.env("GIT_ALTERNATE_OBJECT_DIRECTORIES", list) }
    }

    /// Allows removing a lock on the user's refs that a recorded edit left behind.
    pub(crate) fn ref_edits(mut self, dir: Option<PathBuf>) -> Self {
        self.ref_edits = dir;
        self
    }

    /// The child's variables in addition to the base environment, including the pinned ones.
    fn pinned(&self) -> Vec<(OsString, OsString)> {
        let fixed =
            [("LC_ALL", "C"), ("GIT_TERMINAL_PROMPT", "0"), ("GIT_EDITOR", ":"), ("GIT_PAGER", "cat")];
        fixed
            .iter()
            .chain(&AS_STORED)
            .map(|(n, v)| (n.into(), v.into()))
            .chain(self.env.iter().cloned())
            .collect()
    }

    fn shown(&self) -> String {
        let args = self.args.iter().map(|arg| arg.to_string_lossy()).collect::<Vec<_>>();
        format!("git {}", args.join(" ")).chars().take(300).collect()
    }

    fn spawn_once(&self) -> Result<Output, GitError> {
        let mut command = Command::new(&*self.base.program);
        command.env_clear().envs(self.base.variables.iter().map(|(n, v)| (n, v))).envs(self.pinned());
        for setting in &self.settings {
            command.arg("-c").arg(setting);
        }
        command.args(&self.args).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.stdin(if self.stdin.is_some() { Stdio::piped() } else { Stdio::null() });
        if let Some(path) = &self.from_file {
            command.stdin(std::fs::File::open(path).map_err(super::io("open", path))?);
        }
        if let Some(path) = &self.into_file {
            command.stdout(std::fs::File::create(path).map_err(super::io("create", path))?);
        }
        if let Some(dir) = &self.cwd {
            command.current_dir(dir);
        }
        let missing = |error: std::io::Error| match &self.cwd {
            Some(dir) if !dir.is_dir() => GitError::Io { doing: "enter", path: dir.clone(), source: error },
            _ => GitError::NotInstalled(error),
        };
        if self.limit.is_some() {
            // Helpers such as ssh are killed with it.
            command.process_group(0);
        }
        let mut child = command.spawn().map_err(missing)?;
        let mut pipe = child.stdin.take().zip(self.stdin.as_deref());
        // Input that fits into any pipe is written at once.
        if let Some((mut pipe, bytes)) = pipe.take_if(|(_, bytes)| bytes.len() <= PIPE_ROOM) {
            pipe.write_all(bytes).ok();
        }
        if let Some(limit) = self.limit {
            let begun = Instant::now();
            if let Some((mut pipe, bytes)) = pipe {
                let bytes = bytes.to_vec();
                std::thread::spawn(move || pipe.write_all(&bytes).ok());
            }
            return limited::output(child, limit, self.lookout.as_ref())
                .map_err(GitError::NotInstalled)?
                .ok_or_else(|| GitError::NoAnswer {
                    command: self.shown(),
                    limit: begun.elapsed().min(limit),
                });
        }
        // A separate writer thread: git may answer before it has read everything, and neither side may block the other.
        let output = std::thread::scope(|scope| {
            if let Some((mut pipe, bytes)) = pipe {
                scope.spawn(move || pipe.write_all(bytes).ok());
            }
            child.wait_with_output()
        });
        output.map_err(GitError::NotInstalled)
    }

    /// Runs it and returns the result, whatever it is. Waits for a lock held by another process, removes one that no
    /// process holds any more, and repeats a command that was killed.
    pub(crate) fn run(&self) -> Result<Ran, GitError> {
        let mut wait = FIRST_WAIT;
        let mut killed = 0;
        for attempt in 1.. {
            let output = self.spawn_once()?;
            let stderr = tail(&output.stderr);
            if output.status.code().is_none() && !self.only_once && killed + 1 < KILLED_TRIES {
                killed += 1;
                std::thread::sleep(jittered(FIRST_WAIT));
                continue;
            }
            if output.status.code().is_none() && !self.only_once {
                return Err(GitError::Killed { command: self.shown() });
            }
            if output.status.success() || self.limit.is_some() || !is_lock_trouble(&stderr) {
                let (code, stdout) = (output.status.code(), output.stdout);
                return Ok(Ran { code, stdout, stderr, command: self.shown() });
            }
            let lock = locks::named_in(&stderr);
            let cleared = lock.as_deref().is_some_and(|lock| locks::clear(lock, self.ref_edits.as_deref()));
            if cleared {
                continue;
            }
            if attempt - killed >= LOCK_TRIES {
                return Err(GitError::locked(self.shown(), lock.as_deref(), stderr));
            }
            std::thread::sleep(jittered(wait));
            wait = (wait * 2).min(LONGEST_WAIT);
        }
        unreachable!("the loop returns at the last try")
    }

    /// Runs it; anything but success is an error.
    pub(crate) fn bytes(&self) -> Result<Vec<u8>, GitError> {
        let ran = self.run()?;
        if ran.code == Some(0) { Ok(ran.stdout) } else { Err(ran.into_error()) }
    }

    /// Like [`Self::bytes`], as text without the last line ending.
    pub(crate) fn text(&self) -> Result<String, GitError> {
        let bytes = self.bytes()?;
        Ok(String::from_utf8_lossy(&bytes).trim_end_matches('\n').to_owned())
    }
}

impl Ran {
    pub(crate) fn into_error(self) -> GitError {
        match self.code {
            Some(code) => GitError::Failed {
                command: self.command,
                status: format!("exit {code}"),
                stderr: self.stderr,
            },
            None => GitError::Killed { command: self.command },
        }
    }
}

fn tail(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let text = text.trim_end();
    let mut from = text.len().saturating_sub(STDERR_TAIL);
    while !text.is_char_boundary(from) {
        from += 1;
    }
    text[from..].to_owned()
}

/// Recognises git's messages about lock files held by another process: the index, refs, config and shallow.
fn is_lock_trouble(stderr: &str) -> bool {
    stderr.contains(".lock': File exists") || stderr.contains(".lock: File exists")
}

/// Between half and all of `wait`, so that many waiters do not return at the same time.
pub(crate) fn jittered(wait: Duration) -> Duration {
    let random = std::collections::hash_map::RandomState::new().build_hasher().finish();
    wait / 2 + wait.mul_f64((random % 1000) as f64 / 2000.0)
}
