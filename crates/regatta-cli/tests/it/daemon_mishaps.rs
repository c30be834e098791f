//! Trouble around tasks that is not their fault: nothing is charged, nothing stays claimed, nothing keeps running.

use regatta_testkit::daemon::{is_alive, until};
use regatta_testkit::repo::script;
use regatta_testkit::world::{World, task};

use crate::REGATTA;

/// A world whose daemon lands what passes.
fn landing() -> World {
    let world = World::new(REGATTA);
    world.config("land: { auto: true }\n");
    world
}

#[test]
fn a_worker_that_a_defect_ends_leaves_neither_its_agent_nor_its_claim() {
    for place in ["started", "exited", "committed"] {
        let mut world = landing();
        let barrier = world.barrier("b");
        let held = format!("if [ $REGATTA_ATTEMPT = 1 ]; then {}; fi", barrier.script());
        let wait = if place == "started" { held.as_str() } else { "" };
        let plan = world.plan(&task("a", "", &format!("echo $REGATTA_ATTEMPT >>a.txt\n{wait}")));
        world.env("REGATTA_FAILPOINT", format!("panic@{place}"));
        let daemon = world.daemon();
        world.enqueue(&plan);
        world.wait_state("a", "parked");
        assert!(!is_alive(world.agent_pid("a", 1)), "{place}: its agent lives");
        assert_eq!(world.attempts("a"), (1, 0), "{place}: {}", world.log());
        // An agent whose worker ended at its start may have written nothing yet.
        let wrote = std::fs::read_to_string(world.lanes().join("a/a.txt")).unwrap_or_default();
        assert!(wrote == "1\n" || place == "started" && wrote.is_empty(), "{place}: {wrote:?}");
        world.regatta(["unpark", "a"]).exited(0);
        world.wait_state("a", "landed");
        daemon.signal("TERM");
        daemon.wait().exited(0);
        assert_eq!(world.landed("a.txt"), Some(format!("{wrote}2\n")), "{place}: nothing it wrote is lost");
        world.assert_tidy();
    }
}

#[test]
fn a_check_that_was_lost_with_its_supervisor_is_run_again_and_not_charged() {
    // Usually before its start was acknowledged, and after.
    for when in ["", "sleep 1; "] {
        // In a sandbox it does not see its supervisor.
        let world = World::without_sandbox(REGATTA);
        world.config("land: { auto: true }\n");
        let once = world.outside("once");
        let dies = format!("touch '{}'; {when}kill -9 $PPID; sleep 600", once.display());
        let keys = format!("max_attempts: 1\nchecks: [\"[ -f '{}' ] || {{ {dies}; }}\"]", once.display());
        let daemon = world.daemon();
        world.enqueue(&world.plan(&task("a", &keys, "echo a >a.txt")));
        world.wait_state("a", "landed");
        assert_eq!(world.attempts("a"), (1, 0), "its agent is not started again: {}", world.log());
        daemon.signal("TERM");
        daemon.wait().exited(0);
        world.assert_tidy();
    }
}

#[test]
fn git_that_does_not_work_is_told_once_and_tried_again() {
    let mut world = landing();
    let (bin, broken, tries) = (world.outside("bin"), world.outside("broken"), world.outside("tries"));
    std::fs::create_dir(&bin).unwrap();
    script(
        &bin.join("git"),
        &format!(
            "PATH=${{PATH#*:}}\ncase \" $* \" in *' merge-tree '*) if [ -e '{}' ]; then echo >>'{}'; echo no tree today >&2; exit 128; fi;; esac\nexec git \"$@\"",
            broken.display(),
            tries.display()
        ),
    );
    world.env("PATH", format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default()));
    std::fs::write(&broken, "").unwrap();
    let barrier = world.barrier("b");
    // The second is not built on what the first lands as, so it has to be built again.
    let second = format!("{}\necho b >b.txt", barrier.script());
    let daemon = world.daemon();
    world.enqueue(&world.plan(&[task("a", "", "echo a >a.txt"), task("b", "", &second)].concat()));
    barrier.arrived();
    world.wait_state("a", "landed");
    barrier.open();
    let tried = || std::fs::read_to_string(&tries).unwrap_or_default().lines().count();
    until("the reason is shown", || (world.events_of("b", "landing") > 0).then_some(()));
    let before = tried();
    until("it is tried again and again", || (tried() >= before + 3).then_some(()));
    assert_eq!(world.events_of("b", "landing"), 1, "one reason, told once: {}", world.log());
    std::fs::remove_file(&broken).unwrap();
    world.wait_state("b", "landed");
    daemon.signal("TERM");
    daemon.wait().exited(0);
    world.assert_tidy();
}
