//! `regatta task send` and `broadcast`: follow-up prompts for tasks in registered repositories.

use regatta_core::prompt::PromptState;
use regatta_store::MAIN_QUEUE;
use serde_json::{Value, json};

use super::start::{begin, wait_for_process};
use crate::cli::Global;
use crate::exit::Exit;
use crate::parallel::registry::Registry;
use crate::parallel::{ClaudeBin, Found, Repositories};
use crate::ui::Ui;
use regatta_ops::Refusal;
use regatta_ops::tasks::{SendRequest, When};

/// Send a task's agent a message, as `regatta send` does. Prints JSON.
///
/// `dispatched` is true if the agent was idle and continues at once; otherwise the message waits until the running
/// attempt has ended. A task that was never started is started with it.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The task.
    #[arg(long, value_name = "ID")]
    task_id: String,
    /// The message for its agent.
    #[arg(long, value_name = "PROMPT", allow_hyphen_values = true)]
    prompt: String,
    #[command(flatten)]
    claude: ClaudeBin,
}

/// Send every task's agent a message, in all registered repositories. Prints JSON.
///
/// Tasks that were never started get it when they start; tasks that landed, failed or were destroyed are left out.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct BroadcastArgs {
    /// The message for the agents.
    #[arg(long, value_name = "PROMPT", allow_hyphen_values = true)]
    prompt: String,
    #[command(flatten)]
    claude: ClaudeBin,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    not_empty(&args.prompt)?;
    let (registry, lock) = Registry::load_locked(global).await?;
    let repositories = Repositories::open(&registry, global).await?;
    let mut found = repositories.find(&registry, &args.task_id).await?;
    let id = found.task.spec.id.clone();
    if found.status(&registry) == "destroyed" {
        return Err(Refusal::refused(format!("No active task: {id}"))
            .hinted("it was destroyed; `regatta task create` creates it again"));
    }
    let mut result = tell(&mut found, &args.prompt, &args.claude).await?;
    drop(lock);
    if result["dispatched"] == true {
        wait_for_process(&mut found).await?;
    }
    result["task"] = json!(found.document(&registry).await?);
    ui.document(&result);
    Ok(Exit::Ok)
}

/// Sends the prompt to one task; returns the result.
async fn tell(found: &mut Found<'_>, prompt: &str, claude: &ClaudeBin) -> Result<Value, Refusal> {
    let id = found.task.spec.id.clone();
    if found.is_unstarted() {
        let daemon = begin(found, prompt, claude).await?;
        return Ok(json!({ "task_id": id, "dispatched": true, "queued_count": 0, "daemon": daemon }));
    }
    add(found, prompt, claude).await
}

/// Queues the prompt, and starts a daemon if none runs.
async fn add(found: &mut Found<'_>, prompt: &str, claude: &ClaudeBin) -> Result<Value, Refusal> {
    let queue = found.repository.queue().await?;
    let request =
        SendRequest { task: found.task.spec.id.to_string(), text: prompt.to_owned(), when: When::Next };
    let sent = queue.send(&request).await?;
    found.reload().await?;
    let served = found.task.queue == MAIN_QUEUE && !found.task.state.is_terminal();
    let daemon = if served { found.repository.serve(claude).await? } else { None };
    let dispatched =
        sent.dispatched || (daemon.is_some() && sent.position == 1 && !found.task.state.is_claimed());
    // The daemon may have delivered it already.
    let prompts = found.store.prompts(&sent.task_id).await?;
    let queued = prompts.iter().filter(|prompt| prompt.state == PromptState::Queued);
    let waiting = queued.filter(|prompt| !dispatched || prompt.n != sent.prompt).count();
    Ok(json!({
        "task_id": sent.task_id,
        "dispatched": dispatched,
        "queued_count": waiting,
        "position": sent.position,
        "state": found.task.state.name(),
        "daemon": daemon,
    }))
}

pub(crate) async fn broadcast(args: BroadcastArgs, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    not_empty(&args.prompt)?;
    let (registry, _lock) = Registry::load_locked(global).await?;
    let repositories = Repositories::open(&registry, global).await?;
    let (mut results, mut refused) = (Vec::new(), Vec::new());
    for mut found in repositories.tasks().await? {
        let status = found.status(&registry);
        let landed = matches!(found.task.state, regatta_core::state::TaskState::Landed { .. });
        if !["created", "running", "exited"].contains(&status) || landed {
            continue;
        }
        match add(&mut found, &args.prompt, &args.claude).await {
            Ok(result) => results.push(result),
            Err(error) => {
                refused.push(
                    json!({ "task_id": found.task.spec.id, "error": error.message, "hint": error.hint() }),
                );
            }
        }
    }
    ui.document(&json!({ "total": results.len(), "results": results, "refused": refused }));
    Ok(Exit::Ok)
}

fn not_empty(prompt: &str) -> Result<(), Refusal> {
    match prompt.trim().is_empty() {
        true => Err(Refusal::usage("the prompt is empty").hinted("say what to do: --prompt \"…\"")),
        false => Ok(()),
    }
}
