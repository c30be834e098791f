//! The live view without a terminal: one plain line per notable event.

use std::collections::BTreeSet;

use regatta_core::event::{Event, EventBody};
use regatta_core::id::TaskId;
use regatta_core::report::describe;
use regatta_core::time::Timestamp;
use regatta_core::train::{GateOutcome, LandStep};
use regatta_engine::notice::Notice;

use crate::render::shown::{clean, clean_line};
use crate::ui::{Style, Ui};

/// How important a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Weight {
    /// Shown even with `--quiet`.
    Trouble,
    /// Shown by default.
    News,
    /// Shown with `--verbose`.
    Detail,
}

/// Prints notices as lines.
pub(crate) struct Lines {
    ui: Ui,
    start: Timestamp,
    /// The tasks whose lines are shown; `None` for all.
    only: Option<BTreeSet<TaskId>>,
}

impl Lines {
    pub(crate) fn new(ui: &Ui, start: Timestamp) -> Self {
        Self { ui: ui.clone(), start, only: None }
    }

    /// Leaves out the tasks of other runs, because the store reports every run.
    pub(crate) fn only(self, tasks: impl IntoIterator<Item = TaskId>) -> Self {
        Self { only: Some(tasks.into_iter().collect()), ..self }
    }

    pub(crate) fn show(&mut self, notice: &Notice) {
        match notice {
            Notice::Event(event) => self.event(event),
            Notice::Say(text) => self.ui.note(clean(text)),
            Notice::Held { task, why } if self.ui.verbose => {
                self.ui.line(format!("        {task}: held, {why}"));
            }
            Notice::Held { .. } | Notice::Live { .. } => {}
        }
    }

    fn event(&self, event: &Event) {
        if let (Some(only), Some(task)) = (&self.only, &event.task)
            && !only.contains(task)
        {
            return;
        }
        let (weight, style) = weigh(&event.body);
        let wanted = match weight {
            Weight::Trouble => true,
            Weight::News => !self.ui.quiet,
            Weight::Detail => self.ui.verbose && !self.ui.quiet,
        };
        if !wanted {
            return;
        }
        let at = event.at.since(self.start).as_secs_f64();
        let task = event.task.as_ref().map_or("", |task| task.as_str());
        let attempt = match event.attempt {
            Some(n) if n > 1 => format!(" #{n}"),
            _ => String::new(),
        };
        let text = clean_line(&describe(&event.body));
        self.ui.line(format!(
            "{at:7.1}s {}{attempt}  {}",
            self.ui.paint(Style::Strong, task),
            self.ui.paint(style, &text)
        ));
    }
}

fn weigh(body: &EventBody) -> (Weight, Style) {
    match body {
        EventBody::Failed { .. } | EventBody::Skipped { .. } | EventBody::Cancelled { .. } => {
            (Weight::Trouble, Style::Bad)
        }
        EventBody::Blocked { .. }
        | EventBody::Parked { .. }
        | EventBody::Stuck { .. }
        | EventBody::Suspected { .. } => (Weight::Trouble, Style::Wait),
        EventBody::Retrying { .. } | EventBody::Salvaged { .. } | EventBody::ConflictAhead { .. } => {
            (Weight::Trouble, Style::Wait)
        }
        // A spent budget is shown by the event that holds back or stops a task.
        EventBody::BudgetWarned { .. } | EventBody::NodeLost { .. } => (Weight::Trouble, Style::Wait),
        EventBody::Done { .. } | EventBody::Stands { .. } => (Weight::News, Style::Good),
        EventBody::Started { .. } | EventBody::Progressed { .. } => (Weight::News, Style::Dim),
        EventBody::Adopted { .. }
        | EventBody::Released { .. }
        | EventBody::TakenBack { .. }
        | EventBody::CancelAsked { .. }
        | EventBody::Assigned { .. }
        | EventBody::NodeJoined { .. }
        | EventBody::MergeAllowed { .. }
        | EventBody::Noted { .. }
        | EventBody::Unknown(_)
        | EventBody::PromptQueued { .. }
        | EventBody::FollowingUp { .. }
        | EventBody::WentOn { .. }
        | EventBody::Rearmed => (Weight::News, Style::Dim),
        EventBody::Landing { landing, .. } => match landing {
            LandStep::Landed { .. } | LandStep::AlreadyIn { .. } | LandStep::Merged { .. } => {
                (Weight::News, Style::Good)
            }
            LandStep::Proposed { is_new: true, .. } => (Weight::News, Style::Wait),
            LandStep::Wait { .. } | LandStep::Bounce { .. } => (Weight::Trouble, Style::Wait),
            LandStep::Tested { outcome: GateOutcome::Failed | GateOutcome::Flaky, .. } => {
                (Weight::News, Style::Wait)
            }
            // The Blocked event that follows shows it.
            LandStep::Reject { .. }
            | LandStep::Intend { .. }
            | LandStep::Gate { .. }
            | LandStep::Propose { .. }
            | LandStep::Proposed { .. }
            | LandStep::Merge { .. }
            | LandStep::Tested { .. } => (Weight::Detail, Style::Dim),
        },
        _ => (Weight::Detail, Style::Dim),
    }
}
