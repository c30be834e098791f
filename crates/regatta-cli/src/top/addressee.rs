//! To whom something is said, and why it cannot be said to them.

use regatta_core::crew::MemberName;
use regatta_core::id::TaskId;
use regatta_core::state::TaskState;

use super::crew::Seat;
use super::model::{Group, Model};
use super::screen::{Screen, View};

/// Whom what is typed is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Addressee {
    /// A task's agent: it is its next prompt.
    Agent(TaskId),
    /// Whoever reads this inbox: a member, or the agent of the task of that name.
    Inbox(MemberName),
}

impl Addressee {
    /// For people, before what is typed.
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
    /// The member that is marked in the view of the crew.
    pub(super) fn member<'a>(&self, model: &'a Model) -> Option<&'a Seat> {
        let chosen = self.member.as_ref();
        let named = model.crew.members.iter().find(|seat| chosen.is_some_and(|name| seat.name.is(name)));
        named.or_else(|| model.crew.members.first())
    }

    /// To whom a message would go from here, or why to nobody.
    pub(super) fn addressee(&self, model: &Model) -> Result<Addressee, String> {
        if self.view == View::Crew && self.page.is_none() {
            return match self.member(model) {
                Some(seat) => Ok(Addressee::Inbox(seat.name.clone())),
                None => Err("nobody is in the crew; `regatta crew register NAME` joins it".to_owned()),
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

/// Why nobody would read a message to the agent of a task, and what to do instead.
pub(super) fn unread_for_ever(id: &TaskId, state: &TaskState, nobodys: bool) -> Option<(String, String)> {
    if nobodys {
        let why = format!("{id} is on the board and nobody holds it: nobody would read a message");
        return Some((why, "write to a member, in the view of the crew".to_owned()));
    }
    match state {
        TaskState::Done { .. } | TaskState::Landed { .. } => Some((
            format!("{id} is {}: no agent of it would read a message", state.name()),
            "`s` sends it on with what you say".to_owned(),
        )),
        TaskState::Cancelled { .. } | TaskState::Skipped { .. } => Some((
            format!("{id} is {}: no agent of it would read a message", state.name()),
            "`R` requeues it".to_owned(),
        )),
        _ => None,
    }
}
