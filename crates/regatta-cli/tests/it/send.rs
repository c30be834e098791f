//! Follow-ups: sent while an agent runs or after its task has ended, delivered in its own conversation, in order.

use std::fs;

use regatta_testkit::daemon::until;
use regatta_testkit::shown::shown;
use regatta_testkit::world::{Barrier, World, task, text};
use serde_json::Value;

use crate::REGATTA;
use crate::run_agents::with_agents;

/// Claude as a script: keeps its conversation where claude does, records its prompts, does what `NOTES/work.ID` says,
/// and reports it.
const CLAUDE: &str = r#"case "$*" in *--session-id*) id=${*##*--session-id }; how=new ;; *) id=${*##*--resume }; how=resume ;; esac
id=${id%% *}; notes=NOTES
mkdir -p "$CLAUDE_CONFIG_DIR/projects/p"; touch "$CLAUDE_CONFIG_DIR/projects/p/$id.jsonl"
echo "$REGATTA_ATTEMPT $how $id $PWD" >>"$notes/argv.$REGATTA_TASK"; cat >"$notes/stdin.$REGATTA_TASK.$REGATTA_ATTEMPT"
echo "{\"type\":\"system\",\"subtype\":\"init\",\"session_id\":\"$id\",\"model\":\"m\"}"
. "$notes/work.$REGATTA_TASK"
echo '{"type":"result","subtype":"success","is_error":false,"result":"done","usage":{"input_tokens":1,"output_tokens":1}}'"#;

/// Each attempt leaves its own file and passes.
pub(crate) const PASSES: &str = r#"echo "$REGATTA_ATTEMPT" >"$REGATTA_TASK.$REGATTA_ATTEMPT"
regatta done --verdict pass --summary "Attempt $REGATTA_ATTEMPT" >&2
"#;

/// A world whose claude is that script.
pub(crate) struct Scene {
    pub(crate) world: World,
}

impl Scene {
    pub(crate) fn new(config: &str) -> Self {
        let mut world = with_agents(&[("claude", CLAUDE)]);
        let config_dir = world.outside("claude-config");
        world.env("CLAUDE_CONFIG_DIR", config_dir);
        world.config(config);
        Self { world }
    }

    /// A task for claude, and what its attempts do.
    pub(crate) fn add(&self, id: &str, keys: &str, work: &str) {
        fs::write(self.world.outside(&format!("notes/work.{id}")), work).unwrap();
        let plan =
            self.world.plan_with("", &task(id, &format!("agent: claude\n{keys}"), &format!("do {id}")));
        self.world.enqueue(&plan);
    }

    /// The same, held at a barrier in its first attempt.
    pub(crate) fn add_held(&self, id: &str, keys: &str, work: &str) -> Barrier {
        let barrier = self.world.barrier(id);
        let held = format!("[ \"$REGATTA_ATTEMPT\" != 1 ] || {{ {}; }}\n{work}", barrier.script());
        self.add(id, keys, &held);
        barrier.arrived();
        self.world.wait_state(id, "running");
        barrier
    }

    pub(crate) fn send(&self, id: &str, prompt: &str) -> Value {
        let ran = self.world.regatta(["send", "--json", id, prompt]).exited(0);
        serde_json::from_str(&ran.stdout).unwrap()
    }

    /// The prompt of an attempt.
    fn told(&self, id: &str, attempt: u32) -> String {
        fs::read_to_string(self.world.outside(&format!("notes/stdin.{id}.{attempt}"))).unwrap()
    }

    /// Attempt, `new` or `resume`, conversation, directory; of every attempt.
    fn starts(&self, id: &str) -> Vec<[String; 4]> {
        let argv = fs::read_to_string(self.world.outside(&format!("notes/argv.{id}"))).unwrap();
        argv.lines()
            .map(|line| {
                let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
                words.try_into().unwrap()
            })
            .collect()
    }

    /// Every attempt after the first continued the first one's conversation, in the same directory.
    #[track_caller]
    fn assert_one_conversation(&self, id: &str, attempts: usize) {
        let starts = self.starts(id);
        assert_eq!(starts.len(), attempts, "{starts:?}");
        for (n, [attempt, how, session, lane]) in starts.iter().enumerate() {
            assert_eq!(*attempt, (n + 1).to_string(), "{starts:?}");
            assert_eq!(how, if n == 0 { "new" } else { "resume" }, "{starts:?}");
            assert_eq!((session, lane), (&starts[0][2], &starts[0][3]), "{starts:?}");
        }
    }

    /// `state attempt` of each of the task's follow-ups.
    pub(crate) fn prompts(&self, id: &str) -> Vec<String> {
        let db = self.world.database();
        let sql =
            "select p.state || ' ' || coalesce(p.attempt, '-') from prompt p join task t on t.seq = p.task
                   where t.id = ?1 order by p.n";
        let mut query = db.prepare(sql).unwrap();
        let rows = query.query_map([id], |row| row.get(0)).unwrap();
        rows.map(Result::unwrap).collect()
    }
}

#[test]
fn what_is_said_while_an_agent_works_is_told_in_order_in_its_conversation_and_lands_with_its_work() {
    let scene = Scene::new("land: { auto: true }\n");
    let world = &scene.world;
    let daemon = world.daemon();
    let barrier = scene.add_held("a", "", PASSES);
    let first = scene.send("a", "Also write a test.");
    assert_eq!(
        (&first["dispatched"], &first["queued_count"], &first["position"]),
        (&false.into(), &1.into(), &1.into())
    );
    let second = scene.send("a", "/review it");
    assert_eq!(
        (text(&second["task_id"]), &second["position"], text(&second["state"])),
        ("a", &2.into(), "running")
    );
    assert!(world.trees_in_lane("a").len() == 1, "one live process per lane");
    barrier.open();
    world.wait_state("a", "landed");
    scene.assert_one_conversation("a", 3);
    assert!(scene.told("a", 1).starts_with("do a"));
    assert!(scene.told("a", 2).starts_with("Also write a test.\n"), "{}", scene.told("a", 2));
    assert!(scene.told("a", 3).starts_with("/review it\n"), "{}", scene.told("a", 3));
    assert_eq!(scene.prompts("a"), ["told 2", "told 3"]);
    for n in 1..=3 {
        assert_eq!(world.landed(&format!("a.{n}")), Some(format!("{n}\n")));
    }
    assert_eq!(world.events_of("a", "approved"), 1, "it landed once, with everything\n{}", world.log());
    assert_eq!(world.attempt("a", 2)["prompt"], 1);
    assert_eq!(world.attempt("a", 1)["verdict"], "pass", "what the attempts before came to is kept");
    daemon.signal("TERM");
    daemon.wait();
    world.assert_tidy();
}

#[test]
fn an_urgent_prompt_interrupts_the_agent_which_continues_with_it_before_all_others() {
    let scene = Scene::new("land: { auto: true }\n");
    let world = &scene.world;
    let daemon = world.daemon();
    // It never gets past the barrier: only the interruption ends it.
    let _barrier = scene.add_held("a", "", PASSES);
    scene.send("a", "Also write a test.");
    let now = world.regatta(["send", "a", "--now", "Stop: use the other library."]).exited(0);
    insta::assert_snapshot!(now.stdout, @"sent to a: its agent is interrupted and continues with this");
    world.wait_state("a", "landed");
    scene.assert_one_conversation("a", 3);
    assert!(scene.told("a", 2).starts_with("Stop: use the other library.\n"), "{}", scene.told("a", 2));
    assert!(scene.told("a", 3).starts_with("Also write a test.\n"), "{}", scene.told("a", 3));
    assert_eq!(scene.prompts("a"), ["told 3", "told 2"]);
    assert_eq!(world.attempt("a", 1)["charged"], false, "an interruption is nobody's failure");
    assert_eq!(world.landed("a.1"), None);
    // Without a running agent there is nothing to interrupt: it is an ordinary follow-up.
    world.regatta(["send", "a", "--now", "And a last word."]).exited(0);
    world.wait_state("a", "landed");
    assert!(scene.told("a", 4).starts_with("And a last word.\n"), "{}", scene.told("a", 4));
    daemon.signal("TERM");
    daemon.wait();
    world.assert_tidy();
}

#[test]
fn a_retry_with_a_fresh_conversation_keeps_the_lane() {
    let scene = Scene::new("");
    let world = &scene.world;
    let daemon = world.daemon();
    let work = "echo half >half.txt
[ \"$REGATTA_ATTEMPT\" = 1 ] && { regatta stuck \"too long a talk\" >&2; } || { regatta done --verdict pass --summary ok >&2; }
";
    scene.add("a", "", work);
    world.wait_state("a", "blocked");
    world.regatta(["retry", "--fresh", "a"]).exited(0);
    world.wait_state("a", "done");
    let starts = scene.starts("a");
    assert_eq!([starts[0][1].as_str(), starts[1][1].as_str()], ["new", "new"], "{starts:?}");
    assert_ne!(starts[0][2], starts[1][2], "another conversation");
    assert_eq!(starts[0][3], starts[1][3], "the same lane");
    let told = scene.told("a", 2);
    // A new conversation gets the whole task.
    insta::assert_snapshot!(shown(&told), @"
    do a

    ## The attempt before this one

    Attempt 1 at this task (too long a talk) ended, and you start with a new conversation. Its work is still in this directory: look at it with `git status`, `git diff` and `git log` first, keep what is good, and continue from there.

    Attempt 1 did not succeed: too long a talk

    What that attempt left is still in this working directory. Fix it and finish the task.
    ");
    // The attempt after that resumes the new conversation.
    scene.send("a", "One more thing.");
    world.wait_state("a", "done");
    let starts = scene.starts("a");
    assert_eq!((starts[2][1].as_str(), &starts[2][2]), ("resume", &starts[1][2]));
    daemon.signal("TERM");
    daemon.wait();
}

#[test]
fn a_task_that_landed_is_followed_up_on_what_is_there_now() {
    let scene = Scene::new("land: { auto: true }\n");
    let world = &scene.world;
    let daemon = world.daemon();
    scene.add("a", "", PASSES);
    world.wait_state("a", "landed");
    until("its lane is gone", || world.lane_dirs().is_empty().then_some(()));
    let sent = scene.send("a", "And document it.");
    assert_eq!((&sent["dispatched"], &sent["position"]), (&true.into(), &1.into()), "{sent:#}");
    until("it was told", || (scene.prompts("a") == ["told 2"]).then_some(()));
    world.wait_state("a", "landed");
    scene.assert_one_conversation("a", 2);
    assert_eq!((world.commits_of("a.1"), world.commits_of("a.2")), (1, 1), "each landed once");
    assert_eq!(world.events_of("a", "approved"), 2);
    daemon.signal("TERM");
    daemon.wait();
    world.assert_tidy();
}

#[test]
fn what_is_said_while_it_lands_makes_another_commit() {
    let scene = Scene::new("land: { auto: true, test_command: \"sh GATE\" }\n");
    let world = &scene.world;
    let gate = world.barrier("gate");
    // The first candidate is held; the others pass at once.
    let script = format!("test -e ../seen || {{ touch ../seen; {}; }}\n", gate.script());
    let script = script.replace("../seen", &world.outside("seen").display().to_string());
    world.repo().commit_file("GATE", &script, "the gate");
    let daemon = world.daemon();
    scene.add("a", "", PASSES);
    gate.arrived();
    world.wait_state("a", "landing");
    let sent = scene.send("a", "And document it.");
    assert_eq!((&sent["dispatched"], text(&sent["state"])), (&false.into(), "landing"), "{sent:#}");
    gate.open();
    until("it was told", || (scene.prompts("a") == ["told 2"]).then_some(()));
    world.wait_state("a", "landed");
    scene.assert_one_conversation("a", 2);
    assert_eq!(
        (world.commits_of("a.1"), world.commits_of("a.2")),
        (1, 1),
        "each landed once\n{}",
        world.log()
    );
    assert_eq!(world.events_of("a", "following-up"), 1);
    daemon.signal("TERM");
    daemon.wait();
    world.assert_tidy();
}

#[test]
fn what_is_done_stays_done_and_the_follow_up_goes_on_from_it() {
    let scene = Scene::new("");
    let world = &scene.world;
    let daemon = world.daemon();
    scene.add("a", "", PASSES);
    world.wait_state("a", "done");
    until("its lane is gone", || world.lane_dirs().is_empty().then_some(()));
    scene.send("a", "And document it.");
    until("it was told", || (scene.prompts("a") == ["told 2"]).then_some(()));
    world.wait_state("a", "done");
    scene.assert_one_conversation("a", 2);
    let on_branch = |path: &str| {
        world.repo().try_git(world.root(), &["cat-file", "-e", &format!("regatta/a:{path}")]).status.success()
    };
    assert!(on_branch("a.1") && on_branch("a.2"), "the branch has both");
    assert_eq!(world.repo().git(["rev-list", "--count", "main..regatta/a"]).trim(), "2");
    // Only a question: the work is still there, and is still the task's result.
    fs::write(world.outside("notes/work.a"), "regatta done --verdict pass --summary 'Because.' >&2\n")
        .unwrap();
    let head = world.repo().git(["rev-parse", "regatta/a"]);
    scene.send("a", "Why?");
    until("it was told", || (scene.prompts("a") == ["told 2", "told 3"]).then_some(()));
    world.wait_state("a", "done");
    assert_eq!(world.repo().git(["rev-parse", "regatta/a"]), head);
    assert_eq!(world.attempt("a", 3)["verdict"], "pass");
    assert_eq!(world.attempt("a", 3)["head"].as_str(), Some(head.trim()));
    // And it can land.
    world.regatta(["land", "a"]).exited(0);
    world.wait_state("a", "landed");
    assert_eq!((world.landed("a.1").is_some(), world.landed("a.2").is_some()), (true, true));
    daemon.signal("TERM");
    daemon.wait();
}

#[test]
fn a_question_about_what_landed_or_is_about_to_takes_nothing_away() {
    let scene = Scene::new("land: { auto: true }\n");
    let world = &scene.world;
    let daemon = world.daemon();
    let answers = r#"[ "$REGATTA_ATTEMPT" != 1 ] || echo 1 >"$REGATTA_TASK.1"
regatta done --verdict pass --summary "Attempt $REGATTA_ATTEMPT" >&2
"#;
    let barrier = scene.add_held("a", "", answers);
    scene.send("a", "Why that way?");
    barrier.open();
    world.wait_state("a", "landed");
    assert_eq!(scene.prompts("a"), ["told 2"]);
    assert_eq!(world.landed("a.1").as_deref(), Some("1\n"), "attempt 1's work landed after the answer");
    let commit = world.task("a")["landed_commit"].clone();
    scene.send("a", "Are you sure?");
    until("it was told", || (scene.prompts("a") == ["told 2", "told 3"]).then_some(()));
    world.wait_state("a", "landed");
    assert_eq!(world.task("a")["landed_commit"], commit);
    assert_eq!((world.events_of("a", "stands"), world.commits_of("a.1")), (1, 1));
    daemon.signal("TERM");
    daemon.wait();
    world.assert_tidy();
}

#[test]
fn what_was_blocked_or_failed_goes_on_in_its_lane_with_what_went_wrong() {
    let scene = Scene::new("land: { auto: true }\n");
    let world = &scene.world;
    let daemon = world.daemon();
    let stuck = r#"if [ "$REGATTA_ATTEMPT" = 1 ]; then echo half >half; regatta stuck "which port?" >&2; else
test -f half && echo whole >whole; regatta done --verdict pass --summary Done >&2; fi
"#;
    let blocks = r#"if [ "$REGATTA_ATTEMPT" = 1 ]; then regatta done --verdict block --summary "no way in" >&2; else
echo way >way; regatta done --verdict pass --summary Done >&2; fi
"#;
    scene.add("stuck", "", stuck);
    scene.add("bad", "max_attempts: 1", blocks);
    world.wait_state("stuck", "blocked");
    world.wait_state("bad", "failed");
    assert_eq!(world.attempts("bad"), (1, 1));
    scene.send("stuck", "Port 80.");
    scene.send("bad", "Through the window.");
    world.wait_state("stuck", "landed");
    world.wait_state("bad", "landed");
    assert!(scene.told("stuck", 2).starts_with("Port 80.\n"));
    let told = scene.told("bad", 2);
    insta::assert_snapshot!(shown(&told), @"
    Through the window.

    ## The attempt before this one

    Attempt 1 did not succeed: the agent reported block: no way in

    What that attempt left is still in this working directory. Fix it and finish the task.

    (This is a follow-up to your task bad: attempt 2. This directory contains its work or, if that has landed, the target branch as it is now. Finish with `regatta done` as before.)
    ");
    assert_eq!(world.landed("whole").as_deref(), Some("whole\n"), "it worked on in what the first had left");
    assert_eq!(world.attempts("bad"), (2, 0), "a follow-up begins uncharged");
    daemon.signal("TERM");
    daemon.wait();
    world.assert_tidy();
}

#[test]
fn a_follow_up_that_fails_is_charged_and_told_again_with_guidance() {
    let scene = Scene::new("land: { auto: true }\n");
    let world = &scene.world;
    let daemon = world.daemon();
    let work = r#"[ "$REGATTA_ATTEMPT" != 2 ] || { regatta done --verdict block --summary "it rained" >&2; return; }
echo "$REGATTA_ATTEMPT" >"$REGATTA_TASK.$REGATTA_ATTEMPT"; regatta done --verdict pass --summary Done >&2
"#;
    scene.add("a", "max_attempts: 2", work);
    world.wait_state("a", "landed");
    scene.send("a", "Again.");
    until("it was told", || (scene.prompts("a") == ["told 3"]).then_some(()));
    world.wait_state("a", "landed");
    scene.assert_one_conversation("a", 3);
    let told = scene.told("a", 3);
    insta::assert_snapshot!(shown(&told), @"
    Again.

    ## The attempt before this one

    Attempt 2 did not succeed: the agent reported block: it rained

    What that attempt left is still in this working directory. Fix it and finish the task.

    (This is a follow-up to your task a: attempt 3. This directory contains its work or, if that has landed, the target branch as it is now. Finish with `regatta done` as before.)
    ");
    assert!((world.attempt("a", 2)["charged"] == true) && world.attempt("a", 2)["prompt"] == 1);
    assert_eq!(world.landed("a.3").as_deref(), Some("3\n"));
    daemon.signal("TERM");
    daemon.wait();
    world.assert_tidy();
}

#[test]
fn a_landed_task_whose_follow_up_failed_keeps_its_commit_in_the_report() {
    let scene = Scene::new("land: { auto: true }\n");
    let world = &scene.world;
    let daemon = world.daemon();
    let work = r#"[ "$REGATTA_ATTEMPT" = 1 ] || { regatta done --verdict block --summary "no" >&2; return; }
echo 1 >a.1; regatta done --verdict pass --summary Done >&2
"#;
    scene.add("a", "max_attempts: 1", work);
    world.wait_state("a", "landed");
    let landed = world.task("a")["landed_commit"].clone();
    assert!(landed.is_string(), "{landed}");
    scene.send("a", "Now the impossible.");
    world.wait_state("a", "failed");
    assert_eq!(world.task("a")["landed_commit"], landed);
    daemon.signal("TERM");
    daemon.wait();
}

#[test]
fn good_work_is_kept_on_its_branch_when_its_follow_up_fails() {
    let scene = Scene::new("land: { auto: true }\n");
    let world = &scene.world;
    let daemon = world.daemon();
    let work = r#"[ "$REGATTA_ATTEMPT" = 1 ] || { regatta done --verdict block --summary "no" >&2; return; }
echo 1 >a.1; regatta done --verdict pass --summary Done >&2
"#;
    let barrier = scene.add_held("a", "max_attempts: 1", work);
    scene.send("a", "Now the impossible.");
    barrier.open();
    world.wait_state("a", "failed");
    assert_eq!(scene.prompts("a"), ["told 2"]);
    assert_eq!(world.repo().git(["show", "regatta/a:a.1"]).trim(), "1");
    // Another prompt, and all of it lands.
    fs::write(world.outside("notes/work.a"), "regatta done --verdict pass --summary Enough >&2\n").unwrap();
    scene.send("a", "Never mind.");
    world.wait_state("a", "landed");
    assert_eq!(world.landed("a.1").as_deref(), Some("1\n"));
    daemon.signal("TERM");
    daemon.wait();
}

#[test]
fn dependents_keep_what_they_wait_for_while_it_is_followed_up() {
    let scene = Scene::new("");
    let world = &scene.world;
    let daemon = world.daemon();
    scene.add("a", "", PASSES);
    world.wait_state("a", "done");
    let barrier = world.barrier("again");
    fs::write(world.outside("notes/work.a"), format!("{}\n{PASSES}", barrier.script())).unwrap();
    scene.send("a", "More.");
    barrier.arrived();
    // Enqueued while the follow-up runs: it starts from the finished work.
    scene.add("b", "deps: [a]", "test -f a.1 || exit 1\n regatta done --verdict pass --summary Done >&2\n");
    world.wait_state("b", "done");
    assert!(world.stored().contains(&("a".into(), "running".into())));
    barrier.open();
    world.wait_state("a", "done");
    daemon.signal("TERM");
    daemon.wait();
}

#[test]
fn a_daemon_that_is_killed_loses_nothing_of_what_was_said() {
    // Between taking the prompt and starting the agent, and at every step from there to its end.
    for place in ["claimed", "lane-made", "shim-started", "started", "exited", "settled"] {
        let mut scene = Scene::new("land: { auto: true }\n");
        let daemon = scene.world.daemon();
        scene.add("a", "", PASSES);
        scene.world.wait_state("a", "landed");
        daemon.signal("TERM");
        daemon.wait();
        scene.world.regatta(["send", "a", "More."]).exited(0);
        assert_eq!(scene.prompts("a"), ["queued -"]);
        scene.world.env("REGATTA_FAILPOINT", place);
        let died = scene.world.daemon().wait();
        assert_eq!(died.code, 137, "{place}: {died:?}");
        scene.world.env("REGATTA_FAILPOINT", "");
        let daemon = scene.world.daemon();
        until("it was told", || {
            scene.prompts("a").iter().all(|prompt| prompt.starts_with("told")).then_some(())
        });
        scene.world.wait_state("a", "landed");
        let world = &scene.world;
        let starts = scene.starts("a");
        let last = starts.last().unwrap();
        assert_eq!((last[1].as_str(), &last[2]), ("resume", &starts[0][2]), "{place}: {starts:?}");
        let told = scene.told("a", last[0].parse().unwrap());
        assert!(told.starts_with("More.\n"), "{place}: {told}");
        assert!(world.landed(&format!("a.{}", last[0])).is_some(), "{place}\n{}", world.log());
        let wrong = regatta_testkit::invariants::database(world);
        assert!(wrong.is_empty(), "{place}: {wrong:#?}");
        daemon.signal("TERM");
        daemon.wait();
        world.assert_tidy();
    }
}

#[test]
fn who_cannot_be_told_is_refused_with_the_next_step() {
    let scene = Scene::new("");
    let world = &scene.world;
    scene.add("gone", "", PASSES);
    scene.add("child", "deps: [gone]", PASSES);
    world.regatta(["cancel", "gone"]).exited(0);
    insta::assert_snapshot!(world.regatta(["send", "gone", "x"]).shown(), @"
    --- stderr
    error: gone is cancelled, so no agent would read it
    hint: run `regatta retry gone` first, then send it
    --- exit 6
    ");
    insta::assert_snapshot!(world.regatta(["send", "child", "x"]).shown(), @"
    --- stderr
    error: child is skipped, because its dependency gone was cancelled
    hint: run `regatta requeue gone` first, then send it
    --- exit 6
    ");
    world.regatta(["send", "nobody", "x"]).exited(4);
    world.regatta(["send", "gone"]).exited(2);
    insta::assert_snapshot!(world.regatta(["send", "gone", " "]).shown(), @r#"
    --- stderr
    error: the prompt is empty
    hint: say what to do: regatta send ID "…"
    --- exit 2
    "#);
    let long = world.outside("long");
    fs::write(&long, "x".repeat(256 * 1024 + 1)).unwrap();
    let file = long.display().to_string();
    insta::assert_snapshot!(world.regatta(["send", "gone", "--file", &file]).shown(), @"
    --- stderr
    error: DIR/long has more than the 256 KiB that can be sent
    hint: put it in a file that the agent can read, and send its path
    --- exit 2
    ");
    fs::write(&long, b"\xff").unwrap();
    insta::assert_snapshot!(world.regatta(["send", "gone", "--file", &file]).shown(), @"
    --- stderr
    error: DIR/long is not UTF-8 at byte 0
    hint: save it as UTF-8
    --- exit 2
    ");
    insta::assert_snapshot!(world.regatta(["send", "gone", "--file", &world.root().display().to_string()]).shown(), @"
    --- stderr
    error: DIR/repo is a directory
    hint: name a file
    --- exit 2
    ");
    assert!(scene.prompts("gone").is_empty() && scene.prompts("child").is_empty());
}

#[test]
fn what_is_said_before_the_start_goes_with_it_from_a_file_and_with_dashes() {
    let scene = Scene::new("");
    let world = &scene.world;
    scene.add("a", "", PASSES);
    let file = world.outside("said");
    fs::write(&file, "--from $(a file)\nand 'more'\n").unwrap();
    insta::assert_snapshot!(world.regatta(["send", "a", "--file", &file.display().to_string()]).shown(), @"
    sent to a, which is pending: delivered when it starts
    no daemon is running; start one with `regatta daemon start`
    ");
    insta::assert_snapshot!(world.regatta(["send", "a", "-- --help me"]).shown(), @"
    sent to a, which is pending: delivered as number 2 of the waiting messages
    no daemon is running; start one with `regatta daemon start`
    ");
    insta::assert_snapshot!(world.regatta(["status", "a"]).shown(), @"
    ○ a  do a
    state     pending (TIME ago)
    agent     claude
    from      DIR/plan.md:6
    prompt 1  queued, from ada: --from $(a file) and 'more'
    prompt 2  queued, from ada: -- --help me
    next      `regatta daemon` runs it, unless one is already running
    ");
    let daemon = world.daemon();
    until("both were told", || (scene.prompts("a") == ["told 1", "told 2"]).then_some(()));
    world.wait_state("a", "done");
    let told = scene.told("a", 1);
    insta::assert_snapshot!(shown(&told), @"
    do a

    ## Said since then

    --from $(a file)
    and 'more'
    ");
    insta::assert_snapshot!(shown(&scene.told("a", 2)), @"
    -- --help me

    (This is a follow-up to your task a: attempt 2. This directory contains its work or, if that has landed, the target branch as it is now. Finish with `regatta done` as before.)
    ");
    daemon.signal("TERM");
    daemon.wait();
}

#[test]
fn a_command_that_takes_words_gets_the_task_and_the_follow_up_in_one() {
    let world = World::new(REGATTA);
    world.config("agents: { sh: { follow_ups: true } }\n");
    let daemon = world.daemon();
    world.enqueue(&world.plan(&task("a", "", "echo order >order.txt")));
    world.wait_state("a", "done");
    world.regatta(["send", "a", "echo \"$REGATTA_FOLLOW_UP\" >said.txt; test -f order.txt"]).exited(0);
    until("the follow-up is done", || (world.attempts("a").0 == 2).then_some(()));
    world.wait_state("a", "done");
    let said = world.repo().git(["show", "regatta/a:said.txt"]);
    assert!(said.starts_with("echo \"$REGATTA_FOLLOW_UP\""), "{said}");
    daemon.signal("TERM");
    daemon.wait();
}

#[test]
fn a_run_drains_what_is_said_to_it_and_a_task_of_a_run_that_is_over_goes_to_the_daemon() {
    let scene = Scene::new("");
    let world = &scene.world;
    let barrier = world.barrier("a");
    let held = format!("[ \"$REGATTA_ATTEMPT\" != 1 ] || {{ {}; }}\n{PASSES}", barrier.script());
    fs::write(world.outside("notes/work.a"), held).unwrap();
    let run = world.start(&world.plan_with("", &task("a", "agent: claude", "do a")), &[]);
    barrier.arrived();
    world.wait_state("a", "running");
    assert_eq!(scene.send("a", "More.")["hint"], Value::Null, "the run will tell it");
    barrier.open();
    run.wait().exited(0);
    world.assert_states(["a landed"]);
    assert_eq!((scene.prompts("a"), world.landed("a.2").is_some()), (vec!["told 2".to_owned()], true));
    let sent = scene.send("a", "And more.");
    assert_eq!(sent["dispatched"], false);
    insta::assert_snapshot!(text(&sent["hint"]), @"no daemon is running; start one with `regatta daemon start`");
    let daemon = world.daemon();
    until("it was told", || (scene.prompts("a") == ["told 2", "told 3"]).then_some(()));
    world.wait_state("a", "landed");
    daemon.signal("TERM");
    daemon.wait();
}

#[test]
fn the_transcript_has_every_attempt_below_what_it_was_told() {
    let scene = Scene::new("");
    let world = &scene.world;
    let daemon = world.daemon();
    scene.add("a", "", &format!("echo '{{\"type\":\"assistant\",\"message\":{{\"id\":\"m\",\"role\":\"assistant\",\"content\":[{{\"type\":\"text\",\"text\":\"Here is '$REGATTA_ATTEMPT'\"}}]}}}}'\n{PASSES}"));
    world.wait_state("a", "done");
    scene.send("a", "Say\nmore.");
    until("it was told", || (scene.prompts("a") == ["told 2"]).then_some(()));
    world.wait_state("a", "done");
    let logs = world.regatta(["logs", "a"]).exited(0).stdout;
    let at = |part: &str| logs.find(part).unwrap_or_else(|| panic!("{part:?} in\n{logs}"));
    let order = [
        at("── attempt 1 · claude · the task ──"),
        at("> do a"),
        at("Here is 1"),
        at("── attempt 2 · claude · follow-up 1 from"),
        at("> Say\n> more."),
        at("Here is 2"),
    ];
    assert!(order.is_sorted(), "{logs}");
    insta::assert_snapshot!(world.regatta(["logs", "a", "--attempt", "1"]).shown(), @"
    ▸ started, m, session UUID

    Here is 1

    done

    ✓ finished · 1 token in, 1 out
    ── standard error ──
    ┆ a attempt 1: verdict pass recorded
    --- stderr
    ■ attempt 1: exit 0 · TIME · verdict pass: Attempt 1
    ");
    let json = world.regatta(["logs", "a", "--json"]).exited(0).stdout;
    let objects: Vec<Value> = json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let second = objects.iter().filter(|object| object["type"] == "attempt").nth(1).unwrap();
    assert_eq!(
        (&second["told"][0]["kind"], &second["told"][0]["text"]),
        (&"follow-up".into(), &"Say\nmore.".into())
    );
    daemon.signal("TERM");
    daemon.wait();
}

#[test]
fn waiting_goes_on_through_follow_ups() {
    let scene = Scene::new("land: { auto: true }\n");
    let world = &scene.world;
    let daemon = world.daemon();
    let barrier = scene.add_held("a", "", PASSES);
    let mut wait = world.begin(["wait", "a"]);
    let pid = world.agent_pid("a", 1);
    assert_eq!(wait.next_line(), Some(format!("WATCHING task=a pid={pid} granularity=exit")));
    scene.send("a", "More.");
    barrier.open();
    assert_eq!(wait.next_line().as_deref(), Some("EXITED task=a state=landed"));
    assert_eq!(wait.wait().code, 0);
    assert_eq!(scene.prompts("a"), ["told 2"], "it was waited for to the end of the follow-up");
    daemon.signal("TERM");
    daemon.wait();
}
