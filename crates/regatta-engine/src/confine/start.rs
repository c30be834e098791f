//! The caller's side: the command that starts a program confined, and the reading of its status pipe.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, PipeReader, Read};
use std::net::TcpListener;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, ExitStatus};

use regatta_core::sandbox::hosts::ProxyRules;
use regatta_core::sandbox::{Confinement, Level};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, FdFlags, fcntl_setfd};

use super::net;
use super::report::{Confined, Fault, Report};
use crate::shim::handover::in_memory;
use crate::shim::proxy::Proxy;

/// The command that runs a program confined in the terminal of a person: standard streams are inherited, failures go to
/// standard error, and the exit code is the program's. `exe` is the `regatta` binary.
///
/// Only [`Foreground::status`] serves a network of its own.
pub fn command(exe: &Path, document: &Confinement, cwd: &Path, argv: &[OsString]) -> io::Result<Foreground> {
    let file = inherited(in_memory("confinement", &serde_json::to_vec(document)?)?)?;
    let mut command = base(exe, &file, cwd);
    let mut listeners = None;
    if !net::ports(&document.network).is_empty() {
        let (ours, theirs) = UnixStream::pair()?;
        let theirs = inherited(theirs)?;
        command.arg("--listeners").arg(number(&theirs));
        listeners = Some((ours, theirs));
    }
    command.arg("--").args(argv);
    Ok(Foreground { command, _document: file, listeners })
}

/// A confined command that a person waits for.
pub struct Foreground {
    /// The command. It must be spawned while this lives.
    pub command: Command,
    _document: File,
    /// Both ends of the way on which the listeners of its network come.
    listeners: Option<(UnixStream, UnixStream)>,
}

impl Foreground {
    /// Runs it to its end. What it reaches from a network of its own is decided by `rules`; hosts that were refused are
    /// recorded in `dir`.
    pub fn status(mut self, rules: ProxyRules, dir: &Path) -> io::Result<ExitStatus> {
        let mut child = self.command.spawn()?;
        let proxy = match self.listeners.take() {
            None => None,
            Some((ours, theirs)) => {
                drop(theirs);
                // Readable when they are there, and when the command has ended without them.
                while let Err(Errno::INTR) = poll(&mut [PollFd::new(&ours, PollFlags::IN)], None) {}
                match net::receive(ours.as_fd())? {
                    listeners if listeners.is_empty() => None,
                    listeners => Some(Proxy::start(listeners, rules, dir)?),
                }
            }
        };
        let status = child.wait();
        if let Some(proxy) = proxy {
            proxy.end();
        }
        status
    }
}

fn base(exe: &Path, document: &File, cwd: &Path) -> Command {
    let mut command = Command::new(exe);
    command.arg("confine").arg("--document").arg(number(document)).arg("--cwd").arg(cwd);
    command
}

fn number(fd: &impl AsRawFd) -> String {
    fd.as_raw_fd().to_string()
}

/// Lets the next started process inherit it. This process starts nothing else meanwhile.
fn inherited<T: AsFd>(fd: T) -> io::Result<T> {
    fcntl_setfd(&fd, FdFlags::empty())?;
    Ok(fd)
}

/// The ends that stay with the caller.
pub(crate) struct Watch {
    level: Level,
    status: PipeReader,
    listeners: Option<UnixStream>,
    /// The beginning of a line.
    partial: Vec<u8>,
    /// The pipe has ended.
    has_ended: bool,
    /// The first report of the program's end.
    ended: Option<i32>,
}

/// What the status pipe says about the start.
pub(crate) enum Begun {
    /// The program runs. With the listeners of its network, each with its port inside.
    Running(Confined, Vec<(u16, TcpListener)>),
    /// Nothing ran.
    Failed(Fault),
}

impl Watch {
    /// `status` does not block.
    pub(super) fn new(level: Level, status: PipeReader, listeners: Option<UnixStream>) -> Self {
        Self { level, status, listeners, partial: Vec::new(), has_ended: false, ended: None }
    }

    /// The pipe, for waiting.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        (!self.has_ended).then(|| self.status.as_fd())
    }

    /// The lines that have come since. The end of the program is noted, whenever it comes.
    fn lines(&mut self) -> Vec<Report> {
        let mut bytes = [0; 4096];
        loop {
            match self.status.read(&mut bytes) {
                Ok(0) => {
                    self.has_ended = true;
                    break;
                }
                Ok(n) => self.partial.extend(&bytes[..n]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.has_ended |= error.kind() != io::ErrorKind::WouldBlock;
                    break;
                }
            }
        }
        let whole = self.partial.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let lines: Vec<u8> = self.partial.drain(..whole).collect();
        let reports = lines.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok());
        let reports: Vec<Report> = reports.collect();
        for report in &reports {
            if let Report::Ended { status } = report {
                self.ended.get_or_insert(*status);
            }
        }
        reports
    }

    /// Waits until the program runs or could not be started; `None` if `interrupted` says to stop waiting. It is given
    /// the pipe and returns whether to go on, after the pipe has something or something else happened.
    pub(crate) fn begun(&mut self, mut interrupted: impl FnMut(BorrowedFd<'_>) -> bool) -> Option<Begun> {
        let mut confined = None;
        loop {
            for report in self.lines() {
                match report {
                    Report::Confined(applied) => confined = Some(applied),
                    Report::Failed(fault) => return Some(Begun::Failed(fault)),
                    Report::Ended { .. } => {}
                }
            }
            // At the files level the end of the pipe is the program's start.
            let runs = self.has_ended || self.level == Level::Full;
            if let Some(confined) = confined.take_if(|_| runs) {
                let listeners = match self.listeners.take() {
                    None => Ok(Vec::new()),
                    Some(socket) => net::receive(socket.as_fd()),
                };
                return Some(match listeners {
                    Ok(listeners) => Begun::Running(confined, listeners),
                    Err(error) => Begun::Failed(Fault::new("receive the listeners", error)),
                });
            }
            if self.has_ended {
                let why = "the process that applies it has ended";
                return Some(Begun::Failed(Fault::because("confine", why)));
            }
            if interrupted(self.status.as_fd()) {
                return None;
            }
        }
    }

    /// The program's wait status, once it has ended and has been reported.
    pub(crate) fn ended(&mut self) -> Option<i32> {
        self.lines();
        self.ended
    }
}
