//! What agents may reach: shown path by path, explained for one path or host, and tried with a command.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;

use regatta_core::id::TaskId;
use regatta_core::sandbox::hosts::{self, Host, HostRule};
use regatta_core::sandbox::settings::Network;
use regatta_core::sandbox::{Level, PathAccess, Policy};
use regatta_engine::context::Context;
use regatta_engine::notice::notices;
use regatta_engine::sandbox::View;
use regatta_engine::trust::Purpose;
use regatta_store::{SessionId, TaskRecord};
use serde::Serialize;

use crate::assemble::assemble;
use crate::project::{Project, find_task};
use crate::refusal::Refusal;

/// What an agent may reach.
#[derive(Clone, Debug, Serialize)]
pub struct SandboxDocument {
    /// The task, if one was named.
    pub task: Option<TaskId>,
    /// Its agent.
    pub agent: String,
    /// The level: `full`, `files` or `off`.
    pub level: Level,
    /// What is weaker here than it could be.
    pub weaker: Vec<String>,
    /// What is reachable over the network.
    pub network: Network,
    /// Hosts besides the built-in ones.
    pub hosts: Vec<String>,
    /// Variables with credentials that agents do not get.
    pub removed: Vec<String>,
    /// The rules, nearest to the root first. The last one that contains a path decides.
    pub rules: Vec<RuleDocument>,
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RuleDocument {
    /// The path.
    pub path: PathBuf,
    /// `write`, `read`, `hide` or `copy`.
    pub access: &'static str,
    /// Why.
    pub why: String,
}

/// Which rule decides about a path or a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Because {
    /// The path or host that was asked about.
    pub what: String,
    /// `write`, `read`, `hide`, `copy`, `allowed` or `refused`.
    pub access: &'static str,
    /// The rule's path, if it has one.
    pub rule: Option<PathBuf>,
    /// Why.
    pub why: String,
}

/// Refuses settings of the sandbox that no task could have, before anything starts.
pub(crate) fn check(ctx: &Context) -> Result<(), Refusal> {
    match ctx.sandbox_mistakes() {
        mistakes if mistakes.is_empty() => Ok(()),
        mistakes => Err(Refusal::usage(mistakes.join("\n"))
            .hinted("correct it; `regatta sandbox show` shows what agents can reach")),
    }
}

/// The operations on the sandbox of one project.
pub struct Sandboxes {
    ctx: Arc<Context>,
    task: Option<TaskRecord>,
}

impl Sandboxes {
    /// For a task, or for a task with all defaults.
    pub async fn open(project: &Project, task: Option<&str>) -> Result<Self, Refusal> {
        project.make_state_dir()?;
        let store = project.store_to_follow().await?;
        let task = match task {
            Some(text) => Some(find_task(store.as_ref(), text).await?),
            None => None,
        };
        let session = SessionId::fresh("sandbox");
        let (notices, _) = notices();
        let ctx = assemble(project, store, session, Purpose::Start, notices).await?;
        Ok(Self { ctx, task })
    }

    fn view(&self) -> Result<View, Refusal> {
        let spec = self.task.as_ref().map(|task| &task.spec);
        self.ctx.sandbox_view(spec).map_err(|why| {
            Refusal::refused(why)
                .hinted("`regatta doctor` tries the sandbox; `regatta config sandbox` shows the settings")
        })
    }

    /// What the agent may reach.
    pub fn show(&self) -> Result<SandboxDocument, Refusal> {
        let view = self.view()?;
        let settings = self.ctx.sandbox_settings();
        Ok(SandboxDocument {
            task: self.task.as_ref().map(|task| task.spec.id.clone()),
            agent: view.agent,
            level: view.level,
            weaker: view.weaker,
            network: settings.network,
            hosts: settings.hosts.iter().map(|entry| entry.text.clone()).collect(),
            removed: view.removed,
            rules: view.policy.as_ref().map(rules).unwrap_or_default(),
        })
    }

    /// Which rule decides about a path or a host.
    pub fn why(&self, what: &str) -> Result<Because, Refusal> {
        let is_path = what.starts_with(['/', '.', '~']) || Path::new(what).exists();
        if is_path { self.why_path(what) } else { self.why_host(what) }
    }

    fn why_path(&self, what: &str) -> Result<Because, Refusal> {
        let view = self.view()?;
        let Some(policy) = &view.policy else {
            let why = "there is no sandbox".to_owned();
            return Ok(Because { what: what.to_owned(), access: "write", rule: None, why });
        };
        let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
        let path = match what.strip_prefix('~') {
            Some(rest) => home.join(rest.trim_start_matches('/')),
            None => std::path::absolute(what).unwrap_or_else(|_| PathBuf::from(what)),
        };
        let path = std::fs::canonicalize(&path).unwrap_or(path);
        if policy.tmp_covers(&path) {
            let why = "inside, /tmp is the attempt's own temporary directory".to_owned();
            return Ok(Because {
                what: path.display().to_string(),
                access: "hide",
                rule: Some("/tmp".into()),
                why,
            });
        }
        let (access, rule, why) = match policy.rule_for(&path) {
            Some(found) => (word(&found.rule.access), Some(found.rule.path.clone()), found.why.clone()),
            None => ("read", None, "no rule names it, and everything else is read-only".to_owned()),
        };
        Ok(Because { what: path.display().to_string(), access, rule, why })
    }

    fn why_host(&self, what: &str) -> Result<Because, Refusal> {
        let settings = self.ctx.sandbox_settings();
        let Some(host) = Host::parse(what, Some(443)) else {
            return Err(Refusal::usage(format!("{what:?} is neither a path nor a host"))
                .hinted("a path begins with `/`, `./` or `~/`; a host is a name such as example.org"));
        };
        let said =
            |access, why: &str| Because { what: what.to_owned(), access, rule: None, why: why.to_owned() };
        let listed = settings.hosts.iter().filter_map(|entry| HostRule::parse(&entry.text).ok());
        Ok(match settings.network {
            Network::Open => said("allowed", "`sandbox.network` is open"),
            Network::Off => said("refused", "`sandbox.network` is off"),
            _ if listed.into_iter().any(|rule| rule.allows(&host)) => {
                said("allowed", "`sandbox.hosts` names it")
            }
            Network::Trusted if hosts::trusted().iter().any(|rule| rule.allows(&host)) => {
                said("allowed", "it is in the built-in list of trusted hosts")
            }
            Network::Trusted | Network::List => {
                said("refused", "no rule names it; add it to `sandbox.hosts` in regatta.yaml")
            }
        })
    }

    /// Runs a command as the agent would: in the task's lane, or in a clean checkout of the target.
    pub async fn run(&self, argv: &[OsString]) -> Result<ExitStatus, Refusal> {
        let refused = |why: String| Refusal::refused(why).hinted("`regatta doctor` tries the sandbox");
        let spec = self.task.as_ref().map(|task| &task.spec);
        let lane = match spec {
            Some(spec) => {
                let found = self.ctx.repository.lanes.find(&spec.id)?.filter(|lane| lane.path.is_dir());
                let none = || {
                    Refusal::not_found(format!("{} has no lane", spec.id))
                        .hinted("leave `--task` out for a clean checkout")
                };
                Trial::Lane(Box::new(found.ok_or_else(none)?))
            }
            None => Trial::Leased(Box::new(self.ctx.trial_lane().map_err(refused)?)),
        };
        let made = self.ctx.sandboxed(spec, lane.lane(), argv).map_err(refused)?;
        let Some(made) = made else {
            return Err(Refusal::refused(
                "there is no sandbox: `sandbox.mode` or the task's `sandbox` is off",
            )
            .hinted("run the command without `regatta sandbox run`"));
        };
        let status = tokio::task::spawn_blocking(move || made.status()).await;
        let status = status.expect("waiting does not panic");
        let status = status.map_err(|error| Refusal::io("starting", Path::new("regatta"), &error))?;
        if let Trial::Leased(leased) = lane {
            tokio::task::spawn_blocking(move || leased.give_back())
                .await
                .expect("git work does not panic")?;
        }
        Ok(status)
    }
}

/// Where a command is tried.
enum Trial {
    Lane(Box<regatta_engine::lanes::Lane>),
    Leased(Box<regatta_engine::lanes::Leased>),
}

impl Trial {
    fn lane(&self) -> &regatta_engine::lanes::Lane {
        match self {
            Trial::Lane(lane) => lane,
            Trial::Leased(leased) => leased,
        }
    }
}

fn rules(policy: &Policy) -> Vec<RuleDocument> {
    let rule = |found: &regatta_core::sandbox::policy::Reasoned| RuleDocument {
        path: found.rule.path.clone(),
        access: word(&found.rule.access),
        why: found.why.clone(),
    };
    policy.rules.iter().map(rule).collect()
}

const fn word(access: &PathAccess) -> &'static str {
    match access {
        PathAccess::Write => "write",
        PathAccess::Read => "read",
        PathAccess::Hide => "hide",
        PathAccess::Copy { .. } => "copy",
    }
}
