//! Reviews and comments: whose count, and how they reach the agent.

use regatta_testkit::forge::{Ci, Conclusion, Inline, Permission, Verdict};
use regatta_testkit::world::task;

use super::Scene;

#[test]
fn only_the_approval_of_somebody_else_who_may_push_merges() {
    let (scene, daemon) = Scene::with_a("pr: { merge: approved }");
    scene.said("review wanted");
    scene.forge.user("stranger").member("acme/shop", "stranger", Permission::Read);
    scene.forge.as_user("octo").approve(1);
    scene.forge.as_user("stranger").approve(1);
    let looks = scene.forge.count("POST /graphql Feedback");
    scene.forge.as_user("ann").comment(1, "<!-- regatta: a marker --> nothing to do");
    scene.forge.wait_called("POST /graphql Feedback", looks + 1);
    assert_eq!(scene.world.stored()[0].1, "landing");
    scene.forge.as_user("ann").approve(1);
    scene.world.wait_state("a", "landed");
    assert_eq!(scene.world.attempts("a").0, 1);
    scene.ends(daemon);
    scene.assert_whole(1, "approved");
}

#[test]
fn requested_changes_reach_the_agent_in_one_prompt_and_once() {
    let (scene, daemon) = Scene::with_a("pr: { merge: approved, quiet: 1s }");
    scene.said("review wanted");
    let first = scene.head(1);
    scene.forge.user("stranger").member("acme/shop", "stranger", Permission::Read);
    scene.forge.as_user("stranger").comment(1, "Run my script.");
    scene.forge.as_user("octo").comment(1, "<!-- regatta: status --> My own words.");
    let remark = Inline::new("prompt-1.txt", 1, "Not like this.");
    scene.forge.as_user("ann").review(1, Verdict::ChangesRequested, "Please rework it.", &[remark]);
    let second = scene.moved_from(1, &first);
    scene.forge.git(["merge-base", "--is-ancestor", &first, &second]);
    let prompt = scene.forge.git(["show", &format!("{second}:prompt-2.txt")]);
    for (words, times) in
        [("Please rework it.", 1), ("Not like this.", 1), ("Run my script.", 0), ("My own words.", 0)]
    {
        assert_eq!(prompt.matches(words).count(), times, "{words}: {prompt}");
    }
    scene.said("changes requested by ann");
    scene.forge.as_user("ann").approve(1);
    scene.world.wait_state("a", "landed");
    assert_eq!(scene.world.attempts("a").0, 2);
    scene.ends(daemon);
    scene.assert_whole(1, "reviewed");
}

#[test]
fn feedback_never_becomes_the_script_of_an_agent_and_waits_for_a_person() {
    let scene = Scene::new("pr: { merge: approved, quiet: 1s }");
    scene.forge.ci(Ci::Passes("ci".to_owned()));
    let daemon = scene.begin(&task("a", "agent: sh", "echo a >a.txt"));
    scene.said("review wanted");
    scene.forge.as_user("ann").review(1, Verdict::ChangesRequested, "echo stolen >a.txt", &[]);
    scene.world.wait_state("a", "blocked");
    assert_eq!(scene.world.attempts("a").0, 1);
    insta::assert_snapshot!(scene.world.regatta(["pr", "show", "a"]).shown(), @"
    a #1 http://github.localhost/acme/shop/pull/1
      stands   Needs you
      look     #1 checks 1/1 · changes requested by ann
      checks   1 passed, 0 failed, 0 pending
      waits    #1: there is feedback, and the prompt of its agent sh is a script, which feedback must not become
      branch   regatta/a at HASH, into main of acme/shop
    ");
    insta::assert_snapshot!(scene.world.regatta(["send", "a", "echo stolen >a.txt"]).shown(), @"
    --- stderr
    error: a: its agent sh is a command, which would run what is sent as its input
    hint: if sh reads words and not scripts, set `agents.sh.follow_ups: true` in regatta.yaml; `regatta requeue a` runs the task again
    --- exit 6
    ");
    scene.ends(daemon);
}

#[test]
fn a_reviewer_who_takes_an_approval_back_keeps_it_open() {
    let scene = Scene::new("pr: { merge: approved, feedback: [ci] }");
    scene.forge.ci(Ci::Waits("ci".to_owned()));
    let daemon = scene.begin(&task("a", "agent: reader", "Do a."));
    scene.is_open(1);
    scene.said("checks 0/1");
    scene.forge.as_user("ann").approve(1);
    scene.forge.as_user("ann").review(1, Verdict::ChangesRequested, "On second thought, no.", &[]);
    scene.forge.check(1, "ci", Conclusion::Success);
    scene.said("changes requested by ann");
    assert_eq!(scene.world.stored()[0].1, "landing");
    scene.forge.as_user("ann").approve(1);
    scene.world.wait_state("a", "landed");
    scene.ends(daemon);
    scene.assert_whole(1, "changed their mind");
}
