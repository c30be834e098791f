//! Answers in the format of OpenAI's Responses API.

use serde_json::{Value, json};

use super::asked::Asked;
use super::script::{Part, Refusal};
use crate::http::Reply;

pub(super) fn whole(parts: &[Part], asked: &Asked, serial: u64) -> Value {
    let items: Vec<Value> = items(parts, asked, serial);
    json!({
        "id": format!("resp_{serial}"), "object": "response", "model": asked.model, "status": "completed",
        "output": items,
        "usage": {
            "input_tokens": 100, "input_tokens_details": {"cached_tokens": 50},
            "output_tokens": 20, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 120,
        },
    })
}

/// The same as a stream of events.
pub(super) fn events(parts: &[Part], asked: &Asked, serial: u64) -> Vec<Value> {
    let mut begun = whole(&[], asked, serial);
    begun["status"] = "in_progress".into();
    begun["usage"] = Value::Null;
    let mut events = vec![json!({"type": "response.created", "response": begun})];
    for (index, item) in items(parts, asked, serial).into_iter().enumerate() {
        let mut added = item.clone();
        added["status"] = "in_progress".into();
        if item["type"] == "message" {
            added["content"] = json!([]);
        }
        events.push(json!({"type": "response.output_item.added", "output_index": index, "item": added}));
        if item["type"] == "message" {
            let delta = &item["content"][0]["text"];
            events.push(json!({
                "type": "response.output_text.delta", "item_id": item["id"], "output_index": index,
                "content_index": 0, "delta": delta,
            }));
        }
        events.push(json!({"type": "response.output_item.done", "output_index": index, "item": item}));
    }
    events.push(json!({"type": "response.completed", "response": whole(parts, asked, serial)}));
    events
}

pub(super) fn refusal(refusal: Refusal, now: u64) -> Reply {
    let error =
        |message: &str, kind: &str, code: Value| json!({"message": message, "type": kind, "code": code});
    let (status, mut error) = match refusal {
        Refusal::Traffic(_) => (429, error("Rate limit reached.", "tokens", "rate_limit_exceeded".into())),
        Refusal::UsageLimit(_) => {
            (429, error("The usage limit has been reached", "usage_limit_reached", Value::Null))
        }
        Refusal::Overloaded => (503, error("Overloaded", "server_error", "server_is_overloaded".into())),
        Refusal::Login => {
            (401, error("Incorrect API key provided.", "invalid_request_error", "invalid_api_key".into()))
        }
    };
    if let Refusal::UsageLimit(resets_at) = refusal {
        error["plan_type"] = "pro".into();
        error["resets_at"] = resets_at.into();
        error["resets_in_seconds"] = resets_at.saturating_sub(now).into();
    }
    let reply = Reply::json(status, &json!({ "error": error }));
    match refusal {
        Refusal::Traffic(seconds) => reply.header("retry-after", seconds),
        _ => reply,
    }
}

fn items(parts: &[Part], asked: &Asked, serial: u64) -> Vec<Value> {
    let item = |(at, part): (usize, &Part)| match part {
        Part::Text(text) => json!({
            "type": "message", "id": format!("msg_{serial}_{at}"), "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": text, "annotations": []}],
        }),
        Part::Call { tool, input } if asked.takes_text(tool) => json!({
            "type": "custom_tool_call", "id": format!("ctc_{serial}_{at}"), "call_id": format!("call_{serial}_{at}"),
            "name": tool, "input": input, "status": "completed",
        }),
        Part::Call { tool, input } if tool.starts_with("mcp__") => {
            let (namespace, name) = tool.rsplit_once("__").expect("server and tool");
            json!({
                "type": "function_call", "id": format!("fc_{serial}_{at}"), "call_id": format!("call_{serial}_{at}"),
                "namespace": namespace, "name": name, "arguments": input.to_string(), "status": "completed",
            })
        }
        Part::Call { tool, input } => json!({
            "type": "function_call", "id": format!("fc_{serial}_{at}"), "call_id": format!("call_{serial}_{at}"),
            "name": tool, "arguments": input.to_string(), "status": "completed",
        }),
    };
    parts.iter().enumerate().map(item).collect()
}
