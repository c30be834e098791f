//! The user's configuration as it was before any agent could write to it.
//!
//! Invariant: what a [`Work`](super::Work) command obeys was in force when the snapshot was taken. All lanes share
//! `.git/config` and `.git/hooks`, so an agent can plant a filter or a hook there; without the snapshot it would run
//! in Regatta's own next command, with Regatta's rights.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::config::{self, Setting};
use super::{
    FileLock, GitEnv, GitError, HookSource, Identity, Repo, absent_is_none, io, replace_file, replace_link,
    trusted_hooks,
};

/// What Regatta itself leaves lying around.
pub(crate) const OWN_EXCLUDES: [&str; 1] = ["/.regatta/"];

/// A private git directory made from the user's settings, and what is needed to tell later whether they changed.
#[derive(Clone, Debug)]
pub struct TrustSnapshot {
    repo: Repo,
    manifest: Manifest,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Manifest {
    /// Settings of the repository that can make git run a program, with all their values.
    dangerous: BTreeMap<String, Vec<String>>,
    hooks: Option<HookSource>,
    hook_files: BTreeMap<String, String>,
    name: Option<String>,
    email: Option<String>,
    sign_commits: bool,
    signing_key: Option<String>,
    excludes_file: Option<String>,
    #[serde(default)]
    attributes_file: Option<String>,
    /// Urls of submodules that the user initialised, by name, and of `origin`.
    urls: BTreeMap<String, String>,
}

impl TrustSnapshot {
    /// Takes the snapshot. To be called before any agent runs.
    pub fn take(repo: &Repo) -> Result<Self, GitError> {
        let private = repo.state_dir.join("git");
        for dir in ["objects", "info", "shadows", "tmp"] {
            let dir = private.join(dir);
            fs::create_dir_all(&dir).map_err(io("create", &dir))?;
        }
        // Two runs that begin in the same moment take it one after the other.
        let _taking = FileLock::wait(private.join("trust.lock"))?;
        let settings = load_settings(repo)?;
        link_refs(repo, &private)?;
        replace_file(&private.join("HEAD"), b"ref: refs/heads/regatta.none\n")?;
        replace_file(&private.join("config"), &private_config(repo, &settings))?;
        let mut exclude = read_or_empty(&repo.common_dir.join("info/exclude"))?;
        exclude.extend_from_slice(format!("\n{}\n", OWN_EXCLUDES.join("\n")).as_bytes());
        replace_file(&private.join("info/exclude"), &exclude)?;
        replace_file(
            &private.join("info/attributes"),
            &read_or_empty(&repo.common_dir.join("info/attributes"))?,
        )?;

        let hooks = hook_source(repo, &settings);
        let mut hook_files = BTreeMap::new();
        if let HookSource::Shared(dir) = &hooks {
            hook_files = trusted_hooks::fingerprint(dir)?;
            trusted_hooks::copy(dir, &private.join("hooks"))?;
        }
        let text =
            |key: &str| config::last(&settings, key).map(Setting::text).filter(|text| !text.is_empty());
        let manifest = Manifest {
            dangerous: dangerous(&settings),
            hooks: Some(hooks),
            hook_files,
            name: text("user.name"),
            email: text("user.email"),
            sign_commits: config::last(&settings, "commit.gpgsign").is_some_and(Setting::is_true),
            signing_key: text("user.signingkey"),
            excludes_file: text("core.excludesfile"),
            attributes_file: text("core.attributesfile"),
            urls: urls(&settings),
        };
        let json = serde_json::to_vec_pretty(&manifest).expect("a manifest of strings is valid JSON");
        replace_file(&private.join("trust.json"), &json)?;
        Ok(Self { repo: repo.clone(), manifest })
    }

    /// Reads the snapshot taken earlier: agents of that time may still be running.
    pub fn load(repo: &Repo) -> Result<Self, GitError> {
        let path = repo.state_dir.join("git/trust.json");
        let none = || GitError::NoSnapshot { path: path.clone() };
        let bytes = absent_is_none(fs::read(&path)).map_err(io("read", &path))?.ok_or_else(none)?;
        let manifest = serde_json::from_slice(&bytes).map_err(|_| none())?;
        // The project may have been moved since.
        link_refs(repo, &repo.state_dir.join("git"))?;
        Ok(Self { repo: repo.clone(), manifest })
    }

    /// What differs now: names of settings that can run a program, and of hook files. For a warning to the user.
    pub fn changed_since(&self) -> Result<Vec<String>, GitError> {
        let mut changed = differing(&self.manifest.dangerous, &dangerous(&load_settings(&self.repo)?));
        if let Some(HookSource::Shared(dir)) = &self.manifest.hooks {
            let now = trusted_hooks::fingerprint(dir)?;
            changed.extend(
                differing(&self.manifest.hook_files, &now).iter().map(|name| format!("hooks/{name}")),
            );
            let default = self.repo.common_dir.join("hooks");
            if *dir != default {
                changed
                    .extend(trusted_hooks::fingerprint(&default)?.keys().map(|name| format!("hooks/{name}")));
            }
        }
        Ok(changed)
    }

    /// Who commits.
    pub fn identity(&self) -> Identity {
        match (&self.manifest.name, &self.manifest.email) {
            (Some(name), Some(email)) => Identity { name: name.clone(), email: email.clone() },
            _ => Identity::fallback(),
        }
    }

    /// Whether the user wants commits signed, and with which key if not the default one.
    pub fn signing(&self) -> Option<Option<&str>> {
        self.manifest.sign_commits.then_some(self.manifest.signing_key.as_deref())
    }

    /// The user's own ignore rules, from wherever they keep them.
    pub(crate) fn user_excludes(&self) -> Vec<u8> {
        let env = &self.repo.env;
        let path = match (&self.manifest.excludes_file, env.get("XDG_CONFIG_HOME"), env.get("HOME")) {
            (Some(path), ..) => expand_home(path, env),
            (None, Some(config), _) => Path::new(config).join("git/ignore"),
            (None, None, Some(home)) => Path::new(home).join(".config/git/ignore"),
            (None, None, None) => return Vec::new(),
        };
        fs::read(path).unwrap_or_default()
    }

    /// What of all this shapes a checkout: one made under another recipe may hold other bytes for the same commit.
    pub(crate) fn checkout_recipe(&self) -> String {
        let private = self.private_dir();
        let env = &self.repo.env;
        let own = match (&self.manifest.attributes_file, env.get("XDG_CONFIG_HOME"), env.get("HOME")) {
            (Some(path), ..) => Some(expand_home(path, env)),
            (None, Some(config), _) => Some(Path::new(config).join("git/attributes")),
            (None, None, Some(home)) => Some(Path::new(home).join(".config/git/attributes")),
            (None, None, None) => None,
        };
        let mut hash = Sha256::new();
        for file in [Some(private.join("config")), Some(private.join("info/attributes")), own] {
            let content = file.and_then(|file| fs::read(file).ok());
            hash.update(Sha256::digest(content.unwrap_or_default()));
        }
        trusted_hooks::hex(&hash.finalize()[..16])
    }

    /// Where a submodule comes from: as the user initialised it, else as `.gitmodules` says.
    pub(crate) fn submodule_url(&self, name: &str, in_file: &str) -> String {
        if let Some(url) = self.manifest.urls.get(&format!("submodule.{name}")) {
            return url.clone();
        }
        let origin = self.manifest.urls.get("origin");
        match (in_file.starts_with("./") || in_file.starts_with("../"), origin) {
            (true, Some(origin)) => relative_url(origin, in_file),
            _ => in_file.to_owned(),
        }
    }

    /// Where the user's hooks are.
    pub(crate) fn hooks(&self) -> Option<&HookSource> {
        self.manifest.hooks.as_ref()
    }

    /// The directory from which shared hooks may run: the user's own while unchanged, else the copy.
    pub(crate) fn shared_hooks_dir(&self, dir: &Path) -> Result<PathBuf, GitError> {
        let unchanged = trusted_hooks::fingerprint(dir)? == self.manifest.hook_files;
        Ok(if unchanged { dir.to_owned() } else { self.private_dir().join("hooks") })
    }

    /// Regatta's own git directory.
    pub fn private_dir(&self) -> PathBuf {
        self.repo.state_dir.join("git")
    }
}

fn load_settings(repo: &Repo) -> Result<Vec<Setting>, GitError> {
    // Asked from the main worktree, so that its `config.worktree` counts and a lane's does not.
    config::load(repo.real())
}

fn read_or_empty(path: &Path) -> Result<Vec<u8>, GitError> {
    Ok(absent_is_none(fs::read(path)).map_err(io("read", path))?.unwrap_or_default())
}

/// Lets names be looked up in the private directory too: hooks ask for `HEAD~1` or `origin/main`.
fn link_refs(repo: &Repo, private: &Path) -> Result<(), GitError> {
    for name in ["refs", "packed-refs"] {
        let (target, link) = (repo.common_dir.join(name), private.join(name));
        if repo.reftable && name == "refs" {
            fs::create_dir_all(&link).map_err(io("create", &link))?;
        } else if !repo.reftable && fs::read_link(&link).ok().as_ref() != Some(&target) {
            replace_link(&link, &target)?;
        }
    }
    Ok(())
}

/// Whether a setting keeps its meaning and does no harm in a git directory of our own.
fn is_copied(setting: &Setting) -> bool {
    let (section, subsection, name) = setting.parts();
    match section {
        // What these name belongs to another place, or would start something in the background.
        "include" | "includeif" | "alias" | "gc" | "maintenance" | "trace2" | "safe" | "branch" | "pager" => {
            false
        }
        "index" | "checkout" | "status" | "fetch" | "receive" | "uploadpack" | "feature" => false,
        "extensions" => matches!(name, "objectformat" | "partialclone"),
        "core" => !matches!(
            name,
            "worktree"
                | "bare"
                | "hookspath"
                | "fsmonitor"
                | "splitindex"
                | "untrackedcache"
                | "sparsecheckout"
                | "sparsecheckoutcone"
                | "logallrefupdates"
                | "repositoryformatversion"
                | "pager"
                | "editor"
                | "fsync"
                | "gitproxy"
        ),
        "submodule" => name == "url",
        "lfs" => !(subsection.is_none() && name == "storage"),
        _ => true,
    }
}

fn private_config(repo: &Repo, settings: &[Setting]) -> Vec<u8> {
    let own = |key: &str, value: &str| Setting {
        scope: "local".into(),
        key: key.into(),
        value: Some(value.as_bytes().to_vec()),
    };
    let copied: Vec<&Setting> = settings.iter().filter(|setting| is_copied(setting)).collect();
    let extended = copied.iter().any(|setting| setting.key.starts_with("extensions."));
    // Large files must end up where the user's own `git lfs push` looks for them.
    let storage = match config::last(settings, "lfs.storage").map(Setting::text) {
        Some(path) => repo.common_dir.join(path),
        None => repo.common_dir.join("lfs"),
    };
    let fixed = [
        own("core.repositoryformatversion", if extended { "1" } else { "0" }),
        own("core.bare", "false"),
        own("core.hookspath", "/dev/null"),
        own("core.fsmonitor", "false"),
        own("core.splitindex", "false"),
        own("core.logallrefupdates", "false"),
        own("gc.auto", "0"),
        own("maintenance.auto", "false"),
        own("lfs.storage", &storage.to_string_lossy()),
    ];
    config::render(fixed.iter().chain(copied))
}

fn hook_source(repo: &Repo, settings: &[Setting]) -> HookSource {
    match config::last(settings, "core.hookspath").map(Setting::text) {
        None => HookSource::Shared(repo.common_dir.join("hooks")),
        Some(path) => {
            let path = expand_home(&path, &repo.env);
            if path.is_absolute() { HookSource::Shared(path) } else { HookSource::InLane(path) }
        }
    }
}

fn expand_home(path: &str, env: &GitEnv) -> PathBuf {
    match (path.strip_prefix("~/"), env.get("HOME")) {
        (Some(rest), Some(home)) => Path::new(home).join(rest),
        _ => PathBuf::from(path),
    }
}

fn urls(settings: &[Setting]) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for setting in settings {
        match setting.parts() {
            ("submodule", Some(name), "url") => _ = found.insert(format!("submodule.{name}"), setting.text()),
            ("remote", Some("origin"), "url") => _ = found.insert("origin".to_owned(), setting.text()),
            _ => {}
        }
    }
    found
}

/// A url that `.gitmodules` gives relative to the superproject's.
fn relative_url(origin: &str, relative: &str) -> String {
    let (mut base, mut rest) = (origin.trim_end_matches('/'), relative);
    loop {
        if let Some(shorter) = rest.strip_prefix("./") {
            rest = shorter;
        } else if let Some(shorter) = rest.strip_prefix("../") {
            base = base.rsplit_once(['/', ':']).map_or(base, |(above, _)| above);
            rest = shorter;
        } else {
            return format!("{base}/{rest}");
        }
    }
}

/// Settings of the repository itself that can make git run a program or read another file.
fn dangerous(settings: &[Setting]) -> BTreeMap<String, Vec<String>> {
    let mut found = BTreeMap::<String, Vec<String>>::new();
    for setting in settings.iter().filter(|setting| matches!(setting.scope.as_str(), "local" | "worktree")) {
        let (section, _, name) = setting.parts();
        let risky = match section {
            "filter" | "include" | "includeif" | "alias" | "url" | "credential" | "protocol" | "gpg"
            | "pager" => true,
            "core" => matches!(
                name,
                "hookspath"
                    | "fsmonitor"
                    | "sshcommand"
                    | "attributesfile"
                    | "worktree"
                    | "editor"
                    | "pager"
                    | "askpass"
                    | "gitproxy"
                    | "alternaterefscommand"
            ),
            "diff" => matches!(name, "external" | "command" | "textconv"),
            "merge" => name == "driver",
            "remote" => matches!(name, "uploadpack" | "receivepack" | "vcs" | "proxy"),
            "submodule" => name == "update",
            "uploadpack" => name == "packobjectshook",
            "extensions" => name == "worktreeconfig",
            "sequence" => name == "editor",
            _ => name == "sshcommand",
        };
        if risky {
            found.entry(setting.key.clone()).or_default().push(setting.text());
        }
    }
    found
}

/// Keys that are only on one side or differ.
fn differing<V: PartialEq>(then: &BTreeMap<String, V>, now: &BTreeMap<String, V>) -> Vec<String> {
    let keys: BTreeSet<&String> = then.keys().chain(now.keys()).collect();
    keys.into_iter().filter(|key| then.get(*key) != now.get(*key)).cloned().collect()
}
