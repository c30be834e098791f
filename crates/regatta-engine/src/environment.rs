//! The environment of agents, checks and hooks: built from scratch, never simply inherited.
//!
//! Invariant: nothing that hijacks a loader, redirects git or impersonates another attempt gets through.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// Prefixes of names that are never passed on.
const REFUSED_PREFIXES: [&str; 6] = ["LD_", "DYLD_", "GIT_", "REGATTA_", "ROOKERY_", "PO_WORKTREE_"];
/// Names that are never passed on.
const REFUSED_NAMES: [&str; 5] = ["BASH_ENV", "ENV", "PYTHONSTARTUP", "PERL5OPT", "RUBYOPT"];
/// Variables that lead to the user's account at a forge, directly or through a program that asks.
const FORGE_LOGINS: [&str; 7] = [
    "GH_TOKEN",
    "GITHUB_TOKEN",
    "GH_ENTERPRISE_TOKEN",
    "GITHUB_ENTERPRISE_TOKEN",
    "SSH_AUTH_SOCK",
    "GIT_ASKPASS",
    "SSH_ASKPASS",
];
/// Settings of git that forget all helpers, also those of single hosts, and the program that asks.
const NO_GIT_LOGINS: [(&str, &str); 2] = [("credential.helper", ""), ("core.askPass", "")];

/// An environment under construction.
#[derive(Clone, Debug)]
pub struct Environment(BTreeMap<OsString, OsString>);

impl Environment {
    /// The part of `inherited` that may be passed on, with `bin` first on the path so that agents find this `regatta`.
    pub fn passed_on(inherited: impl IntoIterator<Item = (OsString, OsString)>, bin: &Path) -> Self {
        let kept = inherited.into_iter().filter(|(name, _)| {
            let name = name.to_string_lossy();
            !REFUSED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
                && !REFUSED_NAMES.contains(&&*name)
        });
        let mut vars: BTreeMap<OsString, OsString> = kept.collect();
        let mut path = bin.as_os_str().to_owned();
        if let Some(rest) = vars.get(OsStr::new("PATH")) {
            path.push(":");
            path.push(rest);
        }
        vars.insert("PATH".into(), path);
        Self(vars)
    }

    /// Removes the address and the credentials of a state server. Checks and gates may need them; an agent that does
    /// gets them from the `env` of its entry or its task.
    pub fn drop_store_credentials(&mut self) {
        self.0.retain(|name, _| {
            let name = name.to_string_lossy();
            let libpq = name.strip_prefix("PG").is_some_and(|rest| {
                !rest.is_empty() && rest.chars().all(|c| c.is_ascii_uppercase() || c == '_')
            });
            !(libpq || name == "DATABASE_URL" || name.starts_with("ZOOKEEPER") || name.starts_with("ZK_"))
        });
    }

    /// Removes what leads to the user's account at a forge, and names an empty directory as that of `gh`. A variable
    /// that an agent or a task sets is set afterwards, and stays.
    pub(crate) fn drop_forge_logins(&mut self, empty: &Path) {
        for name in FORGE_LOGINS {
            self.remove(name);
        }
        self.set("GH_CONFIG_DIR", empty.as_os_str());
    }

    /// Lets git ask no program for a password. Called last: it appends to the settings that are there.
    pub(crate) fn without_git_logins(&mut self) {
        let known = self.value("GIT_CONFIG_COUNT").and_then(|count| count.to_str()?.parse::<usize>().ok());
        let first = known.unwrap_or(0);
        for (n, (key, value)) in (first..).zip(NO_GIT_LOGINS) {
            self.set(format!("GIT_CONFIG_KEY_{n}"), key).set(format!("GIT_CONFIG_VALUE_{n}"), value);
        }
        self.set("GIT_CONFIG_COUNT", (first + NO_GIT_LOGINS.len()).to_string());
    }

    /// Sets a variable.
    pub fn set(&mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> &mut Self {
        self.0.insert(name.into(), value.into());
        self
    }

    /// Removes a variable.
    pub fn remove(&mut self, name: &str) -> &mut Self {
        self.0.remove(OsStr::new(name));
        self
    }

    /// Whether a variable is set.
    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(OsStr::new(name))
    }

    /// The value of a variable.
    pub fn value(&self, name: &str) -> Option<&OsStr> {
        self.0.get(OsStr::new(name)).map(OsString::as_os_str)
    }

    /// The finished list.
    pub fn into_vars(self) -> Vec<(OsString, OsString)> {
        self.0.into_iter().collect()
    }

    /// Name and value of all variables that are text.
    pub fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().filter_map(|(name, value)| Some((name.to_str()?, value.to_str()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_get_no_way_into_a_server_of_state() {
        let inherited =
            ["PGPASSWORD", "PGHOST", "DATABASE_URL", "ZOOKEEPER_AUTH", "ZK_HOSTS", "PGLIKE1", "HOME"];
        let pairs = inherited.map(|name| (name.into(), "x".into()));
        let mut environment = Environment::passed_on(pairs, Path::new("/state/bin"));
        environment.drop_store_credentials();
        let names: Vec<&str> = environment.texts().map(|(name, _)| name).collect();
        assert_eq!(names, ["HOME", "PATH", "PGLIKE1"]);
    }

    #[test]
    fn without_logins_settings_of_git_stay_and_helpers_are_forgotten() {
        let inherited = ["GH_TOKEN", "GITHUB_ENTERPRISE_TOKEN", "SSH_AUTH_SOCK", "KEPT"];
        let mut environment =
            Environment::passed_on(inherited.map(|name| (name.into(), "x".into())), Path::new("/bin"));
        environment.drop_forge_logins(Path::new("/empty"));
        environment
            .set("GIT_CONFIG_COUNT", "1")
            .set("GIT_CONFIG_KEY_0", "gc.auto")
            .set("GIT_CONFIG_VALUE_0", "0");
        environment.without_git_logins();
        let vars: Vec<String> = environment.texts().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(
            vars,
            [
                "GH_CONFIG_DIR=/empty",
                "GIT_CONFIG_COUNT=3",
                "GIT_CONFIG_KEY_0=gc.auto",
                "GIT_CONFIG_KEY_1=credential.helper",
                "GIT_CONFIG_KEY_2=core.askPass",
                "GIT_CONFIG_VALUE_0=0",
                "GIT_CONFIG_VALUE_1=",
                "GIT_CONFIG_VALUE_2=",
                "KEPT=x",
                "PATH=/bin",
            ]
        );
    }

    #[test]
    fn loaders_git_and_other_attempts_do_not_get_through() {
        let inherited = [
            ("PATH", "/usr/bin"),
            ("LD_PRELOAD", "/evil.so"),
            ("GIT_DIR", "/elsewhere"),
            ("REGATTA_TOKEN", "of the outer attempt"),
            ("BASH_ENV", "/evil.sh"),
            ("MY_API_KEY", "kept"),
        ];
        let environment = Environment::passed_on(
            inherited.map(|(name, value)| (name.into(), value.into())),
            Path::new("/state/bin"),
        );
        let vars: Vec<String> = environment.texts().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(vars, ["MY_API_KEY=kept", "PATH=/state/bin:/usr/bin"]);
    }
}
