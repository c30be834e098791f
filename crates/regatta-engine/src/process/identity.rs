//! **A pid alone names nobody.** Pids are reused, and a zombie still answers `kill(pid, 0)`: a process is
//! named by the boot it belongs to, its pid and its start time, and one that is only waiting to be reaped
//! counts as dead.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

/// One process of one boot of this machine.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Identity {
    /// The kernel's random id of this boot.
    pub boot_id: String,
    /// Its process id.
    pub pid: u32,
    /// Clock ticks between boot and its start.
    pub starttime: u64,
}

impl Identity {
    /// The process that has this pid now, alive or a zombie.
    pub fn of(pid: u32) -> io::Result<Self> {
        Ok(Self { boot_id: boot_id()?, pid, starttime: Stat::load(pid)?.starttime })
    }

    /// This very process.
    pub fn current() -> io::Result<Self> {
        Self::of(std::process::id())
    }

    /// True while this process, and not a later one with its pid, can still do something.
    pub fn is_alive(&self) -> bool {
        boot_id().is_ok_and(|boot| boot == self.boot_id)
            && Stat::load(self.pid).is_ok_and(|stat| stat.starttime == self.starttime && !stat.is_dead())
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

fn boot_id() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
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
        assert!(!Identity { boot_id: "another boot".into(), ..me }.is_alive());
    }
}
