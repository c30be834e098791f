//! A prepared home with secrets, a project in it, another lane, and services outside that an agent tries to reach.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use regatta_testkit::daemon::until;
use regatta_testkit::repo::{ScratchRepo, program, script, write};
use regatta_testkit::world::{World, let_go, task};
use tempfile::TempDir;

use crate::outside::{self, Bystander, Services, Trees};
use crate::program::{Facts, Proof, SECRET, TRIES, mark, secrets_in, service_places};
use crate::sys;

pub(crate) const REGATTA: &str = env!("CARGO_BIN_EXE_regatta");

/// The first ordinary user of the tests: an id that no account has. Each scene has its own, so that what one uses up
/// is not missing in another.
const ORDINARY: u32 = 61_234;
static SCENES: AtomicU32 = AtomicU32::new(0);

/// The name of the task that tries.
const AGENT: &str = "escape";

/// With this line an agent waits until it is let go on. A copied home would have a pipe of its own, so it is in the lane.
pub(crate) const WAIT: &str = "mkfifo go-on; cat go-on >/dev/null; rm go-on";

/// Lets an agent in this lane go on that waits.
pub(crate) fn let_go_on(lane: &Path) {
    let pipe = lane.join("go-on");
    until("the agent waits", || pipe.exists().then_some(()));
    let_go(&pipe);
}

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
            return vec![User::Ordinary, User::Root];
        }
        say("escapes: not root, so they are tried as an ordinary user only");
        vec![User::Ordinary]
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            User::Root => "root",
            User::Ordinary => "ordinary",
        }
    }
}

/// How the agent is confined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setting {
    Off,
    Files,
    Full,
    FullOff,
    FullTrusted,
}

/// The settings that this machine can be tested with. What is missing is said.
pub(crate) fn levels() -> Vec<Setting> {
    let mut levels = vec![Setting::Off, Setting::Files];
    let scene = World::new(REGATTA);
    scene.config("sandbox: { mode: full }\n");
    let ran = scene.regatta(["sandbox", "show"]);
    if ran.code == 0 {
        levels.extend([Setting::Full, Setting::FullOff, Setting::FullTrusted]);
    } else {
        say(&format!("escapes: this machine does not have the level full: {}", ran.shown()));
    }
    levels
}

impl Setting {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Setting::Off => "off",
            Setting::Files => "files",
            Setting::Full => "full",
            Setting::FullOff => "full_network_off",
            Setting::FullTrusted => "full_network_trusted",
        }
    }

    pub(crate) fn config(self, tcp: u16) -> String {
        match self {
            Setting::Off => "sandbox: { mode: off }\n".into(),
            Setting::Files => "sandbox: { mode: auto }\n".into(),
            Setting::Full => "sandbox: { mode: full }\n".into(),
            Setting::FullOff => "sandbox: { mode: full, network: off }\n".into(),
            Setting::FullTrusted => {
                // A name that leads back to this machine.
                let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
                format!("sandbox: {{ mode: full, network: trusted, hosts: ['{}:{tcp}'] }}\n", name.trim())
            }
        }
    }

    /// The value of `sandbox.mode`.
    pub(crate) fn mode(self) -> &'static str {
        match self {
            Setting::Off => "off",
            Setting::Files => "auto",
            Setting::Full | Setting::FullOff | Setting::FullTrusted => "full",
        }
    }

    fn level(self) -> &'static str {
        match self {
            Setting::Off => "off",
            Setting::Files => "files",
            Setting::Full | Setting::FullOff | Setting::FullTrusted => "full",
        }
    }
}

/// A world in this repository whose agents do not even see the directory around it.
pub(crate) fn closed_world(repo: ScratchRepo) -> World {
    let mut world = World::around(REGATTA, repo);
    world.env("REGATTA_TEST_SANDBOX_WRITE", "");
    world
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// What came of one try.
pub(crate) struct Row {
    /// What shows that it got through.
    pub(crate) through: Option<String>,
    /// What it said itself.
    pub(crate) line: String,
}

/// What came of all tries, in their order.
pub(crate) struct Outcome {
    pub(crate) rows: Vec<Row>,
    /// What changed outside that no try is meant to change.
    pub(crate) differences: Vec<String>,
}

/// A world in which an agent tries to escape.
pub(crate) struct Scene {
    pub(crate) world: World,
    setting: Setting,
    /// The id to become, if this is not the one.
    becomes: Option<u32>,
    pub(crate) home: PathBuf,
    pub(crate) facts: Facts,
    services: Services,
    bystanders: [Bystander; 3],
    shared_memory: i32,
    run_dir: Option<PathBuf>,
    _dir: TempDir,
}

impl Scene {
    pub(crate) fn new(user: User, setting: Setting) -> Self {
        let becomes = (user == User::Ordinary && is_root())
            .then(|| ORDINARY + SCENES.fetch_add(1, Ordering::Relaxed) % 1000);
        let dir = directory();
        let home = dir.path().canonicalize().unwrap();
        prepare_home(&home);
        let world = World::around(REGATTA, ScratchRepo::below(&home));
        let services = Services::default();
        let unique = home.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let run_dir = is_root().then(|| PathBuf::from(format!("/run/{unique}")));
        let bystanders = [0; 3].map(|_| Bystander::start(becomes));
        let facts =
            facts(&home, &world, &services, run_dir.as_deref(), &bystanders, &unique, setting, becomes);
        let mut scene = Self {
            shared_memory: sys::make_shared_memory(facts.shm_key, &format!("{SECRET}segment")).unwrap(),
            world,
            setting,
            becomes,
            home,
            facts,
            services,
            bystanders,
            run_dir,
            _dir: dir,
        };
        scene.prepare();
        scene
    }

    fn prepare(&mut self) {
        let (home, facts) = (self.home.clone(), self.facts.clone());
        for name in ["mode", "time", "attribute", "length"] {
            for path in crate::program::both(&facts, name) {
                write(&path, "as it was\n");
            }
        }
        self.world.repo().commit_all("files");
        self.world.config(&self.setting.config(facts.tcp));
        fs::create_dir_all(home.join("bin")).unwrap();
        let (exe, escape) = (home.join("bin/regatta"), self.escape());
        program(Path::new(REGATTA), &exe);
        program(&std::env::current_exe().unwrap(), &escape);
        self.world.use_program(&exe);
        if let Some(id) = self.becomes {
            let wrapper = home.join("bin/as-user");
            script(&wrapper, &format!("exec '{}' as {id} '{}' \"$@\"", escape.display(), exe.display()));
            self.world.use_program(&wrapper);
        }
        // The judgement is worth nothing if tests may write beside the repository.
        self.world.env("REGATTA_TEST_SANDBOX_WRITE", "");
        self.world.env("HOME", &home).env("XDG_CONFIG_HOME", home.join(".config"));
        if self.setting == Setting::Files {
            self.world.env("REGATTA_TEST_SANDBOX", "no-userns");
        }
        let desktop = ["SSH_AUTH_SOCK", "DISPLAY", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR", "GPG_AGENT_INFO"];
        for name in desktop.into_iter().chain(["DBUS_SESSION_BUS_ADDRESS", "KUBECONFIG", "DOCKER_HOST"]) {
            self.world.env(name, format!("/{SECRET}desktop"));
        }
        write(&home.join("facts.json"), serde_json::to_vec(&facts).unwrap());
        self.give_away();
        // A failed task keeps its lane: the other lane.
        self.run(&task("other", "", &format!("echo {SECRET}lane >theirs.txt; exit 1 # {SECRET}store")), 1);
        assert!(facts.other_lane.join("theirs.txt").exists(), "the other lane was kept");
        assert!(facts.other_admin.join("HEAD").exists(), "the other lane is registered");
        write(&facts.other_admin.join("git/secret.txt"), format!("{SECRET}admin\n"));
        write(&facts.other_hold, format!("{SECRET}hold\n"));
    }

    /// Gives everything to the user who runs Regatta.
    pub(crate) fn give_away(&self) {
        let Some(id) = self.becomes else { return };
        for path in [Some(&self.home), self.run_dir.as_ref(), Some(&self.facts.shm), Some(&self.facts.tmp)] {
            let Some(path) = path else { continue };
            let status = Command::new("chown").args(["-R", &format!("{id}:{id}"), "--"]).arg(path).status();
            assert!(status.is_ok_and(|status| status.success()), "chown {}", path.display());
        }
        if let Some((program, file)) = &self.facts.set_uid {
            let status = Command::new("chown").args(["0:0", "--"]).args([program, file]).status();
            assert!(status.is_ok_and(|status| status.success()), "chown {}", program.display());
            fs::set_permissions(program, fs::Permissions::from_mode(0o4755)).unwrap();
            fs::set_permissions(file, fs::Permissions::from_mode(0o600)).unwrap();
        }
    }

    /// Whether Regatta runs as another user than these tests.
    pub(crate) fn is_somebody_else(&self) -> bool {
        self.becomes.is_some()
    }

    /// How many processes outside have ended.
    pub(crate) fn ended(&mut self) -> usize {
        self.bystanders.iter_mut().filter_map(|it| it.has_ended().then_some(())).count()
    }

    /// This program, where the agent finds it.
    pub(crate) fn escape(&self) -> PathBuf {
        self.home.join("bin/escape")
    }

    /// The command line with which this program tries.
    pub(crate) fn tries(&self, who: &str, ids: &[&str]) -> String {
        let facts = self.home.join("facts.json");
        format!("'{}' try '{}' {who} {}", self.escape().display(), facts.display(), ids.join(" "))
    }

    /// Lets the agent of this task go on.
    pub(crate) fn let_go_on(&self, task: &str) {
        let_go_on(&self.facts.lanes.join(task));
    }

    /// Gives one file to the user who runs Regatta.
    pub(crate) fn own(&self, path: &Path) {
        if let Some(id) = self.becomes {
            std::os::unix::fs::chown(path, Some(id), Some(id)).unwrap();
        }
    }

    /// A plan for the agent `sh`.
    pub(crate) fn plan(&self, tasks: &str) -> PathBuf {
        let plan = self.world.plan(tasks);
        self.own(&plan);
        plan
    }

    /// Other settings, to which the user agrees.
    pub(crate) fn configure(&mut self, yaml: &str) {
        write(&self.facts.project.join("regatta.yaml"), yaml);
        self.git(&self.facts.project, &["commit", "-qam", "settings"]).unwrap();
        self.give_away();
        self.world.regatta(["trust", "--yes"]);
    }

    /// Git, as a person runs it who trusts the directory.
    pub(crate) fn git(&self, dir: &Path, args: &[&str]) -> Result<String, String> {
        let mut command = Command::new("git");
        command.args(["-c", "safe.directory=*"]).args(args).current_dir(dir);
        command.env_clear().envs(self.world.repo().env());
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() {
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        } else {
            Err(said)
        }
    }

    /// Runs tasks of the agent `sh`.
    pub(crate) fn run(&self, tasks: &str, code: i32) {
        let plan = self.plan(tasks);
        let ran = self.world.run(&plan, &["--no-dashboard"]);
        assert_eq!(ran.code, code, "{}", ran.shown());
    }

    /// Runs every try in the lane of a task, and judges.
    pub(crate) fn attack(mut self) -> Outcome {
        let before = self.outside();
        // It fails, so that its lane is kept.
        self.run(&task(AGENT, "", &format!("{}; exit 1", self.tries("agent", &[]))), 1);
        let after = self.outside();
        let report =
            fs::read_to_string(self.facts.lanes.join(AGENT).join("tries-agent.txt")).unwrap_or_default();
        let logs = self.world.regatta(["logs", AGENT]);
        assert_eq!(report.lines().count(), TRIES.len(), "a line for each:\n{report}\n{}", logs.shown());
        let task = self.world.task(AGENT);
        assert_eq!(
            task["attempts"][0]["sandbox"],
            self.setting.level(),
            "the attempt says its level: {task:#}"
        );
        let marked = outside::text_of(&self.marked());
        let known: BTreeSet<PathBuf> = TRIES
            .iter()
            .filter_map(|attempt| match attempt.proof {
                Proof::Changed(paths) => Some(paths(&self.facts)),
                _ => None,
            })
            .flatten()
            .collect();
        let rows = TRIES.iter().zip(report.lines()).map(|(attempt, line)| {
            let through = self.judge(&attempt.proof, attempt.id, line, &marked, &before, &after);
            Row { through, line: line.chars().take(400).collect() }
        });
        let rows = rows.collect();
        // Landlock alone does not refuse a change of mode, time or attribute: those tries have their rows.
        let details = self.setting != Setting::Files;
        Outcome { rows, differences: outside::differences(&before, &after, &known, details) }
    }

    fn judge(
        &mut self,
        proof: &Proof,
        id: &str,
        line: &str,
        marked: &str,
        before: &Trees,
        after: &Trees,
    ) -> Option<String> {
        let mark = mark("agent", id);
        match proof {
            Proof::Mark => marked.contains(&mark).then(|| "its mark is outside".to_owned()),
            Proof::Secret(names) => {
                let read = secrets_in(line.as_bytes());
                let found = read.into_iter().find(|secret| {
                    names.iter().any(|name| *name == "*" || *secret == format!("{SECRET}{name}"))
                });
                found.map(|secret| format!("it read {secret}"))
            }
            Proof::Heard => self.services.heard().contains(&mark).then(|| "a service heard it".to_owned()),
            Proof::Reached(name) => self
                .services
                .heard()
                .contains(&format!("reached {name};"))
                .then(|| format!("{name} was reached")),
            Proof::Ended(n) => {
                self.bystanders[n + 1].has_ended().then(|| "it ended a process outside".to_owned())
            }
            Proof::Changed(paths) => {
                let changed = paths(&self.facts).into_iter().find(|path| before.get(path) != after.get(path));
                changed.map(|path| format!("{} changed", path.display()))
            }
            Proof::Shown(is_shown) => is_shown(&self.facts).then(|| "it shows outside".to_owned()),
            Proof::Claim => line.contains(" REACHED ").then(|| "it says so".to_owned()),
        }
    }

    /// Everywhere that marks are looked for: all but the agent's own lane.
    pub(crate) fn marked(&self) -> Vec<PathBuf> {
        let mut places = service_places(&self.facts);
        places.extend([self.facts.shm.clone(), self.facts.tmp.clone(), self.facts.lanes.join("mark")]);
        places.extend([self.facts.other_lane.clone(), self.facts.other_admin.clone()]);
        places.extend(["regatta.db", "planted"].map(|name| self.facts.project.join(".regatta").join(name)));
        places.push(self.facts.project.with_file_name("beside"));
        places.extend(["/var/spool/cron", "/var/spool/at"].map(PathBuf::from));
        for dir in [&self.home, &self.facts.project, &self.facts.project.join(".git")] {
            let entries = fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
            let own =
                [&self.world.repo().outside(), &self.facts.project.join(".regatta"), &self.home.join("bin")];
            places.extend(entries.filter(|path| !own.contains(&path) && !path.ends_with(".git")));
        }
        places.retain(|path| !path.ends_with("worktrees"));
        places
    }

    /// Everything outside the lane that must stay as it is.
    pub(crate) fn outside(&self) -> Trees {
        let mut seen = Trees::new();
        let git = self.facts.project.join(".git");
        // Regatta's own: the store, the lanes' registrations, the branches of tasks.
        let own =
            ["worktrees", "refs/regatta", "refs/heads/regatta", "regatta", "gc.pid", "logs", "packed-refs"];
        let mut leave_out: Vec<PathBuf> = own.iter().map(|name| git.join(name)).collect();
        leave_out.push(self.facts.project.join(".regatta"));
        leave_out.extend([git.clone(), git.join("refs"), git.join("objects")]);
        leave_out.extend([self.world.repo().outside(), self.home.clone()]);
        leave_out.push(self.home.join(".local/state"));
        for entry in fs::read_dir(&self.home).unwrap().flatten() {
            outside::look(&entry.path(), &leave_out, &mut seen);
        }
        for entry in fs::read_dir(&self.facts.project).unwrap().flatten() {
            outside::look(&entry.path(), &leave_out, &mut seen);
        }
        for name in ["config", "HEAD", "hooks", "info", "refs/heads/main", "objects/info"] {
            outside::look(&git.join(name), &leave_out, &mut seen);
        }
        for path in
            self.facts.objects.iter().chain([&self.facts.other_lane, &self.facts.shm, &self.facts.tmp])
        {
            outside::look(path, &[], &mut seen);
        }
        outside::look(&self.facts.other_admin.join("HEAD"), &[], &mut seen);
        // Objects may be added, not changed: git itself checks the content of all.
        let content = format!("{:?}", self.git(&self.facts.project, &["fsck", "--full", "--no-dangling"]));
        seen.insert("git fsck".into(), outside::Seen { content, details: String::new() });
        seen
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        sys::remove_shared_memory(self.shared_memory);
        let _ = fs::remove_file(&self.facts.shm);
        let _ = fs::remove_file(&self.facts.tmp);
        for place in service_places(&self.facts) {
            let _ = fs::remove_file(place);
        }
        if let Some(dir) = &self.run_dir {
            let _ = fs::remove_dir_all(dir);
        }
    }
}

/// Below the build directory if everybody may go there: `/tmp` is special to a sandbox, and a home is seldom there.
fn directory() -> TempDir {
    let mut builder = tempfile::Builder::new();
    builder.prefix("escape-");
    let build = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let _ = fs::create_dir_all(build);
    let is_open = |dir: &Path| fs::metadata(dir).is_ok_and(|meta| meta.permissions().mode() & 0o5 == 0o5);
    let dir = if build.ancestors().all(is_open) { builder.tempdir_in(build) } else { builder.tempdir() };
    dir.unwrap()
}

fn prepare_home(home: &Path) {
    for (path, name) in [
        (".ssh/id_ed25519", "id_ed25519"),
        (".ssh/id_linked", "id_linked"),
        (".ssh/id_root", "id_root"),
        (".ssh/id_handle", "id_handle"),
        (".aws/credentials", "aws"),
        (".netrc", "netrc"),
        (".config/gh/hosts.yml", "gh"),
        (".gnupg/private-keys-v1.d/key", "gnupg"),
        (".kube/config", "kube"),
        (".docker/config.json", "docker"),
        (".git-credentials", "git"),
        (".cargo/credentials.toml", "cargo"),
        (".codex/auth.json", "codex"),
        (".claude/.credentials.json", "claude"),
        (".config/regatta/config.yaml", "regatta"),
        (".local/state/regatta/record", "state"),
        (".bash_history", "history"),
    ] {
        write(&home.join(path), format!("# {SECRET}{name}\n"));
    }
    for ordinary in [".bashrc", ".profile", ".zshrc", ".cache/x", ".cargo/registry/x", ".local/bin/tool"] {
        write(&home.join(ordinary), "# as it was\n");
    }
    fs::create_dir_all(home.join("run")).unwrap();
}

#[expect(clippy::too_many_arguments, reason = "everything that the tries need to know")]
fn facts(
    home: &Path,
    world: &World,
    services: &Services,
    run_dir: Option<&Path>,
    bystanders: &[Bystander; 3],
    unique: &str,
    setting: Setting,
    becomes: Option<u32>,
) -> Facts {
    let (stream, datagram) = (home.join("run/stream.sock"), home.join("run/datagram.sock"));
    services.unix(&stream);
    services.datagrams(&datagram);
    let stream_in_run = run_dir.map(|dir| {
        fs::create_dir_all(dir).unwrap();
        dir.join("stream.sock")
    });
    stream_in_run.iter().for_each(|path| services.unix(path));
    services.abstract_unix(unique);
    let desktop = run_dir.map_or_else(|| home.join("run"), Path::to_owned);
    fs::create_dir_all(desktop.join("systemd")).unwrap();
    for (service, socket) in [("bus", "bus"), ("bus", "systemd/private"), ("docker", "docker.sock")] {
        services.named(service, &desktop.join(socket));
    }
    let (shm, tmp) = (PathBuf::from(format!("/dev/shm/{unique}")), PathBuf::from(format!("/tmp/{unique}")));
    write(&shm, format!("{SECRET}shm\n"));
    write(&tmp, format!("{SECRET}tmp\n"));
    let set_uid = becomes.map(|_| {
        let (cat, file) = (home.join("bin/cat"), home.join("of-root"));
        fs::create_dir_all(home.join("bin")).unwrap();
        program(Path::new("/bin/cat"), &cat);
        write(&file, format!("{SECRET}of-root\n"));
        (cat, file)
    });
    let object = |content: &str| {
        world.repo().write("loose", content);
        let id = world.repo().git(["hash-object", "-w", "loose"]);
        fs::remove_file(world.root().join("loose")).unwrap();
        world.root().join(".git/objects").join(&id[..2]).join(&id[2..])
    };
    let tcp = services.tcp();
    Facts {
        confined: setting != Setting::Off,
        home: home.to_owned(),
        project: world.root().to_owned(),
        lanes: world.lanes(),
        other_lane: world.lanes().join("other"),
        other_admin: world.root().join(".git/worktrees/regatta-other"),
        other_hold: world.root().join(".git/regatta/lanes/third.hold"),
        bystander: bystanders[0].pid(),
        victims: [bystanders[1].pid(), bystanders[2].pid()],
        stream,
        stream_in_run,
        datagram,
        desktop,
        terminal: services.terminal(becomes),
        abstract_name: unique.to_owned(),
        tcp,
        udp: services.udp(),
        shm,
        tmp,
        shm_key: i32::from(tcp) + 0x5ec0_0000,
        objects: [object("one"), object("two")],
        handle: sys::handle_of(&home.join(".ssh/id_handle")).unwrap_or_default(),
        set_uid,
    }
}
