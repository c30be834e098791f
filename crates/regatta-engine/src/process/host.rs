//! **The scope of a pid.** A pid names a process only within one pid namespace of one boot of one machine.
//!
//! The host name is not used: DHCP changes it, and two machines may have the same one. The machine is identified by
//! `/etc/machine-id`, hashed as its manual page asks; without one (small containers), by a random id in the user's own
//! state.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::OnceLock;

use regatta_core::hex::hex;

use sha2::{Digest, Sha256};

use crate::files::{self, user_state};

/// The kernel's random id of this boot.
pub(super) fn boot_id() -> io::Result<String> {
    static BOOT: OnceLock<String> = OnceLock::new();
    if let Some(boot) = BOOT.get() {
        return Ok(boot.clone());
    }
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned();
    Ok(BOOT.get_or_init(|| boot).clone())
}

/// The pid namespace whose pids this process sees; `None` if the system does not provide it.
pub(super) fn pid_namespace() -> Option<u64> {
    static NAMESPACE: OnceLock<Option<u64>> = OnceLock::new();
    *NAMESPACE.get_or_init(|| fs::metadata("/proc/self/ns/pid").ok().map(|meta| meta.ino()))
}

/// The id of this machine, independent of its name; `None` if there is none.
pub(super) fn machine() -> Option<String> {
    static MACHINE: OnceLock<Option<String>> = OnceLock::new();
    MACHINE.get_or_init(|| pretended().or_else(given).or_else(made)).clone()
}

/// Another machine, for tests. Debug builds only.
fn pretended() -> Option<String> {
    std::env::var("REGATTA_TEST_MACHINE").ok().filter(|_| cfg!(debug_assertions))
}

/// The system's own id. Not shown as it is: its manual page asks for a hash.
fn given() -> Option<String> {
    let id = fs::read_to_string("/etc/machine-id").ok()?;
    let id = id.trim();
    // An image that was never booted has "uninitialized" there, or nothing.
    let is_one = id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_one.then(|| hashed(id))
}

fn hashed(id: &str) -> String {
    let hash = Sha256::digest(format!("regatta machine {id}"));
    hex(&hash[..16])
}

/// A random id, stored for this user.
fn made() -> Option<String> {
    let dir = user_state(|name| std::env::var_os(name).map(PathBuf::from))?;
    files::kept_id(&dir, "machine-id").ok()
}
