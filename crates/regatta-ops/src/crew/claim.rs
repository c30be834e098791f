//! Takes tasks from the board.

use std::path::PathBuf;
use std::time::Duration;

use regatta_core::crew::{Asker, Fit, fit};
use regatta_core::id::TaskId;
use regatta_engine::clock;
use regatta_engine::crew::MemberWatch;
use regatta_engine::tokens::{fresh_token, token_hash};
use regatta_store::{self as store, BOARD_QUEUE, Claim, Member, ReadyKey, RequestId, Store, StoreError};
use tokio::time::Instant;

use super::held::not_held;
use super::{Crew, Speaker, lane};
use crate::changes::StoreChanges;
use crate::documents::crew::ClaimDocument;
use crate::project::find_task;
use crate::refusal::{Refusal, RefusalKind};

/// How many tasks are read at once.
const PAGE: usize = 500;
/// How often a waiting member checks for members who have left, because their tasks become free.
const MEMBERS_INTERVAL: Duration = Duration::from_secs(1);

/// Which task to take.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Pick {
    /// The next one for the member; refused if there is none.
    #[default]
    Next,
    /// The next one, waiting for it at most this long.
    Wait(Option<Duration>),
    /// This one, by its id or the beginning of it, even if it is meant for another member.
    Named(String),
}

/// A request to take a task from the board.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimRequest {
    /// The member that takes it.
    pub who: Speaker,
    /// Which task.
    pub pick: Pick,
    /// Make a lane, whose work is checked and landed when the task is completed.
    pub lane: bool,
}

/// A claim, and the secret of its attempt.
struct Taken {
    claim: Claim,
    token: String,
}

impl Crew {
    /// Takes a task, with a lane if requested. Exactly one member gets a task.
    pub async fn claim(&self, request: &ClaimRequest) -> Result<ClaimDocument, Refusal> {
        let store = self.store();
        let member = request.who.member(store).await?;
        let taken = match &request.pick {
            Pick::Named(text) => named(store, &member, text).await?,
            Pick::Wait(patience) => wait(store, &member, *patience).await?,
            Pick::Next => next(store, &member).await?.ok_or_else(|| nothing(&member))?,
        };
        let (id, attempt) = (&taken.claim.task, taken.claim.attempt);
        let lane: Option<PathBuf> = if request.lane {
            Some(lane::make(&self.project, &self.store, &member, &taken.claim).await?)
        } else {
            None
        };
        Ok(ClaimDocument { task: self.task(id).await?, attempt, token: taken.token, lane })
    }
}

fn nothing(member: &Member) -> Refusal {
    Refusal::not_found(format!("there is nothing on the board for {} ({})", member.name, member.role))
        .hinted("`regatta task list` shows the board; --wait waits until there is something")
}

/// A claim request for one task, with a new secret.
fn request(task: &TaskId, member: &Member) -> (store::ClaimRequest, String) {
    let token = fresh_token();
    let request = store::ClaimRequest {
        task: task.clone(),
        session: member.session.clone(),
        token_hash: token_hash(&token),
        request: RequestId::fresh(),
        limits: None,
    };
    (request, token)
}

fn left(error: StoreError, member: &Member) -> Refusal {
    match error {
        StoreError::SessionExpired => Refusal::refused(format!("{} has left the crew", member.name))
            .hinted(format!("`regatta crew register {}` rejoins", member.name)),
        error => error.into(),
    }
}

/// Takes the named task, even if it is meant for another member.
async fn named(store: &dyn Store, member: &Member, text: &str) -> Result<Taken, Refusal> {
    let task = find_task(store, text).await?;
    let id = &task.spec.id;
    let (request, token) = request(id, member);
    let claim = store.take_up(&request, clock::now()).await.map_err(|error| left(error, member))?;
    if let Some(claim) = claim {
        return Ok(Taken { claim, token });
    }
    let task = store.task(id).await?;
    if task.session.as_ref() == Some(&member.session) {
        return Err(Refusal::refused(format!("you already hold {id}"))
            .hinted(format!("`regatta task complete {id}` when it is done")));
    }
    if !task.waiting_on.is_empty() {
        let on: Vec<&str> = task.waiting_on.iter().map(|id| id.as_str()).collect();
        return Err(Refusal::refused(format!("{id} waits for {}", on.join(", "))));
    }
    Err(not_held(store, member, &task).await?)
}

/// Takes the most suitable task that no other member took meanwhile.
async fn next(store: &dyn Store, member: &Member) -> Result<Option<Taken>, Refusal> {
    for id in suiting(store, member).await? {
        let (request, token) = request(&id, member);
        match store.claim(&request, clock::now()).await {
            Ok(Some(claim)) => return Ok(Some(Taken { claim, token })),
            // Another member was faster.
            Ok(None) | Err(StoreError::NotFound(_)) => {}
            Err(error) => return Err(left(error, member)),
        }
    }
    Ok(None)
}

/// The tasks on the board for a member, most suitable first.
async fn suiting(store: &dyn Store, member: &Member) -> Result<Vec<TaskId>, Refusal> {
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

async fn wait(store: &dyn Store, member: &Member, patience: Option<Duration>) -> Result<Taken, Refusal> {
    let deadline = patience.map(|patience| Instant::now() + patience);
    let mut changes = StoreChanges::of(store).await?;
    let mut watch = MemberWatch::default();
    loop {
        watch.look(store).await?;
        // A member who has left stops waiting, even if there is nothing to claim.
        let is_there = |other: &Member| other.is_there && other.session == member.session;
        if !store.members().await?.iter().any(is_there) {
            return Err(left(StoreError::SessionExpired, member));
        }
        if let Some(taken) = next(store, member).await? {
            return Ok(taken);
        }
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return Err(Refusal::new(RefusalKind::TimedOut, nothing(member).message));
        }
        changes.next_within(left.unwrap_or(MEMBERS_INTERVAL).min(MEMBERS_INTERVAL)).await?;
    }
}
