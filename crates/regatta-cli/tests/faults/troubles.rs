//! What the machine around a daemon does to it: a locked store, a directory that takes no files, a full disk, floods, a
//! clock that is set back and forth.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use regatta_core::event::EventBody;
use regatta_store::RequestId;
use regatta_testkit::daemon::{DEADLINE, until, within};
use regatta_testkit::invariants::pen;
use regatta_testkit::repo::ScratchRepo;
use regatta_testkit::world::{World, task};

use crate::REGATTA;
use crate::scene::{Dice, found_wrong, judge, pass, settings, short_or_long, story, world, wrong_end};

#[test]
fn a_store_that_somebody_holds_for_seconds_stops_nothing_for_good() {
    let held = Duration::from_secs(short_or_long(4, 18));
    let world = world();
    let plan = story(&world);
    let daemon = world.daemon();
    world.enqueue(&plan);
    until("something was claimed", || (world.events_of("a", "claimed") > 0).then_some(()));
    let db = world.database();
    db.execute_batch("begin immediate").expect("the store can be held");
    pass(held);
    db.execute_batch("rollback").expect("and let go");
    drop(db);
    world.wait_settled(Duration::from_secs(300));
    let end = wrong_end(&world);
    judge(&world, daemon, "the store was held", end);
    println!("store held by another process for {} s: everything landed", held.as_secs());
}

#[test]
fn a_clock_that_is_set_back_and_forth_delays_nothing_and_loses_nothing() {
    let mut world = world();
    let clock = world.outside("clock");
    let set = |hours: i64| fs::write(&clock, (hours * 3_600_000).to_string()).expect("the clock can be set");
    set(0);
    world.env("REGATTA_CLOCK", &clock);
    let plan = story(&world);
    let daemon = world.daemon();
    world.enqueue(&plan);
    // The task that fails at first waits a second: by the clock that was just set back, for hours.
    until("it is to be tried again", || (world.events_of("d", "retrying") > 0).then_some(()));
    set(-5);
    until("it is tried again", || (world.events_of("d", "claimed") > 1).then_some(()));
    set(3);
    world.wait_settled(Duration::from_secs(300));
    let end = wrong_end(&world);
    judge(&world, daemon, "the clock was set back and forth", end);
    println!("clock set back five hours and forth eight: nothing waited longer, everything landed");
}

#[test]
fn a_directory_that_takes_nothing_for_a_while_costs_nothing() {
    let world = world();
    let pen = pen(&world);
    let many: String = (0..6).map(|n| task(&format!("t{n}"), "", &format!("{pen}line t{n}.txt"))).collect();
    let daemon = world.daemon();
    let runs = world.state_dir().join("runs");
    fs::create_dir_all(&runs).expect("the daemon has made its directory");
    let aside = block(&runs);
    world.enqueue(&world.plan(&many));
    let parked = within(DEADLINE, || world.stored().iter().any(|(_, state)| state == "parked").then_some(()));
    unblock(&runs, &aside);
    assert!(parked.is_some(), "{}", world.log());
    unpark(&world);
    let wrong = not_landed(&world);
    judge(&world, daemon, "a read-only directory", wrong);
    println!("read-only run directory: tasks were parked uncharged, and landed afterwards");
}

/// Puts a file in the place of a directory, so that nothing can be created in it. Permissions do not stop root, and not
/// every file system has immutable files.
fn block(dir: &Path) -> std::path::PathBuf {
    let aside = dir.with_extension("aside");
    fs::rename(dir, &aside).expect("it can be moved");
    fs::write(dir, "").expect("a file can be put there");
    aside
}

fn unblock(dir: &Path, aside: &Path) {
    fs::remove_file(dir).expect("the file is ours");
    fs::rename(aside, dir).expect("it can be moved back");
}

/// Lets waiting tasks start at once, until none is waiting any more.
fn unpark(world: &World) {
    within(Duration::from_secs(300), || {
        let states = world.stored();
        if states.iter().any(|(_, state)| state == "parked") {
            world.regatta(["unpark", "--all"]);
        }
        let moving = ["pending", "claimed", "running", "judging", "landing", "parked"];
        (!states.iter().any(|(_, state)| moving.contains(&state.as_str()))).then_some(())
    });
}

fn not_landed(world: &World) -> Vec<String> {
    let stored = world.stored();
    stored
        .iter()
        .filter(|(_, state)| state != "landed")
        .map(|(id, state)| format!("{id} is {state}"))
        .collect()
}

/// A file system of a few megabytes, unmounted when dropped.
struct SmallDisk(std::path::PathBuf);

impl SmallDisk {
    fn new() -> Option<Self> {
        let dir = tempfile::Builder::new().prefix("regatta-disk-").tempdir().ok()?.keep();
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", "size=12m", "regatta-test"]).arg(&dir).status();
        mounted.is_ok_and(|status| status.success()).then_some(Self(dir))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
        let _ = fs::remove_dir(&self.0);
    }
}

/// Runs one test of this program in its own namespaces, where every user may mount.
fn in_a_namespace(test: &str) {
    const INSIDE: &str = "REGATTA_FAULTS_INSIDE";
    assert!(
        std::env::var_os(INSIDE).is_none(),
        "no file system can be mounted, not even in a user namespace"
    );
    let program = std::env::current_exe().expect("this program has a path");
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount"]).arg(program).args([
        "--exact",
        test,
        "--nocapture",
    ]);
    let ran = command.env(INSIDE, "1").output().expect("unshare can be started");
    let (said, status) = (String::from_utf8_lossy(&ran.stdout), ran.status);
    // A name that matches no test would pass too.
    assert!(
        status.success() && said.contains("1 passed"),
        "{test} in a user namespace: {status}\n{said}{}",
        String::from_utf8_lossy(&ran.stderr)
    );
}

#[test]
fn a_full_disk_corrupts_nothing_and_is_forgotten_when_there_is_room() {
    let Some(disk) = SmallDisk::new() else {
        return in_a_namespace("troubles::a_full_disk_corrupts_nothing_and_is_forgotten_when_there_is_room");
    };
    let mut dice = Dice::new();
    let rounds = short_or_long(1, 12);
    for round in 0..rounds {
        let world = World::around(REGATTA, ScratchRepo::below(&disk.0));
        settings(&world, 3);
        let pen = pen(&world);
        let many: String = (0..8)
            .map(|n| task(&format!("t{n}"), "max_attempts: 9", &format!("{pen}line t{n}.txt")))
            .collect();
        let plan = world.plan(&many);
        let mut daemon = world.daemon();
        world.enqueue(&plan);
        // By its events, because a short-lived state is easily missed.
        until("something has begun", || {
            (0..8).any(|n| world.events_of(&format!("t{n}"), "started") > 0).then_some(())
        });
        dice.pause(500);
        let filler = disk.0.join("filler");
        fill(&filler);
        dice.pause(4000);
        let late = world.plan(&task("late", "", &format!("{pen}line late.txt")));
        let acknowledged = late.metadata().is_ok_and(|meta| meta.len() > 0)
            && world.regatta(["enqueue".as_ref(), late.as_os_str()]).code == 0;
        fs::remove_file(&filler).expect("there is room again");
        let died = daemon.has_ended();
        if died {
            // It may give up if nothing can be written; what counts is what the next one finds.
            drop(daemon.wait());
            daemon = world.daemon();
        }
        unpark(&world);
        let mut wrong = not_landed(&world);
        if died {
            wrong.push("the daemon did not outlive a full disk".to_owned());
        }
        if acknowledged && !world.stored().iter().any(|(id, _)| id == "late") {
            wrong.push("an acknowledged task is not there".to_owned());
        }
        wrong = found_wrong(&world, daemon, wrong);
        let seed = dice.seed;
        assert!(wrong.is_empty(), "REGATTA_FAULTS_SEED={seed}, round {round}:\n{}", wrong.join("\n"));
    }
    println!("full disk: {rounds} times in the middle of a story, everything landed afterwards");
}

fn fill(path: &Path) {
    use std::io::Write as _;
    let mut file = fs::File::create(path).expect("the first byte has room");
    for size in [1 << 16, 4096, 512, 1] {
        let block = vec![b'x'; size];
        while file.write_all(&block).is_ok() {}
    }
}

#[test]
fn a_flood_of_output_and_of_events_is_taken() {
    let megabytes = short_or_long(200, 1024);
    let world = world();
    let pen = pen(&world);
    let daemon = world.daemon();
    let script =
        format!("{pen}yes 'a line of output that nobody will ever read' | head -c {megabytes}M; line f.txt");
    world.enqueue(&world.plan(&task("flood", "", &script)));
    until("it runs", || (world.events_of("flood", "started") > 0).then_some(()));
    // Meanwhile, agents report.
    let (n_events, seconds) = events(&world, short_or_long(2, 10));
    world.wait_settled(Duration::from_secs(short_or_long(300, 600)));
    let log = world.state_dir().join("logs/flood/1.jsonl");
    let size = fs::metadata(&log).map_or(0, |meta| meta.len());
    let peak = peak_memory(daemon.pid());
    let mut wrong = not_landed(&world);
    if size != megabytes << 20 {
        wrong.push(format!("{size} bytes of {megabytes} MB of output are in the log"));
    }
    if peak > 256 << 10 {
        wrong.push(format!("the daemon took {} MB of memory", peak >> 10));
    }
    let stored: u64 = world
        .database()
        .query_row("select count(*) from event where body ->> 'kind' = 'noted'", [], |row| {
            row.get::<_, i64>(0)
        })
        .map_or(0, |n| n.unsigned_abs());
    if stored < n_events {
        wrong.push(format!("{stored} of {n_events} acknowledged events are there"));
    }
    judge(&world, daemon, "floods", wrong);
    println!(
        "floods: {megabytes} MB of output, {:.0} events/s for {seconds:.1} s, daemon's peak {} MB",
        n_events as f64 / seconds,
        peak >> 10
    );
}

/// Appends events from many workers at once; returns how many were acknowledged, and in how many seconds.
fn events(world: &World, seconds: u64) -> (u64, f64) {
    let url = format!("sqlite:{}", world.state_dir().join("regatta.db").display());
    let count = std::sync::Arc::new(AtomicU64::new(0));
    let over = std::sync::Arc::new(AtomicBool::new(false));
    let started = Instant::now();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime can be made").block_on(async {
        let store = regatta_store::open(&url).await.expect("the store can be opened");
        let mut workers = tokio::task::JoinSet::new();
        for worker in 0..64 {
            let (store, count, over) = (store.clone(), count.clone(), over.clone());
            workers.spawn(async move {
                while !over.load(Ordering::Relaxed) {
                    let body = EventBody::Noted { text: format!("worker {worker} has something to say") };
                    let at = regatta_engine::clock::now();
                    if store.append(None, None, &body, &RequestId::fresh(), at).await.is_ok() {
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        over.store(true, Ordering::Relaxed);
        while workers.join_next().await.is_some() {}
    });
    (count.load(Ordering::Relaxed), started.elapsed().as_secs_f64())
}

/// The most memory a process ever had, in KiB.
fn peak_memory(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|kib| kib.parse().ok()).unwrap_or(0)
}

#[test]
fn many_tasks_with_many_at_once_all_land() {
    let (n_tasks, at_once) = short_or_long((60, 20), (200, 50));
    let started = Instant::now();
    let world = World::new(REGATTA);
    settings(&world, at_once);
    let pen = pen(&world);
    let many: String =
        (0..n_tasks).map(|n| task(&format!("t{n}"), "", &format!("{pen}line t{n}.txt"))).collect();
    let daemon = world.daemon();
    world.enqueue(&world.plan(&many));
    world.wait_settled(Duration::from_secs(short_or_long(400, 900)));
    let wrong = not_landed(&world);
    judge(&world, daemon, "many tasks", wrong);
    println!("{n_tasks} tasks, {at_once} at once: all landed, {:.1} s", started.elapsed().as_secs_f64());
}
