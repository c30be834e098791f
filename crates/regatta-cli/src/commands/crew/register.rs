//! `regatta crew register`: joins the crew.

use std::time::Duration;

use regatta_core::config::parse_duration;
use regatta_core::crew::{MemberName, Role};
use regatta_engine::clock;
use regatta_engine::crew::Watch;
use regatta_engine::process::Identity;
use regatta_engine::session::{node_name, node_of};
use regatta_ops::documents::crew::MemberDocument;
use regatta_store::{LEADER_ROLE, NewMember, NodeInfo, SessionId, Store, StoreError};

use super::stay::{Hands, Keep, stay};
use crate::cli::Global;
use crate::crew::{member_name, open};
use crate::error::{CliError, RefusalKind};
use crate::exit::Exit;
use crate::ui::Ui;

/// Who waits for the lead looks this often whether it is free.
const LOOK: Duration = Duration::from_secs(1);

/// Join the crew under a name.
///
/// A member is there as long as a process lives: the one that ran this command, a shell for example, or --pid. When it
/// ends, however it ends, the member has left and its tasks are back on the board. Where no process stands for it, say
/// --lease: then it is there as long as `regatta crew heartbeat` comes in time, by the clock of the daemon or whoever
/// else watches. Of role leader there is one at a time.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The name: a–z, A–Z, 0–9, '.', '_' and '-'.
    #[arg(value_name = "NAME", value_parser = member_name)]
    pub(crate) name: MemberName,
    /// What for: leader, architect, developer, tester, general, planner, builder, verifier, reviewer, accepter, or any
    /// other word.
    #[arg(long, value_name = "ROLE", default_value = "general", value_parser = role)]
    pub(crate) role: Role,
    /// The process that stands for the member.
    #[arg(long, value_name = "PID", conflicts_with = "lease")]
    pub(crate) pid: Option<u32>,
    /// No process stands for it, but heartbeats, at most this far apart: 60s, 10m.
    #[arg(long, value_name = "SPAN")]
    pub(crate) lease: Option<String>,
    /// Of role leader: wait until the lead is free, and take it then.
    #[arg(long)]
    pub(crate) wait: bool,
    /// Stay, as the process that stands for it: show messages as they come, until it is interrupted.
    #[arg(long, conflicts_with_all = ["pid", "lease"])]
    pub(crate) stay: bool,
    /// With --stay: a program that gets every message on its standard input, one at a time.
    #[arg(last = true, value_name = "COMMAND", requires = "stay")]
    pub(crate) command: Vec<String>,
    /// Where what that program prints is kept.
    #[arg(skip)]
    pub(crate) keep: Option<Keep>,
}

pub(crate) fn role(text: &str) -> Result<Role, String> {
    Role::parse(text).map_err(|error| format!("the role {error}"))
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, CliError> {
    let (project, store) = open(global).await?;
    let lease = args.lease.as_deref().map(span).transpose()?;
    let node = match lease {
        Some(_) => NodeInfo::of_beats(&node_name(), &args.name),
        None if args.stay => process(Some(std::process::id()))?.of_member(&args.name),
        None => process(args.pid)?.of_member(&args.name),
    };
    let session = SessionId::fresh(&format!("member-{}", args.name));
    let member = NewMember { name: args.name.clone(), role: args.role.clone(), session, node, lease };
    match args.wait && args.role.is_leader() {
        true => take_the_lead(store.as_ref(), &member).await?,
        false => register(store.as_ref(), &member).await?,
    }
    let told = tell(store.as_ref(), &args.name, ui).await?;
    if !args.stay {
        return Ok(told);
    }
    let member = crate::crew::there(&store.members().await?, &args.name)?;
    let hands = Hands { command: &args.command, keep: args.keep.as_ref() };
    stay(&project, store.as_ref(), &member, &hands, ui).await
}

/// Registers this process as the leader and stays.
pub(crate) async fn lead(name: &MemberName, global: &Global, ui: &Ui) -> Result<Exit, CliError> {
    let (name, role) = (name.clone(), leader());
    let (pid, lease, wait, stay, command, keep) = (None, None, false, true, Vec::new(), None);
    run(Args { name, role, pid, lease, wait, stay, command, keep }, global, ui).await
}

/// Registers this process as the leader, unless a member of that name is there already: then nothing is to be done.
pub(crate) async fn take(store: &dyn Store, name: &MemberName) -> Result<Option<SessionId>, CliError> {
    if store.members().await?.iter().any(|member| member.name == *name) {
        return Ok(None);
    }
    let session = SessionId::fresh(&format!("member-{name}"));
    let node = process(Some(std::process::id()))?.of_member(name);
    let member =
        NewMember { name: name.clone(), role: leader(), session: session.clone(), node, lease: None };
    register(store, &member).await?;
    Ok(Some(session))
}

fn leader() -> Role {
    Role::parse("leader").expect("it is a word")
}

/// Registers a leader as soon as there is none.
async fn take_the_lead(store: &dyn Store, member: &NewMember) -> Result<(), CliError> {
    let mut changes = store.subscribe().await?;
    let mut watch = Watch::default();
    loop {
        changes.borrow_and_update();
        watch.look(store).await?;
        match store.register(member, clock::now()).await {
            // Somebody leads; unless it is a task that has the name.
            Err(StoreError::Refused(_)) if store.task(member.name.as_task()).await.is_err() => {}
            Ok(()) => return Ok(()),
            Err(_) => return register(store, member).await,
        }
        tokio::select! {
            more = changes.changed() => if more.is_err() {
                return Err(CliError::new(RefusalKind::CannotWork, "the store stopped telling of changes"));
            },
            () = tokio::time::sleep(LOOK) => {}
        }
    }
}

/// Registers, with the next step where that is refused.
pub(crate) async fn register(store: &dyn Store, member: &NewMember) -> Result<(), CliError> {
    let registered = store.register(member, clock::now()).await;
    registered.map_err(|error| match error {
        StoreError::Conflict(why) => CliError::refused(why).hinted(format!(
            "choose another name, or `regatta crew unregister {}` sends that one away",
            member.name
        )),
        StoreError::Refused(why) => {
            CliError::refused(why).hinted("`regatta crew list` shows who is there, `regatta list` the tasks")
        }
        error => error.into(),
    })
}

async fn tell(store: &dyn Store, name: &MemberName, ui: &Ui) -> Result<Exit, CliError> {
    let members = store.members().await?;
    let member = crate::crew::there(&members, name)?;
    if ui.json {
        let leader = store.holder(LEADER_ROLE).await?.map(|leader| leader.session);
        // One line: with --stay, more objects follow.
        ui.object(&MemberDocument::of(&member, leader.as_ref()));
        return Ok(Exit::Ok);
    }
    let until = match (member.node.is_by_beats(), member.lease) {
        (false, _) => format!("as long as process {} lives", member.node.pid),
        (true, lease) => format!("with a heartbeat every {}s at least", lease.unwrap_or_default().as_secs()),
    };
    ui.line(format!("{} is in the crew ({}), {until}", member.name, member.role));
    Ok(Exit::Ok)
}

fn span(text: &str) -> Result<Duration, CliError> {
    let wrong = |why: &str| {
        CliError::usage(format!("--lease {text:?} {why}")).hinted("for example: --lease 60s, --lease 10m")
    };
    match parse_duration(text) {
        Ok(Some(span)) if span >= Duration::from_secs(1) => Ok(span),
        Ok(_) => Err(wrong("is shorter than a second")),
        Err(why) => Err(wrong(&why.to_string())),
    }
}

/// The process that stands for a member: the one that was named, or whoever ran this command.
pub(crate) fn process(pid: Option<u32>) -> Result<NodeInfo, CliError> {
    let pid = pid.unwrap_or_else(std::os::unix::process::parent_id);
    let identity = Identity::of(pid).ok().filter(Identity::is_alive);
    let Some(identity) = identity else {
        return Err(CliError::not_found(format!("there is no process {pid}")).hinted(
            "name one that stays, --pid $$ in a shell, or let heartbeats stand for it: --lease 60s",
        ));
    };
    Ok(node_of(identity, ""))
}
