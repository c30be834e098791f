//! Logs that no agent should write: lines without end, bytes that are no text, terminal tricks. Nobody falls over, and
//! nobody grows with them.

use std::fmt::Write as _;
use std::fs;

use regatta_testkit::world::{World, task};

use crate::REGATTA;

/// A line of this many bytes is longer than anything is kept of.
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
    wait.wait().exited(0).says("EXITED task=a state=landed");
    let shown = logs.wait().exited(0).stdout;
    assert!(shown.contains("\u{fffd}\u{fffd} broken") && shown.contains("┆ on the other stream"));
    assert!(shown.len() < 1_000_000, "{} bytes are shown", shown.len());
    events.kill();
    // As it was recorded, to the last byte.
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
    assert!(shown.contains("● Write x.txt") && shown.contains("✓ finished"), "{shown}");
    assert!(shown.contains("? [[[[") && shown.contains("tricks"), "{shown}");
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
    // Ten gigabytes that take no room on the disk: whoever read them would not come back soon.
    let log = world.root().join(".regatta/logs/a/1.jsonl");
    fs::OpenOptions::new().write(true).open(log).unwrap().set_len(10 << 30).unwrap();
    world.regatta(["status", "a", "--json"]).exited(0);
    world.regatta(["list"]).exited(0).says("landed");
    world.regatta(["wait", "a"]).exited(0).says("EXITED task=a state=landed");
}
