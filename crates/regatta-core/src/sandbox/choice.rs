//! Which level a machine and the settings lead to, or why nothing is started.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Level;
use super::settings::{Mode, SandboxSettings};

/// The lowest Landlock ABI that is used: below it, moving files between directories fails.
pub const LOWEST_ABI: u32 = 2;

/// Why a machine has no user namespaces for this user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NoNamespaces {
    /// AppArmor allows them only to programs with a profile that says so.
    AppArmor,
    /// Their limit is set to 0.
    SwitchedOff,
    /// A setting of the kernel allows them to root alone.
    RootOnly,
    /// The kernel or a container refuses them.
    NotPermitted,
    /// There are as many as the limit allows.
    LimitReached,
    /// The kernel was built without them.
    NotInKernel,
    /// Anything else, in a sentence.
    Other(String),
}

impl fmt::Display for NoNamespaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AppArmor => {
                "AppArmor restricts user namespaces (kernel.apparmor_restrict_unprivileged_userns is 1)"
            }
            Self::SwitchedOff => "user namespaces are switched off (user.max_user_namespaces is 0)",
            Self::RootOnly => "user namespaces are for root only (kernel.unprivileged_userns_clone is 0)",
            Self::NotPermitted => {
                "the kernel or a container refuses user namespaces (operation not permitted)"
            }
            Self::LimitReached => "the limit of user namespaces is reached (user.max_user_namespaces)",
            Self::NotInKernel => "the kernel has no user namespaces",
            Self::Other(why) => why,
        })
    }
}

/// What a machine can do, each with the reason if it cannot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// User, mount and process namespaces.
    pub namespaces: Result<(), NoNamespaces>,
    /// Landlock, with its ABI.
    pub landlock: Result<u32, String>,
    /// Filters for system calls.
    pub seccomp: Result<(), String>,
    /// Copying a directory on write.
    pub overlay: Result<(), String>,
}

/// The level to use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    pub level: Level,
    /// Whether the home directory can be copied on write.
    pub copies_home: bool,
    /// What is weaker here than it could be, for one message to the user.
    pub weaker: Vec<Weakness>,
}

impl Choice {
    /// What is weaker, in words; empty if nothing is.
    pub fn weaker_in_words(&self) -> String {
        self.weaker.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    }
}

/// One way in which a machine confines less than it could.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Weakness {
    /// There is no Landlock, for this reason.
    NoLandlock(String),
    /// There are no namespaces, so only files and system calls are restricted.
    FilesOnly(NoNamespaces),
    /// The home directory cannot be copied on write, for this reason.
    HomeReadOnly(String),
}

impl fmt::Display for Weakness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoLandlock(why) => write!(f, "without Landlock ({why})"),
            Self::FilesOnly(why) => write!(f, "files and system calls only ({why})"),
            Self::HomeReadOnly(why) => write!(f, "the home directory is read-only ({why})"),
        }
    }
}

/// Why nothing may be started here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unconfinable {
    /// There are no filters for system calls, for this reason.
    NoSeccomp(String),
    /// A setting needs namespaces.
    NeedsNamespaces { setting: String, why: NoNamespaces },
    /// There are neither namespaces nor Landlock.
    Nothing { namespaces: NoNamespaces, landlock: String },
}

impl Unconfinable {
    /// Why there are no namespaces, if that is the reason or a part of it.
    pub fn namespaces(&self) -> Option<&NoNamespaces> {
        match self {
            Self::NoSeccomp(_) => None,
            Self::NeedsNamespaces { why: namespaces, .. } | Self::Nothing { namespaces, .. } => {
                Some(namespaces)
            }
        }
    }
}

impl fmt::Display for Unconfinable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = match self {
            Self::NeedsNamespaces { setting, why } => {
                return write!(
                    f,
                    "{setting} needs namespaces, and this machine refuses them ({why}); `regatta doctor` says what to do"
                );
            }
            Self::NoSeccomp(why) => format!("seccomp: {why}"),
            Self::Nothing { namespaces, landlock } => {
                format!("namespaces: {namespaces}; Landlock: {landlock}")
            }
        };
        write!(
            f,
            "this machine has no way to confine an agent ({why}); `sandbox: {{ mode: off }}` in regatta.yaml runs it without a sandbox"
        )
    }
}

/// The level that the settings and the machine lead to, or why nothing may be started.
pub fn choose(settings: &SandboxSettings, machine: &Machine) -> Result<Choice, Unconfinable> {
    if settings.mode == Mode::Off {
        return Ok(Choice { level: Level::Off, copies_home: false, weaker: Vec::new() });
    }
    let landlock = match &machine.landlock {
        Ok(abi) if *abi >= LOWEST_ABI => Ok(()),
        Ok(abi) => Err(format!("Landlock has only ABI {abi}")),
        Err(why) => Err(why.clone()),
    };
    let mut weaker = Vec::new();
    if let Err(seccomp) = &machine.seccomp {
        return Err(Unconfinable::NoSeccomp(seccomp.clone()));
    }
    let level = match (&machine.namespaces, &landlock) {
        (Ok(()), Ok(())) => Level::Full,
        (Ok(()), Err(why)) => {
            weaker.push(Weakness::NoLandlock(why.clone()));
            Level::Full
        }
        (Err(why), Ok(())) => {
            if let Some(setting) = needs_full(settings) {
                return Err(Unconfinable::NeedsNamespaces { setting, why: why.clone() });
            }
            weaker.push(Weakness::FilesOnly(why.clone()));
            Level::Files
        }
        (Err(namespaces), Err(landlock)) => {
            let (namespaces, landlock) = (namespaces.clone(), landlock.clone());
            return Err(Unconfinable::Nothing { namespaces, landlock });
        }
    };
    let copies_home = level == Level::Full && machine.overlay.is_ok();
    if let (Level::Full, Err(why)) = (level, &machine.overlay) {
        weaker.push(Weakness::HomeReadOnly(why.clone()));
    }
    Ok(Choice { level, copies_home, weaker })
}

/// The setting that nothing less than the full level satisfies.
pub fn needs_full(settings: &SandboxSettings) -> Option<String> {
    if settings.mode == Mode::Full {
        Some("`sandbox.mode: full`".to_owned())
    } else if settings.network.needs_full() {
        Some(format!("`sandbox.network: {}`", settings.network.as_str()))
    } else if settings.nested {
        Some("`sandbox.nested`".to_owned())
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::settings::Network;

    fn machine(namespaces: bool, landlock: Option<u32>) -> Machine {
        Machine {
            namespaces: if namespaces { Ok(()) } else { Err(NoNamespaces::AppArmor) },
            landlock: landlock.ok_or_else(|| "not in the kernel".to_owned()),
            seccomp: Ok(()),
            overlay: Ok(()),
        }
    }

    #[test]
    fn the_table_of_degradation() {
        let auto = SandboxSettings::default();
        let full = SandboxSettings { mode: Mode::Full, ..auto.clone() };
        for (namespaces, landlock, by_auto, by_full) in [
            (true, Some(7), Some(Level::Full), Some(Level::Full)),
            (true, Some(1), Some(Level::Full), Some(Level::Full)),
            (true, None, Some(Level::Full), Some(Level::Full)),
            (false, Some(2), Some(Level::Files), None),
            (false, Some(1), None, None),
            (false, None, None, None),
        ] {
            let machine = machine(namespaces, landlock);
            let level = |settings| choose(settings, &machine).ok().map(|choice| choice.level);
            assert_eq!(level(&auto), by_auto, "auto {namespaces} {landlock:?}");
            assert_eq!(level(&full), by_full, "full {namespaces} {landlock:?}");
        }
    }

    #[test]
    fn nothing_is_weaker_without_a_word() {
        let auto = SandboxSettings::default();
        assert!(choose(&auto, &machine(true, Some(7))).unwrap().weaker.is_empty());
        assert_eq!(choose(&auto, &machine(true, None)).unwrap().weaker.len(), 1);
        assert_eq!(choose(&auto, &machine(false, Some(4))).unwrap().weaker.len(), 1);
        let no_overlay = Machine { overlay: Err("refused".into()), ..machine(true, Some(7)) };
        let choice = choose(&auto, &no_overlay).unwrap();
        assert!(!choice.copies_home && choice.weaker_in_words().contains("read-only"), "{choice:?}");
        let error = choose(&auto, &machine(false, None)).unwrap_err().to_string();
        assert!(error.contains("AppArmor") && error.contains("not in the kernel"), "{error}");
        assert!(error.contains("mode: off"), "{error}");
    }

    #[test]
    fn what_needs_the_full_level_is_refused_without_it() {
        for settings in [
            SandboxSettings { network: Network::Trusted, ..SandboxSettings::default() },
            SandboxSettings { network: Network::List, ..SandboxSettings::default() },
            SandboxSettings { nested: true, ..SandboxSettings::default() },
        ] {
            assert!(choose(&settings, &machine(false, Some(7))).is_err(), "{settings:?}");
            assert!(choose(&settings, &machine(true, None)).is_ok(), "{settings:?}");
        }
        let off = SandboxSettings { mode: Mode::Off, ..SandboxSettings::default() };
        assert_eq!(choose(&off, &machine(false, None)).unwrap().level, Level::Off);
    }
}
