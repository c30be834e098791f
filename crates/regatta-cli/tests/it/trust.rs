//! `regatta trust`: what it shows, and how it ends. The attacks that it prevents are in the attack suite.

use regatta_testkit::world::World;

use crate::REGATTA;
use crate::doctor::told;
use crate::repo_add::beside;

#[test]
fn a_repository_that_runs_nothing_has_nothing_to_agree_to() {
    let world = World::new(REGATTA);
    insta::assert_snapshot!(world.regatta(["trust"]).shown(), @"nothing in this repository's settings runs a program");
    let document = world.regatta(["trust", "--json"]).exited(0).json();
    assert_eq!(document["trusted"], true);
    assert_eq!(document["items"].as_array().map(Vec::len), Some(0));
    assert!(!world.root().join(".regatta").exists(), "looking made something");
}

#[test]
fn old_and_new_values_are_shown_without_secrets() {
    let world = World::new(REGATTA);
    world.repo().git(["remote", "add", "origin", "https://example.org/old.git"]);
    world.run_plan("---\nregatta: 1\ntasks: [{ id: a, agent: sh, prompt: \"true\" }]\n---\n").exited(0);
    world.repo().git(["remote", "set-url", "origin", "https://example.org/new.git"]);
    world.repo().git(["config", "http.extraHeader", "AUTHORIZATION: basic c2VjcmV0c2VjcmV0"]);
    insta::assert_snapshot!(world.regatta(["trust"]).shown(), @"
    git settings, hooks and remotes
      ? http.extraheader: [redacted]
      ? remote.origin.url: https://example.org/old.git → https://example.org/new.git
    --- stderr
    nothing was recorded; `regatta trust --yes` agrees to all of it
    --- exit 6
    ");
    let document = world.regatta(["trust", "--json"]).exited(6).json();
    assert_eq!(document["trusted"], false);
    world.regatta(["trust", "--yes", "--quiet"]).exited(0);
    world.regatta(["trust", "--show"]).exited(0);
    let found = world.regatta(["doctor", "--json"]).json();
    insta::assert_snapshot!(told(&found, "trust"), @"ok: git settings, hooks and regatta.yaml are yours or trusted by you");
}

#[test]
fn the_record_is_the_users_own_and_nobody_elses() {
    use std::os::unix::fs::PermissionsExt;
    let world = World::new(REGATTA);
    world.run_plan("---\nregatta: 1\ntasks: [{ id: a, agent: sh, prompt: \"true\" }]\n---\n").exited(0);
    let records = world.outside("home/.local/state/regatta");
    let mode = std::fs::metadata(&records).expect("it was made").permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    let variables = [("HOME", "")];
    insta::assert_snapshot!(world.regatta_with(&variables, ["trust", "--yes"]).shown(), @"
    --- stderr
    error: neither HOME nor XDG_STATE_HOME names a directory, so Regatta cannot look up what you trust, or record it
    hint: set HOME to your home directory, or XDG_STATE_HOME to where your Regatta keeps its records
    --- exit 3
    ");
}

#[test]
fn without_a_home_every_look_names_the_next_step() {
    let world = World::new(REGATTA);
    world.run_plan("---\nregatta: 1\ntasks: [{ id: a, agent: sh, prompt: \"true\" }]\n---\n").exited(0);
    for look in [&["list"][..], &["status", "a"], &["summary"], &["events"], &["logs", "a"], &["cost"]] {
        let told =
            world.regatta_with(&[("HOME", ""), ("XDG_STATE_HOME", "")], look.iter().copied()).exited(3);
        insta::allow_duplicates! {
            insta::assert_snapshot!(told.stderr, @r"
            error: neither HOME nor XDG_STATE_HOME names a directory, so Regatta cannot look up what you trust, or record it
            hint: set HOME to your home directory, or XDG_STATE_HOME to where your Regatta keeps its records
            ");
        }
    }
    // What needs no record works, and the doctor reports the home directory, not the store.
    let doctor = world.regatta_with(&[("HOME", ""), ("XDG_STATE_HOME", "")], ["doctor"]).stdout;
    let store: Vec<&str> = doctor.lines().skip_while(|line| !line.contains(" store ")).take(2).collect();
    insta::assert_snapshot!(store.join("\n"), @r"
    ✕ store         neither HOME nor XDG_STATE_HOME names a directory, so Regatta cannot look up what you trust, or record it
                    → set HOME to your home directory, or XDG_STATE_HOME to where your Regatta keeps its records
    ");
}

#[test]
fn all_repositories_of_a_project_are_shown_and_recorded_each_by_itself() {
    let world = World::new(REGATTA);
    let api = beside(&world, "api", &[]);
    beside(&world, "web", &[]);
    world.config("repos: [{ name: api }, { name: web }]\n");
    let plan = world.plan("- { id: a, repo: api, prompt: \"echo a > a.txt\" }\n");
    world.run(&plan, &[]).exited(0);
    world.repo().git_in(&api, ["config", "core.sshCommand", "evil-ssh"]);
    let shown = world.regatta(["trust", "--show"]).exited(6).stdout;
    assert!(
        shown.ends_with("\napi: git settings, hooks and remotes\n  ? core.sshcommand: evil-ssh\n"),
        "{shown}"
    );
    let found = world.regatta(["doctor", "--json"]).json();
    insta::assert_snapshot!(told(&found, "repositories"), @"
    warning: api: git settings or hooks that you do not trust yet: core.sshcommand
      hint: its tasks wait; `regatta trust` shows them and records that you agree
    ");
    let document = world.regatta(["trust", "--json"]).exited(6).json();
    let item = document["items"].as_array().and_then(|items| items.last()).unwrap();
    assert_eq!((&item["repo"], &item["trusted"]), (&serde_json::json!("api"), &serde_json::json!(false)));
    world.regatta(["trust", "--yes", "--quiet"]).exited(0);
    world.regatta(["trust", "--show"]).exited(0);
    // The record is that of the repository itself.
    world.regatta_in(&api, ["trust", "--show"]).exited(0);
    world.regatta(["trust", "--revoke"]).exited(0);
    insta::assert_snapshot!(world.regatta_in(&api, ["trust", "--show"]).shown(), @"
    git settings, hooks and remotes
      ? core.sshcommand: evil-ssh
    --- exit 6
    ");
}
