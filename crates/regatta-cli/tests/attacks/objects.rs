//! What was tested is what lands, whatever an agent leaves in the repository's objects and refs.

use regatta_testkit::world::{World, task};

use super::REGATTA;

/// The content that a gate would refuse.
const COMMIT_EVIL: &str = "echo EVIL > g.txt; git add g.txt; git commit -qm evil";

/// A repository whose gate wants GOOD in `g.txt`.
fn gated() -> World {
    let world = World::new(REGATTA);
    world.repo().commit_file("g.txt", "GOOD\n", "a good file");
    world.config("land: { test_command: \"grep -qx GOOD g.txt\" }\n");
    world
}

#[test]
fn replaced_objects_do_not_fool_the_gate() {
    let world = gated();
    let script = format!(
        "{COMMIT_EVIL}\ngood=$(echo GOOD | git hash-object -w --stdin)\ngit replace $(git rev-parse HEAD:g.txt) $good"
    );
    let plan = world.plan(&task("a", "", &script));
    world.run(&plan, &[]).exited(1);
    world.assert_states(["a blocked"]);
    assert_eq!(world.landed("g.txt").as_deref(), Some("GOOD\n"));
}

#[test]
fn a_diff_shows_the_objects_as_they_are_stored() {
    let world = gated();
    let script = format!(
        "{COMMIT_EVIL}\ngood=$(echo GOOD | git hash-object -w --stdin)\ngit replace $(git rev-parse HEAD:g.txt) $good"
    );
    let plan = world.plan(&task("a", "", &script));
    world.run(&plan, &["--no-land"]).exited(0);
    world.regatta(["diff", "a"]).exited(0).says("+EVIL");
}

#[test]
fn grafts_do_not_hide_commits_from_the_train() {
    let world = gated();
    // The agent's last commit claims to have no history, so that what came before it would go unseen.
    let script = format!(
        "{COMMIT_EVIL}\necho more > more.txt; git add more.txt; git commit -qm more\n\
         mkdir -p \"$(git rev-parse --git-common-dir)/info\"\n\
         git rev-parse HEAD > \"$(git rev-parse --git-common-dir)/info/grafts\""
    );
    let plan = world.plan(&task("a", "", &script));
    world.run(&plan, &[]).exited(1);
    world.assert_states(["a blocked"]);
    assert_eq!(world.landed("g.txt").as_deref(), Some("GOOD\n"));
}
