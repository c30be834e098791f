//! People's acts win: merged, closed, opened again, retargeted, made a draft, pushed to.

use regatta_testkit::daemon::until;
use regatta_testkit::forge::{Ci, Conclusion};
use regatta_testkit::world::task;

use super::Scene;

/// Nothing is merged before a person says so.
const BY_HAND: &str = "pr: { merge: never }";

#[test]
fn a_merge_by_a_person_lands_the_task() {
    let (scene, daemon) = Scene::with_a(BY_HAND);
    scene.said("ready to merge");
    scene.forge.as_user("ann").merge(1);
    scene.world.wait_state("a", "landed");
    scene.ends(daemon);
    scene.assert_whole(1, "merged by ann");
}

#[test]
fn a_closed_pull_request_blocks_its_task_once_and_goes_on_when_it_is_opened_again() {
    let scene = Scene::new(BY_HAND);
    scene.forge.ci(Ci::Passes("ci".to_owned()));
    let tasks = [task("a", "agent: reader", "Do a."), task("b", "deps: [a]", "echo b >b.txt")].concat();
    let daemon = scene.begin(&tasks);
    scene.said("ready to merge");
    scene.forge.as_user("ann").close(1);
    scene.world.wait_state("a", "blocked");
    scene.said("pull request #1 was closed without a merge");
    assert_eq!(scene.world.stored()[1].1, "pending");
    assert_eq!(scene.times_said("\"reason\":\"declined\""), scene.times_said("was closed without a merge"));
    scene.forge.as_user("ann").reopen(1);
    scene.world.wait_state("a", "landing");
    scene.forge.as_user("ann").merge(1);
    scene.world.wait_state("a", "landed");
    scene.is_open(2);
    scene.forge.as_user("ann").merge(2);
    scene.world.wait_state("b", "landed");
    assert_eq!(scene.world.attempts("a").0, 1);
    scene.ends(daemon);
    scene.assert_whole(2, "reopened");
}

#[test]
fn a_closed_pull_request_is_opened_again_when_its_work_goes_on() {
    let (scene, daemon) = Scene::with_a(BY_HAND);
    scene.said("ready to merge");
    let first = scene.head(1);
    scene.forge.as_user("ann").close(1);
    scene.world.wait_state("a", "blocked");
    scene.world.regatta(["send", "a", "Once more."]).exited(0);
    scene.moved_from(1, &first);
    scene.is_open(1);
    until("it waits again", || (scene.times_said("ready to merge") >= 2).then_some(()));
    scene.forge.as_user("ann").merge(1);
    scene.world.wait_state("a", "landed");
    scene.ends(daemon);
    scene.assert_whole(1, "reopened by Regatta");
}

#[test]
fn a_draft_waits_and_so_does_one_whose_base_a_person_changed() {
    let scene = Scene::new("pr: { merge: green }");
    scene.forge.ci(Ci::Waits("ci".to_owned()));
    let daemon = scene.begin(&task("a", "agent: reader", "Do a."));
    scene.is_open(1);
    let ann = scene.forge.as_user("ann");
    ann.make_draft(1);
    scene.said("draft");
    scene.forge.check(1, "ci", Conclusion::Success);
    ann.push("release", &[("release.txt", "1\n")]);
    ann.retarget(1, "release");
    scene.said("#1: a person changed its base to release");
    ann.ready(1);
    assert_eq!(scene.forge.writes(), 1, "it was opened, not merged");
    ann.retarget(1, "main");
    scene.world.wait_state("a", "landed");
    scene.ends(daemon);
    scene.assert_whole(1, "retargeted");
}

#[test]
fn what_a_person_pushes_to_the_branch_is_taken_over() {
    let (scene, daemon) = Scene::with_a(BY_HAND);
    scene.said("ready to merge");
    let theirs = scene.forge.as_user("ann").push("regatta/a", &[("ann.txt", "ann\n")]);
    scene.said("took over ");
    scene.world.regatta(["send", "a", "Once more."]).exited(0);
    let next = scene.moved_from(1, &theirs);
    scene.forge.git(["merge-base", "--is-ancestor", &theirs, &next]);
    assert_eq!(scene.forge.git(["show", &format!("{next}:ann.txt")]), "ann");
    assert!(scene.forge.git(["show", &format!("{next}:prompt-2.txt")]).contains("Once more."));
    until("it waits again", || (scene.times_said("ready to merge") >= 2).then_some(()));
    scene.forge.as_user("ann").merge(1);
    scene.world.wait_state("a", "landed");
    assert_eq!(scene.world.landed("ann.txt").as_deref(), Some("ann\n"));
    scene.ends(daemon);
    scene.assert_whole(1, "taken over");
}

#[test]
fn what_a_person_pushes_while_the_agent_works_is_merged_with_its_work() {
    let scene = Scene::new(BY_HAND);
    scene.forge.ci(Ci::Passes("ci".to_owned()));
    let barrier = scene.world.barrier("answer");
    let root = scene.world.root();
    let script =
        format!("cat >p$REGATTA_ATTEMPT\nif [ $REGATTA_ATTEMPT != 1 ]; then\n{}\nfi\n", barrier.script());
    std::fs::write(root.join("agent.sh"), script).unwrap();
    let settings = std::fs::read_to_string(root.join("regatta.yaml")).unwrap();
    let slow = "agents:\n  slow: { kind: command, follow_ups: true, argv: [sh, agent.sh] }\n";
    std::fs::write(root.join("regatta.yaml"), settings.replace("agents:\n", slow)).unwrap();
    scene.world.git(["add", "-A"]);
    scene.world.git(["commit", "-qm", "agents"]);
    scene.world.git(["push", "-q", "origin", "main"]);
    let daemon = scene.begin(&task("a", "agent: slow", "Do a."));
    scene.said("ready to merge");
    scene.world.regatta(["send", "a", "Once more."]).exited(0);
    barrier.arrived();
    let theirs = scene.forge.as_user("ann").push("regatta/a", &[("ann.txt", "ann\n")]);
    barrier.open();
    let next = scene.moved_from(1, &theirs);
    scene.forge.git(["merge-base", "--is-ancestor", &theirs, &next]);
    assert_eq!(scene.forge.git(["ls-tree", "--name-only", &next, "ann.txt", "p1", "p2"]), "ann.txt\np1\np2");
    scene.ends(daemon);
    scene.assert_nothing_forced("joined");
}

#[test]
fn a_branch_that_was_replaced_blocks_the_task_and_loses_nothing() {
    let (scene, daemon) = Scene::with_a(BY_HAND);
    scene.said("ready to merge");
    let ours = scene.head(1);
    let theirs = scene.forge.as_user("ann").force_push("regatta/a", &[("other.txt", "other\n")]);
    scene.world.wait_state("a", "blocked");
    scene.said("regatta/a here and at origin have gone different ways");
    assert_eq!(scene.forge.tip("regatta/a"), Some(theirs));
    scene.world.repo().git(["cat-file", "-e", &ours]);
    scene.ends(daemon);
    scene.assert_nothing_forced("replaced");
}

#[test]
fn a_conflict_with_the_target_goes_to_the_agent_and_its_answer_contains_what_was_pushed() {
    let scene = Scene::new("bounces: 1, pr: { merge: green }");
    scene.forge.ci(Ci::Waits("ci".to_owned()));
    let resolve = "if [ \"$REGATTA_ATTEMPT\" = 1 ]; then echo ours >x.txt; else echo both >x.txt; fi";
    let daemon = scene.begin(&task("a", "", resolve));
    let first = scene.is_open(1);
    scene.forge.as_user("ann").push("main", &[("x.txt", "theirs\n")]);
    let second = scene.moved_from(1, &first);
    scene.forge.git(["merge-base", "--is-ancestor", &first, &second]);
    assert_eq!(scene.forge.git(["show", &format!("{second}:x.txt")]), "both");
    scene.forge.check(1, "ci", Conclusion::Success);
    scene.world.wait_state("a", "landed");
    scene.ends(daemon);
    scene.assert_whole(1, "a conflict");
    assert_eq!(scene.world.landed("x.txt").as_deref(), Some("both\n"));
}

#[test]
fn a_cancelled_task_leaves_its_pull_request_open_and_is_looked_at_no_more() {
    let (scene, daemon) = Scene::with_a(BY_HAND);
    scene.said("ready to merge");
    scene.world.regatta(["cancel", "a"]).exited(0);
    scene.world.wait_state("a", "cancelled");
    assert!(scene.forge.read(|state| state.pull(1).0.is_open));
    scene.forge.as_user("ann").merge(1);
    scene.ends(daemon);
    scene.world.assert_states(["a cancelled"]);
}

#[test]
fn a_follow_up_takes_the_task_out_and_brings_it_back_to_the_same_pull_request() {
    let (scene, daemon) = Scene::with_a(BY_HAND);
    scene.said("ready to merge");
    let first = scene.head(1);
    scene.world.regatta(["send", "a", "Once more."]).exited(0);
    let second = scene.moved_from(1, &first);
    scene.forge.git(["merge-base", "--is-ancestor", &first, &second]);
    until("it waits again", || (scene.times_said("ready to merge") >= 2).then_some(()));
    scene.forge.as_user("ann").merge(1);
    scene.world.wait_state("a", "landed");
    scene.ends(daemon);
    scene.assert_whole(1, "a follow-up");
}
