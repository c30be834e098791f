//! Task files and plans: text in, [`TaskSpec`]s and every mistake out.
//!
//! ```text
//! source ─frontmatter─► yaml + body ─┬─ task file ───────► draft ─┐
//!                                    ├─ plan ────────────► drafts ─┼─links─► specs
//!                                    └─ po_plan_version ─► drafts ─┘
//! ```
//!
//! A draft is one task as its own lines define it. Links are what only all files together can show: duplicate ids,
//! unknown dependencies, cycles, overlapping writes, groups without a limit.
//!
//! Nothing here panics, whatever the text, and no mistake hides another, except broken YAML, which hides the rest of
//! its file.

mod draft;
mod frontmatter;
mod hook;
mod links;
mod orchestra;
mod paths;
mod plan;
mod task;
mod title;

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use crate::config::Config;
use crate::config::agents::unknown_agent;
use crate::config::yaml;
use crate::diagnostic::{self, Diagnostic, Pos, Report};
use crate::id::TaskId;
use crate::spec::TaskSpec;

use draft::{FileReading, SourcePlace};

pub use hook::{Hook, HookEvent};

/// One file to parse.
#[derive(Clone, Debug)]
pub struct Source<'a> {
    /// The path as the user gave it, for messages.
    pub name: String,
    /// The file's text.
    pub text: Cow<'a, str>,
    /// Its directory from the repository root, with `/`; empty for the root itself, absolute if it is outside the
    /// repository. `None` counts as the root.
    pub dir: Option<String>,
}

impl<'a> Source<'a> {
    /// A file whose content is already text.
    pub fn new(name: impl Into<String>, text: &'a str) -> Self {
        Self { name: name.into(), text: Cow::Borrowed(text), dir: None }
    }

    /// Sets its directory: from the repository root, or absolute.
    #[must_use]
    pub fn in_dir(mut self, dir: impl Into<String>) -> Self {
        self.dir = Some(dir.into());
        self
    }

    /// A file as read from disk. The error points to the first byte that is not UTF-8.
    pub fn from_bytes(name: impl Into<String>, bytes: &'a [u8]) -> Result<Self, Diagnostic> {
        let name = name.into();
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Self::new(name, text)),
            Err(error) => {
                let good = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
                let good = crate::config::normalised(&good);
                let last = good.rsplit('\n').next().unwrap_or_default();
                let pos = Pos { line: good.matches('\n').count() + 1, column: last.chars().count() + 1 };
                let n = error.valid_up_to();
                let byte = bytes.get(n).copied().unwrap_or_default();
                let message = format!("is not UTF-8: byte {n} is 0x{byte:02x}");
                Err(Diagnostic::error(name, pos, message).hinted("save the file as UTF-8"))
            }
        }
    }

    /// The file's name without directory and extension.
    fn stem(&self) -> &str {
        let file = self.name.rsplit(['/', '\\']).next().unwrap_or_default();
        match file.rsplit_once('.') {
            Some((stem, _)) if !stem.is_empty() => stem,
            _ => file,
        }
    }
}

/// Settings that affect the tasks, besides the files.
#[derive(Clone, Copy, Debug)]
pub struct LoadSettings<'a> {
    /// The configuration with overrides applied.
    pub config: &'a Config,
    /// `--agent`: runs every task, whatever the files say.
    pub agent_override: Option<&'a str>,
    /// `--no-land`: only tasks with `auto_land: true` of their own land.
    pub no_land: bool,
    /// Whether passing work lands if neither task, plan nor `land.auto` decides: yes for `run`, no for the daemon.
    pub land_by_default: bool,
    /// `--strict`: tasks whose writes overlap must depend on each other.
    pub strict: bool,
    /// Stored tasks, on which these may depend.
    pub known_ids: &'a BTreeSet<TaskId>,
    /// The repository's absolute path, used to resolve absolute `writes` and `cwd`.
    pub repo_root: Option<&'a str>,
}

static NO_IDS: BTreeSet<TaskId> = BTreeSet::new();

impl<'a> LoadSettings<'a> {
    /// The settings of `regatta run` without flags in a repository without stored tasks.
    pub fn new(config: &'a Config) -> Self {
        Self {
            config,
            agent_override: None,
            no_land: false,
            land_by_default: true,
            strict: false,
            known_ids: &NO_IDS,
            repo_root: None,
        }
    }
}

/// The result of loading files.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    /// The tasks in the order of the files; complete only without errors.
    pub tasks: Vec<TaskSpec>,
    /// The name of the first plan, if any file is one.
    pub plan_name: Option<String>,
    /// The limit of every group that a task belongs to or a plan mentions: the plan's, else the configuration's, else
    /// 1.
    pub concurrency_limits: BTreeMap<String, u32>,
    /// Webhooks that parallel-orchestra plans call at the end of a run.
    pub hooks: Vec<Hook>,
    /// All diagnostics, in the order of the files and of their lines.
    pub diagnostics: Vec<Diagnostic>,
}

impl Loaded {
    /// True if errors prevent running or storing the tasks.
    pub fn has_errors(&self) -> bool {
        diagnostic::has_errors(&self.diagnostics)
    }
}

/// Loads task files and plans.
pub fn load(sources: &[Source<'_>], settings: &LoadSettings<'_>) -> Loaded {
    let mut diagnostics = Vec::new();
    if let Some(name) = settings.agent_override
        && !settings.config.agents.contains_key(name)
    {
        let (message, hint) = unknown_agent(settings.config, name);
        diagnostics.push(Diagnostic::error("--agent", Pos::NOWHERE, message).hinted(hint));
    }
    let mut reports = Vec::new();
    let mut files = Vec::new();
    for (n, source) in sources.iter().enumerate() {
        let mut report = Report::new(&source.name);
        let file = read(n, source, settings, &mut report);
        reports.push(report);
        files.push(file);
    }
    let plan_name = files.iter().find_map(|file| file.plan.clone());
    let hooks = files.iter_mut().flat_map(|file| std::mem::take(&mut file.hooks)).collect();
    let (tasks, concurrency_limits) = links::connect(files, settings, &mut reports);
    diagnostics.extend(reports.into_iter().flat_map(Report::into_sorted));
    Loaded { tasks, plan_name, concurrency_limits, hooks, diagnostics }
}

/// The `cwd` of a parallel-orchestra plan; `None` for any other text.
pub fn orchestra_cwd(text: &str) -> Option<String> {
    let mut unused = Report::new("");
    let halves = frontmatter::split(text, &mut unused)?;
    let node = yaml::parse(&halves.yaml, 2, &mut unused)?;
    node.entry("po_plan_version")?;
    match &*node.entry("cwd")?.value.data {
        yaml::Data::Scalar(scalar) => Some(scalar.text.clone()),
        _ => None,
    }
}

/// Parses one file of any of the three kinds.
fn read(n: usize, source: &Source<'_>, settings: &LoadSettings<'_>, report: &mut Report) -> FileReading {
    let Some(halves) = frontmatter::split(&source.text, report) else { return FileReading::default() };
    let Some(node) = yaml::parse(&halves.yaml, 2, report) else { return FileReading::default() };
    let place = SourcePlace { n, source, settings };
    if node.entry("po_plan_version").is_some() {
        orchestra::read(&node, place, report)
    } else if node.entry("tasks").is_some() || node.entry("regatta").is_some() {
        plan::read(&node, place, report)
    } else {
        task::read_file(&node, &halves, place, report)
    }
}
