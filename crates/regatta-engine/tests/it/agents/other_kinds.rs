//! How plain commands and the simulated agent end.

use regatta_core::config::AgentKind;
use regatta_core::exit::{Exit, Limit};
use regatta_core::failure::RateLimit;
use regatta_core::time::Timestamp;
use regatta_engine::agents::{AgentEnd, AgentEvent, Ending, decoder};

use super::{EVERY_KIND, recorded_at};

fn end(kind: AgentKind, lines: &[&str], exit: &Exit) -> Ending {
    let mut decoder = decoder(kind);
    for line in lines {
        decoder.line(line.as_bytes());
    }
    decoder.end(exit, "warning\nsh: cannot do it\n\n", recorded_at())
}

#[test]
fn a_command_ends_as_its_exit_says() {
    let end = |exit: Exit| end(AgentKind::Command, &["working", "{\"verdict\":\"pass\"}", ""], &exit).end;
    assert_eq!(end(Exit::Exited { code: 0 }), AgentEnd::Success);
    assert_eq!(
        end(Exit::Exited { code: 3 }),
        AgentEnd::Failed { message: "exit 3: sh: cannot do it".into() }
    );
    assert!(matches!(end(Exit::Exited { code: 127 }), AgentEnd::Permanent { .. }));
    assert!(matches!(end(Exit::Signalled { signal: 11 }), AgentEnd::Failed { .. }));
    assert_eq!(
        end(Exit::TimedOut { limit: Limit::Idle }),
        AgentEnd::Failed { message: "idle timeout".into() }
    );
    assert!(matches!(end(Exit::Stopped { why: "operator".into() }), AgentEnd::Interrupted { .. }));
    assert!(matches!(end(Exit::Lost), AgentEnd::Interrupted { .. }));
}

#[test]
fn a_program_that_is_not_there_is_permanent_and_a_shortage_is_not() {
    for kind in EVERY_KIND {
        let missing = Exit::never_started("No such file or directory (os error 2)");
        let AgentEnd::Permanent { hint, .. } = end(kind, &[], &missing).end else { panic!("{kind:?}") };
        assert!(!hint.is_empty());
        let busy = Exit::never_started("Resource temporarily unavailable (os error 11)");
        assert!(matches!(end(kind, &[], &busy).end, AgentEnd::Environment { .. }));
    }
}

#[test]
fn a_commands_words_are_text_and_its_last_ones_are_kept() {
    let mut decoder = decoder(AgentKind::Command);
    assert_eq!(decoder.line(b"-- \xff\r"), [AgentEvent::Text { text: "-- \u{fffd}".into() }]);
    for n in 0..100_000 {
        decoder.line(format!("line {n}").as_bytes());
    }
    decoder.line(b"{\"verdict\":\"pass\"}");
    let text = decoder.end(&Exit::Exited { code: 0 }, "", recorded_at()).result_text.unwrap();
    assert!(text.ends_with("line 99999\n{\"verdict\":\"pass\"}") && text.len() <= 64 * 1024);
}

fn sim(events: &[AgentEvent], exit: &Exit) -> Ending {
    let lines: Vec<_> = events.iter().map(|event| serde_json::to_string(event).unwrap()).collect();
    end(AgentKind::Sim, &lines.iter().map(String::as_str).collect::<Vec<_>>(), exit)
}

fn result(ok: bool) -> AgentEvent {
    let text = "words".to_owned();
    AgentEvent::Result {
        ok,
        text,
        turns: Some(2),
        cost_usd: Some(0.5),
        tokens_in: 7,
        tokens_out: 8,
        cached: 0,
        denials: vec![],
    }
}

#[test]
fn the_simulated_agent_ends_as_its_result_says() {
    let failed = AgentEnd::Failed { message: "words".into() };
    let ending = sim(&[result(true)], &Exit::Exited { code: 0 });
    assert_eq!((ending.end, ending.cost_usd, ending.tokens_out), (AgentEnd::Success, Some(0.5), 8));
    assert_eq!(sim(&[result(false)], &Exit::Exited { code: 1 }).end, failed);
    assert!(matches!(sim(&[], &Exit::Signalled { signal: 6 }).end, AgentEnd::Interrupted { .. }));

    let error = |kind: &str| AgentEvent::Error { kind: kind.into(), message: "words".into() };
    let exit = Exit::Exited { code: 64 };
    assert!(matches!(sim(&[error("script"), result(false)], &exit).end, AgentEnd::Permanent { .. }));
    let resets_at = Some(Timestamp::from_millis(5000));
    let limit = AgentEvent::Limit { status: "rejected".into(), resets_at, kind: "sim".into() };
    let limited =
        AgentEnd::RateLimited { until: resets_at, limit: RateLimit::Quota, message: "words".into() };
    assert_eq!(sim(&[limit, error("rate_limit"), result(false)], &Exit::Exited { code: 1 }).end, limited);
}
