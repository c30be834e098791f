//! `regatta crew register`: joins the crew.

use std::time::Duration;

use regatta_core::config::parse_duration;
use regatta_core::crew::{MemberName, Role};
use regatta_ops::crew::{Crew, Heard, KeepOutput, RegisterRequest, Stands, StayRequest, leader};
use regatta_store::Member;

use crate::cli::Global;
use crate::commands::msg::show::one;
use crate::crew::{create, member_name};
use crate::exit::Exit;
use crate::ui::Ui;
use regatta_ops::Refusal;

/// Join the crew under a name.
///
/// A member stays in the crew as long as a process lives: the one that ran this command, such as a shell, or --pid.
/// When that process ends, for whatever reason, the member has left and its tasks go back to the board. For a member
/// without a process use --lease: it stays as long as `regatta crew heartbeat` comes in time, by the clock of the
/// daemon or another process that watches the crew. There is at most one leader at a time.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The name: a–z, A–Z, 0–9, '.', '_' and '-'.
    #[arg(value_name = "NAME", value_parser = member_name)]
    pub(crate) name: MemberName,
    /// Its role: leader, architect, developer, tester, general, planner, builder, verifier, reviewer, accepter, or any
    /// other word.
    #[arg(long, value_name = "ROLE", default_value = "general", value_parser = role)]
    pub(crate) role: Role,
    /// The process that the membership depends on.
    #[arg(long, value_name = "PID", conflicts_with = "lease")]
    pub(crate) pid: Option<u32>,
    /// Depend on heartbeats instead of a process, at most this far apart: 60s, 10m.
    #[arg(long, value_name = "SPAN")]
    pub(crate) lease: Option<String>,
    /// With --role leader: wait until the lead is free, then take it.
    #[arg(long)]
    pub(crate) wait: bool,
    /// Stay in the foreground as the member's process and show messages as they arrive, until interrupted.
    #[arg(long, conflicts_with_all = ["pid", "lease"])]
    pub(crate) stay: bool,
    /// With --stay: a program that gets every message on its standard input, one at a time.
    #[arg(last = true, value_name = "COMMAND", requires = "stay")]
    pub(crate) command: Vec<String>,
    /// Where to keep the program's output.
    #[arg(skip)]
    pub(crate) keep: Option<KeepOutput>,
}

pub(crate) fn role(text: &str) -> Result<Role, String> {
    Role::parse(text).map_err(|error| format!("the role {error}"))
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let crew = create(global).await?;
    let stands = match (&args.lease, args.pid) {
        (Some(lease), _) => Stands::Heartbeats(span(lease)?),
        (None, _) if args.stay => Stands::Here,
        (None, Some(pid)) => Stands::Process(pid),
        (None, None) => Stands::Parent,
    };
    let (name, role) = (args.name.clone(), args.role.clone());
    let member = crew.register(&RegisterRequest { name, role, stands, wait: args.wait }).await?;
    tell(&crew, &member, ui).await?;
    if !args.stay {
        return Ok(Exit::Ok);
    }
    let request = StayRequest { command: args.command, keep: args.keep };
    let interrupted = async {
        let _ = tokio::signal::ctrl_c().await;
    };
    let hear = |heard: Heard<'_>| match heard {
        Heard::Message(message) => one(message, ui),
        Heard::NotHandled { message, program, why } => ui.note(format!("message {message}: {program} {why}")),
    };
    crew.stay(&member, &request, interrupted, hear).await?;
    Ok(Exit::Ok)
}

/// Registers this process as the leader and stays.
pub(crate) async fn lead(name: &MemberName, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let (name, role) = (name.clone(), leader());
    let (pid, lease, wait, stay, command, keep) = (None, None, false, true, Vec::new(), None);
    run(Args { name, role, pid, lease, wait, stay, command, keep }, global, ui).await
}

async fn tell(crew: &Crew, member: &Member, ui: &Ui) -> Result<(), Refusal> {
    if ui.json {
        // On one line, because with --stay more objects follow.
        ui.object(&crew.document(member).await?);
        return Ok(());
    }
    let until = match (member.node.is_by_beats(), member.lease) {
        (false, _) => format!("as long as process {} lives", member.node.pid),
        (true, lease) => format!("with a heartbeat at least every {}s", lease.unwrap_or_default().as_secs()),
    };
    ui.line(format!("{} is in the crew ({}), {until}", member.name, member.role));
    Ok(())
}

fn span(text: &str) -> Result<Duration, Refusal> {
    let wrong = |why: &str| {
        Refusal::usage(format!("--lease {text:?} {why}")).hinted("for example: --lease 60s, --lease 10m")
    };
    match parse_duration(text) {
        Ok(Some(span)) if span >= Duration::from_secs(1) => Ok(span),
        Ok(_) => Err(wrong("is shorter than a second")),
        Err(why) => Err(wrong(&why.to_string())),
    }
}
