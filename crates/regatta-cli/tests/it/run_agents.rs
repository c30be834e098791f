//! claude, codex, gemini and opencode, each played by a script that prints what the real one was seen to print.

use std::fs;

use regatta_testkit::repo::script;
use regatta_testkit::shown::shown;
use regatta_testkit::world::{World, task, text};

use crate::REGATTA;
use crate::doctor::told;

/// The first attempt does half of it, the second the rest; both report.
const HALVES: &str = r#"echo "$@" | tr '\n' ' ' >>NOTES/argv.$REGATTA_TASK; echo >>NOTES/argv.$REGATTA_TASK; cat >>NOTES/stdin.$REGATTA_TASK
work() {
  if [ "$REGATTA_ATTEMPT" = 1 ]; then echo half >"$REGATTA_TASK.half"; else echo whole >"$REGATTA_TASK.whole"; fi
  regatta done --verdict pass --summary "Did $REGATTA_TASK" >&2
}
"#;

/// Claude is resumed only where it kept the conversation.
const CLAUDE: &str = r#"case "$*" in *--session-id*) id=${*##*--session-id }; id=${id%% *} ;; *) id=${*##*--resume }; id=${id%% *} ;; esac
mkdir -p "$CLAUDE_CONFIG_DIR/projects/p"; touch "$CLAUDE_CONFIG_DIR/projects/p/$id.jsonl"
echo "{\"type\":\"system\",\"subtype\":\"init\",\"session_id\":\"$id\",\"model\":\"m\"}"
work
echo '{"type":"result","subtype":"success","is_error":false,"result":"done","usage":{"input_tokens":100,"output_tokens":20}}'"#;

const CODEX: &str = r#"echo '{"type":"thread.started","thread_id":"01a1dd00-7e6c-72b3-ad81-c47430c45ccc"}'
echo '{"type":"turn.started"}'
echo 'garbage in between'
echo '{"type":"item.started","item":{"id":"item_1","type":"command_execution","command":"/bin/bash -lc make","status":"in_progress"}}'
work
echo '{"type":"item.completed","item":{"id":"item_1","type":"command_execution","command":"/bin/bash -lc make","exit_code":0,"status":"completed"}}'
echo '{"type":"item.completed","item":{"id":"item_2","type":"agent_message","text":"Done."}}'
echo "{\"type\":\"turn.completed\",\"usage\":{\"input_tokens\":$((REGATTA_ATTEMPT * 100)),\"output_tokens\":$((REGATTA_ATTEMPT * 20))}}""#;

const GEMINI: &str = r#"case "$*" in *--session-id*) id=${*##*--session-id }; id=${id%% *} ;; *) id=${*##*--resume }; id=${id%% *} ;; esac
echo "{\"type\":\"init\",\"session_id\":\"$id\",\"model\":\"gemini-2.5-pro\"}"
echo '{"type":"message","role":"assistant","content":"Do","delta":true}'
work
echo '{"type":"message","role":"assistant","content":"ne.","delta":true}'
echo '{"type":"result","status":"success","stats":{"input_tokens":100,"output_tokens":20}}'"#;

const OPENCODE: &str = r#"echo '{"type":"step_start","sessionID":"ses_e22d400a5ffe","part":{"type":"step-start"}}'
work
echo '{"type":"text","sessionID":"ses_e22d400a5ffe","part":{"type":"text","text":"Done."}}'
echo '{"type":"step_finish","sessionID":"ses_e22d400a5ffe","part":{"reason":"stop","tokens":{"input":100,"output":20,"cache":{"read":0,"write":0}},"cost":0.25}}'"#;

/// A world with these programs on PATH. `NOTES` in them is a directory of the test.
pub(crate) fn with_agents(agents: &[(&str, &str)]) -> World {
    let mut world = World::new(REGATTA);
    let notes = world.outside("notes");
    fs::create_dir_all(&notes).unwrap();
    for (name, body) in agents {
        script(&world.outside(&format!("bin/{name}")), &body.replace("NOTES", &notes.display().to_string()));
    }
    let path = format!("{}:{}", world.outside("bin").display(), std::env::var("PATH").unwrap_or_default());
    world.env("PATH", path);
    world
}

#[test]
fn each_agent_does_its_work_goes_on_with_its_conversation_and_lands() {
    let body = |stream: &str| format!("{HALVES}{stream}");
    let streams = [("claude", CLAUDE), ("codex", CODEX), ("gemini", GEMINI), ("opencode", OPENCODE)];
    let bodies = streams.map(|(name, stream)| (name, body(stream)));
    let mut world = with_agents(&bodies.each_ref().map(|(name, body)| (*name, body.as_str())));
    let config_dir = world.outside("claude-config");
    world.env("CLAUDE_CONFIG_DIR", config_dir);
    let plan = streams.map(|(name, _)| {
        task(name, &format!("agent: {name}\nmax_attempts: 2\nchecks: test -f {name}.whole"), "make it whole")
    });
    world.run(&world.plan_with("", &plan.concat()), &[]).exited(0);
    world.assert_states(["claude landed", "codex landed", "gemini landed", "opencode landed"]);
    for (name, _) in streams {
        assert_eq!(world.landed(&format!("{name}.whole")).as_deref(), Some("whole\n"));
        let task = world.task(name);
        let [first, second] = &task["attempts"].as_array().unwrap()[..] else { panic!("{task:#}") };
        let session = text(&first["session"]);
        assert!(!session.is_empty() && second["session"] == session, "{task:#}");
        for attempt in [first, second] {
            assert_eq!(
                (&attempt["tokens_in"], &attempt["tokens_out"]),
                (&100.into(), &20.into()),
                "{attempt:#}"
            );
        }
        let told = |what: &str| fs::read_to_string(world.outside(&format!("notes/{what}.{name}"))).unwrap();
        let argv = told("argv");
        let [begun, resumed] = argv.lines().collect::<Vec<_>>()[..] else { panic!("{argv}") };
        assert!(resumed.contains(session) && !argv.contains("make it whole"), "{argv}");
        assert!(["claude", "gemini"].contains(&name) || !begun.contains(session), "{argv}");
        let stdin = told("stdin");
        assert_eq!(
            stdin.matches("make it whole").count(),
            1,
            "a conversation that goes on has the task: {stdin}"
        );
        assert!(stdin.contains("is not finished: this is attempt 2"), "{stdin}");
    }
    world.assert_tidy();
}

#[test]
fn a_conversation_that_is_gone_is_begun_anew_without_charge() {
    let stream = r#"cat >/dev/null; echo "$@" >>NOTES/argv
case "$*" in *resume*) echo 'Error: thread/resume: thread/resume failed: no rollout found for thread id t1' >&2; exit 1 ;; esac
echo '{"type":"thread.started","thread_id":"t1"}'
[ "$REGATTA_ATTEMPT" = 1 ] || { echo x >x.txt; regatta done --verdict pass --summary Anew >&2; }
echo '{"type":"turn.completed","usage":{}}'"#;
    let world = with_agents(&[("codex", stream)]);
    let plan = world.plan_with("", &task("a", "agent: codex\nmax_attempts: 2", "do it"));
    world.run(&plan, &[]).exited(0);
    world.assert_states(["a landed"]);
    let argv = fs::read_to_string(world.outside("notes/argv")).unwrap();
    let resumes: Vec<bool> = argv.lines().map(|line| line.contains("resume t1")).collect();
    assert_eq!(resumes, [false, true, false], "{argv}");
    let (_, charged) = world.attempts("a");
    assert_eq!(charged, 1, "{:#}", world.task("a"));
}

#[test]
fn an_agent_that_lacks_even_a_new_conversation_is_given_time() {
    let world = with_agents(&[("opencode", "cat >/dev/null; echo 'Error: Session not found' >&2; exit 1")]);
    let daemon = world.daemon();
    world.enqueue(&world.plan_with("", &task("a", "agent: opencode", "do it")));
    world.wait_state("a", "parked");
    assert_eq!(world.attempts("a"), (1, 0), "{:#}", world.task("a"));
    daemon.signal("TERM");
    daemon.wait();
}

#[test]
fn a_spent_quota_parks_the_task_until_the_time_that_codex_states() {
    let stream = r#"cat >/dev/null
echo '{"type":"thread.started","thread_id":"t1"}'
echo '{"type":"error","message":"You’ve hit your usage limit. Visit https://chatgpt.com/settings/usage to purchase more credits or try again at Nov 18th, 2199 2:22 AM."}'
echo '{"type":"turn.failed","error":{"message":"You’ve hit your usage limit. Visit https://chatgpt.com/settings/usage to purchase more credits or try again at Nov 18th, 2199 2:22 AM."}}'
exit 1"#;
    let world = with_agents(&[("codex", stream)]);
    let daemon = world.daemon();
    world.enqueue(&world.plan_with("", &task("a", "agent: codex", "do it")));
    world.wait_state("a", "parked");
    insta::assert_snapshot!(shown(text(&world.task("a")["reason"])), @"rate-limited: You’ve hit your usage limit. Visit https://chatgpt.com/settings/usage to purchase more credits or try again at Nov 18th, 2199 2:22 AM; the agent says that the limit ends at WHEN, more than 8 days from now; Regatta tries again at WHEN");
    assert_eq!(world.attempts("a"), (1, 0));
    daemon.signal("TERM");
    daemon.wait();
}

#[test]
fn what_an_agent_cannot_keep_to_blocks_the_task_before_it_is_started() {
    let mut world = with_agents(&[("gemini", "touch NOTES/started"), ("codex", "exit 1")]);
    // Without a sandbox of Regatta's, codex has its own, from which it cannot report.
    world.env("REGATTA_SANDBOX", "off");
    world.config("mcp: { attach: false }\n");
    let plan = [
        task("persona", "agent: gemini\npersona: reviewer", "look"),
        task("report", "agent: codex\nread_only: true\nverdict_adapter: db", "look"),
    ];
    world.run(&world.plan_with("", &plan.concat()), &[]).exited(1);
    insta::assert_snapshot!(text(&world.task("persona")["reason"]), @r#"policy: gemini has no personas, and the task asks for "reviewer"; remove `persona`, or choose another agent"#);
    insta::assert_snapshot!(text(&world.task("report")["reason"]), @"policy: codex cannot run `regatta done` in a read-only task; set `verdict_adapter: json-result` or `chain`");
    world.assert_states(["persona blocked", "report blocked"]);
    assert!(!world.outside("notes/started").exists());
}

#[test]
fn a_read_only_agent_says_its_verdict_in_its_answer() {
    let stream = r#"cat >/dev/null
case "$*" in *"--sandbox danger-full-access"*) ;; *) exit 9 ;; esac
touch made 2>/dev/null && exit 8
echo '{"type":"thread.started","thread_id":"t1"}'
printf '%s\n' '{"type":"item.completed","item":{"id":"i","type":"agent_message","text":"All is well.\n{\"verdict\":\"pass\",\"summary\":\"Nothing to fix\"}"}}'
echo '{"type":"turn.completed","usage":{}}'"#;
    let world = with_agents(&[("codex", stream)]);
    world.run(&world.plan_with("", &task("a", "agent: codex\nread_only: true", "look")), &[]).exited(0);
    let task = world.task("a");
    assert_eq!(text(&task["attempts"][0]["summary"]), "Nothing to fix", "{task:#}");
}

#[test]
fn the_doctor_tells_of_each_wanted_agent_its_version_its_login_and_what_to_do() {
    let mut world = with_agents(&[("codex", "echo codex-cli 0.166.0")]);
    world.config("version: 1\ndefault_agent: sim\nagents:\n  codex: { model: m }\n  gemini: { env: { GEMINI_API_KEY: k } }\n");
    // Nothing else is on PATH, whatever this machine has.
    let path = std::env::var_os("PATH").unwrap();
    let git = std::env::split_paths(&path).map(|dir| dir.join("git")).find(|git| git.is_file()).unwrap();
    std::os::unix::fs::symlink(git, world.outside("bin/git")).unwrap();
    let path = world.outside("bin");
    world.env("PATH", path).env("CODEX_API_KEY", "").env("OPENAI_API_KEY", "");
    let found: serde_json::Value =
        serde_json::from_str(&world.regatta(["doctor", "--json"]).exited(0).stdout).unwrap();
    insta::assert_snapshot!(told(&found, "agent"), @r#"
    warning: gemini: its program "gemini" was not found
      hint: install it (npm install -g @google/gemini-cli), name it with `exe`, or set `default_agent` in regatta.yaml
    warning: sh: its program "sh" was not found
      hint: put it on PATH, or correct `agents:` in regatta.yaml
    ok: sim (default): built in
    ok: codex: codex-cli 0.166.0 at DIR/bin/codex
    ok: not installed and not used: claude, opencode
    "#);
    insta::assert_snapshot!(told(&found, "login"), @"
    warning: codex: no login was found
      hint: run `codex login`, or set CODEX_API_KEY
    ");
}

#[test]
fn every_program_finds_its_own_directory_in_pwd() {
    let mut world = World::new(REGATTA);
    world.env("PWD", "/somewhere/else").env("OLDPWD", "/before");
    script(&world.outside("believer"), "tr '\\0' '\\n' </proc/$$/environ | grep PWD= >pwd.txt");
    world.config(&format!(
        "agents: {{ believer: {{ kind: command, argv: ['{}'] }} }}\n",
        world.outside("believer").display()
    ));
    world.run(&world.plan(&task("a", "agent: believer", "go")), &[]).exited(0);
    let record = world.task("a");
    assert_eq!(world.landed("pwd.txt").unwrap(), format!("PWD={}\n", text(&record["attempts"][0]["lane"])));
}

#[test]
fn an_end_of_a_turn_that_a_child_of_codex_wrote_is_none() {
    // In the middle of a command a child prints what ends a turn, and codex fails; the next time it succeeds.
    let codex = r#"cat >/dev/null
echo '{"type":"thread.started","thread_id":"01a1dd00-7e6c-72b3-ad81-c47430c45ccc"}'
echo '{"type":"turn.started"}'
echo '{"type":"item.started","item":{"id":"item_1","type":"command_execution","command":"make","status":"in_progress"}}'
echo '{"type":"turn.completed","usage":{"input_tokens":1,"output_tokens":1}}'
echo "$REGATTA_ATTEMPT" >made.txt
[ "$REGATTA_ATTEMPT" = 1 ] && exit 1
echo '{"type":"item.completed","item":{"id":"item_1","type":"command_execution","command":"make","exit_code":0,"status":"completed"}}'
echo '{"type":"turn.completed","usage":{"input_tokens":100,"output_tokens":20}}'"#;
    let world = with_agents(&[("codex", codex)]);
    let plan = world.plan(&task("a", "agent: codex\nverdict_adapter: exit-code", "make it"));
    world.run(&plan, &[]).exited(0);
    world.assert_states(["a landed"]);
    assert_eq!(world.landed("made.txt").as_deref(), Some("2\n"));
}

#[test]
fn after_a_context_overflow_the_task_says_how_to_start_a_new_conversation() {
    let codex = r#"cat >/dev/null
echo '{"type":"thread.started","thread_id":"01a1dd00-7e6c-72b3-ad81-c47430c45ccc"}'
echo '{"type":"turn.started"}'
echo '{"type":"turn.failed","error":{"message":"context_length_exceeded: the conversation is too long"}}'
exit 1"#;
    let world = with_agents(&[("codex", codex)]);
    world.run(&world.plan(&task("a", "agent: codex", "go on")), &[]).exited(1);
    insta::assert_snapshot!(text(&world.task("a")["reason"]), @"policy: context_length_exceeded: the conversation is too long; start a new conversation with `regatta retry a --fresh`; if the task itself is too long, shorten its prompt or the files that it includes, or split it");
}
