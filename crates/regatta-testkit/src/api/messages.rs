//! Answers in the format of Anthropic's Messages API.

use serde_json::{Value, json};

use super::asked::Asked;
use super::script::{Part, Refusal};
use crate::http::Reply;

pub(super) fn whole(parts: &[Part], asked: &Asked, serial: u64) -> Value {
    let mut message = opening(asked, serial);
    message["content"] = parts.iter().enumerate().map(|(at, part)| block(part, at, serial)).collect();
    message["stop_reason"] = stop_reason(parts).into();
    message["usage"] = usage(20);
    message
}

/// The same as a stream of events.
pub(super) fn events(parts: &[Part], asked: &Asked, serial: u64) -> Vec<Value> {
    let mut events = vec![json!({"type": "message_start", "message": opening(asked, serial)})];
    for (index, part) in parts.iter().enumerate() {
        let mut begun = block(part, index, serial);
        let delta = match part {
            Part::Text(text) => {
                begun["text"] = "".into();
                json!({"type": "text_delta", "text": text})
            }
            Part::Call { input, .. } => {
                begun["input"] = json!({});
                json!({"type": "input_json_delta", "partial_json": input.to_string()})
            }
        };
        events.push(json!({"type": "content_block_start", "index": index, "content_block": begun}));
        events.push(json!({"type": "content_block_delta", "index": index, "delta": delta}));
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    let delta = json!({"stop_reason": stop_reason(parts), "stop_sequence": null});
    events.push(json!({"type": "message_delta", "delta": delta, "usage": usage(20)}));
    events.push(json!({"type": "message_stop"}));
    events
}

pub(super) fn refusal(refusal: Refusal, now: u64) -> Reply {
    let (status, kind, message) = match refusal {
        Refusal::Traffic(_) => (429, "rate_limit_error", "This request would exceed your rate limit."),
        Refusal::UsageLimit(_) => (429, "rate_limit_error", "You have reached your usage limit."),
        Refusal::Overloaded => (529, "overloaded_error", "Overloaded"),
        Refusal::Login => (401, "authentication_error", "invalid x-api-key"),
    };
    let body = json!({"type": "error", "error": {"type": kind, "message": message}});
    let reply = Reply::json(status, &body);
    match refusal {
        Refusal::Traffic(seconds) => reply.header("retry-after", seconds),
        Refusal::UsageLimit(resets_at) => {
            allowance(reply, "rejected", resets_at).header("retry-after", resets_at.saturating_sub(now))
        }
        Refusal::Overloaded | Refusal::Login => reply,
    }
}

/// The headers that report a subscription's five-hour allowance.
fn allowance(reply: Reply, status: &str, resets_at: u64) -> Reply {
    reply
        .header("anthropic-ratelimit-unified-status", status)
        .header("anthropic-ratelimit-unified-reset", resets_at)
        .header("anthropic-ratelimit-unified-representative-claim", "five_hour")
        .header("anthropic-ratelimit-unified-5h-status", status)
        .header("anthropic-ratelimit-unified-5h-reset", resets_at)
        .header("anthropic-ratelimit-unified-overage-status", "rejected")
        .header("anthropic-ratelimit-unified-overage-disabled-reason", "overage_not_provisioned")
}

fn opening(asked: &Asked, serial: u64) -> Value {
    json!({
        "id": format!("msg_{serial}"), "type": "message", "role": "assistant", "model": asked.model,
        "content": [], "stop_reason": null, "stop_sequence": null, "usage": usage(1),
    })
}

fn block(part: &Part, at: usize, serial: u64) -> Value {
    match part {
        Part::Text(text) => json!({"type": "text", "text": text}),
        Part::Call { tool, input } => {
            json!({"type": "tool_use", "id": format!("toolu_{serial}_{at}"), "name": tool, "input": input})
        }
    }
}

fn stop_reason(parts: &[Part]) -> &'static str {
    if parts.iter().any(|part| matches!(part, Part::Call { .. })) { "tool_use" } else { "end_turn" }
}

fn usage(output: u64) -> Value {
    json!({
        "input_tokens": 100, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": output,
    })
}
