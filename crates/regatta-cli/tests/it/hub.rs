//! The hub: a bare repository through which machines share work.

use std::fs;
use std::path::{Path, PathBuf};

use regatta_testkit::repo::script;
use serde_json::{Value, json};

use regatta_testkit::world::World;

fn world() -> World {
    World::new(env!("CARGO_BIN_EXE_regatta"))
}

/// The refs of a repository, without those that git makes itself.
fn refs(world: &World, repository: &Path) -> Vec<String> {
    let listed = world.repo().git_in(repository, ["for-each-ref", "--format=%(refname)"]);
    listed.lines().map(str::to_owned).collect()
}

fn hub_of(world: &World) -> PathBuf {
    world.outside("hub.git")
}

fn what(checked: &Value) -> Vec<(String, bool)> {
    let steps = checked["steps"].as_array().unwrap();
    steps.iter().map(|step| (step["what"].as_str().unwrap().to_owned(), step["ok"] == true)).collect()
}

#[test]
fn a_hub_is_made_has_the_target_and_can_do_everything() {
    let world = world();
    let hub = hub_of(&world);
    let made = world.regatta(["hub", "init", "../hub.git", "--json"]).exited(0).json();
    let main = world.repo().rev("main");
    assert_eq!(made, json!({ "hub": hub, "target": "main", "commit": main, "pushed": true }));
    let git = |args: &[&str]| world.repo().git_in(&hub, args);
    assert_eq!(git(&["rev-parse", "main"]), main);
    assert_eq!(git(&["symbolic-ref", "HEAD"]), "refs/heads/main");
    assert_eq!(git(&["config", "core.logAllRefUpdates"]), "always");
    assert_eq!(git(&["config", "receive.advertiseAtomic"]), "true");
    // The same again changes nothing, not even after more commits here.
    world.repo().commit_file("more", "x", "more");
    let again = world.regatta(["hub", "init", "../hub.git", "--json"]).exited(0).json();
    assert_eq!((&again["pushed"], &again["commit"]), (&json!(false), &json!(main)));

    let none = world.regatta(["hub", "check"]).exited(4);
    assert!(none.stderr.contains("no hub is configured"), "{}", none.stderr);
    world.config("hub: ../hub.git\n");
    let checked = world.regatta(["hub", "check", "--json", "--trust"]).exited(0).json();
    assert_eq!(checked["ok"], true, "{checked:#}");
    let all = ["reached", "target", "own-refs", "create-only", "lease", "atomic", "deletion"];
    assert_eq!(what(&checked), all.map(|what| (what.to_owned(), true)));
    assert_eq!(refs(&world, &hub), ["refs/heads/main"], "nothing is left");
    let shown = world.regatta(["hub", "check"]).exited(0).stdout;
    assert!(shown.contains("✓ atomic"), "{shown}");
}

#[test]
fn a_hub_that_lacks_something_is_named_for_it() {
    let world = world();
    world.regatta(["hub", "init", "../hub.git"]).exited(0);
    world.config("hub: ../hub.git\n");
    let hub = hub_of(&world);
    world.repo().git_in(&hub, ["config", "receive.advertiseAtomic", "false"]);
    script(&hub.join("hooks/update"), "case $3 in *[!0]*) exit 0;; esac; echo refs stay >&2; exit 1\n");
    let checked = world.regatta(["hub", "check", "--json", "--trust"]).exited(3).json();
    let lacking: Vec<String> =
        what(&checked).into_iter().filter(|(_, ok)| !ok).map(|(what, _)| what).collect();
    assert_eq!(lacking, ["atomic", "deletion"], "{checked:#}");
    script(
        &hub.join("hooks/update"),
        "case $1 in refs/heads/*) exit 0;; esac; echo only branches >&2; exit 1\n",
    );
    let checked = world.regatta(["hub", "check", "--json"]).exited(3).json();
    assert_eq!(what(&checked).last(), Some(&("own-refs".to_owned(), false)), "{checked:#}");
    assert!(checked["steps"].to_string().contains("only branches"), "{checked:#}");

    fs::rename(&hub, world.outside("away")).unwrap();
    let checked = world.regatta(["hub", "check", "--json"]).exited(3).json();
    assert_eq!(what(&checked), [("reached".to_owned(), false)]);
}

#[test]
fn over_ssh_the_path_is_data_and_never_a_command() {
    let mut world = world();
    // It gets what ssh gets: options, the host, and one string for the shell there.
    let ssh = world.outside("ssh");
    script(&ssh, "while [ $# -gt 1 ]; do shift; done; exec sh -c \"$1\"\n");
    world.env("GIT_SSH_COMMAND", &ssh);
    world.env("GIT_SSH_VARIANT", "simple");
    let path = world.outside("it's;touch${IFS}x;$(touch${IFS}y).git");
    let url = format!("ssh://host{}", path.display());
    let made = world.regatta(["hub", "init", &url, "--json"]).exited(0).json();
    assert_eq!(made["pushed"], true);
    assert!(path.join("objects").is_dir());
    assert_eq!(world.repo().git_in(&path, ["rev-parse", "main"]), world.repo().rev("main"));
    for dir in [world.root(), &world.outside(""), &path] {
        assert!(!dir.join("x").exists() && !dir.join("y").exists(), "{}", dir.display());
    }
    script(&ssh, "echo host is on fire >&2; exit 255\n");
    let failed = world.regatta(["hub", "init", "ssh://host/srv/x.git"]).exited(7);
    assert!(failed.stderr.contains("host is on fire"), "{}", failed.stderr);
}

#[test]
fn what_is_no_place_for_a_hub_is_refused() {
    let world = world();
    for (address, code) in [
        ("https://example.org/x.git", 2),
        ("ext::sh -c id", 2),
        ("ssh://-oProxyCommand=id/x", 2),
        ("https://me:secret@example.org/x.git", 2),
        ("origin", 2),
        ("none", 2),
        (".", 6),
    ] {
        let refused = world.regatta(["hub", "init", "--", address]).exited(code);
        assert!(refused.stderr.contains("hint"), "{address}: {}", refused.stderr);
        assert!(!refused.stderr.contains("could not make"), "{address}: {}", refused.stderr);
    }
    world.config("hub: nowhere\n");
    let refused = world.regatta(["hub", "check", "--trust"]).exited(2);
    assert!(refused.stderr.contains("names the remote nowhere"), "{}", refused.stderr);
}
