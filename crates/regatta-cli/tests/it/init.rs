//! `regatta init`.

use regatta_testkit::repo::ScratchRepo;

use crate::world::World;

#[test]
fn a_repository_is_made_ready_and_nothing_else_is_touched() {
    let world = World::new();
    let before = world.snapshot();
    let made = world.run(["init"]).exits(0);
    assert!(made.out.contains("made regatta.yaml\nmade tasks/example.md\nmade .regatta\n"), "{}", made.out);
    assert!(
        made.out.contains("regatta doctor") && made.out.contains("regatta run tasks/example.md"),
        "{}",
        made.out
    );
    let after = world.snapshot();
    let fresh: Vec<String> = after
        .iter()
        .filter(|file| !before.contains(file))
        .map(|(path, _)| path.display().to_string())
        .collect();
    assert_eq!(fresh, ["regatta.yaml", "tasks/example.md"]);
    assert_eq!(world.git(["status", "--porcelain"]), "?? regatta.yaml\n?? tasks/");
    assert!(world.root().join(".regatta/regatta.db").exists());
    world.run(["validate", "tasks/example.md"]).exits(0);
    world.run(["run", "--no-dashboard", "tasks/example.md"]).exits(0);
    assert_eq!(world.git(["show", "regatta/example:example.txt"]), "Written by the simulated agent.");
    assert!(world.try_git(world.root(), &["cat-file", "-e", "main:example.txt"]).status.code() != Some(0));
}

#[test]
fn what_is_there_is_never_overwritten() {
    let world = World::new();
    world.write("regatta.yaml", "this: is [not even yaml");
    let ran = world.run(["init", "--json"]).exits(6);
    assert!(ran.error()["error"].as_str().unwrap().contains("regatta.yaml already exists"), "{}", ran.err);
    assert!(!world.root().join("tasks").exists() && !world.root().join(".regatta").exists());
    std::fs::remove_file(world.root().join("regatta.yaml")).unwrap();
    world.write("tasks/mine.md", "mine\n");
    let made = world.run(["init", "--json"]).exits(0).json();
    assert_eq!(made["made"].as_array().unwrap().len(), 2);
    assert!(!world.root().join("tasks/example.md").exists());
    world.run(["init"]).exits(6);
}

#[test]
fn it_works_in_a_subdirectory_and_in_an_empty_repository_but_not_outside_of_one() {
    let world = World::of(ScratchRepo::empty("main"));
    std::fs::create_dir(world.root().join("sub")).unwrap();
    let made = world.run_in(&world.root().join("sub"), ["init"]).exits(0);
    assert!(made.out.contains("git commit"), "{}", made.out);
    assert!(world.root().join("regatta.yaml").exists());
    let outside = world.run_in(&world.outside(), ["init", "--json"]).exits(7);
    assert!(outside.error()["hint"].as_str().unwrap().contains("git init"), "{}", outside.err);
}
