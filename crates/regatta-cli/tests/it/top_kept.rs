//! What `regatta top` shows at once, however long ago it happened.

use regatta_testkit::repo::script;
use regatta_testkit::world::{Barrier, World, task};
use serde_json::Value;

use crate::REGATTA;

/// With this many later events, an event is old.
const MANY: usize = 1200;

#[test]
fn a_suspicion_is_known_however_long_ago_it_came_up() {
    let mut world = World::new(REGATTA);
    let barrier: Barrier = world.barrier("on");
    script(
        &world.outside("bin/claude"),
        &format!("cat >/dev/null\n[ \"$REGATTA_ATTEMPT\" != 1 ] || {{ {}; }}\n", barrier.script()),
    );
    let path = format!("{}:{}", world.outside("bin").display(), std::env::var("PATH").unwrap_or_default());
    let config_dir = world.outside("claude-config");
    world.env("PATH", path).env("CLAUDE_CONFIG_DIR", config_dir);
    world.config("version: 1\nwatch: { silence: 200ms }\n");
    let mut events = world.begin(["events", "-f", "--json"]);
    let run = world.start(&world.plan_with("", &task("a", "agent: claude\nmax_attempts: 1", "do it")), &[]);
    events.wait_line("\"suspected\",\"sign\":\"silence\"");
    events.kill();
    let many: String =
        (0..MANY).map(|n| format!("  - {{ id: t{n}, agent: sh, prompt: 'true' }}\n")).collect();
    let plan = world.outside("many.md");
    std::fs::write(&plan, format!("---\nregatta: 1\ntasks:\n{many}---\n")).unwrap();
    world.regatta(["enqueue", plan.to_str().unwrap()]).exited(0);
    insta::assert_snapshot!(world.regatta(["top", "--once", "--size", "120x30"]).shown(), @"
    repo → main  ● 1 running  ○ 1200 pending
    [1 lanes] 2 board  3 train  4 crew  5 events  6 cost
    ▸● a    claude    running  TIME  ⚠ silence: no output for TIME while no tool is running
     ○ t0   sh        pending                      true
     ○ t1   sh        pending                      true
     ○ t2   sh        pending                      true
     ○ t3   sh        pending                      true
     ○ t4   sh        pending                      true
     ○ t5   sh        pending                      true
     ○ t6   sh        pending                      true
     ○ t7   sh        pending                      true
     ○ t8   sh        pending                      true
     ○ t9   sh        pending                      true
     ○ t10  sh        pending                      true
     ○ t11  sh        pending                      true
    ── a: do it · attempt 1 by claude ──────────────────────────────────────────────────────────────────────────────────────













    Enter detail  l logs  d diff  / filter  s send  m msg  C cancel  ? help  q quit
    ");
    let document: Value =
        serde_json::from_str(&world.regatta(["top", "--once", "--json"]).exited(0).stdout).unwrap();
    let found = document["tasks"].as_array().unwrap().iter().find(|task| task["id"] == "a").unwrap();
    assert!(found["suspicions"][0].as_str().unwrap().starts_with("silence: "), "{found:#}");
    barrier.arrived();
    barrier.open();
    run.wait();
}
