//! Answers in the format of Gemini's API.

use serde_json::{Value, json};

use super::asked::Asked;
use super::script::{Part, Refusal};
use crate::http::Reply;

pub(super) fn whole(parts: &[Part], asked: &Asked, serial: u64) -> Value {
    let parts: Vec<Value> = parts.iter().enumerate().map(|(at, part)| said(part, serial, at)).collect();
    frame(&parts, true, asked, serial)
}

/// The same as a stream of events.
pub(super) fn events(parts: &[Part], asked: &Asked, serial: u64) -> Vec<Value> {
    let mut events: Vec<Value> = parts
        .iter()
        .enumerate()
        .map(|(at, part)| frame(&[said(part, serial, at)], false, asked, serial))
        .collect();
    events.push(frame(&[json!({"text": ""})], true, asked, serial));
    events
}

pub(super) fn refusal(refusal: Refusal) -> Reply {
    let error =
        |code: u16, status: &str, message: &str| json!({"code": code, "status": status, "message": message});
    let google = |kind: &str| format!("type.googleapis.com/google.rpc.{kind}");
    let (status, mut error) = match refusal {
        Refusal::Traffic(_) => (429, error(429, "RESOURCE_EXHAUSTED", "Resource has been exhausted.")),
        Refusal::UsageLimit(_) => (
            429,
            error(429, "RESOURCE_EXHAUSTED", "You exceeded your current quota, please check your plan."),
        ),
        Refusal::Overloaded => (503, error(503, "UNAVAILABLE", "The model is overloaded.")),
        Refusal::Login => {
            (400, error(400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key."))
        }
    };
    error["details"] = match refusal {
        Refusal::Traffic(seconds) => {
            json!([{"@type": google("RetryInfo"), "retryDelay": format!("{seconds}s")}])
        }
        Refusal::UsageLimit(_) => json!([{
            "@type": google("QuotaFailure"),
            "violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel", "quotaValue": "100"}],
        }]),
        Refusal::Login => json!([{
            "@type": google("ErrorInfo"), "reason": "API_KEY_INVALID", "domain": "googleapis.com",
        }]),
        Refusal::Overloaded => json!([]),
    };
    Reply::json(status, &json!({ "error": error }))
}

fn said(part: &Part, serial: u64, at: usize) -> Value {
    match part {
        Part::Text(text) => json!({"text": text}),
        Part::Call { tool, input } => {
            json!({"functionCall": {"id": format!("call_{serial}_{at}"), "name": tool, "args": input}})
        }
    }
}

fn frame(parts: &[Value], is_last: bool, asked: &Asked, serial: u64) -> Value {
    let mut candidate = json!({"index": 0, "content": {"role": "model", "parts": parts}});
    if is_last {
        candidate["finishReason"] = "STOP".into();
    }
    json!({
        "candidates": [candidate], "modelVersion": asked.model, "responseId": format!("resp_{serial}"),
        "usageMetadata": {"promptTokenCount": 100, "candidatesTokenCount": 20, "totalTokenCount": 120},
    })
}
