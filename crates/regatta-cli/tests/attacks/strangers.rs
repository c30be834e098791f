//! A stranger's repository: what came with a clone, an archive or a commit runs only after the user agreed.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use regatta_testkit::shown::{shown, told};
use regatta_testkit::world::{Ran, World, task};

use super::REGATTA;

/// A program at `path` that leaves a proof that it ran.
fn trap(path: &Path, proof: &Path) {
    fs::create_dir_all(path.parent().expect("it has a directory")).expect("it can be made");
    fs::write(path, format!("#!/bin/sh\necho ran >>'{}'\ncat >/dev/null\n", proof.display()))
        .expect("it can be written");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("it is ours");
}

/// A world and a clone of its repository.
fn cloned(world: &World) -> PathBuf {
    let clone = world.outside("clone");
    world.repo().git_in(world.root(), ["clone", "-q", ".", clone.to_str().expect("it is text")]);
    world.repo().git_in(&clone, ["config", "user.name", "Ada"]);
    world.repo().git_in(&clone, ["config", "user.email", "ada@example.org"]);
    clone
}

/// Every command that only reads.
const LOOKS: [&[&str]; 12] = [
    &["list"],
    &["status", "x"],
    &["doctor"],
    &["logs", "x"],
    &["diff", "x"],
    &["report"],
    &["events"],
    &["config", "show"],
    &["summary"],
    &["cost"],
    &["lane", "list"],
    &["trust", "--show"],
];

fn run_in(world: &World, dir: &Path, plan: &Path, flags: &[&str]) -> Ran {
    let mut args = vec!["run", "--no-dashboard"];
    args.extend(flags);
    args.push(plan.to_str().expect("it is text"));
    world.regatta_in(dir, args)
}

#[test]
fn settings_that_came_with_a_clone_run_nothing_until_the_user_agrees() {
    let world = World::without_sandbox(REGATTA);
    let proof = world.outside("proof");
    trap(&world.root().join("evil.sh"), &proof);
    world.repo().commit_all("a trap");
    world.config(
        "agents: { claude: { exe: ./evil.sh } }\nlane: { setup: ./evil.sh }\nnotify: [{ on: [landed], command: [./evil.sh] }]\n",
    );
    let clone = cloned(&world);
    let plan = world.plan(&task("a", "", "echo a > a.txt"));
    for look in LOOKS {
        world.regatta_in(&clone, look);
    }
    run_in(&world, &clone, &plan, &["--dry-run"]).exited(0);
    world.regatta_in(&clone, ["validate", plan.to_str().expect("it is text")]).exited(0);
    assert!(!proof.exists(), "looking ran something");
    insta::assert_snapshot!(run_in(&world, &clone, &plan, &[]).shown(), @r#"
    --- stderr
    error: regatta.yaml came with a clone, a pull, a merge or a landing, and you have not agreed to what it runs or allows: agents.claude: {"exe":"./evil.sh","follow_ups":false,"kind":"claude","permissions":{"allow":null,"deny":[]}}; lane.setup: ./evil.sh; notify: [{"command":["./evil.sh"],"on":["landed"]}]
    hint: read it, then `regatta trust` records that you agree; in scripts: --trust, or REGATTA_TRUST=1
    --- exit 6
    "#);
    world.regatta_in(&clone, ["enqueue", plan.to_str().expect("it is text")]).exited(6);
    world.regatta_in(&clone, ["add", "do it"]).exited(6);
    world.regatta_in(&clone, ["daemon", "start"]).exited(6);
    assert!(!proof.exists(), "something ran before the user agreed");
    insta::assert_snapshot!(world.regatta_in(&clone, ["trust"]).shown(), @r#"
    git settings, hooks and remotes
      ✓ remote.origin.url: DIR/repo/.
    regatta.yaml
      ? agents.claude: {"exe":"./evil.sh","follow_ups":false,"kind":"claude","permissions":{"allow":null,"deny":[]}}
      ? lane.setup: ./evil.sh
      ? notify: [{"command":["./evil.sh"],"on":["landed"]}]
    --- stderr
    nothing was recorded; `regatta trust --yes` agrees to all of it
    --- exit 6
    "#);
    world.regatta_in(&clone, ["trust", "--yes"]).exited(0);
    run_in(&world, &clone, &plan, &[]).exited(0);
    assert!(proof.exists());
    // A changed setting is asked about again, and the old value is shown.
    world.config("lane: { setup: ./evil.sh --more }\n");
    world.repo().git_in(&clone, ["pull", "-q", "--rebase"]);
    run_in(&world, &clone, &plan, &["--again"]).exited(6);
    insta::assert_snapshot!(world.regatta_in(&clone, ["trust"]).shown(), @"
    git settings, hooks and remotes
      ✓ remote.origin.url: DIR/repo/.
    regatta.yaml
      ? lane.setup: ./evil.sh → ./evil.sh --more
    --- stderr
    nothing was recorded; `regatta trust --yes` agrees to all of it
    --- exit 6
    ");
    run_in(&world, &clone, &plan, &["--trust", "--again"]).exited(0);
    run_in(&world, &clone, &plan, &["--again"]).exited(0);
    world.regatta_in(&clone, ["trust", "--revoke"]).exited(0);
    run_in(&world, &clone, &plan, &["--again"]).exited(6);
}

#[test]
fn doctor_runs_no_program_of_the_repository() {
    let world = World::without_sandbox(REGATTA);
    let proof = world.outside("proof");
    trap(&world.root().join("evil.sh"), &proof);
    // Even the user's own settings count: a landing may have changed the file that they name.
    world.config("agents: { claude: { exe: ./evil.sh } }\n");
    let found = told(&world.regatta(["doctor", "--json"]).json(), "agent");
    insta::assert_snapshot!(found.lines().next().unwrap(), @"warning: claude (default): DIR/repo/evil.sh was not run: it lies inside the repository");
    assert!(!proof.exists());
}

#[test]
fn settings_that_run_nothing_are_never_asked_about() {
    let world = World::without_sandbox(REGATTA);
    world.config("max_workers: 2\nagents: { claude: { model: opus } }\n");
    let clone = cloned(&world);
    let plan = world.plan(&task("a", "", "echo a > a.txt"));
    run_in(&world, &clone, &plan, &[]).exited(0);
}

#[test]
fn line_ends_do_not_make_a_strangers_file_the_users_own() {
    let world = World::without_sandbox(REGATTA);
    world.repo().write(".gitattributes", "regatta.yaml text eol=crlf\n");
    world.config("lane: { setup: touch ../ran }\n");
    let clone = cloned(&world);
    let plan = world.plan(&task("a", "", "echo a > a.txt"));
    run_in(&world, &clone, &plan, &[]).exited(6);
}

#[test]
fn a_tracked_state_directory_is_refused() {
    let world = World::without_sandbox(REGATTA);
    let proof = world.outside("proof");
    trap(&world.root().join(".regatta/bin/git"), &proof);
    trap(&world.root().join(".regatta/git/hooks/pre-commit"), &proof);
    world.repo().git(["add", "-f", ".regatta"]);
    world.repo().git(["commit", "-qm", "state"]);
    let clone = cloned(&world);
    let plan = world.plan(&task("a", "", "git status; echo a > a.txt"));
    for dir in [world.root().to_owned(), clone] {
        let refused = run_in(&world, &dir, &plan, &[]).shown();
        insta::allow_duplicates! {
            insta::assert_snapshot!(refused.replace("DIR/clone", "DIR/repo"), @"
            --- stderr
            error: git tracks .regatta/bin/git, but Regatta's state must never be committed
            hint: look at it, then remove it from the repository: git rm -r --cached .regatta, commit, and delete .regatta
            --- exit 6
            ");
        }
        world.regatta_in(&dir, ["daemon", "start"]).exited(6);
        world.regatta_in(&dir, ["trust", "--yes"]).exited(6);
        run_in(&world, &dir, &plan, &["--trust"]).exited(6);
        for look in LOOKS {
            world.regatta_in(&dir, look);
        }
    }
    assert!(!proof.exists());
}

#[test]
fn a_state_directory_from_elsewhere_is_refused_until_the_user_takes_it_over() {
    let world = World::without_sandbox(REGATTA);
    let plan = world.plan(&task("a", "", "echo a > a.txt"));
    world.run(&plan, &[]).exited(0);
    let copy = world.outside("copy");
    let copied = std::process::Command::new("cp").arg("-a").arg(world.root()).arg(&copy).status();
    assert!(copied.expect("cp runs").success());
    insta::assert_snapshot!(world.regatta_in(&copy, ["list"]).shown(), @"
    --- stderr
    error: DIR/copy/.regatta was not created here by your Regatta: it came with a copy or an archive, or from an older version
    hint: `regatta trust` shows it and takes it over; or remove it: rm -r DIR/copy/.regatta
    --- exit 6
    ");
    run_in(&world, &copy, &plan, &[]).exited(6);
    insta::assert_snapshot!(world.regatta_in(&copy, ["trust"]).shown(), @"
    state directory
      ? DIR/copy/.regatta: not created here by your Regatta: its tasks, agents' programs and tokens would be used
    --- stderr
    nothing was recorded; `regatta trust --yes` agrees to all of it
    --- exit 6
    ");
    world.regatta_in(&copy, ["trust", "--yes"]).exited(0);
    world.regatta_in(&copy, ["list"]).exited(0);
    // The original is not affected, and moves with its record.
    world.regatta(["list"]).exited(0);
    let moved = world.outside("moved");
    fs::rename(world.root(), &moved).expect("it can be moved");
    world.regatta_in(&moved, ["list"]).exited(0);
}

#[test]
fn links_and_open_doors_are_not_accepted_as_a_state_directory() {
    let world = World::without_sandbox(REGATTA);
    let plan = world.plan(&task("a", "", "echo a > a.txt"));
    let elsewhere = world.outside("elsewhere");
    fs::create_dir(&elsewhere).expect("it can be made");
    symlink(&elsewhere, world.state_dir()).expect("it can be linked");
    insta::assert_snapshot!(world.run(&plan, &[]).shown(), @"
    --- stderr
    error: DIR/repo/.regatta is a symbolic link, so Regatta does not use it
    hint: look at DIR/repo/.regatta, and remove it if you do not need it
    --- exit 6
    ");
    assert_eq!(fs::read_dir(&elsewhere).expect("it is there").count(), 0);
    fs::remove_file(world.state_dir()).expect("it is ours");
    // An empty one that was created with wide permissions is closed, not refused.
    fs::create_dir(world.state_dir()).expect("it can be made");
    fs::set_permissions(world.state_dir(), fs::Permissions::from_mode(0o755)).expect("it is ours");
    world.run(&plan, &[]).exited(0);
    let mode = || fs::metadata(world.state_dir()).expect("it is there").permissions().mode() & 0o777;
    assert_eq!(mode(), 0o700);
    fs::set_permissions(world.state_dir(), fs::Permissions::from_mode(0o755)).expect("it is ours");
    world.regatta(["add", "more"]).exited(0);
    assert_eq!(mode(), 0o700);
}

#[test]
fn the_users_own_settings_need_no_question() {
    let world = World::without_sandbox(REGATTA);
    let plan = world.plan(&task("a", "", "echo a > a.txt"));
    // Untracked, then committed, then edited.
    world.repo().write("regatta.yaml", "lane: { setup: touch ../ran }\n");
    world.run(&plan, &[]).exited(0);
    world.config("lane: { setup: touch ../ran2 }\n");
    insta::assert_snapshot!(shown(&world.run(&plan, &["--again"]).exited(0).stderr), @"regatta.yaml changed by you, and trusted: lane.setup");
    world.repo().write("regatta.yaml", "lane: { setup: touch ../ran3 }\n");
    world.run(&plan, &["--again"]).exited(0);
    assert!(world.outside("ran3").exists() || world.lanes().join("ran3").exists());
}

/// Gives a directory to another user, as far as Regatta can see. Only root can really do that; for others Regatta runs
/// where a directory of root's is mounted in its place.
fn give_away(world: &mut World, dir: &Path) {
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(dir, Some(65534), Some(65534)).expect("root can");
        return;
    }
    let wrapper = world.outside("regatta-among-strangers");
    let inside = format!("mount --bind /usr '{}' && exec '{REGATTA}' \"$@\"", dir.display());
    let text = format!(
        "#!/bin/sh\nexec unshare --user --map-root-user --mount sh -c '{}' regatta \"$@\"\n",
        inside.replace('\'', "'\\''")
    );
    fs::write(&wrapper, text).expect("it can be written");
    fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)).expect("it is ours");
    world.use_program(&wrapper);
}

#[test]
fn a_state_directory_of_another_user_is_refused() {
    let mut world = World::without_sandbox(REGATTA);
    let plan = world.plan(&task("a", "", "echo a > a.txt"));
    world.run(&plan, &[]).exited(0);
    let state = world.state_dir();
    give_away(&mut world, &state);
    let plan = plan.to_str().expect("it is text");
    let refused = world.regatta(["list"]).shown();
    insta::assert_snapshot!(refused, @"
    --- stderr
    error: DIR/repo/.regatta belongs to another user, so Regatta does not use it
    hint: look at DIR/repo/.regatta, and remove it if you do not need it
    --- exit 6
    ");
    for command in [&["status", "a"][..], &["cancel", "a"], &["run", plan], &["daemon", "start"]] {
        assert_eq!(world.regatta(command).shown(), refused, "{command:?}");
    }
}

#[test]
fn a_directory_for_lanes_of_another_user_is_refused() {
    let mut world = World::without_sandbox(REGATTA);
    let lanes = world.outside("their-lanes");
    fs::create_dir(&lanes).expect("it can be made");
    world.config(&format!("lanes_root: {}\n", lanes.display()));
    give_away(&mut world, &lanes);
    let plan = world.plan(&task("a", "", "echo a > a.txt"));
    insta::assert_snapshot!(world.run(&plan, &[]).shown(), @"
    --- stderr
    error: the lanes' directory DIR/their-lanes belongs to another user
    hint: name another one: `lanes_root` in regatta.yaml, or $REGATTA_LANES_ROOT
    --- exit 6
    ");
    assert_eq!(fs::read_dir(&lanes).expect("it can be listed").count(), 0, "nothing was made in it");
}
