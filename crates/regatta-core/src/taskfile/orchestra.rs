//! A plan in parallel-orchestra's format (`po_plan_version: "0.1"`), read unchanged.
//!
//! Differences from Regatta's own format, all of them parallel-orchestra's: `agent` names the persona and the program
//! is `claude`; `cwd` and `read_only` are required; paths are relative to the plan's directory, wherever that is;
//! unknown keys are ignored, with a warning here. A task that writes starts at the root of its lane, whatever `cwd`
//! says: `cwd` locates the project's `.claude`, and is where a read-only task starts. Parallel-orchestra refuses two
//! tasks that write the same place; Regatta runs them one after the other, unless it is strict.

use std::path::PathBuf;

use crate::budget::Ceiling;
use crate::config::fields::Fields;
use crate::config::keys::Key;
use crate::config::reading::{Reading, no_word};
use crate::config::task_keys::{PO_FORBIDDEN, PO_PLAN_KEYS, PO_TASK_KEYS};
use crate::config::yaml::{Node, quoted};
use crate::diagnostic::{Pos, Report};
use crate::spec::{TaskSpec, TimeLimits};
use crate::verdict::VerdictAdapter;
use crate::writes::WritePath;

use super::draft::{self, Draft, FileReading, SourcePlace};
use super::paths::{self, Spot};
use super::title::title;
use super::{hook, plan};

/// The program behind every persona.
const PROGRAM: &str = "claude";
/// Default number of attempts: one retry.
const ATTEMPTS: u32 = 2;

/// What the plan sets for all its tasks.
struct Common {
    plan: String,
    cwd: Spot,
    attempts: u32,
}

/// Parses a plan with all its tasks.
pub(super) fn read(node: &Node, place: SourcePlace<'_>, report: &mut Report) -> FileReading {
    let keys: Vec<&'static Key> = PO_PLAN_KEYS.iter().collect();
    let Some(fields) = Reading::LENIENT.section(&node.without("regatta"), "", &keys, report) else {
        return FileReading::default();
    };
    if let Some(entry) = node.entry("regatta") {
        let message = "`regatta` and `po_plan_version` are both set; a plan has one format";
        report.error(entry.key_pos, "regatta", message);
    }
    if fields.lacks("po_plan_version") {
        report.error(
            fields.pos,
            "po_plan_version",
            "`po_plan_version` must be the string \"0.1\", found nothing",
        );
    }
    let cwd = cwd(&fields, place, report);
    let attempts = fields.section("defaults").and_then(|defaults| draft::attempts(defaults, report));
    let common = Common { plan: plan::name(&fields, place), cwd, attempts: attempts.unwrap_or(ATTEMPTS) };
    let drafts: Vec<Draft> = plan::entries(&fields, report)
        .iter()
        .enumerate()
        .filter_map(|(n, entry)| task(entry, &format!("tasks[{n}]"), &common, place, report))
        .collect();
    let limits = fields.counts("concurrency_limits").to_vec();
    // Unreadable limits have been reported already; no group is then reported for lacking one.
    let own_limits_only = !fields.broken.contains(&"concurrency_limits");
    let hooks = hook::read(&fields, &common.plan, &drafts, place, report);
    FileReading { plan: Some(common.plan), drafts, limits, hooks, own_limits_only }
}

fn cwd(fields: &Fields, place: SourcePlace<'_>, report: &mut Report) -> Spot {
    let root = Spot::Inside(String::new());
    let Some(cwd) = fields.text("cwd") else {
        if fields.lacks("cwd") {
            let message = "the plan has no `cwd`";
            report.error(fields.pos, "cwd", message).hint =
                Some("add `cwd: \".\"` for the plan's own directory".into());
        }
        return root;
    };
    match paths::locate(place.dir(), cwd, place.settings.repo_root) {
        Ok(spot) => {
            if let Spot::Outside(_) = spot {
                let message = format!(
                    "`cwd` {} is outside the repository; tasks start at the repository root",
                    quoted(cwd)
                );
                report.warn(fields.pos_of("cwd"), "cwd", message).hint =
                    Some("`cwd` is relative to the plan's directory and says where the project is".into());
            }
            spot
        }
        Err(why) => {
            report.error(fields.pos_of("cwd"), "cwd", format!("`cwd` {} {why}", quoted(cwd)));
            root
        }
    }
}

impl Common {
    /// The task's start directory, from the root of its lane.
    fn workdir(&self, read_only: bool) -> PathBuf {
        match &self.cwd {
            Spot::Inside(path) if read_only => PathBuf::from(path),
            _ => PathBuf::new(),
        }
    }

    /// The directory of the project's `.claude`.
    fn assets(&self) -> PathBuf {
        match &self.cwd {
            Spot::Inside(path) | Spot::Outside(path) => PathBuf::from(path).join(".claude"),
        }
    }

    /// A declared write. If it is outside the repository when taken from the plan's directory, it is taken from the
    /// project's, if possible.
    fn write(&self, text: &str, place: SourcePlace<'_>) -> Result<Option<WritePath>, String> {
        if text.is_empty() {
            return Err("is empty".into());
        }
        let root = place.settings.repo_root;
        let spot = match (paths::locate(place.dir(), text, root)?, &self.cwd) {
            (Spot::Outside(_), Spot::Inside(cwd)) => paths::locate(cwd, text, root)?,
            (spot, _) => spot,
        };
        let Spot::Inside(path) = spot else { return Ok(None) };
        WritePath::parse(if path.is_empty() { "." } else { &path }).map(Some).map_err(|why| why.to_string())
    }
}

fn task(
    node: &Node,
    path: &str,
    common: &Common,
    place: SourcePlace<'_>,
    report: &mut Report,
) -> Option<Draft> {
    let n_before = report.diagnostics.len();
    let mut node = node.clone();
    for key in PO_FORBIDDEN {
        if let Some(entry) = node.entry(key) {
            let message = format!("`{key}` is not allowed in a task of this format");
            let hint = "parallel-orchestra refuses it; Regatta's own plans (`regatta: 1`) have `timeout` and `idle_timeout`";
            report.error(entry.key_pos, &format!("{path}.{key}"), message).hint = Some(hint.into());
            node = node.without(key);
        }
    }
    let keys: Vec<&'static Key> = PO_TASK_KEYS.iter().collect();
    let fields = Reading::LENIENT.section(&node, path, &keys, report)?;
    for name in ["id", "agent", "read_only"] {
        if fields.lacks(name) {
            let who = fields.text("id").map_or_else(String::new, |id| format!(" {}", quoted(id)));
            report.error(fields.pos, &fields.path_of(name), format!("the task{who} has no `{name}`"));
        }
    }
    let id = draft::id(&fields, report);
    let persona = persona(&fields, report);
    let prompt = match fields.text("prompt") {
        Some(prompt) => prompt.to_owned(),
        None => format!("/agent-{}", fields.text("agent").unwrap_or_default()),
    };
    if prompt.trim().is_empty() {
        report.error(fields.pos_of("prompt"), &fields.path_of("prompt"), "the `prompt` is empty");
    }
    let deps = draft::deps(&fields, "depends_on", report);
    let mut writes = draft::writes(&fields, report, |text| common.write(text, place));
    let group = draft::group(&fields, report);
    let attempts = draft::attempts(&fields, report).unwrap_or(common.attempts);
    let read_only = fields.bool("read_only").unwrap_or(false);
    if read_only {
        draft::warn_read_only(&fields, report);
        writes.clear();
    }
    let agent = place.settings.agent_override.unwrap_or(PROGRAM);
    let whole = !crate::diagnostic::has_errors(&report.diagnostics[n_before..]);
    let spec = id.as_ref().filter(|_| whole).map(|id| {
        let defaults = &place.settings.config.defaults;
        TaskSpec {
            id: id.value.clone(),
            title: title(None, &prompt),
            prompt,
            repo: None,
            agent: agent.to_owned(),
            model: None,
            labels: Vec::new(),
            budget: Ceiling::default(),
            persona,
            priority: 0,
            deps: deps.iter().map(|dep| dep.value.clone()).collect(),
            writes: writes.iter().map(|path| path.value.clone()).collect(),
            concurrency_group: group.as_ref().map(|group| group.value.clone()),
            requires: defaults.requires.clone(),
            read_only,
            bounds: defaults.bounds.clone(),
            env: draft::env(&[&fields], place.settings.config),
            checks: if read_only { Vec::new() } else { defaults.checks.clone() },
            max_attempts: attempts,
            limits: TimeLimits {
                total: defaults.timeout,
                first_output: defaults.first_output_timeout,
                idle: defaults.idle_timeout,
            },
            verdict_adapter: VerdictAdapter::ExitCode,
            auto_commit: defaults.auto_commit,
            land: lands(place) && !read_only,
            landing: Default::default(),
            workdir: common.workdir(read_only),
            assets: Some(common.assets()),
            plan: Some(common.plan.clone()),
            source: place.line(fields.pos),
            wanted: Default::default(),
            part: None,
            rest: Default::default(),
        }
    });
    let (path, line) = (fields.path.clone(), place.line(fields.pos));
    Some(Draft { n: place.n, path, line, id, deps, writes, group, spec })
}

fn lands(place: SourcePlace<'_>) -> bool {
    let settings = place.settings;
    !settings.no_land && settings.config.land.auto.unwrap_or(settings.land_by_default)
}

/// The name for `claude --agent`. An empty one is accepted and means no persona.
fn persona(fields: &Fields, report: &mut Report) -> Option<String> {
    let name = fields.text("agent").filter(|name| !name.is_empty())?;
    let pos: Pos = fields.pos_of("agent");
    let valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let why = match no_word(name) {
        Some(why) => why,
        None if !name.chars().all(valid) => "may contain only letters, digits, '_' and '-'",
        None => return Some(name.to_owned()),
    };
    report.error(pos, &fields.path_of("agent"), format!("agent {} {why}", quoted(name)));
    None
}
