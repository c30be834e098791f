//! `pyproject.toml` and `requirements*.txt`.

use toml::de::DeTable;

use super::toml_text::{TomlText, child, entries, text, texts};
use super::{Ecosystem, Manifest, Mistake, Target};

pub(super) fn read_project(source: &str, manifest: &mut Manifest) -> Result<(), Mistake> {
    let toml = TomlText::parse(source)?;
    for path in [&["project"][..], &["tool", "poetry"]] {
        if let Some(name) = toml.table(path).and_then(|table| text(table, "name")) {
            manifest.provides.push((Ecosystem::Python, normal_name(name)));
        }
    }
    let mut requirements = |table: Option<&DeTable<'_>>, key: &str| {
        for (value, requirement) in table.into_iter().flat_map(|table| texts(table, key)) {
            if let Some(target) = requirement_target(requirement) {
                manifest.refer(toml.line(value), target);
            }
        }
    };
    requirements(toml.table(&["project"]), "dependencies");
    requirements(toml.table(&["build-system"]), "requires");
    for path in [
        &["project", "optional-dependencies"][..],
        &["dependency-groups"],
        &["tool", "pdm", "dev-dependencies"],
    ] {
        let table = toml.table(path);
        for (group, _) in entries(table) {
            requirements(table, group);
        }
    }
    requirements(toml.table(&["tool", "uv"]), "dev-dependencies");
    for (_, value) in entries(toml.table(&["tool", "uv", "sources"])) {
        // One source, or a list of them with markers.
        let one = value.get_ref().as_table().map(|table| (value, table));
        let many = value.get_ref().as_array().into_iter().flat_map(|list| list.iter());
        for (value, table) in one.into_iter().chain(many.filter_map(|v| Some((v, v.get_ref().as_table()?)))) {
            source_of(toml.line(value), table, manifest);
        }
    }
    if let Some(workspace) = toml.table(&["tool", "uv", "workspace"]) {
        for (value, member) in texts(workspace, "members") {
            manifest.refer_to_member(toml.line(value), member);
        }
    }
    if let Some(poetry) = toml.table(&["tool", "poetry"]) {
        poetry_dependencies(&toml, child(poetry, "dependencies"), manifest);
        poetry_dependencies(&toml, child(poetry, "dev-dependencies"), manifest);
        for (_, group) in entries(child(poetry, "group")) {
            let table = group.get_ref().as_table().and_then(|group| child(group, "dependencies"));
            poetry_dependencies(&toml, table, manifest);
        }
    }
    Ok(())
}

/// The keys of uv and poetry for a dependency from elsewhere. Returns whether there is one.
fn source_of(line: usize, table: &DeTable<'_>, manifest: &mut Manifest) -> bool {
    if let Some(path) = text(table, "path") {
        manifest.refer(line, Target::Path(path.to_owned()));
    } else if let Some(git) = text(table, "git") {
        manifest.refer(line, Target::Git(git.to_owned()));
    } else {
        return false;
    }
    true
}

fn poetry_dependencies(toml: &TomlText<'_>, table: Option<&DeTable<'_>>, manifest: &mut Manifest) {
    for (name, value) in entries(table).filter(|(name, _)| *name != "python") {
        let line = toml.line(value);
        let has_source = value.get_ref().as_table().is_some_and(|details| source_of(line, details, manifest));
        if !has_source {
            manifest.refer(line, Target::Package(Ecosystem::Python, normal_name(name)));
        }
    }
}

pub(super) fn read_requirements(text: &str, manifest: &mut Manifest) {
    let mut whole = String::new();
    let mut begun = 1;
    for (index, content) in text.lines().enumerate() {
        if whole.is_empty() {
            begun = index + 1;
        }
        if let Some(part) = content.strip_suffix('\\') {
            whole.push_str(part);
            whole.push(' ');
            continue;
        }
        whole.push_str(content);
        if let Some(target) = requirement_target(&whole) {
            manifest.refer(begun, target);
        }
        whole.clear();
    }
    if let Some(target) = requirement_target(&whole) {
        manifest.refer(begun, target);
    }
}

/// What one line of requirements, or one dependency of a project, refers to. `None` for options and comments.
fn requirement_target(line: &str) -> Option<Target> {
    let line = line.split(" #").next().unwrap_or_default().trim();
    if line.is_empty() || line.starts_with('#') {
        return None;
    }
    if line.starts_with('-') {
        let editable = ["--editable", "-e"].iter().find_map(|option| line.strip_prefix(option))?;
        let value = editable.strip_prefix('=').unwrap_or(editable).trim();
        return address_target(value).or_else(|| Some(Target::Path(without_extras(value).to_owned())));
    }
    if let Some(target) = address_target(line) {
        return Some(target);
    }
    let end = line.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')));
    let (name, rest) = line.split_at(end.unwrap_or(line.len()));
    let name = name.trim_end_matches(['.', '-', '_']);
    if name.is_empty() {
        return None;
    }
    let rest = rest.trim_start();
    let rest = rest.strip_prefix('[').and_then(|rest| rest.split_once(']')).map_or(rest, |(_, rest)| rest);
    if let Some(address) = rest.trim_start().strip_prefix('@') {
        return address_target(address.trim());
    }
    Some(Target::Package(Ecosystem::Python, normal_name(name)))
}

/// A path or the address of a repository. The branch, the fragment and markers are left out.
fn address_target(text: &str) -> Option<Target> {
    let text = text.split(['#', ';']).next().unwrap_or_default().trim();
    if let Some(address) = text.strip_prefix("git+") {
        return Some(Target::Git(without_branch(address).to_owned()));
    }
    if let Some(path) = text.strip_prefix("file:") {
        let path = path.strip_prefix("//").unwrap_or(path);
        // pdm's and hatch's words for the directory of the manifest.
        let path = ["${PROJECT_ROOT}", "{root:uri}", "/${PROJECT_ROOT}"]
            .iter()
            .find_map(|word| path.strip_prefix(word))
            .map_or_else(|| path.to_owned(), |rest| format!(".{rest}"));
        return Some(Target::Path(path));
    }
    let is_path =
        ["./", "../", "/"].iter().any(|start| text.starts_with(start)) || text == "." || text == "..";
    is_path.then(|| Target::Path(without_extras(text).to_owned()))
}

/// `https://host/owner/name.git@main`: an `@` after the last slash begins the branch.
fn without_branch(address: &str) -> &str {
    let last = address.rfind('/').unwrap_or(0);
    address[last..].find('@').map_or(address, |at| &address[..last + at])
}

/// `../shared[test]`.
fn without_extras(path: &str) -> &str {
    path.strip_suffix(']').and_then(|inner| inner.rsplit_once('[')).map_or(path, |(path, _)| path)
}

/// Names are equal whatever their case, and `-`, `_` and `.` mean the same.
fn normal_name(name: &str) -> String {
    let words = name.split(['-', '_', '.']).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-").to_lowercase()
}
