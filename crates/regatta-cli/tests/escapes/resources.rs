//! What an agent uses up: memory, the disk, open files, watches. The engine and its neighbours go on.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

use regatta_testkit::daemon::until;
use regatta_testkit::repo::ScratchRepo;
use regatta_testkit::world::{task, text};
use rustix::fs::inotify;

use crate::scene::{Scene, Setting, User, WAIT, closed_world, let_go_on};
use crate::stories::{Story, staying};

/// Told at the levels full and files, as each user.
pub(crate) const STORIES: &[Story] =
    &[("62_memory", memory), ("62_open_files_and_watches", open_files_and_watches)];

/// Told once.
pub(crate) const ONCE: &[Story] = &[("62_a_full_disk", a_full_disk)];

/// How much memory an agent may have that is limited, and how much it takes, in megabytes.
const MEMORY: (usize, usize) = (64, 512);

/// What runs inside is the first to go, and what has a limit stays below it or is said to have none.
fn memory(user: User, setting: Setting) {
    let mut scene = Scene::new(user, setting);
    scene.configure(&format!("sandbox: {{ mode: {}, memory: {}M }}\n", setting.mode(), MEMORY.0));
    let body = format!(
        "(setsid '{0}' stay >/dev/null 2>&1 </dev/null &)\n'{0}' stay >/dev/null 2>&1 &\n{WAIT}\n\
         if '{0}' eat {1}; then echo all >eaten.txt; else echo some >eaten.txt; fi",
        scene.escape().display(),
        MEMORY.1
    );
    let plan = scene.plan(&task("eats", "", &body));
    let run = scene.world.start(&plan, &["--no-dashboard"]);
    let inside = until("the agent runs", || Some(staying(&scene)).filter(|pids| pids.len() == 2));
    for pid in inside {
        let score = fs::read_to_string(format!("/proc/{pid}/oom_score_adj")).unwrap();
        assert!(score.trim().parse::<i32>().unwrap() >= 500, "{pid}: {score}");
    }
    let own = fs::read_to_string(format!("/proc/{}/oom_score_adj", run.pid())).unwrap();
    assert!(own.trim().parse::<i32>().unwrap() < 500, "the engine stays: {own}");
    scene.let_go_on("eats");
    let ran = run.wait();
    let said = format!("{}{}", ran.stdout, ran.stderr);
    let is_weaker = said.contains("memory is not limited");
    // Where the limit holds, the kernel may end all of the agent, and not only what ate.
    let eaten = fs::read_to_string(scene.facts.project.join("eaten.txt")).unwrap_or_default();
    assert_eq!(is_weaker, eaten == "all\n", "{eaten:?}: {said}");
    scene.run(&task("after", "sandbox: off", "echo x >after.txt"), 0);
}

/// Takes this many megabytes, each page of them.
pub(crate) fn eat(megabytes: &str) -> io::Result<()> {
    let mut eaten: Vec<Vec<u8>> = Vec::new();
    for n in 0..megabytes.parse::<usize>().unwrap_or(0) {
        eaten.push(vec![u8::try_from(n % 255).unwrap_or(1) | 1; 1 << 20]);
    }
    assert!(eaten.iter().all(|it| it[4096] != 0));
    Ok(())
}

/// An agent opens whatever it can open, in several processes, and holds it. Meanwhile others start, work, report and
/// land, and people look.
fn open_files_and_watches(user: User, setting: Setting) {
    let scene = Scene::new(user, setting);
    let body = format!(
        "for n in 1 2 3; do '{}' hoard >hoarded-$n.txt & pids=\"$pids $!\"; done\n{WAIT}\nkill $pids; wait\n\
         regatta done --verdict pass --summary hoarded",
        scene.escape().display()
    );
    let plan = scene.plan(&task("hoards", "", &body));
    let run = scene.world.start(&plan, &["--no-dashboard"]);
    let lane = scene.facts.lanes.join("hoards");
    let files = [1, 2, 3].map(|n| lane.join(format!("hoarded-{n}.txt")));
    let hoarded = until("everything is used up", || {
        let all = files.each_ref().map(|file| fs::read_to_string(file).unwrap_or_default());
        all.iter().all(|it| it.ends_with("all\n")).then(|| all.concat())
    });
    let other =
        scene.plan(&task("beside", "", "echo x >beside.txt; regatta done --verdict pass --summary x"));
    let other = scene.world.run(&other, &["--no-dashboard"]);
    assert_eq!(other.code, 0, "{hoarded}\n{}", other.shown());
    for words in [&["list"][..], &["status", "hoards"], &["diff", "hoards"], &["logs", "hoards"], &["radar"]]
    {
        let ran = scene.world.regatta(words);
        assert_eq!(ran.code, 0, "{hoarded}\nregatta {}: {}", words.join(" "), ran.shown());
    }
    scene.let_go_on("hoards");
    let ran = run.wait();
    assert_eq!(ran.code, 0, "{hoarded}\n{}", ran.shown());
    let summary = scene.world.task("hoards").to_string();
    assert!(summary.contains("\"landed\""), "{summary}");
}

/// Opens watchers, watches and files until each is refused, says so and holds them.
pub(crate) fn hoard() -> io::Result<()> {
    use std::io::Write as _;
    let mut watchers = Vec::new();
    while let Ok(watcher) = inotify::init(inotify::CreateFlags::CLOEXEC) {
        watchers.push(watcher);
    }
    let mut watches = 0;
    if let Some(watcher) = watchers.first() {
        let files = fs::read_dir("/usr/bin")?.flatten();
        let watch = |path: &Path| inotify::add_watch(watcher, path, inotify::WatchFlags::MODIFY).is_ok();
        watches = files.filter(|file| watch(&file.path())).count();
    }
    let mut held = Vec::new();
    while let Ok(file) = fs::File::open("/dev/null") {
        held.push(file);
    }
    let mut out = io::stdout();
    writeln!(out, "{} watchers, {watches} watches, {} files\nall", watchers.len(), held.len())?;
    out.flush()?;
    crate::stories::stay()
}

/// What an agent writes to its own temporary directory counts as the lanes' disk: nothing starts while there is too
/// little, and everything goes on once it ended.
fn a_full_disk(_: User, _: Setting) {
    let Some(disk) = SmallDisk::new() else {
        crate::scene::say("escapes: no file system can be mounted, so none is filled");
        return;
    };
    let world = closed_world(ScratchRepo::below(&disk.0));
    world.config("limits: { min_free_disk_gb: 0.04 }\n");
    let body = format!("head -c 60000000 /dev/zero >$TMPDIR/filler; echo filled\n{WAIT}\necho x >x.txt");
    let plan = world.plan(&(task("fills", "", &body) + &task("waits", "", "echo y >y.txt")));
    let mut run = world.start(&plan, &["-v", "-j", "1"]);
    until("it fills", || world.regatta(["logs", "fills"]).stdout.contains("filled").then_some(()));
    let more = world.plan(&task("more", "", "echo z >z.txt"));
    let mut other = world.start(&more, &["-v"]);
    other.wait_line("held, disk:");
    let held = world.regatta(["status", "more", "--json"]).exited(0).json();
    assert!(text(&held["held"]).starts_with("disk: "), "{held}");
    let_go_on(&world.lanes().join("fills"));
    run.until(|line| line.contains("landed"));
    assert_eq!(run.wait().code, 0);
    assert_eq!(other.wait().code, 0);
    for name in ["x.txt", "y.txt", "z.txt"] {
        assert!(world.landed(name).is_some(), "{name}");
    }
}

/// A file system of some megabytes, unmounted when dropped.
struct SmallDisk(std::path::PathBuf);

impl SmallDisk {
    fn new() -> Option<Self> {
        let dir = tempfile::Builder::new().prefix("escape-disk-").tempdir().ok()?.keep();
        let mut mount = Command::new("mount");
        let mounted = mount.args(["-t", "tmpfs", "-o", "size=90m", "regatta-test"]).arg(&dir).status();
        mounted.is_ok_and(|status| status.success()).then_some(Self(dir))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
        let _ = fs::remove_dir(&self.0);
    }
}
