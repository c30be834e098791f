//! The target moves while a gate runs: nothing lands untested on the new tip, and no commit is lost.

use std::fs;

use regatta_testkit::repo::script;
use regatta_testkit::world::{Barrier, World, task, text};

use crate::REGATTA;

/// A gate that waits at a barrier the first `n` times. It records what it tests: on which commit, and with which files.
fn gate(world: &World, n: usize) -> Vec<Barrier> {
    let barriers: Vec<Barrier> = (0..n).map(|n| world.barrier(&format!("gate{n}"))).collect();
    let waits: String = barriers
        .iter()
        .enumerate()
        .map(|(n, barrier)| {
            let once = world.outside(&format!("once{n}"));
            format!("if mkdir '{}' 2>/dev/null; then {}; exit; fi\n", once.display(), barrier.script())
        })
        .collect();
    let (file, log) = (world.outside("gate.sh"), world.outside("gates.log"));
    let what = "$(git rev-parse HEAD~1) $(git rev-parse HEAD) $(ls *.txt)";
    script(&file, &format!("echo \"\"{what} >>'{}'\n{waits}", log.display()));
    world.config(&format!("land: {{ bounces: 1, test_command: \"'{}'\" }}\n", file.display()));
    barriers
}

/// For each gate: the commit below the candidate, the candidate, its files.
fn gates(world: &World) -> Vec<[String; 3]> {
    let log = fs::read_to_string(world.outside("gates.log")).unwrap();
    let gate = |line: &str| {
        let mut parts = line.splitn(3, ' ').map(str::to_owned);
        std::array::from_fn(|_| parts.next().expect("three parts"))
    };
    log.lines().map(gate).collect()
}

#[test]
fn a_car_is_tested_again_on_every_new_tip_and_the_users_commits_stay() {
    let world = World::new(REGATTA);
    let barriers = gate(&world, 2);
    let first = world.repo().rev("main");
    let run = world.start(&world.plan(&task("a", "", "echo a >a.txt")), &[]);
    let mut tips = vec![first];
    for (n, barrier) in barriers.iter().enumerate() {
        barrier.arrived();
        tips.push(world.repo().commit_file(&format!("mine{n}.txt"), "mine\n", "mine"));
        barrier.open();
    }
    run.wait().exited(0);
    world.assert_states(["a landed"]);
    let gates = gates(&world);
    let files = ["a.txt", "a.txt mine0.txt", "a.txt mine0.txt mine1.txt"];
    let expected: Vec<(String, &str)> = tips.iter().cloned().zip(files).collect();
    let tested: Vec<(String, &str)> =
        gates.iter().map(|[on, _, files]| (on.clone(), files.as_str())).collect();
    assert_eq!(tested, expected, "each candidate stood on the tip of its time");
    // What is on the target is what was tested last; the other two candidates are on no branch.
    assert_eq!(world.repo().rev("main"), gates[2][1]);
    assert_eq!(world.repo().rev("main~1"), tips[2]);
    for [_, candidate, _] in &gates[..2] {
        let inside = world.repo().try_git(world.root(), &["merge-base", "--is-ancestor", candidate, "main"]);
        assert!(!inside.status.success(), "{candidate} was tested on a tip that is none any more");
    }
    assert_eq!(world.repo().git(["status", "--porcelain"]), "");
    let history = world.regatta(["land", "history", "a", "--json"]).exited(0).stdout;
    let history: serde_json::Value = serde_json::from_str(&history).unwrap();
    let phases: Vec<String> = history["phases"]
        .as_array()
        .unwrap()
        .iter()
        .map(|phase| format!("{} {}", text(&phase["phase"]), text(&phase["outcome"])).trim().to_owned())
        .collect();
    insta::assert_snapshot!(phases.join("\n").replace(&gates[2][1][..12], "CANDIDATE"), @r"
    queued
    gate passed
    gate passed
    gate passed
    moving CANDIDATE
    landed CANDIDATE
    ");
    world.assert_tidy();
}

#[test]
fn a_commit_that_conflicts_with_the_car_under_test_stays_and_the_car_is_sent_back() {
    let world = World::new(REGATTA);
    world.repo().commit_file("menu.txt", "soup\n", "menu");
    let barriers = gate(&world, 1);
    // Its agent resolves the conflict at its second attempt.
    let script = "if [ -z \"$REGATTA_GUIDANCE\" ]; then echo stew >menu.txt; else printf 'salad\\nstew\\n' >menu.txt; fi";
    let run = world.start(&world.plan(&task("a", "", script)), &[]);
    barriers[0].arrived();
    let mine = world.repo().commit_file("menu.txt", "salad\n", "mine");
    barriers[0].open();
    run.wait().exited(0);
    world.assert_states(["a landed"]);
    assert_eq!(world.repo().rev("main~1"), mine);
    assert_eq!(world.landed("menu.txt").as_deref(), Some("salad\nstew\n"));
    let gates = gates(&world);
    assert_eq!(gates.len(), 2, "{gates:?}");
    assert_eq!(world.repo().rev("main"), gates[1][1]);
    assert_eq!(world.repo().git(["status", "--porcelain"]), "");
    world.assert_tidy();
}
