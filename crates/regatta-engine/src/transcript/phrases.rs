//! Retries, limits and results as sentences.

use regatta_core::time::human;

use crate::agents::AgentEvent;

/// A retry or a limit, if it is worth a line.
pub(super) fn sentence(event: &AgentEvent) -> Option<String> {
    match event {
        AgentEvent::Retrying { attempt, max, delay_ms, kind } => {
            let wait = match delay_ms {
                0 => String::new(),
                ms => format!(" in {}", human(std::time::Duration::from_millis(*ms))),
            };
            Some(format!("{}; it retries{wait} ({attempt} of {max})", trouble(kind)))
        }
        AgentEvent::Limit { status, .. } if status == "allowed" => None,
        AgentEvent::Limit { status, resets_at, kind } => {
            let quota = match kind.as_str() {
                "" => "the quota".to_owned(),
                kind => format!("the {} quota", kind.replace('_', " ")),
            };
            let state = match status.as_str() {
                "rejected" => "is used up".to_owned(),
                "allowed_warning" => "is nearly used up".to_owned(),
                other => format!("is {}", other.replace('_', " ")),
            };
            let until = resets_at.map_or_else(String::new, |at| format!("; it resets at {}", at.in_utc()));
            Some(format!("{quota} {state}{until}"))
        }
        _ => None,
    }
}

fn trouble(kind: &str) -> String {
    match kind {
        "overloaded" => "the API is overloaded".to_owned(),
        "rate_limit" | "429" => "the API received too many requests".to_owned(),
        "authentication_failed" => "the login was refused".to_owned(),
        "network" => "the API cannot be reached".to_owned(),
        "server_error" => "the API failed".to_owned(),
        other => format!("the request failed ({})", other.replace('_', " ")),
    }
}

/// How it ended, and what it used.
pub(super) fn result(event: &AgentEvent) -> String {
    let AgentEvent::Result { ok, turns, cost_usd, tokens_in, tokens_out, denials, .. } = event else {
        return String::new();
    };
    let mut facts = vec![if *ok { "finished".to_owned() } else { "ended badly".to_owned() }];
    facts.extend(turns.map(|n| if n == 1 { "1 turn".to_owned() } else { format!("{n} turns") }));
    facts.extend(cost_usd.map(|usd| format!("${usd:.4}")));
    if *tokens_in > 0 || *tokens_out > 0 {
        let tokens = if *tokens_in == 1 { "token" } else { "tokens" };
        facts.push(format!("{} {tokens} in, {} out", short(*tokens_in), short(*tokens_out)));
    }
    if !denials.is_empty() {
        let mut names: Vec<&str> = denials.iter().map(String::as_str).collect();
        names.dedup();
        facts.push(format!("refused: {}", names.join(", ")));
    }
    facts.join(" · ")
}

/// A number in short form.
fn short(n: u64) -> String {
    match n {
        0..10_000 => n.to_string(),
        10_000..1_000_000 => format!("{:.1}k", n as f64 / 1e3),
        _ => format!("{:.1}M", n as f64 / 1e6),
    }
}
