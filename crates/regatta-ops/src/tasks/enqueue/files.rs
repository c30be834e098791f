//! Finds the files that a command line names.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use regatta_core::id::TaskId;

use super::there_already;
use crate::project::Project;
use crate::refusal::Refusal;

/// Where a task's file is searched by its id, from the repository's root.
const PLACES: [&str; 3] = ["tasks", "parcels", "plans"];

/// The files, and the ids by which some of them were named.
pub(super) struct Files {
    pub(super) files: Vec<(PathBuf, Vec<u8>)>,
    pub(super) ids: Vec<(TaskId, PathBuf)>,
}

pub(super) async fn find(project: &Project, what: &[String]) -> Result<Files, Refusal> {
    let mut paths: Vec<PathBuf> = Vec::new();
    let mut ids = Vec::new();
    for text in what {
        let path = Path::new(text);
        if let Some((id, path)) = by_id(project, text) {
            // A plan has its own name; the tasks in it have others.
            if !path.parent().is_some_and(|dir| dir.ends_with(PLACES[2])) {
                ids.push((id, path.clone()));
            }
            paths.push(path);
        } else if path.is_dir() {
            paths.extend(markdown(path)?);
        } else if path.exists() {
            paths.push(path.to_owned());
        } else {
            return Err(no_file(project, text).await);
        }
    }
    let mut seen = BTreeSet::new();
    paths.retain(|path| seen.insert(std::fs::canonicalize(path).unwrap_or_else(|_| path.clone())));
    let read = |path: PathBuf| match std::fs::read(&path) {
        Ok(bytes) => Ok((path, bytes)),
        Err(error) => Err(Refusal::io("reading", &path, &error)),
    };
    Ok(Files { files: paths.into_iter().map(read).collect::<Result<_, _>>()?, ids })
}

fn by_id(project: &Project, text: &str) -> Option<(TaskId, PathBuf)> {
    let id = TaskId::parse(text).ok()?;
    let places = PLACES.iter().map(|dir| project.repo.toplevel.join(dir).join(format!("{id}.md")));
    places.into_iter().find(|path| path.is_file()).map(|path| (id, path))
}

fn markdown(dir: &Path) -> Result<Vec<PathBuf>, Refusal> {
    let failed = |error: std::io::Error| Refusal::io("listing", dir, &error);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let is_readme = path.file_stem().is_some_and(|stem| stem.eq_ignore_ascii_case("readme"));
        if path.extension().is_some_and(|end| end == "md") && !is_readme && path.is_file() {
            found.push(path);
        }
    }
    found.sort();
    if found.is_empty() {
        Err(Refusal::not_found(format!("there is no *.md in {}", dir.display()))
            .hinted("`regatta new ID` creates a task file"))
    } else {
        Ok(found)
    }
}

async fn no_file(project: &Project, text: &str) -> Refusal {
    let id = TaskId::parse(text).ok().filter(|_| !text.ends_with(".md"));
    let Some(id) = id else {
        let shown = if text.is_empty() { "\"\"" } else { text };
        return Refusal::not_found(format!("there is no file {shown}"))
            .hinted("`regatta new ID` creates a task file");
    };
    if project.has_store()
        && let Ok(store) = project.store().await
        && let Ok(task) = store.task(&id).await
    {
        return there_already(&[task]);
    }
    Refusal::not_found(format!(
        "there is no file {text}, and no tasks/{id}.md, parcels/{id}.md or plans/{id}.md"
    ))
    .hinted(format!("`regatta new {id}` creates one; `regatta add \"PROMPT\" --id {id}` needs no file"))
}
