//! Masks the secrets that this process knows.

use std::path::PathBuf;

use regatta_core::config::Config;
use regatta_engine::context::config_secrets;
use regatta_engine::redact::Redactor;
use serde_json::Value;

use crate::worker::dirs_of_speaker;

/// Masks the secrets of this environment and of the configured agents.
pub fn redactor(config: &Config) -> Redactor {
    let inherited = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    Redactor::new(inherited.chain(config_secrets(config)).collect::<Vec<_>>())
}

/// The same for text written in this directory: its `.env` files count too.
pub fn redactor_here(config: &Config) -> Redactor {
    let inherited = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let here = dirs_of_speaker();
    Redactor::for_worker(
        inherited.chain(config_secrets(config)).collect::<Vec<_>>(),
        here.iter().map(PathBuf::as_path),
    )
}

/// The value with secrets masked: by a variable's name, by the form of a token, and passwords and paths in addresses.
pub fn masked(name: &str, in_env: bool, value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let inside = |key: &str| in_env || matches!(key, "env" | "headers");
            map.into_iter().map(|(key, value)| (key.clone(), masked(&key, inside(&key), value))).collect()
        }
        Value::Array(list) => list.into_iter().map(|value| masked(name, in_env, value)).collect(),
        Value::String(text) if in_env && is_secret(name) => Value::String(mask(&text)),
        // A webhook's path is its password.
        Value::String(text) if name == "webhook" => match text.split_once("://") {
            Some((scheme, rest)) => {
                let host = rest.split(['/', '?']).next().unwrap_or_default();
                Value::String(format!("{scheme}://{host}/[redacted]"))
            }
            None => Value::String(mask(&text)),
        },
        Value::String(text) => {
            Value::String(Redactor::new([(name, text.as_str())]).redact(&text).into_owned())
        }
        value => value,
    }
}

fn mask(text: &str) -> String {
    if text.is_empty() { String::new() } else { "[redacted]".to_owned() }
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let words = ["KEY", "TOKEN", "SECRET", "PASS", "PWD", "CRED", "COOKIE", "AUTH", "DSN"];
    words.iter().any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn no_secret_is_shown_and_the_rest_is() {
        let value = json!({
            "env": { "API_KEY": "abc", "DB_URL": "postgres://u:sesame99@h/db", "CLAUDE_CONFIG_DIR": "~/.c" },
            "args": ["--x", format!("sk-ant-{}", "AAAABBBB".repeat(4))],
            "model": "sonnet",
        });
        let shown = masked("claude", false, value).to_string();
        for secret in ["abc", "sesame99", "AAAABBBB"] {
            assert!(!shown.contains(secret), "{shown}");
        }
        assert!(shown.contains("~/.c") && shown.contains("sonnet") && shown.contains("--x"), "{shown}");
        let hook = masked("webhook", false, json!("https://hooks.example.com/T0/B0/xyz"));
        assert_eq!(hook, json!("https://hooks.example.com/[redacted]"));
    }
}
