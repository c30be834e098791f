//! `regatta pr`: proposes work by a pull request, and shows pull requests.

use regatta_core::forge::pull::Column;
use regatta_core::train::Proposal;
use regatta_ops::Refusal;
use regatta_ops::documents::PullDocument;
use regatta_ops::pulls::ProposeRequest;

use super::land::drive;
use crate::cli::Global;
use crate::exit::Exit;
use crate::project::Project;
use crate::queue::Operator;
use crate::render::shown::clean_line;
use crate::render::text::table;
use crate::ui::Ui;

/// Propose the finished work of a task by a pull request, or show pull requests.
///
/// `regatta pr ID` opens a pull request for a task that is done, or for one that `regatta land ID` would land,
/// whatever `land.via` says. It needs no daemon. Twice is the same pull request. Without an ID, it shows those that
/// are open.
#[derive(Clone, Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Action>,
    /// The task, or the beginning of its id.
    #[arg(value_name = "ID")]
    task: Option<String>,
    /// Open it as a draft.
    #[arg(long, requires = "task")]
    draft: bool,
    /// Merge it without a review, where `land.pr.merge` is `approved`.
    #[arg(long, requires = "task")]
    no_review: bool,
    /// Leave it to a daemon or a run.
    #[arg(long, requires = "task")]
    no_wait: bool,
}

#[derive(Clone, Debug, clap::Subcommand)]
enum Action {
    /// Show the pull requests of all tasks, as they were at the last look.
    List {
        /// Also those that were merged or closed.
        #[arg(long)]
        all: bool,
    },
    /// Show the pull request of one task: its checks, and what it waits for.
    Show {
        /// The task, or the beginning of its id.
        #[arg(value_name = "ID")]
        task: String,
    },
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let Some(task) = args.task else {
        let operator = Operator::open(&Project::look(&global.options())?).await?;
        return match args.command {
            Some(Action::Show { task }) => show(&operator.pull(&task).await?, ui),
            Some(Action::List { all }) => list(&operator.pulls(all).await?, ui),
            None => list(&operator.pulls(false).await?, ui),
        };
    };
    let project = Project::open(&global.options())?;
    crate::trust::require_trust_asking(&project, ui).await?;
    let operator = Operator::open(&project).await?;
    let proposal = Proposal { draft: args.draft, no_review: args.no_review };
    let id = operator.propose(&ProposeRequest { task, proposal }).await?;
    if args.no_wait {
        ui.note(format!("{id} is in the train; a daemon or a run proposes it"));
        return Ok(Exit::Ok);
    }
    drive(&operator, std::slice::from_ref(&id), ui).await?;
    let pull = match operator.pull(id.as_str()).await {
        Ok(pull) => pull,
        // It did not come to a pull request: the task says why.
        Err(_) => {
            let task = operator.store.task(&id).await?;
            let why = task.state.reason().unwrap_or_else(|| format!("it is {}", task.state.name()));
            return Err(Refusal::refused(format!("{id} was not proposed: {}", clean_line(&why))).about(&task));
        }
    };
    let is_there = matches!(pull.state, "open" | "merged");
    show(&pull, ui)?;
    Ok(if is_there { Exit::Ok } else { Exit::TaskFailed })
}

fn list(pulls: &[PullDocument], ui: &Ui) -> Result<Exit, Refusal> {
    if ui.json {
        ui.document(&pulls);
        return Ok(Exit::Ok);
    }
    let rows: Vec<Vec<String>> = pulls
        .iter()
        .map(|pull| vec![pull.id.to_string(), stands(pull), what(pull), pull.url.clone().unwrap_or_default()])
        .collect();
    if rows.is_empty() {
        ui.note("no pull request is open");
    } else {
        ui.out(&table(&["TASK", "STANDS", "LAST LOOK", "ADDRESS"], &rows));
    }
    Ok(Exit::Ok)
}

/// Where it stands, in two words at most.
fn stands(pull: &PullDocument) -> String {
    match (pull.state, pull.column) {
        ("open", Some(column)) => column.title().to_owned(),
        ("open", None) => Column::Working.title().to_owned(),
        (state, _) => state.to_owned(),
    }
}

fn what(pull: &PullDocument) -> String {
    let number = pull.number.map(|number| format!("#{number}")).unwrap_or_default();
    clean_line(pull.line.as_deref().unwrap_or(&number))
}

fn show(pull: &PullDocument, ui: &Ui) -> Result<Exit, Refusal> {
    if ui.json {
        ui.document(pull);
        return Ok(Exit::Ok);
    }
    let number = pull.number.map_or_else(|| "not opened yet".to_owned(), |number| format!("#{number}"));
    ui.line(format!("{} {number} {}", pull.id, pull.url.as_deref().unwrap_or_default()).trim_end());
    let row = |name: &str, value: String| {
        if !value.is_empty() {
            ui.line(format!("  {name:<9}{}", clean_line(&value)));
        }
    };
    row("stands", stands(pull));
    row("look", pull.line.clone().unwrap_or_else(|| "none yet".to_owned()));
    let checks = pull.checks;
    if checks != Default::default() {
        let counts = (checks.passed, checks.failed, checks.pending);
        row("checks", format!("{} passed, {} failed, {} pending", counts.0, counts.1, counts.2));
    }
    row("waits", pull.waiting.clone().unwrap_or_default());
    let head = pull.head.as_ref().map(|head| format!(" at {}", head.short())).unwrap_or_default();
    row("branch", format!("{}{head}, into {} of {}", pull.branch, pull.base, pull.repo));
    let flags = [(pull.draft, "opened as a draft"), (pull.no_review, "merged without a review")];
    let flags: Vec<&str> = flags.iter().filter(|(is, _)| *is).map(|(_, text)| *text).collect();
    row("options", flags.join(", "));
    row("allowed", pull.allowed_by.as_ref().map(|by| format!("by {by}")).unwrap_or_default());
    row("merged", pull.merged.as_ref().map(|commit| commit.short().to_owned()).unwrap_or_default());
    Ok(Exit::Ok)
}
