//! `regatta crew list`: the members, and what each is doing.

use regatta_engine::clock;
use regatta_ops::documents::crew::MemberDocument;
pub(crate) use regatta_ops::documents::crew::crew;
use regatta_ops::door::Tool;

use crate::cli::Global;
use crate::crew::open;
use crate::door;
use crate::exit::Exit;
use crate::render::shown::ago;
use crate::render::text::table;
use crate::ui::Ui;
use regatta_ops::Refusal;

/// List members and running agents: their roles, and what each is doing.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Args {
    /// Include members who have left.
    #[arg(long)]
    all: bool,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let mut crew: Vec<MemberDocument> = match door::here() {
        Some(door) => door.ask(Tool::ListInstances)?,
        None => crew(open(global).await?.store.as_ref()).await?,
    };
    crew.retain(|member| args.all || member.status != "gone");
    if ui.json {
        ui.document(&crew);
        return Ok(Exit::Ok);
    }
    if crew.is_empty() {
        if !ui.quiet {
            ui.note("the crew is empty; `regatta crew register NAME --role ROLE` joins it");
        }
        return Ok(Exit::Ok);
    }
    let now = clock::now();
    let rows: Vec<[String; 6]> = crew.iter().map(|member| row(member, now)).collect();
    ui.out(&table(&["NAME", "ROLE", "STATUS", "TASK", "SINCE", "BY"], &rows));
    Ok(Exit::Ok)
}

fn row(member: &MemberDocument, now: regatta_core::time::Timestamp) -> [String; 6] {
    let tasks: Vec<&str> = member.tasks.iter().map(|task| task.as_str()).collect();
    let by = match (member.pid, member.lease_s) {
        (Some(pid), _) => format!("process {pid}"),
        (None, Some(lease)) => format!("heartbeats, {lease}s"),
        (None, None) => member.by.to_owned(),
    };
    [
        format!("{}{}", member.name, if member.leader { " *" } else { "" }),
        member.role.to_string(),
        member.status.to_owned(),
        if tasks.is_empty() { "-".to_owned() } else { tasks.join(", ") },
        ago(member.since, now),
        by,
    ]
}
