//! No line is ever lost: random operations on a few tasks whose agents write unique lines. After each operation, every
//! line is in a lane, on a branch or in a salvage.

use std::fs;
use std::time::Instant;

use regatta_testkit::daemon::signal;
use regatta_testkit::invariants::{TAKEN, database, lost_lines, pen, processes};
use regatta_testkit::repo::script;
use regatta_testkit::world::{Running, World, task};

use crate::REGATTA;
use crate::scene::{Dice, short_or_long};

const TASKS: [&str; 5] = ["append", "replace", "fail", "slow", "both"];

/// The operations on a world, one after another.
struct Play {
    world: World,
    daemon: Option<Running>,
    dice: Dice,
    done: Vec<String>,
}

#[test]
fn every_line_ever_written_is_reachable() {
    let (n_plays, n_steps) = short_or_long((1, 60), (6, 250));
    let first = Dice::new().seed;
    let started = Instant::now();
    let mut n_lines = 0;
    for play in 0..n_plays {
        let mut play = Play::new(Dice::from(first + play));
        for _ in 0..n_steps {
            play.step();
            play.assert_whole();
        }
        n_lines += play.finish();
    }
    println!(
        "lines: seed {first}, {} random operations, {n_lines} lines written and none lost: {:.1} s",
        n_plays * n_steps,
        started.elapsed().as_secs_f64()
    );
}

impl Play {
    fn new(dice: Dice) -> Self {
        let world = World::new(REGATTA);
        world.config("max_workers: 3\nland: { auto: true }\n");
        // A hook that refuses while this file exists, from before the first look at the settings.
        let refuses = world.outside("refuses");
        script(&world.root().join(".git/hooks/pre-commit"), &format!("[ ! -f '{}' ]", refuses.display()));
        let pen = pen(&world);
        let write = |id: &str, text: &str| task(id, "max_attempts: 3", &format!("{pen}{text}"));
        let plan = world.plan(
            &[
                write("append", "line own.txt; sleep 0.1; line own.txt"),
                // It ignores what was there before.
                write("replace", "fresh same.txt; sleep 0.1; [ $((REGATTA_ATTEMPT % 2)) = 0 ]"),
                write(
                    "fail",
                    "line fail.txt; git add -A; git commit -qm mine --no-verify; fresh left.txt; exit 1",
                ),
                write("slow", "for i in 1 2 3 4 5 6 7 8; do line slow.txt; sleep 0.1; done"),
                write(
                    "both",
                    "fresh same.txt; line deep/er.txt 2>/dev/null || { mkdir -p deep; line deep/er.txt; }",
                ),
            ]
            .concat(),
        );
        world.enqueue(&plan);
        Self { world, daemon: None, dice, done: Vec::new() }
    }

    fn step(&mut self) {
        self.dice.pause(120);
        let id = TASKS[usize::try_from(self.dice.below(TASKS.len() as u64)).unwrap_or(0)];
        let what = match self.dice.below(18) {
            0..3 => self.toggle_daemon(),
            3 => {
                if let Some(daemon) = self.daemon.take() {
                    daemon.kill();
                }
                "kill -9 of the daemon".to_owned()
            }
            4 => {
                self.kill(" shim ");
                "kill -9 of a shim".to_owned()
            }
            5 => {
                self.kill("sh");
                "kill -9 of an agent".to_owned()
            }
            6 => self.stop("--kill"),
            7 => self.command(&["cancel", "--no-wait", id]),
            8 | 9 => self.command(&["requeue", id]),
            10 | 11 => self.command(&["retry", id]),
            12 => self.command(&["lane", "retire", id]),
            13 => self.command(&["lane", "retire", "--force-salvage", id]),
            14 => self.command(&["lane", "sweep"]),
            15 => {
                let taken = self.world.outside(&format!("{TAKEN}{}", self.done.len()));
                let moved = fs::rename(self.world.lanes().join(id), taken).is_ok();
                format!("the lane of {id} is gone: {moved}")
            }
            16 => {
                let index = self.world.root().join(format!(".git/worktrees/{id}/index"));
                let broken = index.exists() && fs::write(index, "garbage").is_ok();
                format!("the index of {id} is garbage: {broken}")
            }
            _ => self.other(),
        };
        self.done.push(what);
    }

    fn other(&mut self) -> String {
        let refuses = self.world.outside("refuses");
        if self.dice.below(2) == 0 {
            if refuses.exists() {
                fs::remove_file(refuses).expect("it is there");
                return "the hook agrees".to_owned();
            }
            fs::write(refuses, "").expect("it can be made");
            return "the hook refuses".to_owned();
        }
        // The whole machine goes down, and the user cleans up by hand.
        if let Some(daemon) = self.daemon.take() {
            daemon.kill();
        }
        for process in self.world.processes() {
            if let Some(pid) = process.split(' ').next().and_then(|pid| pid.parse().ok()) {
                signal(pid, "KILL");
            }
        }
        format!("everything is killed, then {}", self.command(&["reclaim", "--all"]))
    }

    fn toggle_daemon(&mut self) -> String {
        match self.daemon.take() {
            Some(daemon) if self.dice.below(3) == 0 => {
                daemon.signal("TERM");
                let code = daemon.wait().code;
                format!("the daemon is stopped: {code}")
            }
            Some(daemon) => {
                self.daemon = Some(daemon);
                "the daemon goes on".to_owned()
            }
            None => {
                self.daemon = Some(self.world.daemon());
                "a daemon comes".to_owned()
            }
        }
    }

    fn stop(&mut self, how: &str) -> String {
        let Some(daemon) = self.daemon.take() else { return "no daemon to stop".to_owned() };
        let text = self.command(&["daemon", "stop", how]);
        daemon.wait();
        text
    }

    /// Refusals are fine; a command that breaks is not.
    fn command(&self, args: &[&str]) -> String {
        let ran = self.world.regatta(args);
        assert!(
            matches!(ran.code, 0 | 4 | 6),
            "{args:?} ended with {}: {}{}\n{}",
            ran.code,
            ran.stdout,
            ran.stderr,
            self.story()
        );
        format!("{}: {}", args.join(" "), ran.code)
    }

    fn kill(&mut self, part: &str) {
        let all: Vec<String> = self.world.processes();
        let wanted: Vec<&String> = match part {
            "sh" => all.iter().filter(|line| line.ends_with(" sh ")).collect(),
            part => all.iter().filter(|line| line.contains(part)).collect(),
        };
        if !wanted.is_empty() {
            let one = wanted[usize::try_from(self.dice.below(wanted.len() as u64)).unwrap_or(0)];
            if let Some(pid) = one.split(' ').next().and_then(|pid| pid.parse().ok()) {
                signal(pid, "KILL");
            }
        }
    }

    fn story(&self) -> String {
        format!("REGATTA_FAULTS_SEED={}\n{}\n{}", self.dice.seed, self.done.join("\n"), self.world.log())
    }

    #[track_caller]
    fn assert_whole(&mut self) {
        let lost = lost_lines(&self.world);
        assert!(lost.is_empty(), "{}\n{}", lost.join("\n"), self.story());
        if self.daemon.as_mut().is_some_and(Running::has_ended) {
            let ran = self.daemon.take().expect("just seen").wait();
            panic!(
                "the daemon ended by itself, {}: {}{}\n{}",
                ran.code,
                ran.stdout,
                ran.stderr,
                self.story()
            );
        }
    }

    /// Ends everything; returns how many lines there were.
    fn finish(mut self) -> usize {
        if self.daemon.is_none() {
            self.daemon = Some(self.world.daemon());
        }
        self.stop("--kill");
        self.assert_whole();
        let wrong = [processes(&self.world), database(&self.world)].concat();
        assert!(wrong.is_empty(), "{}\n{}", wrong.join("\n"), self.story());
        fs::read_to_string(self.world.outside("ledger")).unwrap_or_default().lines().count()
    }
}
