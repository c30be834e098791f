//! `regatta merge` and `regatta pr`, against a server of our own that merges for real.

use regatta_testkit::daemon::until;
use regatta_testkit::forge::{Ci, Conclusion, Forge, Method};
use regatta_testkit::world::{World, task};

use crate::REGATTA;

/// A world whose checkout is at the server.
fn at_forge(land: &str) -> (World, Forge) {
    let forge = Forge::start();
    let mut world = World::new(REGATTA);
    world.env("REGATTA_TEST_LOOK_MS", "400").env("USER", "ann");
    world.config(&format!(
        "version: 1\nland: {{ {land} }}\nagents: {{ sh: {{ kind: command, argv: [sh] }} }}\n"
    ));
    forge.furnish(&mut world);
    forge.ci(Ci::Passes("ci".to_owned()));
    (world, forge)
}

/// Runs tasks that each write a file, until their pull requests wait for a person.
fn proposed(world: &World, ids: &[&str]) {
    let tasks: String = ids.iter().map(|id| task(id, "", &format!("echo {id} >{id}.txt"))).collect();
    let ran = world.run(&world.plan(&tasks), &[]);
    let states: Vec<String> = ids.iter().map(|id| format!("{id} landing")).collect();
    assert_eq!(world.states(), states, "{}\n{}", ran.stdout, ran.stderr);
}

fn is_merged(forge: &Forge, number: u64) -> bool {
    forge.read(|state| state.pull(number).1.merged.is_some())
}

#[test]
fn a_persons_word_replaces_the_review() {
    let (world, forge) = at_forge("via: pr, pr: { merge: approved }");
    proposed(&world, &["a"]);
    forge.forget_calls();
    let train = world.regatta(["land", "status"]).exited(0);
    assert!(train.stdout.contains("waits: #1 checks 1/1 · review wanted"), "{}", train.stdout);
    let train = world.regatta(["land", "status", "--json"]).exited(0).json();
    assert_eq!(train["cars"][0]["pull"]["number"], 1, "{train}");
    let dry = world.regatta(["merge", "--dry-run"]).exited(0);
    assert!(dry.stdout.starts_with("a #1 may be merged at "), "{}", dry.stdout);
    assert_eq!(forge.calls().len(), 0);
    let shown = world.regatta(["pr", "show", "a", "--json"]).exited(0).json();
    assert!(shown["allowed_by"].is_null(), "{shown}");

    let merged = world.regatta(["merge", "a"]).exited(0);
    assert!(merged.stdout.starts_with("a #1 landed on main as "), "{}", merged.stdout);
    assert!(is_merged(&forge, 1));
    world.assert_states(["a landed"]);
    let events = world.regatta(["events"]).exited(0).stdout;
    assert!(events.contains("ann allowed the merge of #1 at "), "{events}");
    let shown = world.regatta(["pr", "show", "a", "--json"]).exited(0).json();
    assert_eq!(shown["state"], "merged", "{shown}");

    let again = world.regatta(["merge", "a"]).exited(6);
    assert!(again.stderr.contains("#1 is merged already"), "{}", again.stderr);
    world.regatta(["merge"]).exited(0);
}

#[test]
fn a_daemon_merges_at_once_what_a_person_allowed() {
    let (mut world, forge) = at_forge("via: pr, pr: { merge: approved }");
    // Without the word it would look again after ten minutes.
    world.env("REGATTA_TEST_LOOK_MS", "600000");
    proposed(&world, &["a"]);
    let daemon = world.daemon();
    forge.forget_calls();
    let allowed = world.regatta(["merge", "a", "--no-wait", "--method", "squash"]).exited(0);
    assert!(allowed.stdout.starts_with("a #1 is allowed at "), "{}", allowed.stdout);
    until("it lands", || (world.states() == ["a landed"]).then_some(()));
    let method = forge.read(|state| state.pull(1).1.merged.as_ref().unwrap().method);
    assert_eq!(method, Some(Method::Squash));
    daemon.signal("TERM");
    daemon.wait().exited(0);
}

#[test]
fn where_people_merge_regatta_refuses_and_says_where() {
    let (world, forge) = at_forge("via: pr, pr: { merge: never }");
    proposed(&world, &["a"]);
    let refused = world.regatta(["merge"]).exited(6);
    assert!(
        refused.stderr.contains("land.pr.merge is never, so Regatta does not merge #1"),
        "{}",
        refused.stderr
    );
    assert!(refused.stderr.contains("/acme/shop/pull/1"), "{}", refused.stderr);
    assert!(!is_merged(&forge, 1));
}

#[test]
fn nothing_is_merged_whose_checks_failed() {
    let (world, forge) = at_forge("via: pr, pr: { merge: approved, feedback: [] }");
    forge.ci(Ci::Waits("ci".to_owned()));
    proposed(&world, &["a"]);
    // The last look saw no result: the command looks again.
    forge.check("1", "ci", Conclusion::Failure);
    let refused = world.regatta(["merge", "a"]).exited(6);
    assert!(refused.stderr.contains("a is not merged, because its checks failed: #1 "), "{}", refused.stderr);
    assert!(!is_merged(&forge, 1));
    world.assert_states(["a landing"]);
}

#[test]
fn merges_follow_the_order_and_stop_at_the_first_that_fails() {
    let (world, forge) = at_forge("via: pr, pr: { merge: approved, feedback: [] }");
    proposed(&world, &["a", "b", "c"]);
    let number =
        |id: &str| world.regatta(["pr", "show", id, "--json"]).exited(0).json()["number"].as_u64().unwrap();
    let (a, b, c) = (number("a"), number("b"), number("c"));
    forge.check(a, "ci", Conclusion::Failure);
    let ran = world.regatta(["merge", "--order", "c,a,b"]).exited(6);
    assert!(ran.stdout.contains(&format!("c #{c} landed on main as ")), "{}", ran.stdout);
    assert!(ran.stderr.contains("b comes after a, which was not merged"), "{}", ran.stderr);
    assert_eq!([a, b, c].map(|number| is_merged(&forge, number)), [false, false, true]);
    world.assert_states(["a landing", "b landing", "c landed"]);
}

#[test]
fn finished_work_is_proposed_by_hand_once() {
    let (world, forge) = at_forge("via: here, pr: { merge: approved }");
    let plan = world.plan(&task("a", "auto_land: false", "echo a >a.txt"));
    world.run(&plan, &[]).exited(0);
    world.assert_states(["a done"]);
    world.regatta(["pr", "show", "a"]).exited(4);
    assert_eq!(world.regatta(["pr", "list"]).exited(0).stdout, "");

    let opened = world.regatta(["pr", "a", "--draft"]).exited(0);
    assert!(opened.stdout.starts_with("a #1 http"), "{}", opened.stdout);
    assert!(forge.read(|state| state.pull(1).1.draft));
    world.regatta(["pr", "a"]).exited(0);
    assert_eq!(forge.read(|state| state.repo("acme/shop").unwrap().pulls().count()), 1);
    assert!(world.regatta(["pr"]).exited(0).stdout.contains("#1 "));
    let shown = world.regatta(["pr", "list", "--json"]).exited(0).json();
    assert_eq!((&shown[0]["id"], &shown[0]["state"]), (&"a".into(), &"open".into()), "{shown}");

    // Without a review it is merged as soon as it is no draft any more.
    world.regatta(["pr", "a", "--no-review"]).exited(0);
    forge.as_user("ann").ready(1);
    let landed = world.regatta(["pr", "a"]).exited(0);
    assert!(is_merged(&forge, 1), "{}", landed.stdout);
    world.assert_states(["a landed"]);
}

#[test]
fn a_closed_pull_request_is_opened_again_by_hand() {
    let (world, forge) = at_forge("via: pr, pr: { merge: approved }");
    proposed(&world, &["a"]);
    forge.as_user("ann").close(1);
    let refused = world.regatta(["merge", "a"]).exited(6);
    assert!(refused.stderr.contains("a is blocked"), "{}", refused.stderr);
    world.assert_states(["a blocked"]);
    world.regatta(["pr", "a"]).exited(0);
    assert!(forge.read(|state| state.pull(1).0.is_open));
    assert_eq!(forge.read(|state| state.repo("acme/shop").unwrap().pulls().count()), 1);
}

#[test]
fn an_agent_may_not_merge() {
    let (world, forge) = at_forge("via: pr, pr: { merge: approved }");
    proposed(&world, &["a"]);
    let attempt = [("REGATTA_TASK", "a"), ("REGATTA_ATTEMPT", "1")];
    for args in [&["merge", "a"][..], &["pr", "a"], &["pr", "list"]] {
        let refused = world.regatta_with(&attempt, args).exited(6);
        assert!(refused.stderr.contains("an agent may not do this"), "{}", refused.stderr);
    }
    assert!(!is_merged(&forge, 1));
}
