//! Repositories of every form, and what lanes are given and keep.

use std::fs;

use regatta_testkit::repo::{ScratchRepo, script, write};
use regatta_testkit::world::{World, task, text};

use crate::REGATTA;

fn one() -> String {
    task("a", "", "echo a >a.txt")
}

#[test]
fn odd_names_of_repositories_branches_and_files_are_fine() {
    for (name, branch) in
        [("with space", "trunk"), ("ünï—cødé 船", "feature/ünï"), ("-dash", "v1.0"), ("quo'te\"d", "a-b")]
    {
        let repo = ScratchRepo::at(name, branch, &[]);
        repo.write("ready made/名前 \"x\".txt", "x\n");
        repo.commit_all("first");
        let world = World::around(REGATTA, repo);
        let plan = world.plan(&task("a", "", "mkdir -p 'new dir'; echo ü >'new dir/ünï \"q\" -x.txt'; cp ready*/*.txt copy.txt; printf x >\"$(printf 'tab\\there')\""));
        world.run(&plan, &[]).exited(0);
        let files = world.repo().git(["-c", "core.quotePath=false", "ls-tree", "-rz", "--name-only", branch]);
        assert_eq!(
            files.split_terminator('\0').collect::<Vec<_>>(),
            ["copy.txt", "new dir/ünï \"q\" -x.txt", "ready made/名前 \"x\".txt", "tab\there"],
            "{name}"
        );
        assert_eq!(world.repo().git(["status", "--porcelain"]), "", "{name}");
        world.assert_tidy();
    }
}

#[test]
fn a_subdirectory_and_a_linked_worktree_are_the_same_project() {
    let world = World::new(REGATTA);
    world.repo().commit_file("deep/er/file.txt", "x\n", "deep");
    let plan = world.plan(&one());
    world.regatta_in(&world.root().join("deep/er"), ["run".as_ref(), plan.as_os_str()]).exited(0);
    assert_eq!(world.landed("a.txt").as_deref(), Some("a\n"));
    let linked = world.outside("linked");
    world.repo().git(["worktree", "add", "-q", "-b", "side", linked.to_str().unwrap()]);
    let plan = world.plan(&task("b", "", "echo b >b.txt"));
    world.regatta_in(&linked, ["run".as_ref(), plan.as_os_str()]).exited(0);
    let side = world.repo().git_in(&linked, ["log", "-1", "--format=%s"]);
    let main = world.repo().git(["log", "-1", "--format=%s", "main"]);
    assert!(side.contains("(b)") || main.contains("(b)"), "{side} / {main}");
    assert_eq!(world.repo().git_in(&linked, ["status", "--porcelain"]), "");
    world.assert_no_process();
}

#[test]
fn submodules_are_there_and_a_commit_in_the_outer_repository_lands() {
    let world = World::new(REGATTA);
    let inner = world.outside("inner");
    fs::create_dir_all(&inner).unwrap();
    world.repo().git_in(&inner, ["init", "-q", "-b", "main"]);
    write(&inner.join("lib.txt"), "lib\n");
    world.repo().git_in(&inner, ["add", "-A"]);
    world.repo().git_in(&inner, ["-c", "user.name=x", "-c", "user.email=x@y", "commit", "-qm", "lib"]);
    let inner = inner.to_str().unwrap();
    world.repo().git(["-c", "protocol.file.allow=always", "submodule", "add", "-q", inner, "vendor/inner"]);
    world.repo().commit_all("submodule");
    world.run(&world.plan(&task("a", "", "cat vendor/inner/lib.txt >a.txt")), &[]).exited(0);
    assert_eq!(world.landed("a.txt").as_deref(), Some("lib\n"));
    assert_eq!(world.repo().git(["status", "--porcelain"]), "");
    world.assert_tidy();
}

#[test]
fn what_cannot_work_is_said_with_the_next_step() {
    let empty = World::around(REGATTA, ScratchRepo::empty("main"));
    insta::assert_snapshot!(empty.run(&empty.plan(&one()), &[]).shown(), @"
    --- stderr
    error: the repository is empty: branch main has no commit yet
    hint: make a first commit: git commit --allow-empty -m init
    --- exit 7
    ");
    let detached = World::new(REGATTA);
    detached.repo().git(["checkout", "-q", "--detach"]);
    insta::assert_snapshot!(detached.run(&detached.plan(&one()), &[]).shown(), @"
    --- stderr
    error: HEAD is detached, so there is no branch to land on
    hint: name one: --target BRANCH, or `target:` in regatta.yaml, or check a branch out: git switch main
    --- exit 7
    ");
    detached.run(&detached.plan(&one()), &["--target", "main"]).exited(0);
    let bare = World::around(REGATTA, ScratchRepo::at("bare", "main", &["--bare"]));
    insta::assert_snapshot!(bare.run(&bare.plan(&one()), &[]).shown(), @"
    --- stderr
    error: could not work in DIR/bare: it is a bare repository; start from one of its worktrees
    hint: work from a checkout: git worktree add ../work
    --- exit 7
    ");
    let none = World::new(REGATTA);
    let plan = none.plan(&one());
    insta::assert_snapshot!(none.regatta_in(&none.outside("home"), ["run".as_ref(), plan.as_os_str()]).shown(), @"
    --- stderr
    error: DIR/home is not in a git repository
    hint: change to a git repository, or create one: git init
    --- exit 7
    ");
    let target = World::new(REGATTA);
    insta::assert_snapshot!(target.run(&target.plan(&one()), &["--target", "nowhere"]).shown(), @"
    --- stderr
    error: there is no branch nowhere to land on
    hint: name another: --target BRANCH, or `target:` in regatta.yaml
    --- exit 7
    ");
    for world in [&empty, &none, &target] {
        assert!(!world.root().join(".regatta").exists(), "nothing was touched");
    }
}

#[test]
fn with_a_remote_nothing_is_pushed_and_no_tracking_is_set_up() {
    let world = World::new(REGATTA);
    let remote = world.outside("remote.git");
    world.repo().git(["init", "-q", "--bare", remote.to_str().unwrap()]);
    world.repo().git(["remote", "add", "origin", remote.to_str().unwrap()]);
    world.repo().git(["push", "-q", "-u", "origin", "main"]);
    world.repo().git(["config", "branch.autoSetupMerge", "always"]);
    let config = fs::read(world.root().join(".git/config")).unwrap();
    let before = world.repo().git(["ls-remote", "origin"]);
    world.run(&world.plan(&one()), &[]).exited(0);
    assert_eq!(world.repo().git(["ls-remote", "origin"]), before);
    assert_eq!(
        fs::read(world.root().join(".git/config")).unwrap(),
        config,
        "the configuration is the user's"
    );
    world.assert_tidy();
}

#[test]
fn what_is_brought_into_lanes_is_there_and_never_committed() {
    let world = World::new(REGATTA);
    world.repo().write(".gitignore", ".env*\nnode_modules/\n");
    world.repo().write(".worktreeinclude", ".env.local\nsecrets/**\n");
    world.repo().write(
        "regatta.yaml",
        "lane: { include: [.env], link: [node_modules], setup: \"echo ready >.setup-ran; test -f .env\" }\n",
    );
    world.repo().commit_all("settings");
    for (file, content) in [
        (".env", "A=1\n"),
        (".env.local", "B=2\n"),
        ("secrets/deep/key", "k\n"),
        ("node_modules/m/index.js", "m\n"),
        (".claude/agents/tester.md", "persona\n"),
        (".claude/settings.local.json", "{}\n"),
    ] {
        world.repo().write(file, content);
    }
    let plan = world.plan(&task(
        "a",
        "",
        "cat .env .env.local secrets/deep/key node_modules/m/index.js .claude/agents/tester.md >a.txt && git add -A && git commit -qm own && echo b >b.txt",
    ));
    world.run(&plan, &[]).exited(0);
    assert_eq!(world.landed("a.txt").as_deref(), Some("A=1\nB=2\nk\nm\npersona\n"));
    let files = world.repo().git(["ls-tree", "-r", "--name-only", "main"]);
    let brought: Vec<&str> = files
        .lines()
        .filter(|file| {
            file.contains("secrets")
                || file.contains(".claude")
                || file.ends_with(".env")
                || file.contains("node_modules")
                || file.contains(".local")
        })
        .collect();
    assert!(brought.is_empty(), "{brought:?}");
    let everywhere = world.repo().git(["log", "--all", "--name-only", "--format="]);
    assert!(!everywhere.contains("secrets/deep/key"), "{everywhere}");
    assert_eq!(fs::read_to_string(world.root().join("node_modules/m/index.js")).unwrap(), "m\n");
}

#[test]
fn a_setup_that_fails_is_a_work_failure_and_is_tried_again() {
    let world = World::new(REGATTA);
    let flag = world.outside("flag");
    world.config(&format!(
        "lane: {{ setup: \"echo no luck; if [ -f '{0}' ]; then exit 0; fi; touch '{0}'; exit 9\" }}\n",
        flag.display()
    ));
    insta::assert_snapshot!(world.run(&world.plan(&task("a", "max_attempts: 2", "echo a >a.txt")), &[]).shown(), @"
    test → main: 1 task
        TIME a  will be retried (work): lane.setup `echo no luck; if [ -f 'DIR/flag' ]; then exit 0; fi; touch 'DIR/flag'; exit 9` ended with exit 9: no luck
        TIME a #2  agent started, process PID
        TIME a #2  landed on main as HASH

    ✓ a landed HASH

    1 landed in TIME on main
    ");
    assert_eq!(world.task("a")["attempts"][0]["charged"], true);
    world.assert_tidy();
    fs::remove_file(&flag).unwrap();
    insta::assert_snapshot!(world.run(&world.plan(&task("b", "max_attempts: 1", "echo b >b.txt")), &[]).shown(), @"
    test → main: 1 task
        TIME b  failed: lane.setup `echo no luck; if [ -f 'DIR/flag' ]; then exit 0; fi; touch 'DIR/flag'; exit 9` ended with exit 9: no luck

    ✕ b failed

    ✕ b failed: lane.setup `echo no luck; if [ -f 'DIR/flag' ]; then exit 0; fi; touch 'DIR/flag'; exit 9` ended with exit 9: no luck
    1 failed in TIME on main
    --- stderr
    hint: `regatta status ID` and `regatta logs ID` show why; `regatta run --resume DIR/plan.md` retries
    --- exit 1
    ");
    assert_eq!(text(&world.task("b")["state"]), "failed");
}

#[test]
fn refused_commits_keep_the_work_in_the_lane_and_in_a_salvage_ref() {
    let mut all = String::new();
    for what in ["pre-commit", "commit-msg", "signing"] {
        let world = World::new(REGATTA);
        if what == "signing" {
            world.repo().git(["config", "commit.gpgSign", "true"]);
            let gpg = world.outside("gpg");
            script(&gpg, "echo no secret key >&2; exit 2");
            world.repo().git(["config", "gpg.program", gpg.to_str().unwrap()]);
        } else {
            script(&world.root().join(".git/hooks").join(what), "echo the linter is unhappy >&2; exit 1");
        }
        let plan = world.plan(&task(
            "a",
            "max_attempts: 2",
            "echo $REGATTA_ATTEMPT >>a.txt; printf '%s' \"$REGATTA_GUIDANCE\" >guidance.txt",
        ));
        world.run(&plan, &[]).exited(1);
        world.assert_states(["a failed"]);
        assert_eq!(world.subjects("main").len(), 1, "{what}");
        let kept = world.salvaged();
        assert!(!kept.is_empty(), "{what}");
        let last = kept.last().unwrap();
        assert_eq!(world.repo().git(["show", &format!("{last}:a.txt")]), "1\n2", "{what}");
        let lane = world.lanes().join("a");
        assert_eq!(fs::read_to_string(lane.join("a.txt")).unwrap(), "1\n2\n", "{what}");
        let guidance = fs::read_to_string(lane.join("guidance.txt")).unwrap();
        if what == "signing" {
            // The rest is git's, in its own words.
            let expected = "Attempt 1 did not succeed: the commit was refused by signing: ";
            assert!(guidance.starts_with(expected), "{guidance}");
        } else {
            all += &format!("── {what}\n{guidance}\n");
        }
    }
    insta::assert_snapshot!(all, @"
    ── pre-commit
    Attempt 1 did not succeed: the commit was refused by the pre-commit hook: the linter is unhappy

    The commit was refused by the pre-commit hook:
    the linter is unhappy
    (exit 1)

    What that attempt left is still in this working directory. Fix it and finish the task.

    ── commit-msg
    Attempt 1 did not succeed: the commit was refused by the commit-msg hook: the linter is unhappy

    The commit was refused by the commit-msg hook:
    the linter is unhappy
    (exit 1)

    What that attempt left is still in this working directory. Fix it and finish the task.

    ");
}

#[test]
fn a_hook_that_passes_runs_on_the_users_behalf() {
    let world = World::new(REGATTA);
    let seen = world.outside("seen");
    script(&world.root().join(".git/hooks/pre-commit"), &format!("pwd >>'{}'", seen.display()));
    script(&world.root().join(".git/hooks/commit-msg"), "echo 'Reviewed-by: hook' >>\"$1\"");
    world.run(&world.plan(&one()), &[]).exited(0);
    assert_eq!(fs::read_to_string(&seen).unwrap().lines().count(), 1);
    insta::assert_snapshot!(world.repo().git(["log", "-1", "--format=%B", "main"]), @"
    feat(a): echo a >a.txt

    Reviewed-by: hook
    Regatta-Task: a
    Regatta-Attempt: 1
    Regatta-Verdict: pass
    ");
}
