//! Accounts: rotated when a quota is spent, waited for when all are, and shown by `regatta profiles`.

use std::fs;
use std::path::PathBuf;

use regatta_testkit::daemon::until;
use regatta_testkit::repo::script;
use regatta_testkit::world::{Running, World, task, text};
use serde_json::Value;

use crate::REGATTA;

/// Plays claude: keeps its conversation as claude does, and ends as the file `NAME.says` beside its directory says:
/// `spent SECONDS` until its five hours are over, `refused`, `busy`, or else with the work done; `warned SECONDS` if
/// they are nearly spent; `late SECONDS` if they are spent when all is done and reported, `quiet` without a report.
const CLAUDE: &str = r#"cat >>'NOTES/told'
for last; do case "$before" in --session-id|--resume) id=$last;; esac; before=$last; done
profile=$(basename "$CLAUDE_CONFIG_DIR")
file="$CLAUDE_CONFIG_DIR/projects/p/$id.jsonl"
case "$*" in
*--resume*) [ -f "$file" ] || { echo "No conversation found with session ID: $id" >&2; exit 1; } ;;
esac
mkdir -p "$CLAUDE_CONFIG_DIR/projects/p"
echo "$profile $REGATTA_TASK $(wc -l <"$file" 2>/dev/null || echo 0) $(case "$*" in *--resume*) echo resumed;; *) echo begun;; esac)" >>'NOTES/calls'
echo "$profile" >>"$file"
echo "{\"type\":\"system\",\"subtype\":\"init\",\"session_id\":\"$id\",\"model\":\"m\"}"
read -r word seconds <"NOTES/$profile.says"
if [ "$word" = late ]; then
  echo "$profile" >"$REGATTA_TASK.txt"
  regatta done --verdict pass --summary "Did it before the limit" >&2
  word=spent
fi
now=$(( $(date +%s) + $(cat 'NOTES/clock') / 1000 ))
case "$word" in
warned)
  echo "{\"type\":\"rate_limit_event\",\"rate_limit_info\":{\"status\":\"allowed_warning\",\"resetsAt\":$((now + seconds)),\"rateLimitType\":\"five_hour\",\"utilization\":0.9},\"session_id\":\"$id\"}" ;;
spent)
  echo "{\"type\":\"rate_limit_event\",\"rate_limit_info\":{\"status\":\"rejected\",\"resetsAt\":$((now + seconds)),\"rateLimitType\":\"five_hour\"},\"session_id\":\"$id\"}"
  echo "{\"type\":\"assistant\",\"error\":\"rate_limit\",\"message\":{\"model\":\"<synthetic>\",\"content\":[{\"type\":\"text\",\"text\":\"limit\"}]},\"session_id\":\"$id\"}"
  echo "{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":true,\"api_error_status\":429,\"result\":\"You've hit your session limit\",\"session_id\":\"$id\",\"total_cost_usd\":0.25}"
  exit 1 ;;
refused)
  echo "{\"type\":\"assistant\",\"error\":\"authentication_failed\",\"message\":{\"model\":\"<synthetic>\",\"content\":[{\"type\":\"text\",\"text\":\"401\"}]},\"session_id\":\"$id\"}"
  echo "{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":true,\"api_error_status\":401,\"result\":\"Invalid API key $SECRET_TOKEN\",\"session_id\":\"$id\"}"
  exit 1 ;;
busy)
  echo "{\"type\":\"assistant\",\"error\":\"rate_limit\",\"message\":{\"model\":\"<synthetic>\",\"content\":[{\"type\":\"text\",\"text\":\"429\"}]},\"session_id\":\"$id\"}"
  echo "{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":true,\"api_error_status\":429,\"result\":\"API Error: 429 too many requests\",\"session_id\":\"$id\"}"
  exit 1 ;;
esac
if [ "$word" != quiet ]; then
  echo "$profile" >"$REGATTA_TASK.txt"
  regatta done --verdict pass --summary "Did it" >&2
fi
echo "{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"result\":\"done\",\"session_id\":\"$id\",\"total_cost_usd\":0.5}""#;

/// A world with accounts, and a clock that the test moves.
struct Accounts {
    world: World,
    notes: PathBuf,
}

impl Accounts {
    fn new(names: &[&str]) -> Self {
        let mut world = World::new(REGATTA);
        let notes = world.outside("notes");
        fs::create_dir_all(&notes).unwrap();
        script(&world.outside("bin/claude"), &CLAUDE.replace("NOTES", &notes.display().to_string()));
        let path =
            format!("{}:{}", world.outside("bin").display(), std::env::var("PATH").unwrap_or_default());
        let home = world.outside("home");
        world.env("PATH", path).env("HOME", home).env("REGATTA_CLOCK", notes.join("clock"));
        let rows: Vec<String> = names
            .iter()
            .map(|name| format!("  - {{ name: {name}, env: {{ CLAUDE_CONFIG_DIR: ~/{name}, SECRET_TOKEN: sesame-{name}-open }} }}\n"))
            .collect();
        world.config(&format!("version: 1\nradar: {{ enabled: false }}\nprofiles:\n{}", rows.concat()));
        let accounts = Self { world, notes };
        accounts.set_clock(0);
        for name in names {
            accounts.says(name, "done");
        }
        accounts
    }

    fn says(&self, name: &str, what: &str) {
        fs::write(self.notes.join(format!("{name}.says")), format!("{what}\n")).unwrap();
    }

    fn set_clock(&self, seconds: i64) {
        let fresh = self.notes.join("clock.new");
        fs::write(&fresh, (seconds * 1000).to_string()).unwrap();
        fs::rename(fresh, self.notes.join("clock")).unwrap();
    }

    /// Which account was called for what, in order.
    fn calls(&self) -> Vec<String> {
        let told = fs::read_to_string(self.notes.join("calls")).unwrap_or_default();
        told.lines().map(str::to_owned).collect()
    }

    fn shown(&self) -> Value {
        let ran = self.world.regatta(["profiles", "--json"]).exited(0);
        assert!(!ran.stdout.contains("sesame"), "{}", ran.stdout);
        serde_json::from_str(&ran.stdout).unwrap()
    }

    fn state_of(&self, name: &str) -> String {
        let shown = self.shown();
        let found = shown.as_array().unwrap().iter().find(|profile| profile["name"] == name).unwrap();
        text(&found["accounts"][0]["state"]).to_owned()
    }

    fn end(daemon: Running) {
        daemon.signal("TERM");
        daemon.wait();
    }
}

#[test]
fn a_spent_quota_goes_to_the_next_account_and_the_last_waits_for_the_first_with_the_same_session() {
    let accounts = Accounts::new(&["one", "two", "three"]);
    accounts.says("one", "spent 7200");
    accounts.says("two", "spent 18000");
    accounts.says("three", "spent 18000");
    let world = &accounts.world;
    let daemon = world.daemon();
    world.enqueue(
        &world.plan_with("", &task("a", "agent: claude\nmax_attempts: 1\nauto_land: true", "do it")),
    );
    world.wait_state("a", "parked");
    assert_eq!(accounts.calls(), ["one a 0 begun", "two a 1 resumed", "three a 2 resumed"]);
    assert_eq!(["one", "two", "three"].map(|name| accounts.state_of(name)), ["cooling"; 3]);
    assert_eq!(world.attempts("a"), (3, 0), "limits cost no attempt");
    // Another task is not even claimed while there is no account, and its status says why.
    world.enqueue(&world.plan_with("", &task("b", "agent: claude\nauto_land: true", "do it")));
    until("it is held back", || {
        world.regatta(["status", "b"]).stdout.contains("one is ready at").then_some(())
    });
    assert_eq!(world.attempts("b"), (0, 0));
    accounts.says("one", "done");
    accounts.set_clock(7200 - 120);
    assert_eq!(accounts.state_of("one"), "cooling");
    // At most half a minute after the first account is available again, both continue.
    accounts.set_clock(7200 + 31);
    world.wait_state("a", "landed");
    world.wait_state("b", "landed");
    let calls = accounts.calls();
    assert!(calls.contains(&"one a 3 resumed".to_owned()), "what the others said is in it: {calls:?}");
    assert!(calls.contains(&"one b 0 begun".to_owned()) && calls.len() == 5, "{calls:?}");
    let record = world.task("a");
    let attempts = record["attempts"].as_array().unwrap();
    let used: Vec<&str> = attempts.iter().map(|attempt| text(&attempt["profile"])).collect();
    assert_eq!(used, ["one", "two", "three", "one"]);
    assert!(attempts.iter().all(|attempt| attempt["session"] == attempts[0]["session"]), "{record:#}");
    assert_eq!(world.attempts("a"), (4, 0));
    Accounts::end(daemon);
    world.assert_no_process();
}

#[test]
fn a_refused_account_is_set_aside_until_a_person_says_otherwise() {
    let accounts = Accounts::new(&["one", "two"]);
    accounts.says("one", "refused");
    let world = &accounts.world;
    let plan = |id: &str| world.plan_with("", &task(id, "agent: claude\nmax_attempts: 1", "do it"));
    world.run(&plan("a"), &[]).exited(0);
    assert_eq!(accounts.calls(), ["one a 0 begun", "two a 1 resumed"]);
    assert_eq!(world.attempts("a"), (2, 0));
    insta::assert_snapshot!(world.regatta(["profiles"]).shown(), @"
    PROFILE  AGENT   STATE                                                                                                                                                                     USED  COST   WHERE
    one      claude  set aside: Invalid API key [redacted:SECRET_TOKEN]; sign in with `claude` in a terminal, or set ANTHROPIC_API_KEY or CLAUDE_CODE_OAUTH_TOKEN; `regatta doctor` checks it  1     $0.00  CLAUDE_CONFIG_DIR=DIR/home/one SECRET_TOKEN
    two      claude  ready, no login was found                                                                                                                                                 1     $0.50  CLAUDE_CONFIG_DIR=DIR/home/two SECRET_TOKEN
    ");
    let report = world.regatta(["report", "--json"]).exited(0).stdout;
    assert!(report.contains("Invalid API key") && !report.contains("sesame"), "{report}");
    // New work does not use it.
    world.run(&plan("b"), &[]).exited(0);
    assert_eq!(accounts.calls()[2..], ["two b 0 begun"]);
    // The task that finds the last one refused is blocked; the others wait, and the run is over.
    accounts.says("two", "refused");
    let both = [task("c", "agent: claude", "do it"), task("d", "agent: claude", "do it")].concat();
    let both = world.plan_with("", &both);
    insta::assert_snapshot!(world.run(&both, &["-j", "1"]).shown(), @"
    test → main: 2 tasks
        TIME c  agent started, process PID
        TIME c  blocked (policy): Invalid API key [redacted:SECRET_TOKEN]; sign in with `claude` in a terminal, or set ANTHROPIC_API_KEY or CLAUDE_CODE_OAUTH_TOKEN; `regatta doctor` checks it; no profile is left; fix the account, then `regatta profiles warm two`

    ⚠ c blocked
    ○ d pending

    ⚠ c blocked: policy: Invalid API key [redacted:SECRET_TOKEN]; sign in with `claude` in a terminal, or set ANTHROPIC_API_KEY or CLAUDE_CODE_OAUTH_TOKEN; `regatta doctor` checks it; no profile is left; fix the account, then `regatta profiles warm two`
    ○ d pending
    1 blocked, 1 pending in TIME on main
    --- stderr
    $REGATTA_CLOCK: warning: is not a setting of Regatta, and is ignored
      hint: did you mean $REGATTA_STORE?
    hint: `regatta status ID` and `regatta logs ID` show why; `regatta run --resume DIR/plan.md` retries
    --- exit 1
    ");
    world.assert_states(["a landed", "b landed", "c blocked", "d pending"]);
    assert_eq!(world.attempts("d"), (0, 0));
    insta::assert_snapshot!(world.regatta(["profiles", "warm", "three"]).shown(), @r#"
    --- stderr
    error: there is no profile "three"
    hint: there are one, two
    --- exit 4
    "#);
    insta::assert_snapshot!(world.regatta(["profiles", "warm", "one", "two"]).shown(), @"one, two can be used again");
    assert_eq!(["one", "two"].map(|name| accounts.state_of(name)), ["ready"; 2]);
    accounts.says("one", "done");
    accounts.says("two", "done");
    world.run(&both, &["--resume"]).exited(0);
    world.assert_states(["a landed", "b landed", "c landed", "d landed"]);
    world.assert_tidy();
}

#[test]
fn accounts_take_turns_and_a_busy_minute_is_no_reason_to_change_them() {
    let accounts = Accounts::new(&["one", "two", "three"]);
    let world = &accounts.world;
    let plan: String = (0..6).map(|n| task(&format!("t{n}"), "agent: claude", "do it")).collect();
    world.run(&world.plan_with("", &plan), &["-j", "1"]).exited(0);
    let used: Vec<String> =
        accounts.calls().iter().map(|call| call.split(' ').next().unwrap_or_default().to_owned()).collect();
    assert_eq!(used, ["one", "two", "three", "one", "two", "three"]);
    let shown = accounts.shown();
    let account = &shown[0]["accounts"][0];
    assert_eq!((account["attempts_24h"].as_u64(), account["cost_usd_24h"].as_f64()), (Some(2), Some(1.0)));
    assert_eq!(shown[0]["variables"]["SECRET_TOKEN"], Value::Null, "{shown:#}");
    // Too many requests at once: the same account, later.
    accounts.says("one", "busy");
    let daemon = world.daemon();
    world.enqueue(&world.plan_with("", &task("busy", "agent: claude\nauto_land: true", "do it")));
    world.wait_state("busy", "parked");
    assert_eq!(accounts.state_of("one"), "ready");
    accounts.says("one", "done");
    accounts.set_clock(3600);
    world.wait_state("busy", "landed");
    assert_eq!(accounts.calls()[6..], ["one busy 0 begun", "one busy 1 resumed"]);
    Accounts::end(daemon);
}

#[test]
fn accounts_are_chosen_by_name_and_nothing_rotates_that_was_not_configured() {
    let accounts = Accounts::new(&["one", "two"]);
    let world = &accounts.world;
    fs::create_dir_all(world.outside("home/.claude-max-1")).unwrap();
    let calls = |id: &str, flags: &[&str]| {
        accounts.says(".claude-max-1", "done");
        accounts.says("own", "done");
        let own = world.outside("home/own").display().to_string();
        let keys = match flags {
            ["own"] => format!("agent: claude\nenv: {{ CLAUDE_CONFIG_DIR: '{own}' }}"),
            _ => "agent: claude".to_owned(),
        };
        let flags = if flags == ["own"] { &[] } else { flags };
        world.run(&world.plan_with("", &task(id, &keys, "do it")), flags).exited(0);
        accounts.calls().last().cloned().unwrap_or_default()
    };
    assert_eq!(calls("a", &["--profiles", "two"]), "two a 0 begun");
    // A name alone is as in rookery: the account in ~/.claude-NAME.
    assert_eq!(calls("b", &["--profiles", "max-1"]), ".claude-max-1 b 0 begun");
    // A task that chooses its account keeps it.
    assert_eq!(calls("c", &["own"]), "own c 0 begun");
    assert_eq!(world.attempt("c", 1)["profile"], Value::Null);
    let plan = world.plan_with("", &task("d", "agent: claude", "do it"));
    insta::assert_snapshot!(world.run(&plan, &["--profiles", "max-2"]).shown(), @r#"
    --- stderr
    --profiles: error: there is no profile "max-2": it is not under `profiles:` in regatta.yaml, and there is no directory ~/.claude-max-2
      hint: add `profiles: [{ name: max-2, env: { CLAUDE_CONFIG_DIR: DIRECTORY } }]`, or sign in with `CLAUDE_CONFIG_DIR=~/.claude-max-2 claude`
    error: 1 mistake found; nothing was changed
    hint: correct the flag; `regatta help COMMAND` lists the options
    --- exit 2
    "#);
    insta::assert_snapshot!(world.run(&plan, &["--profiles", "../x"]).shown(), @r#"
    --- stderr
    --profiles: error: "../x" is not a valid name for a profile; letters, digits, '_', '-' and '.' are allowed
    error: 1 mistake found; nothing was changed
    hint: correct the flag; `regatta help COMMAND` lists the options
    --- exit 2
    "#);
    // Without profiles a spent quota is waited for.
    let mut alone = Accounts::new(&[]);
    alone.world.config("version: 1\n");
    let home = alone.world.outside("home/none");
    alone.world.env("CLAUDE_CONFIG_DIR", home);
    alone.says("none", "spent 7200");
    let daemon = alone.world.daemon();
    alone.world.enqueue(&alone.world.plan_with("", &task("a", "agent: claude", "do it")));
    alone.world.wait_state("a", "parked");
    assert_eq!(alone.calls(), ["none a 0 begun"]);
    assert_eq!(alone.shown(), Value::Array(Vec::new()));
    Accounts::end(daemon);
}

#[test]
fn an_account_that_is_nearly_spent_gets_no_new_work_while_there_is_another() {
    let accounts = Accounts::new(&["one", "two"]);
    let world = &accounts.world;
    accounts.says("one", "warned 7200");
    let tasks: String = ["a", "b", "c"].map(|id| task(id, "agent: claude", "do it")).concat();
    world.run(&world.plan_with("", &tasks), &["-j", "1"]).exited(0);
    assert_eq!(accounts.calls(), ["one a 0 begun", "two b 0 begun", "two c 0 begun"]);
    assert_eq!(accounts.state_of("one"), "strained");
    // It is only a preference.
    accounts.says("two", "spent 18000");
    world.run(&world.plan_with("", &task("d", "agent: claude", "do it")), &[]).exited(0);
    assert_eq!(accounts.calls()[3..], ["two d 0 begun", "one d 1 resumed"]);
    accounts.set_clock(7201);
    assert_eq!(["one", "two"].map(|name| accounts.state_of(name)), ["ready", "cooling"]);
}

#[test]
fn whoever_adopts_an_agent_knows_whose_limits_it_tells_of() {
    let mut accounts = Accounts::new(&["one", "two"]);
    accounts.says("one", "spent 7200");
    let plan = accounts.world.plan_with("", &task("a", "agent: claude\nmax_attempts: 1", "do it"));
    accounts.world.env("REGATTA_FAILPOINT", "shim-started");
    accounts.world.run(&plan, &[]).exited(137);
    accounts.world.env("REGATTA_FAILPOINT", "");
    accounts.world.run(&plan, &["--resume"]).exited(0);
    assert_eq!(accounts.state_of("one"), "cooling");
    assert_eq!(accounts.calls(), ["one a 0 begun", "two a 1 resumed"]);
    assert_eq!(accounts.world.attempts("a"), (2, 0));
    accounts.world.assert_tidy();
}

#[test]
fn codex_takes_its_conversation_along_and_gemini_is_told_that_there_was_one() {
    let mut accounts = Accounts::new(&[]);
    let notes = accounts.notes.display().to_string();
    let world = &mut accounts.world;
    let codex = r#"cat >/dev/null; id=01a1dd00-7e6c-72b3-ad81-c47430c45ccc
echo "$(basename "$CODEX_HOME") $*" >>'NOTES/codex'
dir="$CODEX_HOME/sessions/2026/11/15"; file="$dir/rollout-2026-11-15T10-00-00-$id.jsonl"
case "$*" in *resume*) [ -f "$file" ] || { echo "no rollout found for thread id $id" >&2; exit 1; } ;; esac
mkdir -p "$dir"; echo more >>"$file"
echo "{\"type\":\"thread.started\",\"thread_id\":\"$id\"}"
case "$CODEX_HOME" in
*one) echo half >half.txt; echo '{"type":"turn.failed","error":{"message":"You’ve hit your usage limit. Try again at Nov 18th, 2199 2:22 AM."}}'; exit 1 ;;
esac
cp "$file" codex.txt; regatta done --verdict pass --summary Done >&2
echo '{"type":"turn.completed","usage":{"input_tokens":1,"output_tokens":1}}'"#;
    let gemini = r#"cat >>"NOTES/gemini.$(basename "$GEMINI_CLI_HOME")"
echo '{"type":"init","session_id":"398d1177-83ca-4030-b7de-39deb75b63e2","model":"m"}'
case "$GEMINI_CLI_HOME" in
*one) echo '{"type":"result","status":"error","error":{"type":"Error","message":"You have exhausted your daily quota on this model."},"stats":{}}'; exit 1 ;;
esac
echo gemini >gemini.txt; regatta done --verdict pass --summary Done >&2
echo '{"type":"result","status":"success","stats":{}}'"#;
    for (name, body) in [("codex", codex), ("gemini", gemini)] {
        script(&world.outside(&format!("bin/{name}")), &body.replace("NOTES", &notes));
    }
    let row = |name: &str| {
        let env = format!("CODEX_HOME: ~/codex-{name}, GEMINI_CLI_HOME: ~/gemini-{name}");
        format!("  - {{ name: {name}, env: {{ {env} }} }}\n")
    };
    world.config(&format!("version: 1\nprofiles:\n{}{}", row("one"), row("two")));
    let plan = [task("c", "agent: codex", "do it"), task("g", "agent: gemini", "do it")].concat();
    world.run(&world.plan_with("", &plan), &["-j", "1"]).exited(0);
    world.assert_states(["c landed", "g landed"]);
    assert_eq!(world.landed("codex.txt").as_deref(), Some("more\nmore\n"));
    let calls = fs::read_to_string(accounts.notes.join("codex")).unwrap();
    let calls: Vec<&str> = calls.lines().collect();
    assert!(calls[0].starts_with("codex-one ") && calls[1].contains("resume"), "{calls:?}");
    let told = |name: &str| fs::read_to_string(accounts.notes.join(format!("gemini.gemini-{name}"))).unwrap();
    assert!(!told("one").contains("another account"), "{}", told("one"));
    assert!(
        told("two").contains("do it") && told("two").contains("ran with another account"),
        "{}",
        told("two")
    );
    // One profile is two accounts: each cools by itself.
    let shown = accounts.shown();
    let mut states = Vec::new();
    for profile in shown.as_array().unwrap() {
        for account in profile["accounts"].as_array().unwrap() {
            states.push(format!("{} {}", text(&account["agent"]), text(&account["state"])));
        }
    }
    assert_eq!(states, ["codex cooling", "gemini cooling", "codex ready", "gemini ready"]);
}

#[test]
fn what_was_reported_before_the_limit_came_is_not_asked_for_again() {
    let accounts = Accounts::new(&["one", "two", "three"]);
    accounts.says("one", "late 18000");
    accounts.says("two", "spent 18000");
    accounts.says("three", "quiet");
    let world = &accounts.world;
    let daemon = world.daemon();
    world.enqueue(
        &world.plan_with("", &task("a", "agent: claude\nmax_attempts: 1\nauto_land: true", "do it")),
    );
    world.wait_state("a", "landed");
    assert_eq!(accounts.calls(), ["one a 0 begun", "two a 1 resumed", "three a 2 resumed"]);
    assert_eq!(world.landed("a.txt").as_deref(), Some("one\n"));
    let last = &world.task("a")["attempts"][2];
    assert_eq!(text(&last["summary"]), "Did it before the limit");
    // The prompt of an agent that continues says that it was interrupted, and repeats the task.
    let told = fs::read_to_string(accounts.notes.join("told")).unwrap();
    assert_eq!(told.matches("You were interrupted").count(), 2, "{told}");
    assert_eq!(told.matches("do it").count(), 3, "{told}");

    // Another conversation needs its own report.
    accounts.set_clock(18_100);
    accounts.says("one", "quiet");
    accounts.says("two", "quiet");
    accounts.says("three", "quiet");
    world.enqueue(
        &world.plan_with("", &task("b", "agent: claude\nmax_attempts: 1\nauto_land: true", "do it")),
    );
    world.wait_state("b", "blocked");
    Accounts::end(daemon);
}
