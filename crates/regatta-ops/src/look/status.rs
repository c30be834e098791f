//! Everything about one task, and what to do next.

use std::path::Path;

use regatta_core::attempt::Attempt;
use regatta_core::budget::{Account, Scope, Spent};
use regatta_core::event::{Event, EventBody};
use regatta_core::id::TaskId;
use regatta_core::prompt::Prompt;
use regatta_core::radar::{Other, Sighting};
use regatta_core::report::Landing;
use regatta_core::spec::TaskSpec;
use regatta_core::state::TaskState;
use regatta_core::suspicion::Suspicion;
use regatta_engine::clock;
use regatta_engine::git::{Salvage, salvages_of};
use regatta_engine::holds::why_held;
use regatta_engine::landing::target::is_taken_back;
use regatta_engine::radar::last_sighting;
use regatta_engine::session::is_certainly_dead;
use regatta_engine::suspicions::open_suspicions;
use regatta_engine::travel::is_elsewhere;
use regatta_store::{MAIN_QUEUE, SpendQuery, Spending, Store, TaskRecord};

use super::tasks::{document_of, is_over};
use crate::documents::{
    BudgetDocument, MarkDocument, PromptDocument, SalvageDocument, StatusDocument, Surroundings,
};
use crate::nodes::held_elsewhere;
use crate::project::Project;
use crate::refusal::Refusal;
use crate::secrets::redactor;
use crate::step::Step;
use crate::tasks::next::{Next, heir, next};
use crate::when::ago;

/// The most events to read of one task.
const MOST_EVENTS: usize = 100_000;

/// All details of a task.
pub struct TaskDetails {
    /// Its attempts, oldest first.
    pub attempts: Vec<Attempt>,
    /// Its saved work.
    pub salvages: Vec<Salvage>,
    /// Why it is ready but not started.
    pub held: Option<String>,
    /// The last scan of the radar, unless the task has ended.
    pub sighting: Option<Sighting>,
    /// Its follow-up prompts.
    pub prompts: Vec<Prompt>,
    /// Why its running agent may need a person.
    pub suspicions: Vec<Suspicion>,
    /// Its budget, and what it has used of it.
    pub budget: Option<Account>,
    /// Every landing of its work.
    pub landings: Vec<Landing>,
    /// What the user should do next, in a sentence.
    pub next: Option<String>,
    /// The actions that its state allows, the most useful first.
    pub next_steps: Vec<Step>,
}

/// Reads all details of a task.
pub async fn look(project: &Project, store: &dyn Store, task: &TaskRecord) -> Result<TaskDetails, Refusal> {
    let attempts = store.attempts(&task.spec.id).await?;
    let id = task.spec.id.clone();
    // `status` answers even while git hangs.
    let salvages = project.ask_git(move |repo| salvages_of(repo, &id))?.unwrap_or_default();
    let sessions = store.sessions().await?;
    let alive = |session: &str| {
        sessions.iter().any(|info| info.session.0 == session && !is_certainly_dead(&info.node))
    };
    let held = match &task.state {
        TaskState::Pending { .. } => match why_held(&project.repo.state_dir, &task.spec.id, alive) {
            Some(why) => Some(why),
            None => held_elsewhere(store, alive).await?.remove(&task.spec.id),
        },
        _ => None,
    };
    let holder = sessions.iter().find(|info| Some(&info.session) == task.session.as_ref());
    let orphaned = holder.is_some_and(|info| is_certainly_dead(&info.node));
    let Next { acts, advice } = next(task, !attempts.is_empty());
    let next_steps = acts.iter().map(|act| Step::Act { act: *act, task: task.spec.id.clone() }).collect();
    let next = if orphaned {
        let who = if task.queue == MAIN_QUEUE { "daemon" } else { "run" };
        Some(format!("the {who} that held it is gone: {} takes it over", heir(task)))
    } else {
        taken_back(project, store, task).await?.or(advice)
    };
    let mut sighting = last_sighting(&project.repo.state_dir).filter(|_| !is_over(&task.state));
    if let Some(sighting) = &mut sighting {
        forget_what_is_over(store, sighting, &task.spec.id).await?;
    }
    let prompts = store.prompts(&task.spec.id).await?;
    let suspicions = match &task.state {
        TaskState::Running { .. } => open_suspicions(store, &task.spec.id, task.attempts).await?,
        _ => Vec::new(),
    };
    let budget = budget(store, project, &task.spec).await?;
    let landings = landings(store, &task.spec.id).await?;
    Ok(TaskDetails {
        attempts,
        salvages,
        held,
        sighting,
        prompts,
        suspicions,
        budget,
        landings,
        next,
        next_steps,
    })
}

/// The same as a document, with secrets masked.
pub async fn document(
    project: &Project,
    store: &dyn Store,
    task: &TaskRecord,
) -> Result<StatusDocument, Refusal> {
    let seen = look(project, store, task).await?;
    let redactor = redactor(&project.config);
    let shown = |prompt: &Prompt| PromptDocument::new(prompt, redactor.redact(&prompt.text).into_owned());
    let surroundings = Surroundings {
        lane: lane(seen.attempts.last()).map(Path::to_owned),
        salvage: seen.salvages.iter().map(salvage_document).collect(),
        held: seen.held,
        radar: seen.sighting.iter().flat_map(|seen| MarkDocument::of(seen, &task.spec.id)).collect(),
        prompts: seen.prompts.iter().map(shown).collect(),
        suspicions: seen.suspicions,
        landings: seen.landings,
        next: seen.next,
        next_steps: seen.next_steps,
        budget: seen.budget.as_ref().map(BudgetDocument::from),
    };
    let mut document = StatusDocument::new(task, &seen.attempts, surroundings);
    if let Some(listed) = document_of(project, store, &task.spec.id).await? {
        document.doing = listed.doing;
        document.cost_usd = listed.cost_usd;
        document.under_test_since = listed.under_test_since;
    }
    Ok(document)
}

/// Landed work that is no longer on the target.
async fn taken_back(
    project: &Project,
    store: &dyn Store,
    task: &TaskRecord,
) -> Result<Option<String>, Refusal> {
    let Ok(project) = &project.of_task(&task.spec) else { return Ok(None) };
    let (TaskState::Landed { commit, .. }, Ok(target)) = (&task.state, project.target()) else {
        return Ok(None);
    };
    if !is_taken_back(&project.repo, &target, commit) {
        return Ok(None);
    }
    let noted = |event: &Event| match &event.body {
        EventBody::TakenBack { .. } => Some(event.at),
        _ => None,
    };
    let events = store.events(0, Some(&task.spec.id), MOST_EVENTS).await?;
    let since = events.iter().rev().find_map(noted);
    let since = since.map_or_else(String::new, |at| format!(" (seen {})", ago(at, clock::now())));
    let commit = commit.short();
    Ok(Some(format!(
        "taken back: its commit is no longer on {target}{since}; `git cherry-pick {commit}` brings it back"
    )))
}

/// Its budget, and what it has used of it.
async fn budget(store: &dyn Store, project: &Project, spec: &TaskSpec) -> Result<Option<Account>, Refusal> {
    let ceiling = spec.budget.or(project.config.budget.task);
    if ceiling.is_open() {
        return Ok(None);
    }
    let query =
        SpendQuery { tasks: Some(vec![spec.id.clone()]), since_restart: true, ..SpendQuery::default() };
    let sums = store.spending(&query).await?;
    let spent = sums.iter().map(Spending::spent).fold(Spent::default(), |sum, more| sum + more);
    Ok(Some(Account::new(Scope::Task(spec.id.clone()), ceiling, spent)))
}

/// Removes findings about tasks that have ended since.
async fn forget_what_is_over(
    store: &dyn Store,
    sighting: &mut Sighting,
    task: &TaskId,
) -> Result<(), Refusal> {
    let others: Vec<Other> = sighting.about(task).map(|(other, _)| other).collect();
    for other in others {
        let Other::Task(other) = other else { continue };
        if store.task(&other).await.is_ok_and(|record| is_over(&record.state)) {
            sighting.findings.retain(|finding| finding.other(&other).is_none());
        }
    }
    Ok(())
}

fn salvage_document(salvage: &Salvage) -> SalvageDocument {
    SalvageDocument {
        reference: salvage.name.clone(),
        commit: salvage.oid.clone(),
        why: salvage.subject.clone(),
    }
}

/// The directory of the last attempt, if it exists here.
pub fn lane(last: Option<&Attempt>) -> Option<&Path> {
    let here = last.filter(|attempt| !is_elsewhere(attempt));
    here.and_then(|attempt| attempt.lane.as_deref()).filter(|lane| lane.is_dir())
}

/// The machine and the directory of the last attempt, if that was in another clone.
pub fn lane_elsewhere(last: Option<&Attempt>) -> Option<String> {
    let last = last.filter(|attempt| is_elsewhere(attempt))?;
    Some(format!("{}:{}", last.place.as_ref()?.node, last.lane.as_ref()?.display()))
}

/// Every landing of this task.
pub async fn landings(store: &dyn Store, id: &TaskId) -> Result<Vec<Landing>, Refusal> {
    let mut found = Vec::new();
    let mut after = 0;
    loop {
        let events = store.events(after, Some(id), 1000).await?;
        let Some(last) = events.last() else { return Ok(found) };
        after = last.seq;
        found.extend(Landing::among(&events));
    }
}
