//! `regatta doctor`: checks everything a run needs, and says what to do about each problem.

mod agents;
mod github;
mod lanes;
mod login;
mod machine;
mod node;
mod repos;
mod sandbox;
mod tested;
mod train;

use regatta_core::time::counted;
use regatta_engine::git::{Head, Repo, installed};
use serde::Serialize;

use crate::cli::Global;
use crate::exit::Exit;
use crate::project::{Project, shown, start_dir};
use crate::ui::{Style, Ui};
use regatta_ops::target::Target;
use regatta_ops::{Refusal, RefusalKind};

/// Check git, the configuration, the store, agents, lanes and the disk.
///
/// For each problem it says what to do. It exits with 0 unless something is marked ✕, which means that a run would
/// fail.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Fix what can be fixed without losing anything: directories, excludes, broken lanes, leftovers.
    #[arg(long)]
    fix: bool,
}

/// How severe a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Level {
    Ok,
    Warning,
    Error,
}

/// The result of one check.
#[derive(Clone, Debug, Serialize)]
struct Finding {
    check: &'static str,
    status: Level,
    detail: String,
    /// What to do about it.
    hint: Option<String>,
    /// Whether it was fixed just now.
    fixed: bool,
}

impl Finding {
    fn new(check: &'static str, status: Level, detail: impl Into<String>) -> Self {
        Self { check, status, detail: detail.into(), hint: None, fixed: false }
    }

    fn ok(check: &'static str, detail: impl Into<String>) -> Self {
        Self::new(check, Level::Ok, detail)
    }

    fn warning(check: &'static str, detail: impl Into<String>) -> Self {
        Self::new(check, Level::Warning, detail)
    }

    fn error(check: &'static str, detail: impl Into<String>) -> Self {
        Self::new(check, Level::Error, detail)
    }

    /// A finding from an error, with the error's hint.
    fn from_error(check: &'static str, error: Refusal) -> Self {
        Self { hint: Some(error.hint()), ..Self::error(check, error.message) }
    }

    fn hinted(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    fn fixed(self) -> Self {
        Self { status: Level::Ok, hint: None, fixed: true, ..self }
    }
}

impl Args {
    /// A check that changes nothing.
    pub(crate) fn looking() -> Self {
        Self { fix: false }
    }

    /// Whether the command changes nothing.
    pub(crate) fn only_looks(&self) -> bool {
        !self.fix
    }
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let findings = look(&args, global).await?;
    if ui.json {
        ui.document(&findings);
    } else {
        show(&findings, ui);
    }
    let bad = findings.iter().any(|finding| finding.status == Level::Error);
    Ok(if bad { Exit::CannotWork } else { Exit::Ok })
}

async fn look(args: &Args, global: &Global) -> Result<Vec<Finding>, Refusal> {
    let mut found = Vec::new();
    match installed() {
        Ok(version) => found.push(Finding::ok("git", format!("git {version}"))),
        Err(error) => {
            found.push(Finding::from_error("git", error.into()));
            return Ok(found);
        }
    }
    let repo = match Repo::discover(&start_dir(&global.options())?, None) {
        Ok(repo) => repo,
        Err(error) => {
            found.push(Finding::from_error("repository", error.into()));
            return Ok(found);
        }
    };
    found.push(repository(&repo));
    found.push(identity(&repo));
    let project = match Project::open(&global.options()) {
        Ok(project) => project,
        Err(error) => {
            let told: Vec<String> = error.diagnostics.iter().map(ToString::to_string).collect();
            let detail = if told.is_empty() { error.message.clone() } else { told.join("\n") };
            found.push(
                Finding::error("configuration", detail)
                    .hinted("correct it; `regatta config schema` has every key"),
            );
            return Ok(found);
        }
    };
    found.push(configuration(&project));
    found.push(target(&project));
    found.extend(repos::look(&project).await);
    found.extend(github::look(&project).await);
    found.extend(machine::state_dir(&project, args.fix));
    found.extend(agents::look(&project).await);
    let store = if project.has_store() {
        match open_store(&project).await {
            Ok((store, detail)) => {
                found.push(Finding::ok("store", detail));
                Some(store)
            }
            // The first run makes it, unless the address is mistyped.
            Err(error) if error.kind == RefusalKind::NotFound => {
                let hint = error.hint();
                found.push(Finding::warning("store", error.message).hinted(hint));
                None
            }
            Err(error) => {
                let finding = Finding::from_error("store", error);
                // If the directory around the store is unusable, the store is not the problem.
                let is_file = project.store_url.starts_with("sqlite:");
                found.push(match regatta_engine::trust::state_dir::check(&project.repo) {
                    Ok(()) if is_file => finding.hinted(
                        "move it aside and run again: branches, lanes and salvage refs hold the work, not the store",
                    ),
                    _ => finding,
                });
                None
            }
        }
    } else {
        found.push(Finding::ok("store", "none yet; the first run makes it"));
        None
    };
    found.extend(node::look(&project, store.as_deref()).await);
    if let Some(store) = &store {
        found.extend(lanes::sessions(&project, store.as_ref()).await?);
    }
    found.extend(lanes::look(&project, store.as_deref(), args.fix).await?);
    found.extend(lanes::locks(&project, args.fix));
    found.extend(train::look(&project, args.fix));
    found.push(lanes::trust(&project).await);
    found.extend(machine::disk(&project));
    found.push(machine::kill_level());
    found.push(sandbox::look(&project).await);
    Ok(found)
}

fn repository(repo: &Repo) -> Finding {
    let place = repo.toplevel.display();
    match &repo.head {
        Head::Branch(branch) => Finding::ok("repository", format!("{place} on {branch}")),
        Head::Detached(oid) => {
            Finding::warning("repository", format!("{place}: HEAD is detached at {}", oid.short()))
                .hinted("check a branch out (git switch main), or set `target:` in regatta.yaml")
        }
        Head::Unborn(branch) => {
            Finding::error("repository", format!("{place} is empty: {branch} has no commit yet"))
                .hinted("make a first commit: git commit --allow-empty -m init")
        }
    }
}

fn identity(repo: &Repo) -> Finding {
    match repo.configured_identity() {
        Ok(Some(who)) => Finding::ok("identity", format!("{} <{}>", who.name, who.email)),
        Ok(None) => {
            Finding::warning("identity", "git has no user name or email; Regatta commits under its own name")
                .hinted("git config --global user.name NAME; git config --global user.email ADDRESS")
        }
        Err(error) => Finding::from_error("identity", error.into()),
    }
}

fn configuration(project: &Project) -> Finding {
    let place = project
        .config_file
        .as_deref()
        .map_or_else(|| "no regatta.yaml; all settings are defaults".to_owned(), shown);
    match project.warnings.as_slice() {
        [] => Finding::ok("configuration", place),
        warnings => {
            let told: Vec<String> = warnings.iter().map(ToString::to_string).collect();
            Finding::warning("configuration", told.join("\n"))
        }
    }
}

fn target(project: &Project) -> Finding {
    let choice = match project.choice() {
        Ok(choice) => choice,
        Err(error) => return Finding::from_error("target", error),
    };
    let (target, by) = match &choice {
        Target::Configured(branch) => (branch, "as configured"),
        Target::Decided(branch) => (branch, "as the first run decided"),
        Target::Proposed(branch) => (branch, "the first run decides"),
    };
    if let Ok(serving) = project.train_target()
        && serving != *target
    {
        return Finding::warning("target", format!("{target}, {by}; the daemon lands on {serving}")).hinted(
            "restart the daemon (`regatta daemon stop`, `regatta daemon start`) to land on one branch",
        );
    }
    match project.repo.branch_tip(target) {
        Ok(Some(tip)) => match project.require_branch(&choice) {
            Ok(()) => Finding::ok("target", format!("{target} at {} ({by})", tip.oid().short())),
            Err(error) => Finding::from_error("target", error),
        },
        // An empty repository was already reported.
        Ok(None) if matches!(project.repo.head, Head::Unborn(_)) => {
            Finding::warning("target", format!("{target} has no commit yet"))
        }
        Ok(None) => match project.require_branch(&choice) {
            Ok(()) => Finding::error("target", format!("there is no branch {target} to land on"))
                .hinted("set another as `target:` in regatta.yaml"),
            Err(error) => Finding::from_error("target", error),
        },
        Err(error) => Finding::from_error("target", error.into()),
    }
}

async fn open_store(
    project: &Project,
) -> Result<(std::sync::Arc<dyn regatta_store::Store>, String), Refusal> {
    let store = project.store().await?;
    let tasks: u64 = store.counts(None).await?.iter().map(|(_, n)| n).sum();
    let events = store.last_seq().await?;
    // Reads every row once, so that an unreadable one is found here and not in the middle of a run.
    store.tasks(&regatta_store::TaskQuery::default()).await?;
    let detail = format!("{}: {}, {}", store.describe(), counted(tasks, "task"), counted(events, "event"));
    Ok((store, detail))
}

fn show(findings: &[Finding], ui: &Ui) {
    for finding in findings {
        let (glyph, style) = match finding.status {
            Level::Ok => ("✓", Style::Good),
            Level::Warning => ("⚠", Style::Wait),
            Level::Error => ("✕", Style::Bad),
        };
        if ui.quiet && finding.status == Level::Ok {
            continue;
        }
        let fixed = if finding.fixed { " (fixed)" } else { "" };
        let detail = finding.detail.replace('\n', "\n                ");
        ui.line(format!("{} {:<13} {detail}{fixed}", ui.paint(style, glyph), finding.check));
        if let Some(hint) = &finding.hint {
            ui.line(format!("                {} {hint}", ui.paint(Style::Busy, "→")));
        }
    }
}
