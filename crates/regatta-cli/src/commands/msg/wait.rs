//! `regatta msg wait`: waits for a message.

use std::time::Duration;

use regatta_core::config::parse_duration;
use regatta_core::crew::MemberName;
use regatta_ops::crew::{Crew, InboxRequest, WaitRequest};
use regatta_ops::door::{MOST_PATIENCE, SentMessage, Tool};
use tokio::time::Instant;

use super::show::one;
use crate::cli::Global;
use crate::crew::{As, member_name, open};
use crate::door::Door;
use crate::exit::Exit;
use crate::ui::Ui;
use regatta_ops::{Refusal, RefusalKind};

/// Wait for a new message, then show all that are new; with --json one object per line. Exits with 5 if the time runs
/// out.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) who: As,
    /// Wait at most this long: seconds, or 5m, 1h30m.
    #[arg(long, value_name = "S")]
    pub(crate) timeout: Option<String>,
    /// Only messages from this member.
    #[arg(long, value_name = "NAME", value_parser = member_name)]
    pub(crate) from: Option<MemberName>,
    /// Only answers to this message.
    #[arg(long, value_name = "N")]
    pub(crate) reply_to: Option<u64>,
    /// Keep waiting for more, until interrupted.
    #[arg(long, short = 'f')]
    pub(crate) follow: bool,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let patience = patience(args.timeout.as_deref())?;
    if let Some(door) = args.who.door()? {
        return through_door(&door, args.from, args.reply_to, patience, args.follow, ui);
    }
    let crew = open(global).await?;
    let reader = crew.reader(&args.who.speaker()).await?;
    let inbox = InboxRequest { from: args.from, reply_to: args.reply_to, ..InboxRequest::new(reader) };
    until(&crew, inbox, patience, args.follow, ui).await
}

/// Waits for messages and shows them; with `follow`, again and again.
pub(super) async fn until(
    crew: &Crew,
    inbox: InboxRequest,
    patience: Option<Duration>,
    follow: bool,
    ui: &Ui,
) -> Result<Exit, Refusal> {
    let until = patience.map(|patience| Instant::now() + patience);
    let request = WaitRequest { inbox, until, keeps_there: false };
    while let Some(letters) = crew.wait_for_letters(&request).await? {
        letters.messages.iter().for_each(|message| one(message, ui));
        letters.shown().await?;
        if !follow {
            return Ok(Exit::Ok);
        }
    }
    Err(none_came(request.inbox.reader.as_str()))
}

fn none_came(reader: &str) -> Refusal {
    let why = format!("no message for {reader} arrived in time");
    Refusal::new(RefusalKind::TimedOut, why).hinted("`regatta msg inbox --all` shows older messages")
}

/// The same from inside a sandbox.
pub(super) fn through_door(
    door: &Door,
    from: Option<MemberName>,
    reply_to: Option<u64>,
    patience: Option<Duration>,
    follow: bool,
    ui: &Ui,
) -> Result<Exit, Refusal> {
    let begun = Instant::now();
    loop {
        let left = patience.map_or(MOST_PATIENCE, |patience| patience.saturating_sub(begun.elapsed()));
        // Rounded up, so that no round is shorter than what is left.
        let seconds = left.min(MOST_PATIENCE).as_secs_f64().ceil() as u64;
        let tool = Tool::WaitForMessage { from: from.clone(), reply_to, seconds };
        let found: Vec<SentMessage> = door.ask(tool)?;
        let came = !found.is_empty();
        found.into_iter().for_each(|message| one(&message.into(), ui));
        if came && !follow {
            return Ok(Exit::Ok);
        }
        if patience.is_some_and(|patience| begun.elapsed() >= patience) {
            return Err(none_came(&std::env::var("REGATTA_TASK").unwrap_or_default()));
        }
    }
}

/// How long to wait.
pub(super) fn patience(text: Option<&str>) -> Result<Option<Duration>, Refusal> {
    let Some(text) = text else { return Ok(None) };
    parse_duration(text).map_err(|why| {
        Refusal::usage(format!("--timeout {text:?} {why}")).hinted("for example: --timeout 60")
    })
}
