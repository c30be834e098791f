//! The agents' programs: whether they are installed, their versions and logins.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use regatta_core::config::{Agent, AgentKind, Origin, Profile};
use regatta_engine::agents::find_program;

use super::{Finding, login, tested};
use crate::project::Project;
use crate::render::shown::clean_line;
use crate::trust::{Verdict, assess};

/// How long a program may take to print its version.
pub(super) const ANSWER_PATIENCE: Duration = Duration::from_secs(5);

pub(super) async fn look(project: &Project) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut not_installed = Vec::new();
    let mut asked = Vec::new();
    let untrusted = match assess(project).await {
        Ok(Verdict::Untrusted(_)) => project.asked_for().into_iter().map(|(key, _)| key).collect(),
        _ => Vec::new(),
    };
    for (name, agent) in &project.config.agents {
        let is_default = *name == project.config.default_agent;
        let is_wanted = is_default || project.config.origin(&format!("agents.{name}")) != Origin::Default;
        let shown = if is_default { format!("{name} (default)") } else { name.clone() };
        let Some(program) = agent.program() else {
            found.push(Finding::ok("agent", format!("{shown}: built in")));
            continue;
        };
        let Some(path) = find_program(program, &project.repo.toplevel) else {
            match agent.kind.install() {
                // A built-in agent that this project does not use.
                Some(_) if !is_wanted => not_installed.push(name.as_str()),
                install => found.push(missing(&shown, program, is_default, install)),
            }
            continue;
        };
        // Without the `.` of `exe: ./agent`.
        let path: PathBuf = path.components().collect();
        if let Some(why) = left_alone(project, name, &path, &untrusted) {
            found.push(Finding::warning("agent", format!("{shown}: {} was not run: {why}", path.display())));
            continue;
        }
        if agent.kind == AgentKind::Command {
            found.push(Finding::ok("agent", format!("{shown}: {}", path.display())));
            continue;
        }
        // All at once, so that one that hangs does not delay the others.
        let profiles = project.config.profiles.iter().filter(|profile| profile.is_for(name, agent.kind));
        let (agent, profiles) = (agent.clone(), profiles.cloned().collect::<Vec<_>>());
        asked.push(tokio::spawn(async move { look_at(&shown, &path, &agent, &profiles, is_wanted).await }));
    }
    for asked in asked {
        found.extend(asked.await.unwrap_or_default());
    }
    if !not_installed.is_empty() {
        found.push(Finding::ok("agent", format!("not installed and not used: {}", not_installed.join(", "))));
    }
    found
}

/// Why a program is not asked for its version: doctor runs nothing from the repository.
fn left_alone(project: &Project, name: &str, path: &Path, untrusted: &[String]) -> Option<&'static str> {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let inside = |dir: &Path| path.starts_with(dir) || real(path).starts_with(real(dir));
    if untrusted.contains(&format!("agents.{name}")) {
        return Some("you have not agreed to this entry of regatta.yaml");
    }
    let in_repository = inside(&project.repo.toplevel) || inside(&project.repo.root);
    in_repository.then_some("it lies inside the repository")
}

/// Checks an installed program: its version and its logins.
async fn look_at(
    shown: &str,
    path: &Path,
    agent: &Agent,
    profiles: &[Profile],
    is_wanted: bool,
) -> Vec<Finding> {
    let version = version(path).await;
    let mut found = vec![match version {
        Ok(version) => match tested::doubt(agent.kind, &version) {
            None => Finding::ok("agent", format!("{shown}: {version} at {}", path.display())),
            Some(doubt) => Finding::warning("agent", format!("{shown}: {version} at {}: {doubt}", path.display()))
                .hinted("it will probably work; watch the cost and the results of its first tasks, or install a tested version"),
        },
        Err(why) => Finding::warning("agent", format!("{shown}: `{} --version` {why}", path.display()))
            .hinted("run it by hand to see why"),
    }];
    found.extend(login::look(shown, agent, profiles, is_wanted));
    found.extend(is_wanted.then(|| login::home(shown, agent)).flatten());
    found
}

fn missing(shown: &str, program: &str, is_default: bool, install: Option<&str>) -> Finding {
    let text = format!("{shown}: its program {program:?} was not found");
    let finding = if is_default { Finding::error("agent", text) } else { Finding::warning("agent", text) };
    finding.hinted(match install {
        Some(install) => {
            format!("install it ({install}), name it with `exe`, or set `default_agent` in regatta.yaml")
        }
        None => "put it on PATH, or correct `agents:` in regatta.yaml".to_owned(),
    })
}

async fn version(program: &Path) -> Result<String, String> {
    let asked = tokio::process::Command::new(program)
        .arg("--version")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .output();
    match tokio::time::timeout(ANSWER_PATIENCE, asked).await {
        Err(_) => Err(format!("did not answer within {} s", ANSWER_PATIENCE.as_secs())),
        Ok(Err(error)) => Err(format!("could not be started: {error}")),
        Ok(Ok(output)) if !output.status.success() => Err(format!("ended with {}", output.status)),
        Ok(Ok(output)) => {
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            Ok(clean_line(text.lines().next().unwrap_or_default()).chars().take(80).collect())
        }
    }
}
