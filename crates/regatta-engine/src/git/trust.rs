//! The user's git configuration as the user last trusted it.
//!
//! Invariant: everything a [`Work`](super::Work) command obeys is in the snapshot, and a snapshot never changes: its
//! directory is named after its content. All lanes share `.git/config` and `.git/hooks`, so an agent can plant a filter
//! or a hook there; without the snapshot it would run in Regatta's own next command, with Regatta's rights.
//! `crate::trust` keeps snapshots with the user's own state and decides which one is in force.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use regatta_core::hex::hex;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::config::{self, Setting};
use super::trust_settings::{self, dangerous, lane_config, lfs_path, lfs_storage, private_config};
use super::{
    FileLock, GitEnv, GitError, HookSource, Identity, Repo, absent_is_none, io, replace_file, replace_link,
    trusted_hooks,
};

/// Files that Regatta itself leaves behind.
pub(crate) const OWN_EXCLUDES: [&str; 1] = ["/.regatta/"];

/// The file of a snapshot with the settings for the git directories of lanes.
const LANE_CONFIG: &str = "lane-config";

/// A private git directory made from the user's settings, with the data needed to detect later changes.
#[derive(Clone, Debug)]
pub struct TrustSnapshot {
    repo: Repo,
    manifest: Manifest,
    /// A digest of the content, which also names the private directory.
    digest: String,
}

/// One difference: a setting or a hook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The name of the setting, or `hooks/NAME`.
    pub what: String,
    /// The old value; `None` if it did not exist.
    pub was: Option<String>,
    /// The new value; `None` if it no longer exists.
    pub is: Option<String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Manifest {
    /// Settings that can make git run a program or contact another host, with all their values.
    dangerous: BTreeMap<String, Vec<String>>,
    hooks: Option<HookSource>,
    hook_files: BTreeMap<String, String>,
    name: Option<String>,
    email: Option<String>,
    sign_commits: bool,
    signing_key: Option<String>,
    excludes_file: Option<String>,
    attributes_file: Option<String>,
    /// Urls of submodules that the user initialised, by name, and of `origin`.
    urls: BTreeMap<String, String>,
    /// Where Git LFS keeps its files, if the user chose a place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lfs: Option<String>,
}

/// The full content of a snapshot.
struct Content {
    manifest: Vec<u8>,
    config: Vec<u8>,
    exclude: Vec<u8>,
    attributes: Vec<u8>,
    /// The settings for the git directories of lanes; `None` in a snapshot of an older version.
    lane: Option<Vec<u8>>,
    /// The directory from which the files of `hooks` are copied.
    hooks: Option<PathBuf>,
}

impl Content {
    /// The current content of the repository.
    fn found(repo: &Repo) -> Result<(Self, Manifest), GitError> {
        let settings = load_settings(repo)?;
        let mut exclude = read_or_empty(&repo.common_dir.join("info/exclude"))?;
        exclude.extend_from_slice(format!("\n{}\n", OWN_EXCLUDES.join("\n")).as_bytes());
        let hooks = hook_source(repo, &settings);
        let hooks_dir = hooks_dir(repo, &hooks);
        let text =
            |key: &str| config::last(&settings, key).map(Setting::text).filter(|text| !text.is_empty());
        let manifest = Manifest {
            dangerous: dangerous(&settings),
            hook_files: trusted_hooks::fingerprint(&hooks_dir)?,
            hooks: Some(hooks),
            name: text("user.name"),
            email: text("user.email"),
            sign_commits: config::last(&settings, "commit.gpgsign").is_some_and(Setting::is_true),
            signing_key: text("user.signingkey"),
            excludes_file: text("core.excludesfile"),
            attributes_file: text("core.attributesfile"),
            urls: urls(&settings),
            lfs: lfs_path(&settings),
        };
        let content = Self {
            manifest: serde_json::to_vec_pretty(&manifest).expect("a manifest of strings is valid JSON"),
            config: private_config(repo, &settings),
            exclude,
            attributes: read_or_empty(&repo.common_dir.join("info/attributes"))?,
            lane: Some(lane_config(&settings)),
            hooks: Some(hooks_dir),
        };
        Ok((content, manifest))
    }

    /// The content that [`Self::write`] stored; `None` if it is incomplete.
    fn load(dir: &Path) -> Result<Option<(Self, Manifest)>, GitError> {
        let read = |name: &str| {
            let path = dir.join(name);
            absent_is_none(fs::read(&path)).map_err(io("read", &path))
        };
        let (Some(manifest), Some(config), Some(exclude), Some(attributes)) =
            (read("trust.json")?, read("config")?, read("info/exclude")?, read("info/attributes")?)
        else {
            return Ok(None);
        };
        let Ok(parsed) = serde_json::from_slice::<Manifest>(&manifest) else { return Ok(None) };
        if trusted_hooks::fingerprint(&dir.join("hooks"))? != parsed.hook_files {
            return Ok(None);
        }
        let lane = read(LANE_CONFIG)?;
        let content = Self { manifest, config, exclude, attributes, lane, hooks: Some(dir.join("hooks")) };
        Ok(Some((content, parsed)))
    }

    fn digest(&self) -> String {
        let mut hash = Sha256::new();
        for part in
            [&self.manifest, &self.config, &self.exclude, &self.attributes].into_iter().chain(&self.lane)
        {
            hash.update(Sha256::digest(part));
        }
        hex(&hash.finalize()[..16])
    }

    /// Writes this content to `dir`, whatever it contained; correct files are left alone, since git may be reading
    /// them.
    fn write(&self, dir: &Path, hook_files: &BTreeMap<String, String>) -> Result<(), GitError> {
        let info = dir.join("info");
        fs::create_dir_all(&info).map_err(io("create", &info))?;
        let files = [
            ("config", &self.config),
            ("info/exclude", &self.exclude),
            ("info/attributes", &self.attributes),
            ("trust.json", &self.manifest),
        ];
        let lane = self.lane.as_ref().map(|content| (LANE_CONFIG, content));
        for (name, content) in files.into_iter().chain(lane) {
            let path = dir.join(name);
            if fs::read(&path).ok().as_ref() != Some(content) {
                replace_file(&path, content)?;
            }
        }
        let hooks = dir.join("hooks");
        if let Some(from) = self.hooks.as_ref().filter(|from| **from != hooks)
            && (!hooks.is_dir() || trusted_hooks::fingerprint(&hooks)? != *hook_files)
        {
            trusted_hooks::copy(from, &hooks)?;
        }
        Ok(())
    }
}

impl TrustSnapshot {
    /// Takes a snapshot of the current settings and hooks.
    pub fn take(repo: &Repo) -> Result<Self, GitError> {
        let (content, manifest) = Content::found(repo)?;
        Self::make(repo, &content, manifest)
    }

    /// The snapshot that [`Self::save`] stored below `dir`; `None` if there is none, or if it was changed since.
    pub fn load(repo: &Repo, dir: &Path, digest: &str) -> Result<Option<Self>, GitError> {
        match Content::load(&dir.join(digest))? {
            Some((content, manifest)) if content.digest() == digest => {
                Self::make(repo, &content, manifest).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Writes it below `dir`, in a directory named after its digest.
    pub fn save(&self, dir: &Path) -> Result<(), GitError> {
        let own = self.private_dir();
        let gone = || GitError::NoSnapshot { path: own.clone() };
        let (content, manifest) = Content::load(&own)?.ok_or_else(gone)?;
        content.write(&dir.join(&self.digest), &manifest.hook_files)
    }

    /// Creates the private git directory for this content, or checks the existing one.
    fn make(repo: &Repo, content: &Content, manifest: Manifest) -> Result<Self, GitError> {
        let made = Self { repo: repo.clone(), manifest, digest: content.digest() };
        let private = made.private_dir();
        // Two processes that start at the same moment create it one after the other.
        let _making = FileLock::wait(repo.state_dir.join("git/trust.lock"))?;
        for dir in ["objects", "shadows", "tmp"] {
            let dir = private.join(dir);
            fs::create_dir_all(&dir).map_err(io("create", &dir))?;
        }
        link_refs(repo, &private)?;
        let head = private.join("HEAD");
        if !head.is_file() {
            replace_file(&head, b"ref: refs/heads/regatta.none\n")?;
        }
        content.write(&private, &made.manifest.hook_files)?;
        Ok(made)
    }

    /// The digest of the content.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// What differs now: settings that can run a program or send work elsewhere, and hooks.
    pub fn changed_since(&self) -> Result<Vec<Difference>, GitError> {
        let settings = load_settings(&self.repo)?;
        let joined = |all: BTreeMap<String, Vec<String>>| -> BTreeMap<String, String> {
            all.into_iter().map(|(key, values)| (key, values.join("; "))).collect()
        };
        let mut changed =
            differing("", &joined(self.manifest.dangerous.clone()), &joined(dangerous(&settings)));
        let urls = urls(&settings);
        // An agent that initialises a submodule adds its url, which is harmless: the commit is pinned.
        let moved = |(name, was): (&String, &String)| {
            let is = urls.get(name).filter(|is| *is != was)?;
            let what = format!("{name}.url");
            Some(Difference { what, was: Some(was.clone()), is: Some(is.clone()) })
        };
        changed.extend(self.manifest.urls.iter().filter(|(name, _)| *name != "origin").filter_map(moved));
        let Some(source) = &self.manifest.hooks else { return Ok(changed) };
        let source_now = hook_source(&self.repo, &settings);
        if source_now != *source && !changed.iter().any(|change| change.what == "core.hookspath") {
            let shown = |source: &HookSource| Some(source.path().display().to_string());
            let what = "core.hookspath".to_owned();
            changed.push(Difference { what, was: shown(source), is: shown(&source_now) });
        }
        let now = trusted_hooks::fingerprint(&hooks_dir(&self.repo, source))?;
        changed.extend(differing("hooks/", &self.manifest.hook_files, &now));
        Ok(changed)
    }

    /// Everything that git may run or follow, for the user to review: settings with their values, and hooks.
    pub fn powers(&self) -> Vec<Difference> {
        let settings = self.manifest.dangerous.iter().map(|(key, values)| (key.clone(), values.join("; ")));
        let hooks =
            self.manifest.hook_files.iter().map(|(name, hash)| (format!("hooks/{name}"), hash.clone()));
        settings.chain(hooks).map(|(what, is)| Difference { what, was: None, is: Some(is) }).collect()
    }

    /// The committer.
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

    /// The user's own ignore rules, wherever they are stored.
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

    /// A digest of everything here that affects a checkout: with another recipe, the same commit may produce other
    /// bytes.
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
        hex(&hash.finalize()[..16])
    }

    /// The url of a submodule: as the user initialised it, else as in `.gitmodules`.
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

    /// The addresses of `origin` and of the submodules.
    pub(crate) fn remote_urls(&self) -> impl Iterator<Item = &str> {
        self.manifest.urls.values().map(String::as_str)
    }

    /// The project's store of Git LFS.
    pub(crate) fn lfs_storage(&self) -> PathBuf {
        lfs_storage(&self.repo, self.manifest.lfs.as_deref())
    }

    /// The settings for the git directory of a lane.
    pub(crate) fn lane_config(&self) -> Result<Vec<u8>, GitError> {
        let private = self.private_dir();
        match absent_is_none(fs::read(private.join(LANE_CONFIG))).map_err(io("read", &private))? {
            Some(config) => Ok(config),
            // A snapshot of an older version.
            None => read_or_empty(&private.join("config")),
        }
    }

    /// The location of the user's hooks.
    pub(crate) fn hooks(&self) -> Option<&HookSource> {
        self.manifest.hooks.as_ref()
    }

    /// The directory of the user's hooks below the checkout, if they are part of the repository.
    pub(crate) fn hooks_in_repository(&self, checkout: &Path) -> Option<String> {
        let dir = match self.hooks()? {
            HookSource::InLane(dir) => dir.as_path(),
            HookSource::Shared(dir) => {
                dir.strip_prefix(checkout).ok().filter(|dir| !dir.starts_with(".git"))?
            }
        };
        dir.to_str().map(str::to_owned)
    }

    /// The files of the checkout that trusted settings run, such as a filter in the repository.
    pub(crate) fn files_run(&self, checkout: &Path) -> Vec<String> {
        trust_settings::files_run(checkout, &self.manifest.dangerous)
    }

    /// The trusted hooks, each with a hash of its content.
    pub(crate) fn hook_files(&self) -> &BTreeMap<String, String> {
        &self.manifest.hook_files
    }

    /// The directory from which hooks may run: `dir` while its content is trusted, else the copy.
    pub(crate) fn trusted_hooks_dir(&self, dir: &Path) -> Result<PathBuf, GitError> {
        let unchanged = trusted_hooks::fingerprint(dir)? == self.manifest.hook_files;
        Ok(if unchanged { dir.to_owned() } else { self.private_dir().join("hooks") })
    }

    /// Regatta's own git directory.
    pub fn private_dir(&self) -> PathBuf {
        self.repo.state_dir.join("git").join(&self.digest)
    }
}

fn load_settings(repo: &Repo) -> Result<Vec<Setting>, GitError> {
    // Queried from the main worktree, so that its `config.worktree` counts and a lane's does not.
    config::load(repo.real())
}

fn read_or_empty(path: &Path) -> Result<Vec<u8>, GitError> {
    Ok(absent_is_none(fs::read(path)).map_err(io("read", path))?.unwrap_or_default())
}

/// Makes refs available in the private directory too: hooks ask for `HEAD~1` or `origin/main`.
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

/// Resolves a url that `.gitmodules` gives relative to the superproject's.
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

/// The directory of the hooks as the user sees it: a relative path is taken from the checkout.
fn hooks_dir(repo: &Repo, source: &HookSource) -> PathBuf {
    match source {
        HookSource::Shared(dir) => dir.clone(),
        HookSource::InLane(dir) => repo.toplevel.join(dir),
    }
}

/// The entries that exist on only one side or differ.
fn differing(
    prefix: &str,
    then: &BTreeMap<String, String>,
    now: &BTreeMap<String, String>,
) -> Vec<Difference> {
    let keys: BTreeSet<&String> = then.keys().chain(now.keys()).collect();
    let differ = keys.into_iter().filter(|key| then.get(*key) != now.get(*key));
    let difference = |key: &String| Difference {
        what: format!("{prefix}{key}"),
        was: then.get(key).cloned(),
        is: now.get(key).cloned(),
    };
    differ.map(difference).collect()
}
