//! `regatta events`: what happened, in order.

use std::collections::VecDeque;

use regatta_core::event::{Event, EventBody};
use regatta_core::id::TaskId;
use regatta_core::report::describe;
use regatta_engine::redact::Redactor;
use regatta_store::Store;

use crate::cli::Global;
use crate::exit::Exit;
use crate::project::{Project, find_task};
use crate::render::shown::{clean_line, redactor};
use crate::ui::{Style, Ui};
use regatta_ops::{Refusal, RefusalKind};

/// How many events are read at once.
const PAGE: usize = 1000;

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
    let store = match args.follow && args.task.is_none() {
        true => project.create_store().await?,
        false if args.task.is_none() && !project.has_store() => return Ok(Exit::Ok),
        false => project.store().await?,
    };
    let task = match &args.task {
        Some(text) => Some(find_task(store.as_ref(), text).await?.spec.id),
        None => None,
    };
    let redactor = redactor(&project.config);
    let mut changes = store.subscribe().await?;
    let mut after = args.since;
    if let Some(n) = args.lines {
        after = before_last(store.as_ref(), after, task.as_ref(), n).await?;
    }
    loop {
        changes.borrow_and_update();
        show_after(store.as_ref(), &mut after, task.as_ref(), |event| show(event, &redactor, ui)).await?;
        if !args.follow {
            return Ok(Exit::Ok);
        }
        if changes.changed().await.is_err() {
            return Err(Refusal::new(RefusalKind::CannotWork, "the store stopped reporting changes"));
        }
    }
}

/// The number after which the last `n` events come.
async fn before_last(store: &dyn Store, after: u64, task: Option<&TaskId>, n: usize) -> Result<u64, Refusal> {
    let last = store.last_seq().await?;
    if task.is_none() {
        // Event numbers have no gaps, except for rolled-back ones.
        return Ok(after.max(last.saturating_sub(n as u64)));
    }
    let (mut read, mut seqs) = (after, VecDeque::from([after]));
    show_after(store, &mut read, task, |event| {
        seqs.push_back(event.seq);
        if seqs.len() > n + 1 {
            seqs.pop_front();
        }
    })
    .await?;
    Ok(seqs.front().copied().unwrap_or(after))
}

/// Passes every event after `after` to `each`, and advances `after`.
pub(crate) async fn show_after(
    store: &dyn Store,
    after: &mut u64,
    task: Option<&TaskId>,
    mut each: impl FnMut(&Event),
) -> Result<(), Refusal> {
    loop {
        let events = store.events(*after, task, PAGE).await?;
        for event in &events {
            *after = event.seq;
            each(event);
        }
        if events.len() < PAGE {
            return Ok(());
        }
    }
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
