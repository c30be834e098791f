//! `regatta events`: what happened, in order.

use regatta_core::event::{Event, EventBody};
use regatta_core::report::describe;
use regatta_engine::redact::Redactor;
use regatta_ops::look::events::EventsRequest;

use crate::cli::Global;
use crate::exit::Exit;
use crate::project::Project;
use crate::render::shown::{clean_line, redactor};
use crate::ui::{Style, Ui};
use regatta_ops::Refusal;

/// Show the event log: everything that happened to every task, in order.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Keep following new events.
    #[arg(long, short = 'f')]
    follow: bool,
    /// Only events after this number.
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    since: u64,
    /// Only events of this task.
    #[arg(long, value_name = "ID")]
    task: Option<String>,
    /// Only the last N; with -f, also those that follow.
    #[arg(long, short = 'n', value_name = "N")]
    lines: Option<usize>,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let project = Project::look(&global.options())?;
    let redactor = redactor(&project.config);
    let request = EventsRequest { task: args.task, since: args.since, last: args.lines, follow: args.follow };
    project.events(&request, |event| show(event, &redactor, ui)).await?;
    Ok(Exit::Ok)
}

/// Prints one event on one line, as an object or for people.
pub(crate) fn show(event: &Event, redactor: &Redactor, ui: &Ui) {
    if ui.json {
        let line = serde_json::to_string(event).expect("our own values serialise");
        ui.line(redactor.redact(&line));
        return;
    }
    let task = event.task.as_ref().map_or("-", |task| task.as_str());
    let attempt = event.attempt.map_or_else(String::new, |n| format!("#{n}"));
    let text = clean_line(&redactor.redact(&describe(&event.body)));
    let at = ui.paint(Style::Dim, &crate::render::when::stamp(event.at));
    ui.line(format!("{:>6}  {at}  {}{attempt}  {text}", event.seq, ui.paint(Style::Strong, task)));
    if let EventBody::Noted { text } = &event.body {
        for line in text.lines().skip(1) {
            ui.line(ui.paint(Style::Dim, &format!("        {}", clean_line(&redactor.redact(line)))));
        }
    }
}
