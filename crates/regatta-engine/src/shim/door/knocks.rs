//! **Only a pair of FIFOs that lies in the door's directory is ever opened.** The agent may put anything there: names
//! are checked, links are not followed, and what is not a FIFO is recognised before it is opened. A knock is taken once,
//! because it is removed before anything else happens.
//!
//! A client that has knocked writes a byte to the bell, a FIFO that the shim holds open. (Closing an inotify instance
//! would wait for the kernel, about 15 ms at the end of every attempt.) An agent that removes its bell makes its own
//! commands wait until the shim looks by itself.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, FlockOperation, Mode, OFlags, flock, fstat, mknodat, openat, unlinkat,
};
use rustix::io::Errno;

/// The end of the name of a knock.
pub const KNOCK: &str = ".knock";
/// The end of the name of the FIFO that carries the request.
pub const IN: &str = ".in";
/// The end of the name of the FIFO that carries the answer.
pub const OUT: &str = ".out";
/// The name of the FIFO that wakes the shim.
pub const BELL: &str = "bell";
/// The length of the name before these.
const ID: usize = 16;

/// Knocks that wait; more are refused.
pub(super) const MOST_WAITING: usize = 64;

/// The directory, and those who knocked.
pub(in crate::shim) struct Knocks {
    dir: OwnedFd,
    bell: OwnedFd,
    waiting: VecDeque<String>,
    /// There may be more in the directory than was read.
    is_behind: bool,
}

/// A second look at the door, for a thread that does not serve it.
pub(super) struct Outside {
    dir: OwnedFd,
    bell: OwnedFd,
}

impl Outside {
    /// Rings for clients that have knocked and can no longer do so.
    pub(super) fn ring(&self) {
        let Ok(mut dir) = Dir::read_from(&self.dir) else { return };
        if dir.any(|entry| entry.is_ok_and(|entry| entry.file_name().to_str().ok().and_then(id_of).is_some()))
        {
            // A full bell rings already.
            let _ = rustix::io::write(&self.bell, b"x");
        }
    }

    /// Whether the bell has rung and was not heard yet.
    pub(super) fn has_rung(&self) -> bool {
        let mut watched = [PollFd::new(&self.bell, PollFlags::IN)];
        poll(&mut watched, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|n| n > 0)
    }
}

/// The two FIFOs of a client.
pub(super) struct Client {
    pub(super) request: OwnedFd,
    pub(super) answer: OwnedFd,
}

impl Knocks {
    /// Takes over the directory, which must exist.
    pub(in crate::shim) fn watch(dir: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let dir = openat(CWD, dir, flags, Mode::empty())?;
        // By this a client knows that the door is served.
        flock(&dir, FlockOperation::NonBlockingLockExclusive)?;
        // An earlier one has no reader.
        let _ = unlinkat(&dir, BELL, AtFlags::empty());
        mknodat(&dir, BELL, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
        // Also for writing, so that it never ends.
        let bell = fifo(&dir, BELL, OFlags::RDWR)?;
        // What lies there already was put there before the bell.
        Ok(Self { dir, bell, waiting: VecDeque::new(), is_behind: true })
    }

    /// The same directory and bell.
    pub(super) fn outside(&self) -> io::Result<Outside> {
        Ok(Outside { dir: self.dir.try_clone()?, bell: self.bell.try_clone()? })
    }

    /// Readable when a client has rung.
    pub(super) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Whether a client is known to wait.
    pub(super) fn any_waiting(&self) -> bool {
        !self.waiting.is_empty() || self.is_behind
    }

    /// Whether there is more to read in the directory.
    pub(super) fn is_behind(&self) -> bool {
        self.is_behind
    }

    /// Reads who knocked. Returns those for whom the waiting list has no room.
    pub(super) fn hear(&mut self) -> Vec<String> {
        // First: who rings from now on wakes us again. All that a FIFO holds is read; more rings have us look again.
        let mut rings = [0; 1024];
        for _ in 0..64 {
            match rustix::io::read(&self.bell, &mut rings) {
                Ok(n) if n == rings.len() => {}
                Err(Errno::INTR) => {}
                _ => break,
            }
        }
        let mut too_many = Vec::new();
        self.is_behind = false;
        self.read_directory(&mut too_many);
        too_many
    }

    fn read_directory(&mut self, too_many: &mut Vec<String>) {
        let Ok(dir) = Dir::read_from(&self.dir) else { return };
        for entry in dir.flatten() {
            let Some(id) = entry.file_name().to_str().ok().and_then(id_of) else { continue };
            if self.waiting.iter().any(|waiting| waiting == id) {
                continue;
            }
            if self.waiting.len() < MOST_WAITING {
                self.waiting.push_back(id.to_owned());
            } else {
                too_many.push(id.to_owned());
            }
            // So that a flood keeps nobody waiting.
            if too_many.len() >= 4 * MOST_WAITING {
                self.is_behind = true;
                break;
            }
        }
    }

    /// The next client, if one waits that can be served.
    pub(super) fn next(&mut self) -> Option<Client> {
        while let Some(id) = self.waiting.pop_front() {
            if let Some(client) = self.take(&id) {
                return Some(client);
            }
        }
        None
    }

    /// Takes a knock: its names are gone afterwards. `None` if it was taken before, or is not what it should be.
    pub(super) fn take(&self, id: &str) -> Option<Client> {
        let name = |end: &str| format!("{id}{end}");
        // The first step: who removes it has it.
        unlinkat(&self.dir, name(KNOCK), AtFlags::empty()).ok()?;
        let request = fifo(&self.dir, &name(IN), OFlags::RDONLY);
        let answer = fifo(&self.dir, &name(OUT), OFlags::WRONLY);
        for end in [IN, OUT] {
            let _ = unlinkat(&self.dir, name(end), AtFlags::empty());
        }
        Some(Client { request: request.ok()?, answer: answer.ok()? })
    }
}

fn fifo(dir: &OwnedFd, name: &str, mode: OFlags) -> io::Result<OwnedFd> {
    // Nothing is opened by this, so a device notices nothing.
    let place = openat(dir, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    if FileType::from_raw_mode(fstat(&place)?.st_mode) != FileType::Fifo {
        return Err(Errno::INVAL.into());
    }
    // Writing fails at once if nobody reads.
    let flags = mode | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    Ok(openat(CWD, by_fd(place.as_fd()), flags, Mode::empty())?)
}

/// A path to what is open.
fn by_fd(fd: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

/// The id in the name of a knock.
fn id_of(name: &str) -> Option<&str> {
    let id = name.strip_suffix(KNOCK)?;
    let hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    (id.len() == ID && id.bytes().all(hex)).then_some(id)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn make_fifo(dir: &Path, name: &str) {
        mknodat(CWD, dir.join(name), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    }

    fn knock(dir: &Path, id: &str) {
        fs::write(dir.join("tmp"), "").unwrap();
        fs::rename(dir.join("tmp"), dir.join(format!("{id}{KNOCK}"))).unwrap();
    }

    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn only_its_own_names_are_knocks() {
        let good = "0123456789abcdef";
        assert_eq!(id_of(&format!("{good}.knock")), Some(good));
        for name in
            ["", ".knock", "0123456789abcde.knock", "0123456789ABCDEF.knock", "../3456789abcdef.knock"]
        {
            assert_eq!(id_of(name), None, "{name}");
        }
        assert_eq!(id_of(&format!("{good}.in")), None);
        assert_eq!(id_of(&format!("{good}0.knock")), None);
    }

    #[test]
    fn a_pair_of_fifos_is_taken_once_and_nothing_else_is() {
        let dir = tempfile::tempdir().unwrap();
        let early = "00000000000000aa";
        for end in [IN, OUT] {
            make_fifo(dir.path(), &format!("{early}{end}"));
        }
        knock(dir.path(), early);
        let mut knocks = Knocks::watch(dir.path()).unwrap();
        // Held as a client does, or the answer has no reader.
        let path = dir.path().join(format!("{early}{OUT}"));
        let flags = OFlags::RDONLY | OFlags::NONBLOCK;
        let _reader = openat(CWD, &path, flags, Mode::empty()).unwrap();
        assert!(knocks.hear().is_empty());
        assert!(knocks.next().is_some(), "it knocked before the bell was there");
        assert!(knocks.take(early).is_none(), "taken already");
        assert_eq!(names(dir.path()), [BELL], "its names are gone");

        let secret = dir.path().join("secret");
        fs::write(&secret, "s").unwrap();
        let hostile = ["1111111111111111", "2222222222222222", "3333333333333333", "4444444444444444"];
        std::os::unix::fs::symlink(&secret, dir.path().join(format!("{}{IN}", hostile[0]))).unwrap();
        fs::create_dir(dir.path().join(format!("{}{IN}", hostile[1]))).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(dir.path().join(format!("{}{IN}", hostile[2])));
        std::os::unix::fs::symlink("/dev/null", dir.path().join(format!("{}{IN}", hostile[3]))).unwrap();
        for id in hostile {
            make_fifo(dir.path(), &format!("{id}{OUT}"));
            knock(dir.path(), id);
        }
        fs::create_dir(dir.path().join(format!("5555555555555555{KNOCK}"))).unwrap();
        assert!(knocks.hear().is_empty());
        assert!(knocks.next().is_none());
        assert_eq!(fs::read_to_string(&secret).unwrap(), "s");
    }

    #[test]
    fn a_flood_of_knocks_is_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let mut knocks = Knocks::watch(dir.path()).unwrap();
        for n in 0..2000 {
            knock(dir.path(), &format!("{n:016x}"));
        }
        let mut refused = 0;
        for _ in 0..20 {
            for id in knocks.hear() {
                knocks.take(&id);
                refused += 1;
            }
        }
        assert_eq!(refused, 2000 - MOST_WAITING);
        assert!(knocks.next().is_none(), "none of them has FIFOs");
        assert_eq!(names(dir.path()), [BELL]);
    }
}
