//! A planner's answer: one JSON object, checked strictly, and the plan made from it.
//!
//! Invariant: nothing is guessed. Only the last object of the answer can be the plan; a key that is not in the schema,
//! a value of another type, or an id, a dependency or a cycle that a plan file could not have is a mistake, and all
//! mistakes are reported at once. A planner can describe the work but not its bounds: only the user grants permissions,
//! variables and servers.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use crate::diagnostic::Diagnostic;
use crate::spec::TaskSpec;
use crate::taskfile::{self, LoadSettings, Loaded, Source};

/// The schema of an answer.
pub const SCHEMA: &str = include_str!("proposal/schema.json");

/// Maximum number of mistakes reported at once.
const MOST_MISTAKES: usize = 20;

/// The type of a key of the answer.
#[derive(Clone, Copy)]
enum Holds {
    Text,
    Texts,
    Flag,
    Whole,
}

/// The keys of a task, in the order in which they are written.
const KEYS: [(&str, Holds); 11] = [
    ("id", Holds::Text),
    ("title", Holds::Text),
    ("agent", Holds::Text),
    ("model", Holds::Text),
    ("priority", Holds::Whole),
    ("deps", Holds::Texts),
    ("writes", Holds::Texts),
    ("checks", Holds::Texts),
    ("labels", Holds::Texts),
    ("read_only", Holds::Flag),
    ("prompt", Holds::Text),
];

/// A plan that fits the schema but is not checked for consistency yet.
#[derive(Clone, Debug, PartialEq)]
pub struct Proposal {
    name: Option<String>,
    tasks: Vec<Map<String, Value>>,
}

impl Proposal {
    /// Parses an answer, or returns its mistakes.
    pub fn read(answer: &str) -> Result<Self, Vec<String>> {
        let Some(object) = last_object(answer) else {
            return Err(vec![
                "the answer contains no JSON object; the plan must be one, at the end of the answer".into(),
            ]);
        };
        let mut wrong = Vec::new();
        for key in object.keys().filter(|key| !["name", "tasks"].contains(&key.as_str())) {
            wrong.push(format!("unknown key {key:?}; the plan has `name` and `tasks`"));
        }
        let name = match object.get("name") {
            None => None,
            Some(Value::String(name)) => Some(name.clone()),
            Some(other) => {
                wrong.push(format!("`name` must be a string, found {}", called(other)));
                None
            }
        };
        let tasks = match object.get("tasks") {
            Some(Value::Array(tasks)) if !tasks.is_empty() => tasks.as_slice(),
            Some(Value::Array(_)) => {
                wrong.push("`tasks` is empty; a plan has at least one task".into());
                &[]
            }
            Some(other) => {
                wrong.push(format!("`tasks` must be a list of tasks, found {}", called(other)));
                &[]
            }
            None => {
                wrong.push("the last JSON object of the answer has no `tasks`".into());
                &[]
            }
        };
        let tasks = tasks.iter().enumerate().filter_map(|(n, task)| check(n, task, &mut wrong)).collect();
        if wrong.is_empty() { Ok(Self { name, tasks }) } else { Err(wrong) }
    }

    /// The plan as a file in Regatta's own format, with the goal below it. `chain` gives every task a full chain.
    pub fn plan(&self, id: &str, goal: &str, chain: bool) -> String {
        let mut text = "---\nregatta: 1\n".to_owned();
        let name = self.name.as_deref().map(str::trim).filter(|name| !name.is_empty());
        let _ = writeln!(text, "name: {}", quoted(name.unwrap_or(id)));
        if chain {
            text.push_str("defaults:\n  chain: true\n");
        }
        text.push_str("tasks:\n");
        for task in &self.tasks {
            let mut before = "  - ";
            for (key, _) in KEYS {
                let Some(value) = task.get(key) else { continue };
                let _ = match value {
                    Value::String(prompt) if key == "prompt" => {
                        writeln!(text, "{before}prompt: {}", block(prompt))
                    }
                    value => writeln!(text, "{before}{key}: {value}"),
                };
                before = "    ";
            }
        }
        let _ = write!(text, "---\n\n# {id}\n\n{}\n", goal.trim());
        text
    }

    /// The tasks of the plan, or every mistake that prevents them.
    pub fn load(plan: &str, settings: &LoadSettings<'_>) -> Result<Vec<TaskSpec>, Vec<String>> {
        let loaded: Loaded = taskfile::load(&[Source::new("plan", plan)], settings);
        let errors: Vec<String> =
            loaded.diagnostics.iter().filter(|mistake| mistake.is_error()).map(spoken).collect();
        if errors.is_empty() { Ok(loaded.tasks) } else { Err(errors) }
    }
}

/// Mistakes in one line, for the agent or user who corrects them. Several are numbered.
pub fn listed(mistakes: &[String]) -> String {
    if let [only] = mistakes {
        return only.clone();
    }
    let mut parts: Vec<String> = (mistakes.iter().take(MOST_MISTAKES).enumerate())
        .map(|(n, mistake)| format!("({}) {mistake}", n + 1))
        .collect();
    if mistakes.len() > MOST_MISTAKES {
        parts.push(format!("and {} more", mistakes.len() - MOST_MISTAKES));
    }
    parts.join("; ")
}

fn spoken(mistake: &Diagnostic) -> String {
    let at = mistake.field.as_ref().map_or_else(String::new, |field| format!("{field}: "));
    let hint = mistake.hint.as_ref().map_or_else(String::new, |hint| format!("; {hint}"));
    format!("{at}{}{hint}", mistake.message)
}

/// The last top-level object in `text` that is not empty.
fn last_object(text: &str) -> Option<Map<String, Value>> {
    let mut last = None;
    let mut at = 0;
    while let Some(open) = text[at..].find('{') {
        at += open;
        let mut stream = serde_json::Deserializer::from_str(&text[at..]).into_iter::<Value>();
        match stream.next() {
            Some(Ok(Value::Object(object))) => {
                at += stream.byte_offset();
                if !object.is_empty() {
                    last = Some(object);
                }
            }
            _ => at += 1,
        }
    }
    last
}

fn check(n: usize, task: &Value, wrong: &mut Vec<String>) -> Option<Map<String, Value>> {
    let Value::Object(task) = task else {
        wrong.push(format!("tasks[{n}] must be an object, found {}", called(task)));
        return None;
    };
    for (key, value) in task {
        let Some((_, holds)) = KEYS.iter().find(|(name, _)| name == key) else {
            let known: Vec<&str> = KEYS.iter().map(|(name, _)| *name).collect();
            wrong.push(format!("tasks[{n}]: unknown key {key:?}; a task has {}", known.join(", ")));
            continue;
        };
        let (fits, expected) = match holds {
            Holds::Text => (value.is_string(), "a string"),
            Holds::Flag => (value.is_boolean(), "true or false"),
            Holds::Whole => (value.is_i64(), "a whole number"),
            Holds::Texts => {
                (value.as_array().is_some_and(|list| list.iter().all(Value::is_string)), "a list of strings")
            }
        };
        if !fits {
            wrong.push(format!("tasks[{n}].{key} must be {expected}, found {}", called(value)));
        }
    }
    for key in ["id", "prompt"] {
        if !task.contains_key(key) {
            wrong.push(format!("tasks[{n}] has no `{key}`"));
        }
    }
    Some(task.clone())
}

fn called(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// A JSON string, which YAML reads the same.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// A prompt as a block that is easy to edit, if YAML preserves it; otherwise quoted.
fn block(prompt: &str) -> String {
    let text = prompt.trim();
    let plain = |c: char| c == '\n' || !c.is_control() && !matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}');
    if text.is_empty() || !text.chars().all(plain) || text.lines().any(|line| line.ends_with([' ', '\u{a0}']))
    {
        return quoted(prompt);
    }
    let mut block = "|-".to_owned();
    for line in text.lines() {
        let _ = if line.is_empty() { writeln!(block) } else { write!(block, "\n      {line}") };
    }
    block
}

#[cfg(test)]
mod tests;
