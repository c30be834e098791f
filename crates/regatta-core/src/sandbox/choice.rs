//! Which level a machine and the settings lead to, or why nothing is started.

use super::Level;
use super::settings::{Mode, SandboxSettings};

/// The lowest Landlock ABI that is used: below it, moving files between directories fails.
pub const LOWEST_ABI: u32 = 2;

/// What a machine can do, each with the reason if it cannot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// User, mount and process namespaces.
    pub namespaces: Result<(), String>,
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
    pub weaker: Vec<String>,
}

/// The level that the settings and the machine lead to; an error says why nothing may be started.
pub fn choose(settings: &SandboxSettings, machine: &Machine) -> Result<Choice, String> {
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
        return Err(nothing(&format!("seccomp: {seccomp}")));
    }
    let level = match (&machine.namespaces, &landlock) {
        (Ok(()), Ok(())) => Level::Full,
        (Ok(()), Err(why)) => {
            weaker.push(format!("without Landlock ({why})"));
            Level::Full
        }
        (Err(why), Ok(())) => {
            if let Some(key) = needs_full(settings) {
                return Err(format!(
                    "{key} needs namespaces, and this machine refuses them ({why}); `regatta doctor` says what to do"
                ));
            }
            weaker.push(format!("files and system calls only ({why})"));
            Level::Files
        }
        (Err(namespaces), Err(landlock)) => {
            return Err(nothing(&format!("namespaces: {namespaces}; Landlock: {landlock}")));
        }
    };
    let copies_home = level == Level::Full && machine.overlay.is_ok();
    if let (Level::Full, Err(why)) = (level, &machine.overlay) {
        weaker.push(format!("the home directory is read-only ({why})"));
    }
    Ok(Choice { level, copies_home, weaker })
}

fn nothing(why: &str) -> String {
    format!(
        "this machine has no way to confine an agent ({why}); `sandbox: {{ mode: off }}` in regatta.yaml runs it without a sandbox"
    )
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
            namespaces: if namespaces { Ok(()) } else { Err("AppArmor".into()) },
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
        assert!(!choice.copies_home && choice.weaker[0].contains("read-only"), "{choice:?}");
        let error = choose(&auto, &machine(false, None)).unwrap_err();
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
