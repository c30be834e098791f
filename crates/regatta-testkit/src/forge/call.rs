//! One request to the API, and the log of all of them.

use std::time::Instant;

use serde_json::{Value, json};

use super::site::Site;
use crate::http::Reply;

/// A request as the routes see it.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) method: String,
    /// Without host, prefix and query.
    pub(super) path: String,
    pub(super) query: Vec<(String, String)>,
    pub(super) body: Value,
    /// The login that the token stands for.
    pub(super) user: String,
    pub(super) site: Site,
}

/// A request that was answered, for the test to read.
#[derive(Clone, Debug)]
pub struct Called {
    /// `GET`, `POST`, …
    pub method: String,
    /// The path without the query, or `/graphql`.
    pub path: String,
    /// The query.
    pub query: String,
    /// The name of the GraphQL operation.
    pub operation: Option<String>,
    /// The login.
    pub user: String,
    /// The answer's status; none if there was no answer.
    pub status: Option<u16>,
    /// When it came.
    pub at: Instant,
    /// It changes something: every method but `GET`, and GraphQL's mutations.
    pub is_write: bool,
    /// Points that GraphQL charged.
    pub points: u64,
}

impl Called {
    /// `GET /user`, or `POST /graphql Watch`.
    pub fn line(&self) -> String {
        let operation = self.operation.as_ref().map(|name| format!(" {name}")).unwrap_or_default();
        format!("{} {}{operation}", self.method, self.path)
    }
}

impl Call {
    /// The decoded parts of the path.
    pub(super) fn parts(&self) -> Vec<String> {
        self.path.split('/').filter(|part| !part.is_empty()).map(decoded).collect()
    }

    pub(super) fn asked(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.body[name].as_str()
    }

    /// Names in a list of the body.
    pub(super) fn names(&self, field: &str) -> Vec<String> {
        let list = self.body[field].as_array().cloned().unwrap_or_default();
        list.iter()
            .filter_map(|name| name.as_str().or_else(|| name["name"].as_str()).map(str::to_owned))
            .collect()
    }

    /// One page of a list, with the address of the next.
    pub(super) fn page(&self, all: Vec<Value>) -> Reply {
        let number = |name: &str| self.asked(name).and_then(|value| value.parse::<usize>().ok());
        let size = number("per_page").unwrap_or(30).clamp(1, 100);
        let page = number("page").unwrap_or(1).max(1);
        let last = all.len().div_ceil(size).max(1);
        let shown: Vec<Value> = all.into_iter().skip((page - 1) * size).take(size).collect();
        let reply = Reply::json(200, &Value::from(shown));
        if page >= last {
            return reply;
        }
        let address = |page: usize| {
            let kept = self.query.iter().filter(|(name, _)| name != "page");
            let query: String =
                kept.map(|(name, value)| format!("{}={}&", encoded(name), encoded(value))).collect();
            format!("{}{}?{query}page={page}", self.site.api, self.path)
        };
        let next = address(page + 1);
        reply.header("link", format!("<{next}>; rel=\"next\", <{}>; rel=\"last\"", address(last)))
    }
}

/// A refusal in GitHub's words.
pub(super) fn refusal(status: u16, message: &str) -> Reply {
    let body = json!({
        "message": message,
        "documentation_url": "https://docs.github.com/rest",
        "status": status.to_string(),
    });
    Reply::json(status, &body)
}

/// 422, with the reason where GitHub has it.
pub(super) fn invalid(resource: &str, message: &str) -> Reply {
    let body = json!({
        "message": "Validation Failed",
        "errors": [{"resource": resource, "code": "custom", "message": message}],
        "documentation_url": "https://docs.github.com/rest",
        "status": "422",
    });
    Reply::json(422, &body)
}

/// 404.
pub(super) fn not_found() -> Reply {
    refusal(404, "Not Found")
}

/// Undoes percent-encoding.
pub(super) fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let hex = text.get(at + 1..at + 3).and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match (bytes[at], hex) {
            (b'%', Some(byte)) => {
                out.push(byte);
                at += 2;
            }
            (byte, _) => out.push(byte),
        }
        at += 1;
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Percent-encodes everything that is not plain.
pub(super) fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// The names and values of a query.
pub(super) fn query(text: &str) -> Vec<(String, String)> {
    let pairs = text.split('&').filter(|pair| !pair.is_empty());
    let spaces = |part: &str| decoded(&part.replace('+', " "));
    pairs
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(name, value)| (spaces(name), spaces(value)))
        .collect()
}
