//! Lock files that a killed git left behind: ours are removed automatically, the user's are named.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use regatta_testkit::repo::script;
use regatta_testkit::shown::told;
use regatta_testkit::world::{World, task};

use crate::REGATTA;

/// A lock file that is a minute old.
fn old_lock(path: &Path) {
    fs::create_dir_all(path.parent().expect("it is in a directory")).expect("directories can be made");
    let file = fs::File::create(path).expect("files can be made");
    file.set_modified(SystemTime::now() - Duration::from_secs(60)).expect("times can be set");
}

fn git_dir(world: &World) -> PathBuf {
    world.root().join(".git")
}

#[test]
fn a_stale_lock_on_a_salvage_ref_keeps_no_task_from_ending() {
    let world = World::new(REGATTA);
    let lock = git_dir(&world).join("refs/regatta/salvage/a/1.lock");
    old_lock(&lock);
    let ran = world.run(&world.plan(&task("a", "", "echo line >x.txt; exit 1")), &[]);
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    world.assert_states(["a failed"]);
    assert_eq!(world.task("a")["attempts"].as_array().map(Vec::len), Some(1));
    assert!(!lock.exists(), "no process holds it");
    let salvaged = world.salvaged();
    assert_eq!(salvaged.len(), 1, "{salvaged:?}");
    assert_eq!(world.repo().git(["show", &format!("{}:x.txt", salvaged[0])]), "line");
}

#[test]
fn an_agent_killed_in_its_own_commit_leaves_the_next_attempt_a_lane_that_works() {
    let world = World::new(REGATTA);
    let once = world.outside("once");
    let body = format!(
        "echo $REGATTA_ATTEMPT >x.txt; git add x.txt
         if [ ! -e '{0}' ]; then touch '{0}' $(git rev-parse --git-dir)/index.lock $(git rev-parse --git-dir)/HEAD.lock; exit 1; fi
         git commit -qm own x.txt",
        once.display()
    );
    let ran = world.run(&world.plan(&task("a", "max_attempts: 2", &body)), &[]);
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    world.assert_states(["a landed"]);
    assert_eq!(world.landed("x.txt").as_deref(), Some("2\n"));
}

/// A git that is killed in the middle of its first edit of main, and leaves its locks.
fn git_that_dies_once(world: &mut World) {
    let dir = world.outside("bin");
    let real = std::env::split_paths(&std::env::var_os("PATH").expect("there is a PATH"))
        .map(|dir| dir.join("git"))
        .find(|git| git.exists())
        .expect("git is installed");
    let (died, asked) = (world.outside("died"), world.outside("asked"));
    script(
        &dir.join("git"),
        &format!(
            "case \"$*\" in *'update-ref -m regatta: land'*)
               cat >'{asked}'
               if [ ! -e '{died}' ]; then
                 : >'{died}'; : >\"$GIT_DIR/refs/heads/main.lock\"; : >\"$GIT_DIR/HEAD.lock\"
                 kill -9 $$
               fi
               exec '{real}' \"$@\" <'{asked}';;
             esac
             exec '{real}' \"$@\"",
            asked = asked.display(),
            died = died.display(),
            real = real.display(),
        ),
    );
    let path = std::env::join_paths(
        std::iter::once(dir)
            .chain(std::env::split_paths(&std::env::var_os("PATH").expect("there is a PATH"))),
    );
    world.env("PATH", path.expect("it can be joined"));
}

#[test]
fn locks_that_our_own_git_left_on_the_target_go_when_it_is_dead() {
    let mut world = World::new(REGATTA);
    git_that_dies_once(&mut world);
    let ran = world.run(&world.plan(&task("a", "", "echo line >x.txt")), &[]);
    assert!(world.outside("died").exists(), "git was killed");
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    world.assert_states(["a landed"]);
    assert_eq!(world.commits_of("x.txt"), 1);
    for lock in ["refs/heads/main.lock", "HEAD.lock"] {
        assert!(!git_dir(&world).join(lock).exists(), "{lock} is left");
    }
}

#[test]
fn a_lock_on_the_target_that_is_not_ours_is_named_and_respected() {
    let world = World::new(REGATTA);
    let plan = world.plan(&task("a", "", "echo line >x.txt"));
    let lock = git_dir(&world).join("refs/heads/main.lock");
    old_lock(&lock);
    let ran = world.run(&plan, &[]);
    assert_eq!(ran.code, 1, "{}{}", ran.stdout, ran.stderr);
    world.assert_states(["a landing"]);
    insta::assert_snapshot!(world.regatta(["status", "a"]).shown(), @"
    ◐ a  echo line >x.txt
    state     landing: DIR/repo/.git/refs/heads/main.lock is locked by another git process, or was left by one that was killed; if no git is running here, remove it: rm DIR/repo/.git/refs/heads/main.lock (TIME ago)
    agent     sh
    from      DIR/plan.md:6
    lane      DIR/repo.lanes/a
    attempt 1 sh · TIME · sandbox LEVEL · exit 0 · verdict pass
              - exit-code says pass
              - 1 file changed, tree HASH
              - commit HASH
    next      wait for the other git process, or close it; if none is running, remove its lock, then `regatta land a` lands it; a running daemon or run does so by itself
    ");
    insta::assert_snapshot!(told(&world.regatta(["doctor", "--fix", "--json"]).json(), "lock"), @"
    warning: a lock of git is left over, and no process holds it: DIR/repo/.git/refs/heads/main.lock
      hint: if no git is running in this repository, remove it: rm DIR/repo/.git/refs/heads/main.lock
    ");
    assert!(lock.exists(), "a lock that Regatta did not make stays");
    fs::remove_file(&lock).expect("the user removes it");
    world.run(&plan, &["--resume"]).exited(0);
    world.assert_states(["a landed"]);
}

#[test]
fn doctor_names_our_stale_locks_and_removes_them_when_asked() {
    let world = World::new(REGATTA);
    world.run(&world.plan(&task("a", "", "echo line >x.txt")), &[]).exited(0);
    let ours = git_dir(&world).join("refs/regatta/salvage/b/1.lock");
    old_lock(&ours);
    insta::assert_snapshot!(told(&world.regatta(["doctor", "--json"]).json(), "lock"), @"
    warning: a lock on Regatta's own refs or lanes is left over, and no process holds it: DIR/repo/.git/refs/regatta/salvage/b/1.lock
      hint: `regatta doctor --fix` removes it; so does the next git command that needs it
    ");
    assert!(ours.exists(), "looking changes nothing");
    insta::assert_snapshot!(told(&world.regatta(["doctor", "--fix", "--json"]).json(), "lock"), @"ok: a lock on Regatta's own refs or lanes is left over, and no process holds it: DIR/repo/.git/refs/regatta/salvage/b/1.lock");
    assert!(!ours.exists());
}
