//! One file per command: its arguments, whose doc comments are its help, and its action.

pub(crate) mod add;
pub(crate) mod approve;
pub(crate) mod assign;
pub(crate) mod attach;
pub(crate) mod broadcast;
pub(crate) mod cancel;
mod cleanup;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod cost;
pub(crate) mod crew;
pub(crate) mod ctx;
pub(crate) mod daemon;
pub(crate) mod demo;
pub(crate) mod diff;
pub(crate) mod doctor;
pub(crate) mod enqueue;
pub(crate) mod events;
pub(crate) mod health;
mod hub;
mod init;
pub(crate) mod land;
pub(crate) mod lane;
pub(crate) mod list;
pub(crate) mod logs;
pub(crate) mod mcp;
mod merge;
pub(crate) mod msg;
pub(crate) mod new;
pub(crate) mod node;
pub(crate) mod orchestrator;
pub(crate) mod park;
pub(crate) mod plan;
mod pr;
pub(crate) mod profiles;
pub(crate) mod radar;
pub(crate) mod reclaim;
pub(crate) mod reject;
pub(crate) mod repo;
pub(crate) mod report;
pub(crate) mod requeue;
pub(crate) mod retry;
pub(crate) mod run;
pub(crate) mod salvage;
mod sandbox;
pub(crate) mod send;
pub(crate) mod setup;
pub(crate) mod status;
mod store;
pub(crate) mod summary;
pub(crate) mod task;
pub(crate) mod top;
pub(crate) mod trust;
pub(crate) mod unpark;
pub(crate) mod validate;
pub(crate) mod version;
pub(crate) mod wait;
pub(crate) mod worker;

use crate::cli::Global;
use crate::exit::Exit;
use crate::ui::Ui;
use regatta_ops::Refusal;
use worker::ParcelCommand;

/// All commands of `regatta`.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Init(init::Args),
    Daemon(daemon::Args),
    #[command(hide = true)]
    DaemonStatus(daemon::StatusArgs),
    #[command(hide = true)]
    DaemonStop(daemon::StopArgs),
    Demo(demo::Args),
    Doctor(doctor::Args),
    Trust(trust::Args),
    Run(run::Args),
    Plan(plan::Args),
    Approve(approve::Args),
    Reject(reject::Args),
    New(new::Args),
    Validate(validate::Args),
    Enqueue(enqueue::Args),
    Add(add::Args),
    #[command(visible_alias = "ls")]
    List(list::Args),
    Status(status::Args),
    Summary(summary::Args),
    Cost(cost::Args),
    Logs(logs::Args),
    Events(events::Args),
    Diff(diff::Args),
    Radar(radar::Args),
    Profiles(profiles::Args),
    #[command(visible_alias = "leader")]
    Top(top::Args),
    Wait(wait::Args),
    Report(report::Args),
    Send(send::Args),
    Broadcast(broadcast::Args),
    Attach(attach::Args),
    Cancel(cancel::Args),
    Requeue(requeue::Args),
    Retry(retry::Args),
    Park(park::Args),
    Unpark(unpark::Args),
    Reclaim(reclaim::Args),
    Assign(assign::Args),
    #[command(subcommand, visible_alias = "worktree")]
    Lane(lane::LaneCommand),
    Land(land::Args),
    Pr(pr::Args),
    Merge(merge::Args),
    Cleanup(cleanup::Args),
    #[command(subcommand)]
    Hub(hub::HubCommand),
    #[command(subcommand)]
    Store(store::StoreCommand),
    #[command(subcommand)]
    Node(node::NodeCommand),
    #[command(subcommand)]
    Sandbox(sandbox::SandboxCommand),
    #[command(subcommand)]
    Salvage(salvage::SalvageCommand),
    #[command(subcommand)]
    Crew(crew::CrewCommand),
    #[command(subcommand)]
    Task(task::TaskCommand),
    #[command(subcommand)]
    Repo(repo::RepoCommand),
    /// The same as `regatta repo discover`, as in parallel-agents.
    #[command(hide = true)]
    Discover(repo::DiscoverArgs),
    #[command(subcommand)]
    Msg(msg::MsgCommand),
    #[command(subcommand)]
    Ctx(ctx::CtxCommand),
    Mcp(mcp::Args),
    Setup(setup::Args),
    Config(config::Args),
    Completions(completions::Args),
    #[command(hide = true)]
    CompleteIds(completions::IdsArgs),
    Version(version::Args),
    Done(worker::DoneArgs),
    Progress(worker::ProgressArgs),
    Stuck(worker::StuckArgs),
    #[command(subcommand)]
    Parcel(worker::ParcelCommand),
    #[command(skip)]
    Orchestrator(orchestrator::OrchestratorCommand),
}

/// Runs one command.
pub(crate) async fn run(command: Command, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    crate::door::check(&command, global)?;
    crate::authority::check(&command, global)?;
    match command {
        Command::Daemon(args) => daemon::run(args, global, ui).await,
        Command::DaemonStatus(args) => daemon::run(args.into(), global, ui).await,
        Command::DaemonStop(args) => daemon::run(args.into(), global, ui).await,
        Command::Land(args) => land::run(args, global, ui).await,
        Command::Pr(args) => pr::run(args, global, ui).await,
        Command::Merge(args) => merge::run(args, global, ui).await,
        Command::Cleanup(args) => cleanup::run(args, global, ui).await,
        Command::Demo(args) => demo::run(args, global, ui).await,
        Command::Report(args) => report::run(args, global, ui).await,
        Command::Run(args) => run::run(args, global, ui).await,
        Command::Plan(args) => plan::run(args, global, ui).await,
        Command::Approve(args) => approve::run(args, global, ui).await,
        Command::Reject(args) => reject::run(args, global, ui).await,
        Command::Validate(args) => validate::run(args, global, ui).await,
        Command::List(args) => list::run(args, global, ui).await,
        Command::Status(args) => status::run(args, global, ui).await,
        Command::Summary(args) => summary::run(args, global, ui).await,
        Command::Cost(args) => cost::run(args, global, ui).await,
        Command::Logs(args) => logs::run(args, global, ui).await,
        Command::Events(args) => events::run(args, global, ui).await,
        Command::Init(args) => init::run(args, global, ui).await,
        Command::Trust(args) => trust::run(args, global, ui).await,
        Command::Doctor(args) => doctor::run(args, global, ui).await,
        Command::Profiles(args) => profiles::run(args, global, ui).await,
        Command::Radar(args) => radar::run(args, global, ui).await,
        Command::Top(args) => top::run(args, global, ui).await,
        Command::New(args) => new::run(args, global, ui).await,
        Command::Parcel(ParcelCommand::New(args)) => new::parcel(args, global, ui).await,
        Command::Diff(args) => diff::run(args, global, ui).await,
        Command::Enqueue(args) | Command::Parcel(ParcelCommand::Build(args)) => {
            enqueue::run(args, global, ui).await
        }
        Command::Add(args) => add::run(args, global, ui).await,
        Command::Send(args) => send::run(args, global, ui).await,
        Command::Attach(args) => attach::run(args, global, ui).await,
        Command::Broadcast(args) => broadcast::run(args, global, ui).await,
        Command::Wait(args) => wait::run(args, global, ui).await,
        Command::Requeue(args) => requeue::run(args, global, ui).await,
        Command::Retry(args) => retry::run(args, global, ui).await,
        Command::Park(args) => park::run(args, global, ui).await,
        Command::Unpark(args) => unpark::run(args, global, ui).await,
        Command::Reclaim(args) => reclaim::run(args, global, ui).await,
        Command::Assign(args) => assign::run(args, global, ui).await,
        Command::Node(command) => node::run(command, global, ui).await,
        Command::Cancel(args) => cancel::run(args, global, ui).await,
        Command::Lane(command) => lane::run(command, global, ui).await,
        Command::Hub(command) => hub::run(command, global, ui).await,
        Command::Store(command) => store::run(command, global, ui).await,
        Command::Sandbox(command) => sandbox::run(command, global, ui).await,
        Command::Salvage(command) => salvage::run(command, global, ui).await,
        Command::Orchestrator(command) => orchestrator::run(command, global, ui).await,
        Command::Crew(command) => crew::run(command, global, ui).await,
        Command::Task(command) => task::run(command, global, ui).await,
        Command::Repo(command) => repo::run(command, global, ui).await,
        Command::Discover(args) => repo::run(repo::RepoCommand::Discover(args), global, ui).await,
        Command::Msg(command) => msg::run(command, global, ui).await,
        Command::Ctx(command) => ctx::run(command, global, ui).await,
        Command::Mcp(args) => mcp::run(args, global, ui).await,
        Command::Setup(args) => setup::run(args, global, ui).await,
        Command::Config(args) => config::run(args, global, ui).await,
        Command::Completions(args) => completions::run(&args, ui),
        Command::CompleteIds(args) => completions::ids(args, global, ui).await,
        Command::Version(args) => version::run(&args, ui),
        Command::Done(args) | Command::Parcel(ParcelCommand::Done(args)) => worker::done(args, ui).await,
        Command::Progress(args) | Command::Parcel(ParcelCommand::Progress(args)) => {
            worker::progress(args, ui).await
        }
        Command::Stuck(args) => worker::stuck(args, ui).await,
        Command::Parcel(ParcelCommand::Validate(args)) => validate::run(args, global, ui).await,
    }
}
