//! A run in the foreground, from its files to its report. The caller shows the notices and sends the orders.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use regatta_core::admission::Limits;
use regatta_core::config::{AgentKind, Keep};
use regatta_core::diagnostic::has_errors;
use regatta_core::graph;
use regatta_core::id::TaskId;
use regatta_core::report::Report;
use regatta_core::spec::TaskSpec;
use regatta_core::taskfile::{Hook, Loaded};
use regatta_core::time::Timestamp;
use regatta_engine::clock;
use regatta_engine::context::{Assembly, Context, RunOptions, SettingsInput};
use regatta_engine::engine::{Ended, EngineError, Order};
use regatta_engine::git::Head;
use regatta_engine::notice::{Watching, notices};
use regatta_engine::run::{Earlier, RunRequest, run as run_engine};
use regatta_engine::session::is_certainly_dead;
use regatta_engine::trust::Purpose;
use regatta_store::{SessionId, Store};
use tokio::sync::mpsc;

use crate::documents::StagesDocument;
use crate::project::{Project, ProjectOptions, require_writable, shown, this_program};
use crate::refusal::{Refusal, RefusalKind};
use crate::report::{build, preflight_report};
use crate::secrets::redactor;
use crate::taskfiles::{missing_program, parse_files};

/// A request to run plans here until they are finished.
#[derive(Clone, Debug, Default)]
pub struct ForegroundRequest {
    /// Plan files or task files.
    pub plans: Vec<PathBuf>,
    /// How many agents may run at once.
    pub max_workers: Option<u32>,
    /// Continue an earlier run of these tasks.
    pub resume: bool,
    /// Run everything again, including what an earlier run finished.
    pub again: bool,
    /// Start nothing more after the first failure.
    pub fail_fast: bool,
    /// Use this agent for every task.
    pub agent: Option<String>,
    /// The most that all tasks together may cost, in dollars, as in regatta.yaml.
    pub budget_usd: Option<String>,
    /// The program to start for agents of kind claude.
    pub claude_exe: Option<PathBuf>,
    /// Keep agents' output in this directory.
    pub log_dir: Option<PathBuf>,
    /// Delete the output of agents that succeeded.
    pub no_log: bool,
    /// Land nothing.
    pub no_land: bool,
    /// Refuse tasks that could run at once and declare overlapping writes.
    pub strict: bool,
    /// The branch to land on.
    pub target: Option<String>,
    /// Rotate through these accounts only: names separated by commas, or `none`.
    pub profiles: Option<String>,
    /// Start everything without a sandbox.
    pub no_sandbox: bool,
    /// Keep the lanes of settled tasks.
    pub keep_lanes: bool,
    /// The file that the report will be written to.
    pub report: Option<PathBuf>,
}

impl ForegroundRequest {
    /// Opens the project of this run, with the request's settings.
    pub fn open(&self, options: &ProjectOptions) -> Result<Project, Refusal> {
        let mut project = Project::open_for(options, &self.plans)?;
        let mut diagnostics = Vec::new();
        if let Some(target) = &self.target {
            diagnostics.extend(project.config.apply_flag("--target", "target", target));
        }
        if let Some(workers) = self.max_workers {
            let workers = workers.to_string();
            diagnostics.extend(project.config.apply_flag("--max-workers", "max_workers", &workers));
        }
        project.choose_profiles(self.profiles.as_deref())?;
        if self.no_sandbox {
            project.without_sandbox()?;
        }
        if let Some(usd) = &self.budget_usd {
            diagnostics.extend(project.config.apply_flag("--budget-usd", "limits.budget_usd", usd));
        }
        if has_errors(&diagnostics) { Err(Refusal::diagnosed(diagnostics)) } else { Ok(project) }
    }

    /// Reads every file and reports every mistake; changes nothing.
    pub fn load(&self, project: &Project) -> Result<Loaded, Refusal> {
        let loaded = self.parse(project, &self.files()?, &BTreeSet::new());
        if has_errors(&loaded.diagnostics) { Err(Refusal::diagnosed(loaded.diagnostics)) } else { Ok(loaded) }
    }

    /// The contents of the files.
    pub(crate) fn files(&self) -> Result<Vec<(PathBuf, Vec<u8>)>, Refusal> {
        let mut files = Vec::new();
        for path in &self.plans {
            let bytes = std::fs::read(path).map_err(|error| {
                Refusal::new(RefusalKind::Usage, format!("reading {}: {error}", path.display()))
                    .hinted("give the path of a plan or task file; `regatta new ID` makes one")
            })?;
            files.push((path.clone(), bytes));
        }
        Ok(files)
    }

    /// Parses files under the request's settings. `known` are tasks in the store that others may depend on.
    pub(crate) fn parse(
        &self,
        project: &Project,
        files: &[(PathBuf, Vec<u8>)],
        known: &BTreeSet<TaskId>,
    ) -> Loaded {
        parse_files(project, files, |settings| {
            settings.agent_override = self.agent.as_deref();
            settings.no_land = self.no_land;
            settings.strict = self.strict;
            settings.known_ids = known;
        })
    }

    /// The files of this run, as they can be typed again.
    pub fn names(&self) -> String {
        let plans: Vec<String> = self.plans.iter().map(|path| shown(path)).collect();
        plans.join(" ")
    }

    /// The refusal of a run that would repeat finished work.
    fn done_before(&self, why: String) -> Refusal {
        let plans = self.names();
        Refusal::refused(why).hinted(format!(
            "`regatta run --resume {plans}` runs what is left; `regatta run --again {plans}` runs everything again"
        ))
    }

    /// Checks what would make the run fail, before anything starts. Returns the store, and how many tasks of an earlier
    /// run start over.
    pub async fn prepare(
        &self,
        project: &Project,
        loaded: &Loaded,
    ) -> Result<(Arc<dyn Store>, usize), Refusal> {
        project.require_trust().await?;
        preflight(project, &loaded.tasks, self.claude_exe.as_deref())?;
        if let Some(path) = &self.report {
            // The report may go into this directory.
            project.make_state_dir()?;
            preflight_report(path)?;
        }
        if let Some(dir) = &self.log_dir {
            require_writable(&absolute(dir), "--log-dir")?;
        }
        require_writable(&project.lanes_root(), "lanes_root")?;
        let store = project.create_store().await?;
        let mut unfinished = 0;
        if !self.resume && !self.again {
            let alive = |info: &regatta_store::SessionInfo| !is_certainly_dead(&info.node);
            let earlier = Earlier::look(store.as_ref(), &loaded.tasks, alive).await?;
            if let Some(why) = earlier.refusal() {
                return Err(self.done_before(why));
            }
            unfinished = earlier.unfinished;
        }
        Ok((store, unfinished))
    }

    /// Builds the engine's context and everything else that the run needs.
    pub async fn begin(
        &self,
        project: &Project,
        store: Arc<dyn Store>,
        loaded: &Loaded,
    ) -> Result<Foreground, Refusal> {
        let (notices, watching) = notices();
        let target = project.decide_target()?;
        let regatta_exe =
            this_program().map_err(|error| Refusal::io("finding", Path::new("regatta"), &error))?;
        let keep_lanes = self.keep_lanes || project.config.lane.keep == Keep::Always;
        let options = RunOptions {
            fail_fast: self.fail_fast,
            resume: self.resume,
            trust: if self.resume { Purpose::Continue } else { Purpose::Start },
            again: self.again,
            keep_lanes,
            log_dir: self.log_dir.as_ref().map(|dir| absolute(dir)),
            no_log: self.no_log,
            claude_exe: self.claude_exe.as_ref().map(|path| program_path(path)),
            grace: Duration::from_secs(5),
        };
        let settings = SettingsInput {
            config: project.config.of_repo(None),
            options,
            inherited: std::env::vars_os().collect(),
            lanes_root: project.lanes_root(),
            others: project.others()?,
            graph: project.graph(),
            file: project.settings_file(),
        };
        let assembly = Assembly {
            settings,
            repo: project.repo.clone(),
            target: target.clone(),
            store: store.clone(),
            store_url: project.store_url.clone(),
            session: SessionId::fresh("run"),
            regatta_exe,
            notices,
        };
        let ctx = tokio::task::spawn_blocking(move || Context::assemble(assembly)).await;
        let ctx = Arc::new(ctx.expect("assembling does not panic")?);
        crate::sandbox::check(&ctx)?;
        let names = self.names();
        let plan = loaded.plan_name.clone().filter(|name| !name.is_empty()).unwrap_or_else(|| names.clone());
        let request = RunRequest {
            what: format!("run {}", if names.is_empty() { &plan } else { &names }),
            limits: limits(project, loaded),
            tasks: loaded.tasks.clone(),
        };
        Ok(Foreground {
            title: format!("{plan} → {target}"),
            started_at: clock::now(),
            watching: Some(watching),
            first_seq: store.last_seq().await?,
            asked: self.clone(),
            project: project.clone(),
            store,
            ctx,
            plan,
            target,
            request,
        })
    }
}

/// A run that is ready to start.
pub struct Foreground {
    /// The plan and the branch it lands on, for people.
    pub title: String,
    /// When it began.
    pub started_at: Timestamp,
    /// What happens during the run, for the caller to take and show. It ends with the run.
    pub watching: Option<Watching>,
    asked: ForegroundRequest,
    project: Project,
    store: Arc<dyn Store>,
    ctx: Arc<Context>,
    plan: String,
    target: String,
    first_seq: u64,
    request: RunRequest,
}

impl Foreground {
    /// Runs the tasks until they are settled or an order ends the run.
    pub async fn run(self, orders: mpsc::UnboundedReceiver<Order>) -> Result<(Report, Ended), Refusal> {
        let Self { asked, project, store, ctx, plan, target, first_seq, request, .. } = self;
        let tasks = request.tasks.clone();
        let result = run_engine(ctx.clone(), request, orders).await;
        // The notices end when their last sender is dropped.
        drop(ctx);
        let ended = result.map_err(|error| match error {
            EngineError::Repeats(why) => asked.done_before(why),
            error => Refusal::from(error),
        })?;
        let redactor = redactor(&project.config);
        let report = build(store.as_ref(), &plan, &target, &tasks, first_seq, &redactor).await?;
        Ok((report, ended))
    }
}

/// Calls the webhooks of parallel-orchestra's plans. Returns why calls failed; that changes nothing else.
pub async fn call_hooks(hooks: &[Hook], report: &Report, took: Duration) -> Vec<String> {
    let certificates = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    let mut failed = Vec::new();
    for hook in hooks {
        let Some(payload) = hook.payload(report, took.as_secs_f64()) else { continue };
        let payload = payload.to_string();
        let called =
            regatta_engine::notify::call(&hook.url, hook.allow_private, payload, certificates.clone());
        if let Err(why) = called.await {
            failed.push(format!("{} could not notify {}: {why}", hook.key(), hook.url));
        }
    }
    failed
}

/// Which tasks of a plan would run together.
pub fn stages(project: &Project, loaded: &Loaded) -> StagesDocument {
    let stages = graph::stages(&loaded.tasks, &limits(project, loaded).groups);
    StagesDocument { plan: loaded.plan_name.clone(), stages }
}

/// How much may run at once.
fn limits(project: &Project, loaded: &Loaded) -> Limits {
    let mut groups = project.config.limits.groups.clone();
    groups.extend(loaded.concurrency_limits.clone());
    let max_workers = project.config.max_workers;
    project.with_repo_limits(Limits { max_workers, groups, ..Limits::default() })
}

/// Reports what would make every task fail, before anything starts.
pub fn preflight(project: &Project, tasks: &[TaskSpec], claude_exe: Option<&Path>) -> Result<(), Refusal> {
    if let Head::Unborn(branch) = &project.repo.head {
        return Err(Refusal::new(
            RefusalKind::Git,
            format!("the repository is empty: branch {branch} has no commit yet"),
        )
        .hinted("make a first commit: git commit --allow-empty -m init"));
    }
    project.require_branch(&project.choice()?)?;
    for spec in tasks {
        let Some(agent) = project.config.agents.get(&spec.agent) else { continue };
        if let Some(program) = missing_program(project, spec, claude_exe) {
            return Err(Refusal::new(
                RefusalKind::CannotWork,
                format!("task {} needs the agent {}, but its program {program:?} was not found", spec.id, spec.agent),
            )
            .hinted(match (agent.kind, agent.kind.install()) {
                (AgentKind::Claude, Some(install)) => format!("install it ({install}), or give --claude-exe PATH"),
                (_, Some(install)) => {
                    format!("install it ({install}), or name it with `exe` of this agent in regatta.yaml")
                }
                (_, None) => {
                    "put it on PATH, or correct `agents:` in regatta.yaml; `regatta doctor` shows what is found".into()
                }
            }));
        }
    }
    Ok(())
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// A path with a slash is relative to the current directory; a bare name is looked up on PATH.
fn program_path(path: &Path) -> PathBuf {
    if path.components().count() > 1 { absolute(path) } else { path.to_owned() }
}
