//! **No secret is written to disk, to argv or to the agent's environment on its way to the shim.** The launcher hands
//! over one document in memory, as the shim's standard input: what the command line must not show, and what is too
//! large for it. Every part is optional.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read, Seek, Write};

use regatta_core::sandbox::Confinement;
use regatta_core::sandbox::hosts::ProxyRules;
use rustix::fs::{MemfdFlags, memfd_create};
use serde::{Deserialize, Serialize};

use super::door::DoorSpec;
use crate::process::Launch;
use crate::redact::Redactor;

/// What the launcher hands over.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Handover<'a> {
    /// Variables that the agent does not have but whose values it may still print.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub(crate) secrets: Cow<'a, [(String, String)]>,
    /// What the agent's processes may reach; without it, everything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) confine: Option<Cow<'a, Confinement>>,
    /// The agent's way to its store, if it is in a sandbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) door: Option<Cow<'a, DoorSpec>>,
    /// The hosts that it reaches from a network of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) proxy: Option<Cow<'a, ProxyRules>>,
}

impl<'a> Handover<'a> {
    pub(crate) fn new(launch: &'a Launch) -> Self {
        Self {
            secrets: Cow::Borrowed(&launch.secrets),
            confine: launch.confine.as_deref().map(Cow::Borrowed),
            door: launch.door.as_ref().map(Cow::Borrowed),
            proxy: launch.proxy.as_deref().map(Cow::Borrowed),
        }
    }

    /// The document as a readable file.
    pub(crate) fn file(&self) -> io::Result<File> {
        in_memory("handover", &serde_json::to_vec(self)?)
    }
}

impl Handover<'static> {
    /// In the shim: reads the document. An empty input is a document without parts.
    pub(super) fn receive() -> io::Result<Self> {
        let mut bytes = Vec::new();
        io::stdin().lock().read_to_end(&mut bytes)?;
        if bytes.is_empty() {
            return Ok(Self::default());
        }
        Ok(serde_json::from_slice(&bytes)?)
    }

    /// Masks every secret handed over, and every part of the shim's own environment that looks secret.
    pub(super) fn redactor(&self) -> Redactor {
        let own = std::env::vars_os()
            .map(|(name, value)| (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned()));
        Redactor::new(own.chain(self.secrets.iter().cloned()))
    }
}

/// A file without a path that reads as these bytes.
pub(crate) fn in_memory(name: &str, bytes: &[u8]) -> io::Result<File> {
    let mut file = File::from(memfd_create(name, MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file)
}

/// The content of a file, in memory. What is no regular file stays as it is.
pub(super) fn copied(mut file: File) -> io::Result<File> {
    if !file.metadata()?.is_file() {
        return Ok(file);
    }
    let mut copy = in_memory("input", b"")?;
    io::copy(&mut file, &mut copy)?;
    copy.rewind()?;
    Ok(copy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_is_missing_is_nothing() {
        let read: Handover<'static> = serde_json::from_str("{}").unwrap();
        assert!(read.secrets.is_empty() && read.confine.is_none() && read.door.is_none());
    }
}
