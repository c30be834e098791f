//! `regatta ctx watch`: follows values as they change.

use regatta_ops::crew::{ContextSeen, ContextWatch};
use regatta_ops::documents::crew::ContextDocument;
use regatta_ops::door::{MOST_PATIENCE, SentContext, Tool};
use regatta_store::ContextEntry;

use crate::cli::Global;
use crate::crew::open;
use crate::door::{self, Door};
use crate::exit::Exit;
use crate::render::shown::clean_line;
use crate::ui::Ui;
use regatta_ops::Refusal;

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
    let skips_first = args.new || args.once;
    let mut source = match door::here() {
        Some(door) => Source::Door(door, ContextSeen::new(args.keys)),
        None => Source::Store(open(global).await?.watch_context(args.keys).await?),
    };
    let now = source.next().await?;
    if !skips_first {
        now.iter().for_each(|entry| tell(entry, ui));
    } else if !ui.quiet {
        ui.note("watching");
    }
    loop {
        source.next().await?.iter().for_each(|entry| tell(entry, ui));
        if args.once {
            return Ok(Exit::Ok);
        }
    }
}

/// Where values come from.
enum Source {
    Store(ContextWatch),
    /// Inside a sandbox.
    Door(Door, ContextSeen),
}

impl Source {
    /// At first the values as they are, then those that changed.
    async fn next(&mut self) -> Result<Vec<ContextEntry>, Refusal> {
        let (door, seen) = match self {
            Source::Store(watch) => return watch.next().await,
            Source::Door(door, seen) => (door, seen),
        };
        loop {
            let (after, seconds) = (seen.after(), MOST_PATIENCE.as_secs());
            let found: Vec<SentContext> = door.ask(Tool::WaitForContext { after, seconds })?;
            let wanted = seen.take(found.into_iter().map(ContextEntry::from).collect());
            if after.is_none() || !wanted.is_empty() {
                return Ok(wanted);
            }
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
