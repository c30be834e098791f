//! What an attempt may reach: the table of defaults, the user's lists, and properties of the order.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::policy::no_path;
use super::settings::{Caches, Entry, Home, Network};
use super::*;
use crate::config::AgentKind;

/// A disk in a table: paths that exist, links, and texts of files.
#[derive(Default)]
struct Table {
    paths: BTreeSet<PathBuf>,
    links: BTreeMap<PathBuf, PathBuf>,
    texts: BTreeMap<PathBuf, String>,
}

impl Disk for Table {
    fn real(&self, path: &Path) -> Option<PathBuf> {
        for (link, target) in &self.links {
            if let Ok(rest) = path.strip_prefix(link) {
                return self.real(&if rest.as_os_str().is_empty() {
                    target.clone()
                } else {
                    target.join(rest)
                });
            }
        }
        let exists = path == Path::new("/") || self.paths.iter().any(|known| known.starts_with(path));
        exists.then(|| path.to_owned())
    }

    fn contains(&self, path: &Path, text: &str) -> bool {
        self.texts.get(path).is_some_and(|all| all.contains(text))
    }

    fn names(&self, dir: &Path) -> Vec<String> {
        let below = self.paths.iter().filter_map(|path| path.strip_prefix(dir).ok()?.iter().next());
        let names: BTreeSet<String> = below.map(|name| name.to_string_lossy().into_owned()).collect();
        names.into_iter().collect()
    }

    fn linked_files(&self, dir: &Path) -> Vec<PathBuf> {
        let links = self.links.keys().filter(|link| link.parent() == Some(dir));
        links.filter_map(|link| self.real(link).filter(|real| self.paths.contains(real))).collect()
    }
}

fn table() -> Table {
    let paths = [
        "/usr/bin/git",
        "/run/systemd/resolve/resolv.conf",
        "/run/docker.sock",
        "/tmp/tools/bin/agent",
        "/dev/dri/card0",
        "/home/u/.ssh/id_ed25519",
        "/home/u/.npmrc",
        "/home/u/.config/gh/hosts.yml",
        "/home/u/.claude/settings.json",
        "/home/u/.claude/projects/x",
        "/home/u/.codex/config.toml",
        "/home/u/.cargo/registry/x",
        "/home/u/.local/state/regatta/trust",
        "/home/u/p/.git/objects/pack",
        "/home/u/p/.git/worktrees/a/git",
        "/home/u/p/.regatta/store.db",
        "/home/u/p/.regatta/bin/regatta",
        "/home/u/p/secrets/key",
        "/home/u/p/src",
        "/home/u/p.lanes/a/src",
        "/home/u/p.lanes/b/src",
        "/home/u/p.lanes/.cache/npm",
        "/home/u/p.lanes/.box/a/1/tmp",
        "/home/u/fixtures/inner",
    ];
    Table { paths: paths.map(PathBuf::from).into(), ..Table::default() }
}

fn facts(level: Level) -> Facts {
    Facts {
        level,
        copies_home: level == Level::Full,
        home: "/home/u".into(),
        config_dir: "/home/u/p".into(),
        project: "/home/u/p".into(),
        git_dir: "/home/u/p/.git".into(),
        state_dir: "/home/u/p/.regatta".into(),
        records: vec!["/home/u/.local/state/regatta".into()],
        lanes_root: "/home/u/p.lanes".into(),
        lane: "/home/u/p.lanes/a".into(),
        lane_git: vec!["/home/u/p/.git/worktrees/a/git".into()],
        siblings: Vec::new(),
        read_only: false,
        boxed: BoxDirs { root: "/home/u/p.lanes/.box/a/1".into() },
        state: state_of(AgentKind::Claude, Path::new("/home/u"), &|_| None),
        others: state::usual_dirs(Path::new("/home/u")),
        more_write: Vec::new(),
        programs: vec!["/tmp/tools/bin".into(), "/usr/bin".into()],
        local: Vec::new(),
    }
}

fn made(settings: &SandboxSettings, facts: &Facts) -> Policy {
    policy(settings, facts, &table()).unwrap()
}

fn at(policy: &Policy, path: &str) -> &'static str {
    match policy.rule_for(Path::new(path)).map(|reasoned| &reasoned.rule.access) {
        Some(PathAccess::Write) => "write",
        Some(PathAccess::Hide) => "hide",
        Some(PathAccess::Copy { .. }) => "copy",
        Some(PathAccess::Read) | None => "read",
    }
}

#[test]
fn the_defaults_path_by_path() {
    let settings = SandboxSettings::default();
    let (full, files) = (made(&settings, &facts(Level::Full)), made(&settings, &facts(Level::Files)));
    for (path, in_full, in_files) in [
        ("/usr/bin/git", "read", "read"),
        ("/run/docker.sock", "hide", "read"),
        ("/run/systemd/resolve/resolv.conf", "read", "read"),
        ("/tmp/tools/bin/agent", "read", "read"),
        ("/home/u/.bashrc", "copy", "read"),
        ("/home/u/.ssh/id_ed25519", "hide", "hide"),
        ("/home/u/.config/gh/hosts.yml", "hide", "hide"),
        ("/home/u/.npmrc", "copy", "read"),
        ("/home/u/.claude/projects/x", "write", "write"),
        ("/home/u/.claude/settings.json", "read", "write"),
        ("/home/u/.codex/config.toml", "hide", "hide"),
        ("/home/u/.local/state/regatta/trust", "hide", "hide"),
        ("/home/u/p/src", "read", "read"),
        ("/home/u/p/.git/objects/pack", "read", "read"),
        ("/home/u/p/.git/worktrees/a/git/HEAD", "write", "write"),
        ("/home/u/p/.git/worktrees/a/HEAD", "hide", "hide"),
        ("/home/u/p/.git/worktrees/b/git/objects", "hide", "hide"),
        ("/home/u/p/.regatta/store.db", "hide", "hide"),
        ("/home/u/p/.regatta/bin/regatta", "read", "read"),
        ("/home/u/p.lanes/a/src", "write", "write"),
        ("/home/u/p.lanes/b/src", "hide", "hide"),
        ("/home/u/p.lanes/.cache/npm", "write", "write"),
        ("/home/u/p.lanes/.box/a/1/tmp/x", "write", "write"),
        ("/home/u/p.lanes/.box/a/1/door/x", "write", "write"),
        ("/home/u/p.lanes/.box/a/1/files/x", "read", "read"),
        ("/home/u/p.lanes/.box/a/1/home-upper/x", "hide", "hide"),
        ("/home/u/p.lanes/.box/a/2/tmp/x", "hide", "hide"),
    ] {
        assert_eq!((at(&full, path), at(&files, path)), (in_full, in_files), "{path}");
    }
    assert!(full.tmp_covers(Path::new("/tmp/x")) && !full.tmp_covers(Path::new("/tmp/tools/bin/agent")));
    let plan = full.confinement();
    assert_eq!((plan.network, plan.processes, plan.nested), (Net::Host, Some(4096), false));
    assert_eq!(plan.tmp, Path::new("/home/u/p.lanes/.box/a/1/tmp"));
}

#[test]
fn links_that_an_agent_planted_in_its_state_open_nothing() {
    let mut table = table();
    let planted = [
        ("plugins/store", "/home/u/.ssh"),
        ("commands", "/home/u/.ssh/keys"),
        ("hooks", "/home/u/p/.regatta/logs"),
        ("agents", "/home/u/p.lanes/b"),
        ("skills", "/home/u/p/.git"),
        // A link to the user's own files stays of use.
        ("CLAUDE.md", "/home/u/dotfiles/CLAUDE.md"),
    ];
    for (name, target) in planted {
        let link = Path::new("/home/u/.claude").join(name);
        table.paths.extend([link.clone(), target.into()]);
        table.links.insert(link, target.into());
    }
    let policy = policy(&SandboxSettings::default(), &facts(Level::Full), &table).unwrap();
    for hidden in ["/home/u/.ssh", "/home/u/.ssh/keys", "/home/u/p/.regatta/logs", "/home/u/p.lanes/b/src"] {
        assert_eq!(at(&policy, hidden), "hide", "{hidden}");
    }
    for read in ["/home/u/p/.git/config", "/home/u/.claude/settings.json", "/home/u/dotfiles/CLAUDE.md"] {
        assert_eq!(at(&policy, read), "read", "{read}");
    }
}

#[test]
fn a_read_only_task_cannot_change_its_lane() {
    let facts = Facts { read_only: true, ..facts(Level::Full) };
    let policy = made(&SandboxSettings::default(), &facts);
    assert_eq!(at(&policy, "/home/u/p.lanes/a/src"), "read");
    assert_eq!(at(&policy, "/home/u/p/.git/worktrees/a/git/HEAD"), "read");
    assert_eq!(at(&policy, "/home/u/p.lanes/.box/a/1/tmp/x"), "write");
}

#[test]
fn an_npmrc_is_a_secret_only_with_a_token() {
    let mut table = table();
    table.texts.insert("/home/u/.npmrc".into(), "//registry/:_authToken=x".into());
    let policy = policy(&SandboxSettings::default(), &facts(Level::Full), &table).unwrap();
    assert_eq!(at(&policy, "/home/u/.npmrc"), "hide");
}

#[test]
fn a_key_is_hidden_where_the_link_to_it_leads_and_nothing_else_is() {
    let mut table = table();
    table.paths.insert("/home/u/dotfiles/id_rsa".into());
    for (name, target) in
        [("id_rsa", "dotfiles/id_rsa"), ("home", ""), ("project", "p"), ("sh", "../../usr/bin/git")]
    {
        table.links.insert(Path::new("/home/u/.ssh").join(name), Path::new("/home/u").join(target));
    }
    let policy = policy(&SandboxSettings::default(), &facts(Level::Full), &table).unwrap();
    assert_eq!(at(&policy, "/home/u/dotfiles/id_rsa"), "hide");
    assert_eq!(at(&policy, "/home/u/dotfiles/other"), "copy");
    assert_eq!(at(&policy, "/home/u/p/src"), "read");
}

#[test]
fn settings_change_the_home_the_caches_and_the_network() {
    let settings = SandboxSettings {
        home: Home::ReadOnly,
        caches: Caches::User,
        network: Network::Trusted,
        local: vec![5432],
        nested: true,
        processes: Some(64),
        memory: Some(2),
        ..SandboxSettings::default()
    };
    let policy = made(&settings, &facts(Level::Full));
    assert_eq!(at(&policy, "/home/u/.bashrc"), "read");
    assert_eq!(at(&policy, "/home/u/.cargo/registry/x"), "write");
    assert_eq!(at(&policy, "/home/u/p.lanes/.cache/npm"), "hide");
    let plan = policy.confinement();
    assert_eq!(plan.network, Net::Own { proxy: true, local: vec![5432] });
    assert_eq!((plan.nested, plan.processes, plan.memory), (true, Some(64), Some(2 << 20)));
    let off = SandboxSettings { network: Network::Off, ..SandboxSettings::default() };
    assert_eq!(made(&off, &facts(Level::Full)).confinement().network, Net::None);
}

fn listed(text: &str) -> Vec<Entry> {
    vec![Entry { text: text.to_owned(), line: 7 }]
}

#[test]
fn lists_open_and_close_more() {
    let settings = SandboxSettings {
        write: listed("../fixtures"),
        show: listed("~/.config/gh"),
        hide: listed("secrets/"),
        devices: listed("/dev/dri"),
        sockets: listed("/run/docker.sock"),
        ..SandboxSettings::default()
    };
    let policy = made(&settings, &facts(Level::Full));
    assert_eq!(at(&policy, "/home/u/fixtures/inner"), "write");
    assert_eq!(at(&policy, "/home/u/.config/gh/hosts.yml"), "read");
    assert_eq!(at(&policy, "/home/u/p/secrets/key"), "hide");
    let plan = policy.confinement();
    assert_eq!((plan.devices, plan.sockets), (vec!["/dev/dri".into()], vec!["/run/docker.sock".into()]));
}

#[test]
fn what_cannot_be_honoured_is_refused_with_its_line() {
    let refused = |settings: &SandboxSettings, table: &Table| {
        let refused = policy(settings, &facts(Level::Full), table).unwrap_err();
        assert!(refused.iter().all(|refusal| refusal.line == 7), "{refused:?}");
        refused.into_iter().map(|refusal| refusal.why).collect::<Vec<_>>().join("\n")
    };
    let write = |text: &str| SandboxSettings { write: listed(text), ..SandboxSettings::default() };
    let show = |text: &str| SandboxSettings { show: listed(text), ..SandboxSettings::default() };
    let hide = |text: &str| SandboxSettings { hide: listed(text), ..SandboxSettings::default() };
    let mut linked = table();
    linked.links.insert("/home/u/p/link".into(), "/home/u/fixtures".into());
    for (settings, expected) in [
        (write("/"), "the whole disk"),
        (write("../../.."), "the whole disk"),
        (write("~"), "your home directory"),
        (write(".."), "your home directory"),
        (write("/home"), "your home directory"),
        (write("."), "the repository's git directory"),
        (write(".git/hooks/../worktrees"), "is among the repository's git directory"),
        (write(".regatta"), "Regatta's own files"),
        (write("../p.lanes/b"), "is among all lanes"),
        (write("~/.local/state"), "Regatta's own records"),
        (write("../nowhere"), "does not exist"),
        (write("link"), "is reached through a link; write `/home/u/fixtures`"),
        (show(".regatta/store.db"), "belongs to Regatta"),
        (show("~/.local/state/regatta"), "belongs to Regatta"),
        (show("../p.lanes/b"), "is among the lanes"),
        (hide("/"), "the whole disk"),
        (hide(".git"), "contains the repository"),
        (hide("nowhere"), "does not exist"),
    ] {
        let why = refused(&settings, &linked);
        assert!(why.contains(expected), "{settings:?}: {why}");
    }
    let both = SandboxSettings { hide: listed("../fixtures/inner"), ..write("../fixtures") };
    assert!(refused(&both, &linked).contains("which `write` opens"));
    let device = SandboxSettings { devices: listed("/usr/bin"), ..SandboxSettings::default() };
    assert!(refused(&device, &linked).contains("not below /dev"));
    for text in ["", " ", "a\nb", "a\u{7}", "~root", "~root/x"] {
        assert!(no_path(text).is_some(), "{text:?}");
    }
    for text in ["~", "~/x", "/a b", "../x", "x/é"] {
        assert_eq!(no_path(text), None, "{text:?}");
    }
}

fn some_path() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "/",
        "~",
        ".",
        "..",
        "src",
        "secrets",
        ".git",
        ".regatta",
        ".regatta/bin",
        ".regatta/store.db",
        "../p.lanes",
        "../p.lanes/b",
        "../p.lanes/a",
        "../fixtures",
        "../fixtures/inner",
        "~/.ssh",
        "~/.claude",
        "~/.codex",
        "~/.config",
        "~/.config/gh",
        "~/.local/state",
        "/run",
        "/run/docker.sock",
        "/usr",
        "/tmp",
        "/home",
    ])
    .prop_map(str::to_owned)
}

fn some_list() -> impl Strategy<Value = Vec<Entry>> {
    prop::collection::vec(some_path().prop_map(|text| Entry { text, line: 1 }), 0..3)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_setting_opens_what_must_stay_closed(
        write in some_list(), show in some_list(), hide in some_list(), full in any::<bool>()
    ) {
        let settings = SandboxSettings { write, show, hide, ..SandboxSettings::default() };
        let facts = facts(if full { Level::Full } else { Level::Files });
        let Ok(policy) = policy(&settings, &facts, &table()) else { return Ok(()) };
        for (n, earlier) in policy.rules.iter().enumerate() {
            for later in &policy.rules[n + 1..] {
                prop_assert!(!earlier.rule.path.starts_with(&later.rule.path), "{:?} undoes {:?}", later, earlier);
            }
        }
        for path in [
            "/home/u/p/.regatta/store.db", "/home/u/.local/state/regatta/trust", "/home/u/p.lanes/b/src",
            "/home/u/p.lanes/.box/a/2/tmp",
        ] {
            prop_assert_eq!(at(&policy, path), "hide", "{}", path);
        }
        for path in ["/home/u/p/.git/config", "/home/u/p/.git/hooks/x", "/home/u/.bashrc", "/etc/passwd"] {
            prop_assert_ne!(at(&policy, path), "write", "{}", path);
        }
        prop_assert_eq!(at(&policy, "/home/u/p.lanes/a/src"), "write");
    }
}
