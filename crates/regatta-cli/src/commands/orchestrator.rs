//! The commands of claude-orchestrator under their own names and with their own flags, so that its users can type what
//! they are used to. As in that tool, they print JSON, and a lower priority is more urgent.

use std::path::PathBuf;

use regatta_core::crew::{MemberName, Role};
use regatta_ops::crew::{KeepOutput, Naming};

use super::{crew, ctx, msg, task};
use crate::cli::Global;
use crate::commands::crew::register::role;
use crate::crew::{As, member_name};
use crate::exit::Exit;
use crate::ui::Ui;
use regatta_ops::{Refusal, RefusalKind};

/// Tasks are named as in that tool: task-0000000000, task-0000000001, …
const NAMING: Naming = Naming { prefix: "task-", width: 10, first: 0 };

/// The commands of claude-orchestrator.
#[derive(Clone, Debug, clap::Subcommand)]
pub(crate) enum OrchestratorCommand {
    /// The same as `regatta crew register`.
    Register {
        #[arg(long, value_parser = member_name)]
        name: MemberName,
        #[arg(long, default_value = "general", value_parser = role)]
        role: Role,
        /// Stay, and pass every message to a command in this directory, as `crew register --stay -- COMMAND` does.
        #[arg(long, value_name = "DIR")]
        work_dir: Option<PathBuf>,
        /// That command, with its own flags; `-p` is added, and the message is on its standard input.
        #[arg(long, requires = "work_dir", default_value = "claude")]
        command: String,
        /// Where to keep its output, one file per message.
        #[arg(long, value_name = "DIR", requires = "work_dir")]
        cache_dir: Option<PathBuf>,
    },
    /// The same as `regatta crew heartbeat`.
    Heartbeat {
        #[command(flatten)]
        who: Instance,
        #[arg(long)]
        current_task: Option<String>,
    },
    /// The same as `regatta crew unregister`.
    Unregister(Instance),
    /// The same as `regatta crew list`.
    ListInstances,
    /// The same as `regatta task push`.
    PushTask {
        #[arg(long)]
        title: String,
        #[arg(long)]
        description: Option<String>,
        #[arg(long, default_value_t = 1, allow_negative_numbers = true)]
        priority: i32,
        #[arg(long, value_parser = member_name)]
        assignee: Option<MemberName>,
        #[arg(long)]
        depends_on: Option<String>,
    },
    /// The same as `regatta task claim`.
    ClaimTask(Instance),
    /// The same as `regatta task complete`.
    CompleteTask {
        #[arg(long)]
        task_id: String,
        #[arg(long, default_value = "")]
        result: String,
        #[command(flatten)]
        who: Instance,
    },
    /// The same as `regatta task block`.
    TaskBlock(Reasoned),
    /// The same as `regatta task fail`.
    TaskFail(Reasoned),
    /// The same as `regatta task retry`.
    TaskRetry {
        #[arg(long)]
        task_id: String,
        #[command(flatten)]
        who: Instance,
    },
    /// The same as `regatta task list`.
    #[command(alias = "poll-task")]
    ListTasks {
        #[arg(long, value_parser = task::list::words())]
        status: Option<String>,
    },
    /// The same as `regatta task watch --once`.
    WatchTasks,
    /// The same as `regatta msg send`, or `broadcast`.
    SendMessage {
        #[arg(long, visible_alias = "to", value_parser = member_name, required_unless_present = "broadcast")]
        to_name: Option<MemberName>,
        #[arg(long)]
        content: String,
        #[arg(long, conflicts_with = "to_name")]
        broadcast: bool,
        #[command(flatten)]
        who: Instance,
    },
    /// The same as `regatta msg inbox --all`.
    #[command(alias = "poll-message")]
    PollMessages(Instance),
    /// The same as `regatta msg wait`.
    WaitForMessage {
        #[arg(long, default_value = "60")]
        timeout: String,
        #[command(flatten)]
        who: Instance,
    },
    /// The same as `regatta msg dismiss`.
    #[command(alias = "delete-message")]
    DismissMessage {
        #[arg(long, value_parser = message_number)]
        message_id: u64,
        #[command(flatten)]
        who: Instance,
    },
    /// The same as `regatta msg ask`.
    RequestHelp {
        #[arg(long)]
        question: String,
        #[arg(long)]
        context: Option<String>,
        #[command(flatten)]
        who: Instance,
    },
    /// The same as `regatta ctx set`.
    SetContext {
        #[arg(long)]
        key: String,
        #[arg(long)]
        value: String,
        #[command(flatten)]
        who: Instance,
    },
    /// The same as `regatta ctx get`.
    GetContext(Key),
    /// The same as `regatta ctx delete`.
    DeleteContext(Key),
    /// The same as `regatta ctx list`.
    ListContextKeys,
    /// The same as `regatta ctx watch --once`.
    WatchContext(Key),
}

/// The member that acts, by that tool's option.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Instance {
    /// The member.
    #[arg(long, short = 'i', visible_alias = "as", env = "REGATTA_MEMBER", value_parser = member_name)]
    instance_id: Option<MemberName>,
}

impl From<Instance> for As {
    fn from(instance: Instance) -> Self {
        As { name: instance.instance_id }
    }
}

/// A task that cannot continue, and why.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Reasoned {
    #[arg(long)]
    task_id: String,
    #[arg(long)]
    reason: String,
    #[command(flatten)]
    who: Instance,
}

/// One key of the shared context.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Key {
    #[arg(long)]
    key: String,
}

/// Parses a message's number, or its name in that tool: msg-0000000000 is the first one.
fn message_number(text: &str) -> Result<u64, String> {
    let number = |text: &str| text.parse::<u64>().map_err(|error| error.to_string());
    match text.strip_prefix("msg-") {
        Some(digits) => number(digits).map(|n| n.saturating_add(1)),
        None => number(text),
    }
}

/// The words of `--command`, and `-p`. No shell reads them, so shell syntax has no meaning.
fn command_line(text: &str) -> Result<Vec<String>, Refusal> {
    let mut words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
    let Some(program) = words.first() else {
        return Err(Refusal::usage("--command is empty").hinted("for example: --command claude"));
    };
    if regatta_engine::agents::find_program(program, std::path::Path::new(".")).is_none() {
        return Err(Refusal::new(RefusalKind::CannotWork, format!("the program {program:?} was not found"))
            .hinted("install it, or name another with --command"));
    }
    words.push("-p".to_owned());
    Ok(words)
}

fn held(task: String, who: Instance) -> task::held::Held {
    task::held::Held { task, who: who.into(), token: None }
}

pub(crate) async fn run(command: OrchestratorCommand, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    use OrchestratorCommand as Of;
    let ui = &Ui { json: true, ..ui.clone() };
    match command {
        Of::Register { name, role, work_dir, command, cache_dir } => {
            let cache_dir = cache_dir.map(|dir| std::path::absolute(&dir).unwrap_or(dir));
            let mut words = Vec::new();
            if let Some(dir) = &work_dir {
                std::env::set_current_dir(dir).map_err(|error| Refusal::io("entering", dir, &error))?;
                words = command_line(&command)?;
            }
            let stay = work_dir.is_some();
            let keep = stay.then_some(KeepOutput { dir: cache_dir });
            let (pid, lease, wait) = (None, None, false);
            let args = crew::register::Args { name, role, pid, lease, wait, stay, command: words, keep };
            crew::register::run(args, global, ui).await
        }
        Of::Heartbeat { who, current_task } => {
            let args = crew::heartbeat::Args { name: None, who: who.into(), task: current_task };
            crew::heartbeat::run(args, global, ui).await
        }
        Of::Unregister(who) => {
            crew::unregister::run(crew::unregister::Args { name: None, who: who.into() }, global, ui).await
        }
        Of::ListInstances => crew::list::run(crew::list::Args::default(), global, ui).await,
        Of::PushTask { title, description, priority, assignee, depends_on } => {
            let args = task::push::Args {
                title,
                description,
                id: None,
                role: None,
                assign: assignee,
                // In that tool, zero is the most urgent.
                priority: priority.saturating_neg().clamp(-9999, 9999),
                deps: depends_on,
                max_attempts: None,
                checks: Vec::new(),
                land: false,
            };
            task::push::push(args, NAMING, global, ui).await
        }
        Of::ClaimTask(who) => {
            let args =
                task::claim::Args { task: None, who: who.into(), lane: false, wait: false, timeout: None };
            task::claim::run(args, global, ui).await
        }
        Of::CompleteTask { task_id, result, who } => {
            let verdict = regatta_core::verdict::Verdict::Pass;
            let args = task::complete::Args { held: held(task_id, who), result, verdict, tell: None };
            task::complete::run(args, global, ui).await
        }
        Of::TaskBlock(Reasoned { task_id, reason, who }) => {
            task::block::run(task::block::Args { held: held(task_id, who), reason }, global, ui).await
        }
        Of::TaskFail(Reasoned { task_id, reason, who }) => {
            task::fail::run(task::fail::Args { held: held(task_id, who), reason }, global, ui).await
        }
        Of::TaskRetry { task_id, who } => {
            task::retry::run(task::retry::Args { task: task_id, who: who.into() }, global, ui).await
        }
        Of::ListTasks { status } => {
            task::list::run(task::list::Args { status, include_history: false }, global, ui).await
        }
        Of::WatchTasks => task::watch::run(task::watch::Args { new: true, once: true }, global, ui).await,
        Of::SendMessage { to_name: Some(to), content, who, .. } => {
            let args = msg::send::Args { to, text: content, who: who.into(), reply_to: None, wake: false };
            msg::send::run(args, global, ui).await
        }
        Of::SendMessage { to_name: None, content, who, .. } => {
            let args = msg::broadcast::Args { text: content, who: who.into(), role: None };
            msg::broadcast::run(args, global, ui).await
        }
        Of::PollMessages(who) => {
            msg::inbox::run(msg::inbox::Args { who: who.into(), all: true, peek: false }, global, ui).await
        }
        Of::WaitForMessage { timeout, who } => {
            let (who, timeout) = (who.into(), Some(timeout));
            let args = msg::wait::Args { who, timeout, from: None, reply_to: None, follow: false };
            msg::wait::run(args, global, ui).await
        }
        Of::DismissMessage { message_id, who } => {
            let args = msg::dismiss::Args { messages: vec![message_id], read: false, who: who.into() };
            msg::dismiss::run(args, global, ui).await
        }
        Of::RequestHelp { question, context, who } => {
            let who = who.into();
            let args = msg::ask::Args { question, context, who, role: None, wait: false, timeout: None };
            msg::ask::run(args, global, ui).await
        }
        Of::SetContext { key, value, who } => {
            let args = ctx::set::Args { key, value, if_version: None, epoch: None, who: who.into() };
            ctx::set::run(args, global, ui).await
        }
        Of::GetContext(Key { key }) => ctx::get::run(ctx::get::Args { key }, global, ui).await,
        Of::DeleteContext(Key { key }) => {
            let args = ctx::delete::Args { key, if_version: None, epoch: None, who: As::default() };
            ctx::delete::run(args, global, ui).await
        }
        Of::ListContextKeys => ctx::list::run(ctx::list::Args { prefix: String::new() }, global, ui).await,
        Of::WatchContext(Key { key }) => {
            ctx::watch::run(ctx::watch::Args { keys: vec![key], new: true, once: true }, global, ui).await
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_their_names_or_their_numbers() {
        assert_eq!(message_number("msg-0000000000"), Ok(1));
        assert_eq!(message_number("msg-0000000041"), Ok(42));
        assert_eq!(message_number("7"), Ok(7));
        assert!(message_number("msg-x").is_err() && message_number("").is_err());
    }
}
