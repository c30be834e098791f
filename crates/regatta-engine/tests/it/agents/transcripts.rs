//! Recorded runs of the real claude 2.1.197, codex 0.166.0, gemini 0.61.0 and opencode 1.18.33: decoded, and judged
//! as the people who recorded them judged them.
//!
//! `INDEX.tsv` has name, exit code (negative: signal) and outcome. A new release is a new set of recordings.

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

use regatta_core::config::AgentKind;
use regatta_core::exit::{Exit, Limit};
use regatta_engine::agents::{AgentEnd, AgentEvent, Decoder, Ending, decoder};

use super::recorded_at;

/// Where each agent's recordings are, and what is in the line that ends a run.
const RECORDED: [(&str, AgentKind, &[&str]); 4] = [
    ("claude", AgentKind::Claude, &[r#""type":"result""#]),
    ("codex", AgentKind::Codex, &[r#""type":"turn.completed""#, r#""type":"turn.failed""#]),
    ("gemini", AgentKind::Gemini, &[r#""type":"result""#]),
    ("opencode", AgentKind::Opencode, &[r#""reason":"stop""#, r#""type":"error""#]),
];

pub(super) struct Transcript {
    pub(super) kind: AgentKind,
    /// Agent and name.
    pub(super) name: String,
    exit: Exit,
    outcome: String,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: String,
}

pub(super) fn transcripts() -> Vec<Transcript> {
    RECORDED.iter().flat_map(|(agent, kind, _)| transcripts_of(agent, *kind)).collect()
}

fn transcripts_of(agent: &str, kind: AgentKind) -> Vec<Transcript> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/it/transcripts").join(agent);
    let index = fs::read_to_string(folder.join("INDEX.tsv")).unwrap();
    let read = |line: &str| {
        let [name, exit, outcome] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line:?}") };
        let code: i32 = exit.parse().unwrap();
        Transcript {
            kind,
            name: format!("{agent}/{name}"),
            exit: if code < 0 { Exit::Signalled { signal: -code } } else { Exit::Exited { code } },
            outcome: outcome.to_owned(),
            stdout: fs::read(folder.join(format!("{name}.jsonl"))).unwrap(),
            stderr: fs::read_to_string(folder.join(format!("{name}.stderr"))).unwrap_or_default(),
        }
    };
    index.lines().map(read).collect()
}

fn transcript(name: &str) -> Transcript {
    transcripts().into_iter().find(|transcript| transcript.name == name).unwrap()
}

/// Decodes the first `n_lines` of it, all of them by default.
fn play(transcript: &Transcript, n_lines: usize) -> (Box<dyn Decoder>, Vec<AgentEvent>) {
    let mut decoder = decoder(transcript.kind);
    let lines = transcript.stdout.split(|byte| *byte == b'\n').take(n_lines);
    let events = lines.flat_map(|line| decoder.line(line)).collect();
    (decoder, events)
}

fn ending(transcript: &Transcript) -> Ending {
    play(transcript, usize::MAX).0.end(&transcript.exit, &transcript.stderr, recorded_at())
}

/// Does our word for it mean what the recorder's word means?
fn agrees(outcome: &str, ending: &Ending) -> bool {
    let until = |at: Option<&str>| match (&ending.end, at) {
        (AgentEnd::RateLimited { until: Some(until), .. }, Some(at)) => at == until.seconds().to_string(),
        // The recorder saw no event with a time; the text has one.
        (AgentEnd::RateLimited { until: Some(until), .. }, None) => {
            until.to_string() == "2026-11-15T04:12:00.000Z"
        }
        // "You have exhausted your daily quota": no time at all.
        (AgentEnd::RateLimited { until: None, message, .. }, None) => message.contains("daily quota"),
        _ => false,
    };
    let (word, detail) = outcome.split_once(' ').unwrap_or((outcome, ""));
    match word {
        "success" => {
            ending.end == AgentEnd::Success
                && ending.denials == detail.strip_prefix("denied=").into_iter().collect::<Vec<_>>()
        }
        "transient" => matches!(ending.end, AgentEnd::Environment { .. }),
        "rate_limited" => until(detail.strip_prefix("until=").filter(|at| *at != "None")),
        "auth" | "billing" => matches!(ending.end, AgentEnd::AccountRefused { .. }),
        "permanent" => matches!(ending.end, AgentEnd::Permanent { .. }),
        "limit" => matches!(ending.end, AgentEnd::Failed { .. } | AgentEnd::Budget { .. }),
        "no_session" => ending.end == AgentEnd::NoSession,
        "session_exists" => ending.end == AgentEnd::SessionExists,
        "interrupted" => matches!(ending.end, AgentEnd::Interrupted { .. }),
        other => panic!("an outcome that nobody knows: {other}"),
    }
}

#[test]
fn every_recorded_run_is_judged_as_its_recorder_judged_it() {
    for transcript in transcripts() {
        let ending = ending(&transcript);
        match transcript.name.as_str() {
            // The recorder calls it permanent; we let the model try again and write less at once.
            "claude/a-maxtokens" | "codex/a-maxtokens"
            // "Unexpected server error", which nobody can tell from others.
            | "opencode/f-model-unknown"
            // It stopped at a refused tool: orderly, but the task is not done.
            | "opencode/b-bash-permission-ask" => {
                assert!(matches!(ending.end, AgentEnd::Failed { .. }), "{ending:?}");
                continue;
            }
            // Killed by the recorder while it kept retrying: whoever kills it knows why.
            "gemini/d-503" | "gemini/e-500" => {
                assert!(matches!(ending.end, AgentEnd::Interrupted { .. }), "{ending:?}");
                continue;
            }
            _ => {}
        }
        assert!(
            agrees(&transcript.outcome, &ending),
            "{}: {} but {ending:?}",
            transcript.name,
            transcript.outcome
        );
    }
}

#[test]
fn every_recorded_run_decodes_as_before() {
    for (agent, kind, _) in RECORDED {
        insta::assert_snapshot!(format!("recorded_{agent}"), table(&transcripts_of(agent, kind)));
    }
}

fn table(transcripts: &[Transcript]) -> String {
    let mut table = String::new();
    for transcript in transcripts {
        let (_, events) = play(transcript, usize::MAX);
        let ending = ending(transcript);
        writeln!(table, "{}: {}", transcript.name, serde_json::to_string(&ending.end).unwrap()).unwrap();
        let session = if ending.session.is_some() { "session" } else { "no session" };
        writeln!(
            table,
            "  {session}, {}, ${}, {} in, {} out, {} turns, denied {:?}",
            ending.model.as_deref().unwrap_or("no model"),
            ending.cost_usd.unwrap_or(-1.0),
            ending.tokens_in,
            ending.tokens_out,
            ending.turns.map_or("?".to_owned(), |turns| turns.to_string()),
            ending.denials,
        )
        .unwrap();
        for event in &events {
            let line = match event {
                AgentEvent::Started { .. } | AgentEvent::Usage { .. } | AgentEvent::Result { .. } => continue,
                AgentEvent::ToolStarted { name, summary, .. } => format!("tool {name}: {summary}"),
                AgentEvent::ToolEnded { failed, .. } => {
                    format!("tool {}", if *failed { "failed" } else { "ended" })
                }
                AgentEvent::Retrying { attempt, max, kind, .. } => format!("retry {attempt}/{max} {kind}"),
                AgentEvent::Text { text } => format!("text {text:.60}"),
                AgentEvent::Unknown { line } => format!("UNKNOWN {line:.60}"),
                other => serde_json::to_string(other).unwrap(),
            };
            writeln!(table, "  {line}").unwrap();
        }
    }
    table
}

#[test]
fn nothing_in_any_recording_is_unknown_to_us() {
    for transcript in transcripts() {
        let (_, events) = play(&transcript, usize::MAX);
        let unknown = events.iter().find(|event| matches!(event, AgentEvent::Unknown { .. }));
        assert_eq!(unknown, None, "{}", transcript.name);
    }
}

/// A run cut anywhere before its result is not finished, and least of all a success.
#[test]
fn a_run_cut_short_is_never_a_success() {
    for transcript in transcripts() {
        let lines: Vec<_> = transcript.stdout.split(|byte| *byte == b'\n').collect();
        let (_, _, ends) = RECORDED.iter().find(|(_, kind, _)| *kind == transcript.kind).unwrap();
        let is_result = |line: &[u8]| {
            let line = String::from_utf8_lossy(line);
            ends.iter().any(|end| line.contains(end))
        };
        let Some(first_result) = lines.iter().position(|line| is_result(line)) else { continue };
        for n_lines in 0..=first_result {
            let (mut decoder, _) = play(&transcript, n_lines);
            for exit in [Exit::Exited { code: 0 }, Exit::Signalled { signal: 9 }, Exit::Lost] {
                let ending = decoder.end(&exit, "", recorded_at());
                let interrupted = matches!(ending.end, AgentEnd::Interrupted { .. });
                assert!(interrupted, "{} after {n_lines} lines: {ending:?}", transcript.name);
            }
        }
    }
}

#[test]
fn a_tool_call_is_open_from_its_start_to_its_end() {
    let killed = transcript("claude/k-sigkill-pid-during-bash");
    let (decoder, events) = play(&killed, usize::MAX);
    assert_eq!(decoder.open_tools(), 1);
    assert!(
        events
            .iter()
            .any(|event| matches!(event, AgentEvent::ToolStarted { summary, .. } if summary == "sleep 300"))
    );

    let sub_agent = transcript("claude/f-subagent");
    let open: Vec<_> = (0..=10).map(|n_lines| play(&sub_agent, n_lines).0.open_tools()).collect();
    assert_eq!(open, [0, 0, 0, 1, 1, 1, 1, 1, 0, 0, 0]);
}

#[test]
fn what_a_sub_agent_says_and_suffers_is_not_the_main_agents() {
    let mut decoder = decoder(AgentKind::Claude);
    let mut line = |json: &str| decoder.line(json.as_bytes());
    let said = r#"{"type":"assistant","parent_tool_use_id":"t1","message":{"id":"m","content":[{"type":"text","text":"hi"}]}}"#;
    assert_eq!(line(said), []);
    let failed = r#"{"type":"assistant","parent_tool_use_id":"t1","error":"authentication_failed","message":{"content":[]}}"#;
    assert_eq!(line(failed), []);
    let tool = r#"{"type":"assistant","parent_tool_use_id":"t1","message":{"content":[{"type":"tool_use","id":"t2","name":"Bash","input":{"command":"ls"}}]}}"#;
    assert!(
        matches!(&line(tool)[..], [AgentEvent::ToolStarted { summary, sub: true, .. }] if summary == "ls")
    );
    line(
        r#"{"type":"result","subtype":"success","is_error":true,"api_error_status":529,"result":"overloaded"}"#,
    );
    let ending = decoder.end(&Exit::Exited { code: 1 }, "", recorded_at());
    assert!(matches!(ending.end, AgentEnd::Environment { .. }), "{ending:?}");
}

#[test]
fn a_timeout_is_work_unless_claude_had_finished_or_was_retrying() {
    let timed_out = Exit::TimedOut { limit: Limit::Total };
    let end = |name: &str, n_lines, exit: &Exit| {
        play(&transcript(&format!("claude/{name}")), n_lines).0.end(exit, "", recorded_at()).end
    };
    assert_eq!(end("g-hang-forever", 9, &timed_out), AgentEnd::Failed { message: "timeout".into() });
    assert_eq!(
        end("k-sigint-pid-during-bash", 9, &timed_out),
        AgentEnd::Failed { message: "timeout".into() }
    );
    assert_eq!(end("l-background-bash", 99, &timed_out), AgentEnd::Success);
    assert!(matches!(end("d-529-default", 4, &timed_out), AgentEnd::Environment { .. }));

    let stopped = Exit::Stopped { why: "a retry cannot help".into() };
    assert!(matches!(end("d-529-default", 4, &stopped), AgentEnd::Interrupted { .. }));
    assert!(matches!(end("f-401-apikey", 4, &stopped), AgentEnd::AccountRefused { .. }));
    assert!(matches!(end("g-hang-forever", 9, &stopped), AgentEnd::Interrupted { .. }));
}
