//! `regatta broadcast`.

use regatta_testkit::daemon::until;
use regatta_testkit::world::task;
use serde_json::{Value, json};

use crate::send::{PASSES, Scene};

fn broadcast(scene: &Scene, args: &[&str]) -> (Vec<String>, Value) {
    let ran = scene.world.regatta([&["broadcast", "--json"], args].concat()).exited(0);
    let said: Value = serde_json::from_str(&ran.stdout).unwrap();
    let results = said["results"].as_array().unwrap();
    assert_eq!(said["total"], results.len());
    let mut ids: Vec<String> =
        results.iter().map(|one| one["task_id"].as_str().unwrap().to_owned()).collect();
    ids.sort();
    (ids, said)
}

#[test]
fn everyone_who_can_hear_is_told_and_what_landed_only_on_request() {
    let scene = Scene::new("");
    let world = &scene.world;
    let daemon = world.daemon();
    scene.add("landed", "auto_land: true", PASSES);
    scene.add("done", "", PASSES);
    let asks = "if [ $REGATTA_ATTEMPT = 1 ]; then regatta stuck 'which?' >&2; else
regatta done --verdict pass --summary x >&2; fi\n";
    scene.add("asks", "", asks);
    world.enqueue(&world.plan(&task("mute", "", "true")));
    for (id, state) in [("landed", "landed"), ("done", "done"), ("asks", "blocked"), ("mute", "done")] {
        world.wait_state(id, state);
    }
    let barrier = scene.add_held("busy", "", PASSES);
    scene.add("later", "deps: [busy]", PASSES);
    scene.add("gone", "deps: [busy]", PASSES);
    world.regatta(["cancel", "gone"]).exited(0);
    let (told, said) = broadcast(&scene, &["The API moved."]);
    // A command has no conversation to continue; a cancelled task gets nothing.
    assert_eq!(told, ["asks", "busy", "done", "later"]);
    let of = |id: &str| said["results"].as_array().unwrap().iter().find(|one| one["task_id"] == id).unwrap();
    assert_eq!((&of("busy")["dispatched"], &of("busy")["queued_count"]), (&json!(false), &json!(1)));
    assert_eq!((&of("done")["dispatched"], &of("done")["position"]), (&json!(true), &json!(1)));
    assert_eq!(said["refused"], json!([]));
    until("those that were idle were told", || {
        (scene.prompts("done") == ["told 2"] && scene.prompts("asks") == ["told 2"]).then_some(())
    });
    assert_eq!(broadcast(&scene, &["--landed", "--status", "landed", "x"]).0, ["landed"]);
    until("it was told", || (scene.prompts("landed") == ["told 2"]).then_some(()));
    world.wait_state("landed", "landed");
    assert_eq!(broadcast(&scene, &["--status", "running", "--status", "pending", "y"]).0, ["busy", "later"]);
    barrier.open();
    world.wait_state("later", "done");
    assert_eq!(scene.prompts("busy"), ["told 2", "told 3"]);
    assert_eq!(scene.prompts("later"), ["told 1", "told 2"]);
    assert!(scene.prompts("gone").is_empty() && scene.prompts("mute").is_empty());
    world.regatta(["broadcast", "--status", "cancelled", "x"]).exited(2);
    world.regatta(["broadcast", " "]).exited(2);
    daemon.signal("TERM");
    daemon.wait();
}

#[test]
fn with_nobody_there_it_says_so() {
    let scene = Scene::new("");
    insta::assert_snapshot!(scene.world.regatta(["broadcast", "x"]).shown(), @"
    --- stderr
    error: there is no store at DIR/repo/.regatta/regatta.db yet
    hint: `regatta run PLAN` and `regatta init` create one
    --- exit 4
    ");
    scene.add("a", "", PASSES);
    insta::assert_snapshot!(scene.world.regatta(["broadcast", "x"]).shown(), @"
    sent to a, which is pending: delivered when it starts
    no daemon is running; start one with `regatta daemon start`
    ");
    scene.world.regatta(["cancel", "a"]).exited(0);
    insta::assert_snapshot!(scene.world.regatta(["broadcast", "x"]).shown(), @"
    --- stderr
    no agent could receive it; `regatta list --status all` shows all tasks
    ");
}
