//! What an agent of one run leaves behind for the next.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use regatta_testkit::shown::shown;
use regatta_testkit::world::{World, task, text};

use super::REGATTA;

/// The project's own git directory, as an agent without a sandbox finds it from its lane.
const PROJECT: &str = r#"common=$(dirname "$(cat "$(git rev-parse --git-dir)/objects/info/alternates")")"#;

/// Plants a filter, a hook and a signing program that leave a proof in `$PROOF`.
fn planting(world: &World) -> String {
    let proof = world.outside("executed");
    format!(
        r#"{PROJECT}
printf '#!/bin/sh\necho planted >>"{proof}"\ncat\n' >"$common/evil.sh"
chmod +x "$common/evil.sh"
mkdir -p "$common/hooks"
cp "$common/evil.sh" "$common/hooks/pre-commit"
for dir in "$common" "$(git rev-parse --git-dir)"; do
    git --git-dir="$dir" config filter.evil.clean "$common/evil.sh"
    git --git-dir="$dir" config filter.evil.smudge "$common/evil.sh"
    git --git-dir="$dir" config gpg.program "$common/evil.sh"
    git --git-dir="$dir" config commit.gpgSign true
done
printf '*.txt filter=evil\n' >.gitattributes
echo x >x.txt"#,
        proof = proof.display()
    )
}

fn write(id: &str) -> String {
    task(id, "", &format!("echo {id} > {id}.txt"))
}

#[test]
fn what_one_run_planted_does_not_run_in_the_next() {
    let world = World::without_sandbox(REGATTA);
    world.run(&world.plan(&task("planter", "", &planting(&world))), &[]).exited(0);
    let proof = world.outside("executed");
    for _ in 0..2 {
        let refused = world.run(&world.plan(&write("b")), &[]);
        insta::allow_duplicates! {
            insta::assert_snapshot!(refused.shown(), @"
            --- stderr
            error: git settings or hooks that can run a program changed since you last trusted them: filter.evil.clean, filter.evil.smudge, gpg.program, hooks/pre-commit
            hint: `regatta trust` shows what changed and records your answer; undo the changes if an agent made them
            --- exit 6
            ");
        }
    }
    world.regatta(["daemon", "start"]).exited(6);
    for look in [&["doctor"][..], &["diff", "planter"], &["lane", "list"], &["trust", "--show"]] {
        world.regatta(look);
    }
    assert!(!proof.exists(), "what was planted ran");
    // The user agrees, and from then on the settings are the user's own.
    world.regatta(["trust", "--yes"]).exited(0);
    let _signed = world.run(&world.plan(&write("b")), &[]);
    assert!(proof.exists());
}

#[test]
fn a_run_that_starts_beside_a_planter_changes_nothing_for_it() {
    let world = World::without_sandbox(REGATTA);
    let planted = world.barrier("planted");
    let script = format!("{}\n{}\necho more > more.txt", planting(&world), planted.script());
    let one = world.start(&world.plan(&task("planter", "", &script)), &[]);
    planted.arrived();
    let other = world.outside("other.md");
    fs::copy(world.plan(&write("b")), &other).expect("it can be copied");
    world.run(&other, &[]).exited(6);
    world.run(&other, &["--resume"]);
    planted.open();
    one.wait().exited(0);
    assert!(!world.outside("executed").exists(), "what was planted ran");
}

#[test]
fn a_push_goes_where_the_user_said() {
    let mut world = World::without_sandbox(REGATTA);
    let origin = world.remote();
    let elsewhere = world.outside("elsewhere.git");
    world.repo().git(["init", "-q", "--bare", elsewhere.to_str().expect("it is text")]);
    let script = format!(
        "{PROJECT}\ngit --git-dir=\"$common\" config remote.origin.pushurl {}\necho a > a.txt",
        elsewhere.display()
    );
    world.run(&world.plan(&task("a", "", &script)), &[]).exited(0);
    insta::assert_snapshot!(world.run(&world.plan(&write("b")), &[]).shown(), @"
    --- stderr
    error: git settings or hooks that can run a program changed since you last trusted them: remote.origin.pushurl
    hint: `regatta trust` shows what changed and records your answer; undo the changes if an agent made them
    --- exit 6
    ");
    insta::assert_snapshot!(shown(&world.run(&world.plan(&write("b")), &["--resume"]).exited(0).stderr), @"warning: git settings or hooks changed since you last trusted them, and are not used: remote.origin.pushurl; `regatta trust` shows them");
    let log = |dir: &std::path::Path| world.repo().git_in(dir, ["log", "--all", "--format=%s"]);
    assert!(log(&origin).lines().count() >= 3, "{}", log(&origin));
    assert_eq!(log(&elsewhere), "");
}

#[test]
fn hooks_that_an_agent_committed_do_not_run() {
    let world = World::without_sandbox(REGATTA);
    let proof = world.outside("hooks-ran");
    let hook = |word: &str| format!("#!/bin/sh\necho {word} >>'{}'\n", proof.display());
    world.repo().write(".husky/pre-commit", hook("user"));
    let path = world.root().join(".husky/pre-commit");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is ours");
    world.repo().commit_all("hooks");
    world.repo().git(["config", "core.hooksPath", ".husky"]);
    // The agent's own commit skips the hooks, so that only Regatta's commits count.
    let evil = hook("agent").replace('\n', "\\n");
    let script =
        format!("printf '{evil}' > .husky/pre-commit\ngit -c core.hooksPath=/dev/null commit -qam evil");
    let tasks = task("a", "max_attempts: 1", &script) + &task("b", "deps: [a]", "echo b > b.txt");
    world.run(&world.plan(&tasks), &[]);
    let words = fs::read_to_string(&proof).unwrap_or_default();
    assert!(!words.contains("agent"), "{words}");
    // If it has landed, the next start asks.
    if world.landed(".husky/pre-commit").is_some_and(|text| text.contains("agent")) {
        world.run(&world.plan(&write("c")), &[]).exited(6);
    }
}

#[test]
fn a_car_that_brings_a_state_directory_leaves_the_train() {
    let world = World::without_sandbox(REGATTA);
    let plan = ["a", "b"].map(|id| task(id, "", &format!("echo {id} >{id}.txt"))).concat();
    world.run(&world.plan(&plan), &["--no-land"]).exited(0);
    world.regatta(["land", "--no-wait", "a", "b"]).exited(0);
    // A car that another version approved.
    let other = world.outside("other");
    let at = other.display().to_string();
    world.repo().git(["worktree", "add", "-q", "--detach", &at, "regatta/a"]);
    regatta_testkit::repo::write(&other.join(".Regatta/bin/git"), "x");
    world.repo().git(["-C", &at, "add", "-f", ".Regatta"]);
    world.repo().git(["-C", &at, "commit", "-qm", "state"]);
    let head = world.repo().git(["-C", &at, "rev-parse", "HEAD"]);
    let sql = "update car set request = json_set(request, '$.head', ?1)
               where task = (select seq from task where id = 'a')";
    assert_eq!(world.database().execute(sql, [&head]), Ok(1));
    insta::assert_snapshot!(world.regatta(["land", "a", "b"]).shown(), @"
    a is blocked (policy): its commits contain .regatta, which is Regatta's own state and never lands; its work is on regatta/a
    b landed on main as HASH
    --- exit 1
    ");
    world.assert_states(["a blocked", "b landed"]);
    let files = world.repo().git(["ls-tree", "-r", "--name-only", "main"]);
    assert_eq!(files, "README.md\nb.txt");
    assert!(!world.root().join(".Regatta").exists());
    insta::assert_snapshot!(text(&world.task("a")["reason"]), @"policy: its commits contain .regatta, which is Regatta's own state and never lands; its work is on regatta/a");
}

#[test]
fn a_state_directory_that_an_agent_commits_does_not_land() {
    let world = World::without_sandbox(REGATTA);
    let script =
        "mkdir -p .regatta/bin\nprintf 'x' > .regatta/bin/git\ngit add -f .regatta\ngit commit -qm state";
    world.run(&world.plan(&task("a", "max_attempts: 1", script)), &[]).exited(1);
    assert_eq!(world.landed(".regatta/bin/git"), None);
    // Files that are only left in the lane are not committed.
    let left = "mkdir -p .regatta/bin\nprintf 'x' > .regatta/bin/git\necho b > b.txt";
    world.run(&world.plan(&task("b", "max_attempts: 1", left)), &[]).exited(0);
    assert_eq!(world.landed(".regatta/bin/git"), None);
    assert_eq!(world.landed("b.txt").as_deref(), Some("b\n"));
}

#[test]
fn settings_that_an_agent_changed_wait_for_the_user() {
    let world = World::without_sandbox(REGATTA);
    let proof = world.outside("setup-ran");
    world.config("land: { auto: true }\nlane: { setup: \"true\" }\n");
    let evil = format!("lane: {{ setup: \"echo ran >>{}\" }}", proof.display());
    // Changed by a landing, which needs a person.
    world.run(&world.plan(&task("a", "", &format!("echo '{evil}' > regatta.yaml"))), &[]).exited(1);
    world.regatta(["land", "a"]).exited(0);
    assert!(world.landed("regatta.yaml").is_some_and(|text| text.contains("setup-ran")));
    insta::assert_snapshot!(world.run(&world.plan(&write("b")), &[]).shown(), @"
    --- stderr
    error: regatta.yaml came with a clone, a pull, a merge or a landing, and you have not agreed to what it runs or allows: lane.setup: echo ran >>DIR/setup-ran
    hint: read it, then `regatta trust` records that you agree; in scripts: --trust, or REGATTA_TRUST=1
    --- exit 6
    ");
    world.regatta(["add", "more"]).exited(6);
    // Changed in the user's own checkout, while the agent was running.
    world.config("lane: { setup: \"true\" }\n");
    world.run(&world.plan(&write("c")), &[]).exited(0);
    let yaml = world.root().join("regatta.yaml");
    let script = format!("echo '{evil}' > '{}'\necho d > d.txt", yaml.display());
    let _landed_or_not = world.run(&world.plan(&task("d", "", &script)), &[]);
    insta::assert_snapshot!(world.run(&world.plan(&write("e")), &[]).shown(), @"
    --- stderr
    error: regatta.yaml changed while an agent was running, and you have not agreed to what it runs or allows: lane.setup: echo ran >>DIR/setup-ran
    hint: read it, then `regatta trust` records that you agree; in scripts: --trust, or REGATTA_TRUST=1
    --- exit 6
    ");
    assert!(!proof.exists());
}
