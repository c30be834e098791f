//! `notify: { github: comment }`: one comment on each pull request, edited.

use regatta_testkit::daemon::until;
use regatta_testkit::forge::{Ci, Conclusion, Fault, State};
use regatta_testkit::shown::shown;
use regatta_testkit::world::task;

use super::Scene;

const ALL: &str =
    "notify:\n  - { on: [proposed, review-wanted, ready, needs-input, blocked, landed], github: comment }\n";

/// The comments of `octo`, as whom Regatta acts.
fn own(state: &State, number: u64) -> Vec<String> {
    let Some(issue) = state.repo("acme/shop").unwrap().issues.get(&number) else { return Vec::new() };
    issue
        .comments
        .iter()
        .filter(|comment| comment.author == "octo")
        .map(|comment| comment.body.clone())
        .collect()
}

/// The one comment on a pull request.
#[track_caller]
fn only(scene: &Scene, number: u64) -> String {
    let own = scene.forge.read(|state| own(state, number));
    let [only] = &own[..] else { panic!("there are {} comments: {own:#?}", own.len()) };
    shown(only)
}

/// Waits until the comment has these words.
#[track_caller]
fn says(scene: &Scene, number: u64, words: &str) {
    scene.forge.wait_for(words, |state| {
        own(state, number).iter().any(|comment| comment.contains(words)).then_some(())
    });
}

#[test]
fn one_comment_is_written_and_edited_until_the_work_has_landed() {
    let mut scene = Scene::with("pr: { merge: approved }", ALL);
    scene.world.env("REGATTA_TEST_EDIT_MS", "0");
    scene.forge.ci(Ci::Passes("ci".to_owned()));
    let daemon = scene.begin(&task("a", "agent: reader", "Do a."));
    scene.is_open(1);
    says(&scene, 1, "review wanted");
    scene.forge.as_user("ann").approve(1);
    scene.world.wait_state("a", "landed");
    says(&scene, 1, "landed on");
    insta::assert_snapshot!(only(&scene, 1), @"
    `a`: landed on main as HASH

    - DATE CLOCK UTC: proposed as HASH
    - DATE CLOCK UTC: checks 1/1 · review wanted
    - DATE CLOCK UTC: landed on main as HASH

    <!-- regatta key=task.a -->
    ");
    assert_eq!(scene.world.attempts("a").0, 1, "its own comment is no feedback");
    scene.ends(daemon);
    scene.assert_whole(1, "commented");
}

#[test]
fn several_events_in_a_short_time_are_one_edit_and_the_end_of_a_run_waits_for_none() {
    let scene = Scene::with("pr: { merge: green }", ALL);
    scene.forge.ci(Ci::Passes("ci".to_owned()));
    let plan = scene.world.plan(&task("a", "", "echo a >a.txt"));
    scene.world.run(&plan, &[]).exited(0);
    let text = only(&scene, 1);
    assert!(text.contains("proposed") && text.contains("landed on main as"), "{text}");
    let edits = scene.forge.call_lines().iter().filter(|line| line.contains("issues/comments")).count();
    assert!(edits <= 1, "{:#?}", scene.forge.call_lines());
}

#[test]
fn a_crash_between_the_comment_and_its_record_leaves_one_comment() {
    let mut scene = Scene::with("pr: { merge: green }", ALL);
    scene.world.env("REGATTA_TEST_EDIT_MS", "0");
    scene.forge.ci(Ci::Waits("ci".to_owned()));
    scene.world.env("REGATTA_FAILPOINT", "commented");
    let daemon = scene.begin(&task("a", "", "echo a >a.txt"));
    assert_eq!(daemon.wait().code, 137);
    assert!(only(&scene, 1).contains("proposed"));
    // Others may have a comment with the same mark.
    let copy = scene.forge.read(|state| own(state, 1).remove(0));
    scene.forge.as_user("ann").comment(1, &copy);
    let daemon = scene.world.daemon();
    assert_eq!(daemon.wait().code, 137, "it edits, and dies again");
    scene.world.env("REGATTA_FAILPOINT", "");
    let daemon = scene.world.daemon();
    scene.forge.check(1, "ci", Conclusion::Success);
    scene.world.wait_state("a", "landed");
    says(&scene, 1, "landed on main");
    let text = only(&scene, 1);
    assert_eq!(text.matches("proposed").count(), 1, "{text}");
    scene.ends(daemon);
}

#[test]
fn a_comment_that_a_person_deleted_is_written_again_and_a_lost_answer_makes_no_second_one() {
    let mut scene = Scene::with("pr: { merge: green }", ALL);
    scene.world.env("REGATTA_TEST_EDIT_MS", "0");
    scene.forge.ci(Ci::Waits("ci".to_owned()));
    scene.forge.next("POST /repos/acme/shop/issues/1/comments", Fault::Lost);
    let daemon = scene.begin(&task("a", "agent: reader", "Do a."));
    says(&scene, 1, "proposed");
    let is_edit = |line: &String| line.starts_with("PATCH /repos/acme/shop/issues/comments/");
    until("the comment was found again", || scene.forge.call_lines().iter().any(is_edit).then_some(()));
    let id = scene.forge.read(|state| state.repo("acme/shop").unwrap().issues[&1].comments[0].id);
    scene.forge.as_user("octo").delete_comment(id);
    scene.forge.check(1, "ci", Conclusion::Success);
    scene.world.wait_state("a", "landed");
    says(&scene, 1, "landed on main");
    let text = only(&scene, 1);
    assert!(text.contains("proposed"), "{text}");
    scene.ends(daemon);
}
