//! `regatta msg wait`: waits for a message.

use std::time::Duration;

use regatta_core::config::parse_duration;
use regatta_core::crew::MemberName;
use regatta_store::{InboxQuery, Message, Store};
use tokio::time::Instant;

use super::show::{one, shown, turn};
use crate::cli::Global;
use crate::crew::{As, member_name, open};
use crate::error::{CliError, RefusalKind};
use crate::exit::Exit;
use crate::project::Project;
use crate::ui::Ui;

/// Who waits looks by itself this often; a message wakes it before.
const LOOK: Duration = Duration::from_secs(5);

/// Wait until there is a new message, and show it: all that are new by then, an object per line with --json. Exits with 5
/// if the time ran out.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) who: As,
    /// Wait no longer than this: seconds, or 5m, 1h30m.
    #[arg(long, value_name = "S")]
    pub(crate) timeout: Option<String>,
    /// Only messages from this member.
    #[arg(long, value_name = "NAME", value_parser = member_name)]
    pub(crate) from: Option<MemberName>,
    /// Only answers to this message.
    #[arg(long, value_name = "N")]
    pub(crate) reply_to: Option<u64>,
    /// Go on waiting after that, until it is interrupted.
    #[arg(long, short = 'f')]
    pub(crate) follow: bool,
}

/// Which messages are waited for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    pub(crate) from: Option<MemberName>,
    pub(crate) reply_to: Option<u64>,
    pub(crate) follow: bool,
}

impl Wanted {
    fn is_it(&self, message: &Message) -> bool {
        self.from.as_ref().is_none_or(|name| name.is(&message.from))
            && self.reply_to.is_none_or(|id| message.reply_to == Some(id))
    }
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, CliError> {
    let (project, store) = open(global).await?;
    let reader = args.who.reader(store.as_ref()).await?;
    let wanted = Wanted { from: args.from, reply_to: args.reply_to, follow: args.follow };
    until(&project, store.as_ref(), &reader, &wanted, args.timeout.as_deref(), ui).await
}

/// Waits for messages that are wanted, and shows them.
pub(crate) async fn until(
    project: &Project,
    store: &dyn Store,
    reader: &MemberName,
    wanted: &Wanted,
    timeout: Option<&str>,
    ui: &Ui,
) -> Result<Exit, CliError> {
    let patience = timeout.map(patience).transpose()?.flatten();
    let deadline = patience.map(|patience| Instant::now() + patience);
    let mut changes = store.subscribe().await?;
    loop {
        changes.borrow_and_update();
        let told = show_new(project, store, reader, wanted, ui).await?;
        if told && !wanted.follow {
            return Ok(Exit::Ok);
        }
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return Err(CliError::new(
                RefusalKind::TimedOut,
                format!("no message for {reader} came in time"),
            )
            .hinted("`regatta msg inbox --all` shows what came before"));
        }
        tokio::select! {
            more = changes.changed() => if more.is_err() {
                return Err(CliError::new(RefusalKind::CannotWork, "the store stopped telling of changes"));
            },
            () = tokio::time::sleep(left.unwrap_or(LOOK).min(LOOK)) => {}
        }
    }
}

/// Shows what is new and wanted, and remembers that. False if there was nothing.
async fn show_new(
    project: &Project,
    store: &dyn Store,
    reader: &MemberName,
    wanted: &Wanted,
    ui: &Ui,
) -> Result<bool, CliError> {
    let new = InboxQuery { unread: true, ..InboxQuery::default() };
    // A look first: while nothing is new, nobody is held up by whoever waits.
    if !store.inbox(reader, &new).await?.iter().any(|message| wanted.is_it(message)) {
        return Ok(false);
    }
    let _turn = turn(project, reader).await?;
    let mut messages = store.inbox(reader, &new).await?;
    messages.retain(|message| wanted.is_it(message));
    messages.iter().for_each(|message| one(message, ui));
    shown(store, reader, &messages).await?;
    Ok(!messages.is_empty())
}

fn patience(text: &str) -> Result<Option<Duration>, CliError> {
    parse_duration(text).map_err(|why| {
        CliError::usage(format!("--timeout {text:?} {why}")).hinted("for example: --timeout 60")
    })
}
