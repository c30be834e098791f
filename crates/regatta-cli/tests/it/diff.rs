//! `regatta diff`.

use std::io::Write;

use regatta_testkit::world::World;
use serde_json::Value;

use crate::REGATTA;

/// Two tasks that change the same line; `left` lands, `right` is blocked with its lane kept.
const CONFLICT: &str = r#"---
regatta: 1
defaults: { agent: sim, max_attempts: 1 }
tasks:
  - id: left
    prompt: |
      run sh -c 'until [ -e ../../ready ]; do sleep 0.02; done'
      write greeting.txt soup\n
      report pass Greet with soup
  - id: right
    prompt: |
      run touch ../../ready
      run sh -c 'until git -C ../../repo cat-file -e main:greeting.txt 2>/dev/null; do sleep 0.02; done'
      write greeting.txt stew\n
      report pass Greet with stew
---
"#;

#[test]
fn a_blocked_task_shows_committed_uncommitted_and_untracked_work() {
    let world = World::new(REGATTA);
    world.run_plan(CONFLICT).exited(1);
    let lane = world.outside("repo.lanes/right");
    // The run may have looked for conflicts once more, or not.
    let status = world.regatta(["status", "right"]).exited(0).shown();
    let status: Vec<&str> = status.lines().filter(|line| !line.starts_with("radar ")).collect();
    insta::assert_snapshot!(status.join("\n"), @"
    ⚠ right  run touch ../../ready
    state     blocked: conflict: it conflicts with main in greeting.txt; its work is on regatta/right (TIME ago)
    agent     sim
    from      DIR/plan.md:10
    lane      DIR/repo.lanes/right
    branch    regatta/right
    attempt 1 sim · sim · TIME · sandbox LEVEL · exit 0 · verdict pass · $0.0000
              Greet with stew
              - exit-code says pass: Greet with stew
              - 1 file changed, tree HASH
              - commit HASH
    next      `regatta diff right` and `git log regatta/right` show its work; merge regatta/right by hand, or `regatta run --resume DIR/plan.md` redoes it on top of what has landed since
    ");
    insta::assert_snapshot!(world.regatta(["diff", "right"]).shown(), @"
    diff --git a/greeting.txt b/greeting.txt
    new file mode 100644
    index HASH..HASH
    --- /dev/null
    +++ b/greeting.txt
    @@ -0,0 +1 @@
    +stew
    ");
    std::fs::write(lane.join("greeting.txt"), "goulash\n").unwrap();
    std::fs::write(lane.join("new file.txt"), "untracked\n").unwrap();
    std::fs::remove_file(lane.join("README.md")).unwrap();
    let before = world.repo().git_in(&lane, ["status", "--porcelain"]);
    let names = world.regatta(["diff", "right", "--name-only"]).exited(0).stdout;
    assert_eq!(names, "README.md\ngreeting.txt\nnew file.txt\n");
    let patch = world.regatta(["diff", "right"]).exited(0);
    insta::assert_snapshot!(patch.shown(), @"
    diff --git a/README.md b/README.md
    deleted file mode 100644
    index HASH..HASH
    --- a/README.md
    +++ /dev/null
    @@ -1 +0,0 @@
    -hello
    diff --git a/greeting.txt b/greeting.txt
    new file mode 100644
    index HASH..HASH
    --- /dev/null
    +++ b/greeting.txt
    @@ -0,0 +1 @@
    +goulash
    diff --git a/new file.txt b/new file.txt
    new file mode 100644
    index HASH..HASH
    --- /dev/null
    +++ b/new file.txt
    @@ -0,0 +1 @@
    +untracked
    ");
    insta::assert_snapshot!(world.regatta(["diff", "right", "--stat"]).shown(), @"
    README.md    | 1 -
    greeting.txt | 1 +
    new file.txt | 1 +
    3 files changed, 2 insertions(+), 1 deletion(-)
    ");
    assert_eq!(world.repo().git_in(&lane, ["status", "--porcelain"]), before, "a look changes nothing");
    let json = world.regatta(["diff", "right", "--json"]).exited(0).json();
    assert_eq!(json["files"].as_array().unwrap().len(), 3);
    assert_eq!(json["patch"], patch.stdout);
    assert_eq!(json["lane"], lane.to_str().unwrap());
    // The output can be applied elsewhere.
    insta::assert_snapshot!(world.regatta(["diff", "right", "--against", "main"]).shown(), @"
    diff --git a/README.md b/README.md
    deleted file mode 100644
    index HASH..HASH
    --- a/README.md
    +++ /dev/null
    @@ -1 +0,0 @@
    -hello
    diff --git a/greeting.txt b/greeting.txt
    new file mode 100644
    index HASH..HASH
    --- /dev/null
    +++ b/greeting.txt
    @@ -0,0 +1 @@
    +goulash
    diff --git a/new file.txt b/new file.txt
    new file mode 100644
    index HASH..HASH
    --- /dev/null
    +++ b/new file.txt
    @@ -0,0 +1 @@
    +untracked
    ");
}

#[test]
fn a_landed_task_shows_what_it_committed_after_its_lane_is_gone() {
    let world = World::after_plan(REGATTA);
    assert!(!world.outside("repo.lanes/good").exists());
    let json = world.regatta(["diff", "good", "--json"]).exited(0).json();
    assert_eq!(json["files"], serde_json::json!(["good.txt"]));
    assert_eq!(json["lane"], Value::Null);
    assert_eq!(world.regatta(["diff", "good", "--name-only"]).exited(0).stdout, "good.txt\n");
    insta::assert_snapshot!(world.regatta(["diff", "after", "--json"]).shown(), @r#"
    --- stderr
    {"code":4,"error":"after has not been started, so there is nothing to compare","hint":"`regatta status after` shows what happened to it","next":[{"text":"`regatta status after` shows what happened to it"}]}
    --- exit 4
    "#);
}

#[test]
fn a_running_agents_work_can_be_looked_at() {
    let world = World::new(REGATTA);
    let fifo = world.fifo("go");
    let script = format!("echo half > half.txt; read go < {}", fifo.display());
    let path = world.plan_file(&format!(
        "---\nregatta: 1\ntasks:\n  - id: busy\n    agent: sh\n    prompt: |\n      echo begun\n      {script}\n---\n"
    ));
    let mut run = world.begin(["run", "--no-dashboard", path.to_str().unwrap()]);
    run.until(|line| line.contains("agent started"));
    // Opening waits until the agent has reached its `read`, so the file exists; it continues when we say so.
    let mut writer = std::fs::OpenOptions::new().write(true).open(&fifo).unwrap();
    assert_eq!(world.regatta(["diff", "busy", "--name-only"]).exited(0).stdout, "half.txt\n");
    writer.write_all(b"go\n").unwrap();
    drop(writer);
    assert_eq!(run.rest().1, 0);
}

#[test]
fn nothing_that_was_planted_is_run_and_a_ref_is_data() {
    let world = World::new(REGATTA);
    world.run_plan(CONFLICT).exited(1);
    let lane = world.outside("repo.lanes/right");
    let trap = world.outside("sprung");
    let command = format!("touch {}; cat", trap.display());
    for (key, value) in [
        ("diff.external", command.as_str()),
        ("diff.evil.textconv", &command),
        ("diff.evil.command", &command),
        ("core.fsmonitor", &command),
        ("core.pager", &command),
        ("filter.evil.clean", &command),
    ] {
        world.repo().git_in(&lane, ["config", key, value]);
    }
    std::fs::write(lane.join(".gitattributes"), "* diff=evil filter=evil\n").unwrap();
    std::fs::write(lane.join("greeting.txt"), "goulash\n").unwrap();
    insta::assert_snapshot!(world.regatta(["diff", "right"]).shown(), @"
    diff --git a/.gitattributes b/.gitattributes
    new file mode 100644
    index HASH..HASH
    --- /dev/null
    +++ b/.gitattributes
    @@ -0,0 +1 @@
    +* diff=evil filter=evil
    diff --git a/greeting.txt b/greeting.txt
    new file mode 100644
    index HASH..HASH
    --- /dev/null
    +++ b/greeting.txt
    @@ -0,0 +1 @@
    +goulash
    ");
    let output = format!("--output={}", trap.display());
    for bad in [output.as_str(), "--help", "nothing", "", "a b", "main..right", ":/x", "@{u}"] {
        let against = format!("--against={bad}");
        world.regatta(["diff", "right", &against]).exited(4);
    }
    assert!(!trap.exists());
    world.regatta(["diff", "right", "--stat", "--name-only"]).exited(2);
}

#[test]
fn what_others_landed_since_is_no_change_of_this_task() {
    let world = World::new(REGATTA);
    world.run_plan(CONFLICT).exited(1);
    world.repo().commit_file("elsewhere.txt", "by others\n", "others");
    let kept = world.regatta(["diff", "right", "--against", "main", "--name-only"]).exited(0).stdout;
    assert_eq!(kept, "greeting.txt\n");
    assert_eq!(kept, world.regatta(["diff", "right", "--name-only"]).exited(0).stdout);
    insta::assert_snapshot!(world.regatta(["diff", "left", "--against", "main", "--name-only"]).shown(), @"greeting.txt");
}
