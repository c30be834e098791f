//! `regatta task claim`: takes a task.

use std::sync::Arc;
use std::time::Duration;

use regatta_core::config::parse_duration;
use regatta_core::crew::{Asker, Fit, fit};
use regatta_core::id::TaskId;
use regatta_engine::clock;
use regatta_engine::context::{fresh_token, token_hash};
use regatta_engine::crew::Watch;
use regatta_ops::documents::crew::{BoardTaskDocument, ClaimDocument};
use regatta_store::{BOARD_QUEUE, Claim, ClaimRequest, Member, ReadyKey, RequestId, Store, StoreError};
use tokio::time::Instant;

use super::held::not_held;
use super::lane;
use crate::cli::Global;
use crate::crew::{As, open};
use crate::error::{CliError, RefusalKind};
use crate::exit::Exit;
use crate::project::{Project, find_task};
use crate::ui::Ui;

/// So many tasks are looked at in one go.
const PAGE: usize = 500;
/// Who waits looks for members who have left this often: their tasks are back then.
const LOOK: Duration = Duration::from_secs(1);

/// Take a task from the board: the next one, or the one that is named.
///
/// Which is next: what is assigned to you, then what asks for your role, then what is for anybody; among these higher
/// priority first, then age. What waits for something is not given. Exactly one member gets a task; when that member
/// leaves, or its process ends, the task is back. A task that is named may be anybody's, also one of a daemon's queue
/// that has not started, or a blocked one. Exits with 4 where there is nothing to take.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The task, or the beginning of its id.
    #[arg(value_name = "ID")]
    pub(crate) task: Option<String>,
    #[command(flatten)]
    pub(crate) who: As,
    /// Make a lane for it: a git worktree of its own, whose work is checked and landed when it is completed.
    #[arg(long)]
    pub(crate) lane: bool,
    /// Wait until there is one.
    #[arg(long, conflicts_with = "task")]
    pub(crate) wait: bool,
    /// Wait no longer than this: seconds, or 5m, 1h30m.
    #[arg(long, value_name = "S", requires = "wait")]
    pub(crate) timeout: Option<String>,
}

/// A claim, and the secret of its attempt.
struct Taken {
    claim: Claim,
    token: String,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, CliError> {
    let (project, opened) = open(global).await?;
    let store = opened.as_ref();
    let member = args.who.member(store).await?;
    let claimed = take(&args, &project, &opened, &member).await?;
    let (id, task) = (&claimed.task.task.id, &claimed.task);
    if ui.json {
        ui.document(&claimed);
        return Ok(Exit::Ok);
    }
    ui.line(format!("{id} is yours: {}", crate::render::shown::clean_line(&task.task.title)));
    if task.description != task.task.title {
        ui.line(crate::render::shown::clean(&task.description));
    }
    ui.line(format!("token {}", claimed.token));
    if let Some(lane) = &claimed.lane {
        ui.line(format!("lane {}", lane.display()));
    }
    if !ui.quiet {
        ui.note(format!("when it is done: regatta task complete {id} --result \"…\""));
    }
    Ok(Exit::Ok)
}

/// Takes what was asked for, with its lane if one is wanted.
pub(crate) async fn take(
    args: &Args,
    project: &Project,
    opened: &Arc<dyn Store>,
    member: &Member,
) -> Result<ClaimDocument, CliError> {
    let store = opened.as_ref();
    let taken = match &args.task {
        Some(text) => named(store, member, text).await?,
        None if args.wait => wait(store, member, patience(args.timeout.as_deref())?).await?,
        None => next(store, member).await?.ok_or_else(|| nothing(member))?,
    };
    let (id, attempt) = (&taken.claim.task, taken.claim.attempt);
    let lane = match args.lane {
        true => Some(lane::make(project, opened, member, &taken.claim).await?),
        false => None,
    };
    let task = BoardTaskDocument::of(&store.task(id).await?, &store.members().await?);
    Ok(ClaimDocument { task, attempt, token: taken.token, lane })
}

fn nothing(member: &Member) -> CliError {
    CliError::not_found(format!("there is nothing on the board for {} ({})", member.name, member.role))
        .hinted("`regatta task list` shows the board; --wait waits until there is something")
}

fn patience(text: Option<&str>) -> Result<Option<Duration>, CliError> {
    let Some(text) = text else { return Ok(None) };
    parse_duration(text).map_err(|why| {
        CliError::usage(format!("--timeout {text:?} {why}")).hinted("for example: --timeout 600")
    })
}

/// One request for one task, under a secret of its own.
fn request(task: &TaskId, member: &Member) -> (ClaimRequest, String) {
    let token = fresh_token();
    let request = ClaimRequest {
        task: task.clone(),
        session: member.session.clone(),
        token_hash: token_hash(&token),
        request: RequestId::fresh(),
        limits: None,
    };
    (request, token)
}

fn left(error: StoreError, member: &Member) -> CliError {
    match error {
        StoreError::SessionExpired => CliError::refused(format!("{} has left the crew", member.name))
            .hinted(format!("`regatta crew register {}` comes back", member.name)),
        error => error.into(),
    }
}

/// The task that was named, whoever it is for.
async fn named(store: &dyn Store, member: &Member, text: &str) -> Result<Taken, CliError> {
    let task = find_task(store, text).await?;
    let id = &task.spec.id;
    let (request, token) = request(id, member);
    let claim = store.take_up(&request, clock::now()).await.map_err(|error| left(error, member))?;
    if let Some(claim) = claim {
        return Ok(Taken { claim, token });
    }
    let task = store.task(id).await?;
    if task.session.as_ref() == Some(&member.session) {
        return Err(CliError::refused(format!("{id} is yours already"))
            .hinted(format!("`regatta task complete {id}` when it is done")));
    }
    if !task.waiting_on.is_empty() {
        let on: Vec<&str> = task.waiting_on.iter().map(|id| id.as_str()).collect();
        return Err(CliError::refused(format!("{id} waits for {}", on.join(", "))));
    }
    Err(not_held(store, member, &task).await?)
}

/// The task that suits best of those that nobody took meanwhile.
async fn next(store: &dyn Store, member: &Member) -> Result<Option<Taken>, CliError> {
    for id in suiting(store, member).await? {
        let (request, token) = request(&id, member);
        match store.claim(&request, clock::now()).await {
            Ok(Some(claim)) => return Ok(Some(Taken { claim, token })),
            // Somebody else was faster.
            Ok(None) | Err(StoreError::NotFound(_)) => {}
            Err(error) => return Err(left(error, member)),
        }
    }
    Ok(None)
}

/// What is on the board for a member, the best first.
async fn suiting(store: &dyn Store, member: &Member) -> Result<Vec<TaskId>, CliError> {
    let members = store.members().await?;
    let asker = Asker { name: &member.name, role: &member.role };
    let mut found: Vec<(Fit, std::cmp::Reverse<i32>, u64, TaskId)> = Vec::new();
    let mut after: Option<ReadyKey> = None;
    loop {
        let page = store.ready(BOARD_QUEUE, after.as_ref(), PAGE).await?;
        for ready in &page {
            let has_left = |name: &_| members.iter().any(|one| one.name.is(name) && !one.is_there);
            if let Some(fit) = fit(&ready.spec.wanted, asker, has_left) {
                let key = &ready.key;
                found.push((fit, std::cmp::Reverse(key.priority), key.seq, ready.spec.id.clone()));
            }
        }
        match page.last() {
            Some(last) if page.len() == PAGE => after = Some(last.key.clone()),
            _ => break,
        }
    }
    found.sort();
    Ok(found.into_iter().map(|(.., id)| id).collect())
}

async fn wait(store: &dyn Store, member: &Member, patience: Option<Duration>) -> Result<Taken, CliError> {
    let deadline = patience.map(|patience| Instant::now() + patience);
    let mut changes = store.subscribe().await?;
    let mut watch = Watch::default();
    loop {
        changes.borrow_and_update();
        watch.look(store).await?;
        // Nobody waits for somebody who has left, also where there is nothing to claim.
        let is_there = |other: &Member| other.is_there && other.session == member.session;
        if !store.members().await?.iter().any(is_there) {
            return Err(left(StoreError::SessionExpired, member));
        }
        if let Some(taken) = next(store, member).await? {
            return Ok(taken);
        }
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return Err(CliError::new(RefusalKind::TimedOut, nothing(member).message));
        }
        tokio::select! {
            more = changes.changed() => if more.is_err() {
                return Err(CliError::new(RefusalKind::CannotWork, "the store stopped telling of changes"));
            },
            () = tokio::time::sleep(left.unwrap_or(LOOK).min(LOOK)) => {}
        }
    }
}
