//! Landing by pull requests: the real `gh` and the real git, against a server of our own that merges for real.

mod cleanup;
mod columns;
mod comment;
mod limits;
mod logins;
mod people;
mod repositories;
mod reviews;
mod rules;
mod trouble;
mod until;

use regatta_testkit::daemon::until;
use regatta_testkit::forge::{Ci, Conclusion, Forge, Rules};
use regatta_testkit::running::Running;
use regatta_testkit::shown::shown;
use regatta_testkit::world::{World, task};

use crate::REGATTA;

/// A checkout whose `origin` is at the server. The agent `sh` runs its prompt; the agent `reader` writes what it reads
/// into `prompt-N.txt`, N being the number of the attempt.
struct Scene {
    world: World,
    forge: Forge,
}

impl Scene {
    /// `land` are further settings below `land`.
    fn new(land: &str) -> Self {
        Self::with(land, "")
    }

    /// The same, with further sections.
    fn with(land: &str, sections: &str) -> Self {
        let forge = Forge::start();
        let mut world = World::new(REGATTA);
        world.env("REGATTA_TEST_LOOK_MS", "400");
        world.config(&format!(
            "version: 1\nland: {{ via: pr, auto: true, {land} }}\nagents:\n  sh: {{ kind: command, argv: [sh] }}\n  reader: {{ \
             kind: command, follow_ups: true, argv: [sh, -c, 'cat >prompt-$REGATTA_ATTEMPT.txt'] }}\n\
             {sections}"
        ));
        forge.furnish(&mut world);
        Self { world, forge }
    }

    /// The same, with a check that succeeds at once and a daemon that has the task `a` of the agent `reader`.
    fn with_a(land: &str) -> (Self, Running) {
        let scene = Self::new(land);
        scene.forge.ci(Ci::Passes("ci".to_owned()));
        let daemon = scene.begin(&task("a", "agent: reader", "Do a."));
        (scene, daemon)
    }

    /// A daemon that has these tasks.
    fn begin(&self, tasks: &str) -> Running {
        let daemon = self.world.daemon();
        self.world.enqueue(&self.world.plan(tasks));
        daemon
    }

    /// Waits until the event log has these words.
    #[track_caller]
    fn said(&self, words: &str) {
        let db = self.world.database();
        until(words, || {
            let sql = "select count(*) from event where instr(body, ?1) > 0";
            let found: i64 = db.query_row(sql, [words], |row| row.get(0)).ok()?;
            (found > 0).then_some(())
        });
    }

    /// How many events have these words.
    fn times_said(&self, words: &str) -> i64 {
        let sql = "select count(*) from event where instr(body, ?1) > 0";
        self.world.database().query_row(sql, [words], |row| row.get(0)).expect("events can be read")
    }

    /// The commit of an open pull request.
    fn head(&self, number: u64) -> String {
        self.forge.read(|state| state.pull(number).1.head_sha.clone())
    }

    /// Waits until the pull request is open; returns its commit.
    #[track_caller]
    fn is_open(&self, number: u64) -> String {
        self.forge.wait_for("the pull request is open", |state| {
            let pull = state.repo("acme/shop")?.pull(number)?;
            pull.0.is_open.then(|| pull.1.head_sha.clone())
        })
    }

    /// Waits until the pull request has another commit than this.
    #[track_caller]
    fn moved_from(&self, number: u64, head: &str) -> String {
        self.forge.wait_for("the pull request has another commit", |state| {
            let now = &state.repo("acme/shop")?.pull(number)?.1.head_sha;
            (now != head).then(|| now.clone())
        })
    }

    /// That many pull requests, all merged and cleaned up; the target is the same here and there; no push was forced.
    #[track_caller]
    fn assert_whole(&self, pulls: usize, what: &str) {
        let (forge, world) = (&self.forge, &self.world);
        let all: Vec<(u64, bool, String)> = forge.read(|state| {
            let issues = state.repo("acme/shop").unwrap().issues.values();
            let pulls = issues.filter_map(|issue| Some((issue.number, issue.pull.as_ref()?)));
            pulls.map(|(number, pull)| (number, pull.merged.is_some(), pull.head.clone())).collect()
        });
        assert_eq!(all.len(), pulls, "{what}: {all:?}");
        for (number, is_merged, branch) in all {
            assert!(is_merged, "{what}: #{number} is not merged");
            assert_eq!(forge.tip(&branch), None, "{what}: {branch} is still there");
        }
        assert_eq!(forge.tip("main").as_deref(), Some(world.repo().rev("main").as_str()), "{what}");
        assert_eq!(world.repo().git(["status", "--porcelain"]), "", "{what}");
        assert_eq!(world.repo().git(["for-each-ref", "refs/regatta/pull", "refs/regatta/pull-there"]), "");
        self.assert_nothing_forced(what);
    }

    #[track_caller]
    fn assert_nothing_forced(&self, what: &str) {
        let forced: Vec<_> =
            self.forge.pushes().into_iter().filter(|push| push.forced && push.by == "octo").collect();
        assert!(forced.is_empty(), "{what}: {forced:#?}");
    }

    #[track_caller]
    fn ends(&self, daemon: Running) {
        daemon.signal("TERM");
        daemon.wait();
        self.world.assert_no_process();
    }
}

#[test]
fn a_task_goes_from_its_prompt_to_a_merged_pull_request_with_two_calls_that_write() {
    let scene = Scene::new("pr: { merge: green }");
    scene.forge.ci(Ci::Passes("ci".to_owned()));
    let plan = scene.world.plan(&task("a", "", "echo a >a.txt"));
    scene.world.run(&plan, &[]).exited(0);
    scene.world.assert_states(["a landed"]);
    scene.assert_whole(1, "the green path");
    assert_eq!(scene.forge.writes(), 2);
    insta::assert_snapshot!(scene.forge.call_lines().join("\n"), @"
    GET /user
    GET /repos/acme/shop
    POST /repos/acme/shop/pulls
    POST /graphql Watch
    POST /graphql Feedback
    GET /repos/acme/shop/rules/branches/main
    GET /repos/acme/shop/branches/main
    PUT /repos/acme/shop/pulls/1/merge
    ");
    insta::assert_snapshot!(shown(&scene.world.regatta(["events"]).stdout), @"
     1  DATE CLOCK  a  enqueued
     2  DATE CLOCK  a#1  claimed by HOST
     3  DATE CLOCK  a#1  lane DIR/repo.lanes/a at HASH
     4  DATE CLOCK  a#1  agent started, process PID
     5  DATE CLOCK  a#1  agent ended: exit 0
     6  DATE CLOCK  a#1  verdict pass
     7  DATE CLOCK  a#1  approved, joins the train with HASH
     8  DATE CLOCK  a#1  pushing HASH as regatta/a
     9  DATE CLOCK  a#1  pull request #1 is open: http://github.localhost/acme/shop/pull/1
    10  DATE CLOCK  a#1  merging its pull request at HASH (rebase)
    11  DATE CLOCK  a#1  landed on main as HASH by pull request #1 (merged untested here)
    ");
}

/// The places on the green path, in their order.
const GREEN: [&str; 10] = [
    "pr-intended",
    "pr-pushed",
    "pr-opened",
    "pr-recorded",
    "merge-intended",
    "merged-there",
    "merge-fetched",
    "ref-moved",
    "landed",
    "branch-deleted",
];

#[test]
fn the_places_on_the_green_path_are_all_that_are_reached_without_feedback_and_comments() {
    let mut all: Vec<&str> = regatta_engine::failpoint::PULLS.to_vec();
    all.retain(|place| !["fed", "commented"].contains(place));
    all.extend(["ref-moved", "landed"]);
    all.sort_unstable();
    let mut green = GREEN;
    green.sort_unstable();
    assert_eq!(all, green);
}

/// Dies at these places, one after the other, is resumed after each, and has landed once. What was reached before the
/// first crash is not always reached again.
fn survives(places: &[&str]) {
    let what = places.join(", ");
    let mut scene = Scene::new("pr: { merge: green }");
    scene.forge.ci(Ci::Passes("ci".to_owned()));
    let plan = scene.world.plan(&task("a", "", "echo a >a.txt"));
    for (n, place) in places.iter().enumerate() {
        scene.world.env("REGATTA_FAILPOINT", place);
        let ran = scene.world.run(&plan, if n == 0 { &[] } else { &["--resume"] });
        let is_good = ran.code == 137 || n > 0 && ran.code == 0;
        assert!(is_good, "{what}: {place}: {}{}", ran.stdout, ran.stderr);
    }
    scene.world.env("REGATTA_FAILPOINT", "");
    scene.world.run(&plan, &["--resume"]).exited(0);
    scene.world.assert_states(["a landed"]);
    scene.assert_whole(1, &what);
    assert_eq!(scene.world.commits_of("a.txt"), 1, "{what}");
    scene.world.assert_tidy();
}

#[test]
fn a_crash_at_any_place_leaves_one_pull_request_and_one_merge() {
    std::thread::scope(|scope| {
        for place in GREEN {
            scope.spawn(move || survives(&[place]));
        }
    });
}

#[test]
fn two_crashes_at_any_two_places_leave_one_pull_request_and_one_merge() {
    // Every pair of places is next to each other in one of these: the same place twice and its neighbours in the first,
    // those with others between them in the rest.
    let mut ways = vec![GREEN.iter().flat_map(|place| [*place, *place]).collect::<Vec<_>>()];
    for step in 2..GREEN.len() {
        ways.extend((0..step).map(|first| GREEN.iter().copied().skip(first).step_by(step).collect()));
    }
    ways.retain(|way| way.len() > 1);
    let next = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(way) = ways.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) {
                    survives(way);
                }
            });
        }
    });
}

#[test]
fn a_crash_after_feedback_was_sent_sends_it_once() {
    let mut scene = Scene::new("pr: { merge: green }");
    scene.forge.ci(Ci::Waits("ci".to_owned()));
    scene.world.env("REGATTA_FAILPOINT", "fed");
    let daemon = scene.begin(&task("a", "agent: reader", "Do a."));
    let first = scene.is_open(1);
    scene.forge.check(1, "ci", Conclusion::Failure);
    assert_eq!(daemon.wait().code, 137);
    scene.world.env("REGATTA_FAILPOINT", "");
    let daemon = scene.world.daemon();
    scene.moved_from(1, &first);
    scene.forge.check(1, "ci", Conclusion::Success);
    scene.world.wait_state("a", "landed");
    assert_eq!(scene.world.attempts("a").0, 2);
    scene.ends(daemon);
    scene.assert_whole(1, "fed");
}

#[test]
fn a_dependent_starts_from_the_merge_commit_and_not_before() {
    let scene = Scene::new("strategy: squash, pr: { merge: green }");
    scene.forge.ci(Ci::Waits("ci".to_owned()));
    let tasks = [task("a", "", "echo a >a.txt"), task("b", "deps: [a]", "cat a.txt >b.txt")].concat();
    let daemon = scene.begin(&tasks);
    scene.is_open(1);
    scene.said("checks 0/1");
    assert_eq!(scene.world.stored()[1], ("b".to_owned(), "pending".to_owned()));
    scene.forge.check(1, "ci", Conclusion::Success);
    scene.is_open(2);
    let merged = scene.forge.read(|state| state.pull(1).1.merged.clone()).unwrap().sha;
    scene.forge.git(["merge-base", "--is-ancestor", &merged, "regatta/b"]);
    scene.forge.check(2, "ci", Conclusion::Success);
    scene.world.wait_state("b", "landed");
    scene.ends(daemon);
    scene.assert_whole(2, "dependents");
}

#[test]
fn two_that_are_ready_at_the_same_time_are_merged_one_after_the_other() {
    let scene = Scene::new("pr: { merge: green }");
    scene.forge.ci(Ci::Waits("ci".to_owned()));
    let daemon = scene.begin(&[task("a", "", "echo a >a.txt"), task("b", "", "echo b >b.txt")].concat());
    for number in [1, 2] {
        scene.is_open(number);
    }
    for number in [1, 2] {
        scene.forge.check(number, "ci", Conclusion::Success);
    }
    scene.world.wait_state("a", "landed");
    scene.world.wait_state("b", "landed");
    scene.ends(daemon);
    scene.assert_whole(2, "two");
}

#[test]
fn without_any_check_nothing_is_merged() {
    let scene = Scene::new("pr: { merge: green, checks_within: 1s }");
    let daemon = scene.begin(&task("a", "", "echo a >a.txt"));
    scene.world.wait_state("a", "blocked");
    scene
        .said("no checks ran for #1: set `land.pr.checks: none` or `land.test_command`, or merge it by hand");
    assert_eq!(scene.forge.writes(), 1, "it was opened, not merged");
    scene.forge.as_user("ann").merge(1);
    scene.world.wait_state("a", "landed");
    scene.ends(daemon);
    scene.assert_whole(1, "merged by hand");
}

#[test]
fn without_any_check_the_gate_here_counts() {
    let scene = Scene::new("test_command: test -f a.txt, pr: { merge: green, checks_within: 1s }");
    let daemon = scene.begin(&task("a", "", "echo a >a.txt"));
    scene.world.wait_state("a", "landed");
    scene.ends(daemon);
    scene.assert_whole(1, "tested here");
    assert_eq!(scene.times_said("\"tested\":true"), 1);
}

#[test]
fn work_that_fails_the_gate_is_not_proposed() {
    let scene = Scene::new("test_command: 'false', pr: { merge: green }");
    let plan = scene.world.plan(&task("a", "", "echo a >a.txt"));
    let ran = scene.world.run(&plan, &[]);
    assert_ne!(ran.code, 0);
    scene.world.assert_states(["a blocked"]);
    assert_eq!((scene.forge.writes(), scene.forge.tip("regatta/a")), (0, None));
}

#[test]
fn a_failed_check_goes_to_the_agent_once_and_its_answer_is_pushed_on_top() {
    let scene = Scene::new("pr: { merge: green }");
    scene.forge.ci(Ci::Waits("ci".to_owned()));
    let daemon = scene.begin(&task("a", "agent: reader", "Do a."));
    let first = scene.is_open(1);
    scene.forge.check(1, "ci", Conclusion::Failure);
    let second = scene.moved_from(1, &first);
    scene.forge.git(["merge-base", "--is-ancestor", &first, &second]);
    let prompt = scene.forge.git(["show", &format!("{second}:prompt-2.txt")]);
    assert!(prompt.contains("ci"), "{prompt}");
    scene.forge.check(1, "ci", Conclusion::Success);
    scene.world.wait_state("a", "landed");
    assert_eq!(scene.world.attempts("a").0, 2);
    scene.ends(daemon);
    scene.assert_whole(1, "a failed check");
}

#[test]
fn a_check_that_waits_for_a_person_or_has_not_shown_up_is_nobodys_fault() {
    let scene = Scene::new("pr: { merge: green }");
    scene.forge.rules("main", Rules::checks(["ci", "slow"]));
    let daemon = scene.begin(&task("a", "agent: reader", "Do a."));
    scene.is_open(1);
    scene.forge.check(1, "ci", Conclusion::Success);
    scene.said("not reported: slow");
    scene.forge.check(1, "slow", Conclusion::ActionRequired);
    scene.said("slow ");
    assert_eq!((scene.world.attempts("a").0, scene.forge.writes()), (1, 1));
    scene.forge.check(1, "slow", Conclusion::Success);
    scene.world.wait_state("a", "landed");
    scene.ends(daemon);
    scene.assert_whole(1, "required checks");
}
