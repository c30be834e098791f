//! The settings of a file that run something, access something or loosen a restriction: their author decides what
//! happens on this machine.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Config;

/// Dotted paths of such settings, besides the agents.
const EXECUTING: [&str; 22] = [
    "store",
    "hub",
    "lanes_root",
    "default_agent",
    "defaults.checks",
    "defaults.env",
    "defaults.permissions",
    "defaults.sandbox",
    "defaults.mcp",
    "lane.setup",
    "lane.include",
    "lane.link",
    "land.test_command",
    "land.push",
    "mcp",
    "sandbox",
    "limits.budget_usd",
    "budget",
    "profiles",
    "repos",
    "roles",
    "notify",
];
/// Keys of an agent that run nothing: they choose its model.
const HARMLESS: [&str; 3] = ["model", "labels", "escalation"];

impl Config {
    /// Every such setting that differs from its default, with its value.
    pub fn executing(&self) -> BTreeMap<String, Value> {
        let usual = Self::default();
        let mut found = BTreeMap::new();
        for key in EXECUTING {
            let value = self.get(key);
            if value != usual.get(key) {
                found.insert(key.to_owned(), value.unwrap_or_default());
            }
        }
        for (name, agent) in &self.agents {
            let value = |agent| {
                let mut value = serde_json::to_value(agent).unwrap_or_default();
                if let Value::Object(map) = &mut value {
                    map.retain(|key, _| !HARMLESS.contains(&key.as_str()));
                }
                value
            };
            let now = value(agent);
            if usual.agents.get(name).map(value).as_ref() != Some(&now) {
                found.insert(format!("agents.{name}"), without_empty(now));
            }
        }
        found
    }
}

/// Leaves out what is not set, so that a user reads only what is.
fn without_empty(value: Value) -> Value {
    let Value::Object(map) = value else { return value };
    let is_set = |value: &Value| match value {
        Value::Null => false,
        Value::Array(list) => !list.is_empty(),
        Value::Object(map) => !map.is_empty(),
        _ => true,
    };
    Value::Object(map.into_iter().filter(|(_, value)| is_set(value)).collect())
}

#[cfg(test)]
mod tests {
    use super::super::parse;

    #[test]
    fn only_what_runs_or_loosens_something_counts() {
        let check = |text: &str, keys: &[&str]| {
            let (config, diagnostics) = parse("regatta.yaml", text);
            assert!(diagnostics.iter().all(|one| !one.to_string().contains("error")), "{diagnostics:?}");
            assert_eq!(config.executing().into_keys().collect::<Vec<_>>(), keys, "{text}");
        };
        check("max_workers: 9\nlane: { keep: always }\nagents: { claude: { model: opus } }\n", &[]);
        check("agents: { claude: { exe: ./evil.sh } }\n", &["agents.claude"]);
        check("agents: { mine: { kind: command, argv: [sh] } }\n", &["agents.mine"]);
        check("lane: { setup: make, include: [.env] }\n", &["lane.include", "lane.setup"]);
        check("land: { test_command: make test, push: true }\n", &["land.push", "land.test_command"]);
        check("defaults: { checks: [make], timeout: 5m }\n", &["defaults.checks"]);
        check("default_agent: sh\n", &["default_agent"]);
        check("sandbox: { mode: off }\n", &["sandbox"]);
        check("sandbox: { write: [../x] }\n", &["sandbox"]);
    }
}
