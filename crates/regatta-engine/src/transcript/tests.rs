use regatta_core::time::Timestamp;

use super::*;

/// Entries as text: indentation, glyph, text.
fn shown(entries: &[Entry]) -> Vec<String> {
    let line = |entry: &Entry| {
        let parts = [entry.glyph, &entry.name, &entry.text, &entry.note];
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        let gap = if entry.gap { "\n" } else { "" };
        format!("{gap}{}{}", "  ".repeat(entry.indent), parts.join(" "))
    };
    entries.iter().map(line).collect()
}

fn played(events: &[AgentEvent]) -> Vec<String> {
    let mut transcript = Transcript::new(false);
    let mut entries: Vec<Entry> = events.iter().flat_map(|event| transcript.event(event, None)).collect();
    entries.extend(transcript.finish());
    shown(&entries)
}

fn failed(id: &str, said: &str) -> AgentEvent {
    let took_ms = Some(2500);
    AgentEvent::ToolEnded { id: id.into(), failed: true, said: said.into(), took_ms, answer: None }
}

fn text(text: &str) -> AgentEvent {
    AgentEvent::Text { text: text.into() }
}

#[test]
fn a_call_is_told_with_its_end_where_that_is_worth_a_line() {
    let took_ms = Some(62_000);
    let long =
        AgentEvent::ToolEnded { id: "3".into(), failed: false, said: String::new(), took_ms, answer: None };
    let events = [
        text("I look."),
        AgentEvent::tool("1", "Read", "a.rs"),
        AgentEvent::ended("1", false),
        AgentEvent::tool("2", "Bash", "make"),
        failed("2", "no rule"),
        AgentEvent::tool("3", "Bash", "make all"),
        AgentEvent::tool("4", "Read", "b.rs"),
        long,
        AgentEvent::ended("4", true),
        text("Done."),
    ];
    let expected = [
        "I look.",
        "\n● Read a.rs",
        "● Bash make",
        "  ✕ failed: no rule 2.5s",
        "● Bash make all",
        "● Read b.rs",
        "  ✓ Bash 1m 02s",
        "  ✕ Read failed",
        "\nDone.",
    ];
    assert_eq!(played(&events), expected);
}

#[test]
fn the_same_again_is_counted() {
    let ok = |id: &str| [AgentEvent::tool(id, "Bash", "make"), AgentEvent::ended(id, false)];
    let bad = |id: &str| [AgentEvent::tool(id, "Bash", "make"), failed(id, "no rule")];
    let thrice = [ok("1"), ok("2"), ok("3")].concat();
    assert_eq!(played(&thrice), ["● Bash make", "  ↻ ×3, the same each time"]);
    let thrice = [bad("1"), bad("2"), bad("3")].concat();
    assert_eq!(played(&thrice), ["● Bash make", "  ✕ failed: no rule 2.5s", "  ↻ ×3, the same each time"]);
    // The third one ends differently.
    let other = [bad("1"), bad("2"), ok("3"), bad("4")].concat();
    let expected = [
        "● Bash make",
        "  ✕ failed: no rule 2.5s",
        "  ↻ ×2, the same each time",
        "● Bash make",
        "  ↻ ×2, the same each time",
        "  ✕ failed: no rule 2.5s",
    ];
    assert_eq!(played(&other), expected);
    // A call that is still open when the log ends is shown.
    let open = [&bad("1")[..], &[AgentEvent::tool("2", "Bash", "make")]].concat();
    assert_eq!(played(&open), ["● Bash make", "  ✕ failed: no rule 2.5s", "● Bash make"]);
    let unknown = AgentEvent::Unknown { line: "x".into() };
    assert_eq!(played(&[unknown.clone(), unknown]), ["? x", "  ↻ ×2, the same each time"]);
}

#[test]
fn a_changed_file_is_told_once_with_a_few_lines() {
    let file = |path: &str, diff: &str| AgentEvent::File {
        path: path.into(),
        kind: FileChange::Update,
        diff: diff.into(),
        more: 3,
        sub: false,
    };
    let long = ["-x"; 40].join("\n");
    let events = [
        AgentEvent::tool("1", "Edit", "a.rs"),
        file("a.rs", "-1\n+2"),
        AgentEvent::ended("1", false),
        AgentEvent::tool("2", "edit", "b.rs c.rs"),
        file("b.rs", ""),
        file("c.rs", &long),
    ];
    let mut transcript = Transcript::new(false);
    let entries: Vec<Entry> = events.iter().flat_map(|event| transcript.event(event, None)).collect();
    assert_eq!(shown(&entries)[..4], ["● Edit a.rs", "  -1\n+2", "● edit b.rs c.rs", "  ✎ b.rs changed"]);
    let last = entries.last().unwrap();
    assert_eq!((last.text.lines().count(), last.more), (MAX_DIFF, 27));
}

#[test]
fn what_a_sub_agent_does_stands_further_in() {
    let sub = AgentEvent::ToolStarted {
        id: "2".into(),
        name: "Grep".into(),
        summary: "fn".into(),
        sub: true,
        input: None,
    };
    let events = [AgentEvent::tool("1", "Agent", "look"), sub, failed("2", "none")];
    assert_eq!(played(&events), ["● Agent look", "  ● Grep fn", "    ✕ failed: none 2.5s"]);
}

#[test]
fn retries_limits_and_refusals_are_sentences() {
    let retry =
        |kind: &str, delay_ms| AgentEvent::Retrying { attempt: 2, max: 10, delay_ms, kind: kind.into() };
    let limit = |status: &str| AgentEvent::Limit {
        status: status.into(),
        resets_at: Some(Timestamp::from_millis(0)),
        kind: "five_hour".into(),
    };
    let events = [
        retry("overloaded", 4000),
        retry("odd_thing", 0),
        limit("allowed"),
        limit("allowed_warning"),
        limit("rejected"),
        AgentEvent::tool("1", "Bash", "rm"),
        AgentEvent::Denied { tool: "Bash".into() },
        failed("1", "requires approval"),
    ];
    let expected = [
        "◐ the API is overloaded; it retries in 4.0s (2 of 10)",
        "◐ the request failed (odd thing); it retries (2 of 10)",
        "◐ the five hour quota is nearly used up; it resets at 1970-01-01 00:00 UTC",
        "◐ the five hour quota is used up; it resets at 1970-01-01 00:00 UTC",
        "● Bash rm",
        "  ⚠ Bash was refused by the agent's own rules",
    ];
    assert_eq!(played(&events), expected);
}

#[test]
fn an_answer_that_was_said_is_not_said_again() {
    let result = |text: &str| AgentEvent::Result {
        ok: true,
        text: text.into(),
        turns: Some(1),
        cost_usd: Some(0.5),
        tokens_in: 12_345,
        tokens_out: 3,
        cached: 0,
        denials: vec!["Bash".into(), "Bash".into()],
    };
    let facts = "\n✓ finished · 1 turn · $0.5000 · 12.3k tokens in, 3 out · refused: Bash";
    assert_eq!(played(&[text("all done"), result("all done\n")]), ["all done", facts]);
    assert_eq!(played(&[text("well"), result("all done")]), ["well", "\nall done", facts]);
}

#[test]
fn a_plain_programs_lines_are_shown_as_they_are() {
    let mut transcript = Transcript::new(true);
    let lines = ["a", "a", "", "a"].map(text);
    let mut entries: Vec<Entry> = lines.iter().flat_map(|event| transcript.event(event, None)).collect();
    entries.extend(transcript.stderr("oops"));
    assert_eq!(shown(&entries), ["a", "a", "", "a", "┆ oops"]);
}

#[test]
fn times_are_measured_where_the_agent_tells_none() {
    let mut transcript = Transcript::new(false);
    let at = |seconds| Some(Duration::from_secs(seconds));
    transcript.event(&AgentEvent::tool("1", "Bash", "make"), at(1));
    assert_eq!(shown(&transcript.event(&AgentEvent::ended("1", false), at(4))), ["  ✓ 3.0s"]);
    transcript.event(&AgentEvent::tool("2", "Bash", "make it"), None);
    assert_eq!(shown(&transcript.event(&AgentEvent::ended("2", false), at(9))), [""; 0]);
}

#[test]
fn a_transcript_stays_small_however_long_the_log_is() {
    let mut transcript = Transcript::new(false);
    for n in 0..20_000 {
        transcript.event(&AgentEvent::tool(n.to_string(), "Bash", n.to_string()), None);
    }
    assert!(format!("{transcript:?}").len() < 100_000);
}
