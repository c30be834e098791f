//! Adds tasks without a file, from a prompt alone.

mod prd;

use std::collections::BTreeSet;
use std::path::PathBuf;

use regatta_core::config::AgentKind;
use regatta_core::diagnostic::{Diagnostic, has_errors};
use regatta_core::id::TaskId;
use regatta_core::repos::RepoName;
use regatta_core::spec::TaskSpec;
use regatta_store::MAIN_QUEUE;

use super::enqueue::{Enqueued, dependencies, parse_for_daemon, there_already};
use crate::naming::{Naming, put, put_numbered};
use crate::operator::Operator;
use crate::project::Project;
use crate::refusal::Refusal;
use crate::taskfiles::missing_programs;

/// A request to add a task from a prompt to the daemon's queue.
#[derive(Clone, Debug, Default)]
pub struct AddRequest {
    /// What to do. May be empty with a requirement document.
    pub prompt: String,
    /// Its id; by default the next of GEN-001, GEN-002, …
    pub id: Option<TaskId>,
    /// Tasks it depends on.
    pub deps: Option<Vec<String>>,
    /// The agent to use.
    pub agent: Option<String>,
    /// The model to use.
    pub model: Option<String>,
    /// The kinds of work.
    pub labels: Vec<String>,
    /// Dollars that all its attempts together may cost.
    pub budget_usd: Option<f64>,
    /// Tokens that all its attempts together may use.
    pub budget_tokens: Option<u64>,
    /// Higher numbers start first.
    pub priority: Option<i32>,
    /// One line for people; by default the prompt's first line.
    pub title: Option<String>,
    /// Land the work if it passes, even if regatta.yaml does not say so.
    pub land: bool,
    /// The repository of the project to work in; by default its own.
    pub repo: Option<String>,
    /// The requirement document to implement.
    pub prd: Option<String>,
}

impl Project {
    /// Adds a task from a prompt to the daemon's queue.
    pub async fn add(&self, args: &AddRequest) -> Result<Enqueued, Refusal> {
        let project = self;
        project.require_trust().await?;
        let document = args.prd.as_deref().map(|text| prd::find(&project.repo.toplevel, text)).transpose()?;
        let wanted = args.id.clone().or_else(|| document.as_ref().map(|document| document.id.clone()));
        let mut order = Order { args, prompt: args.prompt.clone(), title: args.title.clone() };
        if let Some(document) = &document {
            order.title = order.title.or_else(|| Some(document.title.clone()));
            let agent = args.agent.as_ref().unwrap_or(&project.config.default_agent);
            let agent = project.config.agents.get(agent);
            let is_claude = agent.is_some_and(|agent| agent.kind == AgentKind::Claude);
            order.prompt =
                document.prompt(&order.prompt, is_claude && prd::has_command(&project.repo.toplevel));
        }
        // Mistakes are reported before anything is created.
        let first = wanted.clone().unwrap_or_else(|| generic(1));
        let (_, mut warnings) = order.spec(project, &first)?;
        let store = project.create_store().await?;
        let deps = match (&args.deps, &document) {
            (Some(names), _) => dependencies(names, store.as_ref(), wanted.as_ref()).await?,
            (None, Some(document)) => document.stored_dependencies(store.as_ref(), &mut warnings).await?,
            (None, None) => Vec::new(),
        };
        let make = |id: &TaskId| -> Result<TaskSpec, Refusal> {
            let (spec, _) = order.spec(project, id)?;
            Ok(TaskSpec { deps: deps.clone(), ..spec })
        };
        let spec = match wanted {
            Some(id) => {
                let spec = make(&id)?;
                if !put(store.as_ref(), MAIN_QUEUE, &spec).await? {
                    return Err(there_already(&[store.task(&id).await?]));
                }
                spec
            }
            None => put_numbered(project, store.as_ref(), MAIN_QUEUE, &GENERIC, make).await?,
        };
        warnings.extend(missing_programs(project, std::slice::from_ref(&spec)));
        let operator = Operator::of(project, store).await?;
        Ok(Enqueued { operator, tasks: vec![spec], warnings })
    }
}

/// The task, except for its id.
struct Order<'a> {
    args: &'a AddRequest,
    prompt: String,
    title: Option<String>,
}

impl Order<'_> {
    /// Built like a file with these lines, so that every default and every check is the same.
    fn spec(&self, project: &Project, id: &TaskId) -> Result<(TaskSpec, Vec<Diagnostic>), Refusal> {
        let args = self.args;
        let mut text = format!("---\nid: {}\n", quoted(id.as_str()));
        let lines = [
            ("repo", args.repo.as_ref()),
            ("agent", args.agent.as_ref()),
            ("model", args.model.as_ref()),
            ("title", self.title.as_ref()),
        ];
        for (key, value) in lines {
            text.extend(value.map(|value| format!("{key}: {}\n", quoted(value))));
        }
        text.extend(args.priority.map(|priority| format!("priority: {priority}\n")));
        if !args.labels.is_empty() {
            text.push_str(&format!("labels: {}\n", serde_json::Value::from(args.labels.clone())));
        }
        text.extend(args.budget_usd.map(|usd| format!("budget_usd: {usd}\n")));
        text.extend(args.budget_tokens.map(|tokens| format!("budget_tokens: {tokens}\n")));
        if args.land {
            text.push_str("auto_land: true\n");
        }
        text.push_str(&format!("---\n{}\n", self.prompt));
        let files = [(PathBuf::from("regatta add"), text.into_bytes())];
        let known = BTreeSet::new();
        let mut loaded = parse_for_daemon(project, &files, &known);
        match loaded.tasks.pop() {
            Some(spec) if !has_errors(&loaded.diagnostics) => {
                Ok((TaskSpec { source: String::new(), ..spec }, loaded.diagnostics))
            }
            _ => {
                let mut error = Refusal::diagnosed(loaded.diagnostics);
                // There is no file with a line to correct.
                for diagnostic in &mut error.diagnostics {
                    (diagnostic.line, diagnostic.column) = (0, 0);
                }
                Err(error.hinted("`regatta help add` lists the options"))
            }
        }
    }
}

/// A task from these texts, with every default filled in; in one of the project's repositories if one is named.
pub fn plain_order(
    project: &Project,
    repo: Option<&RepoName>,
    id: &TaskId,
    title: &str,
    prompt: &str,
) -> Result<TaskSpec, Refusal> {
    let args = AddRequest { repo: repo.map(ToString::to_string), ..AddRequest::default() };
    let order = Order { args: &args, prompt: prompt.to_owned(), title: Some(title.to_owned()) };
    Ok(order.spec(project, id)?.0)
}

/// Quotes a text so that YAML reads it back unchanged.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// GEN-001, GEN-002 and so on.
const GENERIC: Naming = Naming { prefix: "GEN-", width: 3, first: 1 };

/// The id of the nth task that was given none.
pub fn generic(n: u64) -> TaskId {
    GENERIC.id(n)
}
