//! What the settings of a repository can run, one item at a time, and what the user agreed to.

use regatta_core::plain::clean_line;
use regatta_core::repos::RepoName;
use regatta_engine::git::Difference;
use regatta_engine::trust::state_dir::{self, StateDirStanding};
use regatta_engine::trust::{Aside, Book, Section, TrustError};

use super::{Verdict, assess, sections};
use crate::documents::{TrustItem, TrustKind};
use crate::project::Project;
use crate::refusal::Refusal;
use crate::secrets::masked;

impl Project {
    /// Everything in the project's repositories that may run something or decides where work goes, and whether the user
    /// agreed. Settings files of other repositories are not read, so they are not among it.
    pub async fn trust_items(&self) -> Result<Vec<TrustItem>, Refusal> {
        let mut items: Vec<TrustItem> = state(self)?.into_iter().collect();
        items.extend(git(self)?);
        items.extend(settings(self).await?);
        for (name, other) in self.usable_others() {
            let found = state(&other).and_then(|state| Ok((state, git(&other)?)));
            let (state, git) = found.map_err(|refusal| about(&name, refusal))?;
            let of_it = |item| TrustItem { repo: Some(name.clone()), ..item };
            items.extend(state.into_iter().chain(git).map(of_it));
        }
        Ok(items)
    }

    /// Trusts all repositories of the project as they are now.
    pub fn trust_project(&self) -> Result<(), Refusal> {
        self.trust_everything()?;
        for (name, other) in self.usable_others() {
            other.trust_git().map_err(|refusal| about(&name, refusal))?;
        }
        Ok(())
    }

    /// Withdraws the user's agreement to all repositories of the project: the next start asks again.
    pub fn revoke_trust(&self) -> Result<(), Refusal> {
        Book::open(&self.repo)?.revoke(&self.repo)?;
        for (name, other) in self.usable_others() {
            let revoked = Book::open(&other.repo).and_then(|mut book| book.revoke(&other.repo));
            revoked.map_err(|error| about(&name, error.into()))?;
        }
        Ok(())
    }
}

/// A refusal that concerns one repository of the project.
fn about(name: &RepoName, refusal: Refusal) -> Refusal {
    Refusal { message: format!("{name}: {}", refusal.message), ..refusal }
}

/// The state directory, if it needs the user's agreement.
fn state(project: &Project) -> Result<Option<TrustItem>, Refusal> {
    let item = match state_dir::standing(&project.repo)? {
        StateDirStanding::Ours | StateDirStanding::Absent => None,
        StateDirStanding::Foreign => {
            let why =
                "not created here by your Regatta: its tasks, agents' programs and tokens would be used";
            Some(TrustItem {
                kind: TrustKind::State,
                repo: None,
                what: project.repo.state_dir.display().to_string(),
                was: None,
                is: Some(why.to_owned()),
                trusted: false,
            })
        }
        StateDirStanding::Refused(why) => {
            return Err(Refusal::refused(format!("{why}, so Regatta does not use it"))
                .hinted("look at it, and remove it if you do not need it"));
        }
    };
    state_dir::refuse_tracked(&project.repo)?;
    Ok(item)
}

fn git(project: &Project) -> Result<Vec<TrustItem>, Refusal> {
    let book = Book::open(&project.repo)?;
    let aside = Aside::of(&project.repo)?;
    let now = aside.found()?;
    let item = |one: Difference, trusted: bool| {
        let masked = |value: Option<String>| value.map(|value| shown_value(&one.what, &value));
        TrustItem {
            kind: TrustKind::Git,
            repo: None,
            was: masked(one.was),
            is: masked(one.is),
            what: one.what.clone(),
            trusted,
        }
    };
    let ignored = match aside.git() {
        Ok(in_force) => in_force.ignored,
        Err(TrustError::Refused { .. }) => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    // At the first use of a repository its settings are trusted without asking.
    let all_unknown = book.was_revoked();
    let differ: Vec<String> = ignored.iter().map(|one| one.what.clone()).collect();
    let same = now.powers().into_iter().filter(|one| !differ.contains(&one.what));
    let mut items: Vec<TrustItem> = same.map(|one| item(one, !all_unknown)).collect();
    items.extend(ignored.into_iter().map(|one| item(one, false)));
    Ok(items)
}

async fn settings(project: &Project) -> Result<Vec<TrustItem>, Refusal> {
    let Some(file) = &project.config_file else { return Ok(Vec::new()) };
    let verdict = assess(project).await?;
    let book = Book::open(&project.repo)?;
    let item = |(key, section): (String, Section)| {
        let was = book.agreed_before(&project.repo, file, &key);
        let same = book.agrees(&key, &section);
        let trusted = same || !matches!(verdict, Verdict::Untrusted(_));
        let was = was.filter(|_| !same).map(|was| was.shown.clone());
        TrustItem { kind: TrustKind::File, repo: None, what: key, was, is: Some(section.shown), trusted }
    };
    Ok(sections(&project.file_config).into_iter().map(item).collect())
}

/// A setting's value with secrets masked; a hook is shown by the start of its hash.
fn shown_value(what: &str, value: &str) -> String {
    if what.starts_with("hooks/") {
        return format!("a file ({})", &value[..value.len().min(12)]);
    }
    let name = what.rsplit('.').next().unwrap_or(what);
    if name == "extraheader" {
        return "[redacted]".to_owned();
    }
    match masked(name, true, value.into()) {
        serde_json::Value::String(text) => clean_line(&text),
        other => clean_line(&other.to_string()),
    }
}
