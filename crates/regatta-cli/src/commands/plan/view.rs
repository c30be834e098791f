//! A proposal's state, and its plan as a graph.

use std::collections::BTreeSet;

use regatta_core::diagnostic::has_errors;
use regatta_core::graph;
use regatta_core::id::TaskId;
use regatta_core::state::TaskState;
use regatta_core::taskfile::Loaded;
use regatta_core::time::counted;
use regatta_engine::plans::{PREFIX, Plans};
use regatta_ops::documents::plans::PlanDocument;
use regatta_store::{Store, StoreError, TaskQuery};

use crate::exit::Exit;
use crate::project::{Project, shown};
use crate::ui::{Style, Ui};
use regatta_ops::Refusal;
use regatta_ops::tasks::parse_for_daemon;

/// The proposal that `text` names: `PLAN-001`, `plan-1` or `1`.
pub(crate) fn find(project: &Project, text: &str) -> Result<TaskId, Refusal> {
    let plans = Plans::of(&project.repo.state_dir);
    let known = plans.ids().map_err(|error| Refusal::io("reading", &project.repo.state_dir, &error))?;
    let digits = text.get(..PREFIX.len()).filter(|head| head.eq_ignore_ascii_case(PREFIX));
    let digits = digits.map_or(text, |_| &text[PREFIX.len()..]);
    let number: Option<u32> = digits.parse().ok();
    let of = |id: &TaskId| id.as_str()[PREFIX.len()..].parse::<u32>().ok();
    known.into_iter().find(|id| number.is_some() && of(id) == number).ok_or_else(|| {
        Refusal::not_found(format!("there is no proposal {text:?}"))
            .hinted("`regatta plan list` shows all proposals, `regatta plan \"GOAL\"` makes one")
    })
}

/// The state of a proposal, and why.
pub(crate) async fn state(
    project: &Project,
    store: &dyn Store,
    id: &TaskId,
) -> Result<(&'static str, Option<String>), Refusal> {
    let plans = Plans::of(&project.repo.state_dir);
    if plans.is_approved(id) {
        return Ok(("approved", None));
    }
    if plans.is_rejected(id) {
        return Ok(("rejected", None));
    }
    let task = match store.task(id).await {
        Ok(task) => task,
        Err(StoreError::NotFound(_)) => {
            return Ok(("failed", Some("its planner was never started".to_owned())));
        }
        Err(error) => return Err(error.into()),
    };
    Ok(match &task.state {
        TaskState::Done { .. } if plans.file(id).exists() => ("proposed", None),
        TaskState::Done { .. } => ("failed", Some("its file is gone".to_owned())),
        state if state.is_settled() => {
            let reason = state.reason().map(|reason| format!(": {reason}")).unwrap_or_default();
            ("failed", Some(format!("its planner is {}{reason}", state.name())))
        }
        state => ("planning", Some(format!("its planner is {}", state.name()))),
    })
}

/// Reads the plan of a proposal, as it is now or as it was approved. `None` if it has no plan yet.
pub(crate) async fn load(
    project: &Project,
    store: &dyn Store,
    id: &TaskId,
) -> Result<Option<Loaded>, Refusal> {
    let plans = Plans::of(&project.repo.state_dir);
    let path = [plans.approved_file(id), plans.file(id)].into_iter().find(|path| path.exists());
    let Some(path) = path else { return Ok(None) };
    let bytes = std::fs::read(&path).map_err(|error| Refusal::io("reading", &path, &error))?;
    let files = [(path, bytes)];
    let known = store.briefs(&TaskQuery::default()).await?.into_iter().map(|task| task.id);
    let known: BTreeSet<TaskId> = known.collect();
    Ok(Some(parse_for_daemon(project, &files, &known)))
}

/// Everything about a proposal, for JSON.
pub(crate) async fn document(
    project: &Project,
    store: &dyn Store,
    id: &TaskId,
) -> Result<(PlanDocument, Option<Loaded>), Refusal> {
    let plans = Plans::of(&project.repo.state_dir);
    let (state, reason) = state(project, store, id).await?;
    let loaded = load(project, store, id).await?;
    let tasks = loaded.as_ref().map(|loaded| loaded.tasks.as_slice()).unwrap_or_default();
    let limits = loaded.as_ref().map(|loaded| loaded.concurrency_limits.clone()).unwrap_or_default();
    let file = if plans.is_approved(id) { plans.approved_file(id) } else { plans.file(id) };
    let document = PlanDocument {
        id: id.clone(),
        goal: plans.goal(id).unwrap_or_default(),
        state,
        reason,
        file: file.exists().then(|| file.display().to_string()),
        tasks: tasks.iter().map(Into::into).collect(),
        stages: graph::stages(tasks, &limits),
        diagnostics: loaded.as_ref().map(|loaded| loaded.diagnostics.clone()).unwrap_or_default(),
    };
    Ok((document, loaded))
}

/// Shows a proposal and what to do with it. An unusable proposal is an error.
pub(crate) async fn show(
    project: &Project,
    store: &dyn Store,
    id: &TaskId,
    ui: &Ui,
) -> Result<Exit, Refusal> {
    let (document, loaded) = document(project, store, id).await?;
    let wrong = has_errors(&document.diagnostics);
    if ui.json {
        ui.document(&document);
    } else {
        print(&document, loaded.as_ref(), ui);
    }
    match (document.state, wrong) {
        ("failed", _) => Ok(Exit::TaskFailed),
        (_, true) => {
            let error = Refusal::diagnosed(if ui.json { Vec::new() } else { document.diagnostics });
            Err(error.hinted(format!(
                "`regatta plan edit {id}` opens it, `regatta reject {id} \"WHY\"` asks for another"
            )))
        }
        _ => Ok(Exit::Ok),
    }
}

fn print(document: &PlanDocument, loaded: Option<&Loaded>, ui: &Ui) {
    let id = &document.id;
    let reason = document.reason.as_ref().map_or_else(String::new, |reason| format!(" ({reason})"));
    ui.line(format!(
        "{} {}{reason}: {}",
        ui.paint(Style::Strong, id.as_str()),
        document.state,
        first_line(&document.goal)
    ));
    if let (Some(loaded), false) = (loaded, document.tasks.is_empty()) {
        let label = |id: &TaskId| {
            let spec = loaded.tasks.iter().find(|spec| spec.id == *id);
            spec.map_or_else(|| id.to_string(), |spec| format!("{id}  ({})  {}", spec.agent, spec.title))
        };
        ui.line("");
        ui.out(&graph::render(&loaded.tasks, label));
        ui.line("");
        let n_tasks = document.tasks.len();
        let plural = if n_tasks == 1 { "" } else { "s" };
        ui.line(format!(
            "{n_tasks} task{plural} in {}; {}",
            counted(document.stages.len(), "stage"),
            file(document)
        ));
    }
    if ui.quiet {
        return;
    }
    match document.state {
        "proposed" => ui.line(format!(
            "`regatta approve {id}` enqueues it, `regatta plan edit {id}` changes it, `regatta reject {id} \"WHY\"` asks for another"
        )),
        "failed" => ui.line(format!("`regatta logs {id}` shows what its planner said, `regatta retry {id}` tries again")),
        _ => {}
    }
}

fn file(document: &PlanDocument) -> String {
    document.file.as_ref().map_or_else(String::new, |file| format!("the plan is {}", shown(file.as_ref())))
}

/// The first line that is not empty, short enough for a list.
pub(crate) fn first_line(text: &str) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let line = line.trim_start_matches('#').trim();
    let line: String = line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    match line.char_indices().nth(100) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}
