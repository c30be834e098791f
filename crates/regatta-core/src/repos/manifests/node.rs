//! `package.json` and `pnpm-workspace.yaml`.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::lines::Lines;
use super::{Ecosystem, Manifest, Mistake, Target};
use crate::config::yaml::{self, Data};
use crate::diagnostic::{Pos, Report};

/// A value as it is in the text, so that its place is known.
type Raw<'t> = &'t RawValue;
type Fields<'t> = BTreeMap<Cow<'t, str>, Raw<'t>>;

const DEPENDENCIES: [&str; 6] = [
    "dependencies",
    "devDependencies",
    "peerDependencies",
    "optionalDependencies",
    "resolutions",
    "overrides",
];

/// The shorthands of hosts, and the hosts.
const HOSTS: [(&str, &str); 3] =
    [("github:", "github.com"), ("gitlab:", "gitlab.com"), ("bitbucket:", "bitbucket.org")];

pub(super) fn read_package(text: &str, manifest: &mut Manifest) -> Result<(), Mistake> {
    let fields: Fields<'_> = serde_json::from_str(text).map_err(|error| {
        let pos = Pos { line: error.line().max(1), column: error.column().max(1) };
        let said = error.to_string();
        let why = said.split(" at line ").next().unwrap_or_default();
        Mistake { pos, message: format!("not a JSON object: {why}") }
    })?;
    let lines = Lines::of(text);
    let line = |raw: Raw<'_>| lines.line(raw.get().as_ptr().addr() - text.as_ptr().addr());
    if let Some(name) = fields.get("name").copied().and_then(string) {
        manifest.provides.push((Ecosystem::Npm, name));
    }
    let pnpm = fields.get("pnpm").copied().and_then(parsed::<Fields<'_>>);
    let overrides = pnpm.as_ref().and_then(|pnpm| pnpm.get("overrides")).copied();
    for table in DEPENDENCIES.iter().filter_map(|key| fields.get(*key).copied()).chain(overrides) {
        for (name, raw) in parsed::<Fields<'_>>(table).unwrap_or_default() {
            // Nested overrides have no value of their own.
            if let Some(value) = string(raw) {
                manifest.refer(line(raw), wanted(&name, &value));
            }
        }
    }
    let workspaces = fields.get("workspaces").copied();
    let nested = workspaces.and_then(parsed::<Fields<'_>>).and_then(|map| map.get("packages").copied());
    for raw in nested.or(workspaces).and_then(parsed::<Vec<Raw<'_>>>).unwrap_or_default() {
        if let Some(member) = string(raw) {
            manifest.refer_to_member(line(raw), &member);
        }
    }
    Ok(())
}

pub(super) fn read_workspace(text: &str, manifest: &mut Manifest) -> Result<(), Mistake> {
    let mut report = Report::new(&manifest.path);
    let Some(root) = yaml::parse(text, 1, &mut report) else {
        let found = report.into_sorted().into_iter().next();
        let (pos, message) = found.map_or((Pos::START, "not valid YAML".to_owned()), |found| {
            (Pos { line: found.line, column: found.column }, found.message)
        });
        return Err(Mistake { pos, message });
    };
    let Some(packages) = root.entry("packages") else { return Ok(()) };
    if let Data::List(members) = &*packages.value.data {
        for member in members {
            if let Data::Scalar(scalar) = &*member.data {
                manifest.refer_to_member(member.pos.line, &scalar.text);
            }
        }
    }
    Ok(())
}

/// What a dependency with this value refers to.
fn wanted(name: &str, value: &str) -> Target {
    let value = value.trim();
    let package = |name: &str| Target::Package(Ecosystem::Npm, name.to_owned());
    for scheme in ["file:", "link:", "portal:"] {
        if let Some(path) = value.strip_prefix(scheme) {
            return Target::Path(path.strip_prefix("//").unwrap_or(path).to_owned());
        }
    }
    if let Some(path) = value.strip_prefix("workspace:").filter(|rest| rest.starts_with(['.', '/'])) {
        return Target::Path(path.to_owned());
    }
    if value.starts_with("./") || value.starts_with("../") || value.starts_with('/') {
        return Target::Path(value.to_owned());
    }
    if let Some(alias) = value.strip_prefix("npm:") {
        // `npm:@scope/name@1`: the first `@` belongs to the name.
        let end = alias.char_indices().skip(1).find(|(_, c)| *c == '@').map_or(alias.len(), |(at, _)| at);
        return package(&alias[..end]);
    }
    let address = value.split('#').next().unwrap_or_default();
    for (shorthand, host) in HOSTS {
        if let Some(slug) = address.strip_prefix(shorthand) {
            return Target::Git(format!("https://{host}/{slug}"));
        }
    }
    let is_git = ["git+", "git://", "ssh://", "git@"].iter().any(|scheme| address.starts_with(scheme))
        || (address.contains("://") && address.ends_with(".git"));
    if is_git {
        return Target::Git(address.strip_prefix("git+").unwrap_or(address).to_owned());
    }
    if is_slug(address) {
        return Target::Git(format!("https://github.com/{address}"));
    }
    package(name)
}

/// Whether it is `owner/repository`, which npm takes from GitHub.
fn is_slug(text: &str) -> bool {
    let is_word = |part: &str| {
        !part.is_empty()
            && part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
            && part.starts_with(|c: char| c.is_ascii_alphanumeric())
    };
    text.split_once('/').is_some_and(|(owner, name)| is_word(owner) && is_word(name))
}

fn parsed<'t, T: Deserialize<'t>>(raw: Raw<'t>) -> Option<T> {
    serde_json::from_str(raw.get()).ok()
}

fn string(raw: Raw<'_>) -> Option<String> {
    parsed(raw)
}
