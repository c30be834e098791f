//! Agents that may need a person: reported, marked, cleared again, and never stopped.

use regatta_testkit::daemon::until;
use regatta_testkit::repo::script;
use regatta_testkit::world::{Barrier, World, task, text};
use serde_json::Value;

use crate::REGATTA;

const INIT: &str = r#"cat >/dev/null
say() { printf '%s\n' "$1"; }
call() { say '{"type":"assistant","message":{"id":"m'$1'","content":[{"type":"tool_use","id":"t'$1'","name":"'"$2"'","input":{"command":"'"$3"'"}}]}}'; }
answer() { say '{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t'$1'","is_error":'"$2"',"content":"'"$3"'"}]}}'; }
finish() { echo "$REGATTA_TASK" >done.txt; regatta done --verdict pass --summary Done >&2; say '{"type":"result","subtype":"success","is_error":false,"result":"done"}'; }
init() { say '{"type":"system","subtype":"init","session_id":"s","model":"m"}'; }
"#;

/// A world whose claude is this script.
fn with_claude(watch: &str, body: &str) -> World {
    let mut world = World::new(REGATTA);
    script(&world.outside("bin/claude"), &format!("{INIT}{body}"));
    let path = format!("{}:{}", world.outside("bin").display(), std::env::var("PATH").unwrap_or_default());
    let config_dir = world.outside("claude-config");
    world.env("PATH", path).env("CLAUDE_CONFIG_DIR", config_dir);
    world.config(&format!(
        "version: 1\nwatch: {{ {watch} }}\nnotify:\n  - {{ on: [needs-input], log: true }}\n"
    ));
    world
}

/// The suspicions about the only task, from `list --json`.
fn suspicions(world: &World) -> Vec<(String, String)> {
    let listed: Value = serde_json::from_str(&world.regatta(["list", "--json"]).exited(0).stdout).unwrap();
    let status =
        serde_json::from_str::<Value>(&world.regatta(["status", "a", "--json"]).exited(0).stdout).unwrap();
    assert_eq!(listed[0]["suspicions"], status["suspicions"]);
    let found = listed[0]["suspicions"].as_array().unwrap().iter();
    found.map(|one| (text(&one["sign"]).to_owned(), text(&one["why"]).to_owned())).collect()
}

/// Runs it until `sign` is suspected, checks, lets it continue, and checks that it is cleared and the work lands.
/// Returns what a person sees while it is suspected, and of the whole run.
fn watched(sign: &str, watch: &str, before: &str, after: &str) -> String {
    let world = with_claude(watch, "");
    let barrier: Barrier = world.barrier("on");
    let body = format!("{INIT}{before}\n{}\n{after}\nfinish", barrier.script());
    script(&world.outside("bin/claude"), &body);
    let mut events = world.begin(["events", "-f", "--json"]);
    let run = world.start(&world.plan_with("", &task("a", "agent: claude\nmax_attempts: 1", "do it")), &[]);
    let suspected = events.wait_line(&format!("\"suspected\",\"sign\":\"{sign}\""));
    let suspected: Value = serde_json::from_str(&suspected).unwrap();
    assert_eq!((text(&suspected["sign"]), &suspected["attempt"]), (sign, &1.into()), "{suspected:#}");
    let [(found, reason)] = &suspicions(&world)[..] else { panic!("{:?}", suspicions(&world)) };
    assert!(found == sign && *reason == suspected["why"], "{found}: {reason}, and {suspected:#}");
    let mut seen = [&["list"][..], &["status", "a"]].map(|words| world.regatta(words).shown()).concat();
    barrier.arrived();
    barrier.open();
    events.wait_line(&format!("\"went-on\",\"sign\":\"{sign}\""));
    seen += &run.wait().shown();
    world.assert_states(["a landed"]);
    events.kill();
    let all = world.regatta(["events", "--json"]).exited(0).stdout;
    assert_eq!(all.matches(&format!("\"suspected\",\"sign\":\"{sign}\"")).count(), 1, "{all}");
    assert!(suspicions(&world).is_empty());
    seen
}

#[test]
fn a_silent_agent_is_told_of_until_it_speaks() {
    insta::assert_snapshot!(watched("silence", "silence: 2s", "", "init"), @"
      TASK  STATE    TRY  AGENT  TIME  TITLE  NOW
    ● a     running  1    claude  TIME  do it  ⚠ silence: no output for TIME while no tool is running
    ● a  do it
    state     running (TIME ago)
    agent     claude
    from      DIR/plan.md:6
    lane      DIR/repo.lanes/a
    attempt 1 claude · running for TIME · sandbox LEVEL
    suspect   ⚠ silence: no output for TIME while no tool is running (TIME ago; it keeps running)
    next      `regatta logs -f a` follows it; `regatta cancel a` ends it
    test → main: 1 task
        TIME a  agent started, process PID
        TIME a  may need attention (silence): no output for TIME while no tool is running
        TIME a  active again (silence)
        TIME a  landed on main as HASH

    ✓ a landed HASH

    1 landed in TIME on main
    --- stderr
    repo: a needs input: silence: no output for TIME while no tool is running (do it)
    ");
}

#[test]
fn the_same_call_with_the_same_answer_is_told_of_until_another_comes() {
    let before = r#"init
for n in 1 2 3; do call $n Bash 'cargo test'; answer $n true "2 tests failed in 0.${n}s"; done"#;
    let after = "call 4 Bash 'cargo build'; answer 4 false 'ok'";
    insta::assert_snapshot!(watched("same-command", "silence: none", before, after), @"
      TASK  STATE    TRY  AGENT  TIME  TITLE  NOW
    ● a     running  1    claude  TIME  do it  ⚠ same-command: `Bash cargo test` was called 3 times in a row, with the same answer each …
    ● a  do it
    state     running (TIME ago)
    agent     claude
    from      DIR/plan.md:6
    lane      DIR/repo.lanes/a
    attempt 1 claude · running for TIME · sandbox LEVEL
    suspect   ⚠ same-command: `Bash cargo test` was called 3 times in a row, with the same answer each time (TIME ago; it keeps running)
    next      `regatta logs -f a` follows it; `regatta cancel a` ends it
    test → main: 1 task
        TIME a  agent started, process PID
        TIME a  may need attention (same-command): `Bash cargo test` was called 3 times in a row, with the same answer each time
        TIME a  active again (same-command)
        TIME a  landed on main as HASH

    ✓ a landed HASH

    1 landed in TIME on main
    --- stderr
    repo: a needs input: same-command: `Bash cargo test` was called 3 times in a row, with the same answer each time (do it)
    ");
}

#[test]
fn a_tool_that_is_open_for_long_is_told_of_until_it_ends() {
    let (before, after) = ("init; call 1 Bash 'make world'", "answer 1 false 'made'");
    insta::assert_snapshot!(watched("long-tool", "tool: 200ms, silence: none", before, after), @"
      TASK  STATE    TRY  AGENT  TIME  TITLE  NOW
    ● a     running  1    claude  TIME  do it  ⚠ long-tool: `Bash make world` has been running for TIME; Bash make world
    ● a  do it
    state     running (TIME ago)
    agent     claude
    from      DIR/plan.md:6
    lane      DIR/repo.lanes/a
    attempt 1 claude · running for TIME · sandbox LEVEL
    suspect   ⚠ long-tool: `Bash make world` has been running for TIME (TIME ago; it keeps running)
    next      `regatta logs -f a` follows it; `regatta cancel a` ends it
    test → main: 1 task
        TIME a  agent started, process PID
        TIME a  may need attention (long-tool): `Bash make world` has been running for TIME
        TIME a  active again (long-tool)
        TIME a  landed on main as HASH

    ✓ a landed HASH

    1 landed in TIME on main
    --- stderr
    repo: a needs input: long-tool: `Bash make world` has been running for TIME (do it)
    ");
}

#[test]
fn refused_tools_are_told_of_until_one_is_allowed() {
    let before = r#"init
for n in 1 2 3; do call $n Bash "npm install $n"; answer $n true 'This command requires approval'; done"#;
    let after = "call 4 Bash 'ls'; answer 4 false 'ok'";
    insta::assert_snapshot!(watched("denials", "silence: none", before, after), @"
      TASK  STATE    TRY  AGENT  TIME  TITLE  NOW
    ● a     running  1    claude  TIME  do it  ⚠ denials: its permission rules refused 3 calls (Bash); Bash npm install 3
    ● a  do it
    state     running (TIME ago)
    agent     claude
    from      DIR/plan.md:6
    lane      DIR/repo.lanes/a
    attempt 1 claude · running for TIME · sandbox LEVEL
    suspect   ⚠ denials: its permission rules refused 3 calls (Bash) (TIME ago; it keeps running)
    next      `regatta logs -f a` follows it; `regatta cancel a` ends it
    test → main: 1 task
        TIME a  agent started, process PID
        TIME a  may need attention (denials): its permission rules refused 3 calls (Bash)
        TIME a  active again (denials)
        TIME a  landed on main as HASH

    ✓ a landed HASH

    1 landed in TIME on main
    --- stderr
    repo: a needs input: denials: its permission rules refused 3 calls (Bash) (do it)
    ");
}

#[test]
fn many_turns_that_change_nothing_are_told_of_until_a_file_changes() {
    let before = r#"init
for n in 1 2 3 4 5 6; do call $n Bash "grep $n"; answer $n false "found $n"; done"#;
    let after = r#"say '{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t7","name":"Write","input":{"file_path":"x","content":"y"}}]}}'
answer 7 false 'written'"#;
    let rules = "turns_without_change: 5, silence: none";
    insta::assert_snapshot!(watched("no-change", rules, before, after), @"
      TASK  STATE    TRY  AGENT  TIME  TITLE  NOW
    ● a     running  1    claude  TIME  do it  ⚠ no-change: 5 turns in a row changed no file; Bash grep 6
    ● a  do it
    state     running (TIME ago)
    agent     claude
    from      DIR/plan.md:6
    lane      DIR/repo.lanes/a
    attempt 1 claude · running for TIME · sandbox LEVEL
    suspect   ⚠ no-change: 5 turns in a row changed no file (TIME ago; it keeps running)
    next      `regatta logs -f a` follows it; `regatta cancel a` ends it
    test → main: 1 task
        TIME a  agent started, process PID
        TIME a  may need attention (no-change): 5 turns in a row changed no file
        TIME a  active again (no-change)
        TIME a  landed on main as HASH

    ✓ a landed HASH

    1 landed in TIME on main
    --- stderr
    repo: a needs input: no-change: 5 turns in a row changed no file (do it)
    ");
}

#[test]
fn a_question_that_stands_unanswered_is_told_of_until_something_else_is_heard() {
    let (before, after) = ("init; printf 'Do you trust the files in this folder? ' >&2", "echo yes >&2");
    insta::assert_snapshot!(watched("prompt", "silence: 2s", before, after), @"
      TASK  STATE    TRY  AGENT  TIME  TITLE  NOW
    ● a     running  1    claude  TIME  do it  ⚠ prompt: it asks whether to trust this directory: `Do you trust the files in this folder…
    ● a  do it
    state     running (TIME ago)
    agent     claude
    from      DIR/plan.md:6
    lane      DIR/repo.lanes/a
    attempt 1 claude · running for TIME · sandbox LEVEL
    suspect   ⚠ prompt: it asks whether to trust this directory: `Do you trust the files in this folder?` (TIME ago; it keeps running)
    next      `regatta logs -f a` follows it; `regatta cancel a` ends it
    test → main: 1 task
        TIME a  agent started, process PID
        TIME a  may need attention (prompt): it asks whether to trust this directory: `Do you trust the files in this folder?`
        TIME a  active again (prompt)
        TIME a  landed on main as HASH

    ✓ a landed HASH

    1 landed in TIME on main
    --- stderr
    repo: a needs input: prompt: it asks whether to trust this directory: `Do you trust the files in this folder?` (do it)
    ");
}

#[test]
fn turns_that_change_files_by_commands_are_not_suspected() {
    let body = r#"init
for n in 1 2 3; do echo $n >>by-hand.txt; call $n Bash "sed $n"; answer $n false "done $n"; done
finish"#;
    let world = with_claude("turns_without_change: 2, silence: none", body);
    world.run(&world.plan_with("", &task("a", "agent: claude\nmax_attempts: 1", "do it")), &[]).exited(0);
    let all = world.regatta(["events", "--json"]).exited(0).stdout;
    assert!(!all.contains("\"suspected\""), "{all}");
}

#[test]
fn nobody_is_watched_where_that_is_switched_off() {
    let body = r#"init
for n in 1 2 3 4 5 6 7 8; do call $n Bash make; answer $n true 'This command requires approval'; done
finish"#;
    let world = with_claude("enabled: false, silence: 1ms, turns_without_change: 1", body);
    world.run(&world.plan_with("", &task("a", "agent: claude\nmax_attempts: 1", "do it")), &[]).exited(0);
    let all = world.regatta(["events", "--json"]).exited(0).stdout;
    assert!(!all.contains("\"suspected\""), "{all}");
}

#[test]
fn a_suspicion_outlives_the_daemon_that_had_it_and_the_next_one_takes_it_back() {
    let world = with_claude("silence: 2s", "");
    let barrier = world.barrier("on");
    script(&world.outside("bin/claude"), &format!("{INIT}{}\ninit\nfinish", barrier.script()));
    let daemon = world.daemon();
    world.enqueue(&world.plan_with("", &task("a", "agent: claude\nmax_attempts: 1", "do it")));
    until("it is suspected", || (world.events_of("a", "suspected") == 1).then_some(()));
    daemon.kill();
    let next = world.daemon();
    until("it is adopted", || (world.events_of("a", "adopted") == 1).then_some(()));
    assert_eq!(suspicions(&world).len(), 1);
    barrier.arrived();
    barrier.open();
    until("it goes on", || (world.events_of("a", "went-on") == 1).then_some(()));
    world.wait_state("a", "done");
    assert_eq!(world.events_of("a", "suspected"), 1);
    next.signal("TERM");
    next.wait().exited(0);
}
