//! `regatta top`: the whole project on one screen.

use std::io::IsTerminal;

use regatta_core::crew::MemberName;
use regatta_ops::Crew;

use crate::cli::Global;
use crate::crew::{As, member_name};
use crate::exit::Exit;
use crate::project::Project;
use crate::top::{Feed, How, document, once};
use crate::ui::Ui;
use regatta_ops::Refusal;
use regatta_ops::documents::by_name;

/// Watch everything on one screen: lanes, board, train, crew, events, cost.
///
/// The last line and `?` show the keys. Capital letters end something and ask first; --read-only turns them off.
/// Quitting leaves every agent running. With --once it prints one picture, or with --json one document, and exits.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Disable all keys that change something.
    #[arg(long)]
    read_only: bool,
    /// Print one picture and exit; with --json, one document.
    #[arg(long)]
    once: bool,
    /// The size of the picture that --once prints, instead of the terminal's.
    #[arg(long, value_name = "WxH", value_parser = size, requires = "once")]
    size: Option<(u16, u16)>,
    #[command(flatten)]
    who: As,
    /// As in claude-orchestrator's `leader`: registers, takes the lead, and leaves on exit.
    #[arg(long, hide = true, conflicts_with = "as", value_parser = member_name)]
    name: Option<MemberName>,
}

/// The largest width or height of a picture.
const LARGEST: u16 = 1000;

fn size(text: &str) -> Result<(u16, u16), String> {
    let wrong = || "expected a width and a height, such as 80x24".to_owned();
    let (width, height) = text.split_once(['x', 'X', '×']).ok_or_else(wrong)?;
    let number = |text: &str| text.parse().ok().filter(|n| (1..=LARGEST).contains(n)).ok_or_else(wrong);
    Ok((number(width)?, number(height)?))
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    if ui.json && !args.once {
        return Err(Refusal::usage("the live screen cannot be JSON").hinted(
            "`regatta top --once --json` prints one document; `regatta list -w --json` and `regatta events -f --json` keep printing",
        ));
    }
    if let (Some(name), false) = (&args.name, args.once || std::io::stdout().is_terminal()) {
        return super::crew::register::lead(name, global, &Ui { json: true, ..ui.clone() }).await;
    }
    if !args.once {
        refuse_without_terminal()?;
    }
    let project = Project::open(&global.options())?;
    let store = project.store_to_follow().await?;
    let led = match &args.name {
        Some(name) if !args.once => Crew::of(&project, store.clone()).take_lead(name).await?,
        _ => None,
    };
    let kept = store.clone();
    let mut feed = Feed::open(&project, store).await?;
    if ui.json {
        feed.read_all_attempts().await?;
        ui.document(&by_name(&document(&feed)));
        return Ok(Exit::Ok);
    }
    if args.once {
        let size = args.size.unwrap_or_else(terminal_size);
        return once(&project, feed, size, args.read_only, ui).await;
    }
    let ended = crate::top::run(
        project,
        feed,
        How { read_only: args.read_only, who: As { name: args.who.name.or(args.name) } },
        ui,
    )
    .await;
    if let Some(session) = led {
        kept.close_session(&session, regatta_engine::clock::now()).await?;
    }
    ended
}

fn terminal_size() -> (u16, u16) {
    match rustix::termios::tcgetwinsize(std::io::stdout()) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
            (size.ws_col.min(LARGEST), size.ws_row.min(LARGEST))
        }
        _ => (80, 24),
    }
}

fn refuse_without_terminal() -> Result<(), Refusal> {
    let instead =
        "`regatta list -w` and `regatta events -f` need no terminal; `regatta top --once` prints one screen";
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        return Err(Refusal::usage("regatta top needs a terminal").hinted(instead));
    }
    match std::env::var("TERM").as_deref() {
        Ok("dumb") => Err(Refusal::usage("this terminal cannot draw a screen (TERM=dumb)").hinted(instead)),
        Err(_) | Ok("") => {
            Err(Refusal::usage("TERM is not set, so Regatta cannot draw here").hinted(instead))
        }
        Ok(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_two_numbers() {
        assert_eq!(size("80x24"), Ok((80, 24)));
        assert_eq!(size("200X60"), Ok((200, 60)));
        for bad in ["", "80", "80x", "x24", "0x24", "80x-1", "5000x5", "80x24x3"] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }
}
