//! `regatta ctx list`: the shared values.

use regatta_engine::clock;
use regatta_ops::documents::crew::ContextDocument;
use regatta_ops::door::{SentContext, Tool};
use regatta_store::{ContextEntry, ContextQuery};

use crate::cli::Global;
use crate::crew::open;
use crate::door;
use crate::exit::Exit;
use crate::render::shown::{ago, clean_line};
use crate::render::text::{fit, table};
use crate::ui::Ui;
use regatta_ops::Refusal;

/// List keys with their versions and values.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Only keys that start with this.
    #[arg(value_name = "PREFIX", default_value = "")]
    pub(crate) prefix: String,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let entries: Vec<ContextEntry> = match door::here() {
        Some(door) => {
            let found: Vec<SentContext> = door.ask(Tool::ListContext { prefix: args.prefix })?;
            found.into_iter().map(ContextEntry::from).collect()
        }
        None => {
            let crew = open(global).await?;
            crew.store.contexts(&ContextQuery { prefix: args.prefix, after: None }).await?
        }
    };
    if ui.json {
        ui.document(&entries.iter().map(ContextDocument::from).collect::<Vec<_>>());
        return Ok(Exit::Ok);
    }
    if entries.is_empty() {
        if !ui.quiet {
            ui.note("no values yet; `regatta ctx set KEY VALUE` sets one");
        }
        return Ok(Exit::Ok);
    }
    let now = clock::now();
    let rows: Vec<[String; 5]> = entries
        .iter()
        .map(|entry| {
            let value = clean_line(entry.value.as_deref().unwrap_or_default());
            [
                clean_line(&entry.key),
                entry.version.to_string(),
                clean_line(&entry.by),
                ago(entry.at, now),
                fit(&value, 70),
            ]
        })
        .collect();
    ui.out(&table(&["KEY", "VERSION", "BY", "WHEN", "VALUE"], &rows));
    Ok(Exit::Ok)
}
