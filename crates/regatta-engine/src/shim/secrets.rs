//! **No secret is written to disk, to argv or to the agent's environment on its way to the shim.** The shim sees the
//! agent's environment anyway; the rest is passed in memory, as the shim's standard input.

use std::fs::File;
use std::io::{self, Read, Seek, Write};

use rustix::fs::{MemfdFlags, memfd_create};

use crate::redact::Redactor;

/// Variables that the agent does not have but whose values it may still print, as a readable file.
pub(crate) fn hand_over(secrets: &[(String, String)]) -> io::Result<File> {
    let mut file = File::from(memfd_create("secrets", MemfdFlags::CLOEXEC)?);
    file.write_all(&serde_json::to_vec(secrets)?)?;
    file.rewind()?;
    Ok(file)
}

/// In the shim: masks everything passed this way, and every part of its own environment that looks secret.
pub(super) fn redactor() -> io::Result<Redactor> {
    let mut bytes = Vec::new();
    io::stdin().lock().read_to_end(&mut bytes)?;
    let handed: Vec<(String, String)> =
        if bytes.is_empty() { Vec::new() } else { serde_json::from_slice(&bytes)? };
    let own = std::env::vars_os()
        .map(|(name, value)| (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned()));
    Ok(Redactor::new(own.chain(handed)))
}
