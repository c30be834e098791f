//! A member that is a process: it receives every message until it is interrupted, and may pass each to a program.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use regatta_core::crew::MemberName;
use regatta_engine::clock;
use regatta_engine::templates::{self, Text};
use regatta_store::{Member, Message, StoreError};
use tokio::io::AsyncWriteExt as _;

use super::{Crew, InboxRequest, unusable};
use crate::changes::StoreChanges;
use crate::project::Project;
use crate::refusal::Refusal;

/// Time between two heartbeats, and between two looks at the inbox without a wake-up.
const BEAT: Duration = Duration::from_secs(5);

/// How a member that stays handles its messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StayRequest {
    /// The program that gets each message, with its arguments; empty for none.
    pub command: Vec<String>,
    /// Where the program's output goes; `None` for this process's own output.
    pub keep: Option<KeepOutput>,
}

/// A program's output is kept in files, one per message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeepOutput {
    /// The directory; `None` for one of Regatta's own.
    pub dir: Option<PathBuf>,
}

/// What happens while a member stays.
#[derive(Clone, Debug, PartialEq)]
pub enum Heard<'a> {
    /// A message has arrived.
    Message(&'a Message),
    /// The program did not handle it, for this reason.
    NotHandled { message: u64, program: &'a str, why: String },
}

impl Crew {
    /// Receives messages, each passed to the program if there is one, until `until` resolves; then the member leaves.
    pub async fn stay(
        &self,
        member: &Member,
        request: &StayRequest,
        until: impl Future<Output = ()>,
        mut hear: impl FnMut(Heard<'_>),
    ) -> Result<(), Refusal> {
        let worked = tokio::select! {
            worked = self.receive(member, request, &mut hear) => worked,
            () = until => Ok(()),
        };
        self.store.close_session(&member.session, clock::now()).await?;
        worked
    }

    async fn receive(
        &self,
        member: &Member,
        request: &StayRequest,
        hear: &mut impl FnMut(Heard<'_>),
    ) -> Result<(), Refusal> {
        let mut changes = StoreChanges::of(self.store()).await?;
        loop {
            match self.store.renew(&member.session).await {
                Err(StoreError::SessionExpired) => {
                    return Err(Refusal::refused(format!("{} was removed from the crew", member.name))
                        .hinted(format!("`regatta crew register {}` rejoins", member.name)));
                }
                renewed => renewed?,
            };
            while self.handle_next(&member.name, request, hear).await? {}
            changes.next_within(BEAT).await?;
        }
    }

    /// Handles the oldest new message. False if there is none.
    async fn handle_next(
        &self,
        name: &MemberName,
        request: &StayRequest,
        hear: &mut impl FnMut(Heard<'_>),
    ) -> Result<bool, Refusal> {
        let inbox = InboxRequest { limit: 1, ..InboxRequest::new(name.clone()) };
        let Some(letters) = self.new_letters(&inbox).await? else { return Ok(false) };
        for message in &letters.messages {
            hear(Heard::Message(message));
            if let Some((program, args)) = request.command.split_first() {
                let template = Text::Message.load(&self.project.repo.state_dir).map_err(unusable)?;
                let text = templates::message(&template, message);
                let output = match &request.keep {
                    Some(keep) => Some(file(&self.project, keep, name, message.id)?),
                    None => None,
                };
                if let Err(why) = hand_over(program, args, name, &text, output).await {
                    hear(Heard::NotHandled { message: message.id, program, why });
                }
            }
        }
        // Marked as shown only now: if this process is killed before, the next one gets the message again.
        letters.shown().await?;
        Ok(true)
    }
}

/// The file for the output about one message.
fn file(project: &Project, keep: &KeepOutput, name: &MemberName, id: u64) -> Result<std::fs::File, Refusal> {
    let own = || project.repo.state_dir.join("crew").join(name.as_str());
    let dir = keep.dir.clone().unwrap_or_else(own);
    project.make_state_dir_once()?;
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
