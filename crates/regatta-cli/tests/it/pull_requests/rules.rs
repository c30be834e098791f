//! What the target's rules demand, pull requests from a fork, and how often an agent is asked again.

use regatta_testkit::forge::{Ci, Conclusion, Forge, Permission, Rules};
use regatta_testkit::world::{World, task};

use super::Scene;
use crate::REGATTA;

impl Scene {
    /// Waits until the pull request stands in the merge queue.
    #[track_caller]
    fn is_queued(&self, number: u64) {
        self.forge.wait_for("the pull request is in the queue", |state| {
            state.repo("acme/shop")?.pull(number)?.1.queue.as_ref().map(drop)
        });
    }
}

#[test]
fn a_merge_queue_is_joined_and_what_it_throws_out_goes_to_the_agent() {
    let scene = Scene::new("pr: { merge: green }");
    scene.forge.ci(Ci::Passes("ci".to_owned())).rules("main", Rules::default().queue());
    let daemon = scene.begin(&task("a", "agent: reader", "Do a."));
    let first = scene.is_open(1);
    scene.is_queued(1);
    scene.forge.kick_out(1, "failed_checks");
    let second = scene.moved_from(1, &first);
    let prompt = scene.forge.git(["show", &format!("{second}:prompt-2.txt")]);
    assert!(prompt.contains("The merge queue did not take your work"), "{prompt}");
    scene.is_queued(1);
    assert_eq!(scene.world.stored()[0].1, "landing");
    scene.forge.run_queue("main");
    scene.world.wait_state("a", "landed");
    assert_eq!(scene.world.attempts("a").0, 2);
    scene.ends(daemon);
    scene.assert_whole(1, "queued");
}

#[test]
fn a_protected_target_is_reached_once_its_rules_are_kept() {
    for rules in [Rules::checks(["ci"]), Rules::checks(["ci"]).classic()] {
        let scene = Scene::new("pr: { merge: green }");
        let rules = Rules { approvals: 1, protected: true, dismiss_stale: true, linear: true, ..rules };
        scene.forge.ci(Ci::Waits("ci".to_owned())).rules("main", rules);
        let daemon = scene.begin(&task("a", "agent: reader", "Do a."));
        scene.is_open(1);
        scene.forge.check(1, "ci", Conclusion::Success);
        scene.said("review wanted");
        scene.forge.as_user("ann").approve(1);
        scene.world.wait_state("a", "landed");
        assert_eq!(scene.world.attempts("a").0, 1);
        scene.ends(daemon);
        scene.assert_whole(1, "protected");
    }
}

#[test]
fn from_a_fork_work_is_proposed_to_what_it_was_forked_from_and_lands_when_it_is_merged_there() {
    let forge = Forge::start();
    forge.ci(Ci::Passes("ci".to_owned()));
    let mut world = World::new(REGATTA);
    world.env("REGATTA_TEST_LOOK_MS", "400");
    world.config("version: 1\nland: { via: pr, auto: true, pr: { merge: green } }\n");
    forge.furnish(&mut world);
    let fork = forge.fork("acme/shop", "octo");
    forge.member("acme/shop", "octo", Permission::Read);
    world.git(["remote", "rename", "origin", "upstream"]);
    world.git(["remote", "add", "origin", &forge.remote(&fork)]);
    world.git(["fetch", "--quiet", "origin"]);
    let scene = Scene { world, forge };
    let daemon = scene.begin(&task("a", "agent: sh", "echo a >a.txt"));
    scene.is_open(1);
    scene.forge.read(|state| {
        let (_, pull) = state.repo("acme/shop").unwrap().pull(1).unwrap();
        assert_eq!((pull.head.as_str(), pull.base.as_str()), ("regatta/a", "main"));
        assert!(state.repo("octo/shop").unwrap().issues.is_empty());
    });
    scene.forge.as_user("acme").merge(1);
    scene.world.wait_state("a", "landed");
    assert_eq!(scene.world.landed("a.txt").as_deref(), Some("a\n"), "the branch here follows");
    scene.ends(daemon);
    scene.assert_nothing_forced("a fork");
}

#[test]
fn an_agent_is_asked_so_often_and_again_after_a_person_s_word() {
    let scene = Scene::new("pr: { merge: green, rounds: 1 }");
    scene.forge.ci(Ci::Waits("ci".to_owned()));
    let daemon = scene.begin(&task("a", "agent: reader", "Do a."));
    let first = scene.is_open(1);
    scene.forge.check(1, "ci", Conclusion::Failure);
    let second = scene.moved_from(1, &first);
    scene.forge.check(1, "ci", Conclusion::Failure);
    scene.world.wait_state("a", "blocked");
    assert_eq!(scene.world.attempts("a").0, 2);
    scene.world.regatta(["send", "a", "Try the other way."]).exited(0);
    let third = scene.moved_from(1, &second);
    scene.forge.check(1, "ci", Conclusion::Failure);
    scene.moved_from(1, &third);
    scene.forge.check(1, "ci", Conclusion::Success);
    scene.world.wait_state("a", "landed");
    assert_eq!(scene.world.attempts("a").0, 4);
    scene.ends(daemon);
    scene.assert_whole(1, "rounds");
}
