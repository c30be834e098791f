//! Rows of `repos`, and the machine's own paths.

use super::super::parse;
use crate::config::Config;
use crate::repos::{Graph, RepoName, Wait};

fn name(text: &str) -> RepoName {
    RepoName::parse(text).unwrap()
}

fn sound(text: &str) -> Config {
    let (config, found) = parse("regatta.yaml", text);
    assert_eq!(found, [], "{text}");
    config
}

#[test]
fn rows_have_the_projects_settings_where_they_have_none() {
    let config = sound(
        "land: { strategy: squash, test_command: make test }\nlane: { setup: make deps }\n\
         repos:\n  - { name: home, path: . }\n  - { name: shared }\n  - name: api\n    path: ../src/api\n    \
         depends_on: [shared, home]\n    wait: landed\n    setup: \"\"\n    test_command: npm test\n    \
         land: { push: true }\n    permissions: { deny: [\"Bash(git push:*)\"] }\n",
    );
    assert_eq!(config.home_repo().unwrap().name, name("home"));
    assert_eq!(config.repo(&name("shared")).unwrap().path, "../shared");
    let api = config.repo(&name("api")).unwrap();
    assert_eq!(api.wait, Wait::Landed);
    let land = serde_json::to_value(&config.of_repo(Some(&name("api"))).land).unwrap();
    assert_eq!(land["strategy"], "squash");
    assert_eq!(land["test_command"], "npm test");
    assert_eq!(land["push"], true);
    let of_api = config.of_repo(Some(&name("api")));
    assert_eq!(of_api.lane.setup, None);
    assert_eq!(of_api.defaults.bounds.permissions.deny.len(), 1);
    let shared = config.of_repo(Some(&name("shared")));
    assert_eq!(shared.land.test_command.as_deref(), Some("make test"));
    assert_eq!(shared.lane.setup.as_deref(), Some("make deps"));
    let below = Graph::declared(&config.repos).below(&name("api"));
    assert_eq!(below.into_iter().collect::<Vec<_>>(), [name("home"), name("shared")]);
    assert_eq!(config.repo_named("home"), Ok(None), "the project's own repository needs no name");
    assert_eq!(config.repo_named("api"), Ok(Some(name("api"))));
}

#[test]
fn the_environment_and_flags_override_the_rows() {
    let mut config = sound("repos: [{ name: api, land: { push: true, strategy: merge } }]\n");
    assert_eq!(config.apply_env([("REGATTA_LAND_PUSH", "false")]), []);
    let land = &config.repo(&name("api")).unwrap().land;
    assert!(!land.push);
    assert_eq!(serde_json::to_value(land.strategy).unwrap(), "merge");
}

#[test]
fn every_mistake_has_its_place() {
    let text = "repos:\n  - path: ../x\n  - { name: Api }\n  - { name: api, path: ../src/../api }\n  \
                - { name: api }\n  - { name: web, path: ../api/., depends_on: [ap, web] }\n  \
                - { name: a, depends_on: [b] }\n  - { name: b, depends_on: a, wait: land, target: -x }\n  \
                - { name: c, path: \"\", pull: always }\n  \
                - { name: d, test_command: x, land: { test_command: y, fence: atomic }, colour: 1 }\n";
    let (_, found) = parse("regatta.yaml", text);
    let shown: Vec<String> = found.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(shown.join("\n"), @r#"
    regatta.yaml:2:5: error: `name` is missing
    regatta.yaml:3:13: error: repository "Api" contains 'A'; a–z, 0–9, '_' and '-' are allowed
    regatta.yaml:5:13: error: duplicate repository "api"
    regatta.yaml:6:24: error: "../api/." is the path of api and of web
    regatta.yaml:6:47: error: there is no repository "ap" in `repos`
      hint: did you mean `api`?
    regatta.yaml:6:51: error: web cannot depend on itself
    regatta.yaml:7:28: error: the repositories depend on each other: a → b → a
      hint: remove one of these dependencies
    regatta.yaml:8:37: error: `wait` must be one of working, landed, never, found "land"
    regatta.yaml:8:51: error: `target` "-x" begins with a dash, as an option would
    regatta.yaml:9:22: error: `path` is empty
      hint: `.` is the project's own repository
    regatta.yaml:9:32: error: `pull` must be one of never, check, auto, found "always"
    regatta.yaml:10:30: error: `test_command` and `land.test_command` mean the same; set only one of them
    regatta.yaml:10:58: error: `fence` is for landings at a hub, which a project with several repositories does not have
    regatta.yaml:10:75: error: unknown key `colour`
      hint: known here: name, path, remote, target, depends_on, wait, max_workers, setup, test_command, land, permissions, pull
    "#);
}

#[test]
fn a_machine_has_its_own_paths() {
    let mut config = sound("repos: [{ name: api }, { name: web }, { name: home, path: . }]\n");
    assert_eq!(config.apply_repo_paths("repos.yaml", "api: { path: /srv/api }\n"), []);
    assert_eq!(config.repo(&name("api")).unwrap().path, "/srv/api");
    assert_eq!(config.apply_repo_paths("repos.yaml", ""), []);
    let text = "apu: { path: /x }\nweb: {}\nhome: { path: /x }\napi: { paht: /x }\n";
    let found = config.apply_repo_paths(".regatta/repos.yaml", text);
    let shown: Vec<String> = found.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(shown.join("\n"), @r#"
    .regatta/repos.yaml:1:1: error: there is no repository "apu" in `repos`
      hint: did you mean `api`?
    .regatta/repos.yaml:2:6: error: web needs a `path`
    .regatta/repos.yaml:3:15: error: home is the project's own repository
    .regatta/repos.yaml:4:6: error: api needs a `path`
    .regatta/repos.yaml:4:8: error: unknown key `paht`
      hint: did you mean `path`?
    "#);
    assert_eq!(config.repo(&name("web")).unwrap().path, "../web");
}
