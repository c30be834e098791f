//! Accounts: rotated when a quota is spent, waited for when all are, and shown by `regatta profiles`.

use std::fs;
use std::path::PathBuf;

use regatta_testkit::daemon::until;
use regatta_testkit::repo::script;
use regatta_testkit::world::{Running, World, task, text};
use serde_json::Value;

use crate::REGATTA;

/// Plays claude: keeps its conversation as claude does, and ends as the file `NAME.says` beside its directory says:
/// `spent SECONDS` until its five hours are over, `refused`, `busy`, or else with the work done.
const CLAUDE: &str = r#"cat >/dev/null
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
now=$(( $(date +%s) + $(cat 'NOTES/clock') / 1000 ))
case "$word" in
spent)
  echo "{\"type\":\"rate_limit_event\",\"rate_limit_info\":{\"status\":\"rejected\",\"resetsAt\":$((now + seconds)),\"rateLimitType\":\"five_hour\"},\"session_id\":\"$id\"}"
  echo "{\"type\":\"assistant\",\"error\":\"rate_limit\",\"message\":{\"model\":\"<synthetic>\",\"content\":[{\"type\":\"text\",\"text\":\"limit\"}]},\"session_id\":\"$id\"}"
  echo "{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":true,\"api_error_status\":429,\"result\":\"You've hit your session limit\",\"session_id\":\"$id\",\"total_cost_usd\":0.25}"
  exit 1 ;;
refused)
  echo "{\"type\":\"assistant\",\"error\":\"authentication_failed\",\"message\":{\"model\":\"<synthetic>\",\"content\":[{\"type\":\"text\",\"text\":\"401\"}]},\"session_id\":\"$id\"}"
  echo "{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":true,\"api_error_status\":401,\"result\":\"Invalid API key\",\"session_id\":\"$id\"}"
  exit 1 ;;
busy)
  echo "{\"type\":\"assistant\",\"error\":\"rate_limit\",\"message\":{\"model\":\"<synthetic>\",\"content\":[{\"type\":\"text\",\"text\":\"429\"}]},\"session_id\":\"$id\"}"
  echo "{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":true,\"api_error_status\":429,\"result\":\"API Error: 429 too many requests\",\"session_id\":\"$id\"}"
  exit 1 ;;
esac
echo "$profile" >"$REGATTA_TASK.txt"
regatta done --verdict pass --summary "Did it" >&2
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

    /// Who was called for what, in order.
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
    // Another task is not even claimed while there is no account, and says why.
    world.enqueue(&world.plan_with("", &task("b", "agent: claude\nauto_land: true", "do it")));
    until("it is held back", || {
        world.regatta(["status", "b"]).stdout.contains("one is back at").then_some(())
    });
    assert_eq!(world.attempts("b"), (0, 0));
    accounts.says("one", "done");
    accounts.set_clock(7200 - 120);
    assert_eq!(accounts.state_of("one"), "cooling");
    // Half a minute at most after the first one is whole again, both go on.
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
