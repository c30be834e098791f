//! Logs that no agent should write: endless lines, bytes that are no text, terminal tricks. No program fails, and none
//! needs more memory for them.

use std::fmt::Write as _;
use std::fs;

use regatta_testkit::world::{World, task};

use crate::REGATTA;

/// A line of this many bytes is longer than anything that is kept.
const HUGE: usize = 50_000_000;
/// And so is this one.
const LONG: usize = 17_000_000;
/// More than any of the programs needs, and less than one copy of two such lines.
const MOST_RESIDENT_KB: u64 = 96_000;

/// The most memory a process has had, in KiB.
fn peak(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

#[test]
fn an_endless_line_and_bytes_that_are_no_text_harm_nobody_who_listens() {
    let world = World::new(REGATTA);
    let barrier = world.barrier("on");
    let prompt = format!(
        "printf '\\377\\376 broken\\n'; echo on the other stream >&2\nhead -c {HUGE} /dev/zero | tr '\\0' x; echo\n\
         head -c {LONG} /dev/zero | tr '\\0' x >&2; echo >&2\necho after it; {}\necho x >x.txt",
        barrier.script()
    );
    let mut events = world.begin(["events", "-f", "--json"]);
    let run = world.start(&world.plan(&task("a", "agent: sh", &prompt)), &[]);
    events.wait_line("\"started\"");
    let mut logs = world.begin(["logs", "-f", "a"]);
    let mut wait = world.begin(["wait", "a", "--granularity", "all"]);
    logs.wait_line("after it");
    wait.wait_line("LOG task=a: after it");
    barrier.arrived();
    for (who, pid) in [("run", run.pid()), ("logs", logs.pid()), ("wait", wait.pid())] {
        let peak = peak(pid);
        assert!(peak < MOST_RESIDENT_KB, "{who} has had {peak} KiB");
    }
    barrier.open();
    run.wait().exited(0);
    wait.wait().exited(0);
    let shown = logs.wait().exited(0).stdout;
    assert!(shown.contains("\u{fffd}\u{fffd} broken") && shown.contains("┆ on the other stream"));
    assert!(shown.len() < 1_000_000, "{} bytes are shown", shown.len());
    events.kill();
    // As recorded, to the last byte.
    let log = world.root().join(".regatta/logs/a/1.jsonl");
    assert!(fs::metadata(log).unwrap().len() as usize > HUGE);
}

#[test]
fn a_transcript_full_of_garbage_is_shown_where_it_makes_sense() {
    let world = World::new(REGATTA);
    world.run(&world.sim(&task("a", "", "write x.txt x\nreport pass Done")), &[]).exited(0);
    let log = world.root().join(".regatta/logs/a/1.jsonl");
    let recorded = fs::read(&log).unwrap();
    let mut text = String::new();
    write!(
        text,
        "{}\n[1,2\n{{\"type\":\"text\",\"text\":\"\u{1b}[2J\u{9b}31m\u{202e}tricks\"}}\n",
        "[".repeat(50_000)
    )
    .unwrap();
    let mut all = text.into_bytes();
    all.extend_from_slice(b"\xff\xfe\x00\n{\"type\":\"text\",\"text\":\"torn");
    all.push(b'\n');
    all.extend(recorded);
    all.extend_from_slice(b"{\"type\":\"text\",\"te");
    fs::write(&log, all).unwrap();
    let shown = world.regatta(["logs", "a"]).exited(0).stdout;
    let (first, rest) = shown.split_once('\n').unwrap();
    assert!(first.starts_with("? [[[["), "{first}");
    insta::assert_snapshot!(rest, @r#"
    ? [1,2
    ? {"type":"text","text":"�[2J�31mtricks"}
    ? ���
    ? {"type":"text","text":"torn
    ▸ started, sim
    ● Write x.txt
    ● Bash regatta done --verdict pass

    a attempt 1: verdict pass recorded

    ✓ finished · 2 turns · $0.0000
    ? {"type":"text","te
    "#);
    let tricks = |c: char| c != '\n' && c.is_control() || c == '\u{202e}';
    assert!(!shown.contains(tricks), "{shown:?}");
    for line in world.regatta(["logs", "a", "--events", "--json"]).exited(0).stdout.lines() {
        serde_json::from_str::<serde_json::Value>(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    }
}

#[test]
fn a_status_costs_the_same_whatever_the_log_is() {
    let world = World::new(REGATTA);
    world.run(&world.sim(&task("a", "", "write x.txt x\nreport pass Done")), &[]).exited(0);
    // Ten gigabytes that take no space on the disk: reading them all would take too long.
    let log = world.root().join(".regatta/logs/a/1.jsonl");
    fs::OpenOptions::new().write(true).open(log).unwrap().set_len(10 << 30).unwrap();
    world.regatta(["status", "a", "--json"]).exited(0);
    insta::assert_snapshot!(world.regatta(["list"]).shown(), @"
      TASK  STATE   TRY  AGENT  TIME  TITLE          NOW
    ✓ a     landed  1    sim  TIME ago  write x.txt x
    ");
    insta::assert_snapshot!(world.regatta(["wait", "a"]).shown(), @"
    WATCHING task=a pid=- granularity=exit
    EXITED task=a state=landed
    ");
}

const MB: u64 = 1 << 20;

/// Lines of about a hundred bytes, each with its number.
fn flood(n_lines: u32) -> String {
    format!("seq -f 'line %092g' 1 {n_lines}")
}

#[test]
fn a_flood_leaves_its_beginning_its_end_and_a_line_that_says_what_is_missing() {
    use std::os::unix::fs::MetadataExt as _;
    let world = World::new(REGATTA);
    let barrier = world.barrier("on");
    let result = r#"{"type":"result","subtype":"success","is_error":false,"result":"Finished","session_id":"5f3a0000-0000-4000-8000-000000000000","total_cost_usd":0.5,"usage":{"input_tokens":7,"output_tokens":3}}"#;
    let play = world.outside("claude");
    regatta_testkit::repo::script(
        &play,
        &format!(
            "cat >/dev/null\n\
             printf '%s\\n' '{{\"type\":\"system\",\"subtype\":\"init\",\"session_id\":\"5f3a0000-0000-4000-8000-000000000000\",\"model\":\"m\"}}'\n\
             {flood}\n{flood} >&2\necho x >x.txt\nregatta done --verdict pass --summary 'Did it' >/dev/null\n{wait}\n\
             printf '%s\\n' '{result}'",
            flood = flood(300_000),
            wait = barrier.script()
        ),
    );
    world.config(&format!(
        "version: 1\nlimits: {{ max_log_mb: 4 }}\nagents: {{ claude: {{ exe: {} }} }}\n",
        play.display()
    ));
    let plan = world.plan(&task("a", "agent: claude", "flood"));
    let run = world.start(&plan, &[]);
    barrier.arrived();
    // Its engine dies: the next one reads what is on disk.
    run.kill();
    barrier.open();
    world.run(&plan, &["--resume"]).exited(0);
    world.assert_states(["a landed"]);
    let record = world.task("a");
    assert_eq!(record["attempts"][0]["cost_usd"], 0.5, "{record:#}");

    let logs = world.root().join(".regatta/logs/a");
    for name in ["1.jsonl", "1.stderr"] {
        let found = fs::metadata(logs.join(name)).unwrap();
        assert!(found.len() > 28 * MB, "{name} is as long as what was written: {}", found.len());
        assert!(found.blocks() * 512 <= 5 * MB, "{name} takes {} bytes", found.blocks() * 512);
    }
    let raw = world.regatta(["logs", "a", "--raw"]).exited(0).stdout;
    let lines: Vec<&str> = raw.lines().collect();
    let is_marker = |line: &&str| line.starts_with("[regatta: ");
    assert_eq!(lines.iter().filter(|line| is_marker(line)).count(), 1);
    let at = lines.iter().position(is_marker).unwrap();
    let dropped: u64 = lines[at].split(' ').nth(1).unwrap().parse().unwrap();
    let expected = format!("[regatta: {dropped} bytes of this log were dropped here, see limits.max_log_mb]");
    assert_eq!(lines[at], expected);
    // The count is exact, and every other line is complete.
    let shown = raw.len() as u64 - (expected.len() as u64 + 1);
    assert_eq!(shown + dropped, fs::metadata(logs.join("1.jsonl")).unwrap().len());
    assert!(lines[0].starts_with("{\"type\":\"system\"") && lines.last() == Some(&result));
    for pair in lines[1..at].windows(2).chain(lines[at + 1..lines.len() - 1].windows(2)) {
        let number = |line: &str| line.strip_prefix("line ").unwrap().parse::<u32>().unwrap();
        assert_eq!(number(pair[0]) + 1, number(pair[1]));
    }
    let transcript = world.regatta(["logs", "a"]).exited(0).stdout;
    assert!(transcript.contains(&expected) && transcript.contains("Finished"));
    // More lines than the end has: past the missing part, to the beginning.
    let many = lines.len().to_string();
    assert!(world.regatta(["logs", "a", "--raw", "-n", &many]).exited(0).stdout == raw);
    let fewer = (lines.len() - at).to_string();
    let end = world.regatta(["logs", "a", "--raw", "-n", &fewer]).exited(0).stdout;
    assert!(end == raw[raw.find(&expected).unwrap()..]);
    let few = world.regatta(["logs", "a", "--raw", "-n", "1"]).exited(0).stdout;
    assert_eq!(few, format!("{result}\n"));
}
