//! **Nothing the agent started survives its end, and its end is on disk.** `regatta shim` is one small process per run,
//! without a runtime: it outlives the engine that started it, adopts every orphan below it, enforces the total time
//! limit, records the output without secrets, ends the tree when asked, and writes `exit.json` after the last process
//! has ended and all its output is in the files.
//!
//! Its weak spot is a `kill -9` of itself. Then the record is missing, which the engine sees as [`Exit::Lost`], and
//! only the marker in the environment is left to find the tree by.

pub(crate) mod args;
pub mod door;
pub(crate) mod handover;
pub mod proxy;
mod recorder;
mod signals;
mod supervise;
mod workers;

use std::borrow::Cow;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use regatta_core::exit::Exit;
use regatta_core::sandbox::Confinement;
use rustix::fs::{FlockOperation, flock};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{getpid, getppid, set_child_subreaper, setsid};

use crate::confine::forked::{self, Program, Waiting};
use crate::confine::start::{Begun, Watch};
use crate::confine::{Confined, Weaker, limits};
use crate::lease::Leased;
use crate::process::record::{self, Ack, ExitRecord, LockRecord, ShimRecord};
use crate::process::{Identity, MARKER, Stdin, hold, tree};
use args::Args;
use door::{Door, Knocks};
use handover::Handover;
use proxy::Proxy;
use recorder::{Pipes, Recorder};
use signals::Signals;
use supervise::{Ending, Inside, Tree};
use workers::Workers;

/// The hidden command. `args` is what follows `regatta shim`; the result is the process's exit status.
///
/// To be called before anything else in `main`: no thread, no runtime. Secrets to be masked come from the environment,
/// which is the agent's, and from standard input.
pub fn main(args: impl Iterator<Item = OsString>) -> i32 {
    // First of all, so that a Ctrl-C in the engine's terminal does not reach us. It fails for the leader of a process
    // group, which only a shell makes us.
    let alone = setsid().map_err(|error| format!("setsid: {error}"));
    match alone.and_then(|_| Args::decode(args)).and_then(|args| prepare(&args).map(|ready| (args, ready))) {
        Ok((args, ready)) => serve(&args, ready),
        Err(error) => {
            acknowledge(&Ack::Refused { error });
            1
        }
    }
}

/// What a shim has before it starts anything.
struct Ready {
    signals: Signals,
    identity: Identity,
    /// Held, by the open file, while the shim lives.
    _lock: File,
    /// Held while any process of the tree lives, since all inherit it.
    hold: Option<File>,
}

fn prepare(args: &Args) -> Result<Ready, String> {
    let say = |what: &'static str| move |error: io::Error| format!("{what}: {error}");
    let signals = Signals::register().map_err(say("register signals"))?;
    set_child_subreaper(Some(getpid())).map_err(|error| say("become sub-reaper")(error.into()))?;
    let identity = Identity::current().map_err(say("read /proc"))?;
    let lock = take_lock(&args.run_dir, &LockRecord { shim: identity.clone(), run_id: args.run_id.clone() })?;
    // From here on `find` sees us. An engine that died earlier may have been replaced by one that found nothing, so
    // nothing may be started any more.
    if getppid().map(|pid| pid.as_raw_nonzero().get().unsigned_abs()) != Some(args.launcher) {
        // This is neither an error nor a failed start: `find` recognises it by this.
        finish(args, Ending::without_agent(Exit::Lost));
        return Err("the engine died".into());
    }
    let hold = match args.hold.as_deref().map(hold::take).transpose() {
        Ok(hold) => hold,
        Err(error) => {
            finish(args, Ending::without_agent(Exit::never_started(error.clone())));
            return Err(error);
        }
    };
    Ok(Ready { signals, identity, _lock: lock, hold })
}

fn serve(args: &Args, ready: Ready) -> i32 {
    let shim = ready.identity.clone();
    let ending = match start(args, &ready) {
        Err(exit) => {
            // The record comes first: a caller that learns there is nothing to wait for may read it at once.
            let code = finish(args, Ending::without_agent(exit));
            acknowledge(&Ack::Ended { shim });
            return code;
        }
        Ok(Running { mut tree, agent, recorder, confined, proxy }) => {
            let cgroup = confined.as_ref().and_then(|confined| confined.cgroup.clone());
            acknowledge(&Ack::Started { shim, agent, confined });
            let ending = supervise::until_ended(args, &mut tree);
            if let Some(proxy) = proxy {
                proxy.end();
            }
            recorder.finish();
            if let Some(cgroup) = cgroup {
                limits::remove(&cgroup);
            }
            ending
        }
    };
    finish(args, ending)
}

/// What a shim has while the agent runs.
struct Running<'a> {
    tree: Tree<'a>,
    agent: Identity,
    recorder: Recorder,
    confined: Option<Confined>,
    /// Serves the listeners in the agent's own network.
    proxy: Option<Proxy>,
}

fn start<'a>(args: &'a Args, ready: &'a Ready) -> Result<Running<'a>, Exit> {
    let never = |error: String| Exit::never_started(error);
    let mut pipes = Pipes::default();
    let streams = streams(args, &mut pipes).map_err(never)?;
    // Before the hand-over, so that it knows nothing of it.
    let prepared = if args.is_confined {
        let program = streams.program(args, ready.hold.as_ref());
        let waiting = forked::fork(program);
        Prepared::Waiting(waiting.map_err(|error| never(format!("prepare the sandbox: {error}")))?)
    } else {
        Prepared::Command(streams.command(args))
    };
    let handover = Handover::receive().map_err(|error| never(format!("read the hand-over: {error}")))?;
    let redactor = handover.redactor();
    // Before the agent, so that it can knock at once.
    let door = handover.door.map(Cow::into_owned).map(|spec| {
        let knocks = Knocks::watch(&spec.dir).map_err(|error| format!("{}: {error}", spec.dir.display()))?;
        Ok((knocks, spec))
    });
    let door = door.transpose().map_err(never)?;
    let workers = Workers::new().map_err(|error| never(format!("make a pipe: {error}")))?;
    let workers = Arc::new(workers);
    let has_sockets = handover.confine.as_deref().is_some_and(|document| !document.sockets.is_empty());
    // Asked to end before the start. A later request waits in its pipe.
    if ready.signals.wait(Some(Duration::ZERO)).any() {
        return Err(supervise::requested(&args.run_dir));
    }
    // A claim that was answered too late starts nothing.
    if Leased::of(&args.run_dir).is_some_and(|lease| lease.left().is_none()) {
        return Err(supervise::lease_over());
    }
    // Our own copies of the agent's ends are dropped with it: while they are open no pipe reaches its end.
    let (child, watch) = prepared.start(args, handover.confine.as_deref()).map_err(never)?;
    // Not reaped yet, so its pid is its own even if it has already ended.
    let mut tree = Tree::new(&ready.signals, child, &args.run_id, workers.clone());
    let (confined, listeners) =
        match watch.map(|watch| confined(args, ready, &mut tree, watch, has_sockets)).transpose() {
            Ok(confined) => confined.unzip(),
            Err(exit) => {
                tree.kill();
                return Err(exit);
            }
        };
    // The tree has it; a worker of the door must not.
    let kept = ready.hold.as_ref().map_or(Ok(()), |hold| fcntl_setfd(hold, FdFlags::CLOEXEC));
    let opened = kept.map_err(io::Error::from).and_then(|()| match door {
        Some((knocks, spec)) => Door::open(knocks, spec, workers).map(Some),
        None => Ok(None),
    });
    let opened = opened.map(|door| tree.door = door);
    let rules = handover.proxy.map(Cow::into_owned).unwrap_or_default();
    let proxied = opened.and_then(|()| match listeners {
        Some(listeners) if !listeners.is_empty() => Proxy::start(listeners, rules, &args.run_dir).map(Some),
        _ => Ok(None),
    });
    let recorded = proxied
        .and_then(|proxy| Ok((proxy, Recorder::start(pipes, redactor, args.log_limit)?)))
        .and_then(|(proxy, recorder)| {
            let agent = Identity::of(child)?;
            let record = ShimRecord {
                shim: ready.identity.clone(),
                agent: agent.clone(),
                run_id: args.run_id.clone(),
                started_at: record::now(),
                confined: confined.clone(),
            };
            record::store(&args.run_dir, record::SHIM, &record).map(|()| (agent, recorder, proxy))
        });
    match recorded {
        Ok((agent, recorder, proxy)) => Ok(Running { tree, agent, recorder, confined, proxy }),
        Err(error) => {
            tree.kill();
            Err(never(format!("record the start: {error}")))
        }
    }
}

/// How long the set-up of a sandbox may take. It takes milliseconds, unless a file system does not answer.
const SET_UP_PATIENCE: Duration = Duration::from_secs(60);

/// Waits until the program runs inside its sandbox, or until that failed or the end was requested.
fn confined(
    args: &Args,
    ready: &Ready,
    tree: &mut Tree<'_>,
    mut watch: Watch,
    has_sockets: bool,
) -> Result<(Confined, Vec<(u16, TcpListener)>), Exit> {
    let begun = Instant::now();
    let left = || SET_UP_PATIENCE.saturating_sub(begun.elapsed());
    let mut is_requested = false;
    let began = watch.begun(|pipe| {
        is_requested = ready.signals.wait_also(Some(left()), Some(pipe)).any();
        is_requested || left().is_zero()
    });
    match began {
        None if is_requested => Err(supervise::requested(&args.run_dir)),
        None => {
            let error = format!("the sandbox was not set up within {} s", SET_UP_PATIENCE.as_secs());
            Err(Exit::NeverStarted { error, by_sandbox: true })
        }
        Some(Begun::Failed(fault)) => {
            Err(Exit::NeverStarted { error: fault.to_string(), by_sandbox: !fault.is_of_program() })
        }
        Some(Begun::Running(confined, listeners)) => {
            if let Some(first) = confined.first {
                // The first process starts nothing before the program. One that has already ended is not found, and need
                // not be.
                let own = [Some(first), tree::child_numbered(first, 2)].into_iter().flatten().collect();
                let is_sealed = !has_sockets && !confined.weaker.contains(&Weaker::AbstractSockets);
                tree.is_inside(Inside { watch, own, is_sealed });
            }
            Ok((confined, listeners))
        }
    }
}

/// What is ready to be started.
enum Prepared {
    Command(Command),
    Waiting(Waiting),
}

impl Prepared {
    /// Starts it, confined if it is to be. Returns the process, and what reports about its sandbox.
    fn start(self, args: &Args, document: Option<&Confinement>) -> Result<(u32, Option<Watch>), String> {
        match (self, document) {
            (Self::Command(mut command), None) => {
                let spawned = command.spawn();
                let child = spawned.map_err(|error| format!("{}: {error}", args.argv[0].display()))?;
                Ok((child.id(), None))
            }
            (Self::Waiting(waiting), Some(document)) => {
                let child = waiting.pid();
                let watch = waiting.go(document).map_err(|error| format!("prepare the sandbox: {error}"))?;
                Ok((child, Some(watch)))
            }
            _ => Err("the hand-over and the command line differ about the sandbox".to_owned()),
        }
    }
}

/// The agent's ends of its streams.
struct Streams {
    stdin: OwnedFd,
    stdout: OwnedFd,
    stderr: OwnedFd,
}

fn streams(args: &Args, pipes: &mut Pipes) -> Result<Streams, String> {
    let at = |path: &Path, error: io::Error| format!("{}: {error}", path.display());
    // Checked separately from a missing program, for which the system has the same error.
    std::fs::read_dir(&args.cwd).map_err(|error| at(&args.cwd, error))?;
    let stdin = match &args.stdin {
        Stdin::Null => {
            let null = Path::new("/dev/null");
            File::open(null).map_err(|error| at(null, error))?
        }
        Stdin::File(path) => {
            let file = File::open(path).map_err(|error| at(path, error))?;
            // Inside, the file's path leads nowhere, and programs open `/dev/stdin`.
            let file = if args.is_confined { handover::copied(file) } else { Ok(file) };
            file.map_err(|error| at(path, error))?
        }
    };
    let append = |path: &Path| {
        let opened = OpenOptions::new().append(true).create(true).mode(0o600).open(path);
        opened.map_err(|error| at(path, error))
    };
    let stdout = pipes.add_roomy(append(&args.stdout)?).map_err(|error| at(&args.stdout, error))?;
    // Two streams into one file stay in order only through one pipe.
    let stderr =
        if args.stderr == args.stdout { stdout.try_clone() } else { pipes.add(append(&args.stderr)?) };
    let stderr = stderr.map_err(|error| at(&args.stderr, error))?;
    Ok(Streams { stdin: stdin.into(), stdout: stdout.into(), stderr: stderr.into() })
}

impl Streams {
    fn command(self, args: &Args) -> Command {
        let mut command = Command::new(&args.argv[0]);
        command.args(&args.argv[1..]).current_dir(&args.cwd);
        for (name, value) in changed_environment(args) {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.stdin(self.stdin).stdout(self.stdout).stderr(self.stderr).process_group(0);
        command
    }

    fn program<'a>(self, args: &'a Args, hold: Option<&'a File>) -> Program<'a> {
        let Self { stdin, stdout, stderr } = self;
        let env = changed_environment(args);
        Program { argv: &args.argv, cwd: &args.cwd, run_dir: &args.run_dir, env, stdin, stdout, stderr, hold }
    }
}

/// Everything else is inherited: our environment is the agent's.
fn changed_environment(args: &Args) -> Vec<(&'static str, Option<OsString>)> {
    vec![
        // Some programs trust it more than the system, and would work where Regatta was started.
        ("PWD", Some(args.cwd.components().as_path().into())),
        ("OLDPWD", None),
        (MARKER, Some(args.run_id.clone().into())),
    ]
}

fn take_lock(run_dir: &Path, record: &LockRecord) -> Result<File, String> {
    let path = run_dir.join(record::LOCK);
    let at = |error: io::Error| format!("{}: {error}", path.display());
    let mut lock = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&path)
        .map_err(at)?;
    flock(&lock, FlockOperation::NonBlockingLockExclusive)
        .map_err(|_| "another shim holds this run directory".to_owned())?;
    let mut before = Vec::new();
    lock.read_to_end(&mut before).map_err(at)?;
    if !before.is_empty() {
        return Err("this run directory was used before".into());
    }
    // Not synced: it names a process of this boot, and matters only during this boot.
    let bytes = serde_json::to_vec(record).map_err(|error| at(error.into()))?;
    lock.write_all(&bytes).map_err(at)?;
    Ok(lock)
}

/// Sends one message to the launcher and closes the pipe. A missing launcher is no reason to stop.
fn acknowledge(ack: &Ack) {
    let mut line = serde_json::to_vec(ack).expect("plain data");
    line.push(b'\n');
    let _ = rustix::io::write(rustix::stdio::stdout(), &line);
    if let Ok(null) = OpenOptions::new().write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(null);
    }
}

/// Records the end; the shim's last act.
fn finish(args: &Args, ending: Ending) -> i32 {
    let record = ExitRecord {
        exit: ending.exit,
        agent: ending.agent,
        ended_at: record::now(),
        leftovers: ending.leftovers,
        spared: ending.spared,
        cpu_seconds: supervise::cpu_seconds(),
    };
    // A disk that is full now may have room a moment later; without the record the run counts as lost.
    for _ in 0..50 {
        match record::store(&args.run_dir, record::EXIT, &record) {
            Ok(()) => return 0,
            // The directory was removed: the record is no longer wanted.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return 1,
            Err(_) => std::thread::sleep(Duration::from_millis(200)),
        }
    }
    1
}
