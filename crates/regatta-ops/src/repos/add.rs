//! Adds rows to `repos` in regatta.yaml, which otherwise stays as it is.

use std::path::{Path, PathBuf};

use regatta_core::config::{self, Config};
use regatta_core::diagnostic::has_errors;
use regatta_core::repos::rows::{self, NewRow, RowError};
use regatta_core::repos::{RepoName, RepoNameError};
use regatta_engine::files::{self, Durability};
use regatta_engine::git::Repo;

use super::several::ProjectRepos;
use crate::documents::{ReposAddedDocument, SkippedRepoDocument};
use crate::parallel::ParallelOptions;
use crate::parallel::registry::Registry;
use crate::project::{CONFIG_FILE, Project, ProjectOptions, expand_home, shown};
use crate::refusal::{Refusal, RefusalKind};

/// A request to add a repository to the settings.
#[derive(Clone, Debug)]
pub struct AddRepoRequest {
    /// Its name in the project.
    pub name: String,
    /// Its directory; a relative one begins at the current directory.
    pub path: PathBuf,
    /// `owner/name` or an address.
    pub remote: Option<String>,
    /// The branch that its work lands on.
    pub target: Option<String>,
    /// `auto`, or names of other rows.
    pub depends_on: Vec<String>,
    /// The word of `pull`.
    pub pull: Option<String>,
}

/// A request to turn parallel-agents' registry into `repos`.
#[derive(Clone, Debug)]
pub struct ImportRequest {
    /// Where the registry is.
    pub registry: ParallelOptions,
}

impl Project {
    /// Adds a repository to the settings. It must exist.
    pub async fn add_repo(
        &self,
        request: &AddRepoRequest,
        options: &ProjectOptions,
    ) -> Result<ReposAddedDocument, Refusal> {
        let name = parse_name(&request.name)?;
        let dir = existing(&request.path)?;
        let row = NewRow {
            name,
            path: self.path_of(&dir),
            remote: request.remote.clone(),
            target: request.target.clone(),
            depends_on: request.depends_on.clone(),
            pull: request.pull.clone(),
        };
        self.refuse_known(&row, &dir)?;
        self.write_rows(&[row], options, Vec::new())
    }

    /// Adds the repositories of parallel-agents' registry to the settings. Those that the settings have already, and
    /// those that cannot be added, are left out and named.
    pub async fn import_repos(
        &self,
        request: &ImportRequest,
        options: &ProjectOptions,
    ) -> Result<ReposAddedDocument, Refusal> {
        let registry = Registry::load(&request.registry)?;
        if registry.entries.is_empty() {
            return Err(Refusal::not_found(format!(
                "no repository is registered in {}",
                registry.dir.display()
            ))
            .hinted("--root names another registry; `regatta repo discover` finds repositories"));
        }
        let (mut rows, mut skipped): (Vec<NewRow>, Vec<SkippedRepoDocument>) = (Vec::new(), Vec::new());
        for entry in &registry.entries {
            let row = proposed_name(&entry.name).and_then(|name| {
                let dir = existing(&entry.path)?;
                let row = NewRow {
                    name,
                    path: self.path_of(&dir),
                    remote: None,
                    target: Some(entry.default_branch.clone()),
                    depends_on: Vec::new(),
                    pull: None,
                };
                self.refuse_known(&row, &dir)?;
                Ok(row)
            });
            match row {
                Ok(row) if rows.iter().any(|one| one.name == row.name) => {
                    let why = format!("another one would get the name {}, too", row.name);
                    skipped.push(SkippedRepoDocument { name: entry.name.clone(), why });
                }
                Ok(row) => rows.push(row),
                Err(refusal) => {
                    skipped.push(SkippedRepoDocument { name: entry.name.clone(), why: refusal.message });
                }
            }
        }
        if rows.is_empty() {
            let why: Vec<String> = skipped.iter().map(|one| format!("{}: {}", one.name, one.why)).collect();
            return Err(Refusal::refused(format!("nothing to import; {}", why.join("; ")))
                .hinted("`regatta repo list` shows the repositories of the project"));
        }
        self.write_rows(&rows, options, skipped)
    }

    /// The file with the settings, or where it would be.
    fn path_of_settings(&self) -> Result<PathBuf, Refusal> {
        match &self.config_file {
            Some(file) if file.file_name() == Some(crate::project::ROOKERY_FILE.as_ref()) => {
                Err(Refusal::refused(format!("the settings are in {}, which has no `repos`", shown(file)))
                    .hinted("`regatta init` writes a regatta.yaml"))
            }
            // A link stays a link.
            Some(file) => file.canonicalize().map_err(|error| Refusal::io("finding", file, &error)),
            None => Ok(self.repo.toplevel.join(CONFIG_FILE)),
        }
    }

    /// A directory as the file would name it: relative if it is near.
    fn path_of(&self, dir: &Path) -> String {
        let anchor = self.config_file.as_deref().and_then(Path::parent).unwrap_or(&self.repo.toplevel);
        let anchor = anchor.canonicalize().unwrap_or_else(|_| anchor.to_owned());
        let common = anchor.components().zip(dir.components()).take_while(|(a, b)| a == b).count();
        let up = anchor.components().count() - common;
        // Further up they have nothing in common but the machine.
        if common <= 1 || up > 3 {
            return dir.display().to_string();
        }
        let parts = std::iter::repeat_n("..".to_owned(), up)
            .chain(dir.components().skip(common).map(|part| part.as_os_str().to_string_lossy().into_owned()));
        let path = parts.collect::<Vec<_>>().join("/");
        if path.is_empty() { ".".to_owned() } else { path }
    }

    fn refuse_known(&self, row: &NewRow, dir: &Path) -> Result<(), Refusal> {
        let Some(repos) = ProjectRepos::of(self) else { return Ok(()) };
        for known in &self.config.repos {
            if known.name == row.name {
                return Err(Refusal::refused(format!("the project has a repository {} already", row.name))
                    .hinted(format!("it is {}; choose another name", repos.dir(known).display())));
            }
            if repos.dir(known) == dir {
                return Err(Refusal::refused(format!(
                    "{} is already in the project, as {}",
                    dir.display(),
                    known.name
                ))
                .hinted("`regatta repo list` shows all"));
            }
        }
        Ok(())
    }

    fn write_rows(
        &self,
        new: &[NewRow],
        options: &ProjectOptions,
        skipped: Vec<SkippedRepoDocument>,
    ) -> Result<ReposAddedDocument, Refusal> {
        let file = self.path_of_settings()?;
        let old = match std::fs::read_to_string(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(Refusal::io("reading", &file, &error)),
        };
        let by_hand = || {
            let rows: String = new.iter().map(|row| row.yaml(2)).collect();
            format!("add it yourself:\n{rows}")
        };
        let text = rows::add(&old, new).map_err(|error @ RowError::InBrackets| {
            Refusal::refused(format!("{}: {error}", shown(&file))).hinted(by_hand())
        })?;
        let name = shown(&file);
        let (before, _) = config::parse(&name, &old);
        let (after, diagnostics) = config::parse(&name, &text);
        if has_errors(&diagnostics) {
            return Err(Refusal::diagnosed(diagnostics)
                .hinted("correct the options; the places are those in the file with the new row"));
        }
        if !only_adds(&before, &after, new) {
            return Err(
                Refusal::refused(format!("{name}: the row would change other settings")).hinted(by_hand())
            );
        }
        if std::fs::read_to_string(&file).unwrap_or_default() != old {
            return Err(Refusal::refused(format!("{name} was changed at the same time"))
                .hinted("run the command again"));
        }
        files::replace(&file, text.as_bytes(), Durability::Durable)
            .map_err(|error| Refusal::io("writing", &file, &error))?;
        let project = Project::open(&ProjectOptions { config: Some(file.clone()), ..options.clone() })?;
        let repos = ProjectRepos::require(&project)?;
        let is_new = |name: &RepoName| new.iter().any(|row| row.name == *name);
        let rows = project.config.repos.iter().filter(|row| is_new(&row.name));
        Ok(ReposAddedDocument { added: rows.map(|row| repos.document(row)).collect(), file, skipped })
    }
}

/// Whether the new settings are the old ones and these rows.
fn only_adds(before: &Config, after: &Config, new: &[NewRow]) -> bool {
    let without = |config: &Config| {
        let mut value = serde_json::to_value(config).expect("settings serialise");
        value.as_object_mut().map(|fields| fields.remove("repos"));
        value
    };
    let kept = after.repos.get(..before.repos.len()) == Some(&before.repos[..]);
    let added = after.repos.get(before.repos.len()..).unwrap_or_default();
    let same = added.len() == new.len()
        && added
            .iter()
            .zip(new)
            .all(|(read, written)| read.name == written.name && read.path == written.path);
    kept && same && without(before) == without(after)
}

fn parse_name(text: &str) -> Result<RepoName, Refusal> {
    RepoName::parse(text).map_err(|why: RepoNameError| {
        Refusal::usage(format!("the repository's name {text:?} {why}"))
            .hinted("for example `api`, or the name of its directory")
    })
}

/// A name of parallel-agents, whose rules are wider.
fn proposed_name(text: &str) -> Result<RepoName, Refusal> {
    RepoName::parse(text).or_else(|_| parse_name(&plain_name(text)))
}

/// The nearest text that can be a name.
pub(super) fn plain_name(text: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c.to_ascii_lowercase() } else { '-' };
    let name: String = text.chars().map(plain).collect();
    let name: String = name.trim_matches(['-', '_']).chars().take(32).collect();
    match name.as_str() {
        "" => "repo".to_owned(),
        "auto" => "auto-1".to_owned(),
        name => name.to_owned(),
    }
}

/// The top directory of a checkout.
fn existing(path: &Path) -> Result<PathBuf, Refusal> {
    let Ok(dir) = expand_home(&path.to_string_lossy()).canonicalize() else {
        return Err(Refusal::not_found(format!("there is no directory {}", path.display()))
            .hinted("give the directory of a checkout; `git clone` makes one"));
    };
    let repo = Repo::discover(&dir, None)?;
    if repo.toplevel.canonicalize().ok().as_ref() != Some(&dir) {
        return Err(Refusal::new(
            RefusalKind::Git,
            format!("{} is inside the repository {}", dir.display(), repo.toplevel.display()),
        )
        .hinted("give the top directory of the checkout"));
    }
    Ok(dir)
}

#[cfg(test)]
mod tests {
    use super::plain_name;

    #[test]
    fn any_directory_gets_a_valid_name() {
        for (text, name) in
            [("My Lib.js", "my-lib-js"), ("-x-", "x"), ("ü", "repo"), ("auto", "auto-1"), ("", "repo")]
        {
            assert_eq!(plain_name(text), name);
            assert!(regatta_core::repos::RepoName::parse(name).is_ok());
        }
    }
}
