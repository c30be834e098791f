//! From passing work to the target branch, and the user's checkout on the way.

use std::fs;

use regatta_testkit::daemon::until;
use regatta_testkit::repo::write;
use regatta_testkit::shown::shown;
use regatta_testkit::world::{World, task, text};

use crate::REGATTA;

#[test]
fn a_checkout_with_other_changes_follows_and_keeps_them_byte_for_byte() {
    let world = World::new(REGATTA);
    world.repo().write("mine.txt", "one\n");
    world.repo().write("staged.txt", "one\n");
    world.repo().commit_all("mine");
    world.repo().write("mine.txt", b"changed \xff\x00 bytes\r\n");
    world.repo().write("staged.txt", "two\n");
    world.repo().git(["add", "staged.txt"]);
    world.repo().write("staged.txt", "three\n");
    world.repo().write("new.txt", "untracked\n");
    let status = world.repo().git(["status", "--porcelain"]);
    world.run(&world.plan(&task("a", "", "echo a >a.txt; echo more >>README.md")), &[]).exited(0);
    assert_eq!(world.repo().git(["status", "--porcelain"]), status);
    assert_eq!(fs::read(world.root().join("mine.txt")).unwrap(), b"changed \xff\x00 bytes\r\n");
    assert_eq!(world.repo().git(["show", ":staged.txt"]), "two");
    assert_eq!(fs::read_to_string(world.root().join("README.md")).unwrap(), "hello\nmore\n");
    world.assert_tidy();
}

#[test]
fn a_checkout_with_changes_in_the_way_makes_the_train_wait_and_resume_lands() {
    for (what, file) in [("changed", "README.md"), ("untracked", "a.txt"), ("ignored", "ignored.txt")] {
        let content = "mine\n";
        let world = World::new(REGATTA);
        world.repo().commit_file(".gitignore", "ignored.txt\n", "ignore");
        world.repo().write(file, content);
        let before = world.repo().rev("main");
        let plan = world.plan(&task(
            "a",
            "",
            "echo a >a.txt; echo a >>README.md; echo a >ignored.txt; git add -f ignored.txt",
        ));
        let ran = world.run(&plan, &[]).exited(1);
        let first = shown(&ran.stdout.replace(file, "THE-FILE"));
        world.assert_states(["a landing"]);
        assert_eq!(world.repo().rev("main"), before, "{what}");
        assert_eq!(fs::read_to_string(world.root().join(file)).unwrap(), content, "{what}: {}", ran.stdout);
        // Without --resume it is refused: the work of the earlier run is approved and must not be discarded.
        let second = world.run(&plan, &[]).exited(6).shown();
        let again = world.run(&plan, &["--again"]).exited(6).shown().replace(file, "THE-FILE");
        insta::allow_duplicates! {
            insta::assert_snapshot!(first, @"
            test → main: 1 task
                TIME a  agent started, process PID
                TIME a  waits to land: the checkout at DIR/repo has uncommitted changes in THE-FILE; commit or stash them

            ◐ a landing

            ◐ a landing: the checkout at DIR/repo has uncommitted changes in THE-FILE; commit or stash them
            1 landing in TIME on main
            ");
            insta::assert_snapshot!(second, @"
            --- stderr
            error: these tasks have run before: a waits in the train to land
            hint: `regatta run --resume DIR/plan.md` runs what is left; `regatta run --again DIR/plan.md` runs everything again
            --- exit 6
            ");
            insta::assert_snapshot!(again, @"
            test → main: 1 task
            --- stderr
            error: a from an earlier run still waits to land: the checkout at DIR/repo has uncommitted changes in THE-FILE; commit or stash them
            hint: `regatta list` shows the tasks, `regatta status ID` shows what to do
            --- exit 6
            ");
        }
        if file == "README.md" {
            world.repo().git(["checkout", "-q", "README.md"]);
        } else {
            fs::remove_file(world.root().join(file)).unwrap();
        }
        world.run(&plan, &["--resume"]).exited(0);
        assert_eq!(world.commits_of("a.txt"), 1, "{what}");
        assert_eq!(world.repo().git(["status", "--porcelain"]), "", "{what}");
        world.assert_tidy();
    }
}

#[test]
fn a_car_that_waits_is_not_gated_again_and_again() {
    let world = World::new(REGATTA);
    let count = world.outside("gates");
    world.config(&format!("land: {{ test_command: \"echo gate >>'{}'\" }}\n", count.display()));
    world.repo().write("README.md", "mine\n");
    let plan = world
        .plan(&[task("a", "", "echo a >>README.md"), task("slow", "read_only: true", "sleep 4")].concat());
    let ran = world.run(&plan, &[]).exited(1);
    assert_eq!(ran.stdout.matches("waits to land").count(), 1, "{}", ran.stdout);
    let gates = fs::read_to_string(&count).unwrap().lines().count();
    assert_eq!(gates, 1, "the same commit was tested {gates} times");
    world.repo().git(["checkout", "-q", "README.md"]);
    world.run(&plan, &["--resume"]).exited(0);
    assert_eq!(fs::read_to_string(&count).unwrap().lines().count(), 1, "what passed is not tested again");
    // Another gate has to run itself.
    world.config(&format!("land: {{ test_command: \"true; echo gate >>'{}'\" }}\n", count.display()));
    world.run(&world.plan(&task("b", "", "echo b >b.txt")), &[]).exited(0);
    assert_eq!(fs::read_to_string(&count).unwrap().lines().count(), 2);
}

#[test]
fn a_target_that_is_not_checked_out_moves_and_the_checkout_stays() {
    let world = World::new(REGATTA);
    world.repo().git(["branch", "stable"]);
    world.repo().write("README.md", "mine\n");
    let head = world.repo().rev("main");
    world
        .run(&world.plan(&task("a", "", "echo a >a.txt; echo a >>README.md")), &["--target", "stable"])
        .exited(0);
    assert_eq!(world.repo().rev("main"), head);
    assert_eq!(world.repo().git(["show", "stable:a.txt"]), "a");
    assert_eq!(fs::read_to_string(world.root().join("README.md")).unwrap(), "mine\n");
}

#[test]
fn what_the_user_commits_meanwhile_is_kept() {
    let world = World::new(REGATTA);
    let barrier = world.barrier("b");
    let plan = world.plan(&task("a", "", &format!("echo a >a.txt\n{}", barrier.script())));
    let run = world.start(&plan, &[]);
    barrier.arrived();
    let mine = world.repo().commit_file("user.txt", "mine\n", "mine");
    barrier.open();
    run.wait().exited(0);
    let parents = world.repo().git(["rev-parse", "main~1"]);
    assert_eq!(parents, mine);
    assert_eq!(world.landed("a.txt").as_deref(), Some("a\n"));
    assert_eq!(world.repo().git(["status", "--porcelain"]), "");
}

#[test]
fn the_commit_that_lands_is_the_commit_that_was_tested() {
    let world = World::new(REGATTA);
    let seen = world.outside("seen");
    let gate = format!(
        "git rev-parse HEAD >>'{0}'; git status --porcelain >>'{0}'; test ! -f bad.txt",
        seen.display()
    );
    world.config(&format!("land: {{ test_command: \"{gate}\" }}\n"));
    let plan = world.plan(
        &[task("good", "", "echo good >good.txt"), task("bad", "deps: [good]", "echo bad >bad.txt")].concat(),
    );
    insta::assert_snapshot!(world.run(&plan, &[]).shown(), @"
    test → main: 2 tasks
        TIME good  agent started, process PID
        TIME good  landed on main as HASH
        TIME bad  agent started, process PID
        TIME bad  gate failed in TIME on HASH (alone): the gate `git rev-parse HEAD >>'DIR/seen'; git status --porcelain >>'DIR/seen'; test ! -f bad.txt` ended with exit 1 on HASH (full output: .regatta/gates/HASH)
        TIME bad  blocked (tests): the gate `git rev-parse HEAD >>'DIR/seen'; git status --porcelain >>'DIR/seen'; test ! -f bad.txt` ended with exit 1 on HASH (full output: .regatta/gates/HASH)

    ✓ good landed HASH
    └─ ⚠ bad blocked

    ⚠ bad blocked: tests: the gate `git rev-parse HEAD >>'DIR/seen'; git status --porcelain >>'DIR/seen'; test ! -f bad.txt` ended with exit 1 on HASH (full output: .regatta/gates/HASH)
    1 blocked, 1 landed in TIME on main
    --- stderr
    hint: `regatta status ID` and `regatta logs ID` show why; `regatta run --resume DIR/plan.md` retries
    --- exit 1
    ");
    world.assert_states(["bad blocked", "good landed"]);
    let seen = fs::read_to_string(&seen).unwrap();
    let tested: Vec<&str> = seen.lines().collect();
    assert_eq!(tested.len(), 2, "{tested:?}");
    assert_eq!(tested[0], world.repo().rev("main"));
    assert_ne!(tested[1], tested[0]);
    insta::assert_snapshot!(shown(text(&world.task("bad")["reason"])), @"tests: the gate `git rev-parse HEAD >>'DIR/seen'; git status --porcelain >>'DIR/seen'; test ! -f bad.txt` ended with exit 1 on HASH (full output: .regatta/gates/HASH)");
    // The work of the refused car is on its branch.
    assert_eq!(world.repo().git(["show", "regatta/bad:bad.txt"]), "bad");
    world.assert_no_process();
}

#[test]
fn a_conflict_names_its_files_and_keeps_the_work() {
    let world = World::new(REGATTA);
    let barrier = world.barrier("b");
    let plan = world.plan(
        &[
            task("fast", "", "echo fast >README.md"),
            task("slow", "", &format!("echo slow >README.md; echo more >slow.txt\n{}", barrier.script())),
        ]
        .concat(),
    );
    let mut run = world.start(&plan, &[]);
    barrier.arrived();
    run.wait_line("fast  landed");
    barrier.open();
    run.wait().exited(1);
    world.assert_states(["fast landed", "slow blocked"]);
    insta::assert_snapshot!(text(&world.task("slow")["reason"]), @"conflict: it conflicts with main in README.md; its work is on regatta/slow");
    let old = world.repo().rev("regatta/slow");
    assert_eq!(world.repo().git(["show", "regatta/slow:slow.txt"]), "more");
    assert_eq!(world.repo().git(["status", "--porcelain"]), "");
    // Tried again, it starts from the current target.
    let again = world.start(&plan, &["--resume"]);
    barrier.arrived();
    barrier.open();
    again.wait().exited(0);
    assert_eq!(world.landed("README.md").as_deref(), Some("slow\n"));
    assert_ne!(world.repo().git(["for-each-ref", "--contains", &old]), "", "what conflicted is kept");
}

#[test]
fn each_strategy_makes_the_history_it_is_named_for() {
    for (strategy, commits, merges) in [("rebase", 3, 0), ("squash", 2, 0), ("merge", 4, 1)] {
        let world = World::new(REGATTA);
        world.repo().commit_file("regatta.yaml", &format!("land: {{ strategy: {strategy} }}\n"), "settings");
        let before: usize = world.subjects("main").len();
        let plan =
            world.plan(&task("a", "", "echo 1 >a.txt; git add -A; git commit -qm one; echo 2 >>a.txt"));
        world.run(&plan, &[]).exited(0);
        assert_eq!(
            world.subjects("main").len() - before + 1,
            commits,
            "{strategy}: {:?}",
            world.subjects("main")
        );
        let found = world.repo().git(["rev-list", "--count", "--merges", "main"]);
        assert_eq!(found, merges.to_string(), "{strategy}");
        assert_eq!(world.landed("a.txt").as_deref(), Some("1\n2\n"), "{strategy}");
    }
}

#[test]
fn work_that_is_not_to_land_stays_on_its_branch_and_dependents_see_it() {
    for (keys, flags) in [("", &["--no-land"][..]), ("auto_land: false", &[][..])] {
        let world = World::new(REGATTA);
        let before = world.repo().rev("main");
        let plan = world.plan(
            &[
                task("a", keys, "echo a >a.txt"),
                task("b", keys, "echo b >b.txt"),
                task("c", &format!("deps: [a, b]\n{keys}"), "cat a.txt b.txt >c.txt"),
                task("r", "deps: [c]\nread_only: true", "grep -q b c.txt"),
            ]
            .concat(),
        );
        world.run(&plan, flags).exited(0);
        world.assert_states(["a done", "b done", "c done", "r done"]);
        assert_eq!(world.repo().rev("main"), before);
        assert_eq!(world.repo().git(["show", "regatta/c:c.txt"]), "a\nb");
        world.assert_tidy();
    }
}

#[test]
fn a_landing_dependent_of_unlanded_work_brings_it_along() {
    let world = World::new(REGATTA);
    let plan = world.plan(
        &[task("a", "auto_land: false", "echo a >a.txt"), task("b", "deps: [a]", "cat a.txt >b.txt")]
            .concat(),
    );
    world.run(&plan, &[]).exited(0);
    world.assert_states(["a done", "b landed"]);
    assert_eq!(world.landed("b.txt").as_deref(), Some("a\n"));
}

#[test]
fn two_plans_at_once_share_a_repository_and_one_plan_twice_is_refused() {
    let world = World::new(REGATTA);
    let barrier = world.barrier("b");
    let one = world.plan(&task("one", "", &format!("echo 1 >1.txt\n{}", barrier.script())));
    let two = world.outside("two.md");
    let text = fs::read_to_string(&one).unwrap().replace("one", "two").replace("1.txt", "2.txt");
    write(&two, text.split("echo here").next().unwrap().to_owned() + "true\n---\n");
    let first = world.start(&one, &[]);
    barrier.arrived();
    world.run(&two, &[]).exited(0);
    for flags in [&[][..], &["--resume"][..]] {
        let refused = world.run(&one, flags);
        insta::allow_duplicates! {
            insta::assert_snapshot!(refused.shown(), @"
            test → main: 1 task
            --- stderr
            error: task one belongs to a run that is still going: `run DIR/plan.md`, process PID on HOST
            hint: `regatta list` shows the tasks, `regatta status ID` shows what to do
            --- exit 6
            ");
        }
    }
    barrier.open();
    first.wait().exited(0);
    world.assert_states(["one landed", "two landed"]);
    world.assert_tidy();
}

#[test]
fn one_plan_started_many_times_in_the_same_moment_runs_once() {
    for _ in 0..3 {
        let world = World::new(REGATTA);
        let barrier = world.barrier("others-have-ended");
        let waits = format!("{}; echo a >>a.txt", barrier.script());
        let plan = world.plan(&[task("a", "", &waits), task("b", "", "echo b >b.txt")].concat());
        let mut runs: Vec<_> = (0..3).map(|_| world.start(&plan, &[])).collect();
        until("two runs to be refused", || {
            (runs.iter_mut().filter_map(|run| run.has_ended().then_some(())).count() == 2).then_some(())
        });
        barrier.arrived();
        barrier.open();
        let ran: Vec<_> = runs.into_iter().map(|run| run.wait()).collect();
        let mut codes: Vec<i32> = ran.iter().map(|ran| ran.code).collect();
        codes.sort_unstable();
        assert_eq!(codes, [0, 6, 6], "{ran:#?}");
        assert_eq!(world.landed("a.txt").as_deref(), Some("a\n"));
        assert_eq!(world.commits_of("a.txt"), 1);
        world.assert_tidy();
    }
}

#[test]
fn a_user_in_the_middle_of_a_merge_is_waited_for() {
    let world = World::new(REGATTA);
    world.repo().git(["checkout", "-qb", "side"]);
    world.repo().commit_file("README.md", "side\n", "side");
    world.repo().git(["checkout", "-q", "main"]);
    world.repo().commit_file("README.md", "main\n", "main");
    let merged = world.repo().try_git(world.root(), &["merge", "side"]);
    assert!(!merged.status.success());
    let status = world.repo().git(["status", "--porcelain"]);
    let plan = world.plan(&task("a", "", "echo a >a.txt"));
    insta::assert_snapshot!(world.run(&plan, &[]).shown(), @"
    test → main: 1 task
        TIME a  agent started, process PID
        TIME a  waits to land: the checkout at DIR/repo is in the middle of a merge

    ◐ a landing

    ◐ a landing: the checkout at DIR/repo is in the middle of a merge
    1 landing in TIME on main
    --- stderr
    hint: `regatta status ID` and `regatta logs ID` show why; `regatta run --resume DIR/plan.md` retries
    --- exit 1
    ");
    assert_eq!(world.repo().git(["status", "--porcelain"]), status);
    world.repo().git(["merge", "--abort"]);
    world.run(&plan, &["--resume"]).exited(0);
    assert_eq!(world.commits_of("a.txt"), 1);
}
