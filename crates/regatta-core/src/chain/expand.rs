//! Expands a task with a `chain` into its links, each a task of its own.

use std::collections::{BTreeMap, BTreeSet};

use crate::bounds::refusals;
use crate::config::{AgentKind, Config};
use crate::id::TaskId;
use crate::part::{Link, Part};
use crate::spec::TaskSpec;
use crate::verdict::VerdictAdapter;

/// The agent and prompt of a verifier that only runs checks.
const NOBODY: (&str, &str) = ("sh", "true");

/// The input of an expansion.
pub(crate) struct Expanding<'a> {
    pub(crate) config: &'a Config,
    /// Ids already in the store.
    pub(crate) known: &'a BTreeSet<TaskId>,
    /// Called for each mistake with the task of the chain, the message and a hint.
    pub(crate) wrong: &'a mut dyn FnMut(&TaskId, String, Option<String>),
}

/// All tasks, each followed by its links. A task that depends on a build also waits for its last link.
pub(crate) fn expand(specs: Vec<TaskSpec>, with: &mut Expanding<'_>) -> Vec<TaskSpec> {
    let mut taken: BTreeSet<String> = specs.iter().map(|spec| spec.id.folded()).collect();
    let mut last: BTreeMap<TaskId, TaskId> = BTreeMap::new();
    let mut all = Vec::with_capacity(specs.len());
    for spec in specs {
        let Some(Part::Builder { links, .. }) = spec.part.clone() else {
            all.push(spec);
            continue;
        };
        let build = spec.id.clone();
        let mut before: Option<TaskId> = None;
        let mut behind = Vec::new();
        for link in links {
            let Some(id) = link.task(&build) else {
                let what =
                    format!("`{build}` is too long: the links of its chain are named `{build}.{link}`");
                (with.wrong)(&build, what, Some("give it a shorter id".into()));
                continue;
            };
            if !taken.insert(id.folded()) {
                let what = format!("the link `{id}` of its chain has the same id as another task");
                (with.wrong)(&build, what, Some("give the other task a different id".into()));
                continue;
            }
            let Some(task) = of_link(&spec, link, id.clone(), before.as_ref(), with) else { continue };
            behind.push(task);
            before = Some(id);
        }
        last.extend(before.map(|before| (build, before)));
        all.push(spec);
        all.append(&mut behind);
    }
    for spec in &mut all {
        if matches!(spec.part, Some(Part::Link { .. })) {
            continue;
        }
        let stored = |dep: &TaskId| {
            Link::ALL.into_iter().rev().filter_map(|link| link.task(dep)).find(|id| with.known.contains(id))
        };
        let more: Vec<TaskId> =
            spec.deps.iter().filter_map(|dep| last.get(dep).cloned().or_else(|| stored(dep))).collect();
        for dep in more {
            if !spec.deps.contains(&dep) && dep != spec.id {
                spec.deps.push(dep);
            }
        }
    }
    all
}

/// One link. `None` if its agent cannot play the role, which has already been reported.
fn of_link(
    build: &TaskSpec,
    link: Link,
    id: TaskId,
    before: Option<&TaskId>,
    with: &mut Expanding<'_>,
) -> Option<TaskSpec> {
    let config = with.config;
    let role = config.roles.role(link.role());
    let alone = link == Link::Verify && role.agent.is_none();
    if !alone && let Some((what, hint)) = config.unfit(link.role()) {
        (with.wrong)(&build.id, what, Some(hint));
        return None;
    }
    let agent = if alone { NOBODY.0 } else { config.agent_of(link.role()) };
    let (kind, of_agent) = match config.agents.get(agent) {
        Some(agent) => (agent.kind, agent.bounds.clone()),
        None => (AgentKind::Command, Default::default()),
    };
    let read_only = link != Link::Verify;
    let bounds = if alone { Default::default() } else { config.defaults.bounds.clone() };
    if let Some(refused) = refusals(kind, &bounds.on_top_of(&of_agent), read_only).into_iter().next() {
        (with.wrong)(&build.id, format!("the {}: {}", link.role(), refused.why), None);
        return None;
    }
    Some(TaskSpec {
        title: format!("{link}: {}", build.title),
        model: role.model.clone().filter(|_| !alone),
        repo: build.repo.clone(),
        priority: build.priority,
        deps: std::iter::once(build.id.clone()).chain(before.cloned()).collect(),
        read_only,
        bounds,
        env: build.env.clone(),
        checks: if read_only { Vec::new() } else { build.checks.clone() },
        max_attempts: build.max_attempts,
        limits: build.limits,
        verdict_adapter: if alone { VerdictAdapter::ExitCode } else { VerdictAdapter::JsonResult },
        auto_commit: false,
        land: false,
        workdir: build.workdir.clone(),
        assets: build.assets.clone(),
        plan: build.plan.clone(),
        source: build.source.clone(),
        part: Some(Part::Link { chain: build.id.clone(), link }),
        ..TaskSpec::plain(id, agent, if alone { NOBODY.1 } else { &build.prompt })
    })
}
