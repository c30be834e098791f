//! The user's own git in the middle of a landing: commits, `gc`, branches that are deleted, renamed or reset; and a git
//! that dies while it updates the user's checkout.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};

use regatta_testkit::daemon::until;
use regatta_testkit::repo::script;
use regatta_testkit::shown::{shown, told};
use regatta_testkit::world::{World, task};

use crate::REGATTA;
use crate::killed_git::wrap_git;

fn contains(world: &World, commit: &str, branch: &str) -> bool {
    world.repo().try_git(world.root(), &["merge-base", "--is-ancestor", commit, branch]).status.success()
}

/// One task that adds a file of its name.
fn one(id: &str) -> String {
    task(id, "", &format!("echo {id} >{id}.txt"))
}

#[test]
fn a_commit_made_during_a_slow_push_stays() {
    let mut world = World::new(REGATTA);
    let remote = world.remote();
    let barrier = world.barrier("push");
    let once = world.outside("once");
    let hook = format!("[ -e '{0}' ] && exit 0; touch '{0}'; {1}", once.display(), barrier.script());
    script(&remote.join("hooks/pre-receive"), &hook);
    let run = world.start(&world.plan(&one("a")), &[]);
    barrier.arrived();
    let mine = world.repo().commit_file("mine.txt", "mine\n", "mine");
    barrier.open();
    let ran = run.wait().exited(0);
    world.assert_states(["a landed"]);
    assert!(contains(&world, &mine, "main"), "the user's commit is off its branch: {}", ran.stdout);
    let landed = world.repo().git(["--git-dir", &remote.display().to_string(), "rev-parse", "main"]);
    assert!(contains(&world, &landed, "main"), "what the remote has is not here");
    for file in ["mine.txt", "a.txt"] {
        assert!(world.root().join(file).exists(), "{file} is not in the checkout");
    }
    assert_eq!(world.repo().git(["status", "--porcelain"]), "");
    // What comes next is built on both, and the remote gets the user's commit with it.
    world.run(&world.plan(&one("b")), &[]).exited(0);
    let landed = world.repo().git(["--git-dir", &remote.display().to_string(), "rev-parse", "main"]);
    assert_eq!(landed, world.repo().rev("main"));
    assert!(contains(&world, &mine, "main"));
}

#[test]
fn a_commit_made_while_a_slow_remote_is_asked_stays() {
    let mut world = World::new(REGATTA);
    let remote = world.remote();
    let barrier = world.barrier("ask");
    let once = world.outside("once");
    let wait = format!("[ -e '{0}' ] || {{ touch '{0}'; {1}; }}", once.display(), barrier.script());
    wrap_git(&mut world, &format!("case \" $* \" in *' ls-remote '*) {wait};; esac\nexec \"$real\" \"$@\""));
    let run = world.start(&world.plan(&one("a")), &[]);
    barrier.arrived();
    let mine = world.repo().commit_file("mine.txt", "mine\n", "mine");
    barrier.open();
    run.wait().exited(0);
    assert!(contains(&world, &mine, "main"), "the user's commit is off its branch");
    assert_eq!(world.landed("a.txt").as_deref(), Some("a\n"));
    assert!(world.root().join("mine.txt").exists());
    assert_eq!(world.repo().git(["status", "--porcelain"]), "");
    let landed = world.repo().git(["--git-dir", &remote.display().to_string(), "rev-parse", "main"]);
    assert_eq!(landed, world.repo().rev("main"));
}

#[test]
fn a_push_is_refused_where_the_remote_is_not_what_was_seen() {
    let mut world = World::new(REGATTA);
    let remote = world.remote();
    world.run(&world.plan(&[one("a"), one("b")].concat()), &["--no-land"]).exited(0);
    let (barrier, once, pushes) = (world.barrier("push"), world.outside("once"), world.outside("pushes"));
    let wait = format!("[ -e '{0}' ] || {{ touch '{0}'; {1}; }}", once.display(), barrier.script());
    wrap_git(
        &mut world,
        &format!(
            "case \" $* \" in *' push '*) {wait}; \"$real\" \"$@\"; code=$?; echo $code >>'{}'; exit $code;; esac\nexec \"$real\" \"$@\"",
            pushes.display()
        ),
    );
    let landing = world.begin(["land", "a", "b"]);
    barrier.arrived();
    // The first half of the same train: what a successor would have landed of it. The rest is a fast-forward from it.
    let step: String = world
        .database()
        .query_row("select step from car order by seq limit 1", [], |row| row.get(0))
        .expect("a car is about to be moved");
    let step: serde_json::Value = serde_json::from_str(&step).unwrap();
    let first = step["candidate"].as_str().expect("it has its candidate").to_owned();
    world.repo().git(["push", "-q", "origin", &format!("{first}:refs/heads/main")]);
    barrier.open();
    landing.wait().exited(0);
    let codes = fs::read_to_string(&pushes).unwrap();
    assert_ne!(codes.lines().next(), Some("0"), "the push did not look where the remote was: {codes}");
    let landed = world.repo().git(["--git-dir", &remote.display().to_string(), "rev-parse", "main"]);
    assert_eq!(landed, world.repo().rev("main"));
    assert_eq!((world.commits_of("a.txt"), world.commits_of("b.txt")), (1, 1));
}

#[test]
fn a_checkout_that_git_could_not_bring_along_takes_nothing_back_and_follows_later() {
    let mut world = World::new(REGATTA);
    world.repo().commit_file("old.txt", "old\n", "old");
    world.repo().commit_file("mine.txt", "one\n", "mine");
    let (broken, root) = (world.outside("broken"), world.root().to_owned());
    wrap_git(
        &mut world,
        &format!(
            "case \" $* \" in *' checkout '*|*' checkout-index '*)\n\
             if [ -e '{0}' ]; then cd '{1}' && printf ne >new.txt; kill -9 $$; fi;; esac\nexec \"$real\" \"$@\"",
            broken.display(),
            root.display()
        ),
    );
    fs::write(&broken, "").unwrap();
    world.repo().write("mine.txt", "two\n");
    world.repo().git(["add", "mine.txt"]);
    let plan = world.plan(&task("a", "", "echo new >new.txt; git rm -q old.txt; echo more >>README.md"));
    let ran = world.run(&plan, &[]);
    world.assert_states(["a landed"]);
    assert_eq!(world.repo().git(["diff", "--cached", "--name-only"]), "mine.txt", "{}", ran.stdout);
    let checkout =
        |more: &[&str]| told(&world.regatta(["doctor", "--json"].iter().chain(more)).json(), "checkout");
    insta::assert_snapshot!(checkout(&[]), @"
    warning: DIR/repo is not fully updated to the last landing
      hint: `regatta doctor --fix` finishes it; so does the next landing
    ");
    // The user commits what they had staged: nothing that landed goes into it.
    world.repo().git(["commit", "-qm", "mine"]);
    assert_eq!(world.landed("new.txt").as_deref(), Some("new\n"));
    assert_eq!(world.landed("old.txt"), None);
    assert_eq!(world.landed("mine.txt").as_deref(), Some("two\n"));
    fs::remove_file(&broken).unwrap();
    insta::assert_snapshot!(checkout(&["--fix"]), @"ok: DIR/repo is now updated to the last landing");
    assert_eq!(world.repo().git(["status", "--porcelain"]), "");
    assert_eq!(fs::read_to_string(world.root().join("new.txt")).unwrap(), "new\n");
    assert_eq!(fs::read_to_string(world.root().join("README.md")).unwrap(), "hello\nmore\n");
    assert!(!world.root().join("old.txt").exists());
}

#[test]
fn a_daemon_finishes_a_checkout_as_soon_as_git_works_again() {
    let mut world = World::new(REGATTA);
    world.config("land: { auto: true }\n");
    let broken = world.outside("broken");
    wrap_git(
        &mut world,
        &format!(
            "case \" $* \" in *' checkout --quiet --detach '*|*' checkout-index '*) if [ -e '{}' ]; then kill -9 $$; fi;; esac\nexec \"$real\" \"$@\"",
            broken.display()
        ),
    );
    fs::write(&broken, "").unwrap();
    let daemon = world.daemon();
    world.enqueue(&world.plan(&one("a")));
    world.wait_state("a", "landed");
    assert_eq!(world.repo().git(["diff", "--cached", "--name-only"]), "");
    fs::remove_file(&broken).unwrap();
    until("the checkout has followed", || world.root().join("a.txt").exists().then_some(()));
    until("and is complete", || world.repo().git(["status", "--porcelain"]).is_empty().then_some(()));
    drop(daemon.kill());
}

#[test]
fn gc_beside_the_train_is_harmless() {
    const TASKS: usize = 12;
    let world = World::new(REGATTA);
    world.config("max_workers: 4\nland: { test_command: \"test ! -f bad.txt && sleep 0.1\" }\n");
    let names: Vec<String> = (0..TASKS).map(|n| format!("t{n}")).collect();
    let tasks: String = names.iter().map(|name| one(name)).collect();
    world.run(&world.plan(&tasks), &["--no-land"]).exited(0);
    for names in names.chunks(6) {
        let land = ["land", "--no-wait"].into_iter().chain(names.iter().map(String::as_str));
        world.regatta(land).exited(0);
    }
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let _ = world.repo().try_git(world.root(), &["gc", "--prune=now", "--quiet"]);
            }
        });
        let landed = world.regatta(["land"].into_iter().chain(names.iter().map(String::as_str)));
        over.store(true, Ordering::Relaxed);
        landed.exited(0);
    });
    for n in 0..TASKS {
        assert_eq!(world.commits_of(&format!("t{n}.txt")), 1);
    }
    assert_eq!(world.repo().git(["status", "--porcelain"]), "");
    let fsck = world.repo().try_git(world.root(), &["fsck", "--full", "--no-dangling"]);
    assert!(fsck.status.success(), "{}", String::from_utf8_lossy(&fsck.stderr));
}

#[test]
fn gc_beside_agents_at_work_is_harmless() {
    const TASKS: usize = 12;
    let world = World::new(REGATTA);
    world.config("max_workers: 4\nland: { test_command: \"test ! -f bad.txt\" }\n");
    let tasks: String = (0..TASKS).map(|n| one(&format!("t{n}"))).collect();
    // The settings are recorded as the user's own before gc forgets who committed them.
    world.run(&world.plan(&one("first")), &[]).exited(0);
    let plan = world.plan(&tasks);
    let over = AtomicBool::new(false);
    let ran = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let _ = world.repo().try_git(world.root(), &["gc", "--prune=now", "--quiet"]);
            }
        });
        let ran = world.run(&plan, &[]);
        over.store(true, Ordering::Relaxed);
        ran
    });
    ran.exited(0);
    for n in 0..TASKS {
        // What gc removed was made again: no agent was started for it a second time.
        assert_eq!(world.attempts(&format!("t{n}")).0, 1, "t{n}: {}", world.log());
        assert_eq!(world.commits_of(&format!("t{n}.txt")), 1, "t{n}: {}", world.log());
    }
    let fsck = world.repo().try_git(world.root(), &["fsck", "--full", "--no-dangling"]);
    assert!(fsck.status.success(), "{}", String::from_utf8_lossy(&fsck.stderr));
}

#[test]
fn a_candidate_that_is_gone_when_its_gate_looks_is_built_again() {
    let mut world = World::new(REGATTA);
    world.config("lane: { pool: 0 }\nland: { test_command: \"test -f a.txt\" }\n");
    let gone = world.outside("gone");
    // Git's message when a `git gc` has just removed a tree. One such failure counts for no task, and five more are
    // tolerated.
    wrap_git(
        &mut world,
        &format!(
            "case \" $* $GIT_WORK_TREE $PWD \" in *.readers/gate-*) echo x >>'{0}'\n\
             if [ $(wc -l <'{0}') -le 6 ]; then echo 'fatal: unable to read tree' >&2; exit 128; fi;; esac\n\
             exec \"$real\" \"$@\"",
            gone.display()
        ),
    );
    world.run(&world.plan(&one("a")), &[]).exited(0);
    assert!(fs::read_to_string(&gone).unwrap().lines().count() > 6);
    assert_eq!(world.commits_of("a.txt"), 1);
}

#[test]
fn a_car_whose_commit_is_gone_holds_nobody_up() {
    let world = World::new(REGATTA);
    world.run(&world.plan(&[one("a"), one("b")].concat()), &["--no-land"]).exited(0);
    world.regatta(["land", "--no-wait", "a", "b"]).exited(0);
    world.repo().git(["branch", "-D", "regatta/a"]);
    for name in world.repo().git(["for-each-ref", "--format=%(refname)", "refs/regatta"]).lines() {
        if name.contains("/a") {
            world.repo().git(["update-ref", "-d", name]);
        }
    }
    world.repo().git(["reflog", "expire", "--expire=now", "--all"]);
    world.repo().git(["gc", "--quiet", "--prune=now"]);
    insta::assert_snapshot!(world.regatta(["land", "a", "b"]).shown(), @"
    a is blocked (policy): its commit HASH is gone from the repository; `regatta retry a` does the work again
    b landed on main as HASH
    --- exit 1
    ");
    world.assert_states(["a blocked", "b landed"]);
}

#[test]
fn a_target_that_is_deleted_or_renamed_stops_the_train() {
    let world = World::new(REGATTA);
    world.config("target: main\n");
    world.run(&world.plan(&one("a")), &[]).exited(0);
    world.run(&world.plan(&one("b")), &["--no-land"]).exited(0);
    let tip = world.repo().rev("main");
    world.repo().git(["branch", "-m", "main", "trunk"]);
    insta::assert_snapshot!(world.regatta(["land", "b"]).shown(), @"
    b waits in the train: the branch main is gone: deleted or renamed; `git branch main HASH` brings it back
    --- exit 1
    ");
    insta::assert_snapshot!(world.regatta(["land", "status"]).shown(), @"
    train → main (no such branch), 1 car, no gate
    stopped TIME ago: the branch main is gone: deleted or renamed; `git branch main HASH` brings it back
          CAR  PRIORITY  ACTIVITY
    1  ⏸  b    0         waits: the branch main is gone: deleted or renamed; `git branch main HASH` brings it back

    ✓ a landed on main as HASH TIME ago
    ");
    assert!(
        !world
            .repo()
            .try_git(world.root(), &["rev-parse", "-q", "--verify", "refs/heads/main"])
            .status
            .success()
    );
    world.regatta(["land", "resume"]).exited(6);
    world.repo().git(["branch", "main", &tip]);
    world.regatta(["land", "b"]).exited(0);
    assert!(contains(&world, &tip, "main"));
    assert_eq!(world.landed("b.txt").as_deref(), Some("b\n"));
}

#[test]
fn a_target_that_was_reset_stops_the_train_until_its_user_says_so() {
    let world = World::new(REGATTA);
    world.run(&world.plan(&one("a")), &[]).exited(0);
    world.run(&world.plan(&one("b")), &["--no-land"]).exited(0);
    let before = world.repo().rev("main");
    world.repo().git(["reset", "-q", "--hard", "HEAD~1"]);
    let tip = world.repo().rev("main");
    insta::assert_snapshot!(world.regatta(["land", "b"]).shown(), @"
    b waits in the train: main no longer has what landed on it: it was at HASH and is at HASH without a; `regatta land resume` continues from there, `git merge HASH` brings it back
    --- exit 1
    ");
    assert_eq!(world.repo().rev("main"), tip);
    insta::assert_snapshot!(world.regatta(["status", "a"]).shown(), @"
    ✓ a  echo a >a.txt
    state     landed (TIME ago)
    agent     sh
    from      DIR/plan.md:6
    commit  HASH on main
    attempt 1 sh · TIME · sandbox LEVEL · exit 0 · verdict pass
              - exit-code says pass
              - 1 file changed, tree HASH
              - commit HASH
    next      taken back: its commit is no longer on main (seen TIME ago); `git cherry-pick HASH` brings it back
    ");
    insta::assert_snapshot!(told(&world.regatta(["doctor", "--json"]).json(), "train"), @"
    warning: main no longer has what landed on it: it was at HASH and is at HASH without a; `regatta land resume` continues from there, `git merge HASH` brings it back
      hint: restore the branch, or accept it as it is: regatta land resume
    ");
    insta::assert_snapshot!(world.regatta(["land", "resume"]).shown(), @"
    the train continues from main as it is, at HASH
    no longer on main: a
    ");
    world.regatta(["land", "b"]).exited(0);
    assert_eq!(world.landed("b.txt").as_deref(), Some("b\n"));
    assert_eq!(world.landed("a.txt"), None);
    let status = world.regatta(["status", "a"]).exited(0).stdout;
    insta::assert_snapshot!(shown(status.lines().last().unwrap()), @"next      taken back: its commit is no longer on main (seen TIME ago); `git cherry-pick HASH` brings it back");
    // Work that was taken off the target is still held by a ref.
    world.repo().git(["reflog", "expire", "--expire=now", "--all"]);
    world.repo().git(["gc", "--quiet", "--prune=now"]);
    world.repo().git(["cat-file", "-e", &before]);
    // Amending a landed commit takes nothing off the target.
    world.repo().git(["commit", "-q", "--amend", "--date", "2001-01-01T00:00:00", "--no-edit"]);
    world.run(&world.plan(&one("c")), &[]).exited(0);
}

#[test]
fn a_gate_that_somebody_kills_is_run_again_and_says_nothing_about_the_car() {
    let world = World::new(REGATTA);
    let count = world.outside("count");
    let killed = format!("echo x >>'{0}'; [ $(wc -l <'{0}') -ge 3 ] || sh -c 'kill -9 $$'", count.display());
    world.config(&format!("land: {{ test_command: \"{killed}\" }}\n"));
    world.run(&world.plan(&one("a")), &[]).exited(0);
    world.assert_states(["a landed"]);
    world.config("land: { test_command: \"kill -9 $$\" }\n");
    insta::assert_snapshot!(world.run(&world.plan(&one("b")), &[]).shown(), @"
    test → main: 1 task
        TIME b  agent started, process PID
        TIME b  waits to land: killed 3 times in a row, out of memory? the gate `kill -9 $$` was killed by signal 9 on HASH (full output: .regatta/gates/HASH)

    ◐ b landing

    ◐ b landing: killed 3 times in a row, out of memory? the gate `kill -9 $$` was killed by signal 9 on HASH (full output: .regatta/gates/HASH)
    1 landing in TIME on main
    --- stderr
    regatta.yaml changed by you, and trusted: land.test_command
    hint: `regatta status ID` and `regatta logs ID` show why; `regatta run --resume DIR/plan.md` retries
    --- exit 1
    ");
    world.assert_states(["a landed", "b landing"]);
}
