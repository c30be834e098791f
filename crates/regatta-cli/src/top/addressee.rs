//! The recipient of a message, and why one may not be reachable.

use regatta_core::crew::MemberName;
use regatta_core::id::TaskId;
use regatta_core::state::TaskState;

use super::crew::Seat;
use super::model::{Group, Model};
use super::screen::{Screen, View};

/// The recipient of the typed text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Addressee {
    /// A task's agent, as its next prompt.
    Agent(TaskId),
    /// An inbox: of a member, or of the agent of the task with that name.
    Inbox(MemberName),
}

impl Addressee {
    /// The label before the typed text.
    pub(super) fn question(&self, model: &Model) -> String {
        match self {
            Addressee::Agent(task) => format!("to the agent of {task}; Enter sends, Esc does not"),
            Addressee::Inbox(name) => {
                let whose = match model.crew.members.iter().find(|seat| seat.name.is(name)) {
                    Some(seat) if seat.is_there => format!("{name} ({})", seat.role),
                    Some(_) => format!("{name}, who has left"),
                    None => format!("the agent of {name}"),
                };
                format!("a message to {whose}; Enter sends, Esc does not")
            }
        }
    }
}

impl Screen {
    /// The selected member in the crew view.
    pub(super) fn member<'a>(&self, model: &'a Model) -> Option<&'a Seat> {
        let chosen = self.member.as_ref();
        let named = model.crew.members.iter().find(|seat| chosen.is_some_and(|name| seat.name.is(name)));
        named.or_else(|| model.crew.members.first())
    }

    /// The recipient of a message typed here, or why there is none.
    pub(super) fn addressee(&self, model: &Model) -> Result<Addressee, String> {
        if self.view == View::Crew && self.page.is_none() {
            return match self.member(model) {
                Some(seat) => Ok(Addressee::Inbox(seat.name.clone())),
                None => Err("the crew is empty; `regatta crew register NAME` joins it".to_owned()),
            };
        }
        let Some(row) = self.target(model).and_then(|task| model.rows.get(&task)) else {
            return Err("no task is selected".to_owned());
        };
        if let Some(seat) = model.crew.holder(&row.id) {
            return Ok(Addressee::Inbox(seat.name.clone()));
        }
        let is_posted = model.crew.posted.contains_key(&row.id);
        match unread_for_ever(&row.id, &row.state, is_posted && row.group() == Group::Waiting) {
            Some((why, hint)) => Err(format!("{why}; {hint}")),
            None => Ok(Addressee::Inbox(MemberName::from(row.id.clone()))),
        }
    }
}

/// Why a message to a task's agent would never be read, and what to do instead.
pub(super) fn unread_for_ever(id: &TaskId, state: &TaskState, nobodys: bool) -> Option<(String, String)> {
    if nobodys {
        let why = format!("{id} is on the board and no member holds it, so no one would read a message");
        return Some((why, "send a message to a member in the crew view".to_owned()));
    }
    match state {
        TaskState::Done { .. } | TaskState::Landed { .. } => Some((
            format!("{id} is {}: it has no agent that would read a message", state.name()),
            "`s` continues it with your message".to_owned(),
        )),
        TaskState::Cancelled { .. } | TaskState::Skipped { .. } => Some((
            format!("{id} is {}: it has no agent that would read a message", state.name()),
            "`R` requeues it".to_owned(),
        )),
        _ => None,
    }
}
