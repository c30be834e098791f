//! `regatta broadcast "PROMPT"`: sends a follow-up prompt to every agent that can still receive one.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use regatta_core::state::StateName;
use regatta_ops::documents::BroadcastDocument;
use regatta_ops::tasks::{BroadcastRequest, Broadcasted, When, line};

use super::send::Said;
use crate::cli::Global;
use crate::exit::Exit;
use crate::queue::operator;
use crate::ui::Ui;
use regatta_ops::Refusal;

/// Send every task's agent a message, as `regatta send` does for one.
///
/// It reaches all tasks that have not ended, and those that ended (done, blocked or failed) and whose agent has a
/// conversation to continue. Landed tasks are left alone unless --landed is given, because each would start again.
/// Cancelled and skipped tasks are never included.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    said: Said,
    /// Only tasks in this state; may be repeated, or comma-separated.
    #[arg(long, value_name = "STATE", value_delimiter = ',', value_parser = names())]
    status: Vec<StateName>,
    /// Include landed tasks.
    #[arg(long)]
    landed: bool,
}

fn names() -> impl TypedValueParser<Value = StateName> {
    let words = StateName::all_that(StateName::can_hear).into_iter().map(StateName::as_str);
    PossibleValuesParser::new(words).try_map(|word| word.parse::<StateName>())
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let text = args.said.load()?;
    let operator = operator(global).await?;
    let request = BroadcastRequest { text, states: args.status, landed: args.landed };
    let Broadcasted { sent: results, refused } = operator.broadcast(&request).await?;
    if ui.json {
        ui.document(&BroadcastDocument { total: results.len(), results, refused });
        return Ok(Exit::Ok);
    }
    for sent in &results {
        ui.line(line(sent, When::Next));
    }
    for one in &refused {
        ui.note(format!("not sent: {}", one.error));
    }
    if !ui.quiet {
        if results.is_empty() {
            ui.note("no agent could receive it; `regatta list --status all` shows all tasks");
        }
        let mut hints: Vec<&String> = results.iter().filter_map(|sent| sent.hint.as_ref()).collect();
        hints.sort_unstable();
        hints.dedup();
        hints.into_iter().for_each(|hint| ui.line(hint));
    }
    Ok(Exit::Ok)
}
