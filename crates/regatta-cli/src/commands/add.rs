//! `regatta add "PROMPT"`: a task without a file.

use std::io::Read;

use regatta_core::id::TaskId;
use regatta_ops::tasks::AddRequest;

use super::enqueue::{names, tell};
use crate::cli::Global;
use crate::exit::Exit;
use crate::project::Project;
use crate::ui::Ui;
use regatta_ops::Refusal;
use regatta_ops::parallel::Repositories;
use regatta_ops::parallel::registry::Registry;

/// Add a task to the daemon's queue from a prompt, without a file.
///
/// Its id is GEN-001, GEN-002 and so on, unless you give --id. With --prd, the id, the title and the dependencies
/// come from a requirement document, and the prompt is optional.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Args {
    /// What to do; `-` reads it from standard input.
    #[arg(value_name = "PROMPT", required_unless_present = "prd")]
    pub(crate) prompt: Option<String>,
    /// The task's id.
    #[arg(long, value_name = "ID", conflicts_with = "prd")]
    pub(crate) id: Option<TaskId>,
    /// Tasks it depends on: comma-separated ids.
    #[arg(long, value_name = "IDS")]
    pub(crate) deps: Option<String>,
    /// The agent to use: an entry of `agents` in regatta.yaml.
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// The model to use.
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// A label for the kind of work; may be repeated. `models.labels` in regatta.yaml can choose the model by it.
    #[arg(long = "label", value_name = "NAME")]
    pub(crate) labels: Vec<String>,
    /// Dollars that all its attempts together may cost.
    #[arg(long, value_name = "N")]
    pub(crate) budget_usd: Option<f64>,
    /// Tokens that all its attempts together may read and write.
    #[arg(long, value_name = "N")]
    pub(crate) budget_tokens: Option<u64>,
    /// Higher numbers start first.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(i32).range(-9999..=9999))]
    pub(crate) priority: Option<i32>,
    /// One line for people; by default the prompt's first line.
    #[arg(long, value_name = "TEXT")]
    pub(crate) title: Option<String>,
    /// Land the work if it passes, even if regatta.yaml does not say so.
    #[arg(long)]
    pub(crate) land: bool,
    /// Implement the requirement document PRD-N*.md, found anywhere in the repository: with claude's own command
    /// `/implement-prd PRD-N` if there is one, otherwise with the document as the prompt. The task waits for the stored
    /// tasks that the document's line `Depends on:` names.
    #[arg(long, value_name = "N")]
    pub(crate) prd: Option<String>,
    /// The repository to work in: one of `repos` in regatta.yaml, or a registered one (`regatta repo list`).
    #[arg(long, value_name = "NAME")]
    pub(crate) repo: Option<String>,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let mut request = AddRequest {
        prompt: args.prompt.as_deref().map(read_prompt).transpose()?.unwrap_or_default(),
        id: args.id,
        deps: args.deps.as_deref().map(names),
        agent: args.agent,
        model: args.model,
        labels: args.labels,
        budget_usd: args.budget_usd,
        budget_tokens: args.budget_tokens,
        priority: args.priority,
        title: args.title,
        land: args.land,
        repo: None,
        prd: args.prd,
    };
    let own = Project::open(&global.options()).ok().filter(|project| !project.config.repos.is_empty());
    let enqueued = match (&args.repo, own) {
        (Some(name), Some(project)) => {
            request.repo = Some(name.clone());
            project.add(&request).await?
        }
        (Some(name), None) => {
            let options = global.parallel();
            let registry = Registry::load(&options)?;
            let repositories = Repositories::open(&registry, &options).await?;
            repositories.named(name)?.project.add(&request).await?
        }
        (None, Some(project)) => project.add(&request).await?,
        (None, None) => Project::open(&global.options())?.add(&request).await?,
    };
    tell(&enqueued, ui).await
}

fn read_prompt(text: &str) -> Result<String, Refusal> {
    let prompt = match text {
        "-" => {
            let mut prompt = String::new();
            let read = std::io::stdin().read_to_string(&mut prompt);
            read.map_err(|error| Refusal::usage(format!("reading the prompt from standard input: {error}")))?;
            prompt
        }
        text => text.to_owned(),
    };
    if prompt.trim().is_empty() {
        Err(Refusal::usage("the prompt is empty").hinted("say what to do: regatta add \"…\""))
    } else {
        Ok(prompt)
    }
}
