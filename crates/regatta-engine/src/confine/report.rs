//! What `regatta confine` reports on its status pipe, one JSON line each: what it applied, which step failed, and how
//! the program ended.

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::path::{Path, PathBuf};

use regatta_core::sandbox::Level;
use serde::{Deserialize, Serialize};

/// What was applied to a running program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confined {
    /// The level.
    pub level: Level,
    /// The Landlock ABI in use; `None` if Landlock is not in use.
    pub landlock: Option<u32>,
    /// The process that is the first of the program's pid namespace, as seen from outside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<u32>,
    /// The cgroup made for it, to be removed at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<PathBuf>,
    /// Where it is weaker than the document asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub weaker: Vec<Weaker>,
}

/// One way in which a confinement is weaker than its document, because of the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Weaker {
    /// A directory that was to be copied on write is read-only.
    NotCopied {
        /// The directory.
        path: PathBuf,
        /// The system's reason.
        why: String,
    },
    /// The machine's `/proc` is visible, read-only, because one of its own was refused.
    SharedProc {
        /// The system's reason.
        why: String,
    },
    /// A path is writable, because the files level cannot except it from the directory around it.
    Writable {
        /// The path.
        path: PathBuf,
    },
    /// Landlock is missing, or is so old that programs would fail under it.
    NoLandlock,
    /// Abstract sockets of other processes answer: they have no path, and Landlock refuses them from version 6 on.
    AbstractSockets,
    /// The number of processes is not limited.
    Processes {
        /// The system's reason.
        why: String,
    },
    /// The memory is not limited: there is no cgroup that this user may use.
    Memory,
}

impl fmt::Display for Weaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotCopied { path, why } => {
                write!(f, "{} is read-only instead of copied on write ({why})", path.display())
            }
            Self::SharedProc { why } => write!(f, "/proc shows the machine's processes ({why})"),
            Self::Writable { path } => {
                write!(f, "{} is writable (read-only needs the level full)", path.display())
            }
            Self::NoLandlock => f.write_str("Landlock is not in use"),
            Self::AbstractSockets => {
                f.write_str("abstract sockets answer (needs Landlock 6 or a network of its own)")
            }
            Self::Processes { why } => write!(f, "the number of processes is not limited ({why})"),
            Self::Memory => f.write_str("memory is not limited (no cgroup v2 that this user may write)"),
        }
    }
}

/// A step that failed before the program ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// What was being done, for example `mount`.
    pub step: String,
    /// The path concerned, or the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// The system's error number, if the system refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errno: Option<i32>,
    /// A reason that is not the system's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// The step in which the program itself is started: its failure is not the sandbox's.
pub(super) const PROGRAM: &str = "program";

impl Fault {
    pub(super) fn new(step: &str, error: impl Into<io::Error>) -> Self {
        let error = error.into();
        let errno = error.raw_os_error();
        let why = errno.is_none().then(|| error.to_string());
        Self { step: step.to_owned(), path: None, errno, why }
    }

    pub(super) fn at(step: &str, path: &Path, error: impl Into<io::Error>) -> Self {
        Self { path: Some(path.to_owned()), ..Self::new(step, error) }
    }

    pub(super) fn because(step: &str, why: impl Into<String>) -> Self {
        Self { step: step.to_owned(), path: None, errno: None, why: Some(why.into()) }
    }

    /// Whether everything was set up, and the program itself could not be started.
    pub(crate) fn is_of_program(&self) -> bool {
        self.step == PROGRAM
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.as_ref().map(|path| path.display().to_string());
        if self.is_of_program() {
            // The same sentence as without a sandbox.
            f.write_str(path.as_deref().unwrap_or("the program"))?;
        } else {
            write!(f, "the sandbox could not be set up: {}", self.step)?;
            if let Some(path) = path {
                write!(f, " {path}")?;
            }
        }
        match (self.errno, &self.why) {
            (Some(errno), _) => write!(f, ": {}", io::Error::from_raw_os_error(errno)),
            (None, Some(why)) => write!(f, ": {why}"),
            (None, None) => Ok(()),
        }
    }
}

/// One line on the status pipe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub(crate) enum Report {
    /// The restrictions are in place. At the full level the program runs; at the files level it runs when the pipe has
    /// ended without another line.
    Confined(Confined),
    /// Nothing ran.
    Failed(Fault),
    /// The program ended; its wait status as the kernel gave it.
    Ended { status: i32 },
}

/// The writing end of the status pipe. Without one, a failure goes to standard error.
pub(super) struct Status(Option<File>);

impl Status {
    pub(super) fn new(pipe: Option<File>) -> Self {
        Self(pipe)
    }

    pub(super) fn number(&self) -> Option<RawFd> {
        self.0.as_ref().map(AsRawFd::as_raw_fd)
    }

    /// A missing reader is no reason to stop: the shim's death ends this process anyway.
    pub(super) fn say(&self, report: &Report) {
        match &self.0 {
            Some(pipe) => {
                let mut line = serde_json::to_vec(report).unwrap_or_default();
                line.push(b'\n');
                let _ = (&*pipe).write_all(&line);
            }
            None => {
                if let Report::Failed(fault) = report {
                    let _ = rustix::io::write(rustix::stdio::stderr(), format!("{fault}\n").as_bytes());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_the_step_the_path_and_the_reason() {
        let fault = Fault::at("mount", Path::new("/home/u"), io::Error::from_raw_os_error(libc::EPERM));
        let text = "the sandbox could not be set up: mount /home/u: Operation not permitted (os error 1)";
        assert_eq!(fault.to_string(), text);
        let line = serde_json::to_string(&Report::Failed(fault.clone())).unwrap();
        assert_eq!(line, r#"{"kind":"failed","step":"mount","path":"/home/u","errno":1}"#);
        assert_eq!(serde_json::from_str::<Report>(&line).unwrap(), Report::Failed(fault));
    }

    #[test]
    fn a_program_that_is_missing_is_reported_as_without_a_sandbox() {
        let fault = Fault::at(PROGRAM, Path::new("claude"), io::Error::from_raw_os_error(libc::ENOENT));
        assert_eq!(fault.to_string(), "claude: No such file or directory (os error 2)");
    }
}
