//! `regatta store copy FROM TO`: moves everything to another store.

use regatta_ops::{Refusal, stores};

use crate::cli::Global;
use crate::exit::Exit;
use crate::ui::Ui;

/// Move everything to another store: tasks, attempts, events, messages, context, requests, numbers.
///
/// Refused while a daemon or a run uses FROM. TO must be empty or not exist; a copy that was interrupted continues when
/// you run the same command again. Both stores are compared, record by record, and TO is checked. Then FROM is marked:
/// programs that open it are refused, and the message names TO. Set `store` in regatta.yaml, or REGATTA_STORE, to TO.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The store to move: a path, sqlite:PATH, `sqlite` for the one in .regatta, postgres://USER@HOST/DATABASE, or
    /// zookeeper://HOST,HOST/CHROOT.
    #[arg(value_name = "FROM")]
    from: String,
    /// Where to, written in the same way.
    #[arg(value_name = "TO", required_unless_present = "undo", conflicts_with = "undo")]
    to: Option<String>,
    /// Leave FROM usable, to try the copy out. What changes in FROM afterwards is not in the copy.
    #[arg(long)]
    keep: bool,
    /// Take back an unfinished copy: FROM can be used again if it was being moved, and is emptied if it was being filled.
    /// Refused if FROM was not being moved or filled, if its move is complete, or if it already has every record of
    /// another store: that one may be marked as moved, so finish the copy instead.
    #[arg(long, conflicts_with = "keep")]
    undo: bool,
}

pub(super) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let options = global.options();
    let Some(to) = &args.to else {
        let from = stores::undo_copy(&options, &args.from).await?;
        if ui.json {
            ui.document(&serde_json::json!({ "from": from, "moved": false }));
        } else {
            ui.line(format!("{from} can be used again"));
        }
        return Ok(Exit::Ok);
    };
    let progress = |kind: regatta_store::transfer::Kind, done: u64| {
        if ui.verbose {
            ui.note(format!("{kind}: {done}"));
        }
    };
    let copied = stores::copy(&options, &args.from, to, args.keep, &progress).await?;
    if ui.json {
        ui.document(&copied);
        return Ok(Exit::Ok);
    }
    let how = if copied.resumed { "continued and compared" } else { "compared" };
    ui.line(format!("copied {} to {}, {how}", super::counted(&copied.records), copied.to));
    if copied.moved {
        ui.note(format!(
            "{} is marked as moved; set `store` or REGATTA_STORE to the new address",
            copied.from
        ));
    }
    Ok(Exit::Ok)
}
