//! `regatta add "PROMPT"`: a task without a file.

mod prd;

use std::collections::BTreeSet;
use std::io::Read;
use std::path::PathBuf;

use regatta_core::config::AgentKind;
use regatta_core::diagnostic::{Diagnostic, has_errors};
use regatta_core::id::TaskId;
use regatta_core::spec::TaskSpec;
use regatta_store::{IfPresent, MAIN_QUEUE, NewTask, RequestId, Store, StoreError, TaskQuery};

use super::enqueue::{dependencies, parse_for_daemon, tell, there_already};
use super::run::missing_programs;
use crate::cli::Global;
use crate::error::CliError;
use crate::exit::Exit;
use crate::parallel::Repositories;
use crate::parallel::registry::Registry;
use crate::project::Project;
use crate::queue::Queue;
use crate::ui::Ui;

/// More people than this do not add a task at the same moment.
const TRIES: u32 = 1000;

/// Put a task into the daemon's queue that has no file: the prompt is all there is to it.
///
/// It is named GEN-001, GEN-002 and so on, unless --id says otherwise. With --prd its name, its title and what it
/// depends on come from a requirement document, and the prompt may be left out.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Args {
    /// What is to be done; `-` reads it from standard input.
    #[arg(value_name = "PROMPT", required_unless_present = "prd")]
    pub(crate) prompt: Option<String>,
    /// Its id.
    #[arg(long, value_name = "ID", conflicts_with = "prd")]
    pub(crate) id: Option<TaskId>,
    /// What it depends on: ids with commas between them.
    #[arg(long, value_name = "IDS")]
    pub(crate) deps: Option<String>,
    /// The agent that does it: an entry of `agents` in regatta.yaml.
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// The model.
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// What kind of work it is; may be given more than once. `models.labels` in regatta.yaml may choose the model by it.
    #[arg(long = "label", value_name = "NAME")]
    pub(crate) labels: Vec<String>,
    /// Dollars that all its attempts together may cost.
    #[arg(long, value_name = "N")]
    pub(crate) budget_usd: Option<f64>,
    /// Tokens that all its attempts together may read and write.
    #[arg(long, value_name = "N")]
    pub(crate) budget_tokens: Option<u64>,
    /// Higher starts first.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(i32).range(-9999..=9999))]
    pub(crate) priority: Option<i32>,
    /// One line for people; the prompt's first line where none is given.
    #[arg(long, value_name = "TEXT")]
    pub(crate) title: Option<String>,
    /// Land what passes, also where regatta.yaml does not say so.
    #[arg(long)]
    pub(crate) land: bool,
    /// Do what the requirement document PRD-N*.md says, wherever in the repository it is: by claude's own command
    /// `/implement-prd PRD-N` where that is there, else with the document as the prompt. Tasks that its line
    /// `Depends on:` names, and that are stored, are waited for.
    #[arg(long, value_name = "N")]
    pub(crate) prd: Option<String>,
    /// Add it to this registered repository (`regatta repo list`) instead of the one you are in.
    #[arg(long, value_name = "NAME")]
    pub(crate) repo: Option<String>,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, CliError> {
    let prompt = args.prompt.as_deref().map(read_prompt).transpose()?;
    if let Some(name) = &args.repo {
        let registry = Registry::load(global)?;
        let repositories = Repositories::open(&registry, global).await?;
        let project = &repositories.named(name)?.project;
        let (queue, spec, warnings) = put_in_queue(&args, prompt, project).await?;
        return tell(&queue, &[spec], &warnings, ui).await;
    }
    let project = Project::open(&global.options())?;
    let (queue, spec, warnings) = put_in_queue(&args, prompt, &project).await?;
    tell(&queue, &[spec], &warnings, ui).await
}

/// The task as it is in the daemon's queue then.
pub(crate) async fn put_in_queue(
    args: &Args,
    prompt: Option<String>,
    project: &Project,
) -> Result<(Queue, TaskSpec, Vec<Diagnostic>), CliError> {
    project.require_trust().await?;
    let document = args.prd.as_deref().map(|text| prd::find(&project.repo.toplevel, text)).transpose()?;
    let wanted = args.id.clone().or_else(|| document.as_ref().map(|document| document.id.clone()));
    let mut order = Order { args, prompt: prompt.unwrap_or_default(), title: args.title.clone() };
    if let Some(document) = &document {
        order.title = order.title.or_else(|| Some(document.title.clone()));
        let agent = args.agent.as_ref().unwrap_or(&project.config.default_agent);
        let agent = project.config.agents.get(agent);
        let is_claude = agent.is_some_and(|agent| agent.kind == AgentKind::Claude);
        order.prompt = document.prompt(&order.prompt, is_claude && prd::has_command(&project.repo.toplevel));
    }
    // Whatever is wrong is said before anything is made.
    let first = wanted.clone().unwrap_or_else(|| generic(1));
    let (_, mut warnings) = order.spec(project, &first)?;
    let store = project.create_store().await?;
    let deps = match (&args.deps, &document) {
        (Some(text), _) => dependencies(text, store.as_ref(), wanted.as_ref()).await?,
        (None, Some(document)) => document.stored_dependencies(store.as_ref(), &mut warnings).await?,
        (None, None) => Vec::new(),
    };
    let make = |id: &TaskId| -> Result<TaskSpec, CliError> {
        let (spec, _) = order.spec(project, id)?;
        Ok(TaskSpec { deps: deps.clone(), ..spec })
    };
    let spec = match wanted {
        Some(id) => {
            let spec = make(&id)?;
            if !put(store.as_ref(), &spec).await? {
                return Err(there_already(&[store.task(&id).await?]));
            }
            spec
        }
        None => put_generic(project, store.as_ref(), make).await?,
    };
    let queue = Queue::of(project, store).await?;
    warnings.extend(missing_programs(project, std::slice::from_ref(&spec)));
    Ok((queue, spec, warnings))
}

/// What the task will be, but for its id.
struct Order<'a> {
    args: &'a Args,
    prompt: String,
    title: Option<String>,
}

impl Order<'_> {
    /// As a file with these lines would make it, so that every default and every check is the same.
    fn spec(&self, project: &Project, id: &TaskId) -> Result<(TaskSpec, Vec<Diagnostic>), CliError> {
        let args = self.args;
        let mut text = format!("---\nid: {}\n", quoted(id.as_str()));
        let lines =
            [("agent", args.agent.as_ref()), ("model", args.model.as_ref()), ("title", self.title.as_ref())];
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
                let mut error = CliError::diagnosed(loaded.diagnostics);
                // There is no file in which a line could be put right.
                for diagnostic in &mut error.diagnostics {
                    (diagnostic.line, diagnostic.column) = (0, 0);
                }
                Err(error.hinted("`regatta add --help` lists what it takes"))
            }
        }
    }
}

/// The task that these words order, with every default filled in.
pub(crate) fn plain_order(
    project: &Project,
    id: &TaskId,
    title: &str,
    prompt: &str,
) -> Result<TaskSpec, CliError> {
    let args = Args::default();
    let order = Order { args: &args, prompt: prompt.to_owned(), title: Some(title.to_owned()) };
    Ok(order.spec(project, id)?.0)
}

/// A text as YAML reads it back unchanged.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn read_prompt(text: &str) -> Result<String, CliError> {
    let prompt = match text {
        "-" => {
            let mut prompt = String::new();
            let read = std::io::stdin().read_to_string(&mut prompt);
            read.map_err(|error| {
                CliError::usage(format!("reading the prompt from standard input: {error}"))
            })?;
            prompt
        }
        text => text.to_owned(),
    };
    match prompt.trim().is_empty() {
        true => {
            Err(CliError::usage("the prompt is empty").hinted("say what is to be done: regatta add \"…\""))
        }
        false => Ok(prompt),
    }
}

pub(crate) fn generic(n: u64) -> TaskId {
    TaskId::parse(&format!("GEN-{n:03}")).expect("letters and digits make a task id")
}

/// Puts it in under the next free name. Whoever is faster gets that one, and this one the next.
async fn put_generic(
    project: &Project,
    store: &dyn Store,
    make: impl Fn(&TaskId) -> Result<TaskSpec, CliError>,
) -> Result<TaskSpec, CliError> {
    let query = TaskQuery { prefix: Some("GEN-".to_owned()), ..TaskQuery::default() };
    let taken = store.tasks(&query).await?;
    let number = |id: &TaskId| id.as_str().get(4..).and_then(|digits| digits.parse::<u64>().ok());
    let mut n = taken.iter().filter_map(|task| number(&task.spec.id)).max().unwrap_or(0);
    for _ in 0..TRIES {
        n += 1;
        let id = generic(n);
        // A branch of that name is somebody's work, though the store has forgotten whose.
        if project.repo.branch_tip(&id.branch())?.is_some() {
            continue;
        }
        let spec = make(&id)?;
        if put(store, &spec).await? {
            return Ok(spec);
        }
    }
    Err(CliError::refused("no name was free for long enough").hinted("name it yourself: --id ID"))
}

/// False if the id is taken.
async fn put(store: &dyn Store, spec: &TaskSpec) -> Result<bool, CliError> {
    let queue = MAIN_QUEUE.to_owned();
    let new = [NewTask { spec: spec.clone(), queue, if_present: IfPresent::Refuse }];
    match store.enqueue(&new, &RequestId::fresh(), regatta_engine::clock::now()).await {
        Ok(()) => Ok(true),
        Err(StoreError::Conflict(_)) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
