//! How firmly a machine can confine a process.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How firmly an attempt was confined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// Not at all.
    Off,
    /// Files and system calls: Landlock and seccomp, without namespaces.
    Files,
    /// Namespaces, Landlock and seccomp.
    Full,
}

impl Level {
    /// The name used in documents.
    pub const fn as_str(self) -> &'static str {
        match self {
            Level::Off => "off",
            Level::Files => "files",
            Level::Full => "full",
        }
    }

    /// The level with this name.
    pub fn parse(name: &str) -> Option<Self> {
        [Level::Off, Level::Files, Level::Full].into_iter().find(|level| level.as_str() == name)
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_levels_stay_readable() {
        for (level, text) in [(Level::Off, "\"off\""), (Level::Files, "\"files\""), (Level::Full, "\"full\"")]
        {
            assert_eq!(serde_json::to_string(&level).unwrap(), text);
            assert_eq!(serde_json::from_str::<Level>(text).unwrap(), level);
            assert_eq!(format!("\"{level}\""), text);
            assert_eq!(Level::parse(level.as_str()), Some(level));
        }
        assert!(Level::Off < Level::Files && Level::Files < Level::Full);
    }
}
