//! The keys `permissions`, `sandbox` and `mcp`, wherever they occur.

use std::collections::BTreeMap;

use crate::bounds::{Bounds, McpServer, Rule, Sandbox};
use crate::diagnostic::Report;

use super::fields::{Fields, Spot, Value};
use super::file::{pairs, texts};
use super::keys::{Key, Kind};
use super::yaml::quoted;

/// The values of `sandbox`.
pub(super) const SANDBOXES: &[&str] = &["off", "workspace", "read-only"];

/// The keys of `permissions`.
pub(super) static PERMISSION_KEYS: &[Key] = &[
    Key::new("allow", Kind::OneOrMore, "everything", "Allow only these tools and commands."),
    Key::new("deny", Kind::OneOrMore, "none", "Refuse these, even if another rule allows them."),
];

/// The keys of one server below `mcp`.
pub(super) static MCP_KEYS: &[Key] = &[
    Key::new("command", Kind::Text, "none", "The program to start."),
    Key::new("args", Kind::Texts, "none", "Its arguments."),
    Key::new("env", Kind::Variables, "none", "Environment variables for it."),
    Key::new("url", Kind::Text, "none", "The address of a server that is already running."),
    Key::new("headers", Kind::Labels, "none", "Headers to send with every request."),
];

/// The bounds set by one mapping. Reports mistakes in them.
pub(crate) fn read(fields: &Fields, report: &mut Report) -> Bounds {
    let mut bounds = Bounds { sandbox: fields.text("sandbox").and_then(Sandbox::named), ..Bounds::default() };
    if let Some(permissions) = fields.section("permissions") {
        let mut list = |name| permissions.texts(name).map(|list| rules(list, permissions, name, report));
        bounds.permissions.allow = list("allow");
        bounds.permissions.deny = list("deny").unwrap_or_default();
    }
    if let Some(Value::Named(named)) = fields.field("mcp").map(|field| &field.value) {
        bounds.mcp = servers(named, report);
    }
    bounds
}

fn rules(list: &[Spot<String>], fields: &Fields, name: &str, report: &mut Report) -> Vec<Rule> {
    let mut rules = Vec::new();
    for Spot { pos, value } in list {
        match Rule::parse(value) {
            Ok(rule) => rules.push(rule),
            Err(why) => {
                report.error(*pos, &fields.path_of(name), format!("rule {} {why}", quoted(value))).hint =
                    Some("rules are written `Tool` or `Tool(what)`, such as `Bash(git push:*)`".into());
            }
        }
    }
    rules
}

fn servers(named: &[(Spot<String>, Fields)], report: &mut Report) -> BTreeMap<String, McpServer> {
    let mut servers = BTreeMap::new();
    for (name, fields) in named {
        let valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        if name.value.is_empty() || name.value.starts_with('-') || !name.value.chars().all(valid) {
            let message = format!(
                "{} is not a valid name for a server; letters, digits, '_' and '-' are allowed",
                quoted(&name.value)
            );
            report.error(name.pos, &fields.path, message);
            continue;
        }
        match server(fields) {
            Ok(server) => {
                servers.insert(name.value.clone(), server);
            }
            Err(why) => {
                report.error(fields.pos, &fields.path, format!("server `{}` {why}", name.value)).hint =
                    Some("give `command` (with `args` and `env`), or `url` (with `headers`)".into());
            }
        }
    }
    servers
}

fn server(fields: &Fields) -> Result<McpServer, String> {
    let given = |name: &str| fields.field(name).is_some();
    let map = |name: &str| pairs(fields.pairs(name).unwrap_or_default());
    match (fields.text("command"), fields.text("url")) {
        (Some(_), Some(_)) => Err("has both `command` and `url`".into()),
        (None, None) => Err("has neither `command` nor `url`".into()),
        (Some(command), None) => {
            if given("headers") {
                return Err("is a program; `headers` are only for a `url`".into());
            }
            if command.trim().is_empty() || command.starts_with('-') {
                return Err(format!("has no program in `command`: {}", quoted(command)));
            }
            let args = fields.texts("args").map(texts).unwrap_or_default();
            Ok(McpServer::Program { command: command.to_owned(), args, env: map("env") })
        }
        (None, Some(url)) => {
            if given("args") || given("env") {
                return Err("has a `url`; `args` and `env` are only for a `command`".into());
            }
            let is_http = ["http://", "https://"].iter().any(|scheme| url.starts_with(scheme));
            if !is_http || url.contains(char::is_whitespace) {
                return Err(format!("has no http address in `url`: {}", quoted(url)));
            }
            let headers = map("headers");
            let plain = |text: &str| !text.is_empty() && !text.contains(|c: char| c.is_control());
            if !headers.iter().all(|(name, value)| plain(name) && plain(value) && !name.contains([' ', ':']))
            {
                return Err("has an invalid header".into());
            }
            Ok(McpServer::Remote { url: url.to_owned(), headers })
        }
    }
}
