//! **What an agent causes to run reaches its lane, and nothing else of the person's.** `regatta confine` is a hidden
//! command, and what a shim forks in place of a program: it restricts itself as a document says
//! ([`Confinement`](regatta_core::sandbox::Confinement)) and becomes the program, or starts it and stays until it has
//! ended. It needs no root, no other program and no container.
//!
//! Two levels:
//!
//! | level | by | needs |
//! |---|---|---|
//! | full | user, mount, pid, ipc and net namespaces, then Landlock, then seccomp | user namespaces |
//! | files | Landlock and seccomp | Landlock 2 |
//!
//! The parts, in the order in which they act: `args` and `document` (what is asked for), `stages` (the processes, how
//! signals and ends pass through them), `places` (what is seen where, as one ordered list) and `mounts` (mounts that
//! list), `net`, `limits`, `landlock`, `seccomp`; `sys` has all unsafe code. `report` is what comes back over the status
//! pipe. `start` is the shim's side. `probe` finds out what a machine can do, by trying.
//!
//! **It is never weaker than it says.** A step that fails stops the start; the few that may fail (an overlay, a `/proc`
//! of its own, limits) are reported as [`Weaker`].

mod args;
mod document;
mod forced;
pub(crate) mod forked;
mod landlock;
pub(crate) mod limits;
mod mounts;
pub(crate) mod net;
mod places;
mod probe;
pub(crate) mod report;
mod seccomp;
mod stages;
pub(crate) mod start;
mod sys;

use std::ffi::OsString;
use std::fs::File;

use regatta_core::sandbox::Level;
use rustix::io::{FdFlags, fcntl_setfd};

pub use net::PROXY_PORT;
pub use probe::{Machine, probe};
pub use report::{Confined, Fault, Weaker};
pub(crate) use stages::FAILED;
pub use start::{Foreground, command};

use args::{Args, Passed};
use report::{Report, Status};

/// The hidden command. `args` is what follows `regatta confine`; the result is the process's exit status.
///
/// To be called before anything else in `main`: no thread, no runtime, no open file.
pub fn main(args: impl Iterator<Item = OsString>) -> i32 {
    let mut args = args.peekable();
    if args.peek().is_some_and(|first| first == "--probe") {
        return probe::report();
    }
    let (status, rest) = Args::decode(args);
    let status = Status::new(status);
    match rest {
        Ok((args, passed)) => confine(&args, passed, &status),
        Err(fault) => {
            status.say(&Report::Failed(fault));
            1
        }
    }
}

/// Reads the document, does as it says, and returns the exit status.
fn confine(args: &Args, passed: Passed, status: &Status) -> i32 {
    let ready = (|| {
        let document = document::read(File::from(passed.document))?;
        if document.level == Level::Files
            && let Some(hold) = &passed.hold
        {
            // Without a pid namespace each process holds the lock itself. With one, the two processes above them do:
            // nothing outlives those.
            fcntl_setfd(hold, FdFlags::empty()).map_err(|error| Fault::new("keep the lock", error))?;
        }
        // A pair without ports has no purpose.
        let listeners = passed.listeners.filter(|_| !net::ports(&document.network).is_empty());
        Ok((document, listeners, passed.hold))
    })();
    match ready {
        Ok((document, listeners, _hold)) => stages::run(args, &document, status, listeners),
        Err(fault) => {
            status.say(&Report::Failed(fault));
            1
        }
    }
}
