//! Git itself is killed: one command in four, at a random moment, while a daemon lands.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use regatta_testkit::daemon::{until, within};
use regatta_testkit::invariants::{LEDGER, history, lost_lines, pen};
use regatta_testkit::repo::write;
use regatta_testkit::world::{World, task};

use crate::REGATTA;
use crate::scene::{Dice, short_or_long};

/// The git on the default path.
pub(crate) fn real_git() -> PathBuf {
    let path = std::env::var_os("PATH").expect("there is a path");
    std::env::split_paths(&path)
        .map(|dir| dir.join("git"))
        .find(|git| git.is_file())
        .expect("git is installed")
}

/// Puts a program named `git` before the real one. `script` is shell text that ends with `exec "$real" "$@"`.
pub(crate) fn wrap_git(world: &mut World, script: &str) {
    let dir = world.outside("wrapped");
    let git = dir.join("git");
    write(&git, format!("#!/bin/sh\nreal='{}'\n{script}\n", real_git().display()));
    make_executable(&git);
    let mut path = dir.into_os_string();
    path.push(":");
    path.push(std::env::var_os("PATH").expect("there is a path"));
    world.env("PATH", path);
}

fn make_executable(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("modes can be set");
}

#[test]
fn nothing_lands_twice_when_git_itself_is_killed() {
    let mut dice = Dice::new();
    let rounds = short_or_long(1, 6);
    for _ in 0..rounds {
        storm(&mut dice);
    }
}

fn storm(dice: &mut Dice) {
    let n_tasks = 40;
    let started = Instant::now();
    let (seed, on) = (dice.below(1 << 30), Duration::from_secs(short_or_long(8, 25)));
    println!("killed git: seed {} ({seed})", dice.seed);
    let mut world = World::new(REGATTA);
    world.config("max_workers: 4\nland: { auto: true }\n");
    let switch = world.outside("storm");
    wrap_git(
        &mut world,
        // Before it starts, in the middle, or when it has done everything and only its answer is missing.
        &format!(
            "if [ -e '{}' ]; then\n  r=$(( ($$ * 1103515245 + {seed}) / 65536 % 1000 ))\n  me=$$\n  case $(( r % 16 )) in\n\
             0|1) \"$real\" \"$@\"; kill -9 $me;;\n\
             2) ( sleep 0.002; kill -9 $me ) >/dev/null 2>&1 </dev/null &;;\n\
             3) ( kill -9 $me ) >/dev/null 2>&1 </dev/null &;;\n  esac\nfi\n\
             exec \"$real\" \"$@\"",
            switch.display()
        ),
    );
    let pen = pen(&world);
    let tasks: String = (0..n_tasks)
        .map(|n| task(&format!("t{n}"), "max_attempts: 9", &format!("{pen}line t{n}.txt")))
        .collect();
    let plan = world.plan(&tasks);
    world.enqueue(&plan);
    let daemon = world.daemon();
    write(&switch, "");
    let landed = || world.stored().iter().filter(|(_, state)| state == "landed").count();
    within(on, || (landed() == n_tasks).then_some(()));
    let during = landed();
    fs::remove_file(&switch).expect("the storm is over");
    let settled = within(Duration::from_secs(240), || {
        let stored = world.stored();
        if stored.iter().any(|(_, state)| state == "parked" || state == "blocked") {
            world.regatta(["unpark", "--all"]);
            let blocked = stored.iter().filter(|(_, state)| state == "blocked");
            blocked.for_each(|(id, _)| drop(world.regatta(["retry", id])));
        }
        stored.iter().all(|(_, state)| state == "landed").then_some(())
    });
    drop(daemon.kill());
    let mut wrong = history(&world, 2);
    wrong.extend(lost_lines(&world));
    // Every start writes one line.
    let starts = fs::read_to_string(world.outside(LEDGER)).unwrap_or_default().lines().count();
    if starts != n_tasks {
        wrong.push(format!("{starts} starts of the agents of {n_tasks} tasks:\n{}", handed_back(&world)));
    }
    if settled.is_none() {
        wrong.push(format!("it did not settle: {:?}\n{}", world.stored(), world.log()));
    }
    let log =
        || world.repo().git(["log", "--format=%h %s %(trailers:key=Regatta-Attempt,separator=%x2C)", "main"]);
    assert!(wrong.is_empty(), "REGATTA_FAULTS_SEED={}:\n{}\n{}", dice.seed, wrong.join("\n"), log());
    println!(
        "killed git: {n_tasks} tasks, {during} landed in the storm, each is there once: {:.1} s",
        started.elapsed().as_secs_f64()
    );
}

/// What was given back to the queue, and why.
fn handed_back(world: &World) -> String {
    let db = world.database();
    let sql = "select t.id, e.body from event e join task t on t.seq = e.task
               where e.body ->> 'kind' in ('parked', 'retrying', 'released', 'blocked', 'following-up') order by e.seq";
    let mut query = db.prepare(sql).expect("the schema is known");
    let rows =
        query.query_map([], |row| Ok(format!("{} {}", row.get::<_, String>(0)?, row.get::<_, String>(1)?)));
    rows.expect("events can be read").flatten().collect::<Vec<_>>().join("\n")
}

/// A task whose agent records its start, makes a file and, as its last action, the switch.
fn switching(world: &World, id: &str, switch: &Path, starts: &Path) -> PathBuf {
    let act =
        format!("echo {id} >>'{}'; echo {id} >{id}.txt; touch '{}'", starts.display(), switch.display());
    world.plan(&task(id, "max_attempts: 9", &act))
}

#[test]
fn an_agent_is_not_started_again_because_git_was_killed_when_it_had_ended() {
    let mut world = World::new(REGATTA);
    let [switch, starts, killed] = ["switch", "starts", "killed"].map(|name| world.outside(name));
    // A command is tried four times before it counts as killed: several steps of settling fail one after another.
    wrap_git(
        &mut world,
        &format!(
            "if [ -e '{}' ]; then echo x >>'{1}'; [ $(wc -l <'{1}') -gt 16 ] || kill -9 $$; fi\nexec \"$real\" \"$@\"",
            switch.display(),
            killed.display()
        ),
    );
    world.run(&switching(&world, "a", &switch, &starts), &[]).exited(0);
    world.assert_states(["a landed"]);
    assert!(fs::read_to_string(&killed).unwrap().lines().count() > 16, "git was not killed so often");
    assert_eq!(fs::read_to_string(&starts).unwrap(), "a\n");
    assert_eq!(world.attempts("a").0, 1);
    assert_eq!(world.commits_of("a.txt"), 1);
}

#[test]
fn an_attempt_that_has_ended_is_only_settled_after_git_and_the_engine_were_killed() {
    let mut world = World::new(REGATTA);
    let [switch, starts] = ["switch", "starts"].map(|name| world.outside(name));
    wrap_git(&mut world, &format!("[ ! -e '{}' ] || kill -9 $$\nexec \"$real\" \"$@\"", switch.display()));
    let plan = switching(&world, "a", &switch, &starts);
    let run = world.start(&plan, &[]);
    until("the agent has ended", || switch.exists().then_some(()));
    world.wait_state("a", "judging");
    drop(run.kill());
    assert_eq!(world.stored(), [("a".to_owned(), "judging".to_owned())]);
    fs::remove_file(&switch).unwrap();
    world.run(&plan, &["--resume"]).exited(0);
    world.assert_states(["a landed"]);
    assert_eq!(fs::read_to_string(&starts).unwrap(), "a\n");
    assert_eq!(world.attempts("a").0, 1);
    assert_eq!(world.commits_of("a.txt"), 1);
}
