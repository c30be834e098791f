//! **A pid alone names nobody.** Pids are reused, and a zombie still answers `kill(pid, 0)`: a process is
//! named by the boot and the pid namespace it belongs to, its pid and its start time, and one that is only waiting
//! to be reaped counts as dead. What cannot be told from here is said to be unknown, never dead.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

use super::host;

/// One process, as whoever started it can be found by others.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Identity {
    /// The kernel's random id of this boot.
    pub boot_id: String,
    /// Its process id.
    pub pid: u32,
    /// Clock ticks between boot and its start.
    pub starttime: u64,
    /// The machine, whatever it is called; unknown in records of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// The pid namespace that the pid belongs to; unknown in records of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid_ns: Option<u64>,
}

/// What can be told of a process from here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// It can still do something.
    Alive,
    /// It is gone, or only waits to be reaped.
    Dead,
    /// It belongs to another machine, or to pids that are not seen from here.
    Unknown,
}

impl Identity {
    /// The process that has this pid now, alive or a zombie.
    pub fn of(pid: u32) -> io::Result<Self> {
        Ok(Self {
            boot_id: host::boot_id()?,
            pid,
            starttime: Stat::load(pid)?.starttime,
            machine: host::machine(),
            pid_ns: host::pid_namespace(),
        })
    }

    /// This very process.
    pub fn current() -> io::Result<Self> {
        Self::of(std::process::id())
    }

    /// True while this process, and not a later one with its pid, can certainly still do something.
    pub fn is_alive(&self) -> bool {
        self.life() == Life::Alive
    }

    /// True where this process is certainly gone. Not the contrary of [`is_alive`](Self::is_alive).
    pub fn is_dead(&self) -> bool {
        self.life() == Life::Dead
    }

    /// As [`is_dead`](Self::is_dead), and also where an older version, which knew no namespaces, would have said so:
    /// for locks whose files outlive an upgrade and guard nothing that would be lost.
    pub fn seems_gone(&self) -> bool {
        self.is_dead() || (self.pid_ns.is_none() && !self.is_alive())
    }

    /// What can be told from here.
    ///
    /// A pid is looked up only where it means the same there as here: in the same pid namespace of the same boot. An
    /// earlier boot of this very machine left nobody alive. Everything else is unknown. A namespace's number is used
    /// again only when the namespace, and so everybody in it, is gone.
    pub fn life(&self) -> Life {
        let (Ok(boot), here) = (host::boot_id(), host::machine()) else { return Life::Unknown };
        if boot != self.boot_id {
            let is_earlier = self.machine.is_some() && self.machine == here;
            return if is_earlier { Life::Dead } else { Life::Unknown };
        }
        match Stat::load(self.pid) {
            // Boot, pid and start time to the tick: in whatever namespace, this is no other.
            Ok(stat) if stat.starttime == self.starttime && !stat.is_dead() && self.may_be_seen() => {
                Life::Alive
            }
            _ if self.is_seen() => Life::Dead,
            _ => Life::Unknown,
        }
    }

    /// Whether its pid certainly means here what it meant there.
    fn is_seen(&self) -> bool {
        self.pid_ns.is_some() && self.pid_ns == host::pid_namespace()
    }

    fn may_be_seen(&self) -> bool {
        self.pid_ns.is_none() || self.is_seen()
    }

    /// Whether both name the same process, also where one was written by a version that knew less.
    pub fn is_same(&self, other: &Self) -> bool {
        fn agree<T: PartialEq>(one: Option<&T>, other: Option<&T>) -> bool {
            one.zip(other).is_none_or(|(one, other)| one == other)
        }
        (&self.boot_id, self.pid, self.starttime) == (&other.boot_id, other.pid, other.starttime)
            && agree(self.pid_ns.as_ref(), other.pid_ns.as_ref())
    }
}

impl Identity {
    /// A handle that means this process for as long as it is held; `None` if it is gone.
    fn pidfd(&self) -> io::Result<Option<OwnedFd>> {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        let Some(pid) = pid else { return Ok(None) };
        match pidfd_open(pid, PidfdFlags::empty()) {
            // Asked only now: a pid that was reused in between is found out.
            Ok(fd) => Ok(self.is_alive().then_some(fd)),
            Err(rustix::io::Errno::SRCH) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Sends a signal to this process and to no other that has its pid by now.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        match self.pidfd()? {
            Some(fd) => Ok(pidfd_send_signal(&fd, signal)?),
            None => Ok(()),
        }
    }

    /// Waits for its end, blocking this thread; false if it outlives `patience`.
    pub fn wait_gone(&self, patience: Duration) -> io::Result<bool> {
        let Some(fd) = self.pidfd()? else { return Ok(true) };
        let patience = Timespec::try_from(patience).map_err(io::Error::other)?;
        let ready = rustix::event::poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&patience))?;
        Ok(ready > 0)
    }
}

/// The fields of `/proc/<pid>/stat` that Regatta looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) state: u8,
    pub(crate) ppid: u32,
    /// Processor time of the descendants that were waited for, in clock ticks.
    pub(crate) reaped_ticks: u64,
    pub(crate) starttime: u64,
}

impl Stat {
    pub(crate) fn load(pid: u32) -> io::Result<Self> {
        let bytes = fs::read(format!("/proc/{pid}/stat"))?;
        Self::parse(&bytes)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "unreadable /proc/<pid>/stat"))
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        // The name in parentheses may hold spaces and parentheses of its own: count from the last one.
        let close = bytes.iter().rposition(|&byte| byte == b')')?;
        let rest = std::str::from_utf8(&bytes[close + 1..]).ok()?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        let field = |number: usize| fields.get(number - 3).copied();
        let number = |at: usize| field(at).and_then(|text| text.parse::<u64>().ok());
        Some(Self {
            state: *field(3)?.as_bytes().first()?,
            ppid: u32::try_from(number(4)?).ok()?,
            // Signed in the kernel's table; a negative count would be nonsense, so it is read as none.
            reaped_ticks: number(16).unwrap_or(0) + number(17).unwrap_or(0),
            starttime: number(22)?,
        })
    }

    /// Ended, and at most waiting to be reaped.
    pub(crate) fn is_dead(self) -> bool {
        matches!(self.state, b'Z' | b'X' | b'x')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostile_name_does_not_shift_the_fields() {
        let line = b"42 (a) Z 1 (b) S 7 42 42 0 -1 4194560 1 2 0 0 3 4 5 6 20 0 1 0 98765 10 11";
        let stat = Stat::parse(line).unwrap();
        assert_eq!(stat, Stat { state: b'S', ppid: 7, reaped_ticks: 11, starttime: 98765 });
    }

    #[test]
    fn a_process_knows_itself() {
        let me = Identity::current().unwrap();
        assert!(me.is_alive());
        assert!(!Identity { starttime: me.starttime + 1, ..me.clone() }.is_alive());
        // A start time that is another's: the pid was given to somebody else since.
        assert_eq!(Identity { starttime: me.starttime + 1, ..me.clone() }.life(), Life::Dead);
        assert!(me.is_same(&Identity { machine: None, pid_ns: None, ..me.clone() }));
        assert!(!me.is_same(&Identity { starttime: me.starttime + 1, ..me.clone() }));
    }

    #[test]
    fn only_what_was_seen_from_here_is_called_dead() {
        let me = Identity::current().unwrap();
        let gone = Identity { starttime: me.starttime + 1, ..me.clone() };
        let life = |identity: Identity| identity.life();
        // Its pid means something else in another namespace, and nothing can be said where that is not known.
        assert_eq!(life(Identity { pid_ns: Some(1), ..gone.clone() }), Life::Unknown);
        assert_eq!(life(Identity { pid_ns: Some(1), ..me.clone() }), Life::Unknown);
        assert_eq!(life(Identity { pid_ns: None, ..gone.clone() }), Life::Unknown);
        assert_eq!(life(Identity { pid_ns: None, ..me.clone() }), Life::Alive);
        // An earlier boot of this machine is over; the boot of another machine is not known.
        let elsewhen = Identity { boot_id: "another boot".into(), ..me };
        assert_eq!(life(elsewhen.clone()), Life::Dead);
        assert_eq!(life(Identity { pid_ns: Some(1), ..elsewhen.clone() }), Life::Dead);
        assert_eq!(life(Identity { machine: Some("other".into()), ..elsewhen.clone() }), Life::Unknown);
        assert_eq!(life(Identity { machine: None, ..elsewhen }), Life::Unknown);
    }

    #[test]
    fn a_zombie_is_dead() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let identity = Identity::of(child.id()).unwrap();
        while identity.life() != Life::Dead {
            std::thread::yield_now();
        }
        assert_eq!(Stat::load(child.id()).unwrap().state, b'Z', "not reaped yet");
        child.wait().unwrap();
        assert_eq!(identity.life(), Life::Dead);
    }

    #[test]
    fn a_record_of_an_older_version_is_read() {
        let old = r#"{"boot_id":"b","pid":7,"starttime":9}"#;
        let read: Identity = serde_json::from_str(old).unwrap();
        assert_eq!((read.machine.clone(), read.pid_ns, read.life()), (None, None, Life::Unknown));
        assert_eq!(serde_json::to_string(&read).unwrap(), old);
    }
}
