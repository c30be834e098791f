//! `regatta crew heartbeat`: says that a member is there, and what it does.

use regatta_core::attempt::Attempt;
use regatta_core::state::TaskState;
use regatta_engine::clock;
use regatta_ops::documents::crew::MemberDocument;
use regatta_store::{LEADER_ROLE, Member, RequestId, Step, Store};

use crate::cli::Global;
use crate::commands::task::held::held;
use crate::crew::{As, open, there};
use crate::error::CliError;
use crate::exit::Exit;
use crate::ui::Ui;

/// Say that a member is still there. With --task, also that it works on a task it holds, which is running then.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Who; --as and the shell that registered it do as well.
    #[arg(value_name = "NAME", value_parser = crate::crew::member_name)]
    pub(crate) name: Option<regatta_core::crew::MemberName>,
    #[command(flatten)]
    pub(crate) who: As,
    /// The task it works on now.
    #[arg(long, value_name = "ID")]
    pub(crate) task: Option<String>,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, CliError> {
    let (_, store) = open(global).await?;
    let who = As { name: args.name.or(args.who.name) };
    let member = who.member(store.as_ref()).await?;
    let member = beat(store.as_ref(), &member, args.task.as_deref()).await?;
    if ui.json {
        ui.document(&member);
    } else if !ui.quiet {
        ui.line(format!("{} was heard", member.name));
    }
    Ok(Exit::Ok)
}

/// The member is there; with a task that it holds, that is running.
pub(crate) async fn beat(
    store: &dyn Store,
    member: &Member,
    task: Option<&str>,
) -> Result<MemberDocument, CliError> {
    store.renew(&member.session).await?;
    if let Some(text) = task {
        let (task, claim) = held(store, member, text).await?;
        if matches!(task.state, TaskState::Claimed { .. }) {
            let attempts = store.attempts(&task.spec.id).await?;
            let record = attempts.into_iter().find(|attempt| attempt.n == claim.attempt);
            let mut attempt = record.unwrap_or_else(|| Attempt::new(claim.attempt, &claim.spec.agent));
            attempt.started_at = Some(clock::now());
            let step = Step::Started { attempt, pid: member.node.pid };
            store.advance(&claim, &step, &RequestId::fresh(), clock::now()).await?;
        }
    }
    let member = there(&store.members().await?, &member.name)?;
    let leader = store.holder(LEADER_ROLE).await?.map(|leader| leader.session);
    Ok(MemberDocument::of(&member, leader.as_ref()))
}
