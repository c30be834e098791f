//! The shim's own fork in place of `regatta confine`: starting the program once more would cost more than the rest of
//! the set-up.
//!
//! **The fork knows no secret.** It is made before the shim reads its hand-over, and waits until the shim has read it
//! and says what to do. Everything that the shim has open is closed in it, and its command line is that of
//! `regatta confine`.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read, Seek, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use regatta_core::sandbox::Confinement;
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::process::{Pid, setpgid};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};

use super::args::{Args, Passed};
use super::report::{Fault, Report, Status};
use super::start::Watch;
use super::{FAILED, net, sys};
use crate::shim::handover::in_memory;

/// The program that is to run, and what it inherits.
pub(crate) struct Program<'a> {
    pub(crate) argv: &'a [OsString],
    pub(crate) cwd: &'a Path,
    /// Shown on its command line: by it Regatta recognises what an agent started.
    pub(crate) run_dir: &'a Path,
    /// What its environment has that the shim's does not, and without a value what it has not.
    pub(crate) env: Vec<(&'static str, Option<OsString>)>,
    pub(crate) stdin: OwnedFd,
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: OwnedFd,
    /// The lock that the tree holds.
    pub(crate) hold: Option<&'a File>,
}

/// A process in a group of its own that waits to become stage 1. Ends by itself if this is dropped.
pub(crate) struct Waiting {
    pid: u32,
    go: PipeWriter,
    document: File,
    status: PipeReader,
    listeners: UnixStream,
}

/// Forks. To be called in a shim that has one thread and has not read its hand-over.
pub(crate) fn fork(program: Program<'_>) -> io::Result<Waiting> {
    let (wait, go) = io::pipe()?;
    let (status, report) = io::pipe()?;
    fcntl_setfl(&status, OFlags::NONBLOCK)?;
    let (listeners, theirs) = UnixStream::pair()?;
    let document = in_memory("confinement", b"")?;
    let shim = std::process::id();
    // A handler of the shim must not run in its copy: it writes to the shim's own pipes.
    let mask = sys::block_signals()?;
    let forked = sys::fork();
    if let Ok(None) = forked {
        sys::drop_handlers();
        sys::restore_signals(&mask);
        let child = Child { program, shim, wait, report, document, listeners: theirs };
        // Nothing of the shim may run in its copy, whatever happens.
        let _panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| child.run()));
        sys::exit(FAILED)
    }
    sys::restore_signals(&mask);
    let pid = forked?.ok_or_else(|| io::Error::other("a fork without a number"))?;
    // Both sides do it, so that it is done whichever goes first.
    let _ = setpgid(Some(pid), Some(pid));
    Ok(Waiting { pid: number(pid), go, document, status, listeners })
}

fn number(pid: Pid) -> u32 {
    pid.as_raw_nonzero().get().unsigned_abs()
}

impl Waiting {
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Lets it confine itself and start the program.
    pub(crate) fn go(mut self, document: &Confinement) -> io::Result<Watch> {
        self.document.write_all(&serde_json::to_vec(document)?)?;
        self.document.rewind()?;
        self.go.write_all(b"!")?;
        let listeners = (!net::ports(&document.network).is_empty()).then_some(self.listeners);
        Ok(Watch::new(document.level, self.status, listeners))
    }
}

/// What the new process has.
struct Child<'a> {
    program: Program<'a>,
    shim: u32,
    wait: PipeReader,
    report: PipeWriter,
    document: File,
    listeners: UnixStream,
}

impl Child<'_> {
    /// Never returns: what names a descriptor that was closed must not be dropped.
    fn run(self) -> std::convert::Infallible {
        let Self { program, shim, mut wait, report, document, listeners } = self;
        let status = Status::new(Some(File::from(OwnedFd::from(report))));
        let ready = (|| {
            let step = |error: rustix::io::Errno| Fault::new("prepare the sandbox's process", error);
            let _ = setpgid(None, None);
            dup2_stdin(&program.stdin).map_err(step)?;
            dup2_stdout(&program.stdout).map_err(step)?;
            dup2_stderr(&program.stderr).map_err(step)?;
            // Its own: what the shim has is closed.
            let hold = program.hold.map(File::try_clone).transpose();
            let hold = hold.map_err(|error| Fault::new("keep the lock", error))?.map(OwnedFd::from);
            let kept =
                [Some(wait.as_raw_fd()), status.number(), Some(document.as_raw_fd())].into_iter().flatten();
            let kept = kept.chain([listeners.as_raw_fd()]).chain(hold.as_ref().map(AsRawFd::as_raw_fd));
            sys::close_all_but(&kept.collect::<Vec<_>>())
                .map_err(|error| Fault::new("close descriptors", error))?;
            Ok(hold)
        })();
        let hold = match ready {
            Ok(hold) => hold,
            Err(fault) => {
                status.say(&Report::Failed(fault));
                sys::exit(FAILED)
            }
        };
        let parent = shim.to_string();
        let mut line = vec![OsStr::new("confine"), "--run-dir".as_ref(), program.run_dir.as_os_str()];
        line.extend(["--cwd".as_ref(), program.cwd.as_os_str()]);
        line.extend(["--shim".as_ref(), OsStr::new(&parent), "--".as_ref()]);
        line.extend(program.argv.iter().map(OsString::as_os_str));
        let _ = sys::show_as(&line);
        // The end of the pipe means that the shim has ended, or has nothing to start.
        if !matches!(wait.read(&mut [0]), Ok(1)) {
            sys::exit(FAILED)
        }
        drop(wait);
        let args = Args::of_shim(program.cwd, shim, program.argv, program.env);
        let passed = Passed { document: document.into(), listeners: Some(listeners.into()), hold };
        let code = super::confine(&args, passed, &status);
        sys::exit(code)
    }
}
