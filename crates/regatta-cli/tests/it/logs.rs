//! `regatta logs`.

use std::path::Path;

use regatta_testkit::world::{World, let_go};
use serde_json::Value;

use crate::REGATTA;

#[test]
fn the_transcript_shows_words_tools_result_and_cost() {
    let world = World::after_plan(REGATTA);
    insta::assert_snapshot!(world.regatta(["logs", "good"]).shown(), @"
    ▸ started, sim

    I will write a file

    ● Write good.txt
      ↻ ×2, the same each time
    ● Bash regatta done --verdict pass

    good attempt 1: verdict pass recorded

    I will write a file

    ✓ finished · 6 turns · $0.2500 · 10 tokens in, 3 out
    --- stderr
    ■ attempt 1: exit 0 · TIME · verdict pass: Write the good file
    ");
}

#[test]
fn a_command_is_shown_as_it_printed_and_its_standard_error_behind() {
    let world = World::after_plan(REGATTA);
    let text = world.regatta(["logs", "script"]).exited(0).stdout;
    assert_eq!(text, "hello from the script\n── standard error ──\n┆ oops\n");
    let last = world.regatta(["logs", "script", "-n", "1"]).exited(0).stdout;
    assert_eq!(last, "┆ oops\n");
    let lines = world.regatta(["logs", "script", "--json"]).exited(0).json_lines();
    assert_eq!(lines[0]["type"], "text");
    assert_eq!(lines[0]["attempt"], 1);
    assert_eq!(lines[1]["type"], "stderr");
}

#[test]
fn raw_is_byte_for_byte_what_was_recorded() {
    let world = World::after_plan(REGATTA);
    let log = world.root().join(".regatta/logs/good/1.jsonl");
    let recorded = std::fs::read_to_string(&log).unwrap();
    assert_eq!(world.regatta(["logs", "good", "--raw"]).exited(0).stdout, recorded);
    let last = recorded.lines().last().unwrap().to_owned() + "\n";
    assert_eq!(world.regatta(["logs", "good", "--raw", "-n", "1"]).exited(0).stdout, last);
    assert_eq!(world.regatta(["logs", "good", "--raw", "-n", "0"]).exited(0).stdout, "");
    world.regatta(["logs", "good", "--raw", "--json"]).exited(2);
}

#[test]
fn the_last_lines_of_a_huge_log_are_read_from_its_end() {
    use std::io::{Seek as _, SeekFrom, Write as _};
    let world = World::after_plan(REGATTA);
    let log = world.root().join(".regatta/logs/script/1.jsonl");
    // Six gigabytes, without a disk that could hold them: reading them all takes minutes.
    let mut file = std::fs::File::options().write(true).open(&log).unwrap();
    file.seek(SeekFrom::Start(6 << 30)).unwrap();
    file.write_all(b"\nzero\none\ntwo\nthree\n").unwrap();
    // Of the four lines for people, two are from standard error.
    let mut all = String::new();
    for flags in [&["-n", "4"][..], &["-n", "2", "--raw"]] {
        let begun = std::time::Instant::now();
        all += &world.regatta(["logs", "script"].iter().chain(flags)).exited(0).shown();
        assert!(begun.elapsed().as_secs() < 10, "{flags:?} took {:?}", begun.elapsed());
    }
    insta::assert_snapshot!(all, @"
    two
    three
    ── standard error ──
    ┆ oops
    --- stderr
    ■ attempt 1: exit 0 · TIME · verdict pass
    two
    three
    ");
}

#[test]
fn events_are_the_normal_form_with_the_tasks_own_around_it() {
    let world = World::after_plan(REGATTA);
    let lines = world.regatta(["logs", "good", "--events", "--json"]).exited(0).json_lines();
    let at = |key: &str, word: &str| {
        let found = lines.iter().position(|line| line[key] == word);
        found.unwrap_or_else(|| panic!("{key} {word} in {lines:#?}"))
    };
    let order = [at("kind", "started"), at("type", "started"), at("type", "result"), at("kind", "exited")];
    assert!(order.is_sorted(), "{order:?} in {lines:#?}");
    assert_eq!(lines[at("type", "tool-started")]["summary"], "good.txt");
    // For people they are lines in the transcript, as in rookery.
    insta::assert_snapshot!(world.regatta(["logs", "good", "--events"]).shown(), @"
    · DATE CLOCK claimed by HOST
    · DATE CLOCK lane DIR/repo.lanes/good at HASH
    · DATE CLOCK agent started, process PID
    ▸ started, sim

    I will write a file

    ● Write good.txt
      ↻ ×2, the same each time
    ● Bash regatta done --verdict pass

    good attempt 1: verdict pass recorded

    I will write a file

    ✓ finished · 6 turns · $0.2500 · 10 tokens in, 3 out
    · DATE CLOCK reported pass: Write the good file
    · DATE CLOCK agent ended: exit 0
    · DATE CLOCK verdict pass: Write the good file
    · DATE CLOCK approved, joins the train with HASH
    · DATE CLOCK landing on main at HASH
    · DATE CLOCK candidate HASH: no gate
    · DATE CLOCK landed on main as HASH
    --- stderr
    ■ attempt 1: exit 0 · TIME · verdict pass: Write the good file
    ");
}

#[test]
fn secrets_and_terminal_tricks_are_not_shown() {
    let world = World::new(REGATTA);
    let plan = "---\nregatta: 1\ntasks:\n  - id: leak\n    agent: sh\n    prompt: |\n      \
                printf 'key %s and \\033[2J\\033]0;title\\007 end\\n' \"$MY_API_TOKEN\"\n---\n";
    let path = world.plan_file(plan);
    let secret = [("MY_API_TOKEN", "correct-horse-battery")];
    world.regatta_with(&secret, ["run", "--no-dashboard", path.to_str().unwrap()]).exited(0);
    insta::assert_snapshot!(world.regatta_with(&secret, ["logs", "leak"]).shown(), @"
    key [redacted:MY_API_TOKEN] and �[2J�]0;title� end
    --- stderr
    ■ attempt 1: exit 0 · TIME · verdict warn
    ");
    let json = world.regatta_with(&secret, ["logs", "leak", "--json"]).exited(0);
    assert!(!json.stdout.contains("correct-horse"), "{}", json.stdout);
    json.json_lines();
}

#[test]
fn what_is_not_there_is_said_with_the_next_step() {
    let world = World::after_plan(REGATTA);
    insta::assert_snapshot!(world.regatta(["logs", "after", "--json"]).shown(), @r#"
    --- stderr
    {"code":4,"error":"after has not been started yet","hint":"`regatta logs -f after` waits for it; `regatta status after` shows what it waits for","next":[{"text":"`regatta logs -f after` waits for it; `regatta status after` shows what it waits for"}]}
    --- exit 4
    "#);
    insta::assert_snapshot!(world.regatta(["logs", "good", "--attempt", "2", "--json"]).shown(), @r#"
    --- stderr
    {"code":4,"error":"good has had 1 attempt, so there is no attempt 2","hint":"`regatta status good` lists them","next":[{"text":"`regatta status good` lists them"}]}
    --- exit 4
    "#);
    world.regatta(["logs", "good", "--attempt", "0"]).exited(2);
    world.regatta(["logs", "nobody"]).exited(4);
    let elsewhere = world.outside("logs");
    let path =
        world.plan_file("---\nregatta: 1\ntasks:\n  - { id: far, agent: sh, prompt: echo far }\n---\n");
    let args = ["run".as_ref(), "--no-dashboard".as_ref(), "--log-dir".as_ref(), elsewhere.as_path(), &path];
    world.regatta(args).exited(0);
    // The attempt records where its log is; --log-dir can name another directory.
    assert_eq!(world.regatta(["logs", "far"]).exited(0).stdout, "far\n");
    let moved = world.outside("moved");
    std::fs::rename(&elsewhere, &moved).unwrap();
    world.regatta(["logs", "far"]).exited(4);
    let args: [&Path; 4] = ["logs".as_ref(), "far".as_ref(), "--log-dir".as_ref(), &moved];
    assert_eq!(world.regatta(args).exited(0).stdout, "far\n");
}

#[test]
fn following_ends_with_the_task_and_shows_every_line() {
    let world = World::new(REGATTA);
    let fifo = world.fifo("go");
    let plan = world.waiting_plan(&fifo);
    let mut events = world.begin(["events", "-f", "--json"]);
    let run = world.begin(["run".as_ref(), "--no-dashboard".as_ref(), plan.as_os_str()]);
    events.until(|line| serde_json::from_str::<Value>(line).unwrap()["kind"] == "enqueued");
    let mut logs = world.begin(["logs", "-f", "waiter"]);
    assert_eq!(logs.next_line().as_deref(), Some("hello"));
    let_go(&fifo);
    assert_eq!(logs.rest(), (vec!["bye".to_owned()], 0));
    assert_eq!(run.rest().1, 0);
}

#[test]
fn following_goes_on_to_the_next_attempt() {
    let world = World::new(REGATTA);
    let fifo = world.fifo("go");
    let script =
        format!("echo attempt $REGATTA_ATTEMPT; read go < {}; test $REGATTA_ATTEMPT = 2", fifo.display());
    let path = world.plan_file(&format!(
        "---\nregatta: 1\ntasks:\n  - id: twice\n    agent: sh\n    max_attempts: 2\n    prompt: |\n      {script}\n---\n"
    ));
    let mut events = world.begin(["events", "-f", "--json"]);
    let run = world.begin(["run".as_ref(), "--no-dashboard".as_ref(), path.as_os_str()]);
    events.until(|line| serde_json::from_str::<Value>(line).unwrap()["kind"] == "enqueued");
    let mut logs = world.begin(["logs", "-f", "twice"]);
    assert_eq!(logs.next_line().as_deref(), Some("attempt 1"));
    let_go(&fifo);
    assert_eq!(logs.next_line().as_deref(), Some("attempt 2"));
    let_go(&fifo);
    assert_eq!(logs.rest(), (vec![], 0));
    assert_eq!(run.rest().1, 0);
    assert_eq!(world.regatta(["logs", "twice", "--attempt", "1"]).exited(0).stdout, "attempt 1\n");
}

#[test]
fn a_huge_log_is_shown_in_little_memory() {
    let world = World::after_plan(REGATTA);
    let log = world.root().join(".regatta/logs/script/1.jsonl");
    let line = "x".repeat(1000) + "\n";
    std::fs::write(&log, line.repeat(90_000)).unwrap();
    // 90 MB of log with a limit of 60 MB for what the program allocates, the stacks of its threads included.
    // Its code does not count: that of a debug build alone is about as large.
    let limited = format!(
        "ulimit -d 60000; MALLOC_ARENA_MAX=1 exec {} logs script -n 2",
        env!("CARGO_BIN_EXE_regatta")
    );
    let mut command = std::process::Command::new("sh");
    command.args(["-c", &limited]).current_dir(world.root()).env_clear().envs(world.variables());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "── standard error ──\n┆ oops\n");
}

#[test]
fn the_output_of_a_failed_check_is_shown_wherever_somebody_looks() {
    let world = World::new(REGATTA);
    let token = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
    let plan = format!(
        "---\nregatta: 1\ntasks:\n  - id: a\n    agent: sh\n    max_attempts: 1\n    checks: [\"seq 1 60; echo {token}; echo the oven is cold >&2; exit 3\"]\n    prompt: echo x > a.txt\n---\n"
    );
    let path = world.plan_file(&plan);
    let report = world.outside("report.md");
    world
        .regatta([
            "run".as_ref(),
            "--no-dashboard".as_ref(),
            "--report".as_ref(),
            report.as_os_str(),
            path.as_os_str(),
        ])
        .exited(1);
    let page = std::fs::read_to_string(&report).unwrap();
    let told = [
        ("status", world.regatta(["status", "a"]).exited(0).stdout),
        ("logs", world.regatta(["logs", "a"]).exited(0).stdout),
        ("events", world.regatta(["events", "--task", "a"]).exited(0).stdout),
        ("report", page),
    ];
    for (place, text) in told {
        assert!(text.contains("the oven is cold"), "{place}:\n{text}");
        assert!(text.lines().any(|line| line.trim() == "60"), "{place}: its last lines\n{text}");
        assert!(!text.lines().any(|line| line.trim() == "7"), "{place}: not all of it\n{text}");
        let shown = text.lines().filter(|line| !line.contains("seq 1 60")).collect::<Vec<_>>().join("\n");
        assert!(!shown.contains(token), "{place}: a secret\n{text}");
    }
}
