//! `regatta ctx watch`: follows values as they change.

use std::time::Duration;

use regatta_ops::documents::crew::ContextDocument;
use regatta_ops::door::{MOST_PATIENCE, SentContext, Tool};
use regatta_store::{ContextEntry, ContextQuery};

use crate::cli::Global;
use crate::crew::open;
use crate::door;
use crate::exit::Exit;
use crate::render::shown::clean_line;
use crate::ui::Ui;
use regatta_ops::{Refusal, StoreChanges};

/// Time between two looks without a wake-up; a change wakes it earlier.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);

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
    let mut shown = Shown { args, after: 0, first: true };
    if let Some(door) = door::here() {
        loop {
            let (after, seconds) = (shown.after(), MOST_PATIENCE.as_secs());
            let found: Vec<SentContext> = door.ask(Tool::WaitForContext { after, seconds })?;
            if shown.show(found.into_iter().map(ContextEntry::from), ui) {
                return Ok(Exit::Ok);
            }
        }
    }
    let store = open(global).await?.store;
    let mut changes = StoreChanges::of(store.as_ref()).await?;
    loop {
        let query = ContextQuery { prefix: String::new(), after: shown.after() };
        if shown.show(store.contexts(&query).await?.into_iter(), ui) {
            return Ok(Exit::Ok);
        }
        changes.next_within(LOOK_INTERVAL).await?;
    }
}

/// What was shown so far.
struct Shown {
    args: Args,
    /// The last change.
    after: u64,
    first: bool,
}

impl Shown {
    /// The change to continue from.
    fn after(&self) -> Option<u64> {
        (!self.first).then_some(self.after)
    }

    /// Shows values; true if that was all that is wanted.
    fn show(&mut self, entries: impl Iterator<Item = ContextEntry>, ui: &Ui) -> bool {
        let Args { keys, new, once } = &self.args;
        let mut told = false;
        for entry in entries {
            self.after = self.after.max(entry.change);
            let wanted = keys.is_empty() || keys.contains(&entry.key);
            if !wanted || (self.first && (*new || *once)) {
                continue;
            }
            told = true;
            tell(&entry, ui);
        }
        if told && *once {
            return true;
        }
        if self.first && (*new || *once) && !ui.quiet {
            ui.note("watching");
        }
        self.first = false;
        false
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
