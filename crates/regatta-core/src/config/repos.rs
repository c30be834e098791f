//! The rows of `repos`, and `.regatta/repos.yaml` with a machine's own paths.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use crate::diagnostic::{Diagnostic, Report, nearest};
use crate::repos::{DependsOn, Graph, Pull, RepoConfig, RepoName, Wait, drawn};

use super::bounds::{self, PERMISSION_KEYS};
use super::check::no_branch;
use super::config_keys::LAND_KEYS;
use super::fields::{Fields, Spot, Value};
use super::file::{count, some};
use super::keys::{Key, Kind};
use super::reading::Reading;
use super::values::Config;
use super::yaml::quoted;
use super::{normalised, yaml};

/// The keys of one row.
pub(super) static REPO_KEYS: &[Key] = &[
    Key::new(
        "name",
        Kind::Text,
        "",
        "The repository's name in the project, for `repo` of a task: at most 32 of `a-z 0-9 _ -`. Required.",
    ),
    Key::new(
        "path",
        Kind::Text,
        "`../NAME`",
        "Its directory, relative to this file's directory; `.` is the project's own repository. `.regatta/repos.yaml` can name another one on this machine.",
    ),
    Key::new(
        "remote",
        Kind::Word,
        "none",
        "Where it comes from: `OWNER/NAME` at GitHub, or an address that git understands. `regatta repo` uses it.",
    ),
    Key::new(
        "target",
        Kind::Word,
        "decided by the first run",
        "The branch that its work lands on, as `target` of the project.",
    ),
    Key::new(
        "depends_on",
        Kind::Names,
        "none",
        "The repositories that it builds on. Lanes of its tasks have them beside them, at commits that contain what landed. `auto` takes them from its manifests.",
    ),
    Key::new(
        "wait",
        Kind::OneOf(Wait::NAMES),
        "working",
        "Which work in a repository that it builds on holds back its own tasks: `working` (tasks that agents work on), `landed` (all tasks that are queued, at work or landing) or `never`.",
    ),
    Key::new(
        "max_workers",
        Kind::Int { min: 1, max: 1024 },
        "none",
        "How many of its attempts can run at the same time, within the project's `max_workers`.",
    ),
    Key::new("setup", Kind::Text, "`lane.setup`", "Command to run in a new lane of it. Empty for none."),
    Key::new(
        "test_command",
        Kind::Text,
        "`land.test_command`",
        "Its gate: a command that must succeed on exactly the commit that lands. Empty for none.",
    ),
    Key::new(
        "land",
        Kind::Section(LAND_KEYS),
        "`land`",
        "How its work reaches its target branch: keys of `land` that differ from the project's.",
    ),
    Key::new(
        "permissions",
        Kind::Section(PERMISSION_KEYS),
        "none",
        "Rules for the agents of its tasks, on top of `defaults.permissions`.",
    ),
    Key::new(
        "pull",
        Kind::OneOf(Pull::NAMES),
        "never",
        "What happens before a lane with this repository beside it is made, if its remote is ahead: nothing, a note to the agent (`check`), or the fetched commit is used (`auto`).",
    ),
];

/// The keys of one repository in `.regatta/repos.yaml`.
static PATH_KEYS: &[Key] = &[Key::new("path", Kind::Text, "", "Its directory on this machine. Required.")];

/// Reads the rows, with the project's settings where they have none. Mistakes are reported at their places.
pub(super) fn read(rows: &[Fields], config: &Config, report: &mut Report) -> Vec<RepoConfig> {
    let mut repos: Vec<RepoConfig> = Vec::new();
    let mut paths: BTreeMap<PathBuf, RepoName> = BTreeMap::new();
    for row in rows {
        let Some(name) = name(row, &repos, report) else { continue };
        let path = row.text("path").map_or_else(|| format!("../{name}"), str::to_owned);
        if path.trim().is_empty() {
            report.error(row.pos_of("path"), &row.path_of("path"), "`path` is empty").hint =
                Some("`.` is the project's own repository".into());
            continue;
        }
        if let Some(other) = paths.insert(lexical(Path::new(&path)), name.clone()) {
            let message = format!("{} is the path of {other} and of {name}", quoted(&path));
            report.error(row.pos_of("path"), &row.path_of("path"), message);
        }
        repos.push(repo(row, name, path, config, report));
    }
    for row in rows {
        dependencies(row, &mut repos, report);
    }
    if let Some(circle) = Graph::declared(&repos).circle() {
        let row = rows.iter().find(|row| row.text("name") == circle.first().map(RepoName::as_str));
        if let Some(row) = row {
            let message = format!("the repositories depend on each other: {}", drawn(&circle));
            report.error(row.pos_of("depends_on"), &row.path_of("depends_on"), message).hint =
                Some("remove one of these dependencies".into());
        }
    }
    repos
}

fn name(row: &Fields, before: &[RepoConfig], report: &mut Report) -> Option<RepoName> {
    let path = row.path_of("name");
    let Some(text) = row.text("name") else {
        if row.lacks("name") {
            report.error(row.pos, &path, "`name` is missing");
        }
        return None;
    };
    match RepoName::parse(text) {
        Ok(name) if before.iter().any(|repo| repo.name.in_variable() == name.in_variable()) => {
            report.error(row.pos_of("name"), &path, format!("duplicate repository {}", quoted(text)));
            None
        }
        Ok(name) => Some(name),
        Err(why) => {
            report.error(row.pos_of("name"), &path, format!("repository {} {why}", quoted(text)));
            None
        }
    }
}

fn repo(row: &Fields, name: RepoName, path: String, config: &Config, report: &mut Report) -> RepoConfig {
    let target = row.text("target").map(str::to_owned);
    if let Some(target) = &target
        && let Some(why) = no_branch(target)
    {
        let message = format!("branch {} {why}", quoted(target));
        report.error(row.pos_of("target"), &row.path_of("target"), message);
    }
    let mut land = config.land.clone();
    for field in row.section("land").map_or(&[][..], |section| &section.given) {
        if field.key.name == "fence" {
            let message =
                "`fence` is for landings at a hub, which a project with several repositories does not have";
            report.error(field.key_pos, &format!("{}.fence", row.path_of("land")), message);
        }
        land.put(field.key.name, &field.value);
    }
    if let Some(text) = row.text("test_command") {
        if row.section("land").is_some_and(|land| land.field("test_command").is_some()) {
            let message = "`test_command` and `land.test_command` mean the same; set only one of them";
            report.error(row.pos_of("test_command"), &row.path_of("test_command"), message);
        }
        land.test_command = some(text);
    }
    RepoConfig {
        name,
        path,
        remote: row.text("remote").map(str::to_owned),
        target,
        depends_on: DependsOn::These(Vec::new()),
        wait: row.text("wait").and_then(Wait::named).unwrap_or_default(),
        max_workers: row.int("max_workers").map(count),
        setup: row.text("setup").map(str::to_owned),
        land,
        bounds: bounds::read(row, report),
        pull: row.text("pull").and_then(Pull::named).unwrap_or_default(),
    }
}

/// Reads what a row builds on, once all names are known.
fn dependencies(row: &Fields, repos: &mut [RepoConfig], report: &mut Report) {
    let said = row.texts("depends_on").unwrap_or_default();
    let known: Vec<String> = repos.iter().map(|repo| repo.name.to_string()).collect();
    let Some(repo) = repos.iter_mut().find(|repo| row.text("name") == Some(repo.name.as_str())) else {
        return;
    };
    if let [Spot { value, .. }] = said
        && value == "auto"
    {
        repo.depends_on = DependsOn::Auto;
        return;
    }
    let mut names = Vec::new();
    for Spot { pos, value } in said {
        let path = row.path_of("depends_on");
        match RepoName::parse(value) {
            Ok(name) if name == repo.name => {
                report.error(*pos, &path, format!("{name} cannot depend on itself"));
            }
            Ok(name) if names.contains(&name) => {}
            Ok(name) if known.iter().any(|one| *one == name.as_str()) => names.push(name),
            _ => {
                let (message, hint) = unknown(value, known.iter().map(String::as_str));
                report.error(*pos, &path, message).hint = Some(hint);
            }
        }
    }
    repo.depends_on = DependsOn::These(names);
}

/// Message and hint for a repository that is not in `repos`.
fn unknown<'a>(text: &str, known: impl Iterator<Item = &'a str> + Clone) -> (String, String) {
    let message = format!("there is no repository {} in `repos`", quoted(text));
    let names: Vec<&str> = known.clone().collect();
    let hint = match nearest(text, known) {
        Some(near) => format!("did you mean `{near}`?"),
        None if names.is_empty() => "add it to `repos` in regatta.yaml".to_owned(),
        None => format!("known are: {}", names.join(", ")),
    };
    (message, hint)
}

impl Config {
    /// The row of a repository.
    pub fn repo(&self, name: &RepoName) -> Option<&RepoConfig> {
        self.repos.iter().find(|repo| repo.name == *name)
    }

    /// The row of the project's own repository, if it has one.
    pub fn home_repo(&self) -> Option<&RepoConfig> {
        self.repos.iter().find(|repo| repo.is_home())
    }

    /// The repositories besides the project's own.
    pub fn other_repos(&self) -> impl Iterator<Item = &RepoConfig> {
        self.repos.iter().filter(|repo| !repo.is_home())
    }

    /// The repository that a user's word means: `None` for the project's own. The error is a message and a hint.
    pub fn repo_named(&self, text: &str) -> Result<Option<RepoName>, (String, String)> {
        let found = self.repos.iter().find(|repo| repo.name.as_str() == text);
        match found {
            Some(repo) => Ok((!repo.is_home()).then(|| repo.name.clone())),
            None => Err(unknown(text, self.repos.iter().map(|repo| repo.name.as_str()))),
        }
    }

    /// `land.auto` of a repository.
    pub fn land_auto(&self, name: Option<&RepoName>) -> Option<bool> {
        let row = name.map_or_else(|| self.home_repo(), |name| self.repo(name));
        row.map_or(self.land.auto, |row| row.land.auto)
    }

    /// The settings for tasks of a repository: the project's, and over them those of its row.
    pub fn of_repo(&self, name: Option<&RepoName>) -> Config {
        let row = name.map_or_else(|| self.home_repo(), |name| self.repo(name));
        let mut config = self.clone();
        let Some(row) = row else { return config };
        config.land = row.land.clone();
        if let Some(setup) = &row.setup {
            config.lane.setup = some(setup);
        }
        if !row.is_home() {
            config.target.clone_from(&row.target);
        }
        config.defaults.bounds = row.bounds.clone().on_top_of(&self.defaults.bounds);
        config
    }

    /// Applies `.regatta/repos.yaml`: where repositories are on this machine.
    pub fn apply_repo_paths(&mut self, file: &str, text: &str) -> Vec<Diagnostic> {
        let mut report = Report::new(file);
        let Some(node) = yaml::parse(&normalised(text), 1, &mut report) else { return report.into_sorted() };
        if node.is_null() {
            return report.into_sorted();
        }
        let read = Reading::STRICT.value(&node, "", Kind::Named(PATH_KEYS), &mut report);
        let Some(Value::Named(rows)) = read else { return report.into_sorted() };
        for (name, fields) in rows {
            let known: Vec<String> = self.repos.iter().map(|repo| repo.name.to_string()).collect();
            let Some(repo) = self.repos.iter_mut().find(|repo| repo.name.as_str() == name.value) else {
                let (message, hint) = unknown(&name.value, known.iter().map(String::as_str));
                report.error(name.pos, &name.value, message).hint = Some(hint);
                continue;
            };
            match fields.text("path") {
                Some(path) if !path.trim().is_empty() && !repo.is_home() => path.clone_into(&mut repo.path),
                Some(_) if repo.is_home() => {
                    let message = format!("{} is the project's own repository", repo.name);
                    report.error(fields.pos_of("path"), &fields.path_of("path"), message);
                }
                _ if fields.lacks("path") || fields.text("path").is_some() => {
                    report.error(
                        fields.pos,
                        &fields.path_of("path"),
                        format!("{} needs a `path`", repo.name),
                    );
                }
                _ => {}
            }
        }
        report.into_sorted()
    }
}

/// A path without `.`, and without `..` after a name, by its text alone.
fn lexical(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if matches!(clean.components().next_back(), Some(Component::Normal(_))) => {
                clean.pop();
            }
            part => clean.push(part),
        }
    }
    clean
}
