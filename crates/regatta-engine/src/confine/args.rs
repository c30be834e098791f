//! The command line of `regatta confine`: numbers of inherited descriptors, the directory, and the program.
//!
//! ```text
//! regatta confine --document FD --cwd DIR [--status FD] [--listeners FD] [--hold FD] [--shim PID] -- PROGRAM …
//! ```

use std::ffi::OsString;
use std::fs::File;
use std::os::fd::{OwnedFd, RawFd};
use std::path::{Path, PathBuf};

use super::report::Fault;
use super::sys;

const STEP: &str = "read the command line";

/// The parameters of one confinement.
pub(super) struct Args {
    pub(super) cwd: PathBuf,
    /// The process to die with.
    pub(super) shim: Option<u32>,
    pub(super) argv: Vec<OsString>,
    /// What the program's environment has that this process's does not, and without a value what it has not.
    pub(super) env: Vec<(&'static str, Option<OsString>)>,
    /// Nobody reads how the program ended: a person started it.
    alone: bool,
}

/// What the parent passed by descriptor.
pub(super) struct Passed {
    pub(super) document: OwnedFd,
    pub(super) listeners: Option<OwnedFd>,
    /// The lock that the tree holds.
    pub(super) hold: Option<OwnedFd>,
}

impl Args {
    /// Those of a shim's own fork.
    pub(super) fn of_shim(
        cwd: &Path,
        shim: u32,
        argv: &[OsString],
        env: Vec<(&'static str, Option<OsString>)>,
    ) -> Self {
        Self { cwd: cwd.to_owned(), shim: Some(shim), argv: argv.to_vec(), env, alone: false }
    }

    pub(super) fn is_alone(&self) -> bool {
        self.alone
    }

    /// Reads the command line and takes the descriptors over; every other one is closed. The status pipe is returned
    /// even if something else is wrong: the report of that goes there.
    pub(super) fn decode(
        mut args: impl Iterator<Item = OsString>,
    ) -> (Option<File>, Result<(Self, Passed), Fault>) {
        let numbers = match Numbers::read(&mut args) {
            Ok(numbers) => numbers,
            Err(fault) => return (None, Err(fault)),
        };
        let status = match numbers.status.map(take).transpose() {
            Ok(status) => status.map(File::from),
            Err(fault) => return (None, Err(fault)),
        };
        let alone = status.is_none();
        (status, numbers.take_rest(args.collect(), alone))
    }
}

/// The options, before anything is taken over.
#[derive(Default)]
struct Numbers {
    document: Option<RawFd>,
    status: Option<RawFd>,
    listeners: Option<RawFd>,
    hold: Option<RawFd>,
    shim: Option<u32>,
    cwd: Option<PathBuf>,
}

fn wrong(why: impl Into<String>) -> Fault {
    Fault::because(STEP, why)
}

fn take(number: RawFd) -> Result<OwnedFd, Fault> {
    sys::take_descriptor(number).map_err(|error| Fault::new(STEP, error))
}

impl Numbers {
    fn read(args: &mut impl Iterator<Item = OsString>) -> Result<Self, Fault> {
        let mut found = Self::default();
        loop {
            let name = args.next().ok_or_else(|| wrong("no `--` before the program"))?;
            if name == "--" {
                break;
            }
            let value = args.next().ok_or_else(|| wrong(format!("{} needs a value", name.display())))?;
            let number = || {
                let parsed = value.to_str().and_then(|text| text.parse::<RawFd>().ok());
                parsed.ok_or_else(|| wrong(format!("{} needs a number", name.display())))
            };
            match name.to_str() {
                Some("--document") => found.document = Some(number()?),
                Some("--status") => found.status = Some(number()?),
                Some("--listeners") => found.listeners = Some(number()?),
                Some("--hold") => found.hold = Some(number()?),
                Some("--shim") => found.shim = Some(number()?.unsigned_abs()),
                Some("--cwd") => found.cwd = Some(PathBuf::from(value)),
                _ => return Err(wrong(format!("unknown option {}", name.display()))),
            }
        }
        let mut once = found.descriptors();
        once.sort_unstable();
        once.dedup();
        if once.len() != found.descriptors().len() {
            return Err(wrong("one descriptor for two purposes"));
        }
        Ok(found)
    }

    fn descriptors(&self) -> Vec<RawFd> {
        [self.document, self.status, self.listeners, self.hold].into_iter().flatten().collect()
    }

    fn take_rest(self, argv: Vec<OsString>, alone: bool) -> Result<(Args, Passed), Fault> {
        sys::close_all_but(&self.descriptors()).map_err(|error| Fault::new("close descriptors", error))?;
        if argv.is_empty() {
            return Err(wrong("no program after `--`"));
        }
        let passed = Passed {
            document: take(self.document.ok_or_else(|| wrong("no --document"))?)?,
            listeners: self.listeners.map(take).transpose()?,
            hold: self.hold.map(take).transpose()?,
        };
        let cwd = self.cwd.ok_or_else(|| wrong("no --cwd"))?;
        Ok((Args { cwd, shim: self.shim, argv, env: Vec::new(), alone }, passed))
    }
}
