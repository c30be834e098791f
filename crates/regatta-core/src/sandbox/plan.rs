//! What a process may reach: the document that `regatta confine` receives and applies.
//!
//! Invariants: every path is absolute and real (no links, no `..`); rules are in the order in which they are applied,
//! nearest to the root first, so that the last rule that contains a path decides about it.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Level;

/// The version of the document that this program writes and reads.
pub const VERSION: u32 = 1;

/// What one process and its descendants may reach.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Confinement {
    /// The version of this document: [`VERSION`].
    pub version: u32,
    /// The level to apply: full or files.
    pub level: Level,
    /// What is allowed below which path. What no rule contains is read-only.
    pub rules: Vec<PathRule>,
    /// The temporary directory: `/tmp` and `/var/tmp` at the full level, `TMPDIR` at both.
    pub tmp: PathBuf,
    /// The network it sees.
    pub network: Net,
    /// Unix sockets of other processes that it may connect to.
    #[serde(default)]
    pub sockets: Vec<PathBuf>,
    /// Device nodes it may use besides the usual ones.
    #[serde(default)]
    pub devices: Vec<PathBuf>,
    /// Whether it may make user namespaces and mounts of its own.
    #[serde(default)]
    pub nested: bool,
    /// The number of processes it may have at the same time; only at the full level.
    #[serde(default)]
    pub processes: Option<u64>,
    /// The memory it may use, in bytes, where the machine has cgroup v2.
    #[serde(default)]
    pub memory: Option<u64>,
    /// The highest Landlock ABI to use; without one, the kernel's. For tests.
    #[serde(default)]
    pub abi: Option<u32>,
}

/// What is allowed at a path and below it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathRule {
    /// A file or a directory.
    pub path: PathBuf,
    /// What is allowed there.
    pub access: PathAccess,
}

/// How a path may be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PathAccess {
    /// Read, written, and executed.
    Write,
    /// Read and executed.
    Read,
    /// Empty, or unreadable.
    Hide,
    /// Read; what is written goes to a layer of its own. Read-only at the files level.
    Copy {
        /// Receives what is written. Belongs to one process tree only.
        upper: PathBuf,
        /// The work directory of the overlay, on the same file system.
        work: PathBuf,
    },
}

/// The network that a process sees.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Net {
    /// The machine's own.
    Host,
    /// A network of its own with only the listed ways out.
    Own {
        /// Whether Regatta's proxy is reachable.
        proxy: bool,
        /// Ports on the machine's loopback address that are reachable.
        local: Vec<u16>,
    },
    /// No network.
    None,
}

impl Confinement {
    /// The access to a path: that of the last rule that contains it, or read-only.
    pub fn access(&self, path: &Path) -> &PathAccess {
        self.rule_for(path).map_or(&PathAccess::Read, |rule| &rule.access)
    }

    /// The rule that decides about a path.
    pub fn rule_for(&self, path: &Path) -> Option<&PathRule> {
        self.rules.iter().rev().find(|rule| path.starts_with(&rule.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(path: &str, access: PathAccess) -> PathRule {
        PathRule { path: path.into(), access }
    }

    fn sample() -> Confinement {
        let copy = PathAccess::Copy { upper: "/lanes/.box/a/1/up".into(), work: "/lanes/.box/a/1/w".into() };
        Confinement {
            version: VERSION,
            level: Level::Full,
            rules: vec![
                rule("/home/u", copy),
                rule("/lanes", PathAccess::Hide),
                rule("/home/u/.ssh", PathAccess::Hide),
                rule("/lanes/a", PathAccess::Write),
            ],
            tmp: "/lanes/.box/a/1/tmp".into(),
            network: Net::Own { proxy: true, local: vec![5432] },
            sockets: vec!["/run/pg.sock".into()],
            devices: vec!["/dev/dri".into()],
            nested: false,
            processes: Some(4096),
            memory: None,
            abi: Some(4),
        }
    }

    #[test]
    fn a_document_reads_back_as_it_was_written() {
        for network in [Net::Host, Net::None, Net::Own { proxy: false, local: Vec::new() }] {
            let written = Confinement { network, ..sample() };
            let text = serde_json::to_string(&written).unwrap();
            assert_eq!(serde_json::from_str::<Confinement>(&text).unwrap(), written);
        }
    }

    #[test]
    fn an_unknown_field_is_refused_and_not_ignored() {
        let mut value = serde_json::to_value(sample()).unwrap();
        value["allow_everything"] = true.into();
        assert!(serde_json::from_value::<Confinement>(value).is_err());
    }

    #[test]
    fn the_deepest_rule_decides() {
        let plan = sample();
        assert_eq!(plan.access(Path::new("/usr/bin/git")), &PathAccess::Read);
        assert_eq!(plan.access(Path::new("/lanes/b/x")), &PathAccess::Hide);
        assert_eq!(plan.access(Path::new("/lanes/a/x")), &PathAccess::Write);
        assert_eq!(plan.access(Path::new("/lanes/ab")), &PathAccess::Hide);
        assert_eq!(plan.access(Path::new("/home/u/.ssh/id")), &PathAccess::Hide);
        assert!(matches!(plan.access(Path::new("/home/u/x")), PathAccess::Copy { .. }));
    }
}
