//! `regatta cancel`.

use regatta_testkit::daemon::is_alive;
use regatta_testkit::world::{Barrier, World, task};
use serde_json::Value;

use crate::REGATTA;
use crate::doctor::told;

/// Starts what an agent might start and lose sight of, in a lane or not; each writes its pid to a file of its name
/// below `pids`, and has the world in its arguments. Returns when all have done so.
fn brood(world: &World, pids: &str) -> String {
    let (dir, forever) = (world.outside(pids), world.outside("forever"));
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(&forever, "").unwrap();
    let one = |name: &str, before: &str| {
        let file = dir.join(name);
        let body = format!(
            "{before}echo $$ >{0}.new; mv {0}.new {0}; exec tail -f {1}",
            file.display(),
            forever.display()
        );
        (file, body)
    };
    let deaf = "trap \"\" INT TERM HUP QUIT; ";
    let [plain, session, forked, cleared] =
        [one("plain", deaf), one("session", deaf), one("forked", deaf), one("cleared", deaf)];
    let waits: String = [&plain, &session, &forked, &cleared]
        .map(|(file, _)| format!("until [ -e {} ]; do sleep 0.02; done\n", file.display()))
        .concat();
    // The shell in between ends at once: only the process tree shows whose they are, if anything does.
    format!(
        "sh -c '{}' >/dev/null 2>&1 &\n\
         setsid sh -c '{}' >/dev/null 2>&1 &\n\
         (setsid sh -c '(cd / && exec sh -c \"$0\" >/dev/null 2>&1) & exit' '{}' &)\n\
         (cd / && setsid env -i PATH=\"$PATH\" sh -c '{}' </dev/null >/dev/null 2>&1 &)\n\
         {waits}",
        plain.1, session.1, forked.1, cleared.1
    )
}

/// The pids that a brood has written, by name.
fn said(world: &World, pids: &str) -> Vec<(String, u32)> {
    let mut said: Vec<(String, u32)> = std::fs::read_dir(world.outside(pids))
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let pid = std::fs::read_to_string(&path).unwrap().trim().parse().unwrap();
            (path.file_name().unwrap().to_str().unwrap().to_owned(), pid)
        })
        .collect();
    said.sort();
    said
}

fn alive(brood: &[(String, u32)]) -> Vec<&str> {
    brood.iter().filter(|(_, pid)| is_alive(*pid)).map(|(name, _)| name.as_str()).collect()
}

#[test]
fn an_agent_and_all_that_it_started_are_ended_before_the_state_says_cancelled_and_nobody_else_is() {
    // In a sandbox all of them end with its first process, and the ids that they write are not those outside.
    let mut world = World::without_sandbox(REGATTA);
    world.env("USER", "ada");
    let barriers = [world.barrier("hangs"), world.barrier("stays")];
    let plan: String = ["hangs", "stays"]
        .iter()
        .zip(&barriers)
        .map(|(id, barrier)| {
            let script = format!("echo work >{id}.txt\n{}{}", brood(&world, id), barrier.script());
            task(id, "", &script)
        })
        .collect();
    let run = world.start(&world.plan(&plan), &["--no-dashboard"]);
    barriers.iter().for_each(Barrier::arrived);
    let mut bystander = std::process::Command::new("tail")
        .arg("-f")
        .arg(world.outside("forever"))
        .current_dir(world.root())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let all = ["cleared", "forked", "plain", "session"];
    let (ended, kept) = (said(&world, "hangs"), said(&world, "stays"));
    assert_eq!((alive(&ended), alive(&kept)), (all.to_vec(), all.to_vec()));
    let agents = ["hangs", "stays"].map(|id| world.agent_pid(id, 1));
    assert_eq!(agents.map(is_alive), [true, true]);

    let cancelled = world.regatta(["cancel", "hangs", "--json"]).exited(0).stdout;
    // Checked now: nothing is waited for after the answer.
    let (left, others, agents) = (alive(&ended), alive(&kept), agents.map(is_alive));
    assert_eq!(left, [""; 0], "what the agent started is gone");
    assert_eq!((others, agents), (all.to_vec(), [false, true]), "others go on");
    assert!(bystander.try_wait().unwrap().is_none(), "a process of somebody else goes on");
    let cancelled: Value = serde_json::from_str(&cancelled).unwrap();
    let cancelled = &cancelled["tasks"][0];
    assert_eq!((&cancelled["state"], &cancelled["reason"]), (&"cancelled".into(), &"by ada".into()));

    barriers[1].open();
    run.wait().exited(1);
    assert_eq!(alive(&kept), [""; 0], "nor does anything outlive an attempt that ends by itself");
    assert!(bystander.try_wait().unwrap().is_none());
    bystander.kill().unwrap();
    bystander.wait().unwrap();
    world.assert_states(["hangs cancelled", "stays landed"]);
    world.assert_no_process();
    insta::assert_snapshot!(world.regatta(["cancel", "hangs", "--json"]).shown(), @r#"
    --- stderr
    {"code":6,"error":"hangs is cancelled, so it cannot be cancelled","hint":"it is not running; `regatta status hangs` shows how it ended","next":[{"text":"it is not running; `regatta status hangs` shows how it ended"}]}
    --- exit 6
    "#);
}

#[test]
fn what_is_settled_is_refused_with_why() {
    let world = World::after_plan(REGATTA);
    insta::assert_snapshot!(world.regatta(["cancel", "good"]).shown(), @"
    --- stderr
    error: good is landed, so it cannot be cancelled
    hint: undo it with: git revert HASH
    --- exit 6
    ");
    insta::assert_snapshot!(world.regatta(["cancel", "broken"]).shown(), @"
    --- stderr
    error: broken is failed, so it cannot be cancelled
    hint: it is not running; `regatta status broken` shows how it ended
    --- exit 6
    ");
    // A skipped task can be cancelled for good: then a retry of its dependency does not bring it back.
    assert_eq!(world.regatta(["cancel", "after"]).exited(0).stdout, "after cancelled\n");
    world.regatta(["cancel", "nobody"]).exited(4);
}

#[test]
fn many_are_called_off_at_once_and_each_refusal_is_told() {
    let world = World::after_plan(REGATTA);
    world.repo().write("tasks/a.md", "---\nid: a\nagent: sh\n---\ntrue\n");
    world.repo().write("tasks/b.md", "---\nid: b\nagent: sh\ndeps: [a]\n---\ntrue\n");
    world.regatta(["enqueue", "tasks"]).exited(0);
    let ran = world.regatta(["cancel", "good", "a", "--json"]).exited(6);
    let json = ran.json();
    assert_eq!((&json["tasks"][0]["id"], &json["tasks"][0]["state"]), (&"a".into(), &"cancelled".into()));
    assert_eq!((&json["refused"][0]["id"], json["refused"][0]["hint"].is_string()), (&"good".into(), true));
    assert!(ran.error()["error"].as_str().unwrap().starts_with("1 of 2 refused: good is landed"));
    world.regatta(["requeue", "a"]).exited(0);
    assert_eq!(world.regatta(["cancel", "--all"]).exited(0).stdout, "a cancelled\nb cancelled\n");
    assert_eq!(world.regatta(["cancel", "--all"]).exited(0).stderr, "nothing to do\n");
}

#[test]
fn a_task_whose_run_was_killed_is_cancelled_by_the_run_that_takes_it_over() {
    let world = World::new(REGATTA);
    let path = world
        .plan_file("---\nregatta: 1\ntasks:\n  - { id: orphan, agent: sh, prompt: exec sleep 600 }\n---\n");
    let mut events = world.begin(["events", "-f", "--json"]);
    let run = world.begin(["run".as_ref(), "--no-dashboard".as_ref(), path.as_os_str()]);
    events.until(|line| serde_json::from_str::<Value>(line).unwrap()["kind"] == "started");
    run.kill();
    let status = world.regatta(["status", "orphan", "--json"]).exited(0).json();
    assert_eq!(status["state"], "running");
    assert!(status["next"].as_str().unwrap().starts_with("the run that held it is gone"), "{status}");
    insta::assert_snapshot!(world.regatta(["cancel", "orphan"]).shown(), @"
    --- stderr
    error: orphan is held by `run DIR/plan.md`, process PID, which is gone; the request to cancel it is recorded
    hint: nothing is lost: `regatta run --resume DIR/plan.md` takes it over and then cancels it
    --- exit 6
    ");
    let found = world.regatta(["doctor", "--json"]).json();
    insta::assert_snapshot!(told(&found, "run"), @"
    warning: `run DIR/plan.md`, process PID on HOST is gone; it held orphan; agents still running: 1
      hint: `regatta daemon` or `regatta run --resume PLAN` takes over its work; `regatta reclaim` only returns it to the queue
    ");
    world
        .regatta(["run".as_ref(), "--resume".as_ref(), "--no-dashboard".as_ref(), path.as_os_str()])
        .exited(1);
    let status = world.regatta(["status", "orphan", "--json"]).exited(0).json();
    assert_eq!((&status["state"], &status["reason"]), (&"cancelled".into(), &"by ada".into()));
}
