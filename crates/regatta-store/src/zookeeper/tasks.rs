//! Reads tasks. Nothing here makes decisions.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use regatta_core::attempt::Attempt;
use regatta_core::id::TaskId;
use regatta_core::part::Part;
use regatta_core::prompt::{Prompt, PromptState};
use regatta_core::spec::TaskSpec;
use regatta_core::state::{StateName, TaskState};
use serde::{Deserialize, Serialize};

use super::look::{Answer, Ask, Look, Seeing};
use super::paths::{self, HELD, QUEUES};
use super::{codec, entries};
use crate::rules::claims::claim_of;
use crate::rules::record::{Fate, Folded, Key, Task, folded};
use crate::stored::{attempt_of, count_names, from_json, shown_state, spec_and_state, spec_of, to_json};
use crate::{Claim, Reported, Result, SessionId, SessionInfo, StoreError, TaskBrief, TaskQuery, TaskRecord};

/// What a list shows of a task's spec, which is long.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct BriefText {
    title: String,
    agent: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    labels: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(deserialize_with = "part")]
    part: Option<Part>,
    read_only: bool,
    /// What its attempts use counts against the budget of this plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) plan: Option<String>,
}

/// A list is complete without a part that only a newer version knows.
fn part<'de, D: serde::Deserializer<'de>>(stored: D) -> std::result::Result<Option<Part>, D::Error> {
    let stored: Option<serde_json::Value> = Option::deserialize(stored)?;
    Ok(stored.and_then(|stored| serde_json::from_value(stored).ok()))
}

pub(super) fn brief_text(spec: &TaskSpec) -> String {
    to_json(&BriefText {
        title: spec.title.clone(),
        agent: spec.agent.clone(),
        labels: spec.labels.clone(),
        part: spec.part.clone(),
        read_only: spec.read_only,
        plan: spec.plan.as_ref().map(ToString::to_string),
    })
}

pub(super) fn brief_of(text: &str) -> Result<BriefText> {
    from_json("what a list shows of a task", text)
}

/// How many tasks are read at once from a long list.
const PAGE: usize = 2000;

/// The tasks with these names, as far as they exist.
pub(super) async fn read(look: &Look<'_>, names: &[Folded]) -> Seeing<Vec<(Folded, Task)>> {
    let asks: Vec<Ask> = names.iter().map(|name| Ask::Data(paths::task(name))).collect();
    let mut found = Vec::new();
    for (name, answer) in names.iter().zip(look.read(&asks).await?) {
        if let Some((text, _)) = answer.data() {
            found.push((Arc::clone(name), codec::task(&text)?));
        }
    }
    Ok(found)
}

fn missing(task: &TaskId) -> StoreError {
    StoreError::NotFound(format!("task {task}"))
}

pub(super) async fn task(look: &Look<'_>, id: &TaskId) -> Seeing<TaskRecord> {
    let found = read(look, &[folded(id)]).await?;
    let found = records(look, found).await?;
    found.into_iter().next().ok_or_else(|| missing(id).into())
}

pub(super) async fn tasks(look: &Look<'_>, wanted: &TaskQuery) -> Seeing<Vec<TaskRecord>> {
    let found = chosen(look, wanted).await?;
    records(look, found).await
}

pub(super) async fn briefs(look: &Look<'_>, wanted: &TaskQuery) -> Seeing<Vec<TaskBrief>> {
    let found = chosen(look, wanted).await?;
    let waiting = waiting_on(look, &found).await?;
    let steps = steps(look, &found).await?;
    let mut asks = Vec::new();
    for (name, task) in &found {
        asks.push(Ask::Data(paths::brief(name)));
        asks.push(Ask::Data(paths::confined(name, task.attempts)));
    }
    let mut answers = look.read(&asks).await?.into_iter();
    let mut briefs = Vec::with_capacity(found.len());
    for ((name, task), waiting_on) in found.into_iter().zip(waiting) {
        let brief = match answers.next().and_then(Answer::data) {
            Some((text, _)) => brief_of(&text)?,
            None => BriefText::default(),
        };
        let confined = answers.next().and_then(Answer::data);
        briefs.push(TaskBrief {
            id: task.id,
            title: brief.title,
            agent: brief.agent,
            labels: brief.labels,
            part: brief.part,
            priority: task.priority,
            read_only: brief.read_only,
            state: shown_state(task.state, steps.get(&name).map(String::as_str)),
            attempts: task.attempts,
            waiting_on,
            sandbox: confined.and_then(|(text, _)| entries::read_confinement(&text)),
            updated_at: task.updated_at,
        });
    }
    Ok(briefs)
}

/// The tasks of a query, in order of arrival.
async fn chosen(look: &Look<'_>, wanted: &TaskQuery) -> Seeing<Vec<(Folded, Task)>> {
    let prefix = wanted.prefix.as_ref().map(|prefix| prefix.to_ascii_lowercase());
    let fits = |name: &Folded, task: &Task| {
        wanted.after.is_none_or(|after| task.seq > after)
            && wanted.queue.as_ref().is_none_or(|queue| task.queue == *queue)
            && (wanted.states.is_empty() || wanted.states.contains(&task.state.kind()))
            && prefix.as_ref().is_none_or(|prefix| name.starts_with(prefix))
    };
    let names: Vec<Folded> = match &wanted.ids {
        Some(ids) => {
            let mut known = HashSet::new();
            ids.iter().map(folded).filter(|name| known.insert(Arc::clone(name))).collect()
        }
        None => {
            let mut names = listed(look, wanted.queue.as_deref(), &wanted.states).await?;
            names.retain(|(seq, name)| {
                wanted.after.is_none_or(|after| *seq > after)
                    && prefix.as_ref().is_none_or(|prefix| name.starts_with(prefix))
            });
            names.sort_unstable();
            names.dedup();
            names.into_iter().map(|(_, name)| name).collect()
        }
    };
    // The first to arrive are enough, unless the order has to be another.
    let is_in_order = wanted.ids.is_none() && !wanted.latest;
    let enough = if is_in_order && wanted.limit > 0 { wanted.limit } else { usize::MAX };
    let mut found: Vec<(Folded, Task)> = Vec::new();
    let mut rest = names.as_slice();
    while !rest.is_empty() && found.len() < enough {
        let (page, more) = rest.split_at(rest.len().min(PAGE.min(enough)));
        found.extend(read(look, page).await?.into_iter().filter(|(name, task)| fits(name, task)));
        rest = more;
    }
    found.sort_by_key(|(_, task)| task.seq);
    if wanted.limit > 0 && found.len() > wanted.limit {
        if wanted.latest {
            found.sort_by_key(|(_, task)| std::cmp::Reverse((task.updated_at, task.seq)));
        }
        found.truncate(wanted.limit);
        found.sort_by_key(|(_, task)| task.seq);
    }
    Ok(found)
}

/// Names of states with their directories.
type Directories = Vec<(String, String)>;

/// How many queues are read by one request: then a task that changes its state meanwhile is in one of its queue's
/// directories.
const QUEUES_AT_ONCE: usize = 25;

/// The directories of the queues' states, in parts that one request reads.
async fn state_directories(
    look: &Look<'_>,
    queue: Option<&str>,
    states: &[StateName],
) -> Seeing<Vec<Directories>> {
    let queues = match queue {
        Some(queue) => vec![queue.to_owned()],
        None => look.names(QUEUES).await?.iter().map(|name| paths::text(name)).collect(),
    };
    // States that only a newer version knows are shown as blocked.
    let is_wanted =
        |state: &String| states.is_empty() || states.contains(&state.parse().unwrap_or(StateName::Blocked));
    if !states.is_empty() && !states.contains(&StateName::Blocked) {
        let of = |queue: &String| {
            let directory = |state: &StateName| (state.to_string(), entries::in_state(queue, state.as_str()));
            states.iter().map(directory).collect::<Vec<_>>()
        };
        return Ok(queues
            .chunks(QUEUES_AT_ONCE)
            .map(|queues| queues.iter().flat_map(of).collect())
            .collect());
    }
    // Including states that only a newer version knows.
    let asks: Vec<Ask> = queues.iter().map(|queue| Ask::Names(entries::states(queue))).collect();
    let mut directories: Vec<Directories> = Vec::new();
    for (n, (queue, answer)) in queues.iter().zip(look.read(&asks).await?).enumerate() {
        if n % QUEUES_AT_ONCE == 0 {
            directories.push(Vec::new());
        }
        let states = answer.names().into_iter().map(|name| paths::text(&name)).filter(is_wanted);
        if let Some(part) = directories.last_mut() {
            part.extend(
                states
                    .map(|state| (entries::in_state(queue, &state), state))
                    .map(|(path, state)| (state, path)),
            );
        }
    }
    Ok(directories)
}

/// The tasks that entries tell of, by their numbers.
async fn listed(look: &Look<'_>, queue: Option<&str>, states: &[StateName]) -> Seeing<Vec<(u64, Folded)>> {
    let mut names = Vec::new();
    for directories in state_directories(look, queue, states).await? {
        let asks: Vec<Ask> = directories.into_iter().map(|(_, directory)| Ask::Names(directory)).collect();
        for answer in look.read(&asks).await? {
            names.extend(answer.names().iter().filter_map(|name| entries::read_in_state(name)));
        }
    }
    Ok(names)
}

pub(super) async fn counts(look: &Look<'_>, queue: Option<&str>) -> Seeing<Vec<(StateName, u64)>> {
    let mut counts: Vec<(String, u64)> = Vec::new();
    for directories in state_directories(look, queue, &[]).await? {
        let asks: Vec<Ask> = directories.iter().map(|(_, directory)| Ask::Data(directory.clone())).collect();
        for ((state, _), answer) in directories.into_iter().zip(look.read(&asks).await?) {
            let Some((_, stat)) = answer.data() else { continue };
            counts.push((state, u64::try_from(stat.num_children).unwrap_or(0)));
        }
    }
    Ok(count_names(counts))
}

/// Tasks with their specs.
async fn records(look: &Look<'_>, found: Vec<(Folded, Task)>) -> Seeing<Vec<TaskRecord>> {
    let waiting = waiting_on(look, &found).await?;
    let specs = specs(look, found.iter().map(|(name, _)| name)).await?;
    let steps = steps(look, &found).await?;
    let mut records = Vec::with_capacity(found.len());
    for (((name, task), waiting_on), spec) in found.into_iter().zip(waiting).zip(specs) {
        let step = steps.get(&name).map(String::as_str);
        let (spec, state) = spec_and_state(&task.id, &spec, task.state, step)?;
        records.push(TaskRecord {
            spec,
            waiting_on,
            seq: task.seq,
            state,
            queue: task.queue,
            attempts: task.attempts,
            charged: task.charged,
            environment_failures: task.environment_failures,
            session: task.session,
            fence: task.fence,
            cancel_asked: task.cancel_asked,
            interrupt_asked: task.interrupt_asked,
            standing: task.standing,
            created_at: task.created_at,
            updated_at: task.updated_at,
        });
    }
    Ok(records)
}

/// The specs of tasks that exist, as they are stored.
pub(super) async fn specs(look: &Look<'_>, names: impl Iterator<Item = &Folded>) -> Seeing<Vec<String>> {
    let names: Vec<&Folded> = names.collect();
    let asks: Vec<Ask> =
        names.iter().map(|name| Ask::Data(paths::record(&Key::Spec(Arc::clone(name))))).collect();
    let mut specs = Vec::with_capacity(names.len());
    for (name, answer) in names.iter().zip(look.read(&asks).await?) {
        let Some((text, _)) = answer.data() else {
            return Err(StoreError::Corrupt(format!("the spec of {name} is missing")).into());
        };
        specs.push(text);
    }
    Ok(specs)
}

/// The steps of the cars of those tasks that are in the train, as they are stored.
async fn steps(look: &Look<'_>, found: &[(Folded, Task)]) -> Seeing<HashMap<Folded, String>> {
    let landing = found.iter().filter(|(_, task)| matches!(task.state, TaskState::Landing { .. }));
    let names: Vec<&Folded> = landing.map(|(name, _)| name).collect();
    if names.is_empty() {
        return Ok(HashMap::new());
    }
    let asks: Vec<Ask> =
        names.iter().map(|name| Ask::Data(paths::record(&Key::Car(Arc::clone(name))))).collect();
    let mut steps = HashMap::new();
    for (name, answer) in names.into_iter().zip(look.read(&asks).await?) {
        let Some((text, _)) = answer.data() else { continue };
        let car: codec::CarText<'_> = from_json("a car", &text)?;
        steps.insert(Arc::clone(name), car.step.get().to_owned());
    }
    Ok(steps)
}

/// For each task, the dependencies that are not met.
async fn waiting_on(look: &Look<'_>, found: &[(Folded, Task)]) -> Seeing<Vec<Vec<TaskId>>> {
    let waiting: Vec<&Folded> =
        found.iter().filter(|(_, task)| task.unmet > 0).map(|(name, _)| name).collect();
    let asks: Vec<Ask> =
        waiting.iter().map(|name| Ask::Data(paths::record(&Key::Deps(Arc::clone(name))))).collect();
    let mut parents: HashMap<&Folded, Vec<Folded>> = HashMap::new();
    for (name, answer) in waiting.iter().zip(look.read(&asks).await?) {
        if let Some((text, _)) = answer.data() {
            parents.insert(name, codec::parents(&text)?);
        }
    }
    let mut known: HashMap<Folded, Task> = found.iter().cloned().collect();
    let mut unknown: Vec<Folded> =
        parents.values().flatten().filter(|parent| !known.contains_key(*parent)).cloned().collect();
    unknown.sort_unstable();
    unknown.dedup();
    known.extend(read(look, &unknown).await?);
    let of = |name: &Folded| {
        let mut open: Vec<&Task> = parents
            .get(name)
            .into_iter()
            .flatten()
            .filter_map(|parent| known.get(parent))
            .filter(|parent| parent.fate() != Fate::Met)
            .collect();
        open.sort_by_key(|parent| parent.seq);
        open.into_iter().map(|parent| parent.id.clone()).collect()
    };
    Ok(found.iter().map(|(name, _)| of(name)).collect())
}

/// The names below tasks; `None` for those that do not exist.
async fn names_below(look: &Look<'_>, tasks: &[Folded]) -> Seeing<Vec<Option<Vec<String>>>> {
    let asks: Vec<Ask> = tasks.iter().map(|task| Ask::Names(paths::task(task))).collect();
    let answers = look.read(&asks).await?.into_iter();
    Ok(answers.map(|answer| if let Answer::Names(names) = answer { Some(names) } else { None }).collect())
}

pub(super) async fn attempts_of(look: &Look<'_>, tasks: &[TaskId]) -> Seeing<Vec<(TaskId, Vec<Attempt>)>> {
    let names: Vec<Folded> = tasks.iter().map(folded).collect();
    let (mut found, mut asks) = (Vec::new(), Vec::new());
    for ((task, name), below) in tasks.iter().zip(&names).zip(names_below(look, &names).await?) {
        let Some(below) = below else { continue };
        let numbers = entries::read_numbers(&below, 'a');
        asks.extend(numbers.iter().map(|n| Ask::Data(paths::record(&Key::Attempt(Arc::clone(name), *n)))));
        found.push((task.clone(), numbers.len()));
    }
    let mut answers = look.read(&asks).await?.into_iter();
    let mut attempts = Vec::new();
    for (task, count) in found {
        let mut of_task = Vec::new();
        for answer in answers.by_ref().take(count) {
            if let Some((text, _)) = answer.data() {
                of_task.push(attempt_of(&format!("an attempt of {task}"), &text)?.0);
            }
        }
        attempts.push((task, of_task));
    }
    Ok(attempts)
}

pub(super) async fn attempts(look: &Look<'_>, task: &TaskId) -> Seeing<Vec<Attempt>> {
    let found = attempts_of(look, std::slice::from_ref(task)).await?;
    found.into_iter().next().map(|(_, attempts)| attempts).ok_or_else(|| missing(task).into())
}

pub(super) async fn prompts(look: &Look<'_>, task: &TaskId) -> Seeing<Vec<Prompt>> {
    let found = prompts_of(look, &[folded(task)]).await?;
    found.into_iter().next().flatten().ok_or_else(|| missing(task).into())
}

/// The prompts of tasks; `None` for those that do not exist.
async fn prompts_of(look: &Look<'_>, tasks: &[Folded]) -> Seeing<Vec<Option<Vec<Prompt>>>> {
    let (mut counts, mut asks) = (Vec::new(), Vec::new());
    for (name, below) in tasks.iter().zip(names_below(look, tasks).await?) {
        let numbers = below.map(|below| entries::read_numbers(&below, 'p'));
        let keys = numbers.iter().flatten().map(|n| Key::Prompt(Arc::clone(name), *n));
        asks.extend(keys.map(|key| Ask::Data(paths::record(&key))));
        counts.push(numbers.map(|numbers| numbers.len()));
    }
    let mut answers = look.read(&asks).await?.into_iter();
    let mut found = Vec::new();
    for count in counts {
        let mut prompts = Vec::new();
        for answer in answers.by_ref().take(count.unwrap_or(0)) {
            if let Some((text, _)) = answer.data() {
                prompts.push(codec::prompt(&text)?.prompt);
            }
        }
        found.push(count.map(|_| prompts));
    }
    Ok(found)
}

pub(super) async fn reported(look: &Look<'_>, task: &TaskId, attempt: u32) -> Seeing<Reported> {
    let name = folded(task);
    let report = paths::record(&Key::Report(Arc::clone(&name), attempt));
    let mut answers = look.read(&[Ask::Data(paths::task(&name)), Ask::Data(report)]).await?.into_iter();
    if answers.next().and_then(Answer::data).is_none() {
        return Err(missing(task).into());
    }
    let Some((text, _)) = answers.next().and_then(Answer::data) else { return Ok(Reported::default()) };
    let said = codec::said(&text)?;
    let statement = said.statement.map(|body| from_json("a verdict", &body)).transpose()?;
    Ok(Reported { statement, stuck: said.stuck })
}

/// The tasks that sessions hold.
pub(super) async fn held(look: &Look<'_>) -> Seeing<Vec<(Folded, SessionId)>> {
    Ok(look.names(HELD).await?.iter().filter_map(|name| entries::read_held(name)).collect())
}

/// The claims of a session, in the order in which their tasks arrived.
pub(super) async fn claims_of(look: &Look<'_>, session: &SessionId) -> Seeing<Vec<Claim>> {
    let names = held(look).await?.into_iter().filter(|(_, by)| by == session).map(|(task, _)| task);
    let mut found = read(look, &names.collect::<Vec<Folded>>()).await?;
    found.retain(|(_, task)| task.session.as_ref() == Some(session));
    found.sort_by_key(|(_, task)| task.seq);
    let specs = specs(look, found.iter().map(|(name, _)| name)).await?;
    let prompts =
        prompts_of(look, &found.iter().map(|(name, _)| Arc::clone(name)).collect::<Vec<_>>()).await?;
    let mut claims = Vec::new();
    for (((_, task), spec), prompts) in found.iter().zip(specs).zip(prompts) {
        // What only a newer version can read is left to that version.
        let spec = spec_of(&format!("the spec of {}", task.id), &spec)?;
        let Some(spec) = spec.filter(|_| !task.state.is_newer()) else { continue };
        let taken = prompts.into_iter().flatten().find(|prompt| prompt.state == PromptState::Taken);
        claims.push(claim_of(task, spec, taken)?);
    }
    Ok(claims)
}

/// All open sessions, by id.
pub(super) async fn sessions(look: &Look<'_>) -> Seeing<Vec<SessionInfo>> {
    let mut ids: Vec<SessionId> =
        look.names(paths::OPEN).await?.iter().map(|name| SessionId(paths::text(name))).collect();
    ids.sort();
    let asks: Vec<Ask> = ids
        .iter()
        .flat_map(|id| [Key::Session(id.clone()), Key::Beat(id.clone())])
        .map(|key| Ask::Data(paths::record(&key)))
        .collect();
    let mut answers = look.read(&asks).await?.into_iter();
    let mut sessions = Vec::new();
    for session in ids {
        let (found, beat) = (answers.next().and_then(Answer::data), answers.next().and_then(Answer::data));
        let (Some((found, _)), Some((beat, _))) = (found, beat) else { continue };
        let node = codec::session(&found)?.node;
        sessions.push(SessionInfo { session, node, beat: codec::number(&beat)? });
    }
    Ok(sessions)
}
