//! A prepared home with secrets, a project in it, another lane, and services outside that an agent tries to reach.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::hash::Hasher as _;
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use regatta_testkit::repo::{ScratchRepo, program, script, write};
use regatta_testkit::world::{World, task};
use tempfile::TempDir;

use crate::program::{Facts, TRIES};
use crate::sys;

const REGATTA: &str = env!("CARGO_BIN_EXE_regatta");

/// The ordinary user of the tests: any id without rights will do.
const ORDINARY: u32 = 1000;

/// Part of every secret of the prepared home.
const SECRET: &str = "SECRET-OF-THE-USER";

/// Tries that write to the home. Where it is copied they succeed in the copy, so only what is outside counts.
const IN_A_COPY: &[u32] = &[1, 2, 18, 19, 42, 48, 50];

/// Prints a line to standard error.
#[expect(clippy::print_stderr, reason = "the program that an agent runs reports this way")]
pub(crate) fn say(text: &str) {
    eprintln!("{text}");
}

/// Who runs Regatta.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum User {
    Root,
    Ordinary,
}

impl User {
    /// Root can become anybody; an ordinary user can only be itself.
    pub(crate) fn available() -> Vec<Self> {
        if is_root() {
            return vec![User::Root, User::Ordinary];
        }
        say("escapes: not root, so they are tried as an ordinary user only");
        vec![User::Ordinary]
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            User::Root => "root",
            User::Ordinary => "ordinary_user",
        }
    }
}

/// How the agent is confined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setting {
    Off,
    Files,
    Full,
    FullWithoutNetwork,
}

impl Setting {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Setting::Off => "off",
            Setting::Files => "files",
            Setting::Full => "full",
            Setting::FullWithoutNetwork => "full_without_network",
        }
    }

    fn config(self) -> &'static str {
        match self {
            Setting::Off => "sandbox: { mode: off }\n",
            Setting::Files => "sandbox: { mode: auto }\n",
            Setting::Full => "sandbox: { mode: full }\n",
            Setting::FullWithoutNetwork => "sandbox: { mode: full, network: off }\n",
        }
    }

    fn level(self) -> &'static str {
        match self {
            Setting::Off => "off",
            Setting::Files => "files",
            Setting::Full | Setting::FullWithoutNetwork => "full",
        }
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A world in which an agent tries to escape.
pub(crate) struct Scene {
    world: World,
    setting: Setting,
    home: TempDir,
    facts: Facts,
    /// Lives outside with a secret in its environment.
    bystander: Child,
    shared_memory: i32,
    run_dir: Option<PathBuf>,
    _listening: (UnixListener, Option<UnixListener>, UnixListener, UnixDatagram, TcpListener),
}

impl Scene {
    pub(crate) fn new(user: User, setting: Setting) -> Self {
        let home = tempfile::Builder::new().prefix("regatta-escape-").tempdir().unwrap();
        let at = home.path().canonicalize().unwrap();
        prepare_home(&at);
        let mut world = World::around(REGATTA, ScratchRepo::below(&at));
        world.config(setting.config());
        let exe = at.join("bin/regatta");
        fs::create_dir_all(at.join("bin")).unwrap();
        program(Path::new(REGATTA), &exe);
        program(&std::env::current_exe().unwrap(), &at.join("bin/escape"));
        world.env("HOME", &at).env("XDG_CONFIG_HOME", at.join(".config"));
        if setting == Setting::Files {
            world.env("REGATTA_TEST_SANDBOX", "no-userns");
        }
        for name in ["SSH_AUTH_SOCK", "DISPLAY", "DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR", "KUBECONFIG"] {
            world.env(name, at.join("run/desktop"));
        }
        let ordinary = user == User::Ordinary && is_root();
        world.use_program(&exe);
        if ordinary {
            let wrapper = at.join("bin/as-user");
            let ids = format!("--reuid={ORDINARY} --regid={ORDINARY} --clear-groups");
            script(&wrapper, &format!("exec setpriv {ids} '{}' \"$@\"", exe.display()));
            world.use_program(&wrapper);
        }

        let run_dir = is_root().then(|| PathBuf::from(format!("/run/regatta-escape-{}", unique(&at))));
        let (services, facts, shared_memory, bystander) = services(&at, &world, run_dir.as_deref(), ordinary);
        write(&at.join("facts.json"), serde_json::to_vec(&facts).unwrap());
        if ordinary {
            give_to(ORDINARY, &at);
            run_dir.iter().for_each(|dir| give_to(ORDINARY, dir));
            give_to(ORDINARY, &facts.shm);
        }
        let scene = Self {
            world,
            setting,
            home,
            facts,
            bystander,
            shared_memory,
            run_dir,
            _listening: services,
        };
        // A failed task keeps its lane: the other lane.
        let other = scene.world.plan(&task("other", "", &format!("echo {SECRET} >theirs.txt; exit 1")));
        if ordinary {
            give_to(ORDINARY, &other);
        }
        scene.world.run(&other, &[]).exited(1);
        assert!(scene.facts.other_lane.join("theirs.txt").exists(), "the other lane was kept");
        scene
    }

    /// Runs every try in the lane of a task; returns those that got through, and their lines.
    pub(crate) fn attack(&self) -> BTreeMap<u32, String> {
        let bin = self.home.path().canonicalize().unwrap();
        let (escape, facts) = (bin.join("bin/escape"), bin.join("facts.json"));
        let line = format!("'{}' try-all '{}'", escape.display(), facts.display());
        let plan = self.world.plan(&task("escape", "land: false", &line));
        let ran = self.world.run(&plan, &[]);
        let said = format!("{}{}", ran.stdout, ran.stderr);
        let logs = self.world.regatta(["logs", "escape"]);
        let report = self.report();
        assert_eq!(
            report.lines().count(),
            TRIES.len(),
            "every try has a line:\n{report}\n{said}\n{}{}",
            logs.stdout,
            logs.stderr
        );
        let attempt = &self.world.task("escape")["attempts"][0];
        assert_eq!(attempt["sandbox"], self.setting.level(), "{attempt}");
        let copied = matches!(self.setting, Setting::Full | Setting::FullWithoutNetwork);
        report
            .lines()
            .filter_map(|line| {
                let (number, rest) = line.split_once(' ')?;
                let number = number.parse().ok()?;
                let counts = rest.starts_with("THROUGH") && !(copied && IN_A_COPY.contains(&number));
                counts.then(|| (number, rest.to_owned()))
            })
            .collect()
    }

    fn report(&self) -> String {
        let shown = self.world.repo().try_git(self.world.root(), &["show", "regatta/escape:tries.txt"]);
        String::from_utf8_lossy(&shown.stdout).into_owned()
    }

    /// Secrets that a try printed.
    pub(crate) fn secrets_seen(&self) -> Vec<String> {
        let report = self.report();
        let lines = report.lines().filter(|line| line.contains(SECRET));
        // Shared memory and sockets are judged by their own tries.
        lines.map(|line| format!("a secret was read: {line}")).collect()
    }

    /// Everything outside the lane that must stay as it is.
    pub(crate) fn outside(&self) -> BTreeMap<PathBuf, String> {
        // Landlock alone does not refuse a change of mode, time or attribute.
        let details = self.setting != Setting::Files;
        let mut seen = BTreeMap::new();
        let home = self.home.path().canonicalize().unwrap();
        let base = self.world.repo().outside();
        for entry in fs::read_dir(&home).unwrap().flatten() {
            if entry.path() != base {
                fingerprint(&entry.path(), details, &mut seen);
            }
        }
        let root = self.world.root();
        for entry in fs::read_dir(root).unwrap().flatten() {
            if entry.file_name() != ".git" && entry.file_name() != ".regatta" {
                fingerprint(&entry.path(), details, &mut seen);
            }
        }
        for name in ["config", "HEAD", "hooks", "info", "refs/heads/main", "objects/info"] {
            fingerprint(&root.join(".git").join(name), details, &mut seen);
        }
        fingerprint(&self.facts.other_lane, details, &mut seen);
        fingerprint(&self.facts.other_admin.join("HEAD"), details, &mut seen);
        fingerprint(&self.facts.shm, details, &mut seen);
        // Objects may be added, not changed: git itself checks the content of all.
        let checked = self.world.repo().try_git(root, &["fsck", "--full"]);
        seen.insert("git fsck".into(), format!("{:?}", checked.status.code()));
        let store = fs::read(root.join(".regatta/regatta.db")).unwrap_or_default();
        let spoilt = store.windows(9).any(|part| part == b"# ESCAPED");
        seen.insert("the store".into(), format!("spoilt: {spoilt}"));
        seen
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = self.bystander.kill();
        let _ = self.bystander.wait();
        sys::remove_shared_memory(self.shared_memory);
        let _ = fs::remove_file(&self.facts.shm);
        if let Some(dir) = &self.run_dir {
            let _ = fs::remove_dir_all(dir);
        }
    }
}

/// What changed, was added or is gone.
pub(crate) fn differences(before: &BTreeMap<PathBuf, String>, after: &BTreeMap<PathBuf, String>) -> Vec<String> {
    let paths: BTreeSet<&PathBuf> = before.keys().chain(after.keys()).collect();
    let changed = paths.into_iter().filter(|path| before.get(*path) != after.get(*path));
    changed
        .map(|path| format!("{} changed: {:?} → {:?}", path.display(), before.get(path), after.get(path)))
        .collect()
}

fn prepare_home(home: &Path) {
    for secret in [
        ".ssh/id_ed25519",
        ".aws/credentials",
        ".netrc",
        ".config/gh/hosts.yml",
        ".gnupg/private-keys-v1.d/key",
        ".kube/config",
        ".docker/config.json",
        ".git-credentials",
        ".cargo/credentials.toml",
    ] {
        write(&home.join(secret), format!("{SECRET} {secret}\n"));
    }
    for ordinary in [".bashrc", ".cache/x", ".cargo/registry/x", ".local/bin/tool", ".claude/settings.json"] {
        write(&home.join(ordinary), "{}\n");
    }
    fs::create_dir_all(home.join("run")).unwrap();
}

type Services = (UnixListener, Option<UnixListener>, UnixListener, UnixDatagram, TcpListener);

fn services(
    home: &Path,
    world: &World,
    run_dir: Option<&Path>,
    ordinary: bool,
) -> (Services, Facts, i32, Child) {
    let stream = home.join("run/service.sock");
    let datagram = home.join("run/datagram.sock");
    let stream_in_run = run_dir.map(|dir| {
        fs::create_dir_all(dir).unwrap();
        dir.join("service.sock")
    });
    let abstract_name = format!("regatta-escape-{}", unique(home));
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let (tcp_port, udp_port) = (tcp.local_addr().unwrap().port(), udp.local_addr().unwrap().port());
    // Answers one datagram; ends with the test program otherwise.
    std::thread::spawn(move || {
        if let Ok((_, from)) = udp.recv_from(&mut [0; 16]) {
            let _ = udp.send_to(b"got it", from);
        }
    });
    let listening = (
        UnixListener::bind(&stream).unwrap(),
        stream_in_run.as_ref().map(|path| UnixListener::bind(path).unwrap()),
        UnixListener::bind_addr(&SocketAddr::from_abstract_name(&abstract_name).unwrap()).unwrap(),
        UnixDatagram::bind(&datagram).unwrap(),
        tcp,
    );
    let shm = PathBuf::from(format!("/dev/shm/{abstract_name}"));
    write(&shm, format!("{SECRET} shm\n"));
    let shm_key = i32::try_from(std::process::id() % 100_000).unwrap() * 100 + i32::from(tcp_port % 100);
    let shared_memory = sys::make_shared_memory(shm_key).unwrap();
    let mut bystander = Command::new("sleep");
    if ordinary {
        bystander = Command::new("setpriv");
        let id = ORDINARY.to_string();
        bystander.args(["--reuid", &id, "--regid", &id, "--clear-groups", "sleep"]);
    }
    bystander.arg("600").env_clear().env("PATH", "/usr/bin:/bin").env("TOKEN", SECRET);
    let bystander = bystander.stdin(Stdio::null()).spawn().unwrap();
    let facts = Facts {
        home: home.to_owned(),
        project: world.root().to_owned(),
        lanes: world.lanes(),
        other_lane: world.lanes().join("other"),
        other_admin: world.root().join(".git/worktrees/regatta-other"),
        pid: bystander.id(),
        stream,
        stream_in_run,
        datagram,
        abstract_name,
        tcp: tcp_port,
        udp: udp_port,
        shm,
        shm_key,
    };
    (listening, facts, shared_memory, bystander)
}

fn unique(home: &Path) -> String {
    home.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Changes the owner of a tree.
fn give_to(owner: u32, path: &Path) {
    let status = Command::new("chown").args(["-R", &format!("{owner}:{owner}"), "--"]).arg(path).status();
    assert!(status.is_ok_and(|status| status.success()), "chown {}", path.display());
}

/// The content of a tree; with `details` also mode, owner, times and attributes.
fn fingerprint(path: &Path, details: bool, seen: &mut BTreeMap<PathBuf, String>) {
    let Ok(meta) = fs::symlink_metadata(path) else { return };
    let mut line = format!("{:o}", meta.mode() & 0o170_000);
    if details {
        // The change time also betrays a changed attribute.
        line += &format!(" {:o} {}:{}", meta.mode(), meta.uid(), meta.gid());
        if meta.is_file() {
            let times = (meta.mtime(), meta.mtime_nsec(), meta.ctime(), meta.ctime_nsec());
            line += &format!(" {times:?}");
        }
    }
    if meta.is_dir() {
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            fingerprint(&entry.path(), details, seen);
        }
    } else if meta.is_file() {
        let mut hash = std::hash::DefaultHasher::new();
        hash.write(&fs::read(path).unwrap_or_default());
        line += &format!(" {} links, {:x}", meta.nlink(), hash.finish());
    }
    seen.insert(path.to_owned(), line);
}
