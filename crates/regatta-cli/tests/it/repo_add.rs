//! `regatta repo add`, `list` and `import`: rows in `repos` of regatta.yaml.

use std::fs;
use std::path::{Path, PathBuf};

use regatta_testkit::repo::write;
use regatta_testkit::world::World;
use serde_json::json;

use crate::REGATTA;

/// A repository beside the world's, with these files in one commit on `main`.
pub(crate) fn beside(world: &World, name: &str, files: &[(&str, &str)]) -> PathBuf {
    let dir = world.outside(name);
    fs::create_dir_all(&dir).unwrap();
    let git = |args: &[&str]| world.repo().git_in(&dir, args);
    git(&["init", "-q", "-b", "main"]);
    git(&["config", "user.name", "Ada"]);
    git(&["config", "user.email", "ada@example.org"]);
    write(&dir.join("README.md"), format!("# {name}\n"));
    for (path, text) in files {
        write(&dir.join(path), text);
    }
    world.repo().commit_all_in(&dir, "first");
    dir
}

fn settings(world: &World) -> String {
    fs::read_to_string(world.root().join("regatta.yaml")).unwrap()
}

#[test]
fn a_repository_is_added_without_disturbing_the_file() {
    let world = World::new(REGATTA);
    let text = "# my settings\nmax_workers: 2 # two\n";
    world.config(text);
    beside(&world, "shared", &[]);
    beside(&world, "api", &[]);
    let added = world.regatta(["repo", "add", "shared"]).exited(0);
    insta::assert_snapshot!(added.shown(), @"added shared (DIR/shared) to regatta.yaml");
    world
        .regatta([
            "repo",
            "add",
            "api",
            "../api",
            "--depends-on",
            "shared",
            "--target",
            "main",
            "--pull",
            "auto",
        ])
        .exited(0);
    insta::assert_snapshot!(settings(&world), @r"
    # my settings
    max_workers: 2 # two

    repos:
      - name: shared
        path: ../shared
      - name: api
        path: ../api
        target: main
        depends_on: [shared]
        pull: auto
    ");
    insta::assert_snapshot!(world.regatta(["repo", "list"]).exited(0).shown(), @r"
    REPOSITORY  TARGET  DEPENDS ON  PULL   PATH
    shared      main    -           never  DIR/shared
    api         main    shared      auto   DIR/api
    ");
    let listed = world.regatta(["repo", "list", "--json"]).exited(0).json();
    assert_eq!(listed["file"], json!(world.root().join("regatta.yaml")));
    assert_eq!(listed["root"], json!(world.root()));
    assert_eq!(
        listed["repositories"][1],
        json!({
            "name": "api", "path": world.outside("api"), "home": false, "target": "main", "remote": null,
            "depends_on": ["shared"], "wait": "working", "pull": "auto", "problem": null, "warning": null,
        })
    );
    // A remote that is not the one in the settings is noticed.
    let web = beside(&world, "web", &[]);
    world.repo().git_in(&web, ["remote", "add", "origin", "https://me:secret@github.com/acme/web.git"]);
    world.regatta(["repo", "add", "web", "--remote", "acme/site"]).exited(0);
    let listed = world.regatta(["repo", "list"]).exited(0);
    insta::assert_snapshot!(listed.stderr, @"warning: web: its remote is github.com/acme/web, and `remote` in the settings is acme/site");
    // The project's own repository can be one of them; the form of parallel-agents works, too.
    let own = world.root().display().to_string();
    let added = world.regatta(["repo", "add", "--name", "home", "--path", &own, "--json"]).exited(0).json();
    assert_eq!((&added["added"][0]["home"], &added["skipped"]), (&json!(true), &json!([])));
    assert!(settings(&world).ends_with("  - name: home\n    path: \".\"\n"), "{}", settings(&world));
    assert!(!world.root().join(".regatta/parallel-agents/config.json").exists());
}

#[test]
fn what_cannot_be_added_changes_nothing() {
    let world = World::new(REGATTA);
    world.config("repos:\n  - name: shared\n");
    beside(&world, "shared", &[("sub/file", "x")]);
    beside(&world, "api", &[]);
    fs::create_dir_all(world.outside("empty")).unwrap();
    let before = settings(&world);
    let cases: [(&[&str], i32, &str); 9] = [
        (&["Api", "../api"], 2, "the repository's name \"Api\" contains 'A'"),
        (&["shared", "../api"], 6, "the project has a repository shared already"),
        (&["again", "../shared"], 6, "is already in the project, as shared"),
        (&["gone", "../gone"], 4, "there is no directory ../gone"),
        (&["empty", "../empty"], 7, "is not in a git repository"),
        (&["sub", "../shared/sub"], 7, "/shared/sub is inside the repository"),
        (&["api", "../api", "--depends-on", "shraed"], 2, "did you mean `shared`?"),
        (&["api", "../api", "--pull", "sometimes"], 2, "regatta.yaml:5:"),
        (&["api", "../api", "--target=-x"], 2, "\"-x\" begins with a dash"),
    ];
    for (args, code, why) in cases {
        let ran = world.regatta(["repo", "add"].iter().chain(args)).exited(code);
        assert!(ran.stderr.contains(why), "{args:?}: {}", ran.stderr);
        assert_eq!(settings(&world), before, "{args:?}");
    }
    // In brackets: the row is shown instead.
    world.config("repos: [{ name: shared }]\n");
    let ran = world.regatta(["repo", "add", "api"]).exited(6);
    assert!(ran.stderr.contains("the rows of `repos` are written in brackets"), "{}", ran.stderr);
    assert!(ran.stderr.contains("  - name: api\n"), "{}", ran.stderr);
    assert_eq!(settings(&world), "repos: [{ name: shared }]\n");
}

#[test]
fn without_rows_the_commands_work_on_the_registry_and_import_turns_it_into_rows() {
    let world = World::new(REGATTA);
    let api = beside(&world, "api", &[]).display().to_string();
    let odd = beside(&world, "My Lib", &[]).display().to_string();
    for (name, path) in [("api", &api), ("My Lib", &odd)] {
        let added = world.regatta(["repo", "add", "--name", name, "--path", path]).exited(0).json();
        assert_eq!(added["added"]["default_branch"], "main");
    }
    let none = world.regatta(["repo", "status"]).exited(4);
    assert!(none.stderr.contains("this project has no `repos` in regatta.yaml"), "{}", none.stderr);
    let imported = world.regatta(["repo", "import"]).exited(0);
    insta::assert_snapshot!(imported.shown(), @r"
    added api (DIR/api) to regatta.yaml
    added my-lib (DIR/My Lib) to regatta.yaml
    ");
    insta::assert_snapshot!(settings(&world), @r#"
    repos:
      - name: api
        path: ../api
        target: main
      - name: my-lib
        path: "../My Lib"
        target: main
    "#);
    // Again, nothing is new; the registry is as it was, where it is asked for.
    let again = world.regatta(["repo", "import"]).exited(6);
    assert!(again.stderr.contains("nothing to import"), "{}", again.stderr);
    let root = world.root().join(".regatta/parallel-agents");
    let registered = world.regatta(["--root", root.to_str().unwrap(), "repo", "list"]).exited(0).json();
    assert_eq!(registered["repositories"][0]["path"], json!(Path::new(&api)));
    let empty = world.regatta(["--root", "/nowhere", "repo", "import"]).exited(4);
    assert!(empty.stderr.contains("no repository is registered"), "{}", empty.stderr);
}
