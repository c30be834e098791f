//! What this machine can do, found out by really doing it in a child process.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};

use regatta_core::sandbox::{Level, NoNamespaces};
use serde::{Deserialize, Serialize};

use super::forced::Forced;
use super::mounts::Tried;
use super::{landlock, mounts, sys};

/// What a machine can do. Each `Err` says why not, in a sentence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// User, mount, pid, ipc and net namespaces.
    pub namespaces: Result<(), NoNamespaces>,
    /// Copies on write of a directory, inside namespaces.
    pub overlay: Result<(), String>,
    /// A `/proc` of its own, inside namespaces.
    pub proc: Result<(), String>,
    /// The Landlock ABI; `None` if there is none.
    pub landlock: Option<u32>,
    /// Filters of system calls.
    pub seccomp: bool,
}

impl Machine {
    /// The strongest level that this machine has; [`Level::Off`] if it has none.
    pub fn best(&self) -> Level {
        if !self.seccomp {
            return Level::Off;
        }
        match (&self.namespaces, self.usable_landlock()) {
            (Ok(()), _) => Level::Full,
            (Err(_), Some(_)) => Level::Files,
            (Err(_), None) => Level::Off,
        }
    }

    /// The Landlock ABI, if it is one under which programs work.
    pub fn usable_landlock(&self) -> Option<u32> {
        self.landlock.filter(|version| *version >= landlock::OLDEST)
    }
}

/// Finds out what this machine can do, once per process. `exe` is the `regatta` binary.
pub fn probe(exe: &Path) -> Machine {
    static KNOWN: OnceLock<Mutex<BTreeMap<PathBuf, Machine>>> = OnceLock::new();
    let known = KNOWN.get_or_init(Mutex::default);
    // Held while it is found out: the second caller waits for the first.
    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
    known.entry(exe.to_owned()).or_insert_with(|| ask(exe)).clone()
}

fn ask(exe: &Path) -> Machine {
    let answer = Command::new(exe)
        .args(["confine", "--probe"])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .and_then(|output| Ok(serde_json::from_slice(&output.stdout)?));
    answer.unwrap_or_else(|error: io::Error| {
        let why = format!("{} could not be asked: {error}", exe.display());
        Machine {
            namespaces: Err(NoNamespaces::Other(why.clone())),
            overlay: Err(why.clone()),
            proc: Err(why),
            landlock: None,
            seccomp: false,
        }
    })
}

/// In the child: prints what it found out.
pub(super) fn report() -> i32 {
    let machine = find_out(&Forced::from_environment());
    let mut line = serde_json::to_vec(&machine).unwrap_or_default();
    line.push(b'\n');
    i32::from(rustix::io::write(rustix::stdio::stdout(), &line).is_err())
}

fn find_out(forced: &Forced) -> Machine {
    let landlock = sys::landlock_abi().ok().map(|version| version.min(forced.abi.unwrap_or(u32::MAX)));
    let (namespaces, overlay, proc) = match in_namespaces(forced) {
        Ok((overlay, proc)) => (Ok(()), overlay, proc),
        Err(why) => (Err(why.clone()), Err(why.to_string()), Err(why.to_string())),
    };
    Machine {
        namespaces,
        overlay,
        proc,
        landlock: landlock.filter(|version| *version > 0),
        seccomp: sys::has_seccomp(),
    }
}

/// Goes through the steps of the full level that a machine may refuse.
fn in_namespaces(forced: &Forced) -> Result<(Tried, Tried), NoNamespaces> {
    let other = |error: io::Error| NoNamespaces::Other(error.to_string());
    let (mut answer, reply) = io::pipe().map_err(other)?;
    // Nothing of this is to last in the process that asks.
    let child = sys::fork().map_err(other)?;
    if child.is_none() {
        let tried =
            super::stages::try_namespaces(forced).map_err(|fault| why_refused(&fault)).and_then(|()| {
                match sys::fork() {
                    // The first process of the new pid namespace, which alone may have a `/proc`.
                    Ok(None) => {
                        let tried = mounts::try_weak_steps(forced).map_err(NoNamespaces::Other);
                        say(&reply, &tried);
                        sys::exit(0)
                    }
                    Ok(Some(first)) => {
                        let _ = rustix::process::waitpid(Some(first), rustix::process::WaitOptions::empty());
                        Ok(())
                    }
                    Err(error) => {
                        Err(NoNamespaces::Other(format!("a process cannot be started in them: {error}")))
                    }
                }
            });
        if tried.is_err() {
            say(&reply, &tried.map(|()| (Ok(()), Ok(()))));
        }
        sys::exit(0)
    }
    drop(reply);
    let mut text = Vec::new();
    let _ = answer.read_to_end(&mut text);
    if let Some(child) = child {
        let _ = rustix::process::waitpid(Some(child), rustix::process::WaitOptions::empty());
    }
    serde_json::from_slice(&text)
        .unwrap_or_else(|_| Err(NoNamespaces::Other("the process that tried it ended".into())))
}

fn say(reply: &impl AsFd, tried: &Result<(Tried, Tried), NoNamespaces>) {
    let _ = rustix::io::write(reply, &serde_json::to_vec(tried).unwrap_or_default());
}

/// The usual reasons, by what the machine says about itself.
fn why_refused(fault: &super::report::Fault) -> NoNamespaces {
    let is_set = |path: &str, value: &str| fs::read_to_string(path).is_ok_and(|text| text.trim() == value);
    if is_set("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1") {
        return NoNamespaces::AppArmor;
    }
    if is_set("/proc/sys/user/max_user_namespaces", "0") {
        return NoNamespaces::SwitchedOff;
    }
    if is_set("/proc/sys/kernel/unprivileged_userns_clone", "0") {
        return NoNamespaces::RootOnly;
    }
    match fault.errno {
        Some(libc::EPERM) => NoNamespaces::NotPermitted,
        Some(libc::ENOSPC) => NoNamespaces::LimitReached,
        Some(libc::EINVAL) => NoNamespaces::NotInKernel,
        _ => NoNamespaces::Other(fault.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_level_follows_from_what_the_machine_has() {
        let no = || Err("no".to_owned());
        let none = || Err(NoNamespaces::NotInKernel);
        let machine =
            |namespaces, landlock| Machine { namespaces, overlay: no(), proc: no(), landlock, seccomp: true };
        assert_eq!(machine(Ok(()), Some(7)).best(), Level::Full);
        assert_eq!(machine(Ok(()), None).best(), Level::Full);
        assert_eq!(machine(none(), Some(2)).best(), Level::Files);
        // Under the first version programs fail.
        assert_eq!(machine(none(), Some(1)).best(), Level::Off);
        assert_eq!(machine(none(), None).best(), Level::Off);
        assert_eq!(Machine { seccomp: false, ..machine(Ok(()), Some(7)) }.best(), Level::Off);
    }
}
