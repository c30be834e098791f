//! Messages from crew members to the agent of a task, delivered when an attempt starts.
//!
//! Invariant: a message is never part of a prompt that is code. Programs whose prompt is a script get none; they ask
//! with `regatta msg inbox`. A message is marked after the agent was started with it: a crash in between delivers it
//! again in the next attempt, and none is lost.

use regatta_core::config::AgentKind;
use regatta_core::crew::MemberName;
use regatta_store::{InboxQuery, Mark, Message};

use super::Worker;
use crate::clock;
use crate::persist::until_answered;
use crate::templates::{self, Text};

/// Messages that one attempt gets at most; the others come with the next attempt.
const MESSAGES_PER_ATTEMPT: usize = 50;

/// Messages, and the text that presents them.
pub(super) struct Mail {
    messages: Vec<Message>,
    pub(super) text: Option<String>,
}

impl Worker {
    /// The new messages for the agent. A failure here does not keep it from starting.
    pub(super) async fn mail(&self, kind: AgentKind) -> Mail {
        if matches!(kind, AgentKind::Command | AgentKind::Sim) {
            return Mail { messages: Vec::new(), text: None };
        }
        let name = MemberName::from(self.claim.task.clone());
        let query = InboxQuery { unread: true, limit: MESSAGES_PER_ATTEMPT, ..InboxQuery::default() };
        let messages = match until_answered(|| self.ctx.services.store.inbox(&name, &query)).await {
            Ok(messages) => messages,
            Err(error) => {
                self.ctx.say(format!("{name}: its messages cannot be read: {error}"));
                Vec::new()
            }
        };
        let template = Text::Message.load(&self.ctx.repository.project_dir).unwrap_or_else(|fault| {
            self.ctx.say(format!("{fault}; messages use the default text"));
            Text::Message.standard()
        });
        let told: Vec<String> =
            messages.iter().map(|message| templates::message(&template, message)).collect();
        let text = (!told.is_empty()).then(|| {
            format!(
                "## Messages for you\n\nFrom people and other agents; `regatta msg reply N \"…\"` answers.\n\n{}",
                told.join("\n")
            )
        });
        Mail { messages, text }
    }

    /// Marks the messages as delivered.
    pub(super) async fn mail_told(&self, mail: &Mail) {
        let ids: Vec<u64> = mail.messages.iter().map(|message| message.id).collect();
        if ids.is_empty() {
            return;
        }
        let (name, at) = (MemberName::from(self.claim.task.clone()), clock::now());
        if let Err(error) = until_answered(|| self.ctx.services.store.mark(&name, &ids, Mark::Read, at)).await
        {
            self.ctx.say(format!("{name}: its messages stay new: {error}"));
        }
    }
}
