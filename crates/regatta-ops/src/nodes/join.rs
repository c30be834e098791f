//! Makes this machine a node: clones the hub, and writes `node.yaml`.

use std::path::{Path, PathBuf};

use regatta_core::config::{HubAddress, NodeProject, NodeSettings, format_duration, parse_node};
use regatta_core::diagnostic::has_errors;
use regatta_core::node::no_node_word;
use regatta_engine::files::{Durability, replace_as};
use regatta_engine::git::{GitEnv, clone_repository};
use regatta_engine::node::settings_file;

use crate::documents::NodeJoinedDocument;
use crate::project::shown;
use crate::refusal::{Refusal, RefusalKind};

/// A request to make this machine a node of a project.
#[derive(Clone, Debug)]
pub struct JoinRequest {
    /// The address of the store.
    pub store: String,
    /// The address of the hub.
    pub hub: String,
    /// The project's name in the store.
    pub project: String,
    /// The name of this node.
    pub name: Option<String>,
    /// Its labels.
    pub labels: Vec<String>,
    /// How many attempts can run on it.
    pub slots: Option<u32>,
    /// Where the clone goes; by default a directory with the project's name.
    pub directory: Option<PathBuf>,
}

impl JoinRequest {
    /// Carries it out. It can be repeated: a clone that is there is used.
    pub async fn carry_out(&self) -> Result<NodeJoinedDocument, Refusal> {
        let url = self.store_url()?;
        let hub = self.hub_address()?;
        self.check_words()?;
        let directory = self.directory.clone().unwrap_or_else(|| PathBuf::from(&self.project));
        let directory = std::path::absolute(&directory).unwrap_or(directory);
        let file = settings_file().ok_or_else(|| {
            Refusal::new(RefusalKind::CannotWork, "there is no place for node.yaml").hinted("set HOME")
        })?;
        let mut settings = read(&file)?;
        // Before anything is written: an address that does not work is the most likely mistake.
        let store = regatta_store::open(&url).await?;
        if !directory.join(".git").exists() {
            let (address, into) = (hub.clone(), directory.clone());
            let cloned =
                tokio::task::spawn_blocking(move || clone_repository(&address, &into, &GitEnv::inherited()));
            cloned.await.expect("cloning does not panic").map_err(|error| {
                Refusal::from(error)
                    .hinted("`git ls-remote` with the address of the hub has to work here first")
            })?;
        }
        let directory = directory.canonicalize().unwrap_or(directory);
        settings.name = self.name.clone().or(settings.name);
        settings.labels.extend(self.labels.iter().cloned());
        settings.labels.sort();
        settings.labels.dedup();
        settings.slots = self.slots.or(settings.slots);
        settings.projects.retain(|project| project.name != self.project && project.path != directory);
        settings.projects.push(NodeProject {
            name: self.project.clone(),
            path: directory.clone(),
            store: Some(url),
            hub: Some(hub),
        });
        write(&file, &settings)?;
        Ok(NodeJoinedDocument {
            directory: directory.display().to_string(),
            node_file: file.display().to_string(),
            project: self.project.clone(),
            store: store.describe(),
        })
    }

    /// The project that an address of a store names.
    pub fn project_of(store: &str) -> Option<String> {
        let (_, query) = store.split_once("://")?;
        let named = query.split(['?', '&']).skip(1).find_map(|part| part.strip_prefix("project="));
        named.map(str::to_owned)
    }

    /// The address of the store, with the project's name in it.
    fn store_url(&self) -> Result<String, Refusal> {
        let Some((_, query)) = self.store.split_once("://") else {
            return Err(Refusal::usage(format!(
                "--store {:?} is not a store that machines can share",
                self.store
            ))
            .hinted("give postgres://USER@HOST/DATABASE or zookeeper://HOST/CHROOT"));
        };
        if ["zookeeper://", "zk://"].iter().any(|scheme| self.store.starts_with(scheme)) {
            // The path of its address is the project.
            return Ok(self.store.clone());
        }
        match Self::project_of(&self.store) {
            Some(named) if named != self.project => Err(Refusal::usage(format!(
                "--store names the project {named:?}, --project {:?}",
                self.project
            ))
            .hinted("name the project once, with --project")),
            Some(_) => Ok(self.store.clone()),
            None => {
                let mark = if query.contains('?') { '&' } else { '?' };
                Ok(format!("{}{mark}project={}", self.store, self.project))
            }
        }
    }

    /// The address of the hub: an absolute path, or a URL.
    fn hub_address(&self) -> Result<String, Refusal> {
        let hint = "give the address of a git repository: ssh://HOST/PATH, https://HOST/PATH or a path";
        match HubAddress::parse(&self.hub) {
            Ok(HubAddress::Url(url)) => Ok(url),
            Ok(HubAddress::Path(path)) => {
                let path = PathBuf::from(path);
                Ok(std::path::absolute(&path).unwrap_or(path).display().to_string())
            }
            Ok(HubAddress::None | HubAddress::Remote(_)) => {
                Err(Refusal::usage(format!("--hub {:?} is not an address", self.hub)).hinted(hint))
            }
            Err(why) => Err(Refusal::usage(format!("--hub {:?} {why}", self.hub)).hinted(hint)),
        }
    }

    fn check_words(&self) -> Result<(), Refusal> {
        let words = [("--project", &self.project)].into_iter();
        let words = words.chain(self.name.iter().map(|name| ("--name", name)));
        for (flag, word) in words.chain(self.labels.iter().map(|label| ("--label", label))) {
            if let Some(why) = no_node_word(word) {
                return Err(Refusal::usage(format!("{flag} {word:?} {why}"))
                    .hinted("names and labels are at most 64 of A-Z a-z 0-9 . _ -"));
            }
        }
        Ok(())
    }
}

/// The settings of this machine so far.
fn read(file: &Path) -> Result<NodeSettings, Refusal> {
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(NodeSettings::default()),
        Err(error) => return Err(Refusal::io("reading", file, &error)),
    };
    let (settings, diagnostics) = parse_node(&shown(file), &text);
    if has_errors(&diagnostics) { Err(Refusal::diagnosed(diagnostics)) } else { Ok(settings) }
}

/// Writes them, for this user alone: an address of a store may have a password. What was there stays beside it.
fn write(file: &Path, settings: &NodeSettings) -> Result<(), Refusal> {
    use std::os::unix::fs::DirBuilderExt as _;
    let failed = |error: std::io::Error| Refusal::io("writing", file, &error);
    if let Some(dir) = file.parent() {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(failed)?;
    }
    let text = yaml(settings);
    match std::fs::read(file) {
        Ok(before) if before == text.as_bytes() => return Ok(()),
        Ok(before) => {
            let old = file.with_extension("yaml.old");
            replace_as(&old, &before, Durability::Durable, Some(0o600)).map_err(failed)?;
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
    }
    replace_as(file, text.as_bytes(), Durability::Durable, Some(0o600)).map_err(failed)
}

fn yaml(settings: &NodeSettings) -> String {
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let mut text = String::new();
    if let Some(name) = &settings.name {
        text.push_str(&format!("name: {name}\n"));
    }
    if !settings.labels.is_empty() {
        text.push_str(&format!("labels: [{}]\n", settings.labels.join(", ")));
    }
    if let Some(slots) = settings.slots {
        text.push_str(&format!("slots: {slots}\n"));
    }
    let usual = NodeSettings::default();
    for (key, span, default) in [
        ("lease", settings.lease, usual.lease),
        ("leave", settings.leave, usual.leave),
        ("affinity", settings.affinity, usual.affinity),
    ] {
        if span != default {
            text.push_str(&format!("{key}: {}\n", format_duration(Some(span))));
        }
    }
    text.push_str("projects:\n");
    for project in &settings.projects {
        text.push_str(&format!(
            "  {}:\n    path: {}\n",
            project.name,
            quoted(&project.path.to_string_lossy())
        ));
        for (key, value) in [("store", &project.store), ("hub", &project.hub)] {
            if let Some(value) = value {
                text.push_str(&format!("    {key}: {}\n", quoted(value)));
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let settings = NodeSettings {
            name: Some("big-1".into()),
            labels: vec!["gpu".into(), "ssd".into()],
            slots: Some(8),
            affinity: std::time::Duration::ZERO,
            projects: vec![NodeProject {
                name: "shop".into(),
                path: "/srv/a \"b\"".into(),
                store: Some("postgres://regatta@db/x?project=shop".into()),
                hub: Some("ssh://host/srv/shop.git".into()),
            }],
            ..NodeSettings::default()
        };
        let text = yaml(&settings);
        assert_eq!(parse_node("node.yaml", &text), (settings, Vec::new()), "{text}");
    }
}
