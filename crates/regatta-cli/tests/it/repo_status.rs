//! `regatta repo status` and `pull`: every state, produced for real.

use std::fs;
use std::path::{Path, PathBuf};

use regatta_testkit::repo::{script, write};
use regatta_testkit::shown::told;
use regatta_testkit::world::World;
use serde_json::{Value, json};

use crate::REGATTA;
use crate::repo_add::beside;

const FILES: &[(&str, &str)] = &[("file.txt", "one\n")];

/// A repository beside the world's that was pushed to a bare one.
pub(crate) fn with_remote(world: &World, name: &str, files: &[(&str, &str)]) -> PathBuf {
    let dir = beside(world, name, files);
    let remote = world.outside(&format!("remotes/{name}.git"));
    fs::create_dir_all(&remote).unwrap();
    world.repo().git_in(&remote, ["init", "--quiet", "--bare", "--initial-branch=main"]);
    world.repo().git_in(&dir, ["remote", "add", "origin", remote.to_str().unwrap()]);
    world.repo().git_in(&dir, ["push", "--quiet", "-u", "origin", "main"]);
    dir
}

/// Somebody else pushes a commit to the remote of a repository.
pub(crate) fn pushed_elsewhere(world: &World, name: &str, file: &str) -> String {
    let clone = world.outside(&format!("others/{name}"));
    let remote = world.outside(&format!("remotes/{name}.git"));
    if !clone.exists() {
        world.repo().git(["clone", "--quiet", remote.to_str().unwrap(), clone.to_str().unwrap()]);
        world.repo().git_in(&clone, ["config", "user.name", "Bob"]);
        world.repo().git_in(&clone, ["config", "user.email", "bob@example.org"]);
    }
    world.repo().git_in(&clone, ["pull", "--quiet", "--ff-only"]);
    write(&clone.join(file), "theirs\n");
    let commit = world.repo().commit_all_in(&clone, "theirs");
    world.repo().git_in(&clone, ["push", "--quiet", "origin", "main"]);
    commit
}

fn commit_here(world: &World, dir: &Path, file: &str) -> String {
    write(&dir.join(file), "ours\n");
    world.repo().commit_all_in(dir, "ours")
}

fn rows(names: &[&str]) -> String {
    let rows: String = names.iter().map(|name| format!("  - name: {name}\n")).collect();
    format!("repos:\n{rows}")
}

fn status(world: &World, args: &[&str]) -> Value {
    world.regatta(["repo", "status", "--json"].iter().chain(args)).exited(0).json()
}

#[test]
fn every_state_is_told() {
    let world = World::new(REGATTA);
    for name in ["current", "dirty", "behind", "ahead", "diverged", "unknown", "branchless"] {
        with_remote(&world, name, FILES);
    }
    beside(&world, "no-remote", &[]);
    write(&world.outside("dirty/new.txt"), "mine");
    let theirs = pushed_elsewhere(&world, "behind", "new.txt");
    commit_here(&world, &world.outside("ahead"), "new.txt");
    pushed_elsewhere(&world, "diverged", "new.txt");
    commit_here(&world, &world.outside("diverged"), "other.txt");
    fs::remove_dir_all(world.outside("remotes/unknown.git")).unwrap();
    world.repo().git_in(&world.outside("branchless"), ["branch", "-m", "trunk"]);
    world.config(&format!(
        "{}  - {{ name: missing, path: ../nowhere }}\n  - {{ name: branchless, target: main }}\n",
        rows(&["current", "dirty", "behind", "ahead", "diverged", "unknown", "no-remote"]),
    ));
    let before = world.repo().git_in(&world.outside("behind"), ["for-each-ref"]);
    insta::assert_snapshot!(world.regatta(["repo", "status"]).exited(0).shown(), @r"
    REPOSITORY  STATE       TARGET  HERE          REMOTE        CHANGES
    current     current     main  HASH  HASH  -
    dirty       current     main  HASH  HASH  uncommitted
    behind      behind      main  HASH  HASH  -
    ahead       ahead by 1  main  HASH  HASH  -
    diverged    diverged    main  HASH  HASH  -
    unknown     unknown     main  HASH  -             -
    no-remote   no-remote   main  HASH  -             -
    missing     missing     -       -             -             -
    branchless  missing     main    -             -             -
    --- stderr
    behind: the commits of the remote are not here; --fetch brings and counts them
    diverged: the commits of the remote are not here; --fetch brings and counts them
    unknown: 'DIR/remotes/unknown.git' does not appear to be a git repository
    no-remote: it has no remote, or several and no `origin`
    missing: there is no directory DIR/nowhere
    branchless: it has no branch main
    ");
    assert_eq!(
        world.repo().git_in(&world.outside("behind"), ["for-each-ref"]),
        before,
        "looking changes nothing"
    );
    assert!(!world.outside("behind/.regatta").exists());
    // Once fetched, they are counted.
    insta::assert_snapshot!(world.regatta(["repo", "status", "--fetch"]).exited(0).shown(), @r"
    REPOSITORY  STATE                        TARGET  HERE          REMOTE        CHANGES
    current     current                      main  HASH  HASH  -
    dirty       current                      main  HASH  HASH  uncommitted
    behind      behind by 1                  main  HASH  HASH  -
    ahead       ahead by 1                   main  HASH  HASH  -
    diverged    diverged: 1 behind, 1 ahead  main  HASH  HASH  -
    unknown     unknown                      main  HASH  -             -
    no-remote   no-remote                    main  HASH  -             -
    missing     missing                      -       -             -             -
    branchless  missing                      main    -             -             -
    --- stderr
    unknown: 'DIR/remotes/unknown.git' does not appear to be a git repository
    no-remote: it has no remote, or several and no `origin`
    missing: there is no directory DIR/nowhere
    branchless: it has no branch main
    ");
    let behind = status(&world, &["behind"]);
    let here = world.repo().git_in(&world.outside("behind"), ["rev-parse", "main"]);
    assert_eq!(
        behind,
        json!([{
            "name": "behind", "path": world.outside("behind"), "target": "main", "state": "behind", "dirty": false,
            "remote": "origin", "here": here, "there": theirs, "behind": 1, "ahead": 0, "why": null,
        }])
    );
    // Fetching moves only a ref of Regatta's own.
    let refs = world.repo().git_in(&world.outside("behind"), ["for-each-ref", "--format=%(refname)"]);
    assert!(refs.contains("refs/regatta/remote/main"), "{refs}");
    let unknown = world.regatta(["repo", "status", "behnid"]).exited(4);
    assert!(unknown.stderr.contains("did you mean `behind`?"), "{}", unknown.stderr);
}

#[test]
fn a_remote_that_does_not_answer_is_unknown_after_a_while() {
    let world = World::new(REGATTA);
    let dir = with_remote(&world, "slow", FILES);
    let program = world.outside("bin/slow-pack");
    script(&program, "exec sleep 600");
    world.repo().git_in(&dir, ["config", "remote.origin.uploadpack", program.to_str().unwrap()]);
    world.config(&rows(&["slow"]));
    let found = status(&world, &[]);
    assert_eq!((&found[0]["state"], &found[0]["why"]), (&json!("unknown"), &json!("no answer within 10 s")));
    world.assert_no_process();
}

#[test]
fn a_pull_moves_only_what_nothing_of_the_users_stops() {
    let world = World::new(REGATTA);
    let names = ["clean", "busy", "edited", "diverged", "even", "elsewhere"];
    for name in names {
        with_remote(&world, name, FILES);
    }
    let theirs: Vec<String> = ["clean", "busy", "edited", "elsewhere"]
        .map(|name| pushed_elsewhere(&world, name, "file.txt"))
        .to_vec();
    pushed_elsewhere(&world, "diverged", "file.txt");
    commit_here(&world, &world.outside("diverged"), "other.txt");
    // Another file is edited: it is not in the way. The same file is.
    write(&world.outside("edited/mine.txt"), "mine\n");
    write(&world.outside("busy/file.txt"), "mine\n");
    world.repo().git_in(&world.outside("elsewhere"), ["switch", "--quiet", "-c", "feature"]);
    world.config(
        &format!("{}  - {{ name: gone }}\n", rows(&names))
            .replace("- name: elsewhere\n", "- { name: elsewhere, target: main }\n"),
    );
    let pulled = world.regatta(["repo", "pull"]).exited(6);
    insta::assert_snapshot!(pulled.shown(), @r"
    clean: main moved from HASH to HASH
    edited: main moved from HASH to HASH
    even: main has everything that its remote has
    elsewhere: main moved from HASH to HASH
    --- stderr
    busy: not pulled: the checkout at DIR/busy has uncommitted changes in file.txt; commit or stash them
    diverged: not pulled: main (HASH) has commits that origin (HASH) does not have
    gone: not pulled: there is no directory DIR/gone
    --- exit 6
    ");
    let rev = |name: &str| world.repo().git_in(&world.outside(name), ["rev-parse", "main"]);
    let read = |path: &str| fs::read_to_string(world.outside(path)).unwrap();
    assert_eq!(
        [rev("clean"), rev("edited"), rev("elsewhere")],
        [theirs[0].clone(), theirs[2].clone(), theirs[3].clone()]
    );
    assert_eq!((read("clean/file.txt").as_str(), read("edited/file.txt").as_str()), ("theirs\n", "theirs\n"));
    assert_eq!(read("edited/mine.txt"), "mine\n");
    assert_eq!((read("busy/file.txt").as_str(), read("elsewhere/file.txt").as_str()), ("mine\n", "one\n"));
    assert_ne!(rev("busy"), theirs[1]);
    for name in ["clean", "elsewhere"] {
        let dir = world.outside(name);
        assert_eq!(
            world.repo().git_in(&dir, ["status", "--porcelain", "--untracked-files=no"]),
            "",
            "{name}"
        );
    }
    // Out of the way, it follows.
    write(&world.outside("busy/file.txt"), "one\n");
    let pulled = world.regatta(["repo", "pull", "busy", "even", "--json"]).exited(0).json();
    assert_eq!((&pulled[0]["result"], &pulled[0]["to"]), (&json!("moved"), &json!(theirs[1])));
    assert_eq!((&pulled[1]["result"], &pulled[1]["why"]), (&json!("even"), &json!(null)));
}

#[test]
fn the_doctor_names_what_is_behind_where_the_remote_may_be_asked() {
    let world = World::new(REGATTA);
    for name in ["asked", "silent"] {
        with_remote(&world, name, FILES);
        pushed_elsewhere(&world, name, "new.txt");
    }
    world.config("repos:\n  - { name: asked, pull: check }\n  - { name: silent }\n");
    let findings = world.regatta(["doctor", "--json"]).json();
    insta::assert_snapshot!(told(&findings, "repositories"), @r"
    warning: asked: main is behind its remote
      hint: regatta repo pull asked
    ");
    world.regatta(["repo", "pull"]).exited(0);
    let findings = world.regatta(["doctor", "--json"]).json();
    insta::assert_snapshot!(told(&findings, "repositories"), @"ok: 2 repositories");
}

#[test]
fn a_run_pulls_first_where_that_is_automatic() {
    let world = World::new(REGATTA);
    let names = ["clean", "busy", "asked"];
    for name in names {
        with_remote(&world, name, FILES);
    }
    let theirs = names.map(|name| pushed_elsewhere(&world, name, "file.txt"));
    write(&world.outside("busy/file.txt"), "mine\n");
    world.config("repos:\n  - { name: clean, pull: auto }\n  - { name: busy, pull: auto }\n  - { name: asked, pull: check }\n");
    let plan = world.sim("- id: a\n  prompt: |\n    write a.txt a\n    report pass Wrote it\n");
    world.run(&plan, &["--trust"]).exited(0);
    let rev = |name: &str| world.repo().git_in(&world.outside(name), ["rev-parse", "main"]);
    assert_eq!(rev("clean"), theirs[0]);
    assert_eq!(fs::read_to_string(world.outside("clean/file.txt")).unwrap(), "theirs\n");
    assert_ne!(rev("busy"), theirs[1]);
    assert_eq!(fs::read_to_string(world.outside("busy/file.txt")).unwrap(), "mine\n");
    assert_ne!(rev("asked"), theirs[2]);
}
