//! Task files and plans: text in, [`TaskSpec`]s and every mistake out.
//!
//! ```text
//! source ─frontmatter─► yaml + body ─┬─ task file ───────► draft ─┐
//!                                    ├─ plan ────────────► drafts ─┼─links─► specs
//!                                    └─ po_plan_version ─► drafts ─┘
//! ```
//!
//! A draft is one task as its own lines tell it. Links are what only all files together can tell: ids given
//! twice, dependencies on nothing, cycles, overlapping writes, groups without a limit.
//!
//! Nothing here panics, whatever the text, and no mistake hides another one except broken YAML, behind
//! which nothing of the file can be seen.

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

use draft::{FileReading, Place};

pub use hook::{Hook, HookEvent};

/// One file to read.
#[derive(Clone, Debug)]
pub struct Source<'a> {
    /// The path as the user gave it; messages name it.
    pub name: String,
    /// What it says.
    pub text: Cow<'a, str>,
    /// Its directory from the repository root, with `/`; empty for the root itself. Absolute where it lies elsewhere.
    /// The root where unknown.
    pub dir: Option<String>,
}

impl<'a> Source<'a> {
    /// A file whose text is known to be text.
    pub fn new(name: impl Into<String>, text: &'a str) -> Self {
        Self { name: name.into(), text: Cow::Borrowed(text), dir: None }
    }

    /// The same, in a directory: of the repository, or absolute.
    #[must_use]
    pub fn in_dir(mut self, dir: impl Into<String>) -> Self {
        self.dir = Some(dir.into());
        self
    }

    /// A file as it was read from disk. The error points to the first byte that is not UTF-8.
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

    /// The file's name without directory and ending.
    fn stem(&self) -> &str {
        let file = self.name.rsplit(['/', '\\']).next().unwrap_or_default();
        match file.rsplit_once('.') {
            Some((stem, _)) if !stem.is_empty() => stem,
            _ => file,
        }
    }
}

/// What besides the files decides what a task becomes.
#[derive(Clone, Copy, Debug)]
pub struct LoadSettings<'a> {
    /// The configuration, overrides applied.
    pub config: &'a Config,
    /// `--agent`: does all the work, whatever the files say.
    pub agent_override: Option<&'a str>,
    /// `--no-land`: only tasks that themselves say `auto_land: true` land.
    pub no_land: bool,
    /// Whether passing work lands when neither task, plan nor `land.auto` says: yes for `run`, no for the daemon.
    pub land_by_default: bool,
    /// `--strict`: tasks whose writes overlap must depend on each other.
    pub strict: bool,
    /// Tasks that are already stored, on which these may depend.
    pub known_ids: &'a BTreeSet<TaskId>,
    /// The repository's absolute path, with which absolute `writes` and `cwd` can be understood.
    pub repo_root: Option<&'a str>,
}

static NO_IDS: BTreeSet<TaskId> = BTreeSet::new();

impl<'a> LoadSettings<'a> {
    /// As for `regatta run` without flags in a repository without stored tasks.
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

/// What the files say.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    /// The tasks in the order of the files; complete only where nothing is an error.
    pub tasks: Vec<TaskSpec>,
    /// The name of the first plan, if any file is one.
    pub plan_name: Option<String>,
    /// The limit of every group that a task belongs to or a plan mentions: the plan's, else the configuration's, else 1.
    pub concurrency_limits: BTreeMap<String, u32>,
    /// Webhooks that parallel-orchestra's plans want called at the end of a run.
    pub hooks: Vec<Hook>,
    /// Everything worth telling, in the order of the files and of their lines.
    pub diagnostics: Vec<Diagnostic>,
}

impl Loaded {
    /// Whether nothing may be run or stored.
    pub fn has_errors(&self) -> bool {
        diagnostic::has_errors(&self.diagnostics)
    }
}

/// Reads task files and plans. See [`Loaded`] for what comes back.
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

/// The `cwd` of a plan of parallel-orchestra; nothing for any other text.
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

/// Reads one file, whichever of the three kinds it is.
fn read(n: usize, source: &Source<'_>, settings: &LoadSettings<'_>, report: &mut Report) -> FileReading {
    let Some(halves) = frontmatter::split(&source.text, report) else { return FileReading::default() };
    let Some(node) = yaml::parse(&halves.yaml, 2, report) else { return FileReading::default() };
    let place = Place { n, source, settings };
    if node.entry("po_plan_version").is_some() {
        orchestra::read(&node, place, report)
    } else if node.entry("tasks").is_some() || node.entry("regatta").is_some() {
        plan::read(&node, place, report)
    } else {
        task::read_file(&node, &halves, place, report)
    }
}
