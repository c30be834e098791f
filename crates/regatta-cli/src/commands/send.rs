//! `regatta send ID "PROMPT"`: says something more to a task's agent.

use std::io::Read;
use std::path::{Path, PathBuf};

use regatta_core::config::{AgentKind, Config};
use regatta_core::prompt::{MAX_PROMPT, PromptState};
use regatta_core::state::TaskState;
use regatta_engine::clock;
use regatta_ops::documents::SentDocument;
use regatta_store::{MAIN_QUEUE, NewPrompt, RequestId, StoreError, TaskRecord};

use crate::cli::Global;
use crate::error::CliError;
use crate::exit::Exit;
use crate::project::{Project, find_task};
use crate::queue::Queue;
use crate::render::shown::{clean_line, redactor};
use crate::ui::Ui;

/// So much of a prompt is in the event log.
const BEGINNING: usize = 80;

/// Say something more to a task's agent: it goes on with its conversation, in its lane.
///
/// While the agent is at work the prompt waits, and is told when that attempt has ended: one prompt per attempt, in
/// order, before anything lands. With --now the agent is interrupted instead, uncharged, and continues in the same
/// conversation and lane with these words. A task that has ended (done, landed, blocked or failed) is started again for it; a
/// cancelled or skipped one is refused. Nothing that was done before is lost, and a prompt survives every crash.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The task, or the beginning of its id.
    #[arg(value_name = "ID")]
    task: String,
    #[command(flatten)]
    said: Said,
    /// Interrupt the agent and let it continue with these words, instead of waiting for the end of its attempt.
    #[arg(long)]
    now: bool,
}

/// When the agent gets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// After the attempt under way.
    Next,
    /// At once: the attempt under way is interrupted.
    Now,
}

/// What is said.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Said {
    /// What the agent is told; `-` reads it from standard input.
    #[arg(value_name = "PROMPT", required_unless_present = "file", allow_hyphen_values = true)]
    prompt: Option<String>,
    /// Read it from this file; `-` is standard input.
    #[arg(long, value_name = "FILE", conflicts_with = "prompt")]
    file: Option<PathBuf>,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, CliError> {
    let text = args.said.load()?;
    let project = Project::look(&global.options())?;
    let store = project.store().await?;
    let task = find_task(store.as_ref(), &args.task).await?;
    let queue = Queue::of(&project, store).await?;
    let when = if args.now { When::Now } else { When::Next };
    let sent = send_when(&queue, &task, &text, &project.config, when).await?;
    match ui.json {
        true => ui.document(&sent),
        false => {
            ui.line(line(&sent, when));
            if let (Some(hint), false) = (&sent.hint, ui.quiet) {
                ui.line(hint);
            }
        }
    }
    Ok(Exit::Ok)
}

impl Said {
    /// The text, wherever it is.
    pub(crate) fn load(&self) -> Result<String, CliError> {
        let text = text_of(self.prompt.as_deref(), self.file.as_deref())?;
        if text.trim().is_empty() {
            return Err(CliError::usage("the prompt is empty")
                .hinted("say what is to be done: regatta send ID \"…\""));
        }
        Ok(text)
    }
}

/// A text that is given, or is in a file; `-` is standard input.
pub(crate) fn text_of(given: Option<&str>, file: Option<&Path>) -> Result<String, CliError> {
    match (given, file) {
        (Some("-"), _) => read_input(),
        (Some(text), _) => Ok(text.to_owned()),
        (None, Some(file)) if file.as_os_str() == "-" => read_input(),
        (None, Some(file)) => read_file(file),
        (None, None) => Ok(String::new()),
    }
}

fn read_input() -> Result<String, CliError> {
    read(std::io::stdin().lock(), "standard input")
}

fn read_file(path: &Path) -> Result<String, CliError> {
    let file = std::fs::File::open(path).map_err(|error| CliError::io("reading", path, &error))?;
    if file.metadata().is_ok_and(|meta| meta.is_dir()) {
        return Err(CliError::usage(format!("{} is a directory", path.display())).hinted("name a file"));
    }
    read(file, &path.display().to_string())
}

/// No more than can be sent, and a little, so that the store can say that it is too much.
fn read(from: impl Read, name: &str) -> Result<String, CliError> {
    let mut bytes = Vec::new();
    let most = u64::try_from(MAX_PROMPT + 1).unwrap_or(u64::MAX);
    let failed = |error: std::io::Error| CliError::usage(format!("reading the prompt from {name}: {error}"));
    from.take(most).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() > MAX_PROMPT {
        return Err(CliError::usage(format!(
            "what {name} holds is more than the {} KiB that can be sent",
            MAX_PROMPT / 1024
        ))
        .hinted("put it where the agent can read it, and send where that is"));
    }
    String::from_utf8(bytes).map_err(|error| {
        CliError::usage(format!("{name} is not UTF-8 at byte {}", error.utf8_error().valid_up_to()))
            .hinted("save it as UTF-8")
    })
}

/// Says `text` to one task's agent, after what it is doing.
pub(crate) async fn send(
    queue: &Queue,
    task: &TaskRecord,
    text: &str,
    config: &Config,
) -> Result<SentDocument, CliError> {
    send_when(queue, task, text, config, When::Next).await
}

/// Says `text` to one task's agent.
pub(crate) async fn send_when(
    queue: &Queue,
    task: &TaskRecord,
    text: &str,
    config: &Config,
    when: When,
) -> Result<SentDocument, CliError> {
    let id = &task.spec.id;
    refuse_script(task, config)?;
    let prompt = NewPrompt {
        text: text.to_owned(),
        beginning: beginning(&redactor(config).redact(text)),
        by: queue.by.clone(),
        // Whoever ran it will not come back for it.
        queue: queue.takers.is_abandoned(&task.queue).then(|| MAIN_QUEUE.to_owned()),
        urgent: when == When::Now,
    };
    let sent = match queue.store.send(id, &prompt, &RequestId::fresh(), clock::now()).await {
        Ok(sent) => sent,
        Err(StoreError::Refused(why)) => return Err(refused(&queue.store.task(id).await?, why)),
        Err(StoreError::Invalid(why)) => {
            return Err(CliError::usage(format!("{why}; nothing was sent"))
                .hinted("put it where the agent can read it, and send where that is"));
        }
        Err(error) => return Err(error.into()),
    };
    let task = queue.store.task(id).await?;
    let prompts = queue.store.prompts(id).await?;
    let queued = prompts.iter().filter(|prompt| prompt.state == PromptState::Queued).count();
    let served = queue.takers.of(&task.queue).is_some();
    Ok(SentDocument {
        task_id: id.clone(),
        dispatched: sent.rearmed && served,
        queued_count: u32::try_from(queued).unwrap_or(u32::MAX),
        position: sent.position,
        prompt: sent.prompt,
        state: task.state.name(),
        hint: (!served).then(|| queue.takers.sentence(&task.queue).replace("ID", id.as_str())),
    })
}

/// What is sent to a command becomes its standard input; for a shell that is a script. Words are not run unless the user
/// said that this command understands them.
fn refuse_script(task: &TaskRecord, config: &Config) -> Result<(), CliError> {
    let (id, name) = (&task.spec.id, &task.spec.agent);
    let Some(agent) = config.agents.get(name) else { return Ok(()) };
    if agent.kind != AgentKind::Command || agent.follow_ups {
        return Ok(());
    }
    Err(CliError::refused(format!("{id}: its agent {name} is a command, which would run what is sent as its input")).hinted(
        format!("if {name} reads words and not scripts, set `agents.{name}.follow_ups: true` in regatta.yaml; `regatta retry {id}` repeats the task"),
    ))
}

/// One line for people.
pub(crate) fn line(sent: &SentDocument, when: When) -> String {
    let id = &sent.task_id;
    if when == When::Now && matches!(sent.state, "claimed" | "running" | "judging") {
        return format!("sent to {id}: its agent is interrupted and continues with this");
    }
    match (sent.dispatched, sent.position, sent.state) {
        (true, ..) => format!("sent to {id}: it goes on with it"),
        (_, 1, "pending" | "parked") => format!("sent to {id}, which is {}: told when it starts", sent.state),
        (_, 1, state) => format!("sent to {id}, which is {state}: told when that has ended"),
        (_, n, state) => format!("sent to {id}, which is {state}: told as number {n} of those that wait"),
    }
}

/// Why not, and what first.
fn refused(task: &TaskRecord, why: String) -> CliError {
    let id = &task.spec.id;
    match &task.state {
        TaskState::Cancelled { .. } => {
            CliError::refused(format!("{id} is cancelled, so nobody would be told"))
                .hinted(format!("`regatta retry {id}` brings it back in its lane; then send it"))
        }
        TaskState::Skipped { dependency } => {
            CliError::refused(format!("{id} is skipped, because {dependency} will not come"))
                .hinted(format!("`regatta requeue {dependency}` brings both back; then send it"))
        }
        _ => CliError::refused(why),
    }
}

/// The first words of `text`, on one line.
pub(crate) fn beginning(text: &str) -> String {
    let line = clean_line(text.trim_start());
    let words = line.split_whitespace().collect::<Vec<_>>().join(" ");
    match words.char_indices().nth(BEGINNING) {
        Some((end, _)) => format!("{}…", &words[..end]),
        None => words,
    }
}
