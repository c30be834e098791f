//! The environment inside: no way to sockets, displays and clusters outside, and caches of the project.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

use regatta_core::config::Config;
use regatta_core::sandbox::caches::{self, READ_CACHES};
use regatta_core::sandbox::secrets::{REMOVED_VARIABLES, is_credential};
use regatta_core::sandbox::{AgentState, BoxDirs, Level};

use crate::environment::Environment;
use crate::forge::TOKENS;

/// Changes an environment to that of a process inside. Called before the variables of the agent and the task are set.
pub(crate) fn variables(
    environment: &mut Environment,
    boxed: &BoxDirs,
    level: Level,
    cache: Option<&Path>,
    home: &Path,
    config: &Config,
) {
    for name in REMOVED_VARIABLES {
        environment.remove(name);
    }
    for name in credentials(environment, config) {
        environment.remove(&name);
    }
    let tmp = match level {
        Level::Full => "/tmp".into(),
        Level::Files | Level::Off => boxed.tmp(),
    };
    for name in ["TMPDIR", "TMP", "TEMP"] {
        environment.set(name, tmp.as_os_str());
    }
    environment.set("IS_SANDBOX", "1");
    let Some(cache) = cache else { return };
    for (name, dir) in caches::variables(cache) {
        environment.set(name, dir.as_os_str());
    }
    for (name, usual) in READ_CACHES {
        let dir = home.join(usual);
        if dir.is_dir() && !environment.has(name) {
            environment.set(name, dir.as_os_str());
        }
    }
}

/// The variables with credentials of the user's accounts that stay outside.
pub(crate) fn credentials(environment: &Environment, config: &Config) -> Vec<String> {
    let is_set = |name: &str| {
        environment.value(name).is_some_and(|value| !matches!(value.to_str(), Some("" | "0" | "false")))
    };
    let is_kept = |name: &str| {
        config.sandbox.env.iter().any(|entry| entry.text == name)
            || config.github.agents_see_token && TOKENS.contains(&name)
    };
    let removed = environment.texts().filter(|(name, _)| is_credential(name, is_set) && !is_kept(name));
    removed.map(|(name, _)| name.to_owned()).collect()
}

/// Makes the directories in which an agent keeps its state: it would make them itself, and inside it cannot.
/// Claude's own file beside its directory is copied into it once.
pub(crate) fn prepare_state(state: &AgentState, home: &Path, is_claude: bool) -> io::Result<()> {
    for dir in &state.write {
        if !dir.exists() {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        }
    }
    let Some(dir) = state.write.first().filter(|_| is_claude) else { return Ok(()) };
    let (from, to) = (home.join(".claude.json"), dir.join(".claude.json"));
    if !from.is_file() || fs::symlink_metadata(&to).is_ok() {
        return Ok(());
    }
    let text = fs::read(&from)?;
    let created = fs::OpenOptions::new().create_new(true).write(true).mode(0o600).open(&to);
    match created {
        Ok(mut file) => io::Write::write_all(&mut file, &text),
        // Another attempt was faster.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use regatta_core::sandbox::settings::Entry;

    use super::*;

    #[test]
    fn nothing_leads_to_what_listens_outside() {
        let names = [
            "SSH_AUTH_SOCK",
            "DBUS_SESSION_BUS_ADDRESS",
            "DISPLAY",
            "XDG_RUNTIME_DIR",
            "GH_TOKEN",
            "KEPT",
            "NPM_TOKEN",
        ];
        let inherited = names.map(|name| (name.into(), "x".into()));
        let mut environment = Environment::passed_on(inherited, Path::new("/bin"));
        let boxed = BoxDirs { root: "/lanes/.box/a/1".into() };
        let none = Path::new("/nowhere");
        let kept = vec![Entry { text: "NPM_TOKEN".into(), line: 1 }];
        let mut config = Config::default();
        config.sandbox.env = kept;
        variables(&mut environment, &boxed, Level::Files, Some(Path::new("/lanes/.cache")), none, &config);
        for name in &names[..5] {
            assert!(!environment.has(name), "{name}");
        }
        assert!(environment.has("KEPT") && environment.has("NPM_TOKEN"));
        assert_eq!(environment.value("TMPDIR").unwrap(), "/lanes/.box/a/1/tmp");
        assert_eq!(environment.value("CARGO_HOME").unwrap(), "/lanes/.cache/cargo");
        variables(&mut environment, &boxed, Level::Full, None, none, &config);
        assert_eq!(environment.value("TMPDIR").unwrap(), "/tmp");
    }
}
