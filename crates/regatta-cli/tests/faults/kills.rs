//! `kill -9` at random moments: the daemon, shims and agents, with many tasks in progress.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use regatta_testkit::daemon::signal;
use regatta_testkit::invariants::pen;
use regatta_testkit::world::{World, task};

use crate::scene::{Dice, judge, settings, short_or_long};

/// How many tasks are in progress.
const AT_ONCE: usize = 20;
/// How often one task's agent or shim is killed: more would count as the task's fault, by Regatta's rules.
const PER_TASK: u32 = 2;

/// How often each kind was killed.
#[derive(Debug, Default)]
struct Killed {
    daemons: usize,
    shims: usize,
    agents: usize,
}

#[test]
fn kills_at_random_moments_lose_nothing() {
    let mut dice = Dice::new();
    let n_kills = short_or_long(24, 330);
    let seed = dice.seed;
    println!("kills: seed {seed}, {n_kills} kills with {AT_ONCE} tasks at once");
    let started = Instant::now();
    let world = World::new(crate::REGATTA);
    settings(&world, AT_ONCE);
    let mut n_tasks = 0;
    let mut killed = Killed::default();
    let mut struck: BTreeMap<String, u32> = BTreeMap::new();
    let mut daemon = world.daemon();
    let mut total = 0;
    while total < n_kills {
        let open = world.stored().iter().filter(|(_, state)| state != "landed").count();
        if open < AT_ONCE {
            world.enqueue(&plan(&world, n_tasks, &mut dice));
            n_tasks += AT_ONCE;
        }
        dice.pause(short_or_long(250, 400));
        match dice.below(10) {
            0..6 => {
                daemon.kill();
                killed.daemons += 1;
                total += 1;
                // Sometimes no daemon is started for a while.
                if dice.below(4) == 0 {
                    dice.pause(300);
                }
                daemon = world.daemon();
            }
            kind => {
                let victims = victims(&world, kind < 8);
                let open: Vec<_> = victims
                    .into_iter()
                    .filter(|(task, _)| struck.get(task).is_none_or(|n| *n < PER_TASK))
                    .collect();
                // There may be no process that it may kill.
                if open.is_empty() {
                    continue;
                }
                let (task, pid) = &open[usize::try_from(dice.below(open.len() as u64)).unwrap_or(0)];
                signal(*pid, "KILL");
                *struck.entry(task.clone()).or_default() += 1;
                if kind < 8 {
                    killed.shims += 1;
                } else {
                    killed.agents += 1;
                }
                total += 1;
            }
        }
        if daemon.has_ended() {
            let ran = daemon.wait();
            panic!("seed {seed}: a daemon ended by itself, {}: {}{}", ran.code, ran.stdout, ran.stderr);
        }
    }
    let patience = short_or_long(300, 600);
    world.wait_settled(Duration::from_secs(patience));
    let mut wrong = Vec::new();
    for (id, state) in world.stored() {
        if state != "landed" {
            wrong.push(format!("{id} is {state}"));
        }
    }
    let what = format!("REGATTA_FAULTS_SEED={seed}, {killed:?}");
    judge(&world, daemon, &what, wrong);
    let lines = fs::read_to_string(world.outside("ledger")).unwrap_or_default().lines().count();
    println!(
        "kills: {total} ({killed:?}) over {n_tasks} tasks, {lines} lines written and none lost: {:.1} s",
        started.elapsed().as_secs_f64()
    );
}

/// More tasks that write a line every now and then, some after others, each in its own file.
fn plan(world: &World, first: usize, dice: &mut Dice) -> std::path::PathBuf {
    let pen = pen(world);
    let mut tasks = String::new();
    for n in first..first + AT_ONCE {
        let id = format!("t{n}");
        let mut keys = "max_attempts: 9".to_owned();
        if n > 0 && dice.below(4) == 0 {
            keys.push_str(&format!("\ndeps: [t{}]", dice.below(n as u64)));
        }
        let lines = 1 + dice.below(6);
        let script =
            format!("{pen}for i in $(seq {lines}); do line {id}.txt; sleep 0.{}; done", 1 + dice.below(4));
        tasks.push_str(&task(&id, &keys, &script));
    }
    world.plan(&tasks)
}

/// `(task, pid)` of every shim, or of every agent.
fn victims(world: &World, shims: bool) -> Vec<(String, u32)> {
    let mut found = Vec::new();
    for process in world.processes() {
        let Some((pid, line)) = process.split_once(' ') else { continue };
        let is_shim = line.contains(" shim ");
        let Ok(pid) = pid.parse::<u32>() else { continue };
        if is_shim != shims {
            continue;
        }
        // A shim has the environment of its agent, except the marker. Checks and gates belong to no attempt.
        let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let value = |name: &str| {
            let prefix = format!("{name}=");
            environ
                .split(|&byte| byte == 0)
                .find_map(|entry| std::str::from_utf8(entry).ok()?.strip_prefix(&prefix).map(str::to_owned))
        };
        let lane = value("REGATTA_LANE");
        if let (Some(task), Some(_), Some(_)) = (value("REGATTA_TASK"), lane, value("REGATTA_TOKEN")) {
            found.push((task, pid));
        }
    }
    found
}
