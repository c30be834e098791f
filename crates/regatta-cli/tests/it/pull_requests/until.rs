//! The end of a run whose work waits for GitHub.

use regatta_testkit::forge::{Ci, Conclusion};
use regatta_testkit::running::Ran;
use regatta_testkit::shown::shown;
use regatta_testkit::world::task;

use super::Scene;

/// What is printed after the empty line that follows the graph.
fn end_of(ran: &Ran) -> String {
    let out = shown(&ran.stdout);
    let end = out.rsplit("\n\n").next().unwrap_or_default().trim_end();
    format!("{end}\n{}", shown(&ran.stderr).trim_end())
}

fn waiting() -> (Scene, std::path::PathBuf) {
    let scene = Scene::new("pr: { merge: green }");
    scene.forge.ci(Ci::Waits("ci".to_owned()));
    let plan = scene.world.plan(&[task("a", "", "echo a >a.txt"), task("b", "", "echo b >b.txt")].concat());
    (scene, plan)
}

#[test]
fn a_run_whose_work_waits_for_github_ends_and_says_so() {
    let (scene, plan) = waiting();
    let ran = scene.world.run(&plan, &["--no-dashboard", "-j", "1"]).exited(1);
    insta::assert_snapshot!(end_of(&ran), @"
    ◐ a landing: #1 checks 0/1
    ◐ b landing: #2 checks 0/1
    2 landing in TIME on main
    2 pull requests are open:
      a #1 http://github.localhost/acme/shop/pull/1
      b #2 http://github.localhost/acme/shop/pull/2
    hint: what is left waits for GitHub or a person; `regatta daemon start` or `regatta run --resume DIR/plan.md` continues
    ");
    for number in [1, 2] {
        scene.forge.check(number, "ci", Conclusion::Success);
    }
    scene.world.run(&plan, &["--resume", "--no-dashboard"]).exited(0);
    scene.world.assert_states(["a landed", "b landed"]);
    scene.assert_whole(2, "resumed");
}

#[test]
fn with_until_proposed_an_open_pull_request_is_enough() {
    let (scene, plan) = waiting();
    let ran = scene.world.run(&plan, &["--no-dashboard", "-j", "1", "--until", "proposed"]).exited(0);
    assert!(ran.stdout.contains("2 pull requests are open:\n  a #1 http"), "{}", ran.stdout);
    scene.world.assert_states(["a landing", "b landing"]);
}

#[test]
fn until_proposed_does_not_hide_what_could_not_be_proposed() {
    let scene = Scene::new("pr: { merge: green }");
    scene.forge.ci(Ci::Waits("ci".to_owned()));
    let tasks =
        [task("a", "", "echo a >a.txt"), task("b", "deps: [a]", "true"), task("c", "", "exit 1")].concat();
    let ran = scene.world.run(&scene.world.plan(&tasks), &["--no-dashboard", "--until", "proposed"]);
    ran.exited(1);
    let alone = scene.world.plan(&[task("d", "", "echo d >d.txt"), task("e", "deps: [d]", "true")].concat());
    let ran = scene.world.run(&alone, &["--no-dashboard", "--until", "proposed"]).exited(1);
    insta::assert_snapshot!(shown(&ran.stderr), @"hint: what is left waits for GitHub or a person; `regatta daemon start` lands it, and then `regatta run --resume DIR/plan.md` starts the tasks that wait for it");
}
