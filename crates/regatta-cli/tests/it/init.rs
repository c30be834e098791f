//! `regatta init`.

use regatta_testkit::repo::ScratchRepo;
use regatta_testkit::world::World;

use crate::REGATTA;

#[test]
fn a_repository_is_made_ready_and_nothing_else_is_touched() {
    let world = World::new(REGATTA);
    let before = world.repo().snapshot();
    insta::assert_snapshot!(world.regatta(["init"]).shown(), @"
    made regatta.yaml
    made tasks/example.md
    made .regatta
    next:
      regatta doctor                     # check that agents have what they need
      regatta run tasks/example.md       # the simulated agent, no account; lands nothing
      regatta new ID                     # a task of your own
    ");
    let after = world.repo().snapshot();
    let fresh: Vec<String> = after
        .iter()
        .filter(|file| !before.contains(file))
        .map(|(path, _)| path.display().to_string())
        .collect();
    assert_eq!(fresh, ["regatta.yaml", "tasks/example.md"]);
    assert_eq!(world.repo().git(["status", "--porcelain"]), "?? regatta.yaml\n?? tasks/");
    assert!(world.root().join(".regatta/regatta.db").exists());
    world.regatta(["validate", "tasks/example.md"]).exited(0);
    world.regatta(["run", "--no-dashboard", "tasks/example.md"]).exited(0);
    assert_eq!(world.repo().git(["show", "regatta/example:example.txt"]), "Written by the simulated agent.");
    assert!(
        world.repo().try_git(world.root(), &["cat-file", "-e", "main:example.txt"]).status.code() != Some(0)
    );
}

#[test]
fn what_is_there_is_never_overwritten() {
    let world = World::new(REGATTA);
    world.repo().write("regatta.yaml", "this: is [not even yaml");
    insta::assert_snapshot!(world.regatta(["init", "--json"]).shown(), @r#"
    --- stderr
    {"code":6,"error":"regatta.yaml already exists; nothing was changed","hint":"`regatta config` shows the settings, `regatta doctor` checks them","next":[{"text":"`regatta config` shows the settings, `regatta doctor` checks them"}]}
    --- exit 6
    "#);
    assert!(!world.root().join("tasks").exists() && !world.root().join(".regatta").exists());
    std::fs::remove_file(world.root().join("regatta.yaml")).unwrap();
    world.repo().write("tasks/mine.md", "mine\n");
    let made = world.regatta(["init", "--json"]).exited(0).json();
    assert_eq!(made["made"].as_array().unwrap().len(), 2);
    assert!(!world.root().join("tasks/example.md").exists());
    world.regatta(["init"]).exited(6);
}

#[test]
fn it_works_in_a_subdirectory_and_in_an_empty_repository_but_not_outside_of_one() {
    let world = World::around(REGATTA, ScratchRepo::empty("main"));
    std::fs::create_dir(world.root().join("sub")).unwrap();
    insta::assert_snapshot!(world.regatta_in(&world.root().join("sub"), ["init"]).shown(), @"
    made DIR/repo/regatta.yaml
    made DIR/repo/tasks/example.md
    made DIR/repo/.regatta
    next:
      git add -A && git commit -m init   # lanes need a first commit to start from
      regatta doctor                     # check that agents have what they need
      regatta run DIR/repo/tasks/example.md# the simulated agent, no account; lands nothing
      regatta new ID                     # a task of your own
    ");
    assert!(world.root().join("regatta.yaml").exists());
    insta::assert_snapshot!(world.regatta_in(&world.repo().outside(), ["init", "--json"]).shown(), @r#"
    --- stderr
    {"code":7,"error":"DIR is not in a git repository","hint":"change to a git repository, or create one: git init","next":[{"text":"change to a git repository, or create one: git init"}]}
    --- exit 7
    "#);
}
