//! The crew as shown: its members, the tasks they hold, and the last messages.

use regatta_core::time::counted;
use std::collections::HashMap;

use regatta_core::crew::{MemberName, Wanted};
use regatta_core::id::TaskId;
use regatta_engine::session::is_certainly_dead;
use regatta_store::{BOARD_QUEUE, Member, Message, MessageKind, TaskQuery};

use super::feed::{Feed, clock_of};
use super::model::{Model, Row};
use crate::render::shown::{clean, clean_line};
use regatta_ops::Refusal;

/// How many messages are shown; `regatta msg inbox` has each reader's own.
const MOST_LETTERS: usize = 50;
/// How many lines of one message are shown.
const MOST_LINES: usize = 40;
/// How many tasks of the board are read at most.
const MOST_POSTED: usize = 5000;

/// A member of the crew.
#[derive(Clone, Debug)]
pub(super) struct Seat {
    pub(super) name: MemberName,
    pub(super) role: String,
    pub(super) is_there: bool,
    /// The tasks it holds.
    pub(super) tasks: Vec<TaskId>,
}

/// A message, and whose inboxes it is in.
#[derive(Clone, Debug)]
pub(super) struct Letter {
    pub(super) id: u64,
    /// The local time of day.
    pub(super) clock: String,
    pub(super) from: String,
    /// Its recipients, and whether it was shown to each.
    pub(super) to: Vec<(String, bool)>,
    pub(super) kind: MessageKind,
    pub(super) reply_to: Option<u64>,
    /// Its text, without control characters.
    pub(super) lines: Vec<String>,
}

/// The crew's part of the model.
#[derive(Debug, Default)]
pub(crate) struct Crew {
    pub(super) members: Vec<Seat>,
    /// Tasks on the board, and who each is for.
    pub(super) posted: HashMap<TaskId, Wanted>,
    /// Oldest first.
    pub(super) letters: Vec<Letter>,
}

impl Crew {
    /// The member that holds a task by hand.
    pub(super) fn holder(&self, task: &TaskId) -> Option<&Seat> {
        self.members.iter().find(|seat| seat.tasks.contains(task))
    }

    /// Who holds a task of the board, or who it is for, in a few words.
    pub(super) fn whose(&self, task: &TaskId) -> Option<String> {
        if let Some(seat) = self.holder(task) {
            return Some(format!("held by {}", seat.name));
        }
        self.posted.get(task).map(|wanted| match wanted {
            Wanted { member: Some(member), .. } => format!("for {member}"),
            Wanted { role: Some(role), .. } => format!("for any {}", clean_line(role.as_str())),
            _ => "for anybody".to_owned(),
        })
    }

    /// The same as a short mark: `@grace` holds it, `→grace` or `→tester` may take it.
    pub(super) fn mark(&self, row: &Row) -> Option<String> {
        if let Some(seat) = self.holder(&row.id) {
            return Some(format!("@{}", seat.name));
        }
        if !matches!(row.state, regatta_core::state::TaskState::Pending { .. }) {
            return None;
        }
        self.posted.get(&row.id).map(|wanted| match wanted {
            Wanted { member: Some(member), .. } => format!("→{member}"),
            Wanted { role: Some(role), .. } => format!("→{}", clean_line(role.as_str())),
            _ => "→anybody".to_owned(),
        })
    }
}

impl Model {
    /// Whether an event about this task may have changed who holds what.
    pub(super) fn concerns_crew(&self, task: &TaskId, node: Option<&str>) -> bool {
        self.crew.posted.contains_key(task)
            || self.crew.holder(task).is_some()
            || node.is_some_and(|node| self.crew.members.iter().any(|seat| seat.name.as_str() == node))
    }
}

impl Feed {
    /// Reads the members and the tasks they hold.
    pub(super) async fn read_members(&mut self) -> Result<(), Refusal> {
        let seat = |member: Member| Seat {
            role: clean_line(member.role.as_str()),
            is_there: member.is_there && !is_certainly_dead(&member.node),
            tasks: member.tasks,
            name: member.name,
        };
        self.model.crew.members = self.store.members().await?.into_iter().map(seat).collect();
        Ok(())
    }

    /// Reads which tasks are on the board, of these or of all.
    pub(super) async fn read_board(&mut self, ids: Option<Vec<TaskId>>) -> Result<(), Refusal> {
        let queue = Some(BOARD_QUEUE.to_owned());
        let query = TaskQuery { ids, queue, limit: MOST_POSTED, latest: true, ..TaskQuery::default() };
        for task in self.store.tasks(&query).await? {
            self.model.crew.posted.insert(task.spec.id, task.spec.wanted);
        }
        Ok(())
    }

    /// Reads the last messages, if there are new ones. Returns whether there were.
    pub(super) async fn read_letters(&mut self) -> Result<bool, Refusal> {
        let last = self.model.crew.letters.last().map_or(0, |letter| letter.id);
        if self.store.correspondence(last, 1).await?.is_empty() {
            return Ok(false);
        }
        self.read_letters_again().await?;
        Ok(true)
    }

    /// Reads the last messages again, with who has read them by now.
    pub(super) async fn read_letters_again(&mut self) -> Result<(), Refusal> {
        let mut letters: Vec<Letter> = Vec::new();
        for message in self.store.correspondence(0, MOST_LETTERS).await? {
            let to = (clean_line(message.to.as_str()), message.read_at.is_some());
            match letters.last_mut().filter(|letter| letter.id == message.id) {
                Some(letter) => letter.to.push(to),
                None => letters.push(Letter { to: vec![to], ..self.letter(&message) }),
            }
        }
        self.model.crew.letters = letters;
        Ok(())
    }

    fn letter(&self, message: &Message) -> Letter {
        let text = clean(&self.redactor.redact(&message.text));
        let mut lines: Vec<String> =
            text.lines().take(MOST_LINES).map(|line| line.replace('\t', "    ")).collect();
        let more = text.lines().count().saturating_sub(MOST_LINES);
        if more > 0 {
            lines.push(format!("… and {} more", counted(more, "line")));
        }
        Letter {
            id: message.id,
            clock: clock_of(message.at),
            from: clean_line(message.from.as_str()),
            to: Vec::new(),
            kind: message.kind,
            reply_to: message.reply_to,
            lines,
        }
    }
}
