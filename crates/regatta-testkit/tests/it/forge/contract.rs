//! GitHub's own descriptions of its API, and whether answers fit them.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use serde_json::{Value, json};

/// The variable that names the directory of the descriptions.
const PLACE_VAR: &str = "REGATTA_TEST_FORGE";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Where `scripts/forge/install` has put them.
fn place() -> &'static Path {
    static PLACE: OnceLock<PathBuf> = OnceLock::new();
    PLACE.get_or_init(|| {
        if let Some(dir) = std::env::var_os(PLACE_VAR) {
            return dir.into();
        }
        let output = Command::new(root().join("scripts/forge/install")).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}\nrun scripts/forge/install");
        PathBuf::from(String::from_utf8_lossy(&output.stdout).trim())
    })
}

/// The description of the REST API.
fn openapi() -> &'static Value {
    static OPENAPI: OnceLock<Value> = OnceLock::new();
    OPENAPI.get_or_init(|| {
        let text = std::fs::read(place().join("openapi.json")).unwrap();
        serde_json::from_slice(&text).unwrap()
    })
}

/// Asserts that an answer of `gh api` has the shape that GitHub describes for its route and status.
#[track_caller]
pub(super) fn check_answer(method: &str, path: &str, status: u16, body: &Value) {
    let path = path.split('?').next().unwrap_or_default();
    let (template, route) =
        route(method, path).unwrap_or_else(|| panic!("GitHub has no route {method} {path}"));
    let described = resolved(&route["responses"][status.to_string()]);
    let schema = &described["content"]["application/json"]["schema"];
    let mut wrong = Vec::new();
    match (schema, status) {
        // Refusals that the description leaves out look like all others.
        (Value::Null, 400..) => fit(&openapi()["components"]["schemas"]["basic-error"], body, "", &mut wrong),
        (Value::Null, _) => {}
        (schema, _) => fit(schema, body, "", &mut wrong),
    }
    let is_described = status >= 300 || !described.is_null();
    assert!(is_described, "{method} {template} does not answer {status}: {body:#}");
    assert!(wrong.is_empty(), "{method} {template} {status}:\n{}\n{body:#}", wrong.join("\n"));
}

/// The description of the route of a path.
fn route(method: &str, path: &str) -> Option<(&'static str, &'static Value)> {
    let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    let fits = |template: &str| {
        let wanted: Vec<&str> = template.trim_start_matches('/').split('/').collect();
        wanted.len() == parts.len()
            && wanted.iter().zip(&parts).all(|(wanted, part)| wanted.starts_with('{') || wanted == part)
    };
    let all = openapi()["paths"].as_object()?.iter();
    let mut found: Vec<(&str, &Value)> = all
        .filter(|(template, _)| fits(template))
        .filter_map(|(template, route)| Some((template.as_str(), route.get(method.to_lowercase())?)))
        .collect();
    // A path that names a part is meant before one that leaves it open.
    found.sort_by_key(|(template, _)| template.matches('{').count());
    found.into_iter().next()
}

/// The thing itself instead of a reference to it.
fn resolved(value: &'static Value) -> &'static Value {
    match value["$ref"].as_str() {
        Some(name) => {
            resolved(openapi().pointer(name.trim_start_matches('#')).expect("a reference leads somewhere"))
        }
        None => value,
    }
}

/// Collects what in `value` does not fit: missing properties, kinds, enums, nulls.
fn fit(schema: &'static Value, value: &Value, at: &str, wrong: &mut Vec<String>) {
    let schema = resolved(schema);
    if value.is_null() {
        let alternatives =
            ["anyOf", "oneOf", "allOf"].iter().filter_map(|key| schema[*key].as_array()).flatten();
        let may_be = schema["nullable"] == true
            || schema["type"] == "null"
            || alternatives.map(resolved).any(|one| one["nullable"] == true)
            || schema.as_object().is_some_and(|schema| schema.is_empty());
        if !may_be {
            wrong.push(format!("{at} is null"));
        }
        return;
    }
    for part in schema["allOf"].as_array().into_iter().flatten() {
        fit(part, value, at, wrong);
    }
    for key in ["anyOf", "oneOf"] {
        let Some(alternatives) = schema[key].as_array() else { continue };
        let tries: Vec<Vec<String>> = alternatives
            .iter()
            .map(|one| {
                let mut wrong = Vec::new();
                fit(one, value, at, &mut wrong);
                wrong
            })
            .collect();
        if let Some(best) = tries.iter().min_by_key(|wrong| wrong.len()).filter(|best| !best.is_empty()) {
            wrong.push(format!(
                "{at} fits none of {} alternatives, at best: {}",
                tries.len(),
                best.join("; ")
            ));
        }
    }
    let is_kind = match schema["type"].as_str() {
        Some("string") => value.is_string(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("number") => value.is_number(),
        Some("boolean") => value.is_boolean(),
        Some("array") => value.is_array(),
        Some("object") => value.is_object(),
        _ => true,
    };
    if !is_kind {
        wrong.push(format!("{at} is {value}, which is not of type {}", schema["type"]));
        return;
    }
    let is_listed = schema["enum"].as_array().is_none_or(|listed| listed.contains(value));
    if !is_listed {
        wrong.push(format!("{at} is {value}, which is not one of {}", schema["enum"]));
    }
    if schema["format"] == "date-time"
        && !value.as_str().is_some_and(|text| text.len() == 20 && text.ends_with('Z'))
    {
        wrong.push(format!("{at} is {value}, which is not a time"));
    }
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if value.is_object() && value.get(name).is_none() {
            wrong.push(format!("{at}.{name} is missing"));
        }
    }
    for (name, part) in schema["properties"].as_object().into_iter().flatten() {
        if let Some(value) = value.get(name) {
            fit(part, value, &format!("{at}.{name}"), wrong);
        }
    }
    if let (Some(items), Some(values)) = (schema.get("items"), value.as_array()) {
        for (n, value) in values.iter().enumerate() {
            fit(items, value, &format!("{at}[{n}]"), wrong);
        }
    }
}

/// Runs the checks of GitHub's GraphQL schema.
fn graphql(asked: &[Value]) -> Vec<Value> {
    let mut command = Command::new("node");
    command.arg(place().join("graphql.mjs")).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(Value::from(asked.to_vec()).to_string().as_bytes()).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The query with `__typename` in every part; the query must fit the schema.
#[track_caller]
pub(super) fn typed(query: &str) -> String {
    let checked = &graphql(&[json!({"query": query})])[0];
    assert_eq!(checked["errors"], json!([]), "{query}");
    checked["typed"].as_str().unwrap().to_owned()
}

/// Asserts that the data fits the schema.
#[track_caller]
pub(super) fn check_data(query: &str, variables: &Value, data: &Value) {
    let checked = &graphql(&[json!({"query": query, "answer": {"data": data, "variables": variables}})])[0];
    assert_eq!(checked["errors"], json!([]), "{data:#}");
}

/// All files below a directory whose names end like that.
fn queries(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        match path.extension() {
            Some(extension) if extension == "graphql" => found.push(path),
            _ if path.is_dir() => queries(&path, found),
            _ => {}
        }
    }
}

#[test]
fn every_query_in_the_sources_fits_the_schema_of_github() {
    let mut found = Vec::new();
    queries(&root().join("crates"), &mut found);
    assert!(found.len() >= 4, "the queries were not found: {found:?}");
    let asked: Vec<Value> =
        found.iter().map(|path| json!({"query": std::fs::read_to_string(path).unwrap()})).collect();
    for (path, checked) in found.iter().zip(graphql(&asked)) {
        assert_eq!(checked["errors"], json!([]), "{}", path.display());
    }
}

#[test]
fn the_checks_notice_what_does_not_fit() {
    let check = |body: Value| {
        let mut wrong = Vec::new();
        fit(&openapi()["components"]["schemas"]["pull-request-merge-result"], &body, "", &mut wrong);
        wrong
    };
    assert!(check(json!({"sha": "1", "merged": true, "message": "m"})).is_empty());
    assert_eq!(check(json!({"sha": "1", "merged": true})), [".message is missing"]);
    assert_eq!(check(json!({"sha": null, "merged": true, "message": "m"})), [".sha is null"]);
    assert_eq!(
        check(json!({"sha": "1", "merged": "yes", "message": "m"})),
        [".merged is \"yes\", which is not of type \"boolean\""]
    );
    let checked = graphql(&[
        json!({"query": "{ viewer { nickname } }"}),
        json!({"query": "{ viewer { login } }", "answer": {"data": {"viewer": {"login": null}}}}),
        json!({"query": "{ viewer { login } }", "answer": {"data": {"viewer": {"login": "ann"}}}}),
    ]);
    let wrong: Vec<usize> = checked.iter().map(|one| one["errors"].as_array().unwrap().len()).collect();
    assert_eq!(wrong, [1, 1, 0], "{checked:?}");
}
