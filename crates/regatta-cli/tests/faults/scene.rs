//! What all faults share: how long to continue, dice, a story with its expected end, and its judgement.

use std::path::{Path, PathBuf};
use std::time::Duration;

use regatta_testkit::daemon::within;
use regatta_testkit::invariants::{pen, violations};
use regatta_testkit::repo::ScratchRepo;
use regatta_testkit::world::{Running, World, task};

use crate::REGATTA;

/// Whether this is the long form.
fn is_long() -> bool {
    std::env::var("REGATTA_FAULTS").is_ok_and(|form| form == "long")
}

/// One number for the short form, one for the long.
pub(crate) fn short_or_long<T>(short: T, long: T) -> T {
    if is_long() { long } else { short }
}

/// Reproducible dice: the seed is printed with every failure.
pub(crate) struct Dice {
    pub(crate) seed: u64,
    state: u64,
}

impl Dice {
    pub(crate) fn new() -> Self {
        let given = std::env::var("REGATTA_FAULTS_SEED").ok().and_then(|seed| seed.parse().ok());
        Self::from(given.unwrap_or_else(|| {
            let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            since.map_or(1, |since| u64::from(since.subsec_nanos()))
        }))
    }

    pub(crate) fn from(seed: u64) -> Self {
        Self { seed, state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 }
    }

    pub(crate) fn below(&mut self, below: u64) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state % below
    }

    /// Sleeps for a random time of at most `most` milliseconds.
    pub(crate) fn pause(&mut self, most: u64) {
        pass(Duration::from_millis(self.below(most)));
    }
}

/// Sleeps, because a fault at a random moment needs that.
pub(crate) fn pass(time: Duration) {
    let _nothing = within(time, || None::<()>);
}

/// A world whose daemon lands what passes its gate.
pub(crate) fn world() -> World {
    world_with(POOLED)
}

/// Lanes are reused, however small the repository is.
pub(crate) const POOLED: &str = "build_dirs: [target]";

/// A world with these lane settings, on a disk: in the system's temporary directory file times may be unreliable, and
/// then no lane would be reused.
pub(crate) fn world_with(lane: &str) -> World {
    let disk = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let world = World::around(REGATTA, ScratchRepo::below(disk));
    configure(&world, 4, lane);
    world
}

/// Writes and commits the settings.
pub(crate) fn settings(world: &World, max_workers: usize) {
    configure(world, max_workers, POOLED);
}

fn configure(world: &World, max_workers: usize, lane: &str) {
    world.config(&format!(
        "max_workers: {max_workers}\nlane: {{ {lane} }}\nland: {{ auto: true, test_command: \"test ! -f bad.txt\" }}\n"
    ));
}

/// Nine tasks: dependencies, a reader, a retry over its own leftovers, one that does not land, a conflict, a gate that
/// refuses.
pub(crate) fn story(world: &World) -> PathBuf {
    let pen = pen(world);
    let write = |id: &str, keys: &str, script: &str| task(id, keys, &format!("{pen}{script}"));
    let once = world.outside("d.done");
    let again =
        format!("[ -f '{0}' ] || {{ line d.txt; touch '{0}'; exit 1; }}\nfresh d.txt", once.display());
    world.plan(
        &[
            write("a", "checks: [\"test -f a.txt\"]", "line a.txt; line a.txt"),
            write("b", "", "line b.txt"),
            write("c", "deps: [a, b]", "cat a.txt b.txt >/dev/null && line c.txt"),
            write("d", "max_attempts: 2", &again),
            write("e", "deps: [c]\nread_only: true", "cat c.txt"),
            write("k", "auto_land: false", "line k.txt"),
            write("x", "", "line both.txt"),
            write("y", "", "line both.txt"),
            write("g", "", "line bad.txt"),
        ]
        .concat(),
    )
}

/// How the story has to end; of the two tasks that conflict, either one lands.
pub(crate) fn wrong_end(world: &World) -> Vec<String> {
    let states: Vec<String> = world.stored().iter().map(|(id, state)| format!("{id} {state}")).collect();
    let end = |x: &str, y: &str| {
        ["a landed", "b landed", "c landed", "d landed", "e done", "g blocked", "k done", x, y]
            .map(str::to_owned)
    };
    if states == end("x landed", "y blocked") || states == end("x blocked", "y landed") {
        Vec::new()
    } else {
        vec![format!("it ended as {states:?}\n{}", world.log())]
    }
}

/// Stops the daemon normally and checks everything; returns what is wrong.
pub(crate) fn found_wrong(world: &World, daemon: Running, mut wrong: Vec<String>) -> Vec<String> {
    // The last worker may still be finishing although its task is settled.
    let stopped = world.regatta(["daemon", "stop", "--drain", "--timeout", "120"]);
    let ran = daemon.wait();
    if (stopped.code, ran.code) != (0, 0) {
        let said = [stopped.stderr, ran.stdout, ran.stderr].concat();
        wrong.push(format!(
            "the last daemon was stopped with {}, ended with {}: {said}",
            stopped.code, ran.code
        ));
    }
    // The first commit and the settings.
    wrong.extend(violations(world, 2));
    if !wrong.is_empty() {
        wrong.push(world.log());
    }
    wrong
}

/// The same, panicking if anything is wrong.
#[track_caller]
pub(crate) fn judge(world: &World, daemon: Running, what: &str, wrong: Vec<String>) {
    let wrong = found_wrong(world, daemon, wrong);
    assert!(wrong.is_empty(), "{what}:\n{}", wrong.join("\n"));
}
