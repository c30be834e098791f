//! Agents that say one thing and do another, or break what they were given.

use std::fs;

use regatta_testkit::world::{World, task, text};

use crate::REGATTA;
use crate::agent_ends::notes;

/// A task beside the liar that has to remain unharmed.
fn bystander() -> String {
    task("bystander", "agent: sh", "sleep 0.3; echo fine >bystander.txt")
}

#[test]
fn words_alone_never_land_anything() {
    let cases = [
        // What is reported, how the agent ends, and the resulting state.
        ("no change", "agent: sim", "lie", "done"),
        (
            "pass and exit 1",
            "agent: sh",
            "regatta done --verdict pass --summary ok; echo x >x.txt; exit 1",
            "failed",
        ),
        (
            "block and exit 0",
            "agent: sh",
            "echo x >x.txt; regatta done --verdict block --summary no; exit 0",
            "failed",
        ),
        ("nonsense", "agent: sh\nverdict_adapter: chain", "echo x >x.txt; echo PASS", "blocked"),
        ("check fails", "agent: sh\nchecks: [\"test -f y.txt\"]", "echo x >x.txt", "failed"),
        (
            "check sees only what is committed",
            "agent: sh\nchecks: [\"test -f ignored.txt\"]",
            "echo ignored.txt >.gitignore; echo x >x.txt; mv x.txt ignored.txt",
            "failed",
        ),
        ("unknown", "agent: sh", "echo x >x.txt; regatta done --verdict unknown --summary eh", "blocked"),
    ];
    for (what, keys, script, state) in cases {
        let world = World::without_sandbox(REGATTA);
        let before = world.repo().rev("main");
        let ran = world.run(&world.plan(&task("a", keys, script)), &[]);
        assert_eq!(text(&world.task("a")["state"]), state, "{what}: {}", ran.stdout);
        if state != "landed" {
            assert_eq!(world.repo().rev("main"), before, "{what}");
        }
        assert_eq!(ran.code, i32::from(!matches!(state, "done" | "landed")), "{what}");
    }
}

#[test]
fn what_attempt_one_said_does_not_count_for_attempt_two() {
    for (adapter, say) in [
        ("marker-file", "printf 'Verdict: PASS\\n\\nSummary: fine\\n' >PARCEL_DONE-a.md"),
        ("db", "regatta done --verdict pass --summary fine"),
    ] {
        let world = World::without_sandbox(REGATTA);
        let script = format!("echo x >x.txt\nif [ $REGATTA_ATTEMPT = 1 ]; then {say}; exit 1; fi");
        let keys = format!("max_attempts: 2\nverdict_adapter: {adapter}");
        world.run(&world.plan(&task("a", &keys, &script)), &[]).exited(1);
        world.assert_states(["a blocked"]);
        assert_eq!(world.subjects("main").len(), 1, "{adapter}");
    }
}

#[test]
fn another_attempts_token_is_refused() {
    let world = World::without_sandbox(REGATTA);
    let script = "if [ $REGATTA_ATTEMPT = 1 ]; then echo $REGATTA_TOKEN >token; exit 1; fi\n\
                  REGATTA_TOKEN=$(cat token) REGATTA_ATTEMPT=1 regatta done --verdict pass --summary old; echo $? >old\n\
                  REGATTA_TOKEN=$(cat token) regatta done --verdict pass --summary mixed; echo $? >mixed\n\
                  REGATTA_TOKEN=0000 regatta done --verdict pass --summary made-up; echo $? >made-up\n\
                  REGATTA_TASK=b regatta done --verdict pass --summary other; echo $? >other\n\
                  rm token";
    let plan = world.plan(&[task("a", "max_attempts: 2", script), task("b", "deps: [a]", "true")].concat());
    world.run(&plan, &[]).exited(0);
    for file in ["old", "mixed", "made-up", "other"] {
        assert_eq!(world.landed(file).as_deref(), Some("6\n"), "{file}");
    }
}

#[test]
fn a_lane_that_was_mistreated_harms_nobody_else() {
    let commit = "git add -A && git -c user.name=x -c user.email=x@y commit -qm own";
    let cases = [
        // What the agent does, the resulting state, and a file that has to be on the target then.
        ("commits by itself", format!("echo x >x.txt; {commit}"), "landed", Some("x.txt")),
        ("commits and leaves more", format!("echo w >w.txt; {commit}; echo x >x.txt"), "landed", Some("x.txt")),
        ("a branch of its own", format!("git checkout -qb mine; echo x >x.txt; {commit}"), "landed", Some("x.txt")),
        ("resets its commit away", format!("echo w >w.txt; {commit}; git reset -q --hard HEAD~1; echo x >x.txt"), "landed", Some("x.txt")),
        ("loses its .git file", "rm .git; echo x >x.txt".into(), "landed", Some("x.txt")),
        ("makes its lane a repository", format!("rm .git; git init -q .; echo x >x.txt; {commit}"), "landed", Some("x.txt")),
        ("leaves an index.lock", "echo x >x.txt; touch $(git rev-parse --git-dir)/index.lock".into(), "landed", Some("x.txt")),
        ("empties its index", "echo x >x.txt; : >$(git rev-parse --git-dir)/index".into(), "landed", Some("x.txt")),
        ("makes a merge commit", format!("git checkout -qb side; echo s >s.txt; {commit}; git checkout -q --detach HEAD~1; echo x >x.txt; {commit}; git merge -q --no-edit side"), "landed", Some("x.txt")),
        ("leaves a merge unfinished", "git checkout -qb side; echo s >README.md; git commit -qam s; git checkout -q --detach HEAD~1; echo t >README.md; git commit -qam t; git merge -q side; true".into(), "failed", None),
        ("deletes its lane", "rm -rf \"$REGATTA_LANE\"".into(), "failed", None),
        ("puts a file in place of its lane", "cd /; rm -rf \"$REGATTA_LANE\"; echo x >\"$REGATTA_LANE\"".into(), "failed", None),
        ("is on an unborn branch", "git checkout -q --orphan side; git rm -rqf .; echo x >x.txt".into(), "failed", None),
        ("is on an orphan branch", format!("git checkout -q --orphan side; git rm -rqf .; echo x >x.txt; {commit}"), "landed", Some("x.txt")),
        ("has a repository inside", format!("mkdir n; git init -q n; echo n >n/n.txt; (cd n; {commit}); echo x >x.txt"), "landed", Some("x.txt")),
        ("tears its HEAD up", "echo garbage >$(git rev-parse --git-dir)/HEAD; echo x >x.txt".into(), "landed", Some("x.txt")),
        ("links its lane elsewhere", "cd /; mv \"$REGATTA_LANE\" \"$REGATTA_LANE.moved\"; ln -s \"$REGATTA_LANE.moved\" \"$REGATTA_LANE\"".into(), "failed", None),
    ];
    let world = World::without_sandbox(REGATTA);
    let name = |n: usize| format!("liar-{n}");
    let tasks: String = cases
        .iter()
        .enumerate()
        .map(|(n, (_, script, ..))| {
            task(
                &name(n),
                "",
                &script.replace("x.txt", &format!("x{n}.txt")).replace("side", &format!("side{n}")),
            )
        })
        .collect();
    let ran = world.run(&world.plan(&(tasks + &bystander())), &[]).exited(1);
    for (n, (what, _, state, file)) in cases.iter().enumerate() {
        let record = world.task(&name(n));
        assert_eq!(text(&record["state"]), *state, "{what}: {record:#}\n{}", ran.stdout);
        if let Some(file) = file {
            let file = file.replace("x.txt", &format!("x{n}.txt"));
            assert_eq!(world.landed(&file).as_deref(), Some("x\n"), "{what}");
        }
    }
    assert_eq!(world.landed("bystander.txt").as_deref(), Some("fine\n"));
    assert_eq!(world.landed("README.md").as_deref(), Some("hello\n"));
    world.assert_no_process();
    world.assert_sound();
}

#[test]
fn a_lane_made_again_has_the_users_files_again() {
    let world = World::without_sandbox(REGATTA);
    world.repo().write(".gitignore", ".env\n");
    world.repo().write(".worktreeinclude", ".env\n");
    world.repo().commit_all("include");
    world.repo().write(".env", "KEY=1\n");
    let script = "if [ $REGATTA_ATTEMPT = 1 ]; then rm -rf \"$REGATTA_LANE\"; exit 1; fi\ncat .env >seen.txt";
    world.run(&world.plan(&task("a", "max_attempts: 2", script)), &[]).exited(0);
    assert_eq!(world.landed("seen.txt").as_deref(), Some("KEY=1\n"));
    assert!(world.landed(".env").is_none());
}

#[test]
fn what_agents_plant_is_never_run_by_regatta() {
    let world = World::without_sandbox(REGATTA);
    let proof = world.outside("executed");
    let touch = format!("echo planted >>'{}'", proof.display());
    let script = format!(
        r#"common=$(git rev-parse --path-format=absolute --git-common-dir)
mkdir -p "$common/hooks" "$PWD/hooks"
for hook in pre-commit commit-msg post-commit post-checkout reference-transaction post-index-change pre-push post-merge post-rewrite; do
  for dir in "$common/hooks" "$PWD/hooks"; do
    printf '#!/bin/sh\n%s\n' "{touch}" >"$dir/$hook"
    chmod +x "$dir/$hook"
  done
done
printf '#!/bin/sh\n%s\ncat\n' "{touch}" >evil.sh
chmod +x evil.sh
git config core.fsmonitor "$PWD/evil.sh"
git config core.hooksPath "$PWD/hooks"
git config filter.evil.clean "$PWD/evil.sh"
git config filter.evil.smudge "$PWD/evil.sh"
git config filter.evil.process "$PWD/evil.sh"
git config diff.external "$PWD/evil.sh"
git config merge.evil.driver "$PWD/evil.sh"
git config core.sshCommand "$PWD/evil.sh"
git config core.editor "$PWD/evil.sh"
git config core.pager "$PWD/evil.sh"
git config gpg.program "$PWD/evil.sh"
git config commit.gpgSign true
git config user.name Mallory
printf '*.txt filter=evil diff=evil merge=evil\n' >.gitattributes
echo x >x.txt
rm -rf hooks evil.sh.bak"#
    );
    let plan = world.plan(
        &[
            task("planter", "max_attempts: 2", &script),
            task("after", "deps: [planter]", "echo after >after.txt"),
            task("beside", "", "sleep 0.5; echo beside >beside.txt"),
        ]
        .concat(),
    );
    let ran = world.run(&plan, &[]).exited(0);
    let executed = fs::read_to_string(&proof).unwrap_or_default();
    assert_eq!(executed, "", "planted code ran: {}", ran.stdout);
    assert_eq!(world.landed("after.txt").as_deref(), Some("after\n"));
    assert_eq!(world.landed("beside.txt").as_deref(), Some("beside\n"));
    let authors = world.repo().git(["log", "--format=%an", "main"]);
    assert!(!authors.contains("Mallory"), "{authors}");
}

/// Commits on the target branch.
const STEAL: &str =
    "git checkout -q --ignore-other-worktrees main\necho x >stolen.txt\ngit add .\ngit commit -qm stolen";

#[test]
fn the_target_branch_that_an_agent_takes_is_its_lanes_own() {
    let world = World::without_sandbox(REGATTA);
    world.config("land: { test_command: \"test ! -e stolen.txt\" }\n");
    world.run(&world.plan(&task("thief", "max_attempts: 1", STEAL)), &[]).exited(1);
    assert_eq!(world.subjects("main").len(), 2, "it was tested, and did not land");
    world.config("land: { auto: true }\n");
    world.run(&world.plan(&task("honest", "", STEAL)), &[]).exited(0);
    assert_eq!(world.landed("stolen.txt").as_deref(), Some("x\n"));
}

#[test]
fn an_agent_that_takes_the_target_branch_in_a_lane_of_an_older_version_has_failed() {
    let world = World::without_sandbox(REGATTA);
    world.run(&world.plan(&task("z", "", "echo z > z.txt")), &[]).exited(0);
    world.old_lane("thief");
    let script = STEAL;
    let plan = world.plan(&task("thief", "max_attempts: 1", script));
    world.run(&plan, &[]).exited(1);
    let thief = world.task("thief");
    assert_eq!(text(&thief["state"]), "failed");
    insta::assert_snapshot!(text(&thief["reason"]), @"it checked out main in its lane: its commits are on that branch, untested");
}

#[test]
fn conflict_marks_that_an_agent_left_behind_do_not_land() {
    let world = World::without_sandbox(REGATTA);
    world.repo().commit_file("menu.txt", "soup\n", "menu");
    let marks = r"printf '<<<<<<< HEAD\nsoup\n=======\nsalad\n>>>>>>> theirs\n'";
    let keys = "agent: sh\nmax_attempts: 1";
    let plan = [
        task("left", keys, &format!("{marks} >menu.txt")),
        task("fixture", keys, &format!("{marks} >fixture.txt")),
        task("title", keys, "printf 'Menu\n=======\nsoup\n' >title.txt"),
    ];
    world.run(&world.plan(&plan.concat()), &[]).exited(1);
    insta::assert_snapshot!(text(&world.task("left")["reason"]), @"conflict marks are left in menu.txt");
    // A new file may be about conflict markers: it lands, with a note.
    world.assert_states(["fixture landed", "left failed", "title landed"]);
    let attempt = &world.task("fixture")["attempts"][0];
    assert_eq!(text(&attempt["verdict"]), "warn", "{attempt:#}");
    insta::assert_snapshot!(notes(&world, "fixture"), @"there are conflict marks in new files: fixture.txt");
    assert_eq!(text(&world.task("title")["attempts"][0]["verdict"]), "pass");
    world.assert_sound();
}
