//! `regatta repo discover` and `graph`: repositories, and what their manifests say about each other.

use regatta_testkit::repo::write;
use regatta_testkit::shown::{shown, told};
use regatta_testkit::world::{World, text};
use serde_json::{Value, json};

use crate::REGATTA;
use crate::repo_add::beside;

/// A project with a library and its users in every language, one of them further down, one in `~/src`.
fn workspace() -> World {
    let world = World::new(REGATTA);
    let shared = beside(
        &world,
        "libs/shared",
        &[
            ("Cargo.toml", "[package]\nname = \"shared\"\nversion = \"1.0.0\"\n"),
            ("package.json", "{ \"name\": \"@acme/shared\" }\n"),
            ("go.mod", "module example.org/acme/shared\n"),
            ("pyproject.toml", "[project]\nname = \"acme_shared\"\n"),
        ],
    );
    world.repo().git_in(&shared, ["remote", "add", "origin", "git@github.com:acme/shared.git"]);
    beside(&world, "api", &[("Cargo.toml", "[dependencies]\nshared = { path = \"../libs/shared\" }\n")]);
    beside(
        &world,
        "web",
        &[("package.json", "{\n  \"dependencies\": {\n    \"@acme/shared\": \"^1\"\n  }\n}\n")],
    );
    let tool = "module example.org/acme/tool\n\nreplace example.org/acme/shared => ../../../libs/shared\n";
    beside(&world, "home/src/tool", &[("go.mod", tool)]);
    let jobs = "requests\nacme-shared @ git+https://github.com/acme/shared.git@main\n";
    let jobs = beside(&world, "jobs", &[("requirements.txt", jobs), ("broken/Cargo.toml", "[package\n")]);
    write(&jobs.join("new.txt"), "not committed");
    world
}

fn names(found: &Value) -> Vec<&str> {
    found["repositories"].as_array().unwrap().iter().map(|repo| text(&repo["name"])).collect()
}

#[test]
fn repositories_are_found_with_what_their_manifests_show() {
    let world = workspace();
    world.config("repos:\n  - name: backend\n    path: ../api\n");
    // A lane and a linked worktree are not repositories of their own.
    world.repo().git(["worktree", "add", "-q", "../linked"]);
    let found = world.regatta(["repo", "discover"]).exited(0);
    insta::assert_snapshot!(shown(&found.stdout), @r"
    REPOSITORY  IN PROJECT  BRANCH  CHANGES      REMOTE       PATH
    backend     yes         main    -            -            DIR/api
    tool        no          main    -            -            DIR/home/src/tool
    jobs        no          main    uncommitted  -            DIR/jobs
    shared      no          main    -            acme/shared  DIR/libs/shared
    repo        no          main    -            -            .
    web         no          main    -            -            DIR/web

    dependencies in their manifests:
      backend → shared  Cargo.toml:2  ../libs/shared
      jobs → shared  requirements.txt:2  github.com/acme/shared
      tool → shared  go.mod:3  ../../../libs/shared
      web → shared  package.json:3  @acme/shared
    ");
    let notes = found.stderr;
    assert!(notes.contains("jobs: broken/Cargo.toml:1:"), "{notes}");
    assert!(notes.contains("5 repositories are not in the project"), "{notes}");
    let found = world.regatta(["repo", "discover", "--json"]).exited(0).json();
    let jobs = found["repositories"].as_array().unwrap().iter().find(|repo| repo["name"] == "jobs").unwrap();
    assert_eq!(
        (&jobs["dirty"], &jobs["registered"], &jobs["default_branch"]),
        (&json!(true), &json!(false), &json!("main"))
    );
    assert_eq!(jobs["problems"][0]["file"], "broken/Cargo.toml");
    let shared =
        found["repositories"].as_array().unwrap().iter().find(|repo| repo["name"] == "shared").unwrap();
    assert_eq!(shared["slug"], "acme/shared");
    // Nothing was made anywhere.
    for dir in ["api", "web", "jobs", "libs/shared", "home/src/tool"] {
        assert!(!world.outside(dir).join(".regatta").exists(), "{dir}");
    }
}

#[test]
fn the_place_and_the_depth_are_chosen() {
    let world = workspace();
    let find = |args: &[&str]| world.regatta(["repo", "discover"].iter().chain(args)).exited(0).json();
    // Without rows, and not on a terminal, the output is JSON, with the key of parallel-agents.
    let all = find(&[]);
    let siblings: Vec<_> = ["api", "jobs", "web"].map(|name| json!(world.outside(name))).to_vec();
    assert_eq!(all["siblings"], json!(siblings));
    assert_eq!(names(&all), ["api", "tool", "jobs", "shared", "repo", "web"]);
    // The library is further down, but a manifest beside points to it.
    let near = find(&["--from", ".", "--depth", "1"]);
    assert_eq!(names(&near), ["api", "jobs", "repo", "web", "shared"]);
    assert_eq!(near["repositories"][4]["found_by"], "manifest");
    let tool = world.outside("home/src/tool").display().to_string();
    assert_eq!(names(&find(&["--from", &tool, "--depth", "1"])), ["tool", "shared"]);
    let gone = world.regatta(["repo", "discover", "--from", "nowhere"]).exited(4);
    assert!(gone.stderr.contains("nowhere"), "{}", gone.stderr);
    world.regatta(["repo", "discover", "--depth", "9"]).exited(2);
}

#[test]
fn submodules_are_found_and_are_dependencies() {
    let world = World::new(REGATTA);
    let lib = beside(&world, "elsewhere/deep/er/lib", &[]);
    let lib = lib.to_str().unwrap();
    world.repo().git(["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", lib, "vendor-lib"]);
    world.repo().commit_all("submodule");
    let found = world.regatta(["repo", "discover", "--depth", "1", "--from", "."]).exited(0).json();
    assert_eq!(names(&found), ["repo", "vendor-lib"]);
    assert_eq!(found["repositories"][1]["found_by"], "submodule");
    let edge = &found["edges"][0];
    assert_eq!((&edge["from"], &edge["to"]), (&json!("repo"), &json!("vendor-lib")));
    assert_eq!(edge["evidence"][0]["file"], ".gitmodules");
    assert_eq!(edge["evidence"][0]["line"], 3);
}

#[test]
fn the_graph_tells_declared_from_detected() {
    let world = workspace();
    let rows = "repos:
  - { name: shared, path: ../libs/shared }
  - { name: api, path: ../api, depends_on: [shared] }
  - { name: web, path: ../web, depends_on: auto }
  - { name: jobs, path: ../jobs }
";
    world.config(rows);
    insta::assert_snapshot!(world.regatta(["repo", "graph"]).exited(0).stdout, @r"
    shared
    ├─ api
    └─ web
    jobs

    in their manifests, but not in `depends_on`:
      jobs → shared  requirements.txt:2  github.com/acme/shared
    ");
    insta::assert_snapshot!(world.regatta(["repo", "graph", "--detected"]).exited(0).stdout, @r"
    shared
    ├─ api
    └─ web
    jobs

    in their manifests:
      api → shared  Cargo.toml:2  ../libs/shared
      web → shared  package.json:3  @acme/shared
      jobs → shared  requirements.txt:2  github.com/acme/shared
    ");
    let graph = world.regatta(["repo", "graph", "--json"]).exited(0).json();
    assert_eq!(graph["repositories"], json!(["shared", "api", "web", "jobs"]));
    let standing: Vec<&str> =
        graph["edges"].as_array().unwrap().iter().map(|edge| text(&edge["standing"])).collect();
    assert_eq!(standing, ["declared", "auto", "undeclared"]);
    // The doctor names what is not declared, and what cannot be opened.
    world.config(&format!("{rows}  - {{ name: gone, path: ../gone }}\n"));
    let findings = world.regatta(["doctor", "--json"]).json();
    insta::assert_snapshot!(told(&findings, "repositories"), @r"
    error: gone: there is no directory DIR/gone
      hint: its tasks wait; correct `path` of gone in regatta.yaml, or clone it there
    warning: jobs depends on shared (requirements.txt:2), which is not declared
      hint: add `shared` to `depends_on` of jobs in regatta.yaml
    ");
    let graph = world.regatta(["repo", "graph"]).exited(0);
    assert!(shown(&graph.stderr).contains("gone: there is no directory DIR/gone"), "{}", graph.stderr);
}

#[test]
fn circles_are_refused_if_declared_and_dropped_if_detected() {
    let world = World::new(REGATTA);
    beside(&world, "a", &[("go.mod", "module a\nreplace b => ../b\n")]);
    beside(&world, "b", &[("requirements.txt", "-e ../a\n")]);
    world.config("repos:\n  - { name: a, depends_on: auto }\n  - { name: b, depends_on: auto }\n");
    insta::assert_snapshot!(world.regatta(["repo", "graph"]).exited(0).shown(), @r"
    a
    b
    --- stderr
    warning: the manifests depend on each other: a → b → a (a by go.mod:2, b by requirements.txt:1); `depends_on: auto` takes none of these
    ");
    world.config("repos:\n  - { name: a, depends_on: [b] }\n  - { name: b, depends_on: [a] }\n");
    let refused = world.regatta(["repo", "graph"]).exited(2);
    assert!(refused.stderr.contains("a → b → a"), "{}", refused.stderr);
}
