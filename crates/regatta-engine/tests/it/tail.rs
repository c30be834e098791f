//! Following files that grow, as agents' logs do.

use std::fs::{self, File};
use std::future::Future;
use std::io::Write;
use std::time::Duration;

use regatta_engine::process::tail::{KEPT_OF_LONGER, LONGEST_LINE, Line, Tail};

struct Log {
    _dir: tempfile::TempDir,
    path: std::path::PathBuf,
    file: File,
}

impl Log {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let file = File::options().create(true).append(true).open(&path).unwrap();
        Self { _dir: dir, path, file }
    }

    fn write(&mut self, bytes: impl AsRef<[u8]>) {
        self.file.write_all(bytes.as_ref()).unwrap();
    }

    fn tail(&self) -> Tail {
        Tail::open(&self.path, 0).unwrap()
    }
}

async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(120), future).await.expect("it should not take that long")
}

fn texts(lines: &[Line]) -> Vec<String> {
    lines.iter().map(|line| String::from_utf8_lossy(&line.bytes).into_owned()).collect()
}

fn drain_all(tail: &mut Tail) -> Vec<Line> {
    std::iter::from_fn(|| Some(tail.drain().unwrap()).filter(|lines| !lines.is_empty())).flatten().collect()
}

#[tokio::test]
async fn lines_come_as_they_are_written() {
    let mut log = Log::new();
    log.write("one\ntwo\n");
    let mut tail = log.tail();
    assert_eq!(texts(&soon(tail.next_lines()).await.unwrap()), ["one", "two"]);
    let waiting = tokio::spawn(async move { (tail.next_lines().await.unwrap(), tail) });
    log.write("three\r\n\n");
    let (lines, tail) = soon(waiting).await.unwrap();
    assert_eq!(texts(&lines)[0], "three\r");
    assert!(tail.offset() >= 15);
}

#[tokio::test]
async fn a_torn_line_is_kept_until_it_is_completed() {
    let mut log = Log::new();
    let mut tail = log.tail();
    log.write("{\"half\":");
    assert!(tail.ready_lines().unwrap().is_empty());
    assert_eq!(tail.offset(), 0, "a torn line is not dealt with");
    let waiting = tokio::spawn(async move { (tail.next_lines().await.unwrap(), tail) });
    log.write("true}\nrest");
    let (lines, mut tail) = soon(waiting).await.unwrap();
    assert_eq!(texts(&lines), ["{\"half\":true}"]);
    let last = drain_all(&mut tail);
    assert_eq!(last, [Line { bytes: b"rest".into(), cut: false, torn: true, dropped: 0, end: 18 }]);
    assert!(tail.drain().unwrap().is_empty());
}

#[tokio::test]
async fn bytes_that_are_no_text_come_out_as_they_went_in() {
    let mut log = Log::new();
    let bytes: Vec<u8> = (0..=255).filter(|&byte| byte != b'\n').collect();
    log.write([&bytes[..], b"\n"].concat());
    assert_eq!(soon(log.tail().next_lines()).await.unwrap()[0].bytes, bytes);
}

#[tokio::test]
async fn a_line_that_is_too_long_is_cut_and_the_next_is_whole() {
    let mut log = Log::new();
    log.write(vec![b'a'; LONGEST_LINE]);
    log.write("\n");
    log.write(vec![b'b'; LONGEST_LINE + 100_000]);
    log.write("\nafter\n");
    let lines = drain_all(&mut log.tail());
    let seen: Vec<_> = lines.iter().map(|line| (line.bytes.len(), line.cut, line.torn)).collect();
    assert_eq!(seen, [(LONGEST_LINE, false, false), (KEPT_OF_LONGER, true, false), (5, false, false)]);
    assert_eq!(lines[2].end, fs::metadata(&log.path).unwrap().len());
}

#[tokio::test]
async fn what_a_line_that_is_too_long_begins_with_is_understood() {
    let mut log = Log::new();
    let long = "x".repeat(LONGEST_LINE);
    let tool = r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t1","content":""#;
    log.write(format!("{tool}{long}\"}}]}}}}\n"));
    let result = r#"{"type":"result","subtype":"success","is_error":false,"result":""#;
    log.write(format!("{result}{long}\"}}\n"));
    let mut decoder = regatta_engine::agents::decoder(regatta_core::config::AgentKind::Claude);
    decoder
        .line(br#"{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t1","name":"Read"}]}}"#);
    let lines = drain_all(&mut log.tail());
    decoder.line(&lines[0].bytes);
    assert_eq!(decoder.open_tools(), 0, "its end was in the line");
    decoder.line(&lines[1].bytes);
    let exit = regatta_core::exit::Exit::Exited { code: 0 };
    let ending = decoder.end(&exit, "", regatta_core::time::Timestamp::from_millis(0));
    assert_eq!(ending.end, regatta_engine::agents::AgentEnd::Success);

    // One that nobody finished says nothing.
    let mut log = Log::new();
    log.write(format!("{result}{long}"));
    let lines = drain_all(&mut log.tail());
    assert!(lines[0].torn && decoder_is_lost(&lines[0].bytes));
}

fn decoder_is_lost(line: &[u8]) -> bool {
    let mut decoder = regatta_engine::agents::decoder(regatta_core::config::AgentKind::Claude);
    matches!(&decoder.line(line)[..], [regatta_engine::agents::AgentEvent::Unknown { .. }])
}

#[tokio::test]
async fn a_long_log_comes_in_batches_and_can_be_resumed_after_any_line() {
    let mut log = Log::new();
    log.write("\n".repeat(1_000_000));
    assert!(log.tail().drain().unwrap().len() < 100_000, "empty lines count too");

    let mut log = Log::new();
    let text: String = (0..300_000).map(|n| format!("line {n}\n")).collect();
    log.write(&text);
    let mut tail = log.tail();
    let first = tail.drain().unwrap();
    assert!(first.len() < 300_000, "one call is bounded");
    let at = first[first.len() / 2].end;
    let rest = drain_all(&mut Tail::open(&log.path, at).unwrap());
    assert_eq!(first.len() / 2 + 1 + rest.len(), 300_000);
    assert_eq!(texts(&rest[..1])[0], format!("line {}", first.len() / 2 + 1));
    assert_eq!(rest.last().unwrap().end, text.len() as u64);
}

#[tokio::test]
async fn a_dropped_wait_loses_nothing() {
    let mut log = Log::new();
    let mut tail = log.tail();
    log.write("ha");
    let mut wait = Box::pin(tail.next_lines());
    let polled = std::future::poll_fn(|context| std::task::Poll::Ready(wait.as_mut().poll(context))).await;
    assert!(polled.is_pending());
    drop(wait);
    log.write("lf\n");
    assert_eq!(texts(&soon(tail.next_lines()).await.unwrap()), ["half"]);
}

#[tokio::test]
async fn two_hundred_files_are_followed_by_one_watcher() {
    let mut logs: Vec<_> = (0..200).map(|_| Log::new()).collect();
    let mut tails = tokio::task::JoinSet::new();
    for log in &logs {
        // Two on each file, of which one goes away: the other must stay awake.
        drop(log.tail());
        let (mut tail, other) = (log.tail(), log.tail());
        tails.spawn(async move {
            drop(other);
            tail.next_lines().await.unwrap()
        });
    }
    tokio::task::yield_now().await;
    for (n, log) in logs.iter_mut().enumerate() {
        log.write(format!("{n}\n"));
    }
    let mut seen: Vec<usize> =
        soon(tails.join_all()).await.iter().map(|lines| texts(lines)[0].parse().unwrap()).collect();
    seen.sort_unstable();
    assert_eq!(seen, (0..200).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_file_that_is_not_there_is_an_error() {
    let error = Tail::open("/no/such/log", 0).err().unwrap();
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
}
