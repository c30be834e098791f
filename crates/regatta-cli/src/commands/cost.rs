//! `regatta cost`: what agents have used, and what is left of the budgets.

use regatta_core::budget::{Account, dollars};
use regatta_core::time::Timestamp;
use regatta_engine::clock::{self, Day};
use regatta_ops::cost::{Cost, CostBy, CostRequest};
use regatta_ops::documents::{CostDocument, CostRow};

use crate::cli::Global;
use crate::exit::Exit;
use crate::project::Project;
use crate::render::shown::clean_line;
use crate::render::text::table;
use crate::ui::{Style, Ui};
use regatta_ops::Refusal;

/// Show what agents used, in tokens and dollars, and what is left of the budgets.
///
/// An attempt counts on the day it ended. Dollars are those that agents report, or tokens multiplied by
/// `models.prices` in regatta.yaml (marked ~). If neither is known, the sum leaves the attempt out (marked +?).
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// What to group the sums by.
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = By::Task)]
    by: By,
    /// Only attempts that ended on or after this local date, such as 2026-11-15, or `today`.
    #[arg(long, value_name = "DATE", value_parser = date)]
    since: Option<Timestamp>,
    /// Only tasks of this plan.
    #[arg(long, value_name = "NAME")]
    plan: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum By {
    Task,
    Agent,
    Model,
    Day,
}

impl From<By> for CostBy {
    fn from(by: By) -> Self {
        match by {
            By::Task => CostBy::Task,
            By::Agent => CostBy::Agent,
            By::Model => CostBy::Model,
            By::Day => CostBy::Day,
        }
    }
}

fn date(text: &str) -> Result<Timestamp, String> {
    if text == "today" {
        return Ok(Day::of(clock::now()).begins);
    }
    clock::begin_of(text).ok_or_else(|| "a day looks like 2026-11-15".to_owned())
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let project = Project::look(&global.options())?;
    let request = CostRequest { by: args.by.into(), since: args.since, plan: args.plan };
    let Cost { document, budgets } = project.cost(&request).await?;
    if ui.json {
        ui.document(&document);
    } else {
        draw(&document, &budgets, ui);
    }
    Ok(Exit::Ok)
}

fn draw(cost: &CostDocument, budgets: &[Account], ui: &Ui) {
    if cost.rows.is_empty() {
        ui.note("no attempt has used anything yet");
    } else {
        let mut lines: Vec<Vec<String>> = cost.rows.iter().map(|row| cells(row, "(unknown)")).collect();
        lines.push(cells(&cost.total, "total"));
        let heading = cost.by.to_uppercase();
        let drawn = table(&[&heading, "ATTEMPTS", "TOKENS IN", "TOKENS OUT", "DOLLARS"], &lines);
        let n = drawn.lines().count();
        for (at, line) in drawn.lines().enumerate() {
            let is_bold = at == 0 || at + 1 == n;
            ui.line(if is_bold { ui.paint(Style::Strong, line) } else { line.to_owned() });
        }
        if cost.total.unpriced > 0 && !ui.quiet {
            let n = cost.total.unpriced;
            ui.note(format!(
                "the cost of {n} attempt{} is unknown (+?): set `models.prices` in regatta.yaml; token budgets apply to all",
                if n == 1 { "" } else { "s" }
            ));
        }
    }
    for account in budgets {
        let left = account.share().map_or(0.0, |share| (1.0 - share).max(0.0) * 100.0);
        let style = if left > 0.0 { Style::Dim } else { Style::Bad };
        let text = format!("budget of {}: {}, {left:.0} % left", account.scope, account.figures());
        ui.line(ui.paint(style, &clean_line(&text)));
    }
}

fn cells(row: &CostRow, unnamed: &str) -> Vec<String> {
    let about = if row.priced > 0 { "~" } else { "" };
    let more = if row.unpriced > 0 { " +?" } else { "" };
    vec![
        clean_line(row.key.as_deref().unwrap_or(unnamed)),
        row.attempts.to_string(),
        row.tokens_in.to_string(),
        row.tokens_out.to_string(),
        format!("{about}{}{more}", dollars(row.cost_usd)),
    ]
}
