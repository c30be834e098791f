//! `regatta attach`: how a person continues an agent's conversation.

use std::fs;

use regatta_testkit::repo::script;
use regatta_testkit::world::{World, task, text};
use serde_json::Value;

use crate::REGATTA;
use crate::send::{PASSES, Scene};

/// Each agent reports its session and waits for a person, so that its lane stays.
const STREAMS: [(&str, &str, &str, &str); 4] = [
    (
        "claude",
        r#"case "$*" in *--session-id*) id=${*##*--session-id }; id=${id%% *} ;; esac
echo "{\"type\":\"system\",\"subtype\":\"init\",\"session_id\":\"$id\",\"model\":\"m\"}""#,
        r#"echo '{"type":"result","subtype":"success","is_error":false,"result":"?","usage":{}}'"#,
        "claude --resume",
    ),
    (
        "codex",
        r#"echo '{"type":"thread.started","thread_id":"01a1dd00-7e6c-72b3-ad81-c47430c45ccc"}'"#,
        r#"echo '{"type":"turn.completed","usage":{}}'"#,
        "codex resume",
    ),
    (
        "gemini",
        r#"case "$*" in *--session-id*) id=${*##*--session-id }; id=${id%% *} ;; esac
echo "{\"type\":\"init\",\"session_id\":\"$id\",\"model\":\"m\"}""#,
        r#"echo '{"type":"result","status":"success","stats":{}}'"#,
        "gemini --resume",
    ),
    (
        "opencode",
        r#"echo '{"type":"step_start","sessionID":"ses_e22d400a5ffe","part":{"type":"step-start"}}'"#,
        r#"echo '{"type":"step_finish","sessionID":"ses_e22d400a5ffe","part":{"reason":"stop","tokens":{"input":1,"output":1,"cache":{"read":0,"write":0}},"cost":0}}'"#,
        "opencode --session",
    ),
];

fn attach(world: &World, id: &str) -> Value {
    let ran = world.regatta(["attach", "--json", id]).exited(0);
    serde_json::from_str(&ran.stdout).unwrap()
}

#[test]
fn each_agent_is_gone_on_with_by_its_own_command_in_its_own_place() {
    let mut world = World::new(REGATTA);
    for (name, begin, end, _) in STREAMS {
        let body = format!("cat >/dev/null\n{begin}\nregatta stuck 'which one?' >&2\n{end}");
        script(&world.outside(&format!("bin/{name}")), &body);
    }
    let path = format!("{}:{}", world.outside("bin").display(), std::env::var("PATH").unwrap_or_default());
    world.env("PATH", path);
    let odd = world.outside("it's $HOME");
    fs::create_dir_all(&odd).unwrap();
    let odd = odd.display().to_string();
    world.config(&format!(
        "agents:\n  claude: {{ kind: claude, env: {{ CLAUDE_CONFIG_DIR: {odd:?}, ANTHROPIC_API_KEY: sk-secret-secret }} }}\n"
    ));
    let plan = STREAMS.map(|(name, ..)| task(name, &format!("agent: {name}"), "do it"));
    world.run(&world.plan_with("", &plan.concat()), &[]).exited(1);
    for (name, _, _, command) in STREAMS {
        let found = attach(&world, name);
        let (session, lane) = (text(&found["session_id"]), world.lanes().join(name));
        assert_eq!(found["session_id"], world.attempt(name, 1)["session"], "{found:#}");
        assert_eq!(text(&found["worktree_path"]), lane.display().to_string());
        let place = match name {
            "claude" => format!("CLAUDE_CONFIG_DIR='{}' ", odd.replace('\'', r"'\''")),
            _ => String::new(),
        };
        let wanted = format!("cd {} && {place}{command} {session}", lane.display());
        assert_eq!(text(&found["resume_command"]), wanted);
        let said = world.regatta(["attach", name]).exited(0);
        assert!(said.stdout.lines().any(|line| line == wanted), "{said:?}");
        assert!(!said.stdout.contains("sk-secret-secret") && !found.to_string().contains("sk-secret"));
        assert!(said.stderr.is_empty(), "{said:?}");
    }
    // The line is for a shell: it starts the program in that directory, with that session.
    script(&world.outside("bin/claude"), "echo \"$PWD $CLAUDE_CONFIG_DIR $*\"");
    let found = attach(&world, "claude");
    let mut shell = std::process::Command::new("sh");
    let bin = format!("{}:/usr/bin:/bin", world.outside("bin").display());
    let ran = shell.args(["-c", text(&found["resume_command"])]).env("PATH", bin).output().unwrap();
    let wanted =
        format!("{} {odd} --resume {}\n", world.lanes().join("claude").display(), text(&found["session_id"]));
    assert_eq!(String::from_utf8_lossy(&ran.stdout), wanted);
}

#[test]
fn a_conversation_is_where_the_account_of_its_attempt_keeps_it() {
    let scene = Scene::new("profiles:\n  - { name: max-1, env: { CLAUDE_CONFIG_DIR: ~/.claude-max-1 } }\n");
    let world = &scene.world;
    let daemon = world.daemon();
    scene.add("a", "", "regatta stuck 'which one?' >&2\n");
    world.wait_state("a", "blocked");
    assert_eq!(world.attempt("a", 1)["profile"], "max-1");
    let found = attach(world, "a");
    let place = text(&found["env"]["CLAUDE_CONFIG_DIR"]);
    assert!(place.starts_with('/') && place.ends_with("/.claude-max-1"), "{found:#}");
    let session = text(&found["session_id"]);
    let kept = std::path::Path::new(place).join(format!("projects/p/{session}.jsonl"));
    assert!(kept.is_file(), "the script kept it there: {}", kept.display());
    let lane = world.lanes().join("a");
    let wanted = format!("cd {} && CLAUDE_CONFIG_DIR={place} claude --resume {session}", lane.display());
    assert_eq!(text(&found["resume_command"]), wanted);
    daemon.signal("TERM");
    daemon.wait();
}

#[test]
fn who_has_no_session_is_refused_with_the_next_step() {
    let scene = Scene::new("");
    let world = &scene.world;
    scene.add("a", "", PASSES);
    insta::assert_snapshot!(world.regatta(["attach", "a"]).shown(), @"
    --- stderr
    error: a has no session yet: it has not been started
    hint: `regatta status a` shows what it waits for
    --- exit 6
    ");
    world.regatta(["attach", "nobody"]).exited(4);
    world.run(&world.plan(&task("sh", "", "true")), &[]).exited(0);
    insta::assert_snapshot!(world.regatta(["attach", "sh"]).shown(), @r#"
    --- stderr
    error: sh has no session: its agent, sh, has no conversations
    hint: `regatta lane path sh` shows where it works, `regatta send sh "…"` continues it
    --- exit 6
    "#);
}

#[test]
fn a_lane_with_an_agent_in_it_is_warned_about_and_one_that_is_gone_is_made_again_on_request_only() {
    let scene = Scene::new("");
    let world = &scene.world;
    let daemon = world.daemon();
    let barrier = scene.add_held("a", "", PASSES);
    insta::assert_snapshot!(world.regatta(["attach", "a"]).shown(), @"
    lane     DIR/repo.lanes/a
    session  UUID (claude, attempt 1)
    cd DIR/repo.lanes/a && claude --resume UUID
    --- stderr
    warning: its agent is working in that lane, and only one agent may: `regatta wait a` waits until it ends, `regatta cancel a` stops it
    ");
    assert_eq!(attach(world, "a")["running"], true);
    barrier.open();
    world.wait_state("a", "done");
    regatta_testkit::daemon::until("its lane is gone", || world.lane_dirs().is_empty().then_some(()));
    insta::assert_snapshot!(world.regatta(["attach", "a"]).shown(), @r#"
    --- stderr
    error: the lane of a is gone, and its conversation belongs to that directory
    hint: `regatta attach --restore a` creates it again at HASH; `regatta send a "…"` continues the task
    --- exit 6
    "#);
    insta::assert_snapshot!(world.regatta(["attach", "--restore", "a"]).shown(), @"
    lane     DIR/repo.lanes/a
    session  UUID (claude, attempt 1)
    cd DIR/repo.lanes/a && claude --resume UUID
    ");
    let lane = world.lanes().join("a");
    assert!(lane.join("a.1").exists(), "with its work in it");
    // Regatta continues in the same lane, from the same work.
    scene.send("a", "More.");
    regatta_testkit::daemon::until("it was told", || (scene.prompts("a") == ["told 2"]).then_some(()));
    world.wait_state("a", "done");
    assert_eq!(world.repo().git(["rev-list", "--count", "main..regatta/a"]).trim(), "2");
    daemon.signal("TERM");
    daemon.wait();
}

#[test]
fn an_editor_is_started_by_its_words_and_no_shell_sees_them() {
    let mut scene = Scene::new("");
    let stuck = "regatta stuck 'which port?' >&2\n";
    let daemon = scene.world.daemon();
    scene.add("a", "", stuck);
    scene.world.wait_state("a", "blocked");
    let notes = scene.world.outside("notes/editor").display().to_string();
    let body = format!("for word in \"$0\" \"$@\"; do printf '%s\\n' \"$word\"; done >'{notes}'");
    for name in ["code", "my-editor"] {
        script(&scene.world.outside(&format!("bin/{name}")), &body);
    }
    let lane = scene.world.lanes().join("a").display().to_string();
    let opened = |world: &World| {
        world.regatta(["attach", "--open", "a"]).exited(0);
        let words = fs::read_to_string(&notes).unwrap();
        words.lines().map(|word| word.rsplit("/bin/").next().unwrap_or(word).to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(opened(&scene.world), ["code", &lane]);
    scene.world.env("VISUAL", "my-editor -n $(reboot) ;");
    assert_eq!(opened(&scene.world), ["my-editor", "-n", "$(reboot)", ";", &lane]);
    scene.world.env("REGATTA_EDITOR", "no-such-editor");
    insta::assert_snapshot!(scene.world.regatta(["attach", "--open", "a"]).shown(), @r#"
    --- stderr
    error: $REGATTA_EDITOR is set to "no-such-editor", and that program was not found
    hint: use a program on PATH, or its full path
    --- exit 3
    "#);
    daemon.signal("TERM");
    daemon.wait();
}
