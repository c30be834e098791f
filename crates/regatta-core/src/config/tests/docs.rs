//! Template, schema and reference come from the table and agree with the parser.

use super::*;
use crate::config::config_keys::{AGENT_KINDS, CONFIG_KEYS, STRATEGIES};
use crate::config::keys::{Key, Kind};
use crate::config::task_keys::{ADAPTERS, KeyPlace, TASK_KEYS, in_place};
use crate::train::Strategy;
use crate::verdict::VerdictAdapter;

#[test]
fn the_template_reads_back_as_the_defaults() {
    let config = config(&template());
    assert_eq!(Config { origins: Default::default(), ..config }, Config::default());
}

#[test]
fn every_example_of_the_template_can_be_used() {
    let text: String = template()
        .lines()
        .map(|line| {
            line.strip_prefix("# ")
                .filter(|line| line.trim_start().split(' ').next().is_some_and(|word| word.ends_with(':')))
                .unwrap_or(line)
        })
        .map(|line| format!("{line}\n"))
        .collect();
    assert!(text.contains("\nland:\n  auto: true"), "{text}");
    config(&text);
}

#[test]
fn every_row_has_a_place_in_the_configuration() {
    fn leaves(keys: Vec<&'static Key>, path: &str, found: &mut Vec<String>) {
        for key in keys {
            let path = if path.is_empty() { key.name.to_owned() } else { format!("{path}.{}", key.name) };
            match key.children() {
                Some(children) => leaves(children, &path, found),
                None => found.push(path),
            }
        }
    }
    let mut found = Vec::new();
    leaves(CONFIG_KEYS.iter().collect(), "", &mut found);
    assert!(found.len() > 25);
    for path in found {
        let path = path.replace("max_retries", "max_attempts");
        assert!(Config::default().get(&path).is_some(), "{path} has a row and no place");
    }
}

#[test]
fn the_names_of_the_table_are_those_of_the_types() {
    assert_eq!(VerdictAdapter::NAMES.map(|(name, _)| name), ADAPTERS);
    let strategies: Vec<&str> = Strategy::NAMES.iter().map(|(name, _)| *name).chain(["pr"]).collect();
    assert_eq!(strategies, STRATEGIES);
    assert_eq!(AgentKind::ALL.map(AgentKind::as_str), AGENT_KINDS);
    for key in TASK_KEYS {
        assert!(!key.doc.is_empty() && key.doc.ends_with('.'), "{}", key.name);
    }
    assert!(in_place(KeyPlace::TaskFile).iter().all(|key| key.name != "prompt"));
}

#[test]
fn the_defaults_of_the_table_are_those_of_the_code() {
    for (path, key) in CONFIG_KEYS.iter().flat_map(|key| match key.children() {
        Some(children) => {
            children.into_iter().map(|child| (format!("{}.{}", key.name, child.name), child)).collect()
        }
        None => vec![(key.name.to_owned(), key)],
    }) {
        let is_value = !key.default.is_empty() && !key.default.contains([' ', '`']) && key.default != "none";
        if !is_value {
            continue;
        }
        let value = Config::default().get(&path).unwrap();
        let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let expected = match key.kind {
            Kind::Duration => format_duration(parse_duration(key.default).unwrap()),
            _ => key.default.to_owned(),
        };
        assert_eq!(shown, expected, "{path}");
    }
}

#[test]
fn the_schema_names_every_key_and_refuses_others() {
    let schema = schema();
    assert_eq!(schema["additionalProperties"], false);
    for key in CONFIG_KEYS {
        let property = &schema["properties"][key.name];
        assert!(property["description"].is_string(), "{}", key.name);
        for child in key.children().unwrap_or_default() {
            assert!(property["properties"][child.name].is_object(), "{}.{}", key.name, child.name);
        }
    }
    assert_eq!(schema["properties"]["land"]["properties"]["strategy"]["enum"][0], "rebase");
    assert_eq!(schema["properties"]["max_workers"]["maximum"], 1024);
}

#[test]
fn the_reference_has_a_row_for_every_key() {
    let tasks = reference::task_file_markdown();
    for key in TASK_KEYS {
        assert!(tasks.contains(&format!("| `{}`", key.name)), "{}", key.name);
    }
    let config = reference::config_markdown();
    for name in [
        "max_workers",
        "argv",
        "test_command",
        "budget_usd",
        "idle_timeout",
        "REGATTA_MAX_WORKERS",
        "webhook",
    ] {
        assert!(config.contains(&format!("| `{name}`")), "{name}");
    }
    for line in tasks.lines().chain(config.lines()).filter(|line| line.starts_with('|')) {
        assert!(
            line.ends_with('|') && line.matches(" | ").count() + line.matches("|---").count() >= 1,
            "{line}"
        );
    }
}

#[test]
fn the_reference_and_the_template_read_well() {
    insta::assert_snapshot!("task_file_reference", reference::task_file_markdown());
    insta::assert_snapshot!("config_reference", reference::config_markdown());
    insta::assert_snapshot!("template", template());
}
