//! A lane's git directory is the agent's; nothing in it reaches the user's repository, the user, or the next task.

use std::fs;
use std::path::Path;

use regatta_testkit::repo::{ScratchRepo, script};
use regatta_testkit::world::{World, task};

use super::REGATTA;

#[test]
fn whatever_an_agent_does_with_git_works_and_only_its_work_lands() {
    let world = World::without_sandbox(REGATTA);
    world.repo().git(["branch", "users"]);
    let said = world.outside("said");
    let body = format!(
        "exec 2>'{}'\n\
         git status -s; echo 1 > a.txt; git add a.txt; git commit -qm one\n\
         echo 2 > a.txt; git commit -qam two --amend; echo b > b.txt; git add -A; git stash -q; git stash pop -q\n\
         git switch -qc topic; git commit -qm b; git tag mine; git reset -q --soft HEAD~1; git commit -qm again\n\
         git rebase -q main; git branch -D users -q; git clone -q . ../copy-$REGATTA_TASK; rm -rf ../copy-$REGATTA_TASK\n\
         git gc -q; git fsck --no-dangling",
        said.display()
    );
    world.run(&world.plan(&task("a", "", &body)), &[]).exited(0);
    world.assert_states(["a landed"]);
    assert_eq!(fs::read_to_string(said).unwrap(), "", "git printed nothing odd");
    assert_eq!(world.landed("a.txt").as_deref(), Some("2\n"));
    let refs = world.repo().git(["for-each-ref", "--format=%(refname)"]);
    assert!(refs.contains("refs/heads/users") && !refs.contains("topic") && !refs.contains("mine"), "{refs}");
    world.repo().git(["fsck", "--no-dangling"]);
}

#[test]
fn what_an_agent_plants_in_its_lane_does_not_run_when_a_person_looks() {
    let world = World::without_sandbox(REGATTA);
    let (proof, evil, hooks) = (world.outside("executed"), world.outside("evil.sh"), world.outside("hooks"));
    script(&evil, &format!("echo ran >> '{}'; cat", proof.display()));
    script(&hooks.join("post-index-change"), &format!("echo ran >> '{}'", proof.display()));
    let plant = format!(
        "git config filter.evil.clean '{0}'; git config core.hooksPath '{1}'; git config core.fsmonitor '{0}'\n\
         dir=$(git rev-parse --git-dir); mkdir -p $dir/info; echo '* filter=evil' > $dir/info/attributes\n\
         cp '{1}/post-index-change' $dir/hooks/ 2>/dev/null; cp -r $dir/config ../stolen-config\n\
         echo x > x.txt; rm -f '{2}'; exit 1",
        evil.display(),
        hooks.display(),
        proof.display()
    );
    world.run(&world.plan(&task("a", "max_attempts: 1", &plant)), &[]).exited(1);
    let lane = world.lanes().join("a");
    assert!(lane.join("x.txt").is_file(), "its lane is kept");
    for look in [&["status"][..], &["diff"], &["add", "-n", "."], &["log", "-1"]] {
        world.repo().git_in(&lane, look);
    }
    for look in [&["diff", "a"][..], &["lane", "list"], &["radar"]] {
        world.regatta(look);
    }
    assert!(!proof.exists(), "what was planted ran");
}

#[test]
fn branches_and_stashes_that_an_agent_leaves_are_saved_when_its_lane_goes() {
    let world = World::without_sandbox(REGATTA);
    let body = "git switch -qc side; echo s > side.txt; git add -A; git commit -qm 'a side branch'; git checkout -q --detach HEAD~1\n\
                echo changed > README.md; git stash push -qm 'a thought'; echo a > a.txt";
    world.run(&world.plan(&task("a", "", body)), &[]).exited(0);
    world.assert_states(["a landed"]);
    assert_eq!(world.landed("side.txt"), None);
    world.repo().git(["gc", "-q", "--prune=now"]);
    let saved = world.regatta(["salvage", "list"]).exited(0).stdout;
    assert!(saved.contains("a side branch") && saved.contains("a thought"), "{saved}");
    let refs = world.repo().git(["for-each-ref", "--format=%(refname)", "refs/regatta/salvage/a/"]);
    let has = |file: &str| {
        refs.lines().any(|name| {
            world
                .repo()
                .try_git(world.root(), &["cat-file", "-e", &format!("{name}:{file}")])
                .status
                .success()
        })
    };
    assert!(has("side.txt"), "{refs}");
}

#[test]
fn nothing_of_one_tasks_git_directory_is_in_the_next_tasks() {
    let world = World::around(REGATTA, ScratchRepo::below(Path::new(env!("CARGO_TARGET_TMPDIR"))));
    world.config("max_workers: 1\nlane: { pool: 4 }\n");
    let leave = "echo s > s.txt; git add -A; git stash -q; git branch leftover; git tag leftover-tag\n\
                 git config user.name Mallory; git config alias.x '!true'; dir=$(git rev-parse --git-dir)\n\
                 printf '#!/bin/sh\\nexit 1\\n' > $dir/hooks/pre-commit; chmod +x $dir/hooks/pre-commit\n\
                 echo '*.txt' > $dir/info/exclude; echo hello | git hash-object -w --stdin > ../blob; echo a > a.md";
    let look = "test -z \"$(git stash list)\"; test -z \"$(git branch --list leftover)$(git tag)\"\n\
                test \"$(git config user.name)\" != Mallory; ! git config alias.x; test ! -e $(git rev-parse --git-dir)/hooks/pre-commit\n\
                ! git cat-file -e $(cat ../blob); echo b > b.txt; test -n \"$(git status --porcelain)\"";
    let tasks = task("a", "", leave) + &task("b", "deps: [a]", &format!("set -e\n{look}"));
    world.run(&world.plan(&tasks), &[]).exited(0);
    world.assert_states(["a landed", "b landed"]);
}
