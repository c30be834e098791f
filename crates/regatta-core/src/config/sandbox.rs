//! The `sandbox` section of `regatta.yaml`.

use crate::diagnostic::Report;
use crate::sandbox::policy::no_path;
use crate::sandbox::settings::{Caches, Entry, Home, Mode, Network};

use super::fields::{Fields, Spot, Value};
use super::keys::{Key, Kind};
use super::values::Config;
use super::variables::refused_variable;
use super::yaml::quoted;

/// The keys of the section.
pub(super) static SANDBOX_KEYS: &[Key] = &[
    Key::new("mode", Kind::OneOf(Mode::WORDS), "auto", "`auto` uses the best level that this machine has, `full` refuses to start agents with anything less, `off` starts them without a sandbox.")
        .env("REGATTA_SANDBOX"),
    Key::new("network", Kind::OneOf(Network::WORDS), "open", "What is reachable: `open` everything, `trusted` a built-in list of hosts and `hosts`, `list` the agent's own model and `hosts`, `off` nothing. `trusted` and `list` need the full level.")
        .env("REGATTA_SANDBOX_NETWORK"),
    Key::new("hosts", Kind::OneOrMore, "none", "Hosts for `trusted` and `list`: a name, `*.` and a name, each with a port if it is not 80 or 443.")
        .example("[\"*.internal.example\", \"example.org:8443\"]"),
    Key::new("local", Kind::Ports, "none", "Ports on this machine that stay reachable when the network is not open.")
        .example("[5432]"),
    Key::new("write", Kind::OneOrMore, "none", "More directories to write to, relative to this file; `~/` is the home directory.")
        .example("[../shared-fixtures]"),
    Key::new("show", Kind::OneOrMore, "none", "Hidden paths that agents may read after all.")
        .example("[~/.config/gh]"),
    Key::new("env", Kind::OneOrMore, "none", "Variables with credentials of your accounts that agents get after all. Others, such as `GITHUB_TOKEN` and `AWS_SECRET_ACCESS_KEY`, are removed.")
        .example("[NPM_TOKEN]"),
    Key::new("hide", Kind::OneOrMore, "none", "More paths that agents must not read.").example("[secrets]"),
    Key::new("sockets", Kind::OneOrMore, "none", "Unix sockets of other programs that agents may connect to. Docker's socket is as good as root.")
        .example("[/run/postgresql/.s.PGSQL.5432]"),
    Key::new("devices", Kind::OneOrMore, "none", "Devices that agents may use.").example("[/dev/dri]"),
    Key::new("home", Kind::OneOf(Home::WORDS), "copy", "`copy`: agents can change the home directory, and every change is thrown away at the end. `read-only`: they cannot. At the files level it is always read-only."),
    Key::new("caches", Kind::OneOf(Caches::WORDS), "project", "Caches of package managers: `project` in one directory per project, `user` your own, `none` nothing is set."),
    Key::new("nested", Kind::Bool, "false", "Whether namespaces and mounts are allowed inside, for browsers and containers. Needs the full level, and turns Landlock off."),
    Key::new("processes", Kind::Int { min: 16, max: 1_000_000 }, "4096", "How many processes one attempt can have at the same time. Only at the full level."),
    Key::new("memory", Kind::Text, "none", "How much memory one attempt can use, such as `8G`, where the machine has cgroup v2.")
        .example("none"),
];

/// Lists of paths, each entry of which is checked.
const PATHS: [&str; 5] = ["write", "show", "hide", "sockets", "devices"];

impl Config {
    /// Stores a value of the section. `false` if there is no such setting.
    pub(super) fn put_sandbox(&mut self, key: &str, value: &Value) -> bool {
        let sandbox = &mut self.sandbox;
        match (key, value) {
            ("mode", Value::Text(word)) => sandbox.mode = Mode::named(word).unwrap_or(sandbox.mode),
            ("network", Value::Text(word)) => {
                sandbox.network = Network::named(word).unwrap_or(sandbox.network);
            }
            ("home", Value::Text(word)) => sandbox.home = Home::named(word).unwrap_or(sandbox.home),
            ("caches", Value::Text(word)) => sandbox.caches = Caches::named(word).unwrap_or(sandbox.caches),
            ("hosts", Value::Texts(list)) => sandbox.hosts = entries(list),
            ("local", Value::Texts(list)) => {
                sandbox.local = list.iter().filter_map(|spot| port(&spot.value)).collect();
            }
            ("write", Value::Texts(list)) => sandbox.write = entries(list),
            ("show", Value::Texts(list)) => sandbox.show = entries(list),
            ("env", Value::Texts(list)) => sandbox.env = entries(list),
            ("hide", Value::Texts(list)) => sandbox.hide = entries(list),
            ("sockets", Value::Texts(list)) => sandbox.sockets = entries(list),
            ("devices", Value::Texts(list)) => sandbox.devices = entries(list),
            ("nested", Value::Bool(on)) => sandbox.nested = *on,
            ("processes", Value::Int(n)) => sandbox.processes = u32::try_from(*n).ok(),
            ("memory", Value::Text(text)) => sandbox.memory = megabytes(text).unwrap_or(None),
            _ => return false,
        }
        true
    }
}

/// Reports mistakes that the types of single keys cannot express, each with its line.
pub(super) fn check(config: &Config, fields: &Fields, report: &mut Report) {
    let Some(fields) = fields.section("sandbox") else { return };
    for key in PATHS {
        for Spot { pos, value } in fields.texts(key).unwrap_or_default() {
            let path = fields.path_of(key);
            if let Some(why) = no_path(value) {
                report.error(*pos, &path, format!("path {} {why}", quoted(value)));
            } else if key == "write" && matches!(value.trim_end_matches('/'), "" | "~") {
                let what =
                    if value.starts_with('~') { "your whole home directory" } else { "the whole disk" };
                let message = format!("{} is {what}, so there would be no sandbox", quoted(value));
                report.error(*pos, &path, message).hint =
                    Some("name the directories to write to, or set `mode: off`".into());
            } else if key == "sockets" && value.ends_with("docker.sock") {
                let message =
                    format!("{}: a program that can talk to Docker has the rights of root", quoted(value));
                report.warn(*pos, &path, message);
            }
        }
    }
    for Spot { pos, value } in fields.texts("env").unwrap_or_default() {
        if let Some(why) = refused_variable(value) {
            let message = format!("variable {} {why}", quoted(value));
            report.error(*pos, &fields.path_of("env"), message);
        }
    }
    for Spot { pos, value } in fields.texts("hosts").unwrap_or_default() {
        if let Some(why) = no_host(value) {
            report.error(*pos, &fields.path_of("hosts"), format!("host {} {why}", quoted(value))).hint =
                Some("such as `example.org`, `*.example.org` or `example.org:8443`".into());
        }
    }
    if let Some(text) = fields.text("memory")
        && megabytes(text).is_none()
    {
        let message =
            format!("`memory` must be a size such as `8G` or `512M`, or `none`, found {}", quoted(text));
        report.error(fields.pos_of("memory"), &fields.path_of("memory"), message);
    }
    let sandbox = &config.sandbox;
    let open = sandbox.network == Network::Open;
    if sandbox.mode == Mode::Off {
        for key in ["network", "nested"] {
            let needs = match key {
                "network" => !open,
                _ => sandbox.nested,
            };
            if needs && fields.field(key).is_some() {
                let message = format!("`{key}` needs a sandbox, and `mode` is off");
                report.error(fields.pos_of(key), &fields.path_of(key), message).hint =
                    Some("set `mode: full`, or take one of them out".into());
            }
        }
    }
}

fn entries(list: &[Spot<String>]) -> Vec<Entry> {
    list.iter().map(|spot| Entry { text: spot.value.clone(), line: spot.pos.line }).collect()
}

fn port(text: &str) -> Option<u16> {
    text.parse().ok().filter(|port| *port > 0)
}

/// The size in megabytes; `Some(None)` for `none`.
fn megabytes(text: &str) -> Option<Option<u32>> {
    if text == "none" {
        return Some(None);
    }
    let (number, unit) = text.split_at(text.len().checked_sub(1)?);
    let factor = match unit {
        "M" | "m" => 1,
        "G" | "g" => 1024,
        _ => return None,
    };
    let number: u32 = number.parse().ok()?;
    number.checked_mul(factor).filter(|size| *size >= 64).map(Some)
}

/// Why an entry of `hosts` names no host; completes a sentence that begins with it.
fn no_host(text: &str) -> Option<&'static str> {
    let (host, port_text) = text.rsplit_once(':').map_or((text, None), |(host, port)| (host, Some(port)));
    let name = host.strip_prefix("*.").unwrap_or(host);
    let fits = |part: &str| {
        !part.is_empty()
            && part.len() < 64
            && part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
    };
    if text.contains("://") || text.contains('/') {
        Some("is an address; give the name of the host alone")
    } else if port_text.is_some_and(|text| port(text).is_none()) {
        Some("has no port after the colon")
    } else if name.contains('*') {
        Some("has a `*` that is not at its beginning")
    } else if !name.split('.').all(fits) {
        Some("is not a valid host name")
    } else {
        None
    }
}
