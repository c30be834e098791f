//! The train: batches, culprits, gates side by side, pushing, bouncing, and `regatta land`.

use std::fs;

use regatta_testkit::daemon::is_alive;
use regatta_testkit::repo::script;
use regatta_testkit::shown::shown;
use regatta_testkit::world::{World, task, text};
use serde_json::Value;

use crate::REGATTA;

/// Tasks that each write a file of their name; they wait for `after` so that all join the train together.
fn cars(names: &[&str]) -> String {
    names.iter().map(|name| task(name, "", &format!("echo {name} >{name}.txt"))).collect()
}

/// Lands nothing by itself, so that a later `land` finds all of them ready.
fn made_ready(world: &World, names: &[&str]) {
    world.run(&world.plan(&cars(names)), &["--no-land"]).exited(0);
}

fn land(world: &World, names: &[&str]) -> regatta_testkit::world::Ran {
    world.regatta(["land"].iter().chain(names))
}

/// A gate that writes a line each time it runs, then decides by `test`.
fn gate(world: &World, test: &str) -> std::path::PathBuf {
    let file = world.outside("gate.sh");
    world.config(&format!("version: 1\nland: {{ test_command: \"'{}'\", parallel: 4 }}\n", file.display()));
    say(world, test)
}

/// Changes what the gate decides.
fn say(world: &World, test: &str) -> std::path::PathBuf {
    let (log, file) = (world.outside("gates.log"), world.outside("gate.sh"));
    script(
        &file,
        // One write, because gates run side by side.
        &format!("echo $(ls *.txt 2>/dev/null) >>'{0}'\n{test}", log.display()),
    );
    log
}

fn gates(log: &std::path::Path) -> Vec<String> {
    fs::read_to_string(log).unwrap_or_default().lines().map(|line| line.trim().to_owned()).collect()
}

fn status(world: &World) -> Value {
    serde_json::from_str(&world.regatta(["--json", "land", "status"]).exited(0).stdout).unwrap()
}

fn phases(world: &World, id: &str) -> Vec<Value> {
    let told = world.regatta(["--json", "land", "history", id]).exited(0).stdout;
    serde_json::from_str::<Value>(&told).unwrap()["phases"].as_array().unwrap().clone()
}

#[test]
fn good_cars_land_together_by_one_move_of_the_target() {
    let world = World::new(REGATTA);
    let log = gate(&world, "true");
    let names = ["a", "b", "c"];
    made_ready(&world, &names);
    let before = world.repo().git(["reflog", "show", "main"]).lines().count();
    land(&world, &names).exited(0);
    assert_eq!(gates(&log), ["a.txt b.txt c.txt"], "one gate for all of them");
    assert_eq!(world.repo().git(["reflog", "show", "main"]).lines().count(), before + 1);
    for name in names {
        assert_eq!(world.commits_of(&format!("{name}.txt")), 1);
        let message = world.repo().git(["log", "-1", "--format=%B", "main", "--", &format!("{name}.txt")]);
        let trailers = format!("Regatta-Task: {name}\nRegatta-Attempt: 1\nRegatta-Verdict: pass");
        assert_eq!(message.split_once("\n\n").map(|(_, rest)| rest), Some(trailers.as_str()), "{message}");
    }
    assert_eq!(world.repo().git(["status", "--porcelain"]), "");
    let told: Vec<String> =
        phases(&world, "a").iter().map(|phase| text(&phase["phase"]).to_owned()).collect();
    assert_eq!(told, ["queued", "gate", "moving", "landed"]);
    assert_eq!(status(&world)["cars"], Value::Array(Vec::new()));
    assert_eq!(status(&world)["landed"].as_array().unwrap().len(), 3);
    world.assert_tidy();
}

#[test]
fn the_culprit_is_ejected_and_named_and_the_others_land() {
    let world = World::new(REGATTA);
    let log = gate(&world, "if [ -e c.txt ]; then echo c is broken; exit 1; fi");
    let names = ["a", "b", "c", "d", "e", "f"];
    made_ready(&world, &names);
    insta::assert_snapshot!(land(&world, &names).shown(), @"
    a landed on main as HASH
    b landed on main as HASH
    c is blocked (tests): the gate `'DIR/gate.sh'` ended with exit 1 on HASH (full output: .regatta/gates/HASH): c is broken
    d landed on main as HASH
    e landed on main as HASH
    f landed on main as HASH
    --- exit 1
    ");
    let mut states: Vec<String> = names.iter().map(|name| format!("{name} landed")).collect();
    states[2] = "c blocked".to_owned();
    assert_eq!(world.states(), states);
    assert_eq!(world.landed("c.txt"), None);
    assert!(gates(&log).len() <= 20, "{:?}", gates(&log));
    let blocked = phases(&world, "c").pop().unwrap();
    assert_eq!((text(&blocked["phase"]), text(&blocked["outcome"])), ("blocked", "tests"));
    // Fixed outside, it can be tried again.
    say(&world, "true");
    insta::assert_snapshot!(world.regatta(["land", "retry", "c"]).shown(), @"c landed on main as HASH");
    assert_eq!(world.landed("c.txt").as_deref(), Some("c\n"));
    insta::assert_snapshot!(world.regatta(["land", "retry", "c"]).shown(), @"
    --- stderr
    error: c has already landed
    hint: `regatta requeue c` starts it over in a fresh lane
    --- exit 6
    ");
    world.assert_tidy();
}

#[test]
fn of_two_that_are_good_alone_and_bad_together_the_first_lands() {
    let world = World::new(REGATTA);
    gate(&world, "test ! -e a.txt -o ! -e d.txt");
    let names = ["a", "b", "c", "d"];
    made_ready(&world, &names);
    land(&world, &names).exited(1);
    world.assert_states(["a landed", "b landed", "c landed", "d blocked"]);
    world.assert_tidy();
}

#[test]
fn cars_that_conflict_with_each_other_are_kept_apart() {
    let world = World::new(REGATTA);
    gate(&world, "true");
    let plan: String =
        ["a", "b", "c"].map(|id| task(id, "", &format!("echo {id} >same.txt; echo {id} >{id}.txt"))).concat();
    world.run(&world.plan(&(plan + &cars(&["d"]))), &["--no-land"]).exited(0);
    insta::assert_snapshot!(land(&world, &["a", "b", "c", "d"]).shown(), @"
    a landed on main as HASH
    b is blocked (conflict): it conflicts with main in same.txt; its work is on regatta/b
    c is blocked (conflict): it conflicts with main in same.txt; its work is on regatta/c
    d landed on main as HASH
    --- exit 1
    ");
    world.assert_states(["a landed", "b blocked", "c blocked", "d landed"]);
    assert_eq!(world.landed("same.txt").as_deref(), Some("a\n"));
    world.assert_tidy();
}

#[test]
fn a_gate_that_passes_at_a_later_try_is_recorded_as_flaky() {
    let world = World::new(REGATTA);
    let once = world.outside("once");
    world.config(&format!(
        "version: 1\nland: {{ test_command: \"test -e '{0}' || {{ touch '{0}'; exit 1; }}\", retries: 1 }}\n",
        once.display()
    ));
    made_ready(&world, &["a"]);
    land(&world, &["a"]).exited(0);
    let flaky = phases(&world, "a").into_iter().find(|phase| phase["phase"] == "gate").unwrap();
    assert_eq!(text(&flaky["outcome"]), "flaky");
}

#[test]
fn nobody_is_blamed_for_a_target_that_is_red_itself() {
    let world = World::new(REGATTA);
    let log = gate(&world, "test ! -e broken.txt");
    world.repo().commit_file("broken.txt", "x\n", "break it");
    made_ready(&world, &["a", "b"]);
    insta::assert_snapshot!(land(&world, &["a", "b"]).shown(), @"
    a waits in the train: the gate fails on main itself: the gate `'DIR/gate.sh'` ended with exit 1 on HASH (full output: .regatta/gates/HASH)
    b waits in the train: the gate fails on main itself: the gate `'DIR/gate.sh'` ended with exit 1 on HASH (full output: .regatta/gates/HASH)
    --- exit 1
    ");
    world.assert_states(["a landing", "b landing"]);
    insta::assert_snapshot!(shown(text(&status(&world)["cars"][0]["waiting"])), @"the gate fails on main itself: the gate `'DIR/gate.sh'` ended with exit 1 on HASH (full output: .regatta/gates/HASH)");
    assert!(gates(&log).contains(&"broken.txt".to_owned()), "{:?}", gates(&log));
    world.repo().git(["rm", "-q", "broken.txt"]);
    world.repo().commit_all("mend it");
    land(&world, &["a", "b"]).exited(0);
    world.assert_states(["a landed", "b landed"]);
    world.assert_tidy();
}

#[test]
fn content_that_passed_once_is_never_tested_again() {
    let world = World::new(REGATTA);
    let log = gate(&world, "true");
    made_ready(&world, &["a"]);
    world.repo().write("a.txt", "mine\n");
    insta::assert_snapshot!(land(&world, &["a"]).shown(), @"
    a waits in the train: the checkout at DIR/repo has uncommitted changes in a.txt; commit or stash them
    --- exit 1
    ");
    fs::remove_file(world.root().join("a.txt")).unwrap();
    land(&world, &["a"]).exited(0);
    assert_eq!(gates(&log).len(), 1, "{:?}", gates(&log));
}

#[test]
fn what_lands_is_pushed_and_a_remote_that_moved_is_built_upon() {
    let mut world = World::new(REGATTA);
    gate(&world, "true");
    let remote = world.remote();
    let tip =
        |world: &World| world.repo().git(["--git-dir", &remote.display().to_string(), "rev-parse", "main"]);
    made_ready(&world, &["a", "b", "c"]);
    land(&world, &["a"]).exited(0);
    assert_eq!(tip(&world), world.repo().rev("main"));
    // Another user pushes.
    let other = world.outside("other");
    world.repo().git(["clone", "-q", &remote.display().to_string(), &other.display().to_string()]);
    world.repo().git_in(&other, ["config", "user.name", "Other"]);
    world.repo().git_in(&other, ["config", "user.email", "other@example.com"]);
    fs::write(other.join("theirs.txt"), "theirs\n").unwrap();
    world.repo().git_in(&other, ["add", "-A"]);
    world.repo().git_in(&other, ["commit", "-qm", "theirs"]);
    world.repo().git_in(&other, ["push", "-q", "origin", "main"]);
    land(&world, &["b"]).exited(0);
    assert_eq!(tip(&world), world.repo().rev("main"));
    assert_eq!(world.landed("theirs.txt").as_deref(), Some("theirs\n"));
    assert_eq!(world.landed("b.txt").as_deref(), Some("b\n"));
    assert_eq!(world.repo().git(["status", "--porcelain"]), "", "the checkout follows to both");
    // The local branch and the remote's have diverged.
    fs::write(other.join("theirs.txt"), "more\n").unwrap();
    world.repo().git_in(&other, ["commit", "-qam", "more"]);
    world.repo().git_in(&other, ["pull", "-q", "--rebase", "origin", "main"]);
    world.repo().git_in(&other, ["push", "-q", "origin", "main"]);
    world.repo().commit_file("mine.txt", "mine\n", "mine");
    insta::assert_snapshot!(land(&world, &["c"]).shown(), @"
    c waits in the train: main and origin/main (HASH) have diverged; bring them together: git pull --rebase origin main
    --- exit 1
    ");
    world.repo().git(["pull", "-q", "--rebase", "origin", "main"]);
    land(&world, &["c"]).exited(0);
    assert_eq!(tip(&world), world.repo().rev("main"));
    world.assert_tidy();
}

#[test]
fn a_pre_push_hook_that_refuses_keeps_the_target_where_it_is() {
    let mut world = World::new(REGATTA);
    world.remote();
    let hook = world.root().join(".git/hooks/pre-push");
    script(&hook, "read line; echo \"not on a Sunday: $1 $line\" >&2; exit 1");
    let before = world.repo().rev("main");
    made_ready(&world, &["a"]);
    insta::assert_snapshot!(land(&world, &["a"]).shown(), @"
    a waits in the train: your pre-push hook refused it (exit 1): not on a Sunday: origin refs/heads/main HASH refs/heads/main HASH
    --- exit 1
    ");
    assert_eq!(world.repo().rev("main"), before);
    world.assert_states(["a landing"]);
    world.regatta(["cancel", "a"]).exited(0);
    fs::remove_file(hook).unwrap();
    world.assert_states(["a cancelled"]);
}

#[test]
fn a_conflict_goes_back_to_its_agent_with_both_sides() {
    let world = World::new(REGATTA);
    world.config("version: 1\nland: { bounces: 1 }\n");
    world.repo().commit_file("menu.txt", "soup\n", "menu");
    // The second time its prompt says what happened; it finds both sides in its files, and resolves the conflict.
    let resolves = "if [ -n \"$REGATTA_GUIDANCE\" ]; then
  printf '%s\\n' \"$REGATTA_GUIDANCE\" >told.txt
  grep -q '<<<<<<<' menu.txt && sed -i '/^[<=>]\\{7\\}/d' menu.txt
else echo stew >menu.txt; fi";
    let plan =
        [task("a", "", "echo salad >menu.txt"), task("b", "", &resolves.replace('\n', "\n    "))].concat();
    world.run(&world.plan(&plan), &["--no-land"]).exited(0);
    land(&world, &["a"]).exited(0);
    insta::assert_snapshot!(land(&world, &["b"]).shown(), @"
    b went back to its agent with the conflict
    --- exit 1
    ");
    world.run(&world.plan(&plan), &["--resume"]).exited(0);
    world.assert_states(["a landed", "b landed"]);
    insta::assert_snapshot!(world.landed("menu.txt").unwrap(), @"
    salad
    stew
    ");
    insta::assert_snapshot!(shown(&world.landed("told.txt").unwrap()), @"
    Your work in attempt 1 passed, but other work landed in the meantime, and the two conflict in: menu.txt.

    This working directory is now at HASH, which contains what landed, with your changes applied on top, uncommitted. Where both sides changed the same lines, the files have conflict marks (<<<<<<<, =======, >>>>>>>). Merge both sides so that each keeps its purpose, leave no conflict marks, and finish the task.

    What the other side did to these files:

    ```diff
    diff --git a/menu.txt b/menu.txt
    index HASH..HASH 100644
    --- a/menu.txt
    +++ b/menu.txt
    @@ -1 +1 @@
    -soup
    +salad
    ```
    ");
    let first = world.task("b")["attempts"][0].clone();
    assert_eq!(first["charged"], false, "{first}");
    world.assert_tidy();
}

#[test]
fn conflict_marks_that_are_left_do_not_land() {
    let world = World::new(REGATTA);
    world.config("version: 1\nland: { bounces: 1 }\n");
    world.repo().commit_file("menu.txt", "soup\n", "menu");
    let careless = "[ -n \"$REGATTA_GUIDANCE\" ] || echo stew >menu.txt";
    let plan = [task("a", "", "echo salad >menu.txt"), task("b", "", careless)].concat();
    world.run(&world.plan(&plan), &["--no-land"]).exited(0);
    land(&world, &["a"]).exited(0);
    land(&world, &["b"]).exited(1);
    insta::assert_snapshot!(world.run(&world.plan(&plan), &["--resume"]).shown(), @"
    test → main: 2 tasks
        TIME b #2  agent started, process PID
        TIME b #2  work kept as refs/regatta/salvage/b/1: conflict marks are left in menu.txt
        TIME b #2  failed: conflict marks are left in menu.txt

    ✓ a landed HASH
    ✕ b failed

    ✕ b failed: conflict marks are left in menu.txt
    1 failed, 1 landed in TIME on main
    --- stderr
    hint: `regatta status ID` and `regatta logs ID` show why; `regatta run --resume DIR/plan.md` retries
    --- exit 1
    ");
    assert_eq!(world.landed("menu.txt").as_deref(), Some("salad\n"));
}

#[test]
fn what_cannot_be_landed_is_refused_with_the_reason() {
    let world = World::new(REGATTA);
    made_ready(&world, &["a"]);
    world.regatta(["land", "nobody"]).exited(4);
    insta::assert_snapshot!(world.regatta(["land", "retry", "a"]).shown(), @"
    --- stderr
    error: a is done, so it cannot be landed again
    hint: `regatta land a` lands it; `regatta requeue a` starts it over in a fresh lane
    --- exit 6
    ");
    land(&world, &["a"]).exited(0);
    insta::assert_snapshot!(land(&world, &["a"]).shown(), @"
    --- stderr
    error: a has already landed
    hint: `regatta requeue a` starts it over in a fresh lane
    --- exit 6
    ");
    world.regatta(["land"]).exited(2);
    world.run(&world.plan(&task("empty", "", "true")), &["--no-land"]).exited(0);
    insta::assert_snapshot!(world.regatta(["land", "empty"]).shown(), @"
    --- stderr
    error: empty: it changed nothing, so there is nothing to land
    hint: `regatta status ID` shows what you can do now
    --- exit 6
    ");
    insta::assert_snapshot!(world.regatta(["land", "history", "empty"]).shown(), @"
    --- stderr
    empty has not been in the train
    ");
}

#[test]
fn all_that_is_done_lands_what_others_depend_on_first() {
    let world = World::new(REGATTA);
    made_ready(&world, &["merged"]);
    world.repo().git(["merge", "-q", "--no-edit", "regatta/merged"]);
    let plan =
        [task("b", "deps: [a]", "echo b >>a.txt"), task("a", "", "echo a >a.txt"), task("empty", "", "true")];
    world.run(&world.plan(&plan.concat()), &["--no-land"]).exited(0);
    insta::assert_snapshot!(world.regatta(["land", "--all"]).shown(), @"
    a landed on main as HASH
    b landed on main as HASH
    ");
    assert_eq!(world.landed("a.txt").as_deref(), Some("a\nb\n"));
    world.assert_states(["a landed", "b landed", "empty done", "merged done"]);
    insta::assert_snapshot!(world.regatta(["land", "--all"]).shown(), @"
    --- stderr
    nothing to do
    ");
    insta::assert_snapshot!(world.regatta(["land", "retry", "--all"]).shown(), @"
    --- stderr
    nothing to do
    ");
    world.regatta(["land", "--all", "a"]).exited(2);
}

#[test]
fn dependents_are_never_split_from_what_they_build_on() {
    let world = World::new(REGATTA);
    gate(&world, "! ls bad*.txt 2>/dev/null");
    // Each changes what the one before it made: without that, none of them can land.
    let mut plan = task("c0", "", "echo c0 >chain.txt");
    for n in 1..6 {
        let script = format!("echo c{n} >chain.txt; echo bad >bad{n}.txt; rm bad{n}.txt");
        plan.push_str(&task(&format!("c{n}"), &format!("deps: [c{}]", n - 1), &script));
    }
    plan.push_str(&cars(&["bad1", "bad2", "x"]));
    world.run(&world.plan(&plan), &["--no-land"]).exited(0);
    land(&world, &["c0", "bad1", "c1", "c2", "x", "c3", "bad2", "c4", "c5"]).exited(1);
    let mut states: Vec<String> = ["bad1", "bad2"].iter().map(|name| format!("{name} blocked")).collect();
    states.extend((0..6).map(|n| format!("c{n} landed")));
    states.push("x landed".to_owned());
    assert_eq!(world.states(), states);
    assert_eq!(world.landed("chain.txt").as_deref(), Some("c5\n"));
}

#[test]
fn a_car_waits_for_what_it_builds_on_and_the_train_is_shown_as_it_is() {
    let world = World::new(REGATTA);
    gate(&world, "test ! -e a.txt -o -e mended.txt");
    let plan =
        [task("a", "", "echo a >a.txt"), task("b", "deps: [a]\npriority: 9", "echo b >>a.txt")].concat();
    world.run(&world.plan(&plan), &["--no-land"]).exited(0);
    world.regatta(["land", "--no-wait", "b", "a"]).exited(0);
    let shown: Vec<String> =
        status(&world)["cars"].as_array().unwrap().iter().map(|car| text(&car["id"]).to_owned()).collect();
    assert_eq!(shown, ["a", "b"], "what a car depends on comes first, whatever its priority");
    insta::assert_snapshot!(land(&world, &["a", "b"]).shown(), @"
    a is blocked (tests): the gate `'DIR/gate.sh'` ended with exit 1 on HASH (full output: .regatta/gates/HASH)
    b waits in the train: it builds on a, which is blocked (tests)
    --- exit 1
    ");
    world.assert_states(["a blocked", "b landing"]);
    world.repo().commit_file("mended.txt", "", "mend it");
    world.regatta(["land", "retry", "a"]).exited(0);
    land(&world, &["b"]);
    world.assert_states(["a landed", "b landed"]);
    assert_eq!(world.landed("a.txt").as_deref(), Some("a\nb\n"));
}

#[test]
fn as_many_gates_as_are_allowed_run_at_once_and_no_more() {
    let world = World::new(REGATTA);
    let (meeting, log) = (world.outside("meeting"), world.outside("times.log"));
    fs::create_dir(&meeting).unwrap();
    let (all, barrier) = (world.barrier("all"), world.barrier("both"));
    // All of them together fail, so that the target and shorter lists are tested. The first two of those gates each
    // leave a file and wait for the other's: one at a time would wait forever. Then one of them says so.
    let test = format!(
        "me=$(git rev-parse HEAD); echo \"+$me\" >>'{1}'\n\
         if [ $(ls *.txt | wc -l) = 5 ]; then {3}; echo \"-$me\" >>'{1}'; exit 1; fi\n\
         echo $$ >'{0}'/$me\n\
         until [ $(ls '{0}' | wc -l) -ge 2 ]; do sleep 0.02; done\n\
         if mkdir '{0}.told' 2>/dev/null; then {2}; touch '{0}.told/go'; fi\n\
         until [ -e '{0}.told/go' ]; do sleep 0.02; done\n\
         echo \"-$me\" >>'{1}'; [ ! -e e.txt ]",
        meeting.display(),
        log.display(),
        barrier.script(),
        all.script()
    );
    gate(&world, &test);
    let settings = fs::read_to_string(world.root().join("regatta.yaml")).unwrap();
    world.config(&settings.replace("parallel: 4", "parallel: 2"));
    let names = ["a", "b", "c", "d", "e"];
    made_ready(&world, &names);
    let landing = world.begin(["land"].iter().chain(&names));
    all.arrived();
    let busy = status(&world)["tests"].as_array().unwrap().len();
    assert!(busy <= 2, "{busy} gates at once");
    all.open();
    barrier.arrived();
    let pids: Vec<u32> = fs::read_dir(&meeting)
        .unwrap()
        .map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap().trim().parse().unwrap())
        .collect();
    let alive: Vec<bool> = pids.into_iter().map(is_alive).collect();
    assert_eq!(alive, [true, true], "both are at work, and nobody else");
    let shown = status(&world);
    assert_eq!((&shown["slots"], shown["tests"].as_array().unwrap().len()), (&2.into(), 2), "{shown:#}");
    insta::assert_snapshot!(world.regatta(["land", "status"]).shown(), @"
    train → main (HASH), 5 cars, gate `'DIR/gate.sh'`, 2 of 2 slots busy
          CAR  PRIORITY  ACTIVITY
    1  ◐  a    0         under test for TIME in HASH
    2  ◐  b    0         under test for TIME in HASH
    3  ◐  c    0         under test for TIME in HASH
    4  ○  d    0         was tested, or is about to be
    5  ○  e    0         was tested, or is about to be

    CANDIDATE  SINCE  CONTENT
    HASH  TIME  main itself
    HASH  TIME  main + a + b + c
    ");
    barrier.open();
    landing.wait().exited(1);
    world.assert_states(["a landed", "b landed", "c landed", "d landed", "e blocked"]);
    let log = fs::read_to_string(&log).unwrap();
    let (mut now, mut most) = (0, 0);
    for line in log.lines() {
        now += if line.starts_with('+') { 1 } else { -1 };
        most = most.max(now);
    }
    assert_eq!((now, most), (0, 2), "{log}");
    world.assert_tidy();
}
