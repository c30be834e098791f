//! A task in Regatta's own format: a task file, or an entry of a plan.

use std::path::PathBuf;

use crate::config::fields::{Fields, Spot};
use crate::config::reading::Reading;
use crate::config::task_keys::{self, KeyPlace as Keys};
use crate::config::yaml::{Node, quoted};
use crate::diagnostic::{Pos, Report};
use crate::id::TaskId;
use crate::part::Part;
use crate::spec::{TaskSpec, TimeLimits};
use crate::writes::WritePath;

use super::draft::{self, Draft, FileReading, SourcePlace};
use super::frontmatter::Halves;
use super::title::title;

/// What a plan sets for all its tasks.
#[derive(Default)]
pub(super) struct Common<'a> {
    pub(super) plan: Option<String>,
    pub(super) defaults: Option<&'a Fields>,
    pub(super) workdir: PathBuf,
}

/// Parses a task file: the frontmatter has the keys, the body is the prompt.
pub(super) fn read_file(
    node: &Node,
    halves: &Halves,
    place: SourcePlace<'_>,
    report: &mut Report,
) -> FileReading {
    let (body, end) = (halves.body.as_str(), halves.end);
    let n_errors = count_errors(report);
    if let Some(entry) = node.entry("prompt") {
        let message = if body.trim().is_empty() {
            "`prompt` belongs in plans; in a task file the body is the prompt"
        } else {
            "`prompt` and a body are both present; in a task file the body is the prompt"
        };
        report.error(entry.key_pos, "prompt", message).hint =
            Some("move its text below the second `---`".into());
    } else if body.trim().is_empty() {
        report.error(end, "prompt", "has no prompt: there is nothing below the second `---`");
    } else if body.contains('\0') {
        report.error(end, "prompt", "the prompt contains a NUL character");
    }
    let keys = task_keys::in_place(Keys::TaskFile);
    let Some(mut fields) = Reading::STRICT.section(&node.without("prompt"), "", &keys, report) else {
        return FileReading::default();
    };
    fields.pos = Pos::START;
    let mut id = draft::id(&fields, report);
    if fields.lacks("id") {
        let stem = place.source.stem();
        match TaskId::parse(stem) {
            Ok(value) => id = Some(Spot { pos: Pos::START, value }),
            Err(why) => {
                let message = format!("has no `id`, and the file's name {stem:?} {why}");
                report.error(Pos::START, "id", message).hint =
                    Some("add a line such as `id: my-task`".into());
            }
        }
    }
    let prompt = body.trim_start_matches('\n').trim_end().to_owned();
    let draft = complete(id, Some(prompt), &fields, &Common::default(), n_errors, place, report);
    FileReading { drafts: vec![draft], ..FileReading::default() }
}

/// Parses an entry of a plan.
pub(super) fn read_entry(
    node: &Node,
    path: &str,
    common: &Common<'_>,
    place: SourcePlace<'_>,
    report: &mut Report,
) -> Option<Draft> {
    let n_errors = count_errors(report);
    let keys = task_keys::in_place(Keys::PlanTask);
    let fields = Reading::STRICT.section(node, path, &keys, report)?;
    let id = draft::id(&fields, report);
    if fields.lacks("id") {
        let message = "the task has no `id`";
        report.error(fields.pos, &fields.path_of("id"), message).hint =
            Some("add a line such as `id: my-task`".into());
    }
    let prompt = fields.text("prompt").map(str::to_owned);
    if fields.lacks("prompt") || prompt.as_deref().is_some_and(|prompt| prompt.trim().is_empty()) {
        let who = fields.text("id").map_or_else(String::new, |id| format!(" {}", quoted(id)));
        let message = format!("the task{who} has no `prompt`");
        report.error(fields.pos_of("prompt"), &fields.path_of("prompt"), message);
    }
    Some(complete(id, prompt, &fields, common, n_errors, place, report))
}

/// Fills in what the task leaves out: from the plan, then from the configuration.
fn complete(
    id: Option<Spot<TaskId>>,
    prompt: Option<String>,
    fields: &Fields,
    common: &Common<'_>,
    n_errors: usize,
    place: SourcePlace<'_>,
    report: &mut Report,
) -> Draft {
    let settings = place.settings;
    let config = settings.config;
    let layers: Vec<&Fields> = std::iter::once(fields).chain(common.defaults).collect();
    let text = |name: &str| layers.iter().find_map(|fields| fields.text(name)).map(str::to_owned);
    let flag = |name: &str| layers.iter().find_map(|fields| fields.bool(name));
    let span = |name: &str| layers.iter().find_map(|fields| fields.duration(name));

    let repo = match (fields.lacks("repo"), common.defaults) {
        // The plan reports its own mistakes.
        (true, Some(defaults)) => draft::repo(defaults, config, &mut Report::new("")),
        _ => draft::repo(fields, config, report),
    };
    let deps = draft::deps(fields, "deps", report);
    let mut writes =
        draft::writes(fields, report, |text| WritePath::parse(text).map(Some).map_err(|why| why.to_string()));
    if let Some(repo) = &repo {
        writes.iter_mut().for_each(|place| place.value = place.value.in_repo(repo));
    }
    // The plan reports its own mistakes; here only its group matters.
    let group = draft::group(fields, report).or_else(|| {
        let defaults = common.defaults.filter(|_| fields.lacks("concurrency_group"))?;
        draft::group(defaults, &mut Report::new(""))
    });
    let requires = draft::requires(fields, report).or_else(|| {
        let defaults = common.defaults.filter(|_| fields.lacks("requires"))?;
        draft::requires(defaults, &mut Report::new(""))
    });
    let attempts = draft::attempts(fields, report);
    let attempts = attempts.or_else(|| draft::attempts(common.defaults?, &mut Report::new("")));
    let links = draft::links(&layers);
    let chained = !links.is_empty();
    let builder = config.roles.builder.agent.as_deref().filter(|_| chained);
    let agent =
        match (fields.text("agent"), common.defaults.and_then(|defaults| defaults.text("agent")).or(builder))
        {
            (None, Some(name)) => {
                draft::agent(Some((name, fields.pos)), fields, settings, &mut Report::new(""))
            }
            (named, _) => {
                draft::agent(named.map(|name| (name, fields.pos_of("agent"))), fields, settings, report)
            }
        };

    let read_only = flag("read_only").unwrap_or(false);
    let bounds = draft::bounds(&layers, config, repo.as_ref(), agent.as_ref(), read_only, report);
    let mut checks = draft::checks(&layers, config);
    if read_only {
        draft::warn_read_only(fields, report);
        writes.clear();
    }
    if read_only || fields.bool("verification_enabled") == Some(false) {
        checks.clear();
    }
    let land = match fields.bool("auto_land") {
        Some(land) => land,
        None if settings.no_land => false,
        None => flag("auto_land").or(config.land_auto(repo.as_ref())).unwrap_or(settings.land_by_default),
    };
    if checks.iter().any(|check| check.trim().is_empty()) {
        report.error(fields.pos_of("checks"), &fields.path_of("checks"), "a check is empty");
    }
    let part = chained.then_some(Part::Builder { links, lands: land && !read_only });
    if chained && read_only {
        let message = "a read-only task changes nothing that a chain could judge";
        report.error(fields.pos_of("chain"), &fields.path_of("chain"), message).hint =
            Some("remove `chain` or `read_only`".into());
    }
    let landing = draft::landing(&layers, fields, report);
    let whole = count_errors(report) == n_errors;
    let spec = match (&id, prompt, agent) {
        (Some(id), Some(prompt), Some((agent, kind))) if whole => Some(TaskSpec {
            id: id.value.clone(),
            title: title(fields.text("title"), &prompt),
            prompt,
            repo,
            agent,
            model: text("model").or_else(|| config.roles.builder.model.clone().filter(|_| chained)),
            labels: draft::labels(&layers),
            budget: draft::budget(&layers),
            persona: text("persona"),
            priority: layers
                .iter()
                .find_map(|fields| fields.int("priority"))
                .and_then(|n| n.try_into().ok())
                .unwrap_or(0),
            deps: deps.iter().map(|dep| dep.value.clone()).collect(),
            writes: writes.iter().map(|path| path.value.clone()).collect(),
            concurrency_group: group.as_ref().map(|group| group.value.clone()),
            requires: requires.unwrap_or_else(|| config.defaults.requires.clone()),
            read_only,
            bounds,
            env: draft::env(&layers, config),
            checks,
            max_attempts: attempts.unwrap_or(config.defaults.max_attempts),
            limits: TimeLimits {
                total: span("timeout").unwrap_or(config.defaults.timeout),
                first_output: span("first_output_timeout").unwrap_or(config.defaults.first_output_timeout),
                idle: span("idle_timeout").unwrap_or(config.defaults.idle_timeout),
            },
            verdict_adapter: draft::verdict_adapter(&layers, config, kind),
            auto_commit: flag("auto_commit").unwrap_or(config.defaults.auto_commit),
            land: land && !read_only && !chained,
            landing,
            workdir: common.workdir.clone(),
            assets: None,
            plan: common.plan.clone(),
            source: place.line(fields.pos),
            wanted: Default::default(),
            part,
            rest: Default::default(),
        }),
        _ => None,
    };
    let (path, line) = (fields.path.clone(), place.line(fields.pos));
    Draft { n: place.n, path, line, id, deps, writes, group, spec }
}

fn count_errors(report: &Report) -> usize {
    report.diagnostics.iter().filter(|diagnostic| diagnostic.is_error()).count()
}
