//! `Cargo.toml`.

use toml::de::DeTable;

use super::toml_text::{TomlText, child, entries, text, texts};
use super::{Ecosystem, Manifest, Mistake, Target};

const DEPENDENCIES: [&str; 3] = ["dependencies", "dev-dependencies", "build-dependencies"];

pub(super) fn read(source: &str, manifest: &mut Manifest) -> Result<(), Mistake> {
    let toml = TomlText::parse(source)?;
    if let Some(package) = toml.table(&["package"])
        && let Some(name) = text(package, "name")
        && is_published(package)
    {
        manifest.provides.push((Ecosystem::Cargo, name.to_owned()));
    }
    let tables = |table: &DeTable<'_>, manifest: &mut Manifest| {
        for key in DEPENDENCIES {
            dependencies(&toml, child(table, key), manifest);
        }
    };
    tables(&toml.root, manifest);
    for (_, target) in entries(toml.table(&["target"])) {
        if let Some(table) = target.get_ref().as_table() {
            tables(table, manifest);
        }
    }
    dependencies(&toml, toml.table(&["workspace", "dependencies"]), manifest);
    for (_, registry) in entries(toml.table(&["patch"])) {
        dependencies(&toml, registry.get_ref().as_table(), manifest);
    }
    dependencies(&toml, toml.table(&["replace"]), manifest);
    if let Some(workspace) = toml.table(&["workspace"]) {
        for (value, member) in texts(workspace, "members") {
            manifest.refer_to_member(toml.line(value), member);
        }
    }
    Ok(())
}

fn is_published(package: &DeTable<'_>) -> bool {
    package.get("publish").is_none_or(|value| value.get_ref().as_bool() != Some(false))
}

fn dependencies(toml: &TomlText<'_>, table: Option<&DeTable<'_>>, manifest: &mut Manifest) {
    for (name, value) in entries(table) {
        let line = toml.line(value);
        let Some(details) = value.get_ref().as_table() else {
            manifest.refer(line, Target::Package(Ecosystem::Cargo, name.to_owned()));
            continue;
        };
        let at = |key: &str| details.get(key).map_or(line, |value| toml.line(value));
        let path = text(details, "path");
        let git = text(details, "git");
        if let Some(path) = path {
            manifest.refer(at("path"), Target::Path(path.to_owned()));
        }
        if let Some(git) = git {
            manifest.refer(at("git"), Target::Git(git.to_owned()));
        }
        let is_inherited = details.contains_key("workspace");
        if path.is_none() && git.is_none() && !is_inherited {
            let package = text(details, "package").unwrap_or(name);
            manifest.refer(line, Target::Package(Ecosystem::Cargo, package.to_owned()));
        }
    }
}
