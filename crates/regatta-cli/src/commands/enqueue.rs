//! `regatta enqueue FILE|ID|DIR…`: adds tasks to the daemon's queue.

use regatta_core::part::Part;
use regatta_ops::tasks::{EnqueueRequest, Enqueued, Source};
use regatta_store::MAIN_QUEUE;

use crate::cli::Global;
use crate::exit::Exit;
use crate::project::Project;
use crate::ui::Ui;
use regatta_ops::Refusal;

/// More tasks than this are not listed one by one.
const MOST_LISTED_TASKS: usize = 20;

/// Add tasks from files to the daemon's queue.
///
/// Takes task files, plans, directories of them, or ids of files in tasks/. It queues all tasks or none: with one
/// mistake, one id that exists, one cycle or one unknown dependency, it changes nothing. Dependencies can be tasks of
/// the same call or tasks in the store. Work that passes lands if the task says `auto_land: true` or regatta.yaml
/// says `land: { auto: true }`; otherwise it stays on its branch regatta/ID.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Args {
    /// Task files, plans, directories (their *.md except README.md), or an ID for tasks/ID.md or parcels/ID.md.
    #[arg(required = true, value_name = "FILE|ID|DIR")]
    what: Vec<String>,
    /// Tasks it depends on, instead of those in its file: comma-separated ids, or '' for none. For one task at a time.
    #[arg(long, value_name = "IDS")]
    deps: Option<String>,
    /// Higher numbers start first; overrides the file.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(i32).range(-9999..=9999))]
    priority: Option<i32>,
    /// How many work failures are allowed in all; overrides the file.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    max_attempts: Option<u32>,
    /// Leave out the `checks` of the files and of regatta.yaml: the agent's own verdict counts. What lands is still
    /// tested by `land.test_command`.
    #[arg(long)]
    no_verify: bool,
    /// Start an existing task over with its file as it is now, unless it is being worked on. Work in its lane is saved
    /// first.
    #[arg(long)]
    replace: bool,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let request = EnqueueRequest {
        source: Source::Files(args.what),
        deps: args.deps.as_deref().map(names),
        priority: args.priority,
        max_attempts: args.max_attempts,
        no_verify: args.no_verify,
        replace: args.replace,
    };
    tell(&Project::open(&global.options())?.enqueue(&request).await?, ui).await
}

/// Splits a comma-separated list of names.
pub(crate) fn names(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// Reports what was queued, and who will run it.
pub(crate) async fn tell(enqueued: &Enqueued, ui: &Ui) -> Result<Exit, Refusal> {
    if ui.json {
        ui.document(&enqueued.document().await?);
        return Ok(Exit::Ok);
    }
    let stored = enqueued.stored().await?;
    for warning in &enqueued.warnings {
        ui.note(warning.to_string());
    }
    let n_shown =
        if ui.verbose || stored.len() <= MOST_LISTED_TASKS { stored.len() } else { MOST_LISTED_TASKS };
    let mut text = String::new();
    for task in stored.iter().take(n_shown) {
        let why = regatta_ops::look::tasks::why(&task.state, &task.waiting_on);
        let why = if why.is_empty() { why } else { format!("  {why}") };
        let id = &task.id;
        let lands = enqueued.tasks.iter().any(|spec| spec.id == *id && spec.land);
        let chained = matches!(task.part, Some(Part::Builder { lands: true, .. }));
        let fate = match (lands, task.read_only) {
            _ if chained => "lands when its chain passes".to_owned(),
            _ if matches!(task.part, Some(Part::Link { .. })) => "judges the build".to_owned(),
            (true, _) => "lands when it passes".to_owned(),
            (false, true) => "only reads".to_owned(),
            (false, false) => format!("stays on {}", id.branch()),
        };
        text.push_str(&format!("enqueued {id}  {}  {fate}{why}\n", task.state.name()));
    }
    if n_shown < stored.len() {
        let waiting = stored.iter().filter(|task| !task.waiting_on.is_empty()).count();
        text.push_str(&format!(
            "and {} more: {} tasks in total, {waiting} of them wait for others (`regatta list`)\n",
            stored.len() - n_shown,
            stored.len()
        ));
    }
    ui.out(&text);
    if !ui.quiet {
        ui.line(enqueued.operator.takers.sentence(MAIN_QUEUE));
    }
    Ok(Exit::Ok)
}
