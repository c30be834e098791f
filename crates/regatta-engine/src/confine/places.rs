//! What is seen where at the full level: one list, in the order in which it is mounted.
//!
//! Everything that is mounted is in this list, the fixed places too, and the list is ordered by depth, nearest to the
//! root first. So a deeper place always has the last word about a path: a project below `/tmp` stays visible although
//! `/tmp` is replaced, and a directory hidden in the project stays hidden although the project is shown.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use regatta_core::sandbox::{Confinement, PathAccess};

/// Device nodes that every program may use, in `/dev`.
pub(super) const DEVICES: &[&str] = &["null", "zero", "full", "random", "urandom", "tty"];

/// Links in `/dev` that programs expect.
const DEVICE_LINKS: &[(&str, &str)] = &[
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("ptmx", "pts/ptmx"),
];

/// What stays visible of `/run`: how names are resolved, and where some distributions keep their programs.
const RUN: &[&str] = &[
    "systemd/resolve",
    "resolvconf",
    "NetworkManager/resolv.conf",
    "NetworkManager/no-stub-resolv.conf",
    "current-system",
    "booted-system",
    "opengl-driver",
    "opengl-driver-32",
];

/// One place in the file system and what is put there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) at: PathBuf,
    pub(super) what: What,
}

/// What is put at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// The tree that is there, as it was before anything was mounted.
    Same { write: bool },
    /// The tree from another path, writable.
    From(PathBuf),
    /// A copy on write of the tree that is there.
    Copy { upper: PathBuf, work: PathBuf },
    /// Nothing: an empty directory, or an empty file over a file.
    Nothing,
    /// An empty directory to write to, in memory.
    Memory,
    /// A `/dev` with room for the nodes that follow.
    Dev,
    /// Pseudo terminals of its own.
    Terminals,
    /// A device node as it is.
    Device,
    /// A `/proc` of its own pid namespace.
    Proc,
    /// A symbolic link.
    Link(PathBuf),
}

impl What {
    /// Whether a mount point below may be created there: in what exists only inside.
    pub(super) fn has_room(&self) -> bool {
        matches!(self, Self::Nothing | Self::Memory | Self::Dev | Self::From(_))
    }
}

/// What the machine has, looked at before anything is mounted.
#[derive(Clone, Debug, Default)]
pub(super) struct Machine {
    /// Directories for temporary files.
    pub(super) temporary: Vec<PathBuf>,
    /// Directories with the sockets and state of services.
    pub(super) run: Vec<PathBuf>,
    /// What is kept of those; a link with its target.
    pub(super) kept: Vec<(PathBuf, Option<PathBuf>)>,
    /// Unix sockets with a path that some process has bound.
    pub(super) sockets: Vec<PathBuf>,
    /// Directories to be copied that cannot be copied as a whole.
    pub(super) split: Vec<Split>,
}

/// A directory with a file system mounted below it. The kernel refuses to overlay it: the copy would show what the
/// mount covers. So its entries are copied one by one, where nothing is mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Split {
    pub(super) dir: PathBuf,
    pub(super) entries: Vec<PathBuf>,
}

/// The directories for temporary files, by their real paths.
pub(super) fn temporary() -> Vec<PathBuf> {
    real_directories(&["/tmp", "/var/tmp"])
}

fn real_directories(names: &[&str]) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> =
        names.iter().filter_map(|name| fs::canonicalize(name).ok()).filter(|path| path.is_dir()).collect();
    found.sort();
    found.dedup();
    found
}

impl Machine {
    pub(super) fn look(document: &Confinement) -> Self {
        let run = real_directories(&["/run", "/var/run"]);
        let kept = run.iter().flat_map(|run| RUN.iter().map(|name| run.join(name))).filter_map(|path| {
            let found = path.symlink_metadata().ok()?;
            let target = found.is_symlink().then(|| fs::read_link(&path)).transpose().ok()?;
            Some((path, target))
        });
        let kept = kept.collect();
        Self { temporary: temporary(), run, kept, sockets: bound_sockets(), split: splits(document) }
    }
}

fn splits(document: &Confinement) -> Vec<Split> {
    let copied = document.rules.iter().filter(|rule| matches!(rule.access, PathAccess::Copy { .. }));
    let mut mounted = None;
    let mut found = Vec::new();
    for rule in copied {
        let mounted = mounted
            .get_or_insert_with(|| mount_points(&fs::read("/proc/self/mountinfo").unwrap_or_default()));
        let is_below = |dir: &Path| mounted.iter().any(|point| point != dir && point.starts_with(dir));
        if !is_below(&rule.path) {
            continue;
        }
        let entries = fs::read_dir(&rule.path).into_iter().flatten().flatten();
        let entries = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        let mut entries: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        entries.retain(|dir| !is_below(dir) && !mounted.contains(dir));
        entries.sort();
        found.push(Split { dir: rule.path.clone(), entries });
    }
    found
}

/// The mount points in the kernel's table of mounts.
fn mount_points(table: &[u8]) -> Vec<PathBuf> {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;
    let field = |line: &[u8]| line.split(|byte| *byte == b' ').nth(4).map(unescaped);
    let lines = table.split(|byte| *byte == b'\n');
    lines.filter_map(field).map(|path| PathBuf::from(OsString::from_vec(path))).collect()
}

/// Blanks and the like are written as three octal digits after a backslash.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, after)) = rest.split_first() {
        let digits = after
            .get(..3)
            .filter(|digits| first == b'\\' && digits.iter().all(|d| (b'0'..=b'7').contains(d)));
        let code = digits.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        plain.push(code.unwrap_or(first));
        rest = if code.is_some() { &after[3..] } else { after };
    }
    plain
}

/// Every unix socket with a path that exists here. Datagram sockets count: they need no listener.
fn bound_sockets() -> Vec<PathBuf> {
    // Bytes, because a path need not be UTF-8.
    let table = fs::read("/proc/net/unix").unwrap_or_default();
    let mut found = sockets_in(&table);
    found.retain(|path| path.symlink_metadata().is_ok_and(|found| found.file_type().is_socket()));
    // A directory on the way may be a link; the mount goes to the real place.
    let mut found: Vec<PathBuf> = found.into_iter().filter_map(|path| fs::canonicalize(path).ok()).collect();
    found.sort();
    found.dedup();
    found
}

fn sockets_in(table: &[u8]) -> Vec<PathBuf> {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let path = |line: &[u8]| {
        let at = line.windows(2).position(|pair| pair == b" /")?;
        Some(PathBuf::from(OsStr::from_bytes(&line[at + 1..])))
    };
    table.split(|byte| *byte == b'\n').filter_map(path).collect()
}

/// The list for this document on this machine.
pub(super) fn list(document: &Confinement, machine: &Machine) -> Vec<Place> {
    let mut places: Vec<Place> = Vec::new();
    let mut put = |at: PathBuf, what: What| places.push(Place { at, what });
    put("/proc".into(), What::Proc);
    put("/dev".into(), What::Dev);
    put("/dev/shm".into(), What::Memory);
    put("/dev/pts".into(), What::Terminals);
    for name in DEVICES {
        put(Path::new("/dev").join(name), What::Device);
    }
    for (name, target) in DEVICE_LINKS {
        put(Path::new("/dev").join(name), What::Link(target.into()));
    }
    for path in &document.devices {
        put(path.clone(), What::Device);
    }
    for path in &machine.temporary {
        put(path.clone(), What::From(document.tmp.clone()));
    }
    for path in &machine.run {
        put(path.clone(), What::Nothing);
    }
    for (path, target) in &machine.kept {
        put(path.clone(), target.clone().map_or(What::Same { write: false }, What::Link));
    }
    let is_asked = |place: &Place| document.rules.iter().any(|rule| rule.path == place.at);
    places.retain(|place| !is_asked(place));
    // Entries of a directory that is copied in parts come first: a rule for the same path replaces them.
    let (copies, others): (Vec<_>, Vec<_>) =
        document.rules.iter().partition(|rule| matches!(rule.access, PathAccess::Copy { .. }));
    for rule in copies.into_iter().chain(others) {
        let what = match &rule.access {
            PathAccess::Write => What::Same { write: true },
            PathAccess::Read => What::Same { write: false },
            PathAccess::Hide => What::Nothing,
            PathAccess::Copy { upper, work } => {
                let split = machine.split.iter().find(|split| split.dir == rule.path);
                for entry in split.iter().flat_map(|split| &split.entries) {
                    if let Some(name) = entry.file_name() {
                        let what = What::Copy { upper: upper.join(name), work: work.join(name) };
                        places.push(Place { at: entry.clone(), what });
                    }
                }
                match split {
                    Some(_) => What::Same { write: false },
                    None => What::Copy { upper: upper.clone(), work: work.clone() },
                }
            }
        };
        places.push(Place { at: rule.path.clone(), what });
    }
    for socket in &document.sockets {
        // Reachable where it is, and read-only: connecting is not writing.
        places.push(Place { at: socket.clone(), what: What::Same { write: false } });
    }
    sort(&mut places);
    for socket in machine.sockets.iter().filter(|socket| !document.sockets.contains(socket)) {
        // What is hidden needs no cover, and what is writable is the program's own.
        let visible = match around(&places, socket) {
            None => true,
            Some(place) => matches!(place.what, What::Same { write: false } | What::Copy { .. }),
        };
        if visible {
            places.push(Place { at: socket.clone(), what: What::Nothing });
        }
    }
    sort(&mut places);
    without_needless(places)
}

/// Nearest to the root first; among equals the later entry of the document is the later one.
fn sort(places: &mut [Place]) {
    places.sort_by_key(|place| place.at.components().count());
}

/// The place that decides about what is at `path`, of those before it.
fn around<'a>(places: &'a [Place], path: &Path) -> Option<&'a Place> {
    places.iter().rev().find(|place| path.starts_with(&place.at))
}

/// Leaves out what already is as it should be: fewer mounts, less time.
fn without_needless(places: Vec<Place>) -> Vec<Place> {
    let mut kept: Vec<Place> = Vec::with_capacity(places.len());
    for place in places {
        // Two rules for one path: the later one counts.
        kept.retain(|before| before.at != place.at);
        let outer = around(&kept, &place.at).map(|outer| &outer.what);
        let needless = match (&place.what, outer) {
            // What no rule names is read-only.
            (What::Same { write: false }, None | Some(What::Same { write: false })) => true,
            (What::Same { write: true }, Some(What::Same { write: true })) => true,
            (What::Nothing, Some(What::Nothing)) => true,
            _ => false,
        };
        if !needless {
            kept.push(place);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use regatta_core::sandbox::plan::VERSION;
    use regatta_core::sandbox::{Level, Net, PathRule};

    use super::*;

    fn document(rules: &[(&str, PathAccess)]) -> Confinement {
        Confinement {
            version: VERSION,
            level: Level::Full,
            rules: rules
                .iter()
                .map(|(path, access)| PathRule { path: path.into(), access: access.clone() })
                .collect(),
            tmp: "/box/tmp".into(),
            network: Net::Host,
            sockets: Vec::new(),
            devices: Vec::new(),
            nested: false,
            processes: None,
            memory: None,
            abi: None,
        }
    }

    fn machine() -> Machine {
        Machine {
            temporary: vec!["/tmp".into()],
            run: vec!["/run".into()],
            kept: vec![("/run/systemd/resolve".into(), None)],
            split: Vec::new(),
            sockets: vec!["/run/docker.sock".into(), "/srv/db.sock".into(), "/lane/own.sock".into()],
        }
    }

    fn order(document: &Confinement) -> Vec<(String, What)> {
        let at = |place: Place| (place.at.display().to_string(), place.what);
        list(document, &machine()).into_iter().map(at).collect()
    }

    fn position(order: &[(String, What)], path: &str) -> usize {
        order.iter().position(|(at, _)| at == path).unwrap_or_else(|| panic!("{path} is not in {order:?}"))
    }

    #[test]
    fn what_is_nearer_to_the_root_is_mounted_first() {
        // As the policy might order them, and in the worst order.
        let rules = [
            ("/tmp/p/.regatta", PathAccess::Hide),
            ("/tmp/p", PathAccess::Read),
            ("/dev/shm/q", PathAccess::Write),
        ];
        let order = order(&document(&rules));
        assert!(position(&order, "/tmp") < position(&order, "/tmp/p"));
        assert!(position(&order, "/tmp/p") < position(&order, "/tmp/p/.regatta"));
        assert!(position(&order, "/dev") < position(&order, "/dev/shm"));
        assert!(position(&order, "/dev/shm") < position(&order, "/dev/shm/q"));
        assert_eq!(order[position(&order, "/tmp/p/.regatta")].1, What::Nothing);
    }

    #[test]
    fn only_sockets_that_are_seen_and_not_its_own_are_covered() {
        let mut document = document(&[("/lane", PathAccess::Write)]);
        let covered = |document: &Confinement| {
            let order = order(document);
            let names =
                order.into_iter().filter(|(at, what)| at.ends_with(".sock") && *what == What::Nothing);
            names.map(|(at, _)| at).collect::<Vec<_>>()
        };
        assert_eq!(covered(&document), ["/srv/db.sock"]);
        document.sockets = vec!["/srv/db.sock".into()];
        assert!(covered(&document).is_empty());
        document.sockets = vec!["/run/docker.sock".into()];
        let order = order(&document);
        assert_eq!(order[position(&order, "/run/docker.sock")].1, What::Same { write: false });
    }

    #[test]
    fn nothing_is_mounted_twice_and_nothing_without_need() {
        let rules = [
            ("/usr", PathAccess::Read),
            ("/lane", PathAccess::Write),
            ("/lane/a", PathAccess::Write),
            ("/lane/keep", PathAccess::Read),
            ("/lanes", PathAccess::Hide),
            ("/lanes/b", PathAccess::Hide),
            ("/tmp", PathAccess::Write),
        ];
        let order = order(&document(&rules));
        for needless in ["/usr", "/lane/a", "/lanes/b"] {
            assert!(order.iter().all(|(at, _)| at != needless), "{needless} in {order:?}");
        }
        assert_eq!(order[position(&order, "/lane/keep")].1, What::Same { write: false });
        // A rule for a fixed place replaces it.
        assert_eq!(order[position(&order, "/tmp")].1, What::Same { write: true });
        let mut names: Vec<&String> = order.iter().map(|(at, _)| at).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), order.len());
    }

    #[test]
    fn a_home_with_a_mount_below_is_copied_in_parts() {
        let copy = PathAccess::Copy { upper: "/box/up".into(), work: "/box/wk".into() };
        let document = document(&[("/home/u", copy), ("/home/u/.ssh", PathAccess::Hide)]);
        let entries = vec!["/home/u/.cache".into(), "/home/u/.ssh".into()];
        let split = vec![Split { dir: "/home/u".into(), entries }];
        let places = list(&document, &Machine { split, ..machine() });
        let at = |path: &str| {
            places
                .iter()
                .filter(|place| place.at == Path::new(path))
                .map(|place| &place.what)
                .collect::<Vec<_>>()
        };
        assert!(at("/home/u").is_empty(), "read-only, as everything is");
        assert_eq!(
            at("/home/u/.cache"),
            [&What::Copy { upper: "/box/up/.cache".into(), work: "/box/wk/.cache".into() }]
        );
        assert_eq!(at("/home/u/.ssh"), [&What::Nothing]);
    }

    #[test]
    fn mount_points_are_read_from_the_kernels_table() {
        let table = b"22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n\
            30 22 0:25 / /home/u/a\\040b\\134 rw - tmpfs t rw\n\n";
        assert_eq!(mount_points(table), [PathBuf::from("/"), PathBuf::from("/home/u/a b\\")]);
    }

    #[test]
    fn paths_of_sockets_are_read_from_the_kernels_table() {
        let table = b"Num RefCount Protocol Flags Type St Inode Path\n\
            0000: 00000002 00000000 00010000 0001 01 1234 /run/a b.sock\n\
            0000: 00000002 00000000 00010000 0001 01 1235 @/tmp/.X11-unix/X0\n\
            0000: 00000002 00000000 00000000 0002 01 1236\n\
            0000: 00000002 00000000 00000000 0002 01 1237 relative/path\n";
        assert_eq!(sockets_in(table), [PathBuf::from("/run/a b.sock")]);
    }
}
