//! The agent's side of the door: in a sandbox, commands reach the store through the shim of their attempt.
//!
//! A client makes a pair of FIFOs in the directory that `REGATTA_DOOR` names, renames a file to knock, rings, sends one
//! line and reads one document. All files that a command names are read on this side, and secrets are masked on both.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use regatta_engine::shim::door::{BELL, IN, KNOCK, MOST_REQUEST, OUT};
use regatta_engine::tokens::fresh_token;
use regatta_ops::door::{Call, Tool, answered, read};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{
    CWD, FileType, FlockOperation, Mode, OFlags, fcntl_getfl, fcntl_setfl, flock, mknodat, open,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::cli::Global;
use crate::commands::{Command, ctx, worker};
use regatta_ops::{Refusal, RefusalKind};

/// The variable that names the door.
pub(crate) const VARIABLE: &str = "REGATTA_DOOR";
/// How long to wait until the shim opens. A busy shim opens late; one that is gone is noticed sooner.
const UNANSWERED: Duration = Duration::from_secs(600);
/// How often to look whether the door is still served.
const SERVED_INTERVAL: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };
/// The longest answer, in bytes.
const MOST_ANSWER: usize = 64 * 1024 * 1024;

/// The door of this process's sandbox.
pub(crate) struct Door {
    dir: PathBuf,
}

/// The door, if this process is in a sandbox.
pub(crate) fn here() -> Option<Door> {
    let dir = std::env::var_os(VARIABLE).filter(|dir| !dir.is_empty())?;
    Some(Door { dir: dir.into() })
}

/// Refuses a command that cannot work in a sandbox.
pub(crate) fn check(command: &Command, global: &Global) -> Result<(), Refusal> {
    if here().is_none() || passes(command) {
        return match (here(), &global.store) {
            (Some(_), Some(_)) => Err(refused("--store is")),
            _ => Ok(()),
        };
    }
    Err(refused("this command is"))
}

fn refused(what: &str) -> Refusal {
    Refusal::refused(format!(
        "{what} not available to the agent of a task; it may use `regatta done`, `progress`, `stuck`, `msg`, `ctx get`, \
         `ctx set`, `ctx list`, `ctx watch`, `crew list` and `regatta mcp`"
    ))
    .hinted("`regatta stuck \"…\"` asks a person; the tools of `regatta mcp` show tasks and their states")
}

/// Whether a command goes through the door, or needs no store at all.
fn passes(command: &Command) -> bool {
    use worker::ParcelCommand;
    match command {
        Command::Done(_) | Command::Progress(_) | Command::Stuck(_) | Command::Mcp(_) | Command::Msg(_) => {
            true
        }
        Command::Parcel(command) => !matches!(command, ParcelCommand::Build(_)),
        Command::Ctx(command) => !matches!(command, ctx::CtxCommand::Delete(_)),
        Command::Crew(command) => command.is_list(),
        Command::New(_) | Command::Validate(_) | Command::Completions(_) | Command::Version(_) => true,
        _ => false,
    }
}

/// A client's ends of its FIFOs.
struct Knocked {
    request: File,
    answer: File,
    path: PathBuf,
}

impl Drop for Knocked {
    fn drop(&mut self) {
        // The shim takes the names away when it opens; these are left if it did not.
        for end in [KNOCK, IN, OUT] {
            let _ = std::fs::remove_file(with(&self.path, end));
        }
    }
}

fn with(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

impl Door {
    /// Has a request carried out.
    pub(crate) fn ask<T: DeserializeOwned>(&self, tool: Tool) -> Result<T, Refusal> {
        read(self.call(tool)?)
    }

    fn call(&self, tool: Tool) -> Result<Value, Refusal> {
        let line = Call::Tool(tool).line();
        if line.len() > MOST_REQUEST {
            return Err(Refusal::usage(format!(
                "the request has {} bytes; at most {MOST_REQUEST} are allowed",
                line.len()
            ))
            .hinted("write the text to a file and give its path"));
        }
        let (mut knocked, sent) = self.knock(line.as_bytes())?;
        let answer = knocked.converse(&line.as_bytes()[sent..])?;
        answered(&String::from_utf8_lossy(&answer))
    }

    /// Connects standard input and output to the MCP server outside, until one of them ends.
    pub(crate) fn mcp(&self) -> Result<(), Refusal> {
        // It is short, so there is room for all of it.
        let (mut knocked, _) = self.knock(Call::Mcp.line().as_bytes())?;
        let mut request = knocked.request.try_clone().map_err(|error| self.broken(&error))?;
        blocking(&request);
        // The only other handle: when the thread drops its own, the server sees the end.
        knocked.request = File::open("/dev/null").map_err(|error| self.broken(&error))?;
        std::thread::spawn(move || {
            // By hand: `io::copy` would let the kernel move what comes from a socket, which then waits for more of it.
            let (mut input, mut chunk) = (std::io::stdin().lock(), vec![0; 64 * 1024]);
            while let Ok(n @ 1..) = input.read(&mut chunk) {
                if request.write_all(&chunk[..n]).is_err() {
                    break;
                }
            }
        });
        let mut output = std::io::stdout().lock();
        let mut chunk = vec![0; 64 * 1024];
        let begun = Instant::now();
        loop {
            let came = knocked.wait(begun, PollFlags::empty())?.0;
            if came.is_empty() {
                continue;
            }
            match knocked.answer.read(&mut chunk) {
                Ok(0) => return Ok(()),
                Ok(n) => {
                    if output.write_all(&chunk[..n]).and_then(|()| output.flush()).is_err() {
                        return Ok(());
                    }
                }
                Err(error) if is_soon(&error) => {}
                Err(error) => return Err(self.broken(&error)),
            }
        }
    }

    fn broken(&self, error: &std::io::Error) -> Refusal {
        Refusal::new(
            RefusalKind::CannotWork,
            format!("the way out of the sandbox at {}: {error}", self.dir.display()),
        )
        .hinted("leave REGATTA_DOOR as Regatta set it")
    }

    /// Knocks, with as much of the line as the FIFO takes: mostly all of it, so a request counts from its knock on,
    /// even if this process is killed right after. Returns how much was sent.
    fn knock(&self, line: &[u8]) -> Result<(Knocked, usize), Refusal> {
        if self.dir.is_dir() && !is_served(&self.dir) {
            return Err(closed());
        }
        let knocked = || -> std::io::Result<(Knocked, usize)> {
            let path = self.dir.join(&fresh_token()[..16]);
            for end in [IN, OUT] {
                let mode = Mode::RUSR | Mode::WUSR;
                mknodat(CWD, with(&path, end), FileType::Fifo, mode, 0)?;
            }
            let fifo = |end, flags| {
                open(with(&path, end), flags | OFlags::CLOEXEC | OFlags::NONBLOCK, Mode::empty())
            };
            // Both at once, so that the shim finds us on the other end.
            let answer = fifo(OUT, OFlags::RDONLY)?.into();
            let request: File = fifo(IN, OFlags::RDWR)?.into();
            let sent = (&request).write(line)?;
            // An empty file is there as a whole or not at all.
            File::create_new(with(&path, KNOCK))?;
            // If it cannot ring, the shim finds the knock later.
            let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let _ = open(self.dir.join(BELL), flags, Mode::empty()).map(|bell| rustix::io::write(bell, b"x"));
            Ok((Knocked { request, answer, path }, sent))
        };
        knocked().map_err(|error| self.broken(&error))
    }
}

/// Waits in calls from now on.
fn blocking(file: &File) {
    if let Ok(flags) = fcntl_getfl(file.as_fd()) {
        let _ = fcntl_setfl(file.as_fd(), flags - OFlags::NONBLOCK);
    }
}

impl Knocked {
    /// Sends the line and reads the answer to its end.
    fn converse(&mut self, mut line: &[u8]) -> Result<Vec<u8>, Refusal> {
        let (mut answer, mut chunk) = (Vec::new(), vec![0; 64 * 1024]);
        let begun = Instant::now();
        loop {
            let wanted = if line.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
            let (came, room) = self.wait(begun, wanted)?;
            if room.contains(PollFlags::OUT) && !line.is_empty() {
                match self.request.write(line) {
                    Ok(n) => line = &line[n..],
                    Err(error) if is_soon(&error) => {}
                    Err(_) => return Err(silent()),
                }
            }
            if !came.is_empty() {
                match self.answer.read(&mut chunk) {
                    Ok(0) if answer.is_empty() => return Err(silent()),
                    Ok(0) => return Ok(answer),
                    Ok(n) if answer.len() + n <= MOST_ANSWER => answer.extend_from_slice(&chunk[..n]),
                    Err(error) if is_soon(&error) => {}
                    _ => return Err(silent()),
                }
            }
        }
    }

    /// Waits until there is something to read, or its end, or what is wanted of the request. Before the first writer
    /// has come, reading would find the end; waiting does not.
    fn wait(&self, begun: Instant, wanted: PollFlags) -> Result<(PollFlags, PollFlags), Refusal> {
        let mut watched = [PollFd::new(&self.answer, PollFlags::IN), PollFd::new(&self.request, wanted)];
        let _ = poll(&mut watched, Some(&SERVED_INTERVAL));
        let (came, room) = (watched[0].revents(), watched[1].revents());
        let is_late = begun.elapsed() >= UNANSWERED || !is_served(&self.path.with_file_name("."));
        if came.is_empty() && room.is_empty() && is_late {
            self.give_up_unless_opened()?;
        }
        Ok((came & (PollFlags::IN | PollFlags::HUP), room))
    }

    fn give_up_unless_opened(&self) -> Result<(), Refusal> {
        // Who removes it has it: if we can, nobody else will.
        match std::fs::remove_file(with(&self.path, KNOCK)) {
            Ok(()) => Err(closed()),
            Err(_) => Ok(()),
        }
    }
}

fn closed() -> Refusal {
    Refusal::new(RefusalKind::CannotWork, "the way out of this sandbox is closed")
        .hinted("the attempt is over; what it says no longer counts")
}

/// Whether a shim serves the door: it holds a lock on the directory.
fn is_served(dir: &Path) -> bool {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(dir) = open(dir, flags, Mode::empty()) else { return false };
    flock(&dir, FlockOperation::NonBlockingLockShared).is_err()
}

fn is_soon(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::Interrupted)
}

fn silent() -> Refusal {
    Refusal::new(RefusalKind::CannotWork, "the request ended without an answer").hinted("try again")
}
