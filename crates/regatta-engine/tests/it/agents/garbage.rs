//! Lines that no agent should print, and some that do.

use regatta_core::config::AgentKind;
use regatta_core::exit::Exit;
use regatta_engine::agents::{AgentEnd, AgentEvent, decoder};

use super::{EVERY_KIND, recorded_at};

const RESULT: &[u8] = br#"{"type":"result","subtype":"success","is_error":false,"result":"done"}"#;

#[test]
fn torn_binary_and_unheard_of_lines_are_never_fatal() {
    let deep = "[".repeat(100_000);
    let lines: [&[u8]; 16] = [
        b"",
        b"   \r",
        b"\xff\xfe\x00\x01",
        b"{\"type\":\"assistant\",\"message\":{\"content\":[{\"ty",
        b"{\"type\":\"assistant\",\"message\":\"\xff\"}",
        b"null",
        b"[]",
        b"[1,\"x\",null]",
        b"{}",
        b"{\"type\":17}",
        b"{\"type\":\"brand_new\",\"x\":1}",
        b"{\"type\":\"system\",\"subtype\":\"brand_new\"}",
        b"{\"type\":\"assistant\",\"message\":{\"content\":{\"type\":\"text\"}},\"error\":{\"a\":1}}",
        b"{\"type\":\"user\",\"message\":{\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":7}]}}",
        b"{\"type\":\"rate_limit_event\",\"rate_limit_info\":{\"status\":\"rejected\",\"resetsAt\":-99999999999999}}",
        deep.as_bytes(),
    ];
    for kind in EVERY_KIND {
        let mut decoder = decoder(kind);
        for line in lines {
            decoder.line(line);
        }
        assert_eq!(decoder.open_tools(), 0);
        let ending = decoder.end(&Exit::Signalled { signal: 9 }, "\u{fffd}", recorded_at());
        assert_ne!(ending.end, AgentEnd::Success);
    }
}

#[test]
fn a_result_counts_even_between_garbage() {
    let mut decoder = decoder(AgentKind::Claude);
    decoder.line(b"\xff\xff");
    decoder.line(RESULT);
    decoder.line(br#"{"type":"system","subtype":"task_notification","status":"killed"}"#);
    decoder.line(br#"{"type":"assistant","mess"#);
    let ending = decoder.end(&Exit::Exited { code: 0 }, "", recorded_at());
    assert_eq!((ending.end, ending.result_text.as_deref()), (AgentEnd::Success, Some("done")));
}

#[test]
fn bytes_that_are_no_text_cost_themselves_and_not_the_event_they_stand_in() {
    let ends: [(AgentKind, &[&[u8]]); 4] = [
        (AgentKind::Claude, &[b"{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"result\":\"d\xff\xfene\"}"]),
        (
            AgentKind::Codex,
            &[
                b"{\"type\":\"item.completed\",\"item\":{\"id\":\"i\",\"type\":\"agent_message\",\"text\":\"d\xff\xfene\"}}",
                b"{\"type\":\"turn.completed\",\"note\":\"\xc3\"}",
            ],
        ),
        (
            AgentKind::Gemini,
            &[
                b"{\"type\":\"message\",\"role\":\"assistant\",\"content\":\"d\xff\xfene\",\"delta\":true}",
                b"{\"type\":\"result\",\"status\":\"success\",\"note\":\"\xe2\x82\"}",
            ],
        ),
        (
            AgentKind::Opencode,
            &[
                b"{\"type\":\"text\",\"part\":{\"text\":\"d\xff\xfene\"}}",
                b"{\"type\":\"step_finish\",\"part\":{\"reason\":\"stop\",\"note\":\"\x80\"}}",
            ],
        ),
    ];
    for (kind, lines) in ends {
        let mut decoder = decoder(kind);
        let told: Vec<AgentEvent> = lines.iter().flat_map(|line| decoder.line(line)).collect();
        assert!(!told.iter().any(|event| matches!(event, AgentEvent::Unknown { .. })), "{told:?}");
        let ending = decoder.end(&Exit::Exited { code: 0 }, "", recorded_at());
        let said = ending.result_text.as_deref();
        assert_eq!((&ending.end, said), (&AgentEnd::Success, Some("d\u{fffd}\u{fffd}ne")), "{kind:?}");
    }
}

#[test]
fn a_result_that_does_not_say_it_went_well_did_not() {
    for line in [
        r#"{"type":"result"}"#,
        r#"{"type":"result","subtype":"success"}"#,
        r#"{"type":"result","subtype":"success","is_error":"false"}"#,
        r#"{"type":"result","subtype":"error_brand_new","is_error":false}"#,
    ] {
        let mut decoder = decoder(AgentKind::Claude);
        decoder.line(line.as_bytes());
        let ending = decoder.end(&Exit::Exited { code: 0 }, "", recorded_at());
        assert!(matches!(ending.end, AgentEnd::Failed { .. }), "{line}: {ending:?}");
    }
}

#[test]
fn a_turn_begun_after_a_result_must_have_a_result_of_its_own() {
    let mut decoder = decoder(AgentKind::Claude);
    decoder.line(RESULT);
    decoder.line(br#"{"type":"system","subtype":"init","session_id":"s","model":"m"}"#);
    let ending = decoder.end(&Exit::Exited { code: 0 }, "", recorded_at());
    assert!(matches!(ending.end, AgentEnd::Interrupted { .. }), "{ending:?}");
}

#[test]
fn a_line_of_fifty_megabytes_is_passed_over_and_not_kept() {
    let huge = format!(r#"{{"type":"user","message":"{}"}}"#, "x".repeat(50 << 20));
    for kind in EVERY_KIND {
        let mut decoder = decoder(kind);
        let events = decoder.line(huge.as_bytes());
        assert!(serde_json::to_string(&events).unwrap().len() < 100 * 1024, "{kind:?}");
        let ending = decoder.end(&Exit::Exited { code: 0 }, "", recorded_at());
        assert!(serde_json::to_string(&ending).unwrap().len() < 100 * 1024, "{kind:?}");
    }
}

#[test]
fn a_big_line_below_the_ceiling_is_understood() {
    let big = "y".repeat(8 << 20);
    let mut decoder = decoder(AgentKind::Claude);
    let line = format!(
        r#"{{"type":"user","message":{{"content":[{{"type":"tool_result","tool_use_id":"t","content":"{big}"}}]}}}}"#
    );
    let events = decoder.line(line.as_bytes());
    assert!(
        matches!(&events[..], [AgentEvent::ToolEnded { id, failed: false, .. }] if id == "t"),
        "{events:?}"
    );
}

#[test]
fn an_agent_that_never_closes_its_tools_costs_no_more_memory_than_others() {
    let mut decoder = decoder(AgentKind::Claude);
    for n in 0..5000 {
        let line = format!(
            r#"{{"type":"assistant","message":{{"id":"m{n}","content":[{{"type":"tool_use","id":"t{n}","name":"Bash","input":{{}}}}]}}}}"#
        );
        decoder.line(line.as_bytes());
    }
    assert!(decoder.open_tools() <= 256);
}

#[test]
fn a_summary_names_the_file_as_seen_from_the_lane() {
    let mut decoder = decoder(AgentKind::Claude);
    decoder.line(br#"{"type":"system","subtype":"init","cwd":"/lanes/a"}"#);
    let mut summary = |input: &str| {
        let line = format!(
            r#"{{"type":"assistant","message":{{"content":[{{"type":"tool_use","id":"t","name":"T","input":{input}}}]}}}}"#
        );
        match decoder.line(line.as_bytes()).remove(0) {
            AgentEvent::ToolStarted { summary, .. } => summary,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(summary(r#"{"content":"x","file_path":"/lanes/a/src/lib.rs"}"#), "src/lib.rs");
    assert_eq!(summary(r#"{"file_path":"/lanes/ab/x"}"#), "/lanes/ab/x");
    assert_eq!(summary(r#"{"command":"cargo test\n  --all"}"#), "cargo test --all");
    assert_eq!(summary(r#"{"pattern":"fn main","path":"/lanes/a"}"#), "fn main");
    assert_eq!(summary(r#"{"path":"/lanes/a"}"#), "/lanes/a");
    assert_eq!(summary(r#"{"todos":[]}"#), "");
}
