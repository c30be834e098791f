//! From the settings and the facts of one attempt to what it may reach.
//!
//! Invariants: the nearest rule decides, so rules are sorted by depth and no two have the same path; nothing of
//! Regatta's own and no other lane can be shown or written, whatever the settings say; a path that cannot be honoured
//! is refused with its line and never left out.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use super::caches::{READ_CACHES, USER_CACHES};
use super::plan::VERSION;
use super::secrets::{RUN_SHOWN, SECRETS};
use super::settings::{Caches, Entry, Home, Network, SandboxSettings};
use super::state::AgentState;
use super::{Confinement, Level, Net, PathAccess, PathRule};

/// What has to be looked up on disk. Pure code asks for it; tests answer from a table.
pub trait Disk {
    /// The path without links, if it exists.
    fn real(&self, path: &Path) -> Option<PathBuf>;
    /// Whether a small text file contains `text`.
    fn contains(&self, path: &Path, text: &str) -> bool;
    /// The names of the entries of a directory.
    fn names(&self, dir: &Path) -> Vec<String>;
    /// The plain files, without links, that the links of a directory lead to.
    fn linked_files(&self, dir: &Path) -> Vec<PathBuf>;
}

/// The directories of an attempt's box.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoxDirs {
    /// The box itself.
    pub root: PathBuf,
}

impl BoxDirs {
    /// The temporary directory.
    pub fn tmp(&self) -> PathBuf {
        self.root.join("tmp")
    }

    /// Where the agent leaves its requests.
    pub fn door(&self) -> PathBuf {
        self.root.join("door")
    }

    /// Files that the agent reads: settings and servers.
    pub fn files(&self) -> PathBuf {
        self.root.join("files")
    }

    /// Receives what is written to the home directory.
    pub fn home_upper(&self) -> PathBuf {
        self.root.join("home-upper")
    }

    /// The work directory of the home's overlay.
    pub fn home_work(&self) -> PathBuf {
        self.root.join("home-work")
    }
}

/// What is true of one attempt. All paths are absolute and real.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The level to apply.
    pub level: Level,
    /// Whether a directory can be copied on write.
    pub copies_home: bool,
    /// The user's home directory.
    pub home: PathBuf,
    /// The directory of `regatta.yaml`, from which relative paths are resolved.
    pub config_dir: PathBuf,
    /// The user's checkout.
    pub project: PathBuf,
    /// The repository's git directory.
    pub git_dir: PathBuf,
    /// `.regatta`.
    pub state_dir: PathBuf,
    /// Regatta's own files elsewhere: trust, a store outside `.regatta`, logs.
    pub records: Vec<PathBuf>,
    /// The directory of all lanes.
    pub lanes_root: PathBuf,
    /// The lane, or the checkout for a gate.
    pub lane: PathBuf,
    /// The lane's own git directories.
    pub lane_git: Vec<PathBuf>,
    /// The repositories beside the lane.
    pub siblings: Vec<PathBuf>,
    /// Whether the lane must not be changed.
    pub read_only: bool,
    /// The directories of its box.
    pub boxed: BoxDirs,
    /// The state of its agent; empty for a command.
    pub state: AgentState,
    /// The state of other agents and of other accounts.
    pub others: Vec<PathBuf>,
    /// More directories to write to, which contain the others: those of tests.
    pub more_write: Vec<PathBuf>,
    /// Directories of programs that stay visible wherever they are.
    pub programs: Vec<PathBuf>,
    /// Ports of this machine that its agent needs besides `sandbox.local`.
    pub local: Vec<u16>,
}

/// One rule, with its reason for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reasoned {
    pub rule: PathRule,
    /// Why it is there.
    pub why: String,
}

/// What an attempt may reach, with reasons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The rules in the order in which they are applied.
    pub rules: Vec<Reasoned>,
    rest: Confinement,
}

/// A setting that cannot be honoured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The key below `sandbox`.
    pub key: &'static str,
    /// The line in the settings file; 0 if there is none.
    pub line: usize,
    /// Why, and what to do.
    pub why: String,
}

impl Policy {
    /// The document for `regatta confine`.
    pub fn confinement(&self) -> Confinement {
        let rules = self.rules.iter().map(|reasoned| reasoned.rule.clone()).collect();
        Confinement { rules, ..self.rest.clone() }
    }

    /// The rule that decides about a path.
    pub fn rule_for(&self, path: &Path) -> Option<&Reasoned> {
        self.rules.iter().rev().find(|reasoned| path.starts_with(&reasoned.rule.path))
    }

    /// The rule that decides about a path as the agent sees it: below `/tmp` it is the temporary directory.
    pub fn tmp_covers(&self, path: &Path) -> bool {
        let covered = self.rest.level == Level::Full && in_tmp(path);
        covered && !self.rules.iter().any(|reasoned| path.starts_with(&reasoned.rule.path))
    }
}

/// Rules while they are collected, by path: a later one replaces an earlier one.
#[derive(Default)]
struct Rules(BTreeMap<PathBuf, (PathAccess, String)>);

impl Rules {
    fn add(&mut self, path: &Path, access: PathAccess, why: impl Into<String>) {
        self.0.insert(path.to_owned(), (access, why.into()));
    }

    /// Shows a path read-only, unless it is already visible.
    fn show(&mut self, path: &Path, why: &str) {
        if in_tmp(path) || self.hides(path) {
            self.add(path, PathAccess::Read, why);
        }
    }

    /// Adds a rule for a path that is not hidden and has none of its own.
    fn add_if_open(&mut self, path: &Path, access: PathAccess, why: &str) {
        if !self.0.contains_key(path) && !self.hides(path) {
            self.add(path, access, why);
        }
    }

    /// Whether the nearest rule hides this path.
    fn hides(&self, path: &Path) -> bool {
        let around = self.0.iter().filter(|(rule, _)| path.starts_with(rule));
        let nearest = around.max_by_key(|(rule, _)| rule.components().count());
        matches!(nearest, Some((_, (PathAccess::Hide, _))))
    }

    /// Nearest to the root first.
    fn sorted(self) -> Vec<Reasoned> {
        let mut rules: Vec<Reasoned> = self
            .0
            .into_iter()
            .map(|(path, (access, why))| Reasoned { rule: PathRule { path, access }, why })
            .collect();
        rules.sort_by_key(|reasoned| (reasoned.rule.path.components().count(), reasoned.rule.path.clone()));
        rules
    }
}

fn in_tmp(path: &Path) -> bool {
    path.starts_with("/tmp") || path.starts_with("/var/tmp")
}

/// What the attempt may reach; or every setting that cannot be honoured.
pub fn policy(settings: &SandboxSettings, facts: &Facts, disk: &dyn Disk) -> Result<Policy, Vec<Refusal>> {
    let mut rules = Rules::default();
    for dir in &facts.more_write {
        rules.add(dir, PathAccess::Write, "opened by a test");
    }
    home(&mut rules, settings, facts, disk);
    project(&mut rules, settings, facts, disk);
    let mut refused = Vec::new();
    own_lists(&mut rules, settings, facts, disk, &mut refused);
    // Last, so that no setting replaces them.
    for (path, why) in of_regatta(facts) {
        rules.add(path, PathAccess::Hide, why);
    }
    // A temporary directory or a whole home on the path is not shown because of that.
    let is_broad = |path: &PathBuf| {
        ["/tmp", "/var/tmp"].iter().any(|tmp| path == Path::new(tmp)) || facts.home.starts_with(path)
    };
    for program in facts.programs.iter().filter_map(|path| disk.real(path)).filter(|path| !is_broad(path)) {
        rules.show(&program, "a directory of programs");
    }
    let bin = facts.state_dir.join("bin");
    if let Some(bin) = disk.real(&bin) {
        rules.add(&bin, PathAccess::Read, "`regatta` itself");
    }
    settings_of_agent(&mut rules, facts, disk);
    lane(&mut rules, facts);
    let located = |entries: &[Entry], key, refused: &mut Vec<Refusal>| -> Vec<PathBuf> {
        entries.iter().filter_map(|entry| existing(entry, key, facts, disk, refused)).collect()
    };
    let sockets = located(&settings.sockets, "sockets", &mut refused);
    let devices = located(&settings.devices, "devices", &mut refused);
    for (entry, path) in settings.devices.iter().zip(&devices) {
        if !path.starts_with("/dev") {
            let why = format!("`{}` is not below /dev", entry.text);
            refused.push(Refusal { key: "devices", line: entry.line, why });
        }
    }
    if !refused.is_empty() {
        return Err(refused);
    }
    let rest = Confinement {
        version: VERSION,
        level: facts.level,
        rules: Vec::new(),
        tmp: facts.boxed.tmp(),
        network: network(settings, &facts.local),
        sockets,
        devices,
        nested: settings.nested,
        processes: settings.processes.map(u64::from),
        memory: settings.memory.map(|megabytes| u64::from(megabytes) << 20),
        abi: None,
    };
    Ok(Policy { rules: rules.sorted(), rest })
}

fn network(settings: &SandboxSettings, more: &[u16]) -> Net {
    let mut local = settings.local.clone();
    local.extend(more.iter().filter(|port| !settings.local.contains(port)));
    match settings.network {
        Network::Open => Net::Host,
        Network::Trusted | Network::List => Net::Own { proxy: true, local },
        Network::Off if local.is_empty() => Net::None,
        Network::Off => Net::Own { proxy: false, local },
    }
}

/// The home directory, the secrets in it, and the state of agents.
fn home(rules: &mut Rules, settings: &SandboxSettings, facts: &Facts, disk: &dyn Disk) {
    let full = facts.level == Level::Full;
    let copies = full && facts.copies_home && settings.home == Home::Copy;
    let (access, why) = if copies {
        let (upper, work) = (facts.boxed.home_upper(), facts.boxed.home_work());
        (PathAccess::Copy { upper, work }, "the home directory; changes are thrown away at the end")
    } else {
        (PathAccess::Read, "the home directory")
    };
    // A home that is `/` cannot be replaced as a whole.
    if facts.home.parent().is_some() {
        rules.add(&facts.home, access, why);
    }
    if full {
        if let Some(run) = disk.real(Path::new("/run")) {
            rules.add(&run, PathAccess::Hide, "sockets of the system's services");
        }
        for shown in RUN_SHOWN.iter().filter_map(|path| disk.real(Path::new(path))) {
            rules.add(&shown, PathAccess::Read, "resolvers and system programs");
        }
    }
    for secret in SECRETS {
        let path = facts.home.join(secret.path);
        if secret.only_with.is_some_and(|text| !disk.contains(&path, text)) {
            continue;
        }
        let Some(real) = disk.real(&path) else { continue };
        // A key that is a link to where the user keeps it.
        for linked in disk.linked_files(&real).iter().filter(|linked| linked.starts_with(&facts.home)) {
            rules.add(linked, PathAccess::Hide, secret.what);
        }
        rules.add(&real, PathAccess::Hide, secret.what);
    }
    let own: Vec<PathBuf> = facts.state.write.iter().filter_map(|dir| disk.real(dir)).collect();
    for other in facts.others.iter().filter_map(|dir| disk.real(dir)) {
        // A directory that contains the agent's own state cannot be hidden without it.
        if !own.iter().any(|dir| dir.starts_with(&other)) {
            rules.add(&other, PathAccess::Hide, "the state of another agent or account");
        }
    }
    for dir in own {
        rules.add(&dir, PathAccess::Write, "the agent's own state");
    }
    if settings.caches == Caches::User {
        for cache in USER_CACHES.iter().filter_map(|path| disk.real(&facts.home.join(path))) {
            rules.add(&cache, PathAccess::Write, "a cache of yours (`sandbox.caches: user`)");
        }
    } else {
        for cache in READ_CACHES.iter().filter_map(|(_, path)| disk.real(&facts.home.join(path))) {
            rules.add(&cache, PathAccess::Read, "a cache of yours, to read");
        }
    }
}

/// The settings in the agent's own state. The names come from directories that agents write, and may be links that one
/// of them has planted: such a link opens nothing that is hidden, and nothing for writing.
fn settings_of_agent(rules: &mut Rules, facts: &Facts, disk: &dyn Disk) {
    // Landlock cannot take away what it allowed above; there the settings are compared afterwards.
    if facts.level != Level::Full {
        return;
    }
    for protected in &facts.state.protected {
        for name in disk.names(&protected.dir).iter().filter(|name| protected.covers(name)) {
            if let Some(real) = disk.real(&protected.dir.join(name)) {
                rules.add_if_open(&real, PathAccess::Read, "settings of the user's own agents");
            }
        }
        let Some(dir) = disk.real(&protected.dir) else { continue };
        for free in protected.except.iter().map(|free| dir.join(free)) {
            if disk.real(&free).as_ref() == Some(&free) {
                rules.add_if_open(&free, PathAccess::Write, "the agent's own state");
            }
        }
    }
}

/// The checkout and its git directory: read-only, also when they are in a home that is copied.
fn project(rules: &mut Rules, settings: &SandboxSettings, facts: &Facts, disk: &dyn Disk) {
    rules.add(&facts.project, PathAccess::Read, "the repository");
    rules.add(&facts.git_dir, PathAccess::Read, "the repository's objects and history");
    if let Some(worktrees) = disk.real(&facts.git_dir.join("worktrees")) {
        rules.add(&worktrees, PathAccess::Hide, "what other lanes have committed");
    }
    rules.add(&facts.lanes_root, PathAccess::Hide, "other lanes");
    if settings.caches == Caches::Project
        && let Some(cache) = disk.real(&facts.lanes_root.join(".cache"))
    {
        rules.add(&cache, PathAccess::Write, "the project's own caches of packages");
    }
}

/// What no setting can show.
fn of_regatta(facts: &Facts) -> impl Iterator<Item = (&Path, &'static str)> {
    let records = facts.records.iter().map(|path| (path.as_path(), "Regatta's own records"));
    std::iter::once((facts.state_dir.as_path(), "Regatta's store, prompts and logs")).chain(records)
}

/// The lane, its git directory and its box.
fn lane(rules: &mut Rules, facts: &Facts) {
    let access = || if facts.read_only { PathAccess::Read } else { PathAccess::Write };
    rules.add(&facts.lane, access(), "the lane");
    for dir in &facts.lane_git {
        rules.add(dir, access(), "the lane's own git directory");
    }
    for dir in &facts.siblings {
        rules.add(dir, PathAccess::Read, "a repository beside the lane");
    }
    rules.add(&facts.boxed.tmp(), PathAccess::Write, "the temporary directory");
    rules.add(&facts.boxed.door(), PathAccess::Write, "the way to `regatta done`");
    rules.add(&facts.boxed.files(), PathAccess::Read, "files that Regatta wrote for the agent");
}

/// `write`, `show` and `hide` of the settings.
fn own_lists(
    rules: &mut Rules,
    settings: &SandboxSettings,
    facts: &Facts,
    disk: &dyn Disk,
    refused: &mut Vec<Refusal>,
) {
    let refuse = |refused: &mut Vec<Refusal>, key, entry: &Entry, why: String| {
        refused.push(Refusal { key, line: entry.line, why: format!("`{}` {why}", entry.text) });
    };
    let mut written = Vec::new();
    for entry in &settings.write {
        let Some(real) = existing(entry, "write", facts, disk, refused) else { continue };
        if real != located(&entry.text, facts) {
            let why = format!("is reached through a link; write `{}`", real.display());
            refuse(refused, "write", entry, why);
        } else if let Some(why) = why_not_write(&real, facts) {
            refuse(refused, "write", entry, why);
        } else {
            rules.add(&real, PathAccess::Write, "`sandbox.write`");
            written.push(real);
        }
    }
    for entry in &settings.show {
        let Some(real) = existing(entry, "show", facts, disk, refused) else { continue };
        let own = of_regatta(facts).any(|(path, _)| real.starts_with(path));
        if own {
            refuse(refused, "show", entry, "belongs to Regatta, and no agent may read it; remove it".into());
        } else if real.starts_with(&facts.lanes_root) {
            refuse(
                refused,
                "show",
                entry,
                "is among the lanes, and no agent may read another's; remove it".into(),
            );
        } else {
            rules.add(&real, PathAccess::Read, "`sandbox.show`");
        }
    }
    for entry in &settings.hide {
        let Some(real) = existing(entry, "hide", facts, disk, refused) else { continue };
        if real.parent().is_none() {
            refuse(refused, "hide", entry, "is the whole disk; name a directory".into());
        } else if facts.git_dir.starts_with(&real) && real.starts_with(&facts.project) {
            refuse(refused, "hide", entry, "contains the repository, which agents need to read".into());
        } else if let Some(outer) = written.iter().find(|outer| real.starts_with(outer)) {
            let why = format!(
                "is inside `{}`, which `write` opens; take one of them out, or name the parts to write to",
                outer.display()
            );
            refuse(refused, "hide", entry, why);
        } else {
            rules.add(&real, PathAccess::Hide, "`sandbox.hide`");
        }
    }
}

/// Why a path must not be written to.
fn why_not_write(path: &Path, facts: &Facts) -> Option<String> {
    let contains = |inner: &Path| inner.starts_with(path);
    if path.parent().is_none() {
        return Some("is the whole disk; name the directories to write to, or set `mode: off`".into());
    }
    if contains(&facts.home) {
        return Some("contains your home directory; name the directories in it to write to".into());
    }
    let own: [(&Path, &str); 3] = [
        (&facts.git_dir, "the repository's git directory"),
        (&facts.state_dir, "Regatta's own files"),
        (&facts.lanes_root, "all lanes"),
    ];
    for (dir, what) in own {
        if contains(dir) {
            return Some(format!("contains {what}; name the directories in it to write to"));
        }
        if path.starts_with(dir) {
            return Some(format!("is among {what}, which agents must not change; remove it"));
        }
    }
    facts
        .records
        .iter()
        .any(|dir| contains(dir) || path.starts_with(dir))
        .then(|| "would let agents change Regatta's own records; name another directory".into())
}

/// The real path of an entry; one that does not exist is refused.
fn existing(
    entry: &Entry,
    key: &'static str,
    facts: &Facts,
    disk: &dyn Disk,
    refused: &mut Vec<Refusal>,
) -> Option<PathBuf> {
    let path = located(&entry.text, facts);
    let real = disk.real(&path);
    if real.is_none() {
        let why =
            format!("`{}` does not exist ({}); create it, or remove it here", entry.text, path.display());
        refused.push(Refusal { key, line: entry.line, why });
    }
    real
}

/// An entry as an absolute path: `~` is the home directory, and a relative path starts at the settings file.
fn located(text: &str, facts: &Facts) -> PathBuf {
    let path = match text.strip_prefix('~') {
        Some("") => facts.home.clone(),
        Some(rest) if rest.starts_with('/') => facts.home.join(rest.trim_start_matches('/')),
        _ => facts.config_dir.join(text),
    };
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

/// An entry of a list of paths that no directory can have; completes a sentence that begins with it.
pub fn no_path(text: &str) -> Option<&'static str> {
    if text.trim().is_empty() {
        Some("is empty")
    } else if text.contains(|c: char| c.is_control()) {
        Some("contains a line break or another control character")
    } else if text.starts_with('~') && text != "~" && !text.starts_with("~/") {
        Some("names another user's home directory; write an absolute path")
    } else {
        None
    }
}
