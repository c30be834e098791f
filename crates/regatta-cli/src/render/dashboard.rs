//! The live view on a terminal: one line per task, redrawn in place, static marks, no spinners.

use std::collections::BTreeMap;

use regatta_core::event::{Event, EventBody};
use regatta_core::id::TaskId;
use regatta_core::report::describe;
use regatta_core::spec::TaskSpec;
use regatta_core::state::StateName;
use regatta_core::suspicion::Sign;
use regatta_core::time::{Timestamp, human};
use regatta_core::train::LandStep;
use regatta_engine::notice::{Live, Notice};

use super::shown::{clean, clean_line};
use super::state::mark;
use super::text::{fit, pad};
use crate::ui::{Style, Ui};

/// Clears the rest of the line from an earlier frame, and moves to the next.
const END_OF_LINE: &str = "\x1b[K\n";

/// What is shown of one task.
#[derive(Clone, Debug)]
struct Row {
    state: StateName,
    since: Timestamp,
    until: Option<Timestamp>,
    attempt: u32,
    doing: String,
    /// `doing` is what its live agent does.
    is_live: bool,
    /// Why its agent may need a person, by sign.
    suspected: BTreeMap<Sign, String>,
    cost: f64,
    cost_before: f64,
    deps: Vec<TaskId>,
}

/// The dashboard of a run. `update` and `draw` depend only on their arguments.
pub(crate) struct Dashboard {
    ui: Ui,
    title: String,
    start: Timestamp,
    order: Vec<TaskId>,
    rows: BTreeMap<TaskId, Row>,
    drawn: usize,
    /// Sentences to print above the dashboard before it is drawn again.
    said: Vec<String>,
}

impl Dashboard {
    pub(crate) fn new(ui: &Ui, title: &str, tasks: &[TaskSpec], start: Timestamp) -> Self {
        let rows = tasks.iter().map(|spec| {
            let row = Row {
                state: StateName::Pending,
                since: start,
                until: None,
                attempt: 0,
                doing: String::new(),
                is_live: false,
                suspected: BTreeMap::new(),
                cost: 0.0,
                cost_before: 0.0,
                deps: spec.deps.clone(),
            };
            (spec.id.clone(), row)
        });
        Self {
            ui: ui.clone(),
            title: clean_line(title),
            start,
            order: tasks.iter().map(|spec| spec.id.clone()).collect(),
            rows: rows.collect(),
            drawn: 0,
            said: Vec::new(),
        }
    }

    /// Applies a notice.
    pub(crate) fn update(&mut self, notice: &Notice) {
        match notice {
            Notice::Event(event) => self.event(event),
            Notice::Live { task, live } => {
                let Some(row) = self.rows.get_mut(task) else { return };
                row.is_live |= !matches!(live, Live::Usage { .. });
                match live {
                    Live::Tool { name, summary } => row.doing = format!("{name} {summary}"),
                    Live::Text(text) => {
                        if let Some(line) = text.lines().rev().find(|line| !line.trim().is_empty()) {
                            row.doing = line.trim().to_owned();
                        }
                    }
                    Live::Usage { cost_usd, .. } => row.cost = row.cost_before + cost_usd.unwrap_or(0.0),
                    Live::Retrying(why) => row.doing = format!("waiting for the API: {why}"),
                }
            }
            Notice::Held { task, why } => {
                if let Some(row) = self.rows.get_mut(task) {
                    row.doing = format!("held: {why}");
                }
            }
            Notice::Say(text) => self.said.push(clean(text)),
        }
    }

    fn event(&mut self, event: &Event) {
        let Some(row) = event.task.as_ref().and_then(|task| self.rows.get_mut(task)) else { return };
        let state = match &event.body {
            EventBody::Enqueued { .. } | EventBody::Due | EventBody::Rearmed => StateName::Pending,
            EventBody::PromptQueued { rearmed: true, .. } | EventBody::FollowingUp { .. } => {
                StateName::Pending
            }
            EventBody::Stands { .. } => StateName::Landed,
            EventBody::Claimed { .. } => StateName::Claimed,
            EventBody::Started { .. } => StateName::Running,
            EventBody::Exited { .. } => StateName::Judging,
            EventBody::Approved { .. } => StateName::Landing,
            EventBody::Done { .. } => StateName::Done,
            EventBody::Failed { .. } => StateName::Failed,
            EventBody::Cancelled { .. } => StateName::Cancelled,
            EventBody::Skipped { .. } => StateName::Skipped,
            EventBody::Blocked { .. } => StateName::Blocked,
            EventBody::Parked { .. } => StateName::Parked,
            EventBody::Retrying { .. } | EventBody::Released { .. } => StateName::Pending,
            EventBody::Landing { landing, .. } => match landing {
                LandStep::Landed { .. } | LandStep::AlreadyIn { .. } | LandStep::Merged { .. } => {
                    StateName::Landed
                }
                LandStep::Reject { .. } => StateName::Blocked,
                LandStep::Bounce { .. } => StateName::Pending,
                _ => StateName::Landing,
            },
            EventBody::Suspected { sign, why } => {
                row.suspected.insert(*sign, why.clone());
                return;
            }
            EventBody::WentOn { sign } => {
                row.suspected.remove(sign);
                return;
            }
            EventBody::Progressed { .. } => {
                row.doing = describe(&event.body);
                return;
            }
            _ => return,
        };
        if let Some(attempt) = event.attempt {
            if attempt != row.attempt {
                row.cost_before = row.cost;
            }
            row.attempt = attempt;
        }
        if row.state != state {
            row.since = event.at;
            row.suspected.clear();
        }
        row.state = state;
        row.until = match &event.body {
            EventBody::Parked { until, .. } => Some(*until),
            EventBody::Retrying { not_before, .. } => *not_before,
            _ => None,
        };
        match &event.body {
            // The agent's activity may arrive before its claim and its start have been read back from the store.
            EventBody::Started { .. } => {}
            EventBody::Enqueued { .. } | EventBody::Claimed { .. } | EventBody::Due if row.is_live => {}
            body => {
                row.is_live = false;
                row.doing = match body {
                    EventBody::Enqueued { .. }
                    | EventBody::Claimed { .. }
                    | EventBody::Due
                    | EventBody::Exited { .. }
                    | EventBody::Approved { .. }
                    | EventBody::Done { .. } => String::new(),
                    body => describe(body),
                };
            }
        }
    }

    /// The frame as text, drawn over the last one, below any new sentences. The screen is never cleared from its top,
    /// because terminals with a history would save every frame in it.
    pub(crate) fn draw(&mut self, now: Timestamp, columns: usize, lines: usize) -> String {
        let mut text = String::new();
        if self.drawn > 0 {
            text.push_str(&format!("\x1b[{}A\r", self.drawn));
        }
        for said in self.said.drain(..).flat_map(|said| said.lines().map(str::to_owned).collect::<Vec<_>>()) {
            text.push_str(&said);
            text.push_str(END_OF_LINE);
        }
        let room = lines.saturating_sub(3).max(3);
        let picture = self.picture(now, columns.max(40), room);
        self.drawn = picture.len();
        for line in picture {
            text.push_str(&line);
            text.push_str(END_OF_LINE);
        }
        text.push_str("\x1b[J");
        text
    }

    fn picture(&self, now: Timestamp, columns: usize, room: usize) -> Vec<String> {
        let count = |is_in: fn(StateName) -> bool| self.rows.values().filter(|row| is_in(row.state)).count();
        let total = self.rows.values().map(|row| row.cost).sum::<f64>() + 0.0;
        let mut head = format!(
            "{} · {} of {} settled · {} running · {}",
            self.title,
            count(StateName::is_settled),
            self.rows.len(),
            count(|state| matches!(state, StateName::Claimed | StateName::Running)),
            human(now.since(self.start))
        );
        if total > 0.0 {
            head.push_str(&format!(" · ${total:.2}"));
        }
        let mut picture = vec![self.ui.paint(Style::Strong, &fit(&head, columns))];
        let name = self.order.iter().map(|task| task.as_str().len()).max().unwrap_or(4).clamp(4, columns / 3);
        let shown = self.shown(room);
        let hidden = self.order.len() - shown.len();
        for task in shown {
            picture.push(self.line(task, &self.rows[task], now, columns, name));
        }
        if hidden > 0 {
            picture.push(self.ui.paint(Style::Dim, &format!("  … and {hidden} more")));
        }
        picture
    }

    /// All tasks if there is room; otherwise first those that are active or need a person, then the rest in order.
    fn shown(&self, room: usize) -> Vec<&TaskId> {
        if self.order.len() <= room {
            return self.order.iter().collect();
        }
        let weight = |task: &TaskId| match self.rows[task].state {
            state if state.is_busy() => 0,
            StateName::Blocked | StateName::Failed | StateName::Parked => 1,
            StateName::Pending => 2,
            _ => 3,
        };
        let mut wanted: Vec<(usize, usize)> =
            self.order.iter().enumerate().map(|(n, task)| (weight(task), n)).collect();
        wanted.sort_unstable();
        let mut kept: Vec<usize> = wanted.into_iter().take(room.saturating_sub(1)).map(|(_, n)| n).collect();
        kept.sort_unstable();
        kept.into_iter().map(|n| &self.order[n]).collect()
    }

    fn line(&self, task: &TaskId, row: &Row, now: Timestamp, columns: usize, name: usize) -> String {
        let (glyph, style) = mark(row.state);
        let time = match (row.state, row.until) {
            (_, Some(until)) => format!("in {}", human(until.since(now))),
            (StateName::Pending, _) => String::new(),
            (state, _) if state.is_settled() => String::new(),
            _ => human(now.since(row.since)),
        };
        let cost = if row.cost > 0.0 { format!("${:.2}", row.cost) } else { String::new() };
        let attempt = if row.attempt > 1 { format!("#{}", row.attempt) } else { String::new() };
        let doing = match row.state {
            StateName::Pending if row.doing.is_empty() => self.waits_for(row),
            StateName::Running if !row.suspected.is_empty() => {
                let reasons: Vec<&str> = row.suspected.values().map(String::as_str).collect();
                format!("⚠ {}", reasons.join("; "))
            }
            _ => row.doing.clone(),
        };
        let left = format!(
            "{glyph} {} {} {} ",
            pad(task.as_str(), name),
            pad(row.state.as_str(), 9),
            pad(&attempt, 3)
        );
        let right = format!("{} {} ", pad(&time, 9), pad(&cost, 7));
        let used = name + 2 + 10 + 4 + 1 + 10 + 8;
        // Text from agents, checks and git.
        let rest = fit(&clean_line(&doing), columns.saturating_sub(used + 1));
        format!("{}{}{}", self.ui.paint(style, &left), right, self.ui.paint(Style::Dim, &rest))
            .trim_end()
            .to_owned()
    }

    fn waits_for(&self, row: &Row) -> String {
        let unmet: Vec<&str> = row
            .deps
            .iter()
            .filter(|task| !self.rows.get(*task).is_some_and(|row| row.state.is_met()))
            .map(TaskId::as_str)
            .collect();
        if unmet.is_empty() { String::new() } else { format!("waits for {}", unmet.join(", ")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_agent_does_is_shown_though_its_claim_is_read_later() {
        let task = TaskId::parse("a").unwrap();
        let specs = [TaskSpec::plain(task.clone(), "sim", "do it")];
        let start = Timestamp::from_millis(0);
        let mut board = Dashboard::new(&Ui::plain(), "plan", &specs, start);
        let mut doing = |notices: &[Notice]| {
            notices.iter().for_each(|notice| board.update(notice));
            board.rows[&task].doing.clone()
        };
        let said = |attempt, body| {
            Notice::Event(Event { seq: 1, at: start, task: Some(task.clone()), attempt: Some(attempt), body })
        };
        let claimed = |n| said(n, EventBody::Claimed { node: "n".into() });
        let started = |n| said(n, EventBody::Started { pid: 1 });
        let live = Notice::Live { task: task.clone(), live: Live::Text("hello".to_owned()) };
        assert_eq!(doing(&[live.clone(), claimed(1), started(1)]), "hello");
        assert_eq!(doing(&[said(1, EventBody::Due), claimed(1)]), "hello");
        let exited = EventBody::Exited { exit: regatta_core::exit::Exit::Exited { code: 1 } };
        assert_eq!(doing(&[said(1, exited)]), "");
        assert_eq!(doing(&[Notice::Held { task: task.clone(), why: "full".into() }, claimed(2)]), "");
    }

    #[test]
    fn nothing_that_others_wrote_is_obeyed_by_the_terminal() {
        const EVIL: &str = "\x1b]0;owned\x07\x1b[2Jred\u{202e}der";
        let task = TaskId::parse("a").unwrap();
        let specs = [TaskSpec::plain(task.clone(), "sim", "do it")];
        let start = Timestamp::from_millis(0);
        let mut board = Dashboard::new(&Ui::plain(), EVIL, &specs, start);
        let said = |body| {
            let event = Event { seq: 1, at: start, task: Some(task.clone()), attempt: Some(1), body };
            Notice::Event(event)
        };
        let live = |live| Notice::Live { task: task.clone(), live };
        for notice in [
            Notice::Say(format!("{EVIL}\nmore")),
            live(Live::Text(EVIL.to_owned())),
            live(Live::Tool { name: EVIL.to_owned(), summary: EVIL.to_owned() }),
            Notice::Held { task: task.clone(), why: EVIL.to_owned() },
            said(EventBody::Failed { why: EVIL.to_owned() }),
        ] {
            board.update(&notice);
            let shown = board.draw(start, 100, 20);
            // Our own sequences: move up, clear the line, clear what is below.
            let own = shown.replace("\x1b[K", "").replace("\x1b[J", "");
            let own = own
                .split_once("A\r")
                .filter(|(up, _)| up.starts_with("\x1b["))
                .map_or(&*own, |(_, rest)| rest);
            assert!(own.contains("red"), "{shown:?}");
            assert!(!own.contains(['\x1b', '\x07', '\u{202e}']), "{shown:?}");
        }
    }
}
