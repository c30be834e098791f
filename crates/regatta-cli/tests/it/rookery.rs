//! rookery's README, typed with `regatta` instead of `rookery`: its commands, its files, its variables.

use std::fs;
use std::time::Duration;

use regatta_testkit::daemon::until;
use regatta_testkit::repo::script;
use regatta_testkit::shown::shown;
use regatta_testkit::world::{Running, World};
use serde_json::Value;

use crate::REGATTA;
use crate::doctor::told;

const REGATTA_DAEMON: &str = env!("CARGO_BIN_EXE_regatta-daemon");

/// An agent that follows parcels: with the words, the program and the variables of rookery.
const CLAUDE: &str = r#"cat >/dev/null
[ -n "$ROOKERY_DB" ] && [ "$ROOKERY_WORKTREE" = "$PWD" ] || exit 9
echo '{"type":"system","subtype":"init","session_id":"s","model":"m","cwd":"."}'
rookery parcel progress "Implemented $ROOKERY_PARCEL_ID" --detail "attempt $ROOKERY_PARCEL_ATTEMPT" >&2
echo "$ROOKERY_PARCEL_ID" >"$ROOKERY_PARCEL_ID.txt"
case "$ROOKERY_PARCEL_ID" in
  marked) printf 'Verdict: PASS\n\n## Summary\nMarked it\n' >"PARCEL_DONE-$ROOKERY_PARCEL_ID.md" ;;
  *) printf 'At length.\n' >"$TMPDIR/detail.md"
     rookery parcel done --verdict PASS --summary "Did $ROOKERY_PARCEL_ID" --tokens-in 12500 --tokens-out 3200 \
       --duration-s 187 --tests-passed 42 --tests-failed 0 --files-changed 1 --detail-file "$TMPDIR/detail.md" >&2 ;;
esac
echo '{"type":"result","subtype":"success","is_error":false,"result":"done","session_id":"s","num_turns":1}'"#;

fn parcel(id: &str, deps: &str, keys: &str) -> String {
    format!(
        "---\nid: {id}\npriority: 5\ndeps: [{deps}]\nmax_attempts: 3\nverification_enabled: true\n{keys}notes: \"\"\n---\n\n\
         # {id}\n\nYou are working in a fresh git worktree.\n\nrookery parcel done --verdict PASS --summary \"...\"\n"
    )
}

/// A repository of a rookery user, with a `claude` that follows its prompt.
fn fleet() -> World {
    let mut world = World::new(REGATTA);
    script(&world.outside("bin/claude"), CLAUDE);
    let path = format!("{}:{}", world.outside("bin").display(), std::env::var("PATH").unwrap_or_default());
    let dir = world.outside("tmp");
    fs::create_dir_all(&dir).unwrap();
    world.env("PATH", path).env("TMPDIR", dir);
    world
}

/// `regatta-daemon`, in the foreground.
fn daemon(world: &mut World, args: &[&str]) -> Running {
    world.use_program(REGATTA_DAEMON.as_ref());
    let daemon = world.begin(args);
    world.use_program(REGATTA.as_ref());
    until("the daemon says who it is", || (world.daemon_pid() == Some(daemon.pid())).then_some(()));
    daemon
}

#[test]
fn its_readme_can_be_typed_word_for_word() {
    let mut world = fleet();
    let type_in = |world: &World, line: &str| {
        let words = line.strip_prefix("regatta ").expect("a command line").split(' ');
        world.regatta(words.map(|word| word.trim_matches('"')).collect::<Vec<_>>())
    };
    let version = concat!("regatta ", env!("CARGO_PKG_VERSION"), "\n");
    assert_eq!(type_in(&world, "regatta --version").exited(0).stdout, version);
    assert_eq!(type_in(&world, "regatta -V").exited(0).stdout, version);
    type_in(&world, "regatta init").exited(0);
    type_in(&world, "regatta doctor").exited(0);
    insta::assert_snapshot!(type_in(&world, "regatta parcel new hello-world").shown(), @"
    made parcels/hello-world.md
    next: write the prompt, then `regatta validate parcels/hello-world.md`, and `regatta run parcels/hello-world.md` or `regatta enqueue parcels/hello-world.md`
    ");
    type_in(&world, "regatta parcel validate parcels/hello-world.md").exited(0);
    type_in(&world, "regatta enqueue hello-world").exited(0);
    type_in(&world, "regatta daemon-status").exited(4);

    let serving = daemon(&mut world, &[]);
    let alive = type_in(&world, "regatta daemon-status").exited(0).stdout;
    insta::assert_snapshot!(shown(&alive.lines().next().unwrap().replace(&serving.pid().to_string(), "ITS-OWN")), @"daemon: alive, lands on main, process ITS-OWN, up for TIME, last awake TIME ago");
    world.wait_state("hello-world", "done");
    insta::assert_snapshot!(type_in(&world, "regatta status hello-world").shown(), @"
    ✓ hello-world  What hello-world should do, in one line
    state     done (TIME ago)
    agent     claude
    from      parcels/hello-world.md:1
    branch    regatta/hello-world
    attempt 1 claude · m · TIME · sandbox LEVEL · exit 0 · verdict pass
              Did hello-world  At length.
              - db says pass: Did hello-world  At length. (42 tests passed, 0 tests failed, 1 file changed, 12500 tokens in, 3200 tokens out, 187 s)
              - 1 file changed, tree HASH
              - commit HASH
    next      `regatta diff hello-world` shows the work; `regatta land hello-world` lands it
    ");
    type_in(&world, "regatta status hello-world --json").exited(0);
    assert_eq!(
        world.repo().git(["log", "-1", "--format=%s%n%b", "regatta/hello-world"]).lines().collect::<Vec<_>>()
            [..2],
        ["feat(hello-world): Did hello-world", "At length."]
    );
    // The agent may report before its start is recorded, so the order of the lines varies.
    let shown = type_in(&world, "regatta logs hello-world --lines 50 --events").exited(0);
    assert!(shown.stdout.contains("Implemented hello-world") && !shown.stdout.contains('{'), "{shown:?}");
    insta::assert_snapshot!(type_in(&world, "regatta diff hello-world --stat").shown(), @"
    hello-world.txt | 1 +
    1 file changed, 1 insertion(+)
    ");
    insta::assert_snapshot!(type_in(&world, "regatta diff hello-world --name-only --against main").shown(), @"hello-world.txt");
    type_in(&world, "regatta worktree list").exited(0);

    for (id, deps) in [("schema", ""), ("migrate-auth", ""), ("add-oauth-flow", ""), ("marked", "")] {
        world
            .repo()
            .write(format!("parcels/{id}.md"), parcel(id, deps, "auto_land: true\nverdict_adapter: chain\n"));
    }
    insta::assert_snapshot!(type_in(&world, "regatta enqueue migrate-auth --deps schema").shown(), @"
    --- stderr
    error: unknown dependency schema: there is no such task; nothing was changed
    hint: `regatta enqueue schema` first; `regatta list --status all` shows all tasks
    --- exit 2
    ");
    type_in(&world, "regatta enqueue schema").exited(0);
    type_in(&world, "regatta enqueue migrate-auth --deps schema --priority 7").exited(0);
    type_in(&world, "regatta enqueue add-oauth-flow --deps migrate-auth --no-verify").exited(0);
    type_in(&world, "regatta parcel build parcels/marked.md").exited(0);
    world.wait_settled(Duration::from_secs(60));
    insta::assert_snapshot!(type_in(&world, "regatta summary").shown(), @"
    ✓     1 done
    ✓     4 landed
          5 in total
    ");
    let summary: Value =
        serde_json::from_str(&type_in(&world, "regatta summary --json").exited(0).stdout).unwrap();
    assert_eq!(summary["counts"]["landed"], 4, "{summary}");
    assert!(world.subjects("main").contains(&"feat(marked): Marked it".to_owned()));
    for state in ["pending", "running", "done", "failed", "blocked", "all"] {
        type_in(&world, &format!("regatta list --status {state}")).exited(0);
    }
    type_in(&world, "regatta reclaim").exited(0);
    type_in(&world, "regatta cancel hello-world").exited(6);
    type_in(&world, "regatta requeue hello-world").exited(0);
    world.wait_state("hello-world", "done");
    type_in(&world, "regatta worktree sweep --dry-run").exited(0);
    type_in(&world, "regatta worktree sweep").exited(0);
    type_in(&world, "regatta worktree retire nothing").exited(4);
    type_in(&world, "regatta worktree retire hello-world").exited(0);
    insta::assert_snapshot!(type_in(&world, "regatta land hello-world").shown(), @"hello-world landed on main as HASH");
    assert_eq!(world.landed("hello-world.txt").as_deref(), Some("hello-world\n"));
    type_in(&world, "regatta land history hello-world").exited(0);
    insta::assert_snapshot!(type_in(&world, "regatta land retry hello-world").shown(), @"
    --- stderr
    error: hello-world has already landed
    hint: `regatta requeue hello-world` starts it over in a fresh lane
    --- exit 6
    ");
    insta::assert_snapshot!(type_in(&world, "regatta daemon-stop").shown(), @"stopped; no agent is running");
    serving.wait().exited(0);
    world.assert_no_process();
}

#[test]
fn its_settings_are_read_and_its_accounts_are_told_to_be_ignored() {
    let mut world = fleet();
    world.repo().commit_file(
        "rookery.yaml",
        "db_path: ./rookery.db\nworktrees_root: ./worktrees\nmax_concurrent: 2\nlease_ttl_s: 1800\nauto_land: true\n\
         auto_land_test_cmd: test -f one.txt\nauto_commit_on_pass: true\n",
        "rookery",
    );
    let enqueued = |world: &World, id: &str| {
        world.repo().write(format!("parcels/{id}.md"), parcel(id, "", ""));
        world.regatta(["enqueue", id]).exited(0)
    };
    insta::assert_snapshot!(enqueued(&world, "one").shown(), @"
    enqueued one  pending  lands when it passes
    no daemon is running; start one with `regatta daemon start`
    --- stderr
    rookery.yaml:1:1: warning: rookery's `db_path`, `lease_ttl_s` have no effect
      hint: docs/guide/coming-from-rookery.md says what to use instead
    rookery.yaml:2:1: warning: `worktrees_root` is ignored: Regatta's lanes are beside the checkout, not in it
      hint: agents that walk upwards must not find your files; `lanes_root` names another place
    ");
    let again = enqueued(&world, "two").stderr;
    assert_eq!(again, "", "what was shown is not shown again");
    insta::assert_snapshot!(told(&world.regatta(["doctor", "--json"]).json(), "configuration"), @"
    warning: rookery.yaml:1:1: warning: rookery's `db_path`, `lease_ttl_s` have no effect
      hint: docs/guide/coming-from-rookery.md says what to use instead
    rookery.yaml:2:1: warning: `worktrees_root` is ignored: Regatta's lanes are beside the checkout, not in it
      hint: agents that walk upwards must not find your files; `lanes_root` names another place
    ");
    world.regatta(["cancel", "two"]).exited(0);
    let refused = {
        world.use_program(REGATTA_DAEMON.as_ref());
        let ran = world.regatta(["--profiles", "max-1,max-2,max-3"]);
        world.use_program(REGATTA.as_ref());
        ran
    };
    insta::assert_snapshot!(refused.shown(), @r#"
    --- stderr
    --profiles: error: there is no profile "max-1": it is not under `profiles:` in regatta.yaml, and there is no directory ~/.claude-max-1
      hint: add `profiles: [{ name: max-1, env: { CLAUDE_CONFIG_DIR: DIRECTORY } }]`, or sign in with `CLAUDE_CONFIG_DIR=~/.claude-max-1 claude`
    --profiles: error: there is no profile "max-2": it is not under `profiles:` in regatta.yaml, and there is no directory ~/.claude-max-2
      hint: add `profiles: [{ name: max-2, env: { CLAUDE_CONFIG_DIR: DIRECTORY } }]`, or sign in with `CLAUDE_CONFIG_DIR=~/.claude-max-2 claude`
    --profiles: error: there is no profile "max-3": it is not under `profiles:` in regatta.yaml, and there is no directory ~/.claude-max-3
      hint: add `profiles: [{ name: max-3, env: { CLAUDE_CONFIG_DIR: DIRECTORY } }]`, or sign in with `CLAUDE_CONFIG_DIR=~/.claude-max-3 claude`
    error: 3 mistakes found; nothing was changed
    hint: correct the flag; `regatta help COMMAND` lists the options
    --- exit 2
    "#);
    // A supervisor starts it in any directory.
    let (root, config) = (world.root().to_owned(), world.root().join("rookery.yaml"));
    world.use_program(REGATTA_DAEMON.as_ref());
    let serving = world.begin_in(root.parent().unwrap(), ["--config", config.to_str().unwrap()]);
    world.use_program(REGATTA.as_ref());
    until("the daemon says who it is", || (world.daemon_pid() == Some(serving.pid())).then_some(()));
    world.wait_settled(Duration::from_secs(60));
    assert_eq!(world.landed("one.txt").as_deref(), Some("one\n"), "{}", world.log());
    world.regatta(["daemon-stop", "--kill"]).exited(0);
    serving.wait().exited(0);
    // Its own file is read from then on.
    insta::assert_snapshot!(world.regatta(["init"]).shown(), @"
    made regatta.yaml
    made tasks/example.md
    made .regatta
    rookery.yaml is no longer read: copy what you need from it to regatta.yaml (`regatta config` shows the settings in effect)
    next:
      regatta doctor                     # check that agents have what they need
      regatta run tasks/example.md       # the simulated agent, no account; lands nothing
      regatta new ID                     # a task of your own
    ");
    let settings = world.regatta(["config", "show", "--json"]).exited(0).stdout;
    assert!(!settings.contains("test -f one.txt"), "{settings}");
}

#[test]
fn its_database_is_neither_read_nor_changed() {
    let world = World::new(REGATTA);
    let path = world.root().join("rookery.db");
    let db = rusqlite::Connection::open(&path).unwrap();
    db.execute_batch("create table jobs(id text); pragma user_version = 1;").unwrap();
    drop(db);
    let before = fs::read(&path).unwrap();
    for args in [["--db", "rookery.db", "list"], ["--store", "rookery.db", "summary"]] {
        let refused = world.regatta(args);
        insta::allow_duplicates! {
            insta::assert_snapshot!(refused.shown(), @"
            --- stderr
            error: store unusable: DIR/repo/rookery.db is a database of some other program, not a Regatta store
            hint: `regatta doctor` checks the store
            --- exit 3
            ");
        }
    }
    assert!(fs::read(&path).unwrap() == before);
    world.regatta(["--db", "own.db", "add", "hello", "--id", "x", "--agent", "sim"]).exited(0);
    assert!(world.root().join("own.db").exists());
}
