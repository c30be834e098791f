//! A project that is moved while nothing runs continues at its new place.

use std::path::Path;
use std::process::Command;

use regatta_testkit::repo::write;
use regatta_testkit::world::{World, task};

use crate::REGATTA;

/// `b` fails at first and leaves a line in its lane, `c` waits for it; `a` lands.
fn half_a_plan(world: &World) {
    let b = format!(
        "if [ -e '{}' ]; then cat part.txt >b.txt; else echo part >part.txt; exit 1; fi",
        world.outside("ok").display()
    );
    let tasks =
        task("a", "", "echo a >a.txt") + &task("b", "", &b) + &task("c", "deps: [b]", "cat b.txt >c.txt");
    assert_eq!(world.run(&world.plan(&tasks), &[]).code, 1);
    write(&world.outside("ok"), "");
}

fn rename(from: &Path, to: &Path) {
    std::fs::rename(from, to).expect("it can be moved");
}

/// The user has to accept a copied state directory: the refusal says how.
fn accept(world: &World, repo: &Path) {
    let refused = world.regatta_in(repo, ["list"]).exited(6).stderr;
    let hint = refused.lines().last().and_then(|line| line.split("; or").next()).unwrap();
    insta::allow_duplicates! {
        insta::assert_snapshot!(hint, @"hint: `regatta trust` shows it and takes it over");
    }
    world.regatta_in(repo, ["trust", "--yes"]).exited(0);
}

/// The rest of the plan at the new place.
fn goes_on(world: &World, repo: &Path, plan: &Path) {
    let shown = world.regatta_in(repo, ["logs", "b"]);
    assert_eq!(shown.code, 0, "{}", shown.stderr);
    let ran = world.regatta_in(repo, ["run", "--resume", &plan.display().to_string()]);
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    let listed = world.regatta_in(repo, ["list"]).stdout;
    assert_eq!(listed.matches("landed").count(), 3, "{listed}");
    let shown =
        Command::new("git").arg("-C").arg(repo).args(["show", "main:c.txt"]).output().expect("git runs");
    assert_eq!(String::from_utf8_lossy(&shown.stdout), "part\n", "the line that was in its lane");
}

#[test]
fn a_project_that_was_moved_with_its_lanes_goes_on() {
    let world = World::new(REGATTA);
    half_a_plan(&world);
    let place = tempfile::tempdir_in(world.outside("")).expect("a directory");
    let repo = place.path().join("elsewhere/repo");
    std::fs::create_dir_all(repo.parent().expect("it has one")).expect("directories can be made");
    rename(world.root(), &repo);
    rename(&world.lanes(), &repo.with_file_name("repo.lanes"));
    goes_on(&world, &repo, &world.outside("plan.md"));
}

#[test]
fn a_project_that_was_renamed_takes_its_lanes_along() {
    let world = World::new(REGATTA);
    half_a_plan(&world);
    let repo = world.outside("other-name");
    rename(world.root(), &repo);
    goes_on(&world, &repo, &world.outside("plan.md"));
    assert!(!world.lanes().exists(), "they moved");
}

#[test]
fn a_copy_of_a_project_leaves_the_lanes_of_the_original_alone() {
    let world = World::new(REGATTA);
    half_a_plan(&world);
    let copy = world.outside("copy");
    let copied = Command::new("cp").arg("-a").arg(world.root()).arg(&copy).status();
    assert!(copied.is_ok_and(|status| status.success()));
    accept(&world, &copy);
    world.regatta_in(&copy, ["run", "--resume", &world.outside("plan.md").display().to_string()]);
    assert!(world.lanes().join("b/part.txt").exists(), "the original's lane is where it was");
}
