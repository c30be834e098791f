//! What the user is looking at: view, selection, filter, open page. Changed only by actions; has no side effects.

use std::collections::VecDeque;

use regatta_core::crew::MemberName;
use regatta_core::id::TaskId;
use regatta_core::state::{BlockReason, TaskState};
use regatta_core::time::Timestamp;

use super::addressee::Addressee;
use super::keys::Action;
use super::model::{Group, Model, Row};
use crate::render::text::wrap;
use crate::ui::Style;

/// A tab, as spaces.
const TAB: &str = "    ";
/// The maximum length of typed text.
const LONGEST_FILTER: usize = 200;
const LONGEST_PROMPT: usize = 8000;
/// How many lines of a transcript are kept; `regatta logs` has them all.
const MOST_LINES: usize = 5000;

/// The views, in the order of their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum View {
    Lanes,
    Board,
    Train,
    Crew,
    Events,
    Cost,
}

impl View {
    pub(super) const ALL: [View; 6] =
        [View::Lanes, View::Board, View::Train, View::Crew, View::Events, View::Cost];

    pub(super) const fn name(self) -> &'static str {
        match self {
            View::Lanes => "lanes",
            View::Board => "board",
            View::Train => "train",
            View::Crew => "crew",
            View::Events => "events",
            View::Cost => "cost",
        }
    }
}

/// What keys currently mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Browse,
    /// The user types words that shown tasks must contain.
    Filter,
    /// A page is open over the view.
    Page,
    Help,
    /// The user types a message.
    Prompt(Addressee),
    /// A yes-or-no question about this task only.
    Confirm(Change, TaskId),
}

/// What can be done to a task from here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Cancel,
    Requeue,
    Retry,
    Park,
    Unpark,
    Land,
    Retire,
}

impl Change {
    /// Whether to ask first: for changes that end something or move a branch.
    const fn is_asked_about(self) -> bool {
        matches!(self, Change::Cancel | Change::Requeue | Change::Land | Change::Retire)
    }

    /// Whether it makes sense for a task in this state. Decides what is offered; the command has the exact rule.
    pub(super) const fn fits(self, state: &TaskState) -> bool {
        use TaskState as S;
        match self {
            Change::Cancel => {
                !matches!(state, S::Done { .. } | S::Landed { .. } | S::Failed { .. } | S::Cancelled { .. })
            }
            Change::Requeue => state.is_terminal() || matches!(state, S::Blocked { .. }),
            Change::Retry => matches!(
                state,
                S::Blocked { .. }
                    | S::Failed { .. }
                    | S::Cancelled { .. }
                    | S::Skipped { .. }
                    | S::Parked { .. }
            ),
            Change::Park => matches!(state, S::Pending { .. }),
            Change::Unpark => matches!(state, S::Parked { .. } | S::Pending { not_before: Some(_) }),
            Change::Land => matches!(
                state,
                S::Done { head: Some(_), .. }
                    | S::Blocked {
                        reason: BlockReason::Conflict | BlockReason::Tests | BlockReason::Policy,
                        ..
                    }
            ),
            Change::Retire => !state.is_claimed() && !matches!(state, S::Pending { .. } | S::Landing { .. }),
        }
    }

    /// What a refusal says cannot be done to a task that it does not fit.
    const fn verb(self) -> &'static str {
        match self {
            Change::Cancel => "cancelled",
            Change::Requeue => "requeued",
            Change::Retry => "retried",
            Change::Park => "parked",
            Change::Unpark => "unparked",
            Change::Land => "landed",
            Change::Retire => "without its lane",
        }
    }
}

/// A page over the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PageKind {
    Detail,
    Diff,
    Logs,
}

/// Text that can be scrolled.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) kind: PageKind,
    pub(super) task: TaskId,
    /// `None` while it is being read.
    pub(super) lines: Option<Vec<(Style, String)>>,
    /// The first shown line, counted in screen lines.
    pub(super) top: usize,
    wrapped: Option<(usize, Vec<(Style, String)>)>,
}

impl Page {
    /// The text wrapped to this width.
    pub(super) fn wrapped(&mut self, width: usize) -> &[(Style, String)] {
        let Some(lines) = &self.lines else { return &[] };
        if self.wrapped.as_ref().is_none_or(|(had, _)| *had != width) {
            let split = |(style, line): &(Style, String)| {
                wrap(line, width).into_iter().map(|part| (*style, part)).collect::<Vec<_>>()
            };
            self.wrapped = Some((width, lines.iter().flat_map(split).collect()));
        }
        self.wrapped.as_ref().map_or(&[], |(_, lines)| lines)
    }
}

/// The last part of what the selected task's agent said and did.
#[derive(Debug, Default)]
pub(super) struct Reel {
    /// Its task and attempt.
    pub(super) of: Option<(TaskId, u32)>,
    pub(super) lines: VecDeque<(Style, String)>,
    /// How many screen lines are below the last shown one; 0 follows the end.
    pub(super) up: usize,
    /// The width of the last drawing.
    pub(super) width: usize,
    /// How far up one can scroll, as of the last drawing.
    pub(super) most_up: usize,
    /// Bytes of the log that were left out because it grows too fast.
    pub(super) skipped: u64,
}

impl Reel {
    /// Appends lines. A reader who has scrolled up keeps the position.
    pub(super) fn push(&mut self, lines: impl IntoIterator<Item = (Style, String)>) {
        for (style, line) in lines {
            let line = line.replace('\t', TAB);
            if self.up > 0 {
                self.up += wrap(&line, self.width.max(2)).len();
            }
            self.lines.push_back((style, line));
            if self.lines.len() > MOST_LINES {
                self.lines.pop_front();
            }
        }
    }

    /// Starts over with another transcript.
    pub(super) fn begin(&mut self, of: Option<(TaskId, u32)>) {
        *self = Self { of, width: self.width, ..Self::default() };
    }
}

/// A message to the user, until the next key.
#[derive(Clone, Debug)]
pub(super) struct Said {
    pub(super) text: String,
    pub(super) style: Style,
}

/// An action that [`super::run()`] has to carry out.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wish {
    Quit,
    Suspend,
    Redraw,
    Read(PageKind, TaskId),
    Change(Change, TaskId),
    Send(TaskId, String),
    Message(MemberName, String),
}

/// What the user is looking at.
#[derive(Debug)]
pub(super) struct Screen {
    pub(super) view: View,
    /// The board has the columns of a reviewer.
    pub(super) by_review: bool,
    pub(super) mode: Mode,
    pub(super) read_only: bool,
    pub(super) selected: Option<TaskId>,
    /// Whether the user chose the selection, which then stays on that task. Otherwise the first line is selected.
    pub(super) chosen: bool,
    /// Whether keys move the transcript instead of the selection.
    pub(super) in_transcript: bool,
    pub(super) filter: String,
    /// The text being typed for an agent.
    pub(super) typed: String,
    /// The tasks that pass the filter, in the order shown.
    pub(super) list: Vec<TaskId>,
    /// The first line of the list that is on the screen.
    pub(super) top: usize,
    /// The selected event; `None` for the newest.
    pub(super) event: Option<u64>,
    pub(super) page: Option<Page>,
    pub(super) reel: Reel,
    pub(super) said: Option<Said>,
    /// The height as of the last drawing; half of it is a page.
    pub(super) height: usize,
    /// The first shown line of a view without a selection.
    pub(super) scroll: usize,
    /// The selected member in the crew view.
    pub(super) member: Option<MemberName>,
    /// How far up the messages are scrolled, and the maximum.
    pub(super) letters: (usize, usize),
    /// The first shown line of the help.
    pub(super) help_top: usize,
}

impl Screen {
    pub(super) fn new(read_only: bool) -> Self {
        Self {
            view: View::Lanes,
            by_review: false,
            mode: Mode::Browse,
            read_only,
            selected: None,
            chosen: false,
            in_transcript: false,
            filter: String::new(),
            typed: String::new(),
            list: Vec::new(),
            top: 0,
            event: None,
            page: None,
            reel: Reel::default(),
            said: None,
            height: 20,
            help_top: 0,
            scroll: 0,
            member: None,
            letters: (0, 0),
        }
    }

    /// Sorts the list again after the tasks or the filter changed. The selection stays where it was.
    pub(super) fn settle(&mut self, model: &Model) {
        let was_at = self.selected.as_ref().and_then(|task| self.list.iter().position(|id| id == task));
        let folded = self.filter.to_lowercase();
        let mut rows: Vec<&Row> = model.rows.values().filter(|row| row.matches(&folded)).collect();
        rows.sort_by(|a, b| {
            let key =
                |row: &Row| (row.group(), if row.group() == Group::Waiting { -row.priority } else { 0 });
            key(a).cmp(&key(b)).then_with(|| match a.group() {
                Group::Over | Group::Needs => b.since.cmp(&a.since).then(b.arrival.cmp(&a.arrival)),
                Group::Live | Group::Parked | Group::Waiting => a.arrival.cmp(&b.arrival),
            })
        });
        self.list = rows.into_iter().map(|row| row.id.clone()).collect();
        if self.page.is_some() {
            return;
        }
        let gone = self.selected.as_ref().is_none_or(|task| !self.list.contains(task));
        if gone || !self.chosen {
            let near = if self.chosen { was_at.unwrap_or(0) } else { 0 };
            self.selected = self.list.get(near.min(self.list.len().saturating_sub(1))).cloned();
        }
    }

    /// The position of the selection in the list.
    pub(super) fn place(&self) -> Option<usize> {
        self.selected.as_ref().and_then(|task| self.list.iter().position(|id| id == task))
    }

    /// The task whose transcript is on the screen.
    pub(super) fn wants_transcript(&self) -> Option<&TaskId> {
        match &self.page {
            Some(page) if page.kind == PageKind::Logs => Some(&page.task),
            Some(_) => None,
            None if self.view == View::Lanes => self.selected.as_ref(),
            None => None,
        }
    }

    pub(super) fn say(&mut self, style: Style, text: impl Into<String>) {
        self.said = Some(Said { text: text.into(), style });
    }

    /// Carries out the action of a key; returns a wish for what it cannot do itself.
    pub(super) fn act(&mut self, action: Action, model: &Model) -> Option<Wish> {
        self.said = None;
        match action {
            Action::Quit => return Some(Wish::Quit),
            Action::Suspend => return Some(Wish::Suspend),
            Action::Redraw => return Some(Wish::Redraw),
            Action::Move(by) => self.go(by, model),
            Action::Page(by) => {
                let half = i32::try_from(self.height / 2).unwrap_or(1).max(1);
                self.go(by * half, model);
            }
            Action::First => self.go(i32::MIN, model),
            Action::Last => self.go(i32::MAX, model),
            Action::Pane(by) => self.pane(by, model),
            Action::Show(view) => {
                (self.view, self.in_transcript, self.scroll) = (view, false, 0);
            }
            Action::ByReview => {
                // From another view, it only shows the board.
                self.by_review = self.view != View::Board || !self.by_review;
                (self.view, self.in_transcript, self.scroll) = (View::Board, false, 0);
                self.keep_on_board(model);
            }
            Action::Detail => return self.open(PageKind::Detail, model),
            Action::Diff => return self.open(PageKind::Diff, model),
            Action::Logs => return self.open(PageKind::Logs, model),
            Action::Back => self.back(model),
            Action::NextNeeded => self.next_needed(model),
            Action::Help => (self.mode, self.help_top) = (Mode::Help, 0),
            Action::Filter => self.mode = Mode::Filter,
            Action::Type(_) | Action::Rub | Action::RubWord => {
                let (text, most) = match self.mode {
                    Mode::Prompt(_) => (&mut self.typed, LONGEST_PROMPT),
                    _ => (&mut self.filter, LONGEST_FILTER),
                };
                match action {
                    Action::Type(c) if text.len() < most && !c.is_control() => text.push(c),
                    Action::Rub => drop(text.pop()),
                    Action::RubWord => text.truncate(text.trim_end().rfind(' ').map_or(0, |at| at + 1)),
                    _ => {}
                }
                self.settle(model);
            }
            Action::Prompt => match self.target(model) {
                Some(task) => self.ask_for_words(Addressee::Agent(task)),
                None => self.say(Style::Wait, "no task is selected"),
            },
            Action::Message => match self.addressee(model) {
                Ok(addressee) => self.ask_for_words(addressee),
                Err(why) => self.say(Style::Wait, why),
            },
            Action::Accept => {
                let mode = self.mode.clone();
                self.leave_mode();
                if let Mode::Prompt(addressee) = mode {
                    let text = std::mem::take(&mut self.typed);
                    if text.trim().is_empty() {
                        self.say(Style::Dim, "nothing was sent");
                        return None;
                    }
                    return Some(match addressee {
                        Addressee::Agent(task) => Wish::Send(task, text),
                        Addressee::Inbox(name) => Wish::Message(name, text),
                    });
                }
            }
            Action::Change(change) => return self.change(change, model),
            Action::Yes => {
                let Mode::Confirm(change, task) = self.mode.clone() else { return None };
                self.leave_mode();
                return Some(Wish::Change(change, task));
            }
            Action::No => {
                self.leave_mode();
                self.say(Style::Dim, "nothing was done");
            }
        }
        None
    }

    /// Pasted text is added where text is typed; elsewhere it is ignored, not read as keys.
    pub(super) fn paste(&mut self, text: &str, model: &Model) {
        if matches!(self.mode, Mode::Filter | Mode::Prompt(_)) {
            for c in text.chars() {
                self.act(Action::Type(if c == '\n' || c == '\t' { ' ' } else { c }), model);
            }
        }
    }

    /// The task that keys apply to: the selected one on the screen, if there is one.
    pub(super) fn target(&self, model: &Model) -> Option<TaskId> {
        if let Some(page) = &self.page {
            return Some(page.task.clone());
        }
        let task = match self.view {
            View::Lanes | View::Board => self.selected.clone()?,
            View::Train => {
                self.selected.clone().filter(|task| model.cars.iter().any(|car| car.task == *task))?
            }
            View::Events => super::view::events::marked(self, model)?.task.clone()?,
            View::Crew | View::Cost => return None,
        };
        model.rows.contains_key(&task).then_some(task)
    }

    fn ask_for_words(&mut self, addressee: Addressee) {
        self.typed.clear();
        (self.mode, self.chosen) = (Mode::Prompt(addressee), true);
    }

    fn leave_mode(&mut self) {
        self.mode = if self.page.is_some() { Mode::Page } else { Mode::Browse };
    }

    fn change(&mut self, change: Change, model: &Model) -> Option<Wish> {
        let Some(found) = self.target(model).and_then(|task| model.rows.get(&task)) else {
            self.say(Style::Wait, "no task is selected");
            return None;
        };
        let task = found.id.clone();
        if change.is_asked_about() {
            // No question is asked if a yes would be refused. Changes without a question are refused by the command.
            if !change.fits(&found.state) {
                let state = found.state.name();
                self.say(Style::Wait, format!("{task} is {state}, so it cannot be {}", change.verb()));
                return None;
            }
            (self.mode, self.chosen) = (Mode::Confirm(change, task), true);
            return None;
        }
        Some(Wish::Change(change, task))
    }

    fn open(&mut self, kind: PageKind, model: &Model) -> Option<Wish> {
        let Some(task) = self.target(model) else {
            self.say(Style::Wait, "no task is selected");
            return None;
        };
        let page = Page { kind, task: task.clone(), lines: None, top: 0, wrapped: None };
        self.page = Some(page);
        (self.mode, self.chosen) = (Mode::Page, true);
        self.reel.up = 0;
        (kind != PageKind::Logs).then_some(Wish::Read(kind, task))
    }

    /// Fills a page with its text, if it is still open.
    pub(super) fn fill(&mut self, kind: PageKind, task: &TaskId, lines: Vec<(Style, String)>) {
        if let Some(page) = self.page.as_mut().filter(|page| page.kind == kind && page.task == *task) {
            page.lines =
                Some(lines.into_iter().map(|(style, line)| (style, line.replace('\t', TAB))).collect());
            page.wrapped = None;
        }
    }

    fn back(&mut self, model: &Model) {
        match self.mode {
            Mode::Help => self.leave_mode(),
            Mode::Page => {
                self.page = None;
                self.mode = Mode::Browse;
                self.reel.up = 0;
                self.settle(model);
            }
            Mode::Filter => {
                self.mode = Mode::Browse;
                self.filter.clear();
                self.settle(model);
            }
            Mode::Confirm(..) => self.leave_mode(),
            Mode::Prompt(_) => {
                self.leave_mode();
                self.say(Style::Dim, "nothing was sent");
            }
            Mode::Browse if self.in_transcript => {
                (self.in_transcript, self.reel.up, self.letters.0) = (false, 0, 0);
            }
            Mode::Browse => {
                if self.filter.is_empty() {
                    (self.chosen, self.event) = (false, None);
                }
                self.filter.clear();
                self.settle(model);
            }
        }
    }

    fn go(&mut self, by: i32, model: &Model) {
        let shift = |at: usize, most: usize| -> usize {
            let at = i64::try_from(at).unwrap_or(0).saturating_add(i64::from(by));
            usize::try_from(at.max(0)).unwrap_or(0).min(most)
        };
        if self.mode == Mode::Help {
            self.help_top = shift(self.help_top, super::keys::KEYS.len().saturating_sub(1));
            return;
        }
        let transcript = self.in_transcript && self.view == View::Lanes;
        if self.in_transcript && self.view == View::Crew && self.page.is_none() {
            let (up, most) = self.letters;
            let up = i64::try_from(up).unwrap_or(0).saturating_sub(i64::from(by)).max(0);
            self.letters.0 = usize::try_from(up).unwrap_or(0).min(most);
            return;
        }
        match &mut self.page {
            Some(page) if page.kind != PageKind::Logs => {
                let n_lines = page.wrapped.as_ref().map_or(0, |(_, lines)| lines.len());
                page.top = shift(page.top, n_lines.saturating_sub(self.height));
                return;
            }
            Some(_) => return self.reel.go(by),
            None if transcript => return self.reel.go(by),
            None => {}
        }
        self.chosen = true;
        let has_members = self.view == View::Crew && !model.crew.members.is_empty();
        match self.view {
            View::Events => self.go_events(by, model),
            View::Board => {
                let column = super::view::board::column_of(self, model);
                self.selected = step(&column, self.selected.as_ref(), by).or(self.selected.take());
            }
            View::Train => {
                let cars: Vec<TaskId> = model.cars.iter().map(|car| car.task.clone()).collect();
                self.selected = step(&cars, self.selected.as_ref(), by).or(self.selected.take());
            }
            View::Lanes => self.selected = step(&self.list, self.selected.as_ref(), by),
            // The limit is known when it is drawn.
            View::Crew | View::Cost if !has_members => self.scroll = shift(self.scroll, usize::MAX),
            View::Crew | View::Cost => {
                let members = &model.crew.members;
                let named = self.member(model).map(|seat| seat.name.clone());
                let at = members.iter().position(|seat| Some(&seat.name) == named.as_ref()).unwrap_or(0);
                self.member = members.get(shift(at, members.len() - 1)).map(|seat| seat.name.clone());
            }
        }
    }

    fn go_events(&mut self, by: i32, model: &Model) {
        let shown = super::view::events::shown(self, model);
        let Some(last) = shown.len().checked_sub(1) else { return };
        let at = self.event.and_then(|seq| shown.iter().position(|told| told.seq >= seq)).unwrap_or(last);
        let to = i64::try_from(at).unwrap_or(0).saturating_add(i64::from(by)).max(0);
        let to = usize::try_from(to).unwrap_or(0).min(last);
        self.event = (to < last).then(|| shown[to].seq);
        if let Some(task) = shown[to].task.clone().filter(|task| model.rows.contains_key(task)) {
            self.selected = Some(task);
        }
    }

    fn pane(&mut self, by: i32, model: &Model) {
        match self.view {
            View::Lanes => {
                // A reader wants to stay with this task.
                (self.in_transcript, self.chosen) = (!self.in_transcript, true);
                self.reel.up = 0;
            }
            View::Crew if !model.crew.letters.is_empty() => {
                (self.in_transcript, self.letters.0) = (!self.in_transcript, 0);
            }
            View::Board => {
                if let Some(task) = super::view::board::beside(self, model, by) {
                    (self.selected, self.chosen) = (Some(task), true);
                }
            }
            _ => {
                let at = View::ALL.iter().position(|view| *view == self.view).unwrap_or(0);
                let n_views = View::ALL.len();
                let to = if by > 0 { at + 1 } else { at + n_views - 1 };
                (self.view, self.in_transcript, self.scroll) = (View::ALL[to % n_views], false, 0);
            }
        }
    }

    /// A selection that the board does not show moves to its first task.
    fn keep_on_board(&mut self, model: &Model) {
        if !super::view::board::has_selected(self, model)
            && let Some(task) = super::view::board::first(self, model)
        {
            self.selected = Some(task);
        }
    }

    fn next_needed(&mut self, model: &Model) {
        let from = self.place().map_or(0, |at| at + 1);
        let order = self.list[from.min(self.list.len())..].iter().chain(&self.list);
        let needs = |task: &&TaskId| model.rows.get(*task).is_some_and(Row::needs_a_look);
        match order.into_iter().find(needs).cloned() {
            Some(task) => (self.selected, self.chosen) = (Some(task), true),
            None => self.say(Style::Good, "no task needs you"),
        }
    }

    /// The question before a change, for the task's current state.
    pub(super) fn question(model: &Model, change: Change, task: &TaskId) -> String {
        let row = model.rows.get(task);
        let runs = row.is_some_and(Row::has_agent);
        if let (Change::Cancel, Some(seat)) = (change, model.crew.holder(task)) {
            let name = &seat.name;
            return format!(
                "cancel {task}? {name} holds it and gets a message; it is cancelled when they give it back"
            );
        }
        match change {
            Change::Cancel if runs => format!(
                "cancel {task}? its agent and everything it started are stopped; its work stays in its lane"
            ),
            Change::Cancel => format!("cancel {task}? what depends on it is skipped"),
            Change::Requeue => {
                format!("requeue {task}? it starts over in a fresh lane; work in the old one is saved first")
            }
            Change::Land => format!("land {task}? its work goes into the train to {}", model.target),
            Change::Retire => {
                format!("retire the lane of {task}? this is refused if work in it is saved nowhere else")
            }
            Change::Retry | Change::Park | Change::Unpark => String::new(),
        }
    }
}

impl Reel {
    fn go(&mut self, by: i32) {
        let up = i64::try_from(self.up).unwrap_or(0).saturating_sub(i64::from(by)).max(0);
        self.up = usize::try_from(up).unwrap_or(0).min(self.most_up);
    }
}

/// The task that is `by` places further.
fn step(list: &[TaskId], from: Option<&TaskId>, by: i32) -> Option<TaskId> {
    let last = list.len().checked_sub(1)?;
    let Some(at) = from.and_then(|task| list.iter().position(|id| id == task)) else {
        return list.first().cloned();
    };
    let to = i64::try_from(at).unwrap_or(0).saturating_add(i64::from(by)).max(0);
    list.get(usize::try_from(to).unwrap_or(0).min(last)).cloned()
}

/// How long a live task has been in its state, or how long until a waiting one continues.
pub(super) fn span(row: &Row, now: Timestamp) -> String {
    use super::view::lasting;
    if let Some(until) = row.state.wakes_at() {
        return match until {
            _ if regatta_ops::tasks::waits_for_a_word(&row.state) => "held".to_owned(),
            until if until <= now => "due".to_owned(),
            until => format!(
                "in {}",
                lasting(until.since(now)).split_inclusive(' ').next().unwrap_or_default().trim()
            ),
        };
    }
    match row.group() {
        Group::Live => lasting(now.since(row.since)),
        _ => String::new(),
    }
}
