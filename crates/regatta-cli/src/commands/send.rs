//! `regatta send ID "PROMPT"`: sends a follow-up prompt to a task's agent.

use std::io::Read;
use std::path::{Path, PathBuf};

use regatta_core::prompt::MAX_PROMPT;
use regatta_ops::tasks::{SendRequest, When, line};

use crate::cli::Global;
use crate::exit::Exit;
use crate::queue::operator;
use crate::ui::Ui;
use regatta_ops::Refusal;

/// Send a task's agent a message; it continues its conversation in its lane.
///
/// While the agent works, the message waits until that attempt has ended: one message per attempt, in order, before
/// anything lands. With --now the agent is interrupted, uncharged, and continues with the message in the same
/// conversation and lane. A task that has ended (done, landed, blocked or failed) starts again; a cancelled or
/// skipped task is refused. Nothing done before is lost, and a message survives every crash.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The task, or the beginning of its id.
    #[arg(value_name = "ID")]
    task: String,
    #[command(flatten)]
    said: Said,
    /// Interrupt the agent, which continues with this message, instead of waiting for the end of its attempt.
    #[arg(long)]
    now: bool,
}

/// The message.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Said {
    /// The message for the agent; `-` reads it from standard input.
    #[arg(value_name = "PROMPT", required_unless_present = "file", allow_hyphen_values = true)]
    prompt: Option<String>,
    /// Read the message from this file; `-` is standard input.
    #[arg(long, value_name = "FILE", conflicts_with = "prompt")]
    file: Option<PathBuf>,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let text = args.said.load()?;
    let operator = operator(global).await?;
    let when = if args.now { When::Now } else { When::Next };
    let sent = operator.send(&SendRequest { task: args.task, text, when }).await?;
    if ui.json {
        ui.document(&sent);
    } else {
        ui.line(line(&sent, when));
        if let (Some(hint), false) = (&sent.hint, ui.quiet) {
            ui.line(hint);
        }
    }
    Ok(Exit::Ok)
}

impl Said {
    /// The message, from the argument, the file or standard input.
    pub(crate) fn load(&self) -> Result<String, Refusal> {
        let text = text_of(self.prompt.as_deref(), self.file.as_deref())?;
        if text.trim().is_empty() {
            return Err(Refusal::usage("the prompt is empty").hinted("say what to do: regatta send ID \"…\""));
        }
        Ok(text)
    }
}

/// A text from an argument or a file; `-` is standard input.
pub(crate) fn text_of(given: Option<&str>, file: Option<&Path>) -> Result<String, Refusal> {
    match (given, file) {
        (Some("-"), _) => read_input(),
        (Some(text), _) => Ok(text.to_owned()),
        (None, Some(file)) if file.as_os_str() == "-" => read_input(),
        (None, Some(file)) => read_file(file),
        (None, None) => Ok(String::new()),
    }
}

fn read_input() -> Result<String, Refusal> {
    read(std::io::stdin().lock(), "standard input")
}

fn read_file(path: &Path) -> Result<String, Refusal> {
    let file = std::fs::File::open(path).map_err(|error| Refusal::io("reading", path, &error))?;
    if file.metadata().is_ok_and(|meta| meta.is_dir()) {
        return Err(Refusal::usage(format!("{} is a directory", path.display())).hinted("name a file"));
    }
    read(file, &path.display().to_string())
}

/// Reads slightly more than can be sent, so that the store can report a text that is too long.
fn read(from: impl Read, name: &str) -> Result<String, Refusal> {
    let mut bytes = Vec::new();
    let most = u64::try_from(MAX_PROMPT + 1).unwrap_or(u64::MAX);
    let failed = |error: std::io::Error| Refusal::usage(format!("reading the prompt from {name}: {error}"));
    from.take(most).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() > MAX_PROMPT {
        return Err(Refusal::usage(format!(
            "{name} has more than the {} KiB that can be sent",
            MAX_PROMPT / 1024
        ))
        .hinted("put it in a file that the agent can read, and send its path"));
    }
    String::from_utf8(bytes).map_err(|error| {
        Refusal::usage(format!("{name} is not UTF-8 at byte {}", error.utf8_error().valid_up_to()))
            .hinted("save it as UTF-8")
    })
}
