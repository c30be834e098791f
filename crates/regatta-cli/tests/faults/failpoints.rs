//! Dies at every failpoint, and a second time there, then settles.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use regatta_engine::failpoint;

use regatta_testkit::world::{World, task};

use crate::REGATTA;
use crate::scene::{POOLED, found_wrong, short_or_long, story, world_with, wrong_end};

/// How many stories run at once: they mostly wait.
const AT_ONCE: usize = 4;

/// Longer than a story takes beside others on a slow machine.
const STORY_PATIENCE: Duration = Duration::from_secs(300);

#[test]
fn a_daemon_that_dies_at_any_place_harms_nobody() {
    let times: &[u32] = short_or_long(&[1], &[1, 2, 4]);
    let cases: Vec<(&str, u32)> =
        failpoint::ALL.iter().flat_map(|name| times.iter().map(|times| (*name, *times))).collect();
    let next = AtomicUsize::new(0);
    let wrong = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some((name, times)) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let found = dies_at(name, *times);
                    if !found.is_empty() {
                        let text = format!("{name}:{times}\n{}", found.join("\n"));
                        wrong.lock().expect("nobody panics with it").push(text);
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().expect("nobody panics with it");
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    println!("failpoints: died at {} places {} times each, all settled", failpoint::ALL.len(), times.len());
}

fn dies_at(name: &str, times: u32) -> Vec<String> {
    let started = Instant::now();
    // A lane goes either into the pool or from the disk.
    let mut world = world_with(if name.starts_with("pool-") { POOLED } else { "pool: 0" });
    let plan = story(&world);
    let what = format!("{name}:{times}");
    if name == "pushed" {
        world.remote();
    }
    world.env("REGATTA_FAILPOINT", &what);
    if name == "enqueued" {
        // The command dies, not the daemon; what it was about to acknowledge is in the queue.
        let ran = world.regatta(["enqueue".as_ref(), plan.as_os_str()]);
        assert!(ran.code == 137 || times > 1, "{what}: {}{}", ran.stdout, ran.stderr);
    } else {
        world.enqueue(&plan);
        let mut daemon = world.daemon();
        let died = regatta_testkit::daemon::within(STORY_PATIENCE, || {
            let settled = world.stored().iter().all(|(_, state)| {
                !["pending", "claimed", "running", "judging", "landing"].contains(&state.as_str())
            });
            daemon.has_ended().then_some(true).or(settled.then_some(false))
        });
        match died {
            Some(true) => drop(daemon.wait().exited(137)),
            // It was not reached that often, or only afterwards.
            Some(false) if times > 1 || !daemon.has_ended() => {
                let after =
                    ["landed", "lane-saved", "lane-set-aside", "lane-retired", "settled", "pool-entered"]
                        .contains(&name);
                assert!(times > 1 || after, "{what} was not reached");
                drop(daemon.kill());
            }
            other => panic!("{what}: {other:?}\n{}", world.log()),
        }
    }
    world.env("REGATTA_FAILPOINT", "");
    let daemon = world.daemon();
    world.wait_settled(STORY_PATIENCE);
    let end = wrong_end(&world);
    let wrong = found_wrong(&world, daemon, end);
    let verdict = if wrong.is_empty() { "ok" } else { "WRONG" };
    println!("  died at {what}, settled: {verdict}, {:.1} s", started.elapsed().as_secs_f64());
    wrong
}

#[test]
fn work_that_went_back_to_its_agent_still_does_when_engines_die_before_it_started() {
    let mut world = World::new(REGATTA);
    world.config("land: { bounces: 1 }\n");
    world.repo().commit_file("menu.txt", "soup\n", "menu");
    let resolves = "if [ -n \"$REGATTA_GUIDANCE\" ]; then sed -i '/^[<=>]\\{7\\}/d' menu.txt; else echo stew >menu.txt; fi";
    let plan = world.plan(&[task("a", "", "echo salad >menu.txt"), task("b", "", resolves)].concat());
    world.run(&plan, &["--no-land"]).exited(0);
    world.regatta(["land", "a"]).exited(0);
    insta::assert_snapshot!(world.regatta(["land", "b"]).shown(), @"
    b went back to its agent with the conflict
    --- exit 1
    ");
    for place in ["claimed", "lane-made"] {
        world.env("REGATTA_FAILPOINT", place);
        world.run(&plan, &["--resume"]).exited(137);
    }
    world.env("REGATTA_FAILPOINT", "");
    world.run(&plan, &["--resume"]).exited(0);
    world.assert_states(["a landed", "b landed"]);
    assert_eq!(world.landed("menu.txt").as_deref(), Some("salad\nstew\n"));
    // Its agent started twice: the attempts in between never ran.
    assert_eq!(world.events_of("b", "started"), 2);
    assert_eq!(world.attempts("b"), (4, 0));
}
