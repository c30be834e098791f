//! `regatta crew register --stay`: this process is the member, and handles every message.

use std::path::PathBuf;
use std::process::Stdio;

use regatta_core::crew::MemberName;
use regatta_engine::clock;
use regatta_engine::templates::{self, Text};
use regatta_ops::crew::{Crew, InboxRequest, unusable};
use regatta_store::{Member, StoreError};
use tokio::io::AsyncWriteExt as _;

use crate::commands::msg::show::one;
use crate::exit::Exit;
use crate::project::Project;
use crate::ui::Ui;
use regatta_ops::{Refusal, StoreChanges};

/// Time between two heartbeats, and between two looks at the inbox without a wake-up.
const BEAT: std::time::Duration = std::time::Duration::from_secs(5);

/// Where a program's output is kept, one file per message.
#[derive(Clone, Debug)]
pub(crate) struct Keep {
    /// The directory; `None` for one of Regatta's own.
    pub(crate) dir: Option<PathBuf>,
}

/// How messages are handled.
pub(crate) struct Hands<'a> {
    /// The program that gets each message; empty to only show it.
    pub(crate) command: &'a [String],
    /// Where the program's output goes; `None` for this command's own output.
    pub(crate) keep: Option<&'a Keep>,
}

/// Shows messages as they arrive, or passes each to `command`, until interrupted; then the member leaves.
pub(crate) async fn stay(crew: &Crew, member: &Member, hands: &Hands<'_>, ui: &Ui) -> Result<Exit, Refusal> {
    let worked = tokio::select! {
        worked = work(crew, member, hands, ui) => worked,
        signal = tokio::signal::ctrl_c() => {
            let _ = signal;
            Ok(())
        }
    };
    crew.store.close_session(&member.session, clock::now()).await?;
    worked.map(|()| Exit::Ok)
}

async fn work(crew: &Crew, member: &Member, hands: &Hands<'_>, ui: &Ui) -> Result<(), Refusal> {
    let mut changes = StoreChanges::of(crew.store.as_ref()).await?;
    loop {
        match crew.store.renew(&member.session).await {
            Err(StoreError::SessionExpired) => {
                return Err(Refusal::refused(format!("{} was removed from the crew", member.name))
                    .hinted(format!("`regatta crew register {}` rejoins", member.name)));
            }
            renewed => renewed?,
        };
        while next(crew, &member.name, hands, ui).await? {}
        changes.next_within(BEAT).await?;
    }
}

/// Handles the oldest new message. False if there is none.
async fn next(crew: &Crew, name: &MemberName, hands: &Hands<'_>, ui: &Ui) -> Result<bool, Refusal> {
    let request = InboxRequest { limit: 1, ..InboxRequest::new(name.clone()) };
    let Some(letters) = crew.new_letters(&request).await? else { return Ok(false) };
    for message in &letters.messages {
        one(message, ui);
        if let Some((program, args)) = hands.command.split_first() {
            let template = Text::Message.load(&crew.project.repo.state_dir).map_err(unusable)?;
            let text = templates::message(&template, message);
            let output = match hands.keep {
                Some(keep) => Some(file(&crew.project, keep, name, message.id)?),
                None => None,
            };
            if let Err(why) = hand_over(program, args, name, &text, output).await {
                ui.note(format!("message {}: {program} {why}", message.id));
            }
        }
    }
    // Marked as shown only now: if this process is killed before, the next one gets the message again.
    letters.shown().await?;
    Ok(true)
}

/// The file for the output about one message.
fn file(project: &Project, keep: &Keep, name: &MemberName, id: u64) -> Result<std::fs::File, Refusal> {
    let own = || project.repo.state_dir.join("crew").join(name.as_str());
    let dir = keep.dir.clone().unwrap_or_else(own);
    std::fs::create_dir_all(&dir).map_err(|error| Refusal::io("making", &dir, &error))?;
    let path = dir.join(format!("msg-{:010}.log", id.saturating_sub(1)));
    std::fs::File::create(&path).map_err(|error| Refusal::io("writing", &path, &error))
}

/// Runs a program with the message on its standard input. No shell reads the message.
async fn hand_over(
    program: &str,
    args: &[String],
    name: &MemberName,
    text: &str,
    output: Option<std::fs::File>,
) -> Result<(), String> {
    let mut command = tokio::process::Command::new(program);
    if let Some(output) = output {
        command.stdout(output);
    }
    command.args(args).env("REGATTA_MEMBER", name.as_str()).stdin(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().map_err(|error| format!("cannot be started: {error}"))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program need not read its input.
        let _ = stdin.write_all(text.as_bytes()).await;
    }
    let status = child.wait().await.map_err(|error| format!("cannot be waited for: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("ended with {status}")) }
}
