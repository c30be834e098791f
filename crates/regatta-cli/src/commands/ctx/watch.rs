//! `regatta ctx watch`: follows values as they change.

use std::time::Duration;

use regatta_ops::documents::crew::ContextDocument;
use regatta_store::{ContextEntry, ContextQuery};

use crate::cli::Global;
use crate::crew::open;
use crate::exit::Exit;
use crate::render::shown::clean_line;
use crate::ui::Ui;
use regatta_ops::Refusal;

/// Time between two looks without a wake-up; a change wakes it earlier.
const LOOK: Duration = Duration::from_secs(5);

/// Follow values: print a line, or with --json an object, for each value as it is now and after every change. Of
/// several changes at once only the last is shown.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Only these keys.
    #[arg(value_name = "KEY")]
    pub(crate) keys: Vec<String>,
    /// Only changes from now on.
    #[arg(long)]
    pub(crate) new: bool,
    /// End after the first change.
    #[arg(long)]
    pub(crate) once: bool,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let store = open(global).await?.store;
    let mut changes = store.subscribe().await?;
    let mut after = 0;
    let mut first = true;
    loop {
        changes.borrow_and_update();
        let query = ContextQuery { prefix: String::new(), after: (!first).then_some(after) };
        let mut told = false;
        for entry in store.contexts(&query).await? {
            after = after.max(entry.change);
            let wanted = args.keys.is_empty() || args.keys.contains(&entry.key);
            if !wanted || (first && (args.new || args.once)) {
                continue;
            }
            told = true;
            tell(&entry, ui);
        }
        if told && args.once {
            return Ok(Exit::Ok);
        }
        if first && (args.new || args.once) && !ui.quiet {
            ui.note("watching");
        }
        first = false;
        tokio::select! {
            more = changes.changed() => more?,
            () = tokio::time::sleep(LOOK) => {}
        }
    }
}

fn tell(entry: &ContextEntry, ui: &Ui) {
    let (key, version) = (clean_line(&entry.key), entry.version);
    match &entry.value {
        _ if ui.json => ui.object(&ContextDocument::from(entry)),
        Some(value) => ui.line(format!("{key} {version} {}", clean_line(value))),
        None => ui.line(format!("{key} {version} is gone")),
    }
}
