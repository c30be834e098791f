//! Mounts what the program sees at the full level.
//!
//! Three passes. First everything is taken, as detached mounts, while every path still means what it meant outside.
//! Then the whole tree becomes read-only. Then the detached mounts are attached in the order of the list. What is to be
//! writable was never read-only, so nothing has to be undone, and a disk that is read-only outside stays so.
//!
//! Paths are resolved without following links: the document has real paths, and a link is one that was put there since.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, chmod, fstat, mkdir, mkdirat, openat, openat2,
    symlinkat, unlinkat,
};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags,
    fsconfig_create, fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, mount_change, move_mount,
    open_tree,
};

use super::forced::Forced;
use super::places::{Place, What};
use super::report::{Fault, Weaker};
use super::sys::{MountAttributes, mount_setattr};

const RDONLY: u64 = libc::MOUNT_ATTR_RDONLY;
const NOSUID: u64 = libc::MOUNT_ATTR_NOSUID;
const NODEV: u64 = libc::MOUNT_ATTR_NODEV;
const NOEXEC: u64 = libc::MOUNT_ATTR_NOEXEC;

/// The size of an empty directory: room for mount points.
const EMPTY_SIZE: &str = "64k";

/// Settings of the machine that its root may write in `/proc`, in whatever namespace.
const MACHINE: &[&str] = &["sys", "sysrq-trigger", "irq", "bus", "fs", "acpi", "scsi"];

/// A detached mount, or a link to be made, for one place.
struct Taken<'a> {
    place: &'a Place,
    what: Detached,
}

enum Detached {
    Tree {
        fd: OwnedFd,
        is_dir: bool,
    },
    Link(PathBuf),
    /// An empty directory in which nothing is mounted: all of them are the same.
    Empty,
}

/// The empty directory, once it is mounted somewhere.
type Empty = Option<OwnedFd>;

/// Builds the view. Adds where it is weaker than the list.
pub(super) fn build(places: &[Place], forced: &Forced, weaker: &mut Vec<Weaker>) -> Result<(), Fault> {
    let root = open(Path::new("/")).map_err(|error| Fault::at("open", Path::new("/"), error))?;
    // What is mounted outside from now on does not appear here, and nothing here appears outside.
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", private).map_err(|error| Fault::at("separate the mounts of", Path::new("/"), error))?;
    let mut sorted: Vec<&Path> = places.iter().map(|place| place.at.as_path()).collect();
    sorted.sort_unstable();
    let mut taken = Vec::with_capacity(places.len());
    for place in places {
        // What is below a path follows it.
        let next = sorted.partition_point(|at| *at <= place.at.as_path());
        let is_last = sorted.get(next).is_none_or(|at| !at.starts_with(&place.at));
        if let Some(what) = take(place, is_last, forced, weaker)? {
            taken.push(Taken { place, what });
        }
    }
    attributes(root.as_fd(), RDONLY | NOSUID | NODEV)
        .map_err(|error| Fault::at("make read-only", Path::new("/"), error))?;
    let mut empty = None;
    for (n, item) in taken.iter().enumerate() {
        attach(item, &taken[..n], &mut empty)?;
    }
    // Mount points were created in them.
    for item in &taken {
        if let (What::Nothing | What::Dev, Detached::Tree { fd, .. }) = (&item.place.what, &item.what) {
            let set = MountAttributes { set: RDONLY, clear: 0 };
            mount_setattr(fd.as_fd(), false, set)
                .map_err(|error| Fault::at("make read-only", &item.place.at, error))?;
        }
    }
    Ok(())
}

/// Opens a path without following a link anywhere in it.
fn open(path: &Path) -> rustix::io::Result<OwnedFd> {
    openat2(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::NO_SYMLINKS)
}

fn is_dir(fd: &OwnedFd) -> rustix::io::Result<bool> {
    Ok(FileType::from_raw_mode(fstat(fd)?.st_mode) == FileType::Directory)
}

/// A path that does not exist is left out; so is one that this user cannot reach, if it was only to be hidden.
fn existing(place: &Place) -> Result<Option<OwnedFd>, Fault> {
    match open(&place.at) {
        Ok(fd) => Ok(Some(fd)),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Err(Errno::ACCESS) if place.what == What::Nothing => Ok(None),
        Err(error) => Err(Fault::at("open", &place.at, error)),
    }
}

fn attributes(mount: BorrowedFd<'_>, set: u64) -> io::Result<()> {
    mount_setattr(mount, true, MountAttributes { set, clear: 0 })
}

/// A detached copy of the mounts at and below an open path, with these attributes.
fn clone(from: &OwnedFd, set: u64) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE
        | OpenTreeFlags::AT_EMPTY_PATH;
    let tree = open_tree(from, "", flags)?;
    if set != 0 {
        attributes(tree.as_fd(), set)?;
    }
    Ok(tree)
}

/// A detached file system of its own.
fn fresh(kind: &str, options: &[(&str, &str)], flags: &[&str], set: MountAttrFlags) -> io::Result<OwnedFd> {
    let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (name, value) in options {
        fsconfig_set_string(&context, *name, *value)?;
    }
    for name in flags {
        fsconfig_set_flag(&context, *name)?;
    }
    fsconfig_create(&context)?;
    Ok(fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, set)?)
}

fn memory(size: Option<&str>, mode: &str) -> io::Result<OwnedFd> {
    let mut options = vec![("mode", mode)];
    options.extend(size.map(|size| ("size", size)));
    fresh("tmpfs", &options, &[], MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV)
}

/// `is_last` says that nothing is mounted below it.
fn take(
    place: &Place,
    is_last: bool,
    forced: &Forced,
    weaker: &mut Vec<Weaker>,
) -> Result<Option<Detached>, Fault> {
    let at = |step: &'static str| move |error: io::Error| Fault::at(step, &place.at, error);
    let tree = |fd, is_dir| Ok(Some(Detached::Tree { fd, is_dir }));
    match &place.what {
        What::Link(target) => Ok(Some(Detached::Link(target.clone()))),
        What::Memory => tree(memory(None, "1777").map_err(at("make an empty directory for"))?, true),
        What::Dev => tree(memory(Some(EMPTY_SIZE), "0755").map_err(at("make an empty directory for"))?, true),
        What::Terminals => {
            let options = [("ptmxmode", "0666"), ("mode", "0620")];
            let set = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
            match fresh("devpts", &options, &[], set) {
                Ok(fd) => tree(fd, true),
                // Some containers refuse it; then the machine's have to do.
                Err(_) => {
                    let Some(fd) = existing(place)? else { return Ok(None) };
                    tree(clone(&fd, NOSUID | NOEXEC).map_err(at("take"))?, true)
                }
            }
        }
        What::Proc => match own_proc(forced) {
            Ok(fd) => tree(fd, true),
            Err(error) => {
                weaker.push(Weaker::SharedProc { why: error.to_string() });
                Ok(None)
            }
        },
        What::From(source) => {
            let source_at = |error: io::Error| Fault::at("open", source, error);
            let fd = open(source).map_err(|error| source_at(error.into()))?;
            let is_dir = is_dir(&fd).map_err(|error| source_at(error.into()))?;
            tree(clone(&fd, NOSUID | NODEV).map_err(source_at)?, is_dir)
        }
        What::Device => {
            let Some(fd) = existing(place)? else { return Ok(None) };
            let is_dir = is_dir(&fd).map_err(|error| at("open")(error.into()))?;
            tree(clone(&fd, RDONLY | NOSUID | NOEXEC).map_err(at("take"))?, is_dir)
        }
        What::Same { write } => {
            let Some(fd) = existing(place)? else { return Ok(None) };
            let is_dir = is_dir(&fd).map_err(|error| at("open")(error.into()))?;
            let set = if *write { NOSUID | NODEV } else { RDONLY | NOSUID | NODEV };
            tree(clone(&fd, set).map_err(at("take"))?, is_dir)
        }
        What::Nothing => {
            let Some(fd) = existing(place)? else { return Ok(None) };
            if is_dir(&fd).map_err(|error| at("open")(error.into()))? {
                if is_last {
                    return Ok(Some(Detached::Empty));
                }
                return tree(memory(Some(EMPTY_SIZE), "0755").map_err(at("hide"))?, true);
            }
            let null = open(Path::new("/dev/null")).map_err(io::Error::from);
            tree(null.and_then(|null| clone(&null, RDONLY | NOSUID | NOEXEC)).map_err(at("hide"))?, false)
        }
        What::Copy { upper, work } => {
            let Some(fd) = existing(place)? else { return Ok(None) };
            match overlay(&fd, upper, work, forced) {
                Ok(fd) => tree(fd, true),
                Err(error) => {
                    // One line for a directory whose entries are copied one by one.
                    let is_said = weaker.iter().any(|said| {
                        matches!(said, Weaker::NotCopied { path, .. } if place.at.parent() == Some(path))
                    });
                    if !is_said {
                        weaker.push(Weaker::NotCopied { path: place.at.clone(), why: error.to_string() });
                    }
                    // It may be inside something that is replaced.
                    tree(clone(&fd, RDONLY | NOSUID | NODEV).map_err(at("take"))?, true)
                }
            }
        }
    }
}

fn own_proc(forced: &Forced) -> io::Result<OwnedFd> {
    if forced.no_proc {
        return Err(Errno::PERM.into());
    }
    let set = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    fresh("proc", &[], &[], set)
}

/// The kernel refuses it, among others, if a file system is mounted below `lower`.
fn overlay(lower: &OwnedFd, upper: &Path, work: &Path, forced: &Forced) -> io::Result<OwnedFd> {
    if forced.no_overlay {
        return Err(Errno::PERM.into());
    }
    let (upper, work_dir) = (layer(upper)?, layer(work)?);
    // The directory itself is the upper one: it should look as the lower one does.
    let mode = Mode::from_raw_mode(fstat(lower)?.st_mode & 0o7777);
    chmod(format!("/proc/self/fd/{}", upper.as_raw_fd()), mode)?;
    // By descriptor: a path may contain what separates options, or be longer than an option may be.
    let by_number = |fd: &OwnedFd| format!("/proc/self/fd/{}", fd.as_raw_fd());
    let (lower, upper, work) = (by_number(lower), by_number(&upper), by_number(&work_dir));
    // What is written goes with the run, so the kernel need not write the whole disk out at its end. It marks the layers
    // as unfit for another mount; here it is the same run that mounts them again, and nothing was lost in between.
    let _ = unlinkat(&work_dir, "work/incompat/volatile/dirty", AtFlags::empty());
    let _ = unlinkat(&work_dir, "work/incompat/volatile", AtFlags::REMOVEDIR);
    let options = [("lowerdir", lower.as_str()), ("upperdir", &upper), ("workdir", &work)];
    let set = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    fresh("overlay", &options, &["userxattr", "volatile"], set)
}

/// A directory of an overlay, made if it is missing, with the one around it: both belong to this run.
fn layer(path: &Path) -> io::Result<OwnedFd> {
    let private = Mode::from_raw_mode(0o700);
    let made = match (mkdir(path, private), path.parent()) {
        (Err(Errno::NOENT), Some(around)) => mkdir(around, private).and_then(|()| mkdir(path, private)),
        (made, _) => made,
    };
    match made {
        Ok(()) | Err(Errno::EXIST) => Ok(open(path)?),
        Err(error) => Err(error.into()),
    }
}

fn attach(item: &Taken<'_>, before: &[Taken<'_>], empty: &mut Empty) -> Result<(), Fault> {
    let place = item.place;
    let at = |error: io::Error| Fault::at("mount", &place.at, error);
    let around = before.iter().rev().find(|outer| place.at.starts_with(&outer.place.at));
    let room = around.filter(|outer| outer.place.what.has_room());
    let is_dir = match &item.what {
        Detached::Tree { is_dir, .. } => *is_dir,
        Detached::Empty => true,
        Detached::Link(target) => {
            // Without room it is there already.
            let Some(outer) = room else { return Ok(()) };
            let (dir, name) = parent_of(outer, &place.at).map_err(at)?;
            return symlinkat(target, &dir, &name).map_err(|error| at(error.into()));
        }
    };
    let point = match (open(&place.at), room) {
        (Err(Errno::NOENT), Some(outer)) => {
            create_point(outer, &place.at, is_dir).map_err(at)?;
            open(&place.at)
        }
        // It has gone since it was taken: sockets come and go, and what is not there needs no cover.
        (Err(Errno::NOENT), None) if place.what == What::Nothing => return Ok(()),
        (opened, _) => opened,
    };
    let point = point.map_err(|error| at(error.into()))?;
    match (&item.what, &empty) {
        (Detached::Tree { fd, .. }, _) => cover(&point, fd).map_err(at),
        (_, Some(first)) => clone(first, 0).and_then(|same| cover(&point, &same)).map_err(at),
        (_, None) => {
            let first = memory(Some(EMPTY_SIZE), "0755").map_err(at)?;
            attributes(first.as_fd(), RDONLY).map_err(at)?;
            cover(&point, &first).map_err(at)?;
            *empty = Some(first);
            Ok(())
        }
    }
}

/// Mounts what is detached at an open path.
fn cover(point: &OwnedFd, detached: &OwnedFd) -> io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    Ok(move_mount(detached, "", point, "", flags)?)
}

fn create_point(outer: &Taken<'_>, path: &Path, is_dir: bool) -> io::Result<()> {
    let (dir, name) = parent_of(outer, path)?;
    if is_dir {
        mkdirat(&dir, &name, Mode::from_raw_mode(0o755))?;
    } else {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        openat(&dir, &name, flags, Mode::from_raw_mode(0o644))?;
    }
    Ok(())
}

/// The directory of `path`, made below what is mounted at `outer`, and the last name of `path`.
fn parent_of(outer: &Taken<'_>, path: &Path) -> io::Result<(OwnedFd, CString)> {
    use std::os::unix::ffi::OsStrExt;
    let missing = || io::Error::from(Errno::NOENT);
    let Detached::Tree { fd, .. } = &outer.what else { return Err(missing()) };
    let relative = path.strip_prefix(&outer.place.at).map_err(|_| missing())?;
    let mut names = Vec::new();
    for name in relative.components() {
        names.push(CString::new(name.as_os_str().as_bytes())?);
    }
    let last = names.pop().ok_or_else(missing)?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut dir = fd.try_clone()?;
    for name in names {
        match mkdirat(&dir, &name, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        dir = openat(&dir, &name, flags, Mode::empty())?;
    }
    Ok((dir, last))
}

/// Root's identity inside is root's outside as far as the owner of a file counts, and the settings of the machine are
/// files that belong to root.
pub(super) fn protect_machine() -> Result<(), Fault> {
    for name in MACHINE {
        let path = Path::new("/proc").join(name);
        let at = |error: io::Error| Fault::at("make read-only", &path, error);
        let point = match open(&path) {
            Ok(point) => point,
            Err(Errno::NOENT) => continue,
            Err(error) => return Err(at(error.into())),
        };
        let tree = clone(&point, RDONLY | NOSUID | NODEV | NOEXEC).map_err(at)?;
        cover(&point, &tree).map_err(at)?;
    }
    Ok(())
}

/// Whether a step of a probe worked, or why not.
pub(super) type Tried = Result<(), String>;

/// For a probe, in the first process of a pid namespace: whether an overlay and a `/proc` of its own can be made. A step
/// that must not fail is an error of the whole.
pub(super) fn try_weak_steps(forced: &Forced) -> Result<(Tried, Tried), String> {
    let step = |what: &str, error: io::Error| format!("{what}: {error}");
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", private).map_err(|error| step("separate the mounts", error.into()))?;
    let null = open(Path::new("/dev/null")).map_err(|error| step("open /dev/null", error.into()))?;
    clone(&null, RDONLY).map_err(|error| step("take a mount", error))?;
    let scratch = memory(None, "0755").map_err(|error| step("mount a tmpfs", error))?;
    let overlay = (|| {
        let point = open(Path::new("/dev"))?;
        cover(&point, &scratch)?;
        for name in ["lower", "upper", "work"] {
            mkdirat(&scratch, name, Mode::from_raw_mode(0o755))?;
        }
        let lower = open(Path::new("/dev/lower"))?;
        overlay(&lower, Path::new("/dev/upper"), Path::new("/dev/work"), forced)
    })();
    let said = |tried: io::Result<OwnedFd>| tried.map(drop).map_err(|error| error.to_string());
    Ok((said(overlay), said(own_proc(forced))))
}
