//! **A pid alone identifies no process.** Pids are reused, and a zombie still answers `kill(pid, 0)`: a process is
//! identified by its boot, pid namespace, pid and start time, and one that only waits to be reaped counts as dead. If
//! its state cannot be determined from here, it is unknown, never dead.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

use super::host;

/// The identity of one process, by which others can find it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Identity {
    /// The kernel's random id of this boot.
    pub boot_id: String,
    /// Its process id.
    pub pid: u32,
    /// Clock ticks between boot and its start.
    pub starttime: u64,
    /// The machine's id, independent of its name; unknown in records of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// The pid namespace that the pid belongs to; unknown in records of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid_ns: Option<u64>,
}

/// The state of a process as seen from here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// It is running.
    Alive,
    /// It has ended, or only waits to be reaped.
    Dead,
    /// It belongs to another machine, or to a pid namespace that is not visible from here.
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

    /// The current process.
    pub fn current() -> io::Result<Self> {
        Self::of(std::process::id())
    }

    /// True while this process, and not a later one with its pid, is certainly running.
    pub fn is_alive(&self) -> bool {
        self.life() == Life::Alive
    }

    /// True if this process has certainly ended. Not the opposite of [`is_alive`](Self::is_alive).
    pub fn is_dead(&self) -> bool {
        self.life() == Life::Dead
    }

    /// Like [`is_dead`](Self::is_dead), and also true if an older version, without namespaces, would have said so: for
    /// locks whose files outlive an upgrade and protect nothing valuable.
    pub fn seems_gone(&self) -> bool {
        self.is_dead() || (self.pid_ns.is_none() && !self.is_alive())
    }

    /// Its state as seen from here.
    ///
    /// A pid is looked up only if it has the same meaning here: in the same pid namespace of the same boot. Processes
    /// of an earlier boot of this machine are dead. Everything else is unknown. A namespace's number is reused only
    /// when the namespace, and so every process in it, is gone.
    pub fn life(&self) -> Life {
        let (Ok(boot), here) = (host::boot_id(), host::machine()) else { return Life::Unknown };
        if boot != self.boot_id {
            let is_earlier = self.machine.is_some() && self.machine == here;
            return if is_earlier { Life::Dead } else { Life::Unknown };
        }
        match Stat::load(self.pid) {
            // Boot, pid and start time are equal to the tick: in whatever namespace, it is the same process.
            Ok(stat) if stat.starttime == self.starttime && !stat.is_dead() && self.may_be_seen() => {
                Life::Alive
            }
            _ if self.is_seen() => Life::Dead,
            _ => Life::Unknown,
        }
    }

    /// Whether its pid certainly has the same meaning here.
    fn is_seen(&self) -> bool {
        self.pid_ns.is_some() && self.pid_ns == host::pid_namespace()
    }

    fn may_be_seen(&self) -> bool {
        self.pid_ns.is_none() || self.is_seen()
    }

    /// Whether both identify the same process, even if an older version recorded less.
    pub fn is_same(&self, other: &Self) -> bool {
        fn agree<T: PartialEq>(one: Option<&T>, other: Option<&T>) -> bool {
            one.zip(other).is_none_or(|(one, other)| one == other)
        }
        (&self.boot_id, self.pid, self.starttime) == (&other.boot_id, other.pid, other.starttime)
            && agree(self.pid_ns.as_ref(), other.pid_ns.as_ref())
    }
}

impl Identity {
    /// A handle that refers to this process while it is held; `None` if it has ended.
    fn pidfd(&self) -> io::Result<Option<OwnedFd>> {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        let Some(pid) = pid else { return Ok(None) };
        match pidfd_open(pid, PidfdFlags::empty()) {
            // Checked only now: a pid reused in between is detected.
            Ok(fd) => Ok(self.is_alive().then_some(fd)),
            Err(rustix::io::Errno::SRCH) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Sends a signal to this process, never to another that has its pid by now.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        match self.pidfd()? {
            Some(fd) => Ok(pidfd_send_signal(&fd, signal)?),
            None => Ok(()),
        }
    }

    /// Waits for its end, blocking this thread; false if it is still alive after `patience`.
    pub fn wait_gone(&self, patience: Duration) -> io::Result<bool> {
        let Some(fd) = self.pidfd()? else { return Ok(true) };
        let patience = Timespec::try_from(patience).map_err(io::Error::other)?;
        let ready = rustix::event::poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&patience))?;
        Ok(ready > 0)
    }
}

/// The fields of `/proc/<pid>/stat` that Regatta uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) state: u8,
    pub(crate) ppid: u32,
    /// Processor time of reaped descendants, in clock ticks.
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
        // The name in parentheses may contain spaces and parentheses: count from the last one.
        let close = bytes.iter().rposition(|&byte| byte == b')')?;
        let rest = std::str::from_utf8(&bytes[close + 1..]).ok()?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        let field = |number: usize| fields.get(number - 3).copied();
        let number = |at: usize| field(at).and_then(|text| text.parse::<u64>().ok());
        Some(Self {
            state: *field(3)?.as_bytes().first()?,
            ppid: u32::try_from(number(4)?).ok()?,
            // Signed in the kernel's table; a negative value would be nonsense and counts as zero.
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
        // Another start time: the pid was given to another process since.
        assert_eq!(Identity { starttime: me.starttime + 1, ..me.clone() }.life(), Life::Dead);
        assert!(me.is_same(&Identity { machine: None, pid_ns: None, ..me.clone() }));
        assert!(!me.is_same(&Identity { starttime: me.starttime + 1, ..me.clone() }));
    }

    #[test]
    fn only_what_was_seen_from_here_is_called_dead() {
        let me = Identity::current().unwrap();
        let gone = Identity { starttime: me.starttime + 1, ..me.clone() };
        let life = |identity: Identity| identity.life();
        // Its pid has another meaning in another namespace; if the namespace is unknown, so is the state.
        assert_eq!(life(Identity { pid_ns: Some(1), ..gone.clone() }), Life::Unknown);
        assert_eq!(life(Identity { pid_ns: Some(1), ..me.clone() }), Life::Unknown);
        assert_eq!(life(Identity { pid_ns: None, ..gone.clone() }), Life::Unknown);
        assert_eq!(life(Identity { pid_ns: None, ..me.clone() }), Life::Alive);
        // An earlier boot of this machine is over; the boot of another machine is unknown.
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
