//! `regatta merge`: a person's word that pull requests may be merged.

use regatta_core::id::TaskId;
use regatta_core::report::landed_as;
use regatta_core::state::TaskState;
use regatta_core::train::Strategy;
use regatta_ops::Refusal;
use regatta_ops::pulls::{Merge, MergeRequest, Merges};

use super::land::drive;
use crate::cli::Global;
use crate::exit::Exit;
use crate::project::Project;
use crate::queue::{Operator, refuse};
use crate::render::shown::clean_line;
use crate::ui::Ui;

/// Allow pull requests to be merged, and merge those that are ready.
///
/// Your word replaces the review that `land.pr.merge: approved` waits for. It counts for the commit that the pull
/// request has now: after a push it has to be given again. Checks and the rules of the branch still have to be met.
/// Without an ID, all that wait for a review or for your word are meant. It needs no daemon.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The tasks, or the beginnings of their ids.
    #[arg(value_name = "ID")]
    tasks: Vec<String>,
    /// Show what would be allowed, from the last look; ask and change nothing.
    #[arg(long)]
    dry_run: bool,
    /// Only pull requests of this repository: its name in the project, or OWNER/NAME.
    #[arg(long, value_name = "REPO")]
    repo: Option<String>,
    /// How to merge: rebase, squash or merge; `land.strategy` if not given.
    #[arg(long, value_parser = method)]
    method: Option<Strategy>,
    /// Merge these first, one after the other; stop at the first that is not merged.
    #[arg(long, value_name = "ID,ID", value_delimiter = ',')]
    order: Vec<String>,
    /// Leave the merge to a daemon or a run.
    #[arg(long, conflicts_with_all = ["order", "dry_run"])]
    no_wait: bool,
}

fn method(word: &str) -> Result<Strategy, String> {
    Strategy::named(word).ok_or_else(|| "it is rebase, squash or merge".to_owned())
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let project = Project::open(&global.options())?;
    if !args.dry_run {
        crate::trust::require_trust_asking(&project, ui).await?;
    }
    let operator = Operator::open(&project).await?;
    let n_ordered = operator.find(&args.order).await?.len();
    let (dry_run, no_wait, method) = (args.dry_run, args.no_wait, args.method);
    let request = MergeRequest { tasks: args.tasks, order: args.order, repo: args.repo, method };
    let ids = operator.to_merge(&request).await?;
    let mut merges = Merges::default();
    if dry_run {
        for id in &ids {
            let merge = operator.may_merge(id, method).await;
            put(&mut merges, id, merge);
        }
    } else {
        let ids = still_open(&operator, ids, !no_wait, &mut merges, ui).await?;
        let (first, rest) = ids.split_at(n_ordered.min(ids.len()));
        let groups = first.iter().map(std::slice::from_ref).chain([rest]);
        for group in groups.filter(|group| !group.is_empty()) {
            merge_group(&operator, group, (method, !no_wait), &mut merges, ui).await?;
        }
    }
    show(&merges, (dry_run, no_wait), ui);
    let all_in = dry_run || no_wait || merges.merges.iter().all(is_in);
    let n_allowed = merges.merges.len();
    refuse(merges.refused.into_iter().map(|(_, refusal)| refusal).collect(), n_allowed)?;
    Ok(if all_in { Exit::Ok } else { Exit::TaskFailed })
}

fn put(merges: &mut Merges, id: &TaskId, merge: Result<Merge, Refusal>) {
    match merge {
        Ok(merge) => merges.merges.push(merge),
        Err(refusal) => merges.refused.push((id.clone(), refusal)),
    }
}

fn is_in(merge: &Merge) -> bool {
    matches!(merge.task.state, TaskState::Landed { .. })
}

/// Looks at the pull requests first, if wanted: the last look may be old. Returns those that are still open.
async fn still_open(
    operator: &Operator,
    ids: Vec<TaskId>,
    look: bool,
    merges: &mut Merges,
    ui: &Ui,
) -> Result<Vec<TaskId>, Refusal> {
    let mut fit = Vec::new();
    for id in ids {
        match operator.mergeable(&id).await {
            Ok(_) => fit.push(id),
            Err(refusal) => merges.refused.push((id, refusal)),
        }
    }
    if !look || fit.is_empty() {
        return Ok(fit);
    }
    drive(operator, &fit, ui).await?;
    let mut open = Vec::new();
    for id in fit {
        match operator.merged(&id).await? {
            Some(merge) => merges.merges.push(merge),
            None => open.push(id),
        }
    }
    Ok(open)
}

/// Allows the merges of a group and waits for them. Nothing is merged after one that was ordered before and failed.
async fn merge_group(
    operator: &Operator,
    group: &[TaskId],
    (method, wait): (Option<Strategy>, bool),
    merges: &mut Merges,
    ui: &Ui,
) -> Result<(), Refusal> {
    let stopped_at = merges.refused.first().map(|(id, _)| id).or_else(|| {
        merges.merges.iter().find(|merge| wait && !is_in(merge)).map(|merge| &merge.task.spec.id)
    });
    if let Some(other) = stopped_at.cloned() {
        for id in group {
            let refusal = Refusal::refused(format!("{id} comes after {other}, which was not merged"))
                .hinted(format!("`regatta pr show {other}` shows why; `regatta merge {id}` merges it alone"));
            merges.refused.push((id.clone(), refusal));
        }
        return Ok(());
    }
    let mut allowed = Vec::new();
    for id in group {
        match operator.allow_merge(id, method).await {
            Ok(merge) => allowed.push(merge),
            Err(refusal) => merges.refused.push((id.clone(), refusal)),
        }
    }
    if wait && !allowed.is_empty() {
        let ids: Vec<TaskId> = allowed.iter().map(|merge| merge.task.spec.id.clone()).collect();
        drive(operator, &ids, ui).await?;
        for merge in &mut allowed {
            merge.task = operator.store.task(&merge.task.spec.id).await?;
        }
    }
    merges.merges.append(&mut allowed);
    Ok(())
}

fn show(merges: &Merges, (dry_run, no_wait): (bool, bool), ui: &Ui) {
    if ui.json {
        if !merges.merges.is_empty() || merges.refused.is_empty() {
            ui.document(&merges.document(dry_run));
        }
        return;
    }
    for merge in &merges.merges {
        let (id, number, head) = (&merge.task.spec.id, merge.pull.number, merge.head.short());
        let became = match &merge.task.state {
            _ if dry_run => format!("may be merged at {head}"),
            TaskState::Landed { commit, target, .. } => landed_as(target.as_deref(), commit.short()),
            _ if no_wait => format!("is allowed at {head}"),
            TaskState::Landing { waiting: Some(why), .. } => {
                format!("is allowed at {head}, and waits: {}", clean_line(why))
            }
            TaskState::Blocked { detail, .. } => format!("is blocked: {}", clean_line(detail)),
            state => format!("is allowed at {head}; its task is {}", state.name()),
        };
        ui.line(format!("{id} {number} {became}"));
    }
    if merges.merges.is_empty() && merges.refused.is_empty() && !ui.quiet {
        ui.note("no pull request waits for your word");
    }
}
