//! **A signal reaches the intended process and no other.** Processes are found by descent
//! (`/proc/<pid>/task/*/children`) and by the marker in their environment; they are remembered with their start time,
//! and a signal is sent through a pidfd after that start time was checked again behind it.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::identity::Stat;

/// The environment variable that every process of a run inherits.
pub const MARKER: &str = "REGATTA_RUN_ID";

/// A process as it was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Member {
    pub(crate) pid: u32,
    pub(crate) starttime: u64,
}

/// The result of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    Delivered,
    Gone,
    /// Another user's process, started through `sudo` or a set-uid program.
    Forbidden,
}

impl Member {
    fn load(pid: u32) -> Option<(Self, Stat)> {
        let stat = Stat::load(pid).ok()?;
        (!stat.is_dead()).then_some((Self { pid, starttime: stat.starttime }, stat))
    }

    pub(crate) fn signal(self, signal: Signal) -> Sent {
        let pidfd = match pidfd(self.pid, self.starttime) {
            Ok(pidfd) => pidfd,
            Err(_) => return Sent::Gone,
        };
        match pidfd_send_signal(pidfd, signal) {
            Ok(()) => Sent::Delivered,
            Err(Errno::PERM) => Sent::Forbidden,
            Err(_) => Sent::Gone,
        }
    }
}

/// A pidfd of exactly the process with this start time.
pub(crate) fn pidfd(pid: u32, starttime: u64) -> io::Result<OwnedFd> {
    let raw = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)?;
    let pidfd = pidfd_open(raw, PidfdFlags::empty())?;
    // Read after the pidfd was opened: if the start time is right now, the pidfd cannot be another's.
    let stat = Stat::load(pid)?;
    if stat.starttime == starttime && !stat.is_dead() { Ok(pidfd) } else { Err(Errno::SRCH.into()) }
}

/// Every live process below `root`, parents before their children.
pub(crate) fn descendants(root: u32) -> Vec<Member> {
    descendants_but(root, HashSet::new())
}

/// The same without the processes in `left_out` and those below them.
pub(crate) fn descendants_but(root: u32, left_out: HashSet<u32>) -> Vec<Member> {
    let mut found = Vec::new();
    let mut seen = left_out;
    seen.insert(root);
    let mut parents = vec![root];
    let everyone = (!has_children_file()).then(all_parents);
    while let Some(parent) = parents.pop() {
        let children = match &everyone {
            None => children(parent),
            Some(pairs) => pairs.iter().filter(|pair| pair.1 == parent).map(|pair| pair.0).collect(),
        };
        for child in children {
            // The parent is checked again: since it was listed the child may have ended and its pid may be a stranger's
            // by now.
            if let Ok(stat) = Stat::load(child)
                && stat.ppid == parent
                && seen.insert(child)
            {
                parents.push(child);
                if !stat.is_dead() {
                    found.push(Member { pid: child, starttime: stat.starttime });
                }
            }
        }
    }
    found
}

/// The time since the youngest process below `root` started; the maximum if there is none.
pub(crate) fn youngest(root: u32) -> Duration {
    let uptime = std::fs::read_to_string("/proc/uptime").unwrap_or_default();
    let uptime = uptime.split_whitespace().next().and_then(|seconds| seconds.parse::<f64>().ok());
    let last = descendants(root).iter().map(|member| member.starttime).max();
    let (Some(uptime), Some(last)) = (uptime, last) else { return Duration::MAX };
    #[expect(clippy::cast_precision_loss, reason = "ticks since the machine began")]
    let began = last as f64 / rustix::param::clock_ticks_per_second() as f64;
    Duration::try_from_secs_f64(uptime - began).unwrap_or_default()
}

/// Every other live process that carries the run's marker, whatever its parent.
pub(crate) fn marked(run_id: &str) -> Vec<Member> {
    let wanted = format!("{MARKER}={run_id}");
    carrying(|entry| entry == wanted.as_bytes())
}

/// Every other live process with such an entry, `NAME=value`, in its initial environment.
pub(crate) fn carrying(is_wanted: impl Fn(&[u8]) -> bool) -> Vec<Member> {
    let mut environ = Vec::new();
    let mut found = Vec::new();
    for pid in pids().filter(|&pid| pid != std::process::id()) {
        environ.clear();
        let carries = fs::File::open(format!("/proc/{pid}/environ"))
            .and_then(|mut file| file.read_to_end(&mut environ))
            .is_ok_and(|_| environ.split(|&byte| byte == 0).any(&is_wanted));
        if carries && let Some((member, _)) = Member::load(pid) {
            found.push(member);
        }
    }
    found
}

/// Every other live process.
pub(crate) fn everybody_else() -> impl Iterator<Item = Member> {
    let others = pids().filter(|&pid| pid != std::process::id());
    others.filter_map(|pid| Member::load(pid).map(|(member, _)| member))
}

/// Kills every live process that carries the run's marker, and returns their number.
///
/// For a run whose shim is [`Lost`](super::FoundRun::Lost). It never signals the calling process. It blocks (usually for
/// milliseconds, ten seconds if the kernel does not let a process die). A process that cleared its environment is not
/// found this way: only a living shim finds it.
pub fn sweep(run_id: &str) -> usize {
    let mut killed = HashSet::new();
    let mut forbidden = HashSet::new();
    let deadline = Instant::now() + Duration::from_secs(10);
    let mut pause = Duration::from_millis(1);
    let mut empty = 0;
    // Twice empty: a process can fork behind the scan's back and exit before the scan reaches it.
    while empty < 2 && Instant::now() < deadline {
        let found: Vec<_> = marked(run_id).into_iter().filter(|one| !forbidden.contains(one)).collect();
        if found.is_empty() {
            empty += 1;
            continue;
        }
        empty = 0;
        for &member in &found {
            member.signal(Signal::STOP);
        }
        for &member in &found {
            match member.signal(Signal::KILL) {
                Sent::Delivered => drop(killed.insert(member)),
                Sent::Forbidden => drop(forbidden.insert(member)),
                Sent::Gone => {}
            }
        }
        // Strangers' zombies cannot be awaited; give the kernel a moment before the next scan.
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(100));
    }
    killed.len()
}

/// The child of a namespace's first process that has this number inside.
pub(crate) fn child_numbered(first: u32, inside: u32) -> Option<u32> {
    let children = if has_children_file() {
        children(first)
    } else {
        all_parents().into_iter().filter(|pair| pair.1 == first).map(|pair| pair.0).collect()
    };
    let inner = |pid: u32| -> Option<u32> {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
        numbers.split_ascii_whitespace().last()?.parse().ok()
    };
    children.into_iter().find(|pid| inner(*pid) == Some(inside))
}

fn children(parent: u32) -> Vec<u32> {
    let mut found = Vec::new();
    for task in fs::read_dir(format!("/proc/{parent}/task")).into_iter().flatten().flatten() {
        if let Ok(text) = fs::read_to_string(task.path().join("children")) {
            found.extend(text.split_ascii_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
        }
    }
    found
}

/// Kernels built without `CONFIG_PROC_CHILDREN` lack the file.
fn has_children_file() -> bool {
    let me = std::process::id();
    fs::exists(format!("/proc/{me}/task/{me}/children")).unwrap_or(false)
}

fn all_parents() -> Vec<(u32, u32)> {
    pids().filter_map(|pid| Some((pid, Stat::load(pid).ok()?.ppid))).collect()
}

fn pids() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| OsStr::to_str(&entry.file_name())?.parse().ok())
}
