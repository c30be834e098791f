//! `regatta lane sweep`: removes lanes that are no longer needed.

use regatta_core::state::TaskState;
use regatta_engine::lanes::{LaneInfo, Lanes, Retired};
use regatta_store::{Store, TaskRecord};
use serde_json::json;

use crate::exit::Exit;
use crate::project::Project;
use crate::ui::Ui;
use regatta_ops::Refusal;
use regatta_ops::tasks::retire::{alone, in_the_way, mode, record, retire};

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Show what would be removed and what would stay, with the reason for each, and change nothing.
    #[arg(long)]
    dry_run: bool,
}

/// What happens to one lane, and why.
struct Decision {
    task: String,
    goes: bool,
    why: String,
}

pub(super) async fn run(project: &Project, args: Args, ui: &Ui) -> Result<Exit, Refusal> {
    let (mut decisions, mut leftovers, mut pooled) = (Vec::new(), 0, 0);
    if let Some(lanes) = project.lanes()? {
        let store = match project.has_store() {
            true => Some(project.store().await?),
            false => None,
        };
        let readers = lanes.root().join(".readers");
        for info in lanes.list()?.into_iter().filter(|info| !info.path.starts_with(&readers)) {
            decisions.push(one(&lanes, store.as_deref(), info, args.dry_run).await?);
        }
        leftovers = left_over(&lanes);
        pooled = lanes.pooled().iter().filter(|lane| lane.held_by.is_none()).count();
        if !args.dry_run {
            let lanes = lanes.clone();
            // Unused readers and gates go too, and so does the trash.
            let sweeping = tokio::task::spawn_blocking(move || {
                lanes.sweep(regatta_engine::clock::now())?;
                lanes.trim_pool(0)
            });
            sweeping.await.expect("git work does not panic")?;
        }
    }
    show(&decisions, pooled, leftovers, args.dry_run, ui);
    Ok(Exit::Ok)
}

async fn one(
    lanes: &Lanes,
    store: Option<&dyn Store>,
    info: LaneInfo,
    dry_run: bool,
) -> Result<Decision, Refusal> {
    let id = &info.task;
    let alone = alone(lanes, id).await?;
    let task = match store {
        Some(store) => record(store, id).await?,
        None => None,
    };
    let stays = |why: String| Decision { task: id.to_string(), goes: false, why };
    let Some(task) = task else {
        return Ok(stays(format!("the store has no such task; `regatta lane retire {id}` removes it")));
    };
    if let Some(why) = keeps(&task) {
        return Ok(stays(why));
    }
    let state = task.state.name();
    let goes = |why: String| Decision { task: id.to_string(), goes: true, why };
    if dry_run {
        if let Some(why) = info.broken {
            return Ok(goes(format!("{state}; {why}, so it is repaired first and checked afterwards")));
        }
        if lanes.find(id)?.is_some_and(|lane| lanes.in_use(&lane)) {
            return Ok(stays("a process is running in it".to_owned()));
        }
        return Ok(match lanes.would_stay(id, mode(Some(&task)))? {
            Some(why) => stays(why.to_string()),
            None => goes(format!("{state}, and nothing in it would be lost")),
        });
    }
    Ok(match retire(lanes, id, mode(Some(&task)), &alone).await {
        Ok(Retired::Removed { .. } | Retired::NoLane) => goes(format!("{state}, and nothing in it was lost")),
        Ok(Retired::Kept(why)) => stays(why.to_string()),
        // A lane that cannot be removed does not keep the others.
        Err(error) => stays(error.message),
    })
}

/// Why the task may still need its lane.
fn keeps(task: &TaskRecord) -> Option<String> {
    let id = &task.spec.id;
    match &task.state {
        TaskState::Blocked { .. } => Some(format!("blocked: `regatta retry {id}` would continue in it")),
        TaskState::Parked { .. } => Some("parked: the task will continue in it".to_owned()),
        _ => in_the_way(task),
    }
}

/// Removed lanes that are not deleted yet.
fn left_over(lanes: &Lanes) -> usize {
    std::fs::read_dir(lanes.root().join(".trash")).map_or(0, |entries| entries.count())
}

fn show(decisions: &[Decision], pooled: usize, leftovers: usize, dry_run: bool, ui: &Ui) {
    if ui.json {
        let lanes: Vec<_> = decisions
            .iter()
            .map(|decision| json!({ "task": decision.task, "goes": decision.goes, "why": decision.why }))
            .collect();
        ui.document(&json!({ "dry_run": dry_run, "lanes": lanes, "pooled": pooled, "leftovers": leftovers }));
        return;
    }
    for decision in decisions {
        let word = match (decision.goes, dry_run) {
            (true, true) => "would go",
            (true, false) => "went",
            (false, true) => "would stay",
            (false, false) => "stays",
        };
        ui.line(format!("{}  {word}: {}", decision.task, decision.why));
    }
    if pooled > 0 {
        let word = if dry_run { "would go" } else { "went" };
        ui.line(format!("{pooled} in the pool {word}: they contain no work"));
    }
    if leftovers > 0 {
        let word = if dry_run { "would be deleted" } else { "deleted" };
        ui.line(format!("{leftovers} left over from earlier removals {word}"));
    }
    if decisions.is_empty() && pooled == 0 && leftovers == 0 && !ui.quiet {
        ui.note("no lanes");
    }
}
