//! The processes between the shim and the program.
//!
//! ```text
//! full:   shim ── stage 1 ── first process of the pid namespace ── program
//! files:  shim ── program
//! ```
//!
//! Stage 1 makes the namespaces; the process on record as the agent is this one. The first process builds the view,
//! starts the program and reaps everything that loses its parent. Both are forks of one program with one thread.
//!
//! **The end of any of them ends the whole tree.** Each dies with its parent, and the kernel ends every process of a
//! namespace whose first process has ended, however it was detached. **Neither ends before the program.** They have
//! every signal blocked and pass on what is sent to them from outside, once: stage 1 to the first process, and that one
//! to the program's group, so that an interrupt reaches the program's processes as it does without a sandbox.

use std::fs;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use regatta_core::sandbox::{Confinement, Level, Net};
use rustix::process::{
    DumpableBehavior, Pid, Signal, WaitOptions, getpgrp, getpid, getppid, set_dumpable_behavior,
    set_parent_process_death_signal, setpgid, wait, waitpid,
};
use rustix::termios::{tcgetpgrp, tcsetpgrp};
use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set, remove_capability_from_bounding_set,
    set_capabilities, set_no_new_privs,
};

use super::args::Args;
use super::forced::Forced;
use super::places::{self, Machine};
use super::report::{Confined, Fault, PROGRAM, Report, Status, Weaker};
use super::{landlock, limits, mounts, net, seccomp, sys};

/// What a process of this program exits with if nothing ran. Only seen without a status pipe.
pub(crate) const FAILED: i32 = 125;

/// Confines this process as the document says and becomes the program, or starts it and stays until it has ended.
pub(super) fn run(args: &Args, document: &Confinement, status: &Status, listeners: Option<OwnedFd>) -> i32 {
    let forced = Forced::from_environment();
    let ended = match document.level {
        Level::Full => full(args, document, status, listeners, &forced),
        Level::Files | Level::Off => files(args, document, status, &forced).map(|never| match never {}),
    };
    match ended {
        Ok(code) => code,
        Err(fault) => {
            status.say(&Report::Failed(fault));
            FAILED
        }
    }
}

/// Dies with the shim, if it is still there. A person's own command has none: it may be started by a thread that ends.
fn die_with(shim: Option<u32>) -> Result<(), Fault> {
    let Some(shim) = shim else { return Ok(()) };
    die_with_parent()?;
    let parent = getppid().map(|pid| pid.as_raw_nonzero().get().unsigned_abs());
    if parent == Some(shim) { Ok(()) } else { Err(Fault::because("follow the shim's end", "it has ended")) }
}

fn die_with_parent() -> Result<(), Fault> {
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|error| Fault::new("follow the shim's end", error))
}

fn files(
    args: &Args,
    document: &Confinement,
    status: &Status,
    forced: &Forced,
) -> Result<std::convert::Infallible, Fault> {
    die_with(args.shim)?;
    let version = landlock::version(forced.cap(document.abi)).ok_or_else(|| {
        Fault::because(
            "landlock",
            format!("the kernel has none, or one older than version {}", landlock::OLDEST),
        )
    })?;
    let cgroup = limits::cgroup(document).filter(|cgroup| limits::enter(cgroup));
    limits::first_to_go();
    drop_privileges()?;
    let mut weaker = landlock::apply(document, version)?;
    seccomp::apply(document, Some(version))?;
    if document.memory.is_some() && cgroup.is_none() {
        weaker.push(Weaker::Memory);
    }
    let confined = Confined { level: Level::Files, landlock: Some(version), first: None, cgroup, weaker };
    status.say(&Report::Confined(confined));
    Err(become_program(args))
}

/// Only returns if that failed.
fn become_program(args: &Args) -> Fault {
    if let Err(error) = std::env::set_current_dir(&args.cwd) {
        return Fault::at("enter", &args.cwd, error);
    }
    let program = &args.argv[0];
    let mut command = Command::new(program);
    command.args(&args.argv[1..]);
    for (name, value) in &args.env {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let error = command.exec();
    Fault::at(PROGRAM, Path::new(program), error)
}

fn drop_privileges() -> Result<(), Fault> {
    let failed = |error: rustix::io::Errno| Fault::new("drop privileges", error);
    for capability in 0..64 {
        // Not allowed to a process that has none; invalid after the last that the kernel knows.
        if remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(1 << capability)).is_err() {
            break;
        }
    }
    // Kernels without ambient capabilities have none to drop.
    let _ = clear_ambient_capability_set();
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, none).map_err(failed)?;
    set_no_new_privs(true).map_err(failed)
}

fn full(
    args: &Args,
    document: &Confinement,
    status: &Status,
    listeners: Option<OwnedFd>,
    forced: &Forced,
) -> Result<i32, Fault> {
    die_with(args.shim)?;
    if document.nested && rustix::process::geteuid().is_root() {
        // The kernel maps root again only for a process that may give programs the rights of root.
        return Err(Fault::because("allow nested sandboxes", "they need a user other than root"));
    }
    // Before the network is another: the table of sockets belongs to it.
    let machine = Machine::look(document);
    let cgroup = limits::cgroup(document);
    let made = cgroup.clone();
    let terminal = Terminal::of_this_group();
    let mask = sys::block_signals().map_err(|error| Fault::new("block signals", error))?;
    enter_namespaces(&document.network, forced)?;
    die_with(args.shim)?;
    // Closed by the kernel when stage 1 ends, even before its child asked to die with it.
    let (mut alive, held) = io::pipe().map_err(|error| Fault::new("make a pipe", error))?;
    let first = sys::fork().map_err(|error| Fault::new("start the first process", error))?;
    let Some(first) = first else {
        drop(held);
        let code = match die_with_parent().and_then(|()| still_there(&mut alive)) {
            Ok(()) => {
                First { args, document, status, forced, mask, terminal, cgroup }.run(&machine, listeners)
            }
            Err(_) => FAILED,
        };
        sys::exit(code)
    };
    drop((alive, listeners));
    let _ = drop_privileges();
    let ended = wait_for(first, |signal| sys::kill(first.as_raw_nonzero().get(), signal));
    if let Some(terminal) = &terminal {
        terminal.give_back();
    }
    if let Some(made) = made {
        limits::remove(&made);
    }
    // The shim takes the first report of an end. This one is for a first process that was killed.
    status.say(&Report::Ended { status: ended });
    Ok(code_of(ended))
}

/// The exit code for a caller without a status pipe, as a shell gives it.
fn code_of(status: i32) -> i32 {
    if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { 128 + libc::WTERMSIG(status) }
}

/// Fails if the other end of this pipe is closed.
fn still_there(alive: &mut io::PipeReader) -> Result<(), Fault> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut watched = [PollFd::new(alive, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    match poll(&mut watched, Some(&now)) {
        Ok(0) => Ok(()),
        _ => Err(Fault::because("follow the shim's end", "stage 1 has ended")),
    }
}

fn enter_namespaces(network: &Net, forced: &Forced) -> Result<(), Fault> {
    const STEP: &str = "make namespaces";
    if forced.no_userns {
        return Err(Fault::new(STEP, rustix::io::Errno::PERM));
    }
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let mut flags = libc::CLONE_NEWUSER | libc::CLONE_NEWNS | libc::CLONE_NEWPID | libc::CLONE_NEWIPC;
    if *network != Net::Host {
        flags |= libc::CLONE_NEWNET;
    }
    sys::unshare(flags).map_err(|error| Fault::new(STEP, error))?;
    let write = |path: &str, text: String| {
        fs::write(path, text).map_err(|error| Fault::at(STEP, Path::new(path), error))
    };
    // The same user inside: programs look at it, and so do files.
    write("/proc/self/setgroups", "deny".into())?;
    write("/proc/self/uid_map", format!("{uid} {uid} 1"))?;
    write("/proc/self/gid_map", format!("{gid} {gid} 1"))
}

/// Waits for a child to end, and hands every other signal that arrives meanwhile to `pass_on`.
fn wait_for(child: Pid, pass_on: impl Fn(i32)) -> i32 {
    loop {
        match waitpid(Some(child), WaitOptions::NOHANG) {
            Ok(Some((_, status))) => return status.as_raw(),
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            // Not ours to wait for: it cannot be, and then there is nothing to wait for.
            Err(_) => return FAILED << 8,
        }
        if let Ok(arrived) = sys::wait_signal()
            && arrived.signal != libc::SIGCHLD
        {
            pass_on(arrived.signal);
        }
    }
}

/// The first process of the pid namespace.
struct First<'a> {
    args: &'a Args,
    document: &'a Confinement,
    status: &'a Status,
    forced: &'a Forced,
    mask: sys::Mask,
    terminal: Option<Terminal>,
    cgroup: Option<std::path::PathBuf>,
}

impl First<'_> {
    fn run(self, machine: &Machine, listeners: Option<OwnedFd>) -> i32 {
        match self.set_up(machine, listeners).and_then(|confined| self.start(confined)) {
            Ok(Some(program)) => self.reap(program),
            // The program's process has reported why.
            Ok(None) => FAILED,
            Err(fault) => {
                self.status.say(&Report::Failed(fault));
                FAILED
            }
        }
    }

    fn set_up(&self, machine: &Machine, listeners: Option<OwnedFd>) -> Result<Confined, Fault> {
        let document = self.document;
        // The machine's `/proc` is still there, and knows this process by its number outside.
        let first = fs::read_link("/proc/self").ok().and_then(|link| link.to_str()?.parse().ok());
        let cgroup = self.cgroup.clone().filter(|cgroup| limits::enter(cgroup));
        limits::first_to_go();
        // Alone in its group: signals to stage 1's group arrive once, through stage 1.
        let _ = setpgid(None, None);
        if document.network != Net::Host {
            net::set_up(&document.network, listeners.as_ref())?;
        }
        drop(listeners);
        let mut weaker: Vec<Weaker> = machine
            .split
            .iter()
            .map(|split| Weaker::NotCopied {
                path: split.dir.clone(),
                why: "a file system is mounted below it: only its directories are copied".into(),
            })
            .collect();
        mounts::build(&places::list(document, machine), self.forced, &mut weaker)?;
        let has_own_proc = !weaker.iter().any(|weaker| matches!(weaker, Weaker::SharedProc { .. }));
        weaker.extend(limits::processes(document, has_own_proc));
        if has_own_proc && rustix::process::geteuid().is_root() {
            mounts::protect_machine()?;
        }
        if document.memory.is_some() && cgroup.is_none() {
            weaker.push(Weaker::Memory);
        }
        // A Landlock domain forbids every mount, and with it the sandbox that the program is to make.
        let version = landlock::version(self.forced.cap(document.abi)).filter(|_| !document.nested);
        if version.is_none() {
            weaker.push(Weaker::NoLandlock);
            // Landlock would keep the program from tracing this process.
            let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
        }
        if document.network == Net::Host && version.is_none_or(|version| version < landlock::SCOPES) {
            weaker.push(Weaker::AbstractSockets);
        }
        drop_privileges()?;
        seccomp::apply(document, version)?;
        Ok(Confined { level: Level::Full, landlock: version, first, cgroup, weaker })
    }

    /// Starts the program; `None` if its process has already reported that it could not be started.
    fn start(&self, confined: Confined) -> Result<Option<Pid>, Fault> {
        // Closed by the program's start.
        let (mut failed, started) = io::pipe().map_err(|error| Fault::new("make a pipe", error))?;
        let program = sys::fork().map_err(|error| Fault::new("start a process", error))?;
        let Some(program) = program else {
            drop(failed);
            let fault = self.become_program(confined.landlock);
            self.status.say(&Report::Failed(fault));
            // The other end reads this instead of the end of the pipe.
            let _ = rustix::io::write(&started, b"!");
            sys::exit(FAILED)
        };
        drop(started);
        // Both sides do it, so that it is done whichever goes first.
        let _ = setpgid(Some(program), Some(program));
        let mut said = Vec::new();
        let _ = failed.read_to_end(&mut said);
        if !said.is_empty() {
            return Ok(None);
        }
        self.status.say(&Report::Confined(confined));
        Ok(Some(program))
    }

    /// Only returns if that failed. Landlock begins here, so that the program cannot trace the first process.
    fn become_program(&self, landlock: Option<u32>) -> Fault {
        let _ = setpgid(None, None);
        if let Some(terminal) = &self.terminal {
            terminal.take();
        }
        if let Some(version) = landlock
            && let Err(fault) = landlock::apply(self.document, version)
        {
            return fault;
        }
        sys::restore_signals(&self.mask);
        become_program(self.args)
    }

    /// Waits until every process of the namespace has ended; the shim ends what the program left.
    fn reap(&self, program: Pid) -> i32 {
        let group = -program.as_raw_nonzero().get();
        let mut code = FAILED;
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => {
                    if pid == program {
                        code = code_of(status.as_raw());
                        self.status.say(&Report::Ended { status: status.as_raw() });
                        if self.args.is_alone() {
                            return code;
                        }
                    }
                    continue;
                }
                Ok(None) | Err(rustix::io::Errno::INTR) => {}
                Err(_) => return code,
            }
            if let Ok(arrived) = sys::wait_signal()
                && arrived.signal != libc::SIGCHLD
                && arrived.from_outside
            {
                sys::kill(group, arrived.signal);
            }
        }
    }
}

/// The terminal that this process's group has in front, for a program that a person talks to.
struct Terminal {
    group: Pid,
}

impl Terminal {
    fn of_this_group() -> Option<Self> {
        let group = getpgrp();
        (tcgetpgrp(rustix::stdio::stdin()).ok()? == group).then_some(Self { group })
    }

    /// Puts this process's group in front.
    fn take(&self) {
        let _ = tcsetpgrp(rustix::stdio::stdin(), getpid());
    }

    fn give_back(&self) {
        let _ = tcsetpgrp(rustix::stdio::stdin(), self.group);
    }
}

/// For a probe: whether this process may enter new namespaces, the network's too.
pub(super) fn try_namespaces(forced: &Forced) -> Result<(), Fault> {
    enter_namespaces(&Net::None, forced)
}
