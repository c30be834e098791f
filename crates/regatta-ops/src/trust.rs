//! Whether this project's configuration and git settings may run anything, and the refusal if they may not.

mod items;

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use regatta_core::config::Config;
use regatta_core::plain::clean_line;
use regatta_core::time::Timestamp;
use regatta_engine::git::FileOrigin;
use regatta_engine::tokens::token_hash;
use regatta_engine::trust::{self, Aside, Book, FileTrust, Section, state_dir};
use regatta_store::{Store, TaskQuery};

use crate::project::{Project, shown};
use crate::refusal::Refusal;
use crate::secrets::masked;

/// How many characters of a value are shown.
const LONGEST_SHOWN_CHARS: usize = 160;

/// An agent can write before its start is recorded, and file times come from a coarse clock.
const EARLY: Duration = Duration::from_secs(1);

/// The assessment of the configuration file.
pub enum Verdict {
    /// There is no file, or nothing in it runs anything.
    Harmless,
    /// The user agreed to it.
    Trusted,
    /// The user wrote it: it is trusted from now on. The text says so if that is not obvious.
    Own(Option<String>),
    /// The user has not agreed yet, for this reason.
    Untrusted(&'static str),
}

/// A question to the user: whether to trust what a file runs.
#[derive(Clone, Debug)]
pub struct TrustQuestion {
    /// The configuration file.
    pub file: String,
    /// The reason for the question, as the end of a sentence that begins with the file.
    pub why: &'static str,
    /// The settings that run or allow something, with their values.
    pub settings: Vec<(String, String)>,
}

impl TrustQuestion {
    fn refused(&self) -> Refusal {
        let what: Vec<String> = self.settings.iter().map(|(key, text)| format!("{key}: {text}")).collect();
        Refusal::refused(format!(
            "{} {}, and you have not agreed to what it runs or allows: {}",
            self.file,
            self.why,
            what.join("; ")
        ))
        .hinted(
            "read it, then `regatta trust` records that you agree; in scripts: --trust, or REGATTA_TRUST=1",
        )
    }
}

/// The parts of a configuration file that run something.
pub fn sections(config: &Config) -> BTreeMap<String, Section> {
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
    match text.char_indices().nth(LONGEST_SHOWN_CHARS) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// Settings of the file that the user has not agreed to.
fn new_sections<'a>(now: &'a BTreeMap<String, Section>, book: &Book) -> Vec<(&'a String, &'a Section)> {
    now.iter().filter(|(key, section)| !book.agrees(key, section)).collect()
}

/// Assesses the configuration file. Runs nothing of it and records nothing.
pub async fn assess(project: &Project) -> Result<Verdict, Refusal> {
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
        return Ok(Verdict::Untrusted("is no longer trusted"));
    }
    let is_new = !book.knows_settings() && !book.knows_repository();
    if is_new && project.config_is_named {
        return Ok(Verdict::Own(None));
    }
    let content = std::fs::read(file).map_err(|error| Refusal::io("reading", file, &error))?;
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

/// Whether the file last changed while an agent of this project was running. Its change time cannot be set back.
async fn changed_beside_agents(project: &Project, file: &Path) -> Result<bool, Refusal> {
    let Some(store) = project.store_if_any().await? else { return Ok(false) };
    let meta = std::fs::metadata(file).map_err(|error| Refusal::io("reading", file, &error))?;
    let changed = Timestamp::from_millis(meta.ctime() * 1000 + meta.ctime_nsec() / 1_000_000);
    attempts_at(store.as_ref(), changed).await
}

async fn attempts_at(store: &dyn Store, at: Timestamp) -> Result<bool, Refusal> {
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
    /// Refuses if something of the repository would run that the user has not agreed to. The option `trust` agrees.
    /// Returns notes worth showing.
    pub async fn require_trust(&self) -> Result<Vec<String>, Refusal> {
        self.require_trust_or(|_| false).await
    }

    /// The same, but asks first: `agree` shows the question and returns whether the user agrees.
    pub async fn require_trust_or(
        &self,
        agree: impl FnOnce(&TrustQuestion) -> bool,
    ) -> Result<Vec<String>, Refusal> {
        if self.trust_given {
            self.trust_everything()?;
            return Ok(Vec::new());
        }
        let note = match assess(self).await? {
            Verdict::Harmless | Verdict::Trusted => return Ok(Vec::new()),
            Verdict::Own(note) => note,
            Verdict::Untrusted(why) => {
                let file = self.config_file.as_deref().map_or_else(String::new, shown);
                let question = TrustQuestion { file, why, settings: self.asked_for() };
                if !agree(&question) {
                    return Err(question.refused());
                }
                None
            }
        };
        self.trust_file()?;
        Ok(note.into_iter().collect())
    }

    /// Trusts the configuration file as it is now.
    pub fn trust_file(&self) -> Result<(), Refusal> {
        if let Some(file) = &self.config_file {
            let trust = FileTrust { sections: sections(&self.file_config) };
            Book::open(&self.repo)?.keep_file(&self.repo, file, trust)?;
        }
        Ok(())
    }

    /// Trusts the state directory, the git settings and the configuration file as they are now.
    pub fn trust_everything(&self) -> Result<(), Refusal> {
        self.trust_git()?;
        self.trust_file()
    }

    /// Trusts the state directory and the git settings as they are now.
    pub(crate) fn trust_git(&self) -> Result<(), Refusal> {
        match state_dir::standing(&self.repo)? {
            state_dir::StateDirStanding::Ours => {}
            state_dir::StateDirStanding::Foreign => state_dir::adopt(&self.repo)?,
            _ => state_dir::make(&self.repo)?,
        }
        Ok(trust::adopt_git(&self.repo)?)
    }

    /// The settings of the file that the user has not agreed to, for people.
    pub fn asked_for(&self) -> Vec<(String, String)> {
        let now = sections(&self.file_config);
        let Ok(book) = Book::open(&self.repo) else { return Vec::new() };
        let new = new_sections(&now, &book);
        new.into_iter().map(|(key, section)| (key.clone(), section.shown.clone())).collect()
    }
}
