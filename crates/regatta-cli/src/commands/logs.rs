//! `regatta logs ID`: what the agent said and did, as a transcript or as recorded.

mod heading;

use std::io;
use std::path::{Path, PathBuf};

use regatta_core::attempt::Attempt;
use regatta_core::event::Event;
use regatta_core::id::TaskId;
use regatta_core::report::{describe_evidence, output_of};
use regatta_core::state::StateName;
use regatta_core::time::human;
use regatta_engine::process::Line;
use regatta_engine::redact::Redactor;
use regatta_ops::look::logs::{AttemptLog, LogHeading, LogView, LogsRequest, ReadFrom, WaitingForLog};

use crate::cli::Global;
use crate::exit::Exit;
use crate::project::Project;
use crate::render::reading::{Mode, Reading};
use crate::render::shown::{clean_line, redactor};
use crate::ui::{Style, Ui};
use regatta_ops::Refusal;

/// Show what a task's agent said and did.
///
/// Shows all attempts. Each begins with the prompt, then what the agent said, one line for each tool, its result and
/// cost, the end of its standard error, and the output of a check that failed. Secrets are masked.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The task, or the beginning of its id.
    #[arg(value_name = "ID")]
    task: String,
    /// Follow from the last attempt on, through later attempts, until the task is settled.
    #[arg(long, short = 'f')]
    follow: bool,
    /// Only this attempt.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    attempt: Option<u32>,
    /// The agent's output byte for byte as recorded, with secrets already masked. Control characters are left out on a
    /// terminal.
    #[arg(long, conflicts_with = "json")]
    raw: bool,
    /// Include the task's own events, such as progress reports: those up to the agent's start before the transcript,
    /// later ones as they come, or after it. With --json everything is one object per line, for every agent.
    #[arg(long, conflicts_with = "raw")]
    events: bool,
    /// Only the last N lines of the last attempt.
    #[arg(long, short = 'n', value_name = "N")]
    lines: Option<usize>,
    /// The directory that `regatta run --log-dir` wrote the logs to.
    #[arg(long, value_name = "DIR")]
    log_dir: Option<PathBuf>,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let project = Project::look(&global.options())?;
    let redactor = redactor(&project.config);
    let mode = match (args.raw, ui.json) {
        (true, _) => Mode::Raw,
        (false, true) => Mode::Objects,
        (false, false) => Mode::People,
    };
    let mut screen = Screen { ui, redactor: &redactor, mode, lines: args.lines, reading: None };
    let request = LogsRequest {
        task: args.task,
        attempt: args.attempt,
        follow: args.follow,
        events: args.events,
        last: args.lines.is_some(),
        log_dir: args.log_dir,
    };
    project.logs(&request, &mut screen).await?;
    Ok(Exit::Ok)
}

/// Logs on the screen.
struct Screen<'a> {
    ui: &'a Ui,
    redactor: &'a Redactor,
    mode: Mode,
    /// Only this many of the last lines.
    lines: Option<usize>,
    /// The log that is shown now.
    reading: Option<Reading<'a>>,
}

impl<'a> Screen<'a> {
    fn reading(&mut self) -> &mut Reading<'a> {
        self.reading.as_mut().expect("a log was opened")
    }

    /// Shows a remark of Regatta's own, to people.
    fn remark(&self, text: &str) {
        if !self.ui.json && !self.ui.quiet {
            self.ui.note(self.ui.paint(Style::Dim, text));
        }
    }
}

impl LogView for Screen<'_> {
    fn attempt(&mut self, n: u32) {
        if n > 1 && self.mode != Mode::Raw {
            self.remark(&format!("── attempt {n} ──"));
        }
    }

    fn heading(&mut self, heading: &LogHeading<'_>) {
        match self.mode {
            Mode::Raw => {}
            Mode::Objects => self.ui.object(&heading.document()),
            Mode::People => self.ui.out(&(heading::lines(heading, self.ui).join("\n") + "\n")),
        }
    }

    fn open(&mut self, log: &AttemptLog) -> io::Result<ReadFrom> {
        let reading = Reading::new(log, (self.mode, self.lines), (self.ui, self.redactor))?;
        Ok(self.reading.insert(reading).begin())
    }

    fn is_full(&self) -> bool {
        self.reading.as_ref().is_none_or(Reading::is_full)
    }

    fn event(&mut self, event: &Event) {
        self.reading().event(event);
    }

    fn lines(&mut self, lines: &[Line]) -> io::Result<()> {
        self.reading().lines(lines)
    }

    fn stderr_lines(&mut self, lines: &[Line]) {
        self.reading().stderr_lines(lines);
    }

    fn stderr(&mut self, path: &Path) {
        self.reading().stderr(path);
    }

    fn complete(&mut self) {
        self.reading().finish();
    }

    fn live(&mut self) {
        self.reading().release();
    }

    fn ended(&mut self, attempt: &Attempt) {
        let (ui, redactor) = (self.ui, self.redactor);
        let Some(exit) = attempt.exit.as_ref().filter(|_| self.mode == Mode::People && !ui.quiet) else {
            return;
        };
        let mut facts = vec![format!("attempt {}: {exit}", attempt.n)];
        facts.extend(attempt.started_at.zip(attempt.ended_at).map(|(from, to)| human(to.since(from))));
        facts.extend(attempt.class.as_ref().map(|class| format!("failure: {class}")));
        facts.extend(attempt.verdict.map(|verdict| format!("verdict {verdict}")));
        let mut text = facts.join(" · ");
        if !attempt.summary.is_empty() {
            text.push_str(&format!(": {}", attempt.summary));
        }
        let text = clean_line(&redactor.redact(&text));
        ui.note(ui.paint(Style::Dim, &format!("■ {text}")));
        for evidence in &attempt.evidence {
            let output = output_of(evidence);
            if output.is_empty() {
                continue;
            }
            let shown = |line: &str| clean_line(&redactor.redact(line));
            let heading = format!("── {} ──", shown(&describe_evidence(evidence)));
            ui.line(ui.paint(Style::Dim, &heading));
            output.iter().for_each(|line| ui.line(shown(line)));
        }
    }

    fn asking(&mut self, sentence: &str) {
        if !self.ui.quiet {
            self.ui.note(self.ui.paint(Style::Dim, &clean_line(sentence)));
        }
    }

    fn waits(&mut self, waiting: &WaitingForLog) {
        let mut text = format!("{} is {}", waiting.task, waiting.state);
        if !waiting.why.is_empty() {
            text.push_str(&format!(": {}", waiting.why));
        }
        if let Some(starter) = &waiting.starter {
            text.push_str(&format!("; {starter}"));
        }
        self.remark(&text);
    }

    fn rests(&mut self, task: &TaskId, state: StateName) {
        self.remark(&format!("{task}: {state}"));
    }
}
