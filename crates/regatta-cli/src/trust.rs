//! Whether this project's configuration and git settings may run anything, and what to say when they may not.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use regatta_core::config::Config;
use regatta_core::time::Timestamp;
use regatta_engine::context::token_hash;
use regatta_engine::git::FileOrigin;
use regatta_engine::trust::{self, Aside, Book, FileTrust, Section, state_dir};
use regatta_store::{Store, TaskQuery};

use crate::commands::config::masked;
use crate::error::CliError;
use crate::project::{Project, shown};
use crate::render::shown::clean_line;
use crate::ui::Ui;

/// How much of a value is shown.
const LONGEST: usize = 160;

/// An agent can write before its start is on record, and files are stamped by a coarse clock.
const EARLY: Duration = Duration::from_secs(1);

/// What there is to say about the configuration file.
pub(crate) enum Verdict {
    /// There is no file, or nothing in it runs anything.
    Harmless,
    /// The user agreed to what it says.
    Trusted,
    /// The user wrote it: it is trusted from now on. The text says so where that is not obvious.
    Own(Option<String>),
    /// The user has not agreed yet, because of this.
    Untrusted(&'static str),
}

/// The parts of a configuration file that run something.
pub(crate) fn sections(config: &Config) -> BTreeMap<String, Section> {
    let section = |(key, value): (String, serde_json::Value)| {
        let digest = token_hash(&value.to_string());
        let name = key.rsplit('.').next().unwrap_or_default().to_owned();
        let shown = match masked(&name, name == "env", value) {
            serde_json::Value::String(text) => text,
            other => other.to_string(),
        };
        (key, Section { digest, shown: cut(&clean_line(&shown)) })
    };
    config.executing().into_iter().map(section).collect()
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// Settings of the file that the user has not agreed to.
fn new_sections<'a>(now: &'a BTreeMap<String, Section>, book: &Book) -> Vec<(&'a String, &'a Section)> {
    now.iter().filter(|(key, section)| !book.agrees(key, section)).collect()
}

/// Looks at the configuration file. Runs nothing of it and records nothing.
pub(crate) async fn assess(project: &Project) -> Result<Verdict, CliError> {
    let Some(file) = &project.config_file else { return Ok(Verdict::Harmless) };
    let now = sections(&project.file_config);
    if now.is_empty() {
        return Ok(Verdict::Harmless);
    }
    let book = Book::open(&project.repo)?;
    let new = new_sections(&now, &book);
    if new.is_empty() {
        return Ok(Verdict::Trusted);
    }
    if book.was_revoked() {
        return Ok(Verdict::Untrusted("is not trusted any more"));
    }
    let is_new = !book.knows_settings() && !book.knows_repository();
    if is_new && project.config_is_named {
        return Ok(Verdict::Own(None));
    }
    let content = std::fs::read(file).map_err(|error| CliError::io("reading", file, &error))?;
    let origin = Aside::of(&project.repo)?.file_origin(file, &content)?;
    if origin == FileOrigin::Arrived {
        return Ok(Verdict::Untrusted("came with a clone, a pull, a merge or a landing"));
    }
    if is_new {
        return Ok(Verdict::Own(None));
    }
    if changed_beside_agents(project, file).await? {
        return Ok(Verdict::Untrusted("changed while an agent was running"));
    }
    let keys: Vec<&str> = new.into_iter().map(|(key, _)| key.as_str()).collect();
    Ok(Verdict::Own(Some(format!("{} changed by you, and trusted: {}", shown(file), keys.join(", ")))))
}

/// Whether the file changed last while an agent of this project was running. Its change time cannot be set back.
async fn changed_beside_agents(project: &Project, file: &Path) -> Result<bool, CliError> {
    if !project.has_store() {
        return Ok(false);
    }
    let meta = std::fs::metadata(file).map_err(|error| CliError::io("reading", file, &error))?;
    let changed = Timestamp::from_millis(meta.ctime() * 1000 + meta.ctime_nsec() / 1_000_000);
    let store = project.store().await?;
    attempts_at(store.as_ref(), changed).await
}

async fn attempts_at(store: &dyn Store, at: Timestamp) -> Result<bool, CliError> {
    for brief in store.briefs(&TaskQuery::default()).await? {
        for attempt in store.attempts(&brief.id).await? {
            let Some(from) = attempt.started_at else { continue };
            if from.since(at) <= EARLY && attempt.ended_at.is_none_or(|until| at <= until) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

impl Project {
    /// Refuses to go on where something of the repository would run that its user has not agreed to. `--trust` agrees.
    pub(crate) async fn require_trust(&self) -> Result<Vec<String>, CliError> {
        self.require(None).await
    }

    /// The same, and asks a person who sits in front of a terminal.
    pub(crate) async fn require_trust_asking(&self, ui: &Ui) -> Result<(), CliError> {
        for note in self.require(Some(ui)).await? {
            if !ui.quiet {
                ui.note(note);
            }
        }
        Ok(())
    }

    async fn require(&self, ui: Option<&Ui>) -> Result<Vec<String>, CliError> {
        if self.trust_given {
            self.trust_everything()?;
            return Ok(Vec::new());
        }
        let note = match assess(self).await? {
            Verdict::Harmless | Verdict::Trusted => return Ok(Vec::new()),
            Verdict::Own(note) => note,
            Verdict::Untrusted(why) if ui.is_some_and(|ui| self.agreed(why, ui)) => None,
            Verdict::Untrusted(why) => return Err(self.untrusted(why)),
        };
        self.trust_file()?;
        Ok(note.into_iter().collect())
    }

    /// Trusts what the configuration file says now.
    pub(crate) fn trust_file(&self) -> Result<(), CliError> {
        if let Some(file) = &self.config_file {
            let trust = FileTrust { sections: sections(&self.file_config) };
            Book::open(&self.repo)?.keep_file(&self.repo, file, trust)?;
        }
        Ok(())
    }

    /// Trusts the state directory, git's settings and the configuration file as they are now.
    pub(crate) fn trust_everything(&self) -> Result<(), CliError> {
        match state_dir::standing(&self.repo)? {
            state_dir::Standing::Ours => {}
            state_dir::Standing::Foreign => state_dir::adopt(&self.repo)?,
            _ => state_dir::make(&self.repo)?,
        }
        trust::adopt_git(&self.repo)?;
        self.trust_file()
    }

    fn untrusted(&self, why: &str) -> CliError {
        let file = self.config_file.as_deref().map_or_else(String::new, shown);
        let what: Vec<String> =
            self.asked_for().into_iter().map(|(key, text)| format!("{key}: {text}")).collect();
        CliError::refused(format!(
            "{file} {why}, and you have not agreed to what it runs or allows: {}",
            what.join("; ")
        ))
        .hinted(
            "read it, then `regatta trust` records that you agree; in scripts: --trust, or REGATTA_TRUST=1",
        )
    }

    /// What the file says that the user has not agreed to, for people.
    pub(crate) fn asked_for(&self) -> Vec<(String, String)> {
        let now = sections(&self.file_config);
        let Ok(book) = Book::open(&self.repo) else { return Vec::new() };
        let new = new_sections(&now, &book);
        new.into_iter().map(|(key, section)| (key.clone(), section.shown.clone())).collect()
    }

    fn agreed(&self, why: &str, ui: &Ui) -> bool {
        if !ui.terminal || ui.json || !std::io::stdin().is_terminal() {
            return false;
        }
        let file = self.config_file.as_deref().map_or_else(String::new, shown);
        ui.line(format!("{file} {why}. It runs or allows:"));
        for (key, text) in self.asked_for() {
            ui.line(format!("  {key}: {text}"));
        }
        ask(ui, "Do you trust it?")
    }
}

/// Asks a person; anything but yes is no.
pub(crate) fn ask(ui: &Ui, question: &str) -> bool {
    ui.out(&format!("{question} [y/N] "));
    let mut answer = String::new();
    let read = std::io::stdin().read_line(&mut answer);
    read.is_ok() && matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}
