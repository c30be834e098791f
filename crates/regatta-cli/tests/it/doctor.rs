//! `regatta doctor`.

use regatta_testkit::repo::ScratchRepo;
use regatta_testkit::world::World;
use serde_json::Value;

use crate::REGATTA;

const SIM: &str = "version: 1\ndefault_agent: sim\n";

fn finding<'a>(findings: &'a Value, check: &str) -> &'a Value {
    let list = findings.as_array().expect("an array");
    list.iter().find(|finding| finding["check"] == check).unwrap_or_else(|| panic!("{check} in {findings:#}"))
}

#[test]
fn a_healthy_project_is_told_so() {
    let world = World::new(REGATTA);
    world.repo().write("regatta.yaml", SIM);
    world
        .run_plan("---\nregatta: 1\ntasks:\n  - { id: a, agent: sh, prompt: echo hi > a.txt }\n---\n")
        .exited(0);
    let found = world.regatta(["doctor", "--json"]).exited(0).json();
    for check in
        ["git", "repository", "identity", "configuration", "target", "state", "store", "lanes", "trust"]
    {
        assert_eq!(finding(&found, check)["status"], "ok", "{found:#}");
    }
    assert!(finding(&found, "store")["detail"].as_str().unwrap().contains("1 task,"), "{found:#}");
    let text = world.regatta(["doctor"]).exited(0).stdout;
    assert!(text.lines().all(|line| line.starts_with(['✓', '⚠', ' '])), "{text}");
}

#[test]
fn a_missing_default_agent_is_an_error_and_says_what_to_do() {
    let world = World::new(REGATTA);
    world.repo().write(
        "regatta.yaml",
        "version: 1\ndefault_agent: robot\nagents:\n  robot: { kind: command, argv: [no-such-robot] }\n",
    );
    let ran = world.regatta(["doctor", "--json"]).exited(3);
    let found = ran.json();
    let agent = found.as_array().unwrap().iter().find(|finding| finding["status"] == "error").unwrap();
    assert!(agent["detail"].as_str().unwrap().contains("no-such-robot"), "{agent}");
    assert!(agent["hint"].as_str().unwrap().contains("regatta.yaml"), "{agent}");
    assert!(!world.root().join(".regatta").exists(), "looking changes nothing");
}

#[test]
fn mistakes_in_the_configuration_are_shown_with_their_place() {
    let world = World::new(REGATTA);
    world.repo().write("regatta.yaml", "version: 1\nmax_worker: 3\n");
    let found = world.regatta(["doctor", "--json"]).exited(3).json();
    let detail = finding(&found, "configuration")["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains("regatta.yaml:2:1") && detail.contains("max_workers"), "{detail}");
}

#[test]
fn an_empty_repository_and_none_at_all_are_errors_with_a_next_step() {
    let world = World::around(REGATTA, ScratchRepo::empty("main"));
    world.repo().write("regatta.yaml", SIM);
    let found = world.regatta(["doctor", "--json"]).exited(3).json();
    assert!(finding(&found, "repository")["hint"].as_str().unwrap().contains("git commit --allow-empty"));
    let found = world.regatta_in(&world.repo().outside(), ["doctor", "--json"]).exited(3).json();
    assert!(finding(&found, "repository")["hint"].as_str().unwrap().contains("git init"));
}

#[test]
fn fixing_makes_directories_heals_lanes_and_empties_the_trash() {
    let world = World::new(REGATTA);
    world.repo().write("regatta.yaml", SIM);
    let found = world.regatta(["doctor", "--json"]).exited(0).json();
    assert_eq!(finding(&found, "state")["status"], "warning");
    let found = world.regatta(["doctor", "--fix", "--json"]).exited(0).json();
    assert_eq!(finding(&found, "state")["fixed"], true);
    world.run_plan("---\nregatta: 1\ntasks:\n  - { id: bad, agent: sh, max_attempts: 1, prompt: \"echo w > w.txt; false\" }\n---\n").exited(1);
    let lanes = world.outside("repo.lanes");
    std::fs::remove_file(lanes.join("bad/.git")).unwrap();
    std::fs::create_dir_all(lanes.join(".trash/old-1-1/deep")).unwrap();
    let found = world.regatta(["doctor", "--json"]).exited(0).json();
    assert_eq!(finding(&found, "lane")["status"], "warning");
    assert_eq!(finding(&found, "leftovers")["status"], "warning");
    let found = world.regatta(["doctor", "--fix", "--json"]).exited(0).json();
    assert_eq!(finding(&found, "lane")["fixed"], true, "{found:#}");
    assert!(lanes.join("bad/.git").is_file() && lanes.join("bad/w.txt").is_file());
    assert!(!lanes.join(".trash").exists());
}

#[test]
fn settings_that_changed_since_the_last_run_are_named() {
    let world = World::new(REGATTA);
    world.repo().write("regatta.yaml", SIM);
    world.run_plan("---\nregatta: 1\ntasks:\n  - { id: a, agent: sh, prompt: \"true\" }\n---\n").exited(0);
    world.repo().git(["config", "core.fsmonitor", "/tmp/evil"]);
    regatta_testkit::repo::script(&world.root().join(".git/hooks/post-checkout"), "true");
    let found = world.regatta(["doctor", "--json"]).exited(0).json();
    let trust = finding(&found, "trust");
    assert_eq!(trust["status"], "warning");
    let detail = trust["detail"].as_str().unwrap();
    assert!(detail.contains("core.fsmonitor") && detail.contains("hooks/post-checkout"), "{detail}");
}

#[test]
fn a_store_that_cannot_be_read_is_an_error_that_does_not_send_in_circles() {
    let world = World::new(REGATTA);
    world.repo().write("regatta.yaml", SIM);
    let store = world.outside("broken.db");
    std::fs::write(&store, "this is no database, and long enough to tell".repeat(100)).unwrap();
    let args = ["--store", store.to_str().unwrap(), "doctor", "--json"];
    let found = world.regatta(args).exited(3).json();
    let hint = finding(&found, "store")["hint"].as_str().unwrap().to_owned();
    assert!(hint.contains("move it aside") && !hint.contains("regatta doctor"), "{hint}");
    insta::assert_snapshot!(world.regatta(["--store", store.to_str().unwrap(), "list", "--json"]).shown(), @r#"
    --- stderr
    {"code":3,"error":"store unusable: file is not a database","hint":"`regatta doctor` checks the store","next":[{"text":"`regatta doctor` checks the store"}]}
    --- exit 3
    "#);
}

/// Programs on PATH that answer with these scripts.
fn path_with(world: &World, programs: &[(&str, &str)]) -> String {
    let bin = world.outside("bin");
    for (name, body) in programs {
        regatta_testkit::repo::script(&bin.join(name), body);
    }
    format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default())
}

fn details(found: &Value, check: &str) -> Vec<String> {
    let list = found.as_array().unwrap().iter().filter(|finding| finding["check"] == check);
    list.map(|finding| format!("{}: {}", finding["status"], finding["detail"])).collect()
}

#[test]
fn each_agent_is_told_with_version_login_and_sandbox() {
    let world = World::new(REGATTA);
    let path = path_with(
        &world,
        &[
            ("claude", "echo '2.1.197 (Claude Code)'"),
            (
                "codex",
                "case \"$*\" in --version) echo 'codex-cli 0.166.0' ;; sandbox*) test -d \"$CODEX_HOME\" && : >written ;; *) exit 9 ;; esac",
            ),
            ("gemini", "exec sleep 3600"),
        ],
    );
    let home = world.outside("codex-home");
    regatta_testkit::repo::write(&home.join("auth.json"), "{}");
    world.repo().write(
        "regatta.yaml",
        format!(
            "version: 1\nagents:\n  codex: {{ env: {{ CODEX_HOME: {} }} }}\n  gemini: {{ env: {{ GEMINI_API_KEY: x-y-z }} }}\n\
             profiles:\n  - {{ name: other, env: {{ CLAUDE_CONFIG_DIR: /nowhere/at-all }} }}\n",
            home.display()
        ),
    );
    let found = world.regatta_with(&[("PATH", &path)], ["doctor", "--json"]).exited(0).json();
    let agents = details(&found, "agent").join("\n");
    for expected in ["claude (default): 2.1.197", "codex: codex-cli 0.166.0", "did not answer within 5 s"] {
        assert!(agents.contains(expected), "{expected} in {agents}");
    }
    let logins = details(&found, "login");
    for expected in [
        "\"warning\": \"claude (default): no login was found\"".to_owned(),
        "\"warning\": \"claude (default), profile other: no login was found\"".to_owned(),
        format!("\"ok\": \"codex: signed in by {}/auth.json\"", home.display()),
        "\"ok\": \"gemini: signed in by GEMINI_API_KEY\"".to_owned(),
    ] {
        assert!(logins.contains(&expected), "{expected} in {logins:#?}");
    }
    assert!(!found.to_string().contains("x-y-z"));
    assert!(
        found.to_string().contains("with CLAUDE_CONFIG_DIR=/nowhere/at-all in the environment"),
        "{found:#}"
    );
    assert!(
        details(&found, "sandbox")[0].contains("`sandbox: workspace` and `read-only` work here"),
        "{found:#}"
    );
}

#[test]
fn what_nobody_tested_does_not_write_or_cannot_be_kept_is_told() {
    let world = World::new(REGATTA);
    let path = path_with(
        &world,
        &[
            ("claude", "echo '999.0.1 (Claude Code)'"),
            // It succeeds and has written nothing.
            (
                "codex",
                "case \"$*\" in --version) echo 'codex-cli 0.1.0' ;; *) echo 'bwrap: execvp codex-linux-sandbox: No such file or directory' >&2 ;; esac",
            ),
        ],
    );
    let file = world.outside("a-file");
    std::fs::write(&file, "").unwrap();
    let claude = format!("claude: {{ env: {{ CLAUDE_CONFIG_DIR: {}/below }} }}", file.display());
    world.repo().write("regatta.yaml", format!("version: 1\nagents:\n  {claude}\n  codex: {{ model: m }}\n"));
    let found = world.regatta_with(&[("PATH", &path)], ["doctor", "--json"]).exited(3).json();
    let agents = details(&found, "agent").join("\n");
    for expected in ["newer than 2.1.325, the newest that Regatta was tested with", "older than 0.166.0"] {
        assert!(agents.contains(expected), "{expected} in {agents}");
    }
    let sandbox = details(&found, "sandbox");
    assert!(
        sandbox[0].contains("warning") && sandbox[0].contains("execvp codex-linux-sandbox"),
        "{sandbox:?}"
    );
    let home = details(&found, "home");
    assert!(home[0].contains("error") && home[0].contains("a-file is not a directory"), "{home:?}");
}
