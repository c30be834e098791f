//! Which files the program may open, by Landlock: an allow list of trees, inherited by everything it starts, for good.
//!
//! At the full level the mounts decide what is seen and written, and Landlock repeats it, so that a mistake in one is
//! caught by the other. At the files level Landlock is alone. It cannot except a path from an allowed tree, so every
//! tree around something hidden is allowed entry by entry. The names of files are visible everywhere; contents are not.
//!
//! The first version is not used: under it no file can be moved to another directory, and package managers fail.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope,
};
use regatta_core::sandbox::{Confinement, Level, Net, PathAccess};
use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};

use super::places::{self, DEVICES};
use super::report::{Fault, Weaker};
use super::sys;

/// The oldest version under which programs work.
pub(super) const OLDEST: u32 = 2;
/// The first version that keeps signals and abstract sockets inside.
pub(super) const SCOPES: u32 = 6;
/// The newest version that this program uses.
const NEWEST: u32 = 9;

const STEP: &str = "landlock";

/// The version to use here, capped by the document; `None` if there is none that is new enough.
pub(super) fn version(cap: Option<u32>) -> Option<u32> {
    let kernel = sys::landlock_abi().ok()?;
    let version = kernel.min(cap.unwrap_or(NEWEST)).min(NEWEST);
    (version >= OLDEST).then_some(version)
}

fn abi(version: u32) -> ABI {
    match version {
        2 => ABI::V2,
        3 => ABI::V3,
        4 => ABI::V4,
        5 => ABI::V5,
        6 => ABI::V6,
        7 => ABI::V7,
        8 => ABI::V8,
        _ => ABI::V9,
    }
}

/// A rule set that is being filled.
struct Rules {
    set: RulesetCreated,
    all: BitFlags<AccessFs>,
    abi: ABI,
}

/// Restricts this process and what it starts. Returns where the files level is weaker than the document.
pub(super) fn apply(document: &Confinement, version: u32) -> Result<Vec<Weaker>, Fault> {
    let mut rules = Rules::new(document, abi(version))?;
    let weaker = match document.level {
        Level::Full => {
            rules.full(document)?;
            Vec::new()
        }
        Level::Files | Level::Off => rules.files(document)?,
    };
    let status = rules.set.restrict_self().map_err(|error| Fault::because(STEP, error.to_string()))?;
    if status.ruleset == RulesetStatus::NotEnforced {
        return Err(Fault::because(STEP, "the kernel did not apply it"));
    }
    Ok(weaker)
}

impl Rules {
    fn new(document: &Confinement, abi: ABI) -> Result<Self, Fault> {
        let all = AccessFs::from_all(abi);
        // Each right is one that this version has: a refusal is an error and not a weaker rule.
        let mut set = Ruleset::default().set_compatibility(CompatLevel::HardRequirement).handle_access(all);
        if document.level == Level::Files && document.network == Net::None {
            let net = AccessNet::from_all(abi);
            if !net.is_empty() {
                set = set.and_then(|set| set.handle_access(net));
            }
        }
        let scopes = Scope::from_all(abi);
        if !scopes.is_empty() {
            set = set.and_then(|set| set.scope(scopes));
        }
        let set = set
            .and_then(Ruleset::create)
            .map_err(|error| Fault::because(STEP, error.to_string()))?
            // The process that applies the rules has set it already.
            .no_new_privs(false);
        Ok(Self { set, all, abi })
    }

    fn read() -> BitFlags<AccessFs> {
        AccessFs::ReadFile | AccessFs::ReadDir | AccessFs::Execute
    }

    /// Everything but making device nodes.
    fn write(&self) -> BitFlags<AccessFs> {
        self.all & !(AccessFs::MakeChar | AccessFs::MakeBlock)
    }

    fn device(&self) -> BitFlags<AccessFs> {
        let all = AccessFs::ReadFile
            | AccessFs::WriteFile
            | AccessFs::ReadDir
            | AccessFs::Truncate
            | AccessFs::IoctlDev;
        all & self.all
    }

    /// Allows this at and below `path`; a path that is missing or cannot be reached is left out.
    fn allow(&mut self, path: &Path, access: BitFlags<AccessFs>) -> Result<(), Fault> {
        let at = |error: io::Error| Fault::at(STEP, path, error);
        let fd = match openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW, Mode::empty()) {
            Ok(fd) => fd,
            Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR | rustix::io::Errno::ACCESS) => {
                return Ok(());
            }
            Err(error) => return Err(at(error.into())),
        };
        let found = FileType::from_raw_mode(fstat(&fd).map_err(|error| at(error.into()))?.st_mode);
        let access = match found {
            FileType::Directory => access,
            FileType::Symlink => return Ok(()),
            _ => access & AccessFs::from_file(self.abi),
        };
        if access.is_empty() {
            return Ok(());
        }
        let added = (&mut self.set).add_rule(PathBeneath::new(fd.as_fd(), access));
        added
            .map(drop)
            .map_err(|error| Fault { path: Some(path.into()), ..Fault::because(STEP, error.to_string()) })
    }

    fn devices(&mut self, document: &Confinement) -> Result<(), Fault> {
        let (device, write) = (self.device(), self.write());
        for name in DEVICES.iter().chain(&["ptmx", "pts"]) {
            self.allow(&Path::new("/dev").join(name), device)?;
        }
        for path in &document.devices {
            self.allow(path, device)?;
        }
        self.allow(Path::new("/dev/shm"), write)
    }

    fn full(&mut self, document: &Confinement) -> Result<(), Fault> {
        self.allow(Path::new("/"), Self::read())?;
        self.devices(document)?;
        // A process may write about itself; the namespace, the owner and the mounts keep it from the rest.
        self.allow(Path::new("/proc"), (Self::read() | AccessFs::WriteFile | AccessFs::Truncate) & self.all)?;
        let write = self.write();
        for place in places::temporary() {
            self.allow(&place, write)?;
        }
        for rule in &document.rules {
            if matches!(rule.access, PathAccess::Write | PathAccess::Copy { .. }) {
                self.allow(&rule.path, write)?;
            }
        }
        self.unix(document)
    }

    /// Sockets that the program may connect to by path, where this version can refuse it.
    fn unix(&mut self, document: &Confinement) -> Result<(), Fault> {
        if self.all.contains(AccessFs::ResolveUnix) {
            for socket in &document.sockets {
                self.allow(socket, AccessFs::ResolveUnix.into())?;
            }
        }
        Ok(())
    }

    fn files(&mut self, document: &Confinement) -> Result<Vec<Weaker>, Fault> {
        let is_hidden = |access: &PathAccess| *access == PathAccess::Hide;
        let mut weaker = Vec::new();
        for rule in &document.rules {
            let around = document.rules.iter().rev().find(|outer| {
                rule.path != outer.path
                    && rule.path.starts_with(&outer.path)
                    && outer.access == PathAccess::Write
            });
            let Some(around) = around.filter(|_| rule.path.symlink_metadata().is_ok()) else { continue };
            match &rule.access {
                PathAccess::Write => {}
                PathAccess::Read | PathAccess::Copy { .. } => {
                    weaker.push(Weaker::Writable { path: rule.path.clone() });
                }
                PathAccess::Hide => {
                    let why = format!(
                        "hidden below {}, which is writable: that needs the level full",
                        around.path.display()
                    );
                    return Err(Fault { path: Some(rule.path.clone()), ..Fault::because(STEP, why) });
                }
            }
        }
        self.allow(Path::new("/"), AccessFs::ReadDir.into())?;
        // Where the walk goes in, instead of allowing the tree as a whole. Devices are allowed one by one, and so is
        // what a process may read about the machine.
        let closed = [PathBuf::from("/dev"), PathBuf::from("/proc")];
        let hidden: BTreeSet<&Path> = document
            .rules
            .iter()
            .filter(|rule| is_hidden(&rule.access))
            .map(|rule| rule.path.as_path())
            .chain(closed.iter().map(PathBuf::as_path))
            .collect();
        self.around(&hidden)?;
        for rule in &document.rules {
            match rule.access {
                PathAccess::Hide => {}
                PathAccess::Write => self.allow(&rule.path, self.write())?,
                // Only what is inside something hidden needs a rule of its own.
                PathAccess::Read | PathAccess::Copy { .. } => {
                    let is_inside = hidden.iter().any(|hidden| rule.path.starts_with(hidden));
                    let has_hidden = hidden.iter().any(|hidden| hidden.starts_with(&rule.path));
                    match (is_inside, has_hidden) {
                        (true, false) => self.allow(&rule.path, Self::read())?,
                        (true, true) => self.entries(&rule.path, &hidden)?,
                        (false, _) => {}
                    }
                }
            }
        }
        self.allow(&document.tmp, self.write())?;
        self.devices(document)?;
        // A process may write about itself, its name for example. Root could write every setting of the machine there.
        let is_root = rustix::process::geteuid().is_root();
        let proc = if is_root {
            Self::read()
        } else {
            (Self::read() | AccessFs::WriteFile | AccessFs::Truncate) & self.all
        };
        self.allow(Path::new("/proc"), proc)?;
        self.unix(document)?;
        Ok(weaker)
    }

    /// Allows reading everything except what is hidden.
    fn around(&mut self, hidden: &BTreeSet<&Path>) -> Result<(), Fault> {
        self.entries(Path::new("/"), hidden)
    }

    /// Allows reading every entry of `dir` that neither is nor contains something hidden, and goes into those that do.
    fn entries(&mut self, dir: &Path, hidden: &BTreeSet<&Path>) -> Result<(), Fault> {
        let mut todo = vec![dir.to_owned()];
        while let Some(dir) = todo.pop() {
            // One that this user cannot list is one whose contents this user reaches by name only: not from here.
            for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
                let path = entry.path();
                if hidden.contains(path.as_path()) {
                    continue;
                }
                // The hidden paths below this entry follow it in the order of paths.
                let contains =
                    hidden.range(path.as_path()..).next().is_some_and(|next| next.starts_with(&path));
                if contains {
                    todo.push(path);
                } else {
                    self.allow(&path, Self::read())?;
                }
            }
        }
        Ok(())
    }
}
