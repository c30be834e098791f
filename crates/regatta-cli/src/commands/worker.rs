//! `regatta done`, `progress`, `stuck` (and `parcel …`): an agent's reports from its lane.

use std::path::{Path, PathBuf};

use regatta_core::id::TaskId;
use regatta_core::verdict::{Metrics, Statement, Verdict};
use regatta_ops::documents::RecordedDocument;
use regatta_ops::door::Tool;
use regatta_ops::worker::{Worker, without_secrets};
use regatta_store::Word;

use crate::door;
use crate::exit::Exit;
use crate::ui::Ui;
use regatta_ops::Refusal;

/// The most bytes to read of a detail file.
const DETAIL_BYTES: usize = 16 * 1024;

/// Report that your task is finished, with your verdict.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct DoneArgs {
    /// pass, warn, block or unknown (and the words other tools use for them).
    #[arg(long, value_name = "VERDICT", value_parser = parse_verdict)]
    verdict: Verdict,
    /// One line that says what you did; it becomes the commit's subject.
    #[arg(long, value_name = "TEXT", default_value = "")]
    summary: String,
    /// A file with details; it becomes the commit's text below the subject.
    #[arg(long, value_name = "FILE")]
    detail_file: Option<PathBuf>,
    /// Tokens read by the model.
    #[arg(long, value_name = "N")]
    tokens_in: Option<u64>,
    /// Tokens written by the model.
    #[arg(long, value_name = "N")]
    tokens_out: Option<u64>,
    /// Seconds of work.
    #[arg(long, value_name = "S")]
    duration_s: Option<f64>,
    /// Tests that passed.
    #[arg(long, value_name = "N")]
    tests_passed: Option<u64>,
    /// Tests that failed.
    #[arg(long, value_name = "N")]
    tests_failed: Option<u64>,
    /// Files changed.
    #[arg(long, value_name = "N")]
    files_changed: Option<u64>,
    /// Cost in dollars.
    #[arg(long, value_name = "USD")]
    cost_usd: Option<f64>,
}

/// Report what you are doing.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ProgressArgs {
    /// What you are doing, in a few words.
    label: String,
    /// More about it.
    #[arg(long, value_name = "TEXT")]
    detail: Option<String>,
    /// The phase it belongs to.
    #[arg(long, value_name = "NAME")]
    phase: Option<String>,
}

/// Report that you cannot continue without a person.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct StuckArgs {
    /// What you need.
    why: String,
}

/// The same commands under the names that rookery uses.
#[derive(Clone, Debug, clap::Subcommand)]
pub(crate) enum ParcelCommand {
    /// The same as `regatta done`.
    Done(DoneArgs),
    /// The same as `regatta progress`.
    Progress(ProgressArgs),
    /// The same as `regatta new`, in parcels/.
    New(super::new::Args),
    /// The same as `regatta validate`.
    Validate(super::validate::Args),
    /// The same as `regatta enqueue`.
    Build(super::enqueue::Args),
}

pub(crate) fn parse_verdict(text: &str) -> Result<Verdict, String> {
    text.parse().map_err(|error: regatta_core::verdict::NoVerdict| error.to_string())
}

pub(crate) async fn done(args: DoneArgs, ui: &Ui) -> Result<Exit, Refusal> {
    let metrics = Metrics {
        tokens_in: args.tokens_in,
        tokens_out: args.tokens_out,
        duration_s: args.duration_s,
        tests_passed: args.tests_passed,
        tests_failed: args.tests_failed,
        files_changed: args.files_changed,
        cost_usd: args.cost_usd,
    };
    let summary = match &args.detail_file {
        Some(path) => format!("{}\n\n{}", args.summary, detail(path)?).trim().to_owned(),
        None => args.summary,
    };
    let statement = Statement { verdict: args.verdict, summary, metrics };
    say(Word::Done(statement), ui, &format!("verdict {} recorded", args.verdict)).await
}

/// As much of a file as a commit message should hold.
fn detail(path: &Path) -> Result<String, Refusal> {
    let bytes = std::fs::read(path).map_err(|error| Refusal::io("reading", path, &error))?;
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(DETAIL_BYTES)]).into_owned();
    let left_out = if bytes.len() > DETAIL_BYTES { "\n[…]" } else { "" };
    Ok(text.trim().to_owned() + left_out)
}

pub(crate) async fn progress(args: ProgressArgs, ui: &Ui) -> Result<Exit, Refusal> {
    let word = Word::Progress { label: args.label, detail: args.detail, phase: args.phase };
    say(word, ui, "progress recorded").await
}

pub(crate) async fn stuck(args: StuckArgs, ui: &Ui) -> Result<Exit, Refusal> {
    say(Word::Stuck(args.why), ui, "recorded: a person is needed").await
}

async fn say(word: Word, ui: &Ui, answer: &str) -> Result<Exit, Refusal> {
    let Reporter { task, attempt } = match door::here() {
        Some(door) => door.ask(request(without_secrets(word, None)))?,
        None => {
            let worker = Worker::here()?;
            worker.say(word).await?;
            Reporter { task: worker.task, attempt: worker.attempt }
        }
    };
    if ui.json {
        ui.document(&RecordedDocument { attempt, ok: true, task });
    } else if !ui.quiet {
        ui.line(format!("{task} attempt {attempt}: {answer}"));
    }
    Ok(Exit::Ok)
}

/// The attempt whose report was recorded.
#[derive(serde::Deserialize)]
struct Reporter {
    task: TaskId,
    attempt: u32,
}

fn request(word: Word) -> Tool {
    match word {
        Word::Done(statement) => Tool::Done(statement),
        Word::Progress { label, detail, phase } => Tool::Progress { label, detail, phase },
        Word::Stuck(why) => Tool::Stuck { why },
    }
}
