//! Checks see what is committed, and files copied into the lane stay out of history, whatever an agent does to its
//! lane.

use regatta_testkit::repo::write;
use regatta_testkit::shown::shown;
use regatta_testkit::world::{World, task, text};

use super::REGATTA;

/// A check that requires GOOD in `g.txt`.
const CHECK: &str = "checks: [\"grep -qx GOOD g.txt\"]";

fn world() -> World {
    let world = World::without_sandbox(REGATTA);
    world.repo().commit_file("g.txt", "GOOD\n", "a good file");
    world
}

/// Runs a task that commits EVIL and hides it somehow. What lands is what its check saw.
#[track_caller]
fn lands_what_was_checked(hide: &str) {
    let world = world();
    let script = format!("echo EVIL > g.txt; git commit -qam evil\n{hide}\necho GOOD > g.txt\n");
    let plan = world.plan(&task("a", CHECK, &script));
    world.run(&plan, &[]).exited(0);
    assert_eq!(world.landed("g.txt").as_deref(), Some("GOOD\n"), "{hide}");
}

#[test]
fn a_file_that_is_assumed_unchanged_is_looked_at() {
    lands_what_was_checked("git update-index --assume-unchanged g.txt");
}

#[test]
fn ignored_files_do_not_reach_a_check() {
    let world = world();
    world.repo().commit_file(".gitignore", "*.local\n", "ignore local files");
    let keys = "max_attempts: 1\nchecks: [\"test -e ok.local\"]";
    let script = "touch ok.local; echo EVIL > g.txt; git commit -qam evil\n";
    let plan = world.plan(&task("a", keys, script));
    world.run(&plan, &[]).exited(1);
    assert_eq!(world.landed("g.txt").as_deref(), Some("GOOD\n"));
}

#[test]
fn a_check_has_what_the_user_brings_in_and_sets_up() {
    let world = world();
    world.config("lane: { include: [.env], setup: \"touch set.up\" }\n");
    world.repo().commit_file(".gitignore", ".env\nset.up\n", "ignore");
    write(&world.root().join(".env"), "A=1\n");
    let plan = world.plan(&task("a", "checks: [\"test -e .env && test -e set.up\"]", "echo 1 > a.txt"));
    world.run(&plan, &[]).exited(0);
    assert_eq!(world.landed("a.txt").as_deref(), Some("1\n"));
}

#[test]
fn a_file_that_is_skipped_is_looked_at() {
    lands_what_was_checked("git update-index --skip-worktree g.txt");
}

#[test]
fn a_split_index_hides_nothing() {
    lands_what_was_checked("git update-index --split-index; git update-index --assume-unchanged g.txt");
}

#[test]
fn an_index_that_is_no_file_hides_nothing() {
    lands_what_was_checked(
        "rm \"$(git rev-parse --git-path index)\"; mkfifo \"$(git rev-parse --git-path index)\"",
    );
}

#[test]
fn times_of_a_file_prove_nothing() {
    // The index says that a file of this size and these times contains EVIL; then it is replaced by one of the same
    // size and times.
    lands_what_was_checked(
        "touch -d '2020-01-01' g.txt; git update-index --refresh\n\
         git config core.trustctime false; git config core.checkStat minimal\n\
         echo GOOD > g.txt; touch -d '2020-01-01' g.txt; trap \"touch -d '2020-01-01' g.txt\" EXIT",
    );
}

#[test]
fn without_auto_commit_hidden_changes_are_uncommitted_work() {
    let world = world();
    let script = "echo EVIL > g.txt; git commit -qam evil\n\
                  git update-index --assume-unchanged g.txt\necho GOOD > g.txt";
    let plan = world.plan(&task("a", &format!("auto_commit: false\n{CHECK}"), script));
    world.run(&plan, &[]).exited(1);
    insta::assert_snapshot!(shown(text(&world.task("a")["reason"])), @"it left work uncommitted, first g.txt, and auto_commit is off");
    assert_eq!(world.landed("g.txt").as_deref(), Some("GOOD\n"));
}

#[test]
fn what_a_hook_changes_after_the_commit_is_not_what_checks_see() {
    let world = world();
    let hook = world.root().join(".git/hooks/post-commit");
    write(&hook, "#!/bin/sh\necho GOOD > g.txt\n");
    std::process::Command::new("chmod").arg("+x").arg(&hook).status().unwrap();
    let plan = world.plan(&task("a", CHECK, "echo EVIL > g.txt"));
    world.run(&plan, &[]).exited(1);
    insta::assert_snapshot!(shown(text(&world.task("a")["reason"])), @"the check `grep -qx GOOD g.txt` ended with exit 1");
    assert_eq!(world.landed("g.txt").as_deref(), Some("GOOD\n"));
}

/// A world whose lanes get an `.env`.
fn with_env() -> World {
    let world = World::without_sandbox(REGATTA);
    world.repo().commit_file(".worktreeinclude", ".env\n", "lanes get .env");
    world.repo().commit_file(".gitignore", ".env\n", "git ignores it");
    write(&world.root().join(".env"), "PASSWORD=hunter2-hunter2\n");
    world
}

#[track_caller]
fn assert_kept_out(world: &World, branch: &str) {
    let seen = world.repo().git(["log", "--full-history", "-m", "--format=%h %s", branch, "--", ".env"]);
    assert_eq!(seen, "", ".env is in the history of {branch}");
}

/// Commits the file, then other work; the last tree may or may not have the file.
const TAKE: &str =
    "git add -f .env; git commit -qm took\necho 1 > work.txt; git add work.txt; git commit -qm work";

#[test]
fn a_brought_in_file_stays_out_for_every_strategy() {
    for strategy in ["rebase", "squash", "merge"] {
        for after in
            ["", "git rm -q --cached .env; git commit -qm out", "git add -f .env", "echo 2 > more.txt"]
        {
            let world = with_env();
            world.config(&format!("land: {{ strategy: {strategy} }}\n"));
            let plan = world.plan(&task("a", "", &format!("{TAKE}\n{after}")));
            world.run(&plan, &[]).exited(0);
            assert_eq!(world.landed("work.txt").as_deref(), Some("1\n"), "{strategy} {after}");
            assert_kept_out(&world, "main");
        }
    }
}

#[test]
fn a_brought_in_file_that_is_only_staged_stays_out() {
    let world = with_env();
    let plan = world.plan(&task("a", "", "git add -f .env; echo 1 > work.txt"));
    world.run(&plan, &[]).exited(0);
    assert_eq!(world.landed("work.txt").as_deref(), Some("1\n"));
    assert_kept_out(&world, "main");
}

#[test]
fn a_brought_in_file_stays_out_when_work_lands_later() {
    for strategy in ["rebase", "merge"] {
        let world = with_env();
        world.config(&format!("land: {{ strategy: {strategy} }}\n"));
        let plan = world.plan(&task("a", "", TAKE));
        world.run(&plan, &["--no-land"]).exited(0);
        assert_kept_out(&world, "regatta/a");
        world.regatta(["land", "a"]).exited(0);
        assert_eq!(world.landed("work.txt").as_deref(), Some("1\n"));
        assert_kept_out(&world, "main");
    }
}

#[test]
fn a_brought_in_file_stays_out_after_a_failed_check() {
    let world = with_env();
    let script = format!("if [ ! -e work.txt ]; then {}; else echo 2 > ok.txt; fi", TAKE.replace('\n', "; "));
    let tasks = task("a", "max_attempts: 2\nchecks: [\"test -e ok.txt\"]", &script);
    let plan = world.plan(&tasks);
    world.run(&plan, &[]).exited(0);
    assert_eq!(world.landed("ok.txt").as_deref(), Some("2\n"));
    assert_kept_out(&world, "main");
}

#[test]
fn a_brought_in_file_stays_out_when_the_run_dies_after_the_commit() {
    for point in ["committed", "checked"] {
        let mut world = with_env();
        let plan = world.plan(&task("a", "", TAKE));
        world.env("REGATTA_FAILPOINT", point);
        world.run(&plan, &[]);
        world.env("REGATTA_FAILPOINT", "");
        world.run(&plan, &["--resume"]).exited(0);
        assert_eq!(world.landed("work.txt").as_deref(), Some("1\n"), "{point}");
        assert_kept_out(&world, "main");
    }
}

#[test]
fn a_merge_that_brings_it_in_by_the_back_door_is_cleaned() {
    let world = with_env();
    world.config("land: { strategy: merge }\n");
    // The other parent of an unfinished merge has it.
    let script = "git checkout -q --detach; git checkout -qb side; git add -f .env; git commit -qm took\n\
                  git checkout -q --detach HEAD~1; git merge -q --no-ff --no-commit side; echo 1 > work.txt";
    let plan = world.plan(&task("a", "", script));
    world.run(&plan, &[]).exited(0);
    assert_eq!(world.landed("work.txt").as_deref(), Some("1\n"));
    assert_kept_out(&world, "main");
}

#[test]
fn a_reader_that_writes_harms_no_other() {
    let world = World::without_sandbox(REGATTA);
    let (reads, writes) = (world.barrier("reads"), world.barrier("writes"));
    let reader = format!("{}\ntest ! -e x.txt && test -e README.md", reads.script());
    let writer = format!("echo x > x.txt; rm README.md\n{}", writes.script());
    let plan = world.plan(
        &[task("reads", "read_only: true", &reader), task("writes", "read_only: true", &writer)].concat(),
    );
    let run = world.start(&plan, &["-j", "2"]);
    reads.arrived();
    writes.arrived();
    writes.open();
    // The next one comes while the first is still running.
    reads.open();
    run.wait().exited(1);
    insta::assert_snapshot!(text(&world.task("writes")["reason"]), @"the task is read_only but 2 files changed, first README.md");
    world.assert_states(["reads done", "writes failed"]);
    world.assert_tidy();
}

#[test]
fn a_pipe_under_a_name_that_git_reads_holds_nobody_up() {
    let world = World::without_sandbox(REGATTA);
    let plan = task("ignored", "", "mkdir d; mkfifo d/.gitignore; echo 1 > d/one.txt")
        + &task("attributes", "", "mkfifo .gitattributes; echo 2 > two.txt")
        + &task("nested", "", "mkdir -p n/.git/objects n/.git/refs; mkfifo n/.git/HEAD; echo 3 > three.txt");
    world.run(&world.plan(&plan), &[]).exited(0);
    world.assert_states(["attributes landed", "ignored landed", "nested landed"]);
    for (file, text) in [("d/one.txt", "1\n"), ("two.txt", "2\n"), ("three.txt", "3\n")] {
        assert_eq!(world.landed(file).as_deref(), Some(text));
    }
}

#[test]
fn a_git_file_and_an_index_that_only_look_large_are_not_read() {
    let world = World::without_sandbox(REGATTA);
    // Neither takes space in the lane; a copy of the index would.
    let large = "truncate -s 3T \"$(git rev-parse --git-dir)/index\"; truncate -s 2T .git; echo x > x.txt";
    world.run(&world.plan(&task("a", "", large)), &[]).exited(0);
    assert_eq!(world.landed("x.txt").as_deref(), Some("x\n"));
}
