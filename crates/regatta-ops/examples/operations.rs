//! What a program can do with Regatta by linking it, without starting `regatta`: requests and results are values, and so
//! is a refusal with its next steps.
//!
//! `cargo run -p regatta-ops --example operations -- REPOSITORY`
#![allow(dead_code, reason = "the tests also use what needs an agent")]

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use regatta_core::crew::{MemberName, Role};
use regatta_core::id::TaskId;
use regatta_core::verdict::Verdict;
use regatta_engine::git::DiffStyle;
use regatta_ops::crew::{
    ClaimRequest, CompleteRequest, Held, InboxRequest, Pick, PostRequest, PushRequest, RegisterRequest,
    SetContextRequest, Speaker, Stands,
};
use regatta_ops::diff::DiffRequest;
use regatta_ops::documents::WatchDocument;
use regatta_ops::lanes::{RetireRequest, SweepRequest};
use regatta_ops::plans::{ApproveRequest, Approved, PlanRequest, RejectRequest, Then};
use regatta_ops::reclaim::ReclaimRequest;
use regatta_ops::salvage::SalvageRequest;
use regatta_ops::tasks::{AddRequest, CancelRequest, Changes, EnqueueRequest, FOREVER, ParkRequest, Source};
use regatta_ops::wait::WaitRequest;
use regatta_ops::{Crew, Operator, Project, ProjectOptions, Refusal, Selection};
use regatta_store::{MessageKind, Recipients};

#[tokio::main]
async fn main() -> Result<(), String> {
    let project = std::env::args_os().nth(1).map(PathBuf::from);
    let options = ProjectOptions { project, ..ProjectOptions::default() };
    let told = async {
        let project = Project::open(&options)?;
        let mut told = tasks(&project).await?;
        told.extend(crew(&project).await?);
        Ok(told)
    };
    let told = told.await.map_err(|refusal: Refusal| format!("{} ({})", refusal.message, refusal.hint()))?;
    std::io::stdout().write_all((told.join("\n") + "\n").as_bytes()).map_err(|error| error.to_string())
}

/// Work for agents: two tasks come into the daemon's queue, and things are done to one of them.
pub(crate) async fn tasks(project: &Project) -> Result<Vec<String>, Refusal> {
    let plan = "---\nid: docs\ntitle: Describe the API\n---\nWrite docs/api.md.\n";
    let enqueued = project.enqueue(&EnqueueRequest::new(Source::Text(plan.to_owned()))).await?;
    let request = AddRequest {
        prompt: "Try the examples of docs/api.md.".to_owned(),
        deps: Some(vec!["docs".to_owned()]),
        ..AddRequest::default()
    };
    let added = project.add(&request).await?;
    let mut told = Vec::new();
    for document in [enqueued.document().await?, added.document().await?] {
        for task in document.tasks.iter().map(|changed| &changed.task) {
            let behind = task.waiting_on.iter().map(|id| format!(", behind {id}")).collect::<String>();
            told.push(format!("{} is {}{behind}", task.id, task.state));
        }
    }
    let operator = Operator::open(project).await?;
    let docs = Selection::Named(vec!["docs".to_owned()]);
    let park = ParkRequest { tasks: docs.clone(), until: FOREVER, why: Some("not now".to_owned()) };
    tell(&mut told, &operator.park(&park).await?);
    tell(&mut told, &operator.unpark(&docs).await?);
    // It waits for nothing any more, so this is refused.
    tell(&mut told, &operator.unpark(&docs).await?);
    tell(&mut told, &operator.cancel(&CancelRequest { tasks: docs.clone(), wait: false }).await?);
    tell(&mut told, &operator.requeue(&docs).await?);
    Ok(told)
}

/// A goal, and what becomes of its proposal: `propose` stands for the planner's agent, which a daemon would start.
pub(crate) async fn proposals<F>(
    project: &Project,
    propose: impl Fn(TaskId) -> F,
) -> Result<Vec<String>, Refusal>
where
    F: Future<Output = ()>,
{
    let mut told = Vec::new();
    let goal = "Describe the API".to_owned();
    let request = PlanRequest { goal, agent: Some("sim".to_owned()), ..PlanRequest::default() };
    let planning = project.plan(&request).await?;
    planning.enqueue().await?;
    propose(planning.spec.id.clone()).await;
    planning.ended().await?;
    let document = planning.proposal().await?.document;
    told.push(format!("{} is {}: {} tasks", document.id, document.state, document.tasks.len()));

    let (plan, then) = (document.id.to_string(), Then::Enqueue);
    for _ in 0..2 {
        match project.approve(&ApproveRequest { plan: plan.clone(), then }).await? {
            Approved::Enqueued(enqueued) => {
                for task in enqueued.stored().await? {
                    told.push(format!("{} is {}", task.id, task.state.name()));
                }
            }
            Approved::Before { .. } => told.push(format!("{plan} was approved before")),
            Approved::ToRun(file) => told.push(format!("{} is to be run", file.display())),
        }
    }
    let reject = RejectRequest { plan, why: None };
    if let Err(refusal) = project.reject(&reject).await {
        told.push(format!("{} ({})", refusal.message, refusal.hint()));
    }
    for document in project.proposals().await? {
        told.push(format!("{} is {}", document.id, document.state));
    }
    Ok(told)
}

/// What a task changed, the end of it, its lane, and what was saved from it.
pub(crate) async fn work(project: &Project, task: &TaskId) -> Result<Vec<String>, Refusal> {
    let mut told = Vec::new();
    let names =
        DiffRequest { style: DiffStyle::Names, document: true, ..DiffRequest::patch(task.to_string()) };
    let diff = project.diff(&names).await?;
    told.push(format!("{task} changed {}", diff.files.join(", ")));

    let operator = Operator::open(project).await?;
    let heard: Arc<Mutex<Vec<String>>> = Arc::default();
    let ear = heard.clone();
    let listener = Arc::new(move |document: WatchDocument| {
        let text = serde_json::to_string(&document).expect("our own values serialise");
        ear.lock().expect("no listener panics").push(text);
    });
    let waited = operator.wait(&WaitRequest::new(Selection::one(task)), listener).await?;
    told.append(&mut heard.lock().expect("no listener panics"));
    told.push(format!("every task is done or landed: {}", waited.is_good()));

    for dry_run in [true, false] {
        for lane in project.sweep(&SweepRequest { dry_run }).await?.lanes {
            let goes = if lane.goes { "goes" } else { "stays" };
            told.push(format!("the lane of {} {goes}: {}", lane.task, lane.why));
        }
    }
    let retired = project.retire(&RetireRequest { task: task.to_string(), force_salvage: true }).await?;
    told.extend(retired.salvaged.map(|name| format!("its lane is gone, and its work is in {name}")));
    let restored = project.restore(&SalvageRequest { task: task.to_string(), number: None }).await?;
    told.push(format!("it is on branch {} now", restored.branch));
    let gone = project.reclaim(&ReclaimRequest::default()).await?;
    told.push(format!("{} processes are gone", gone.reclaimed.len() + gone.left.len()));
    Ok(told)
}

fn tell(told: &mut Vec<String>, changes: &Changes) {
    told.extend(changes.changed.iter().map(|changed| changed.sentence()));
    for (id, refusal) in &changes.refused {
        told.push(format!("{id} stays as it is: {}", refusal.message));
        told.extend(refusal.next.iter().map(|step| format!("  next: {step}")));
    }
}

/// People and programs who work together: one pushes a task, the other takes it and hands it in.
pub(crate) async fn crew(project: &Project) -> Result<Vec<String>, Refusal> {
    let crew = Crew::open(project).await?;
    let mut told = Vec::new();
    for (name, role) in [("ada", "leader"), ("bob", "developer")] {
        let stands = Stands::Here;
        let request = RegisterRequest { name: member(name), role: duty(role), stands, wait: false };
        let member = crew.document(&crew.register(&request).await?).await?;
        told.push(format!("{} is in the crew as {}, and is {}", member.name, member.role, member.status));
    }
    let (ada, bob) = (Speaker { name: Some(member("ada")) }, Speaker { name: Some(member("bob")) });

    let request = PushRequest {
        title: "Ask the users".to_owned(),
        role: Some(duty("developer")),
        ..PushRequest::default()
    };
    let pushed = crew.push(&request).await?;
    told.push(format!("{} is {} on the board: {}", pushed.task.id, pushed.task.state, pushed.task.title));
    let claimed = crew.claim(&ClaimRequest { who: bob.clone(), pick: Pick::Next, lane: false }).await?.task;
    let holder = claimed.holder.map_or_else(|| "nobody".to_owned(), |name| name.to_string());
    told.push(format!("{} is {}, held by {holder}", claimed.task.id, claimed.task.state));
    let held = Held { task: claimed.task.id.to_string(), who: bob.clone(), token: None };
    let result = "three of four want it".to_owned();
    let done = crew.complete(&CompleteRequest { held, result, verdict: Verdict::Pass, tell: None }).await?;
    told.push(format!("{} is {}", done.task.id, done.task.state));

    let (to, kind) = (Recipients::One(member("ada")), MessageKind::Direct);
    let text = "they want it".to_owned();
    crew.post(PostRequest { from: bob, to, kind, text, reply_to: None }).await?;
    let letters = crew.inbox(&InboxRequest::new(member("ada"))).await?;
    for message in letters.shown().await? {
        told.push(format!("{} wrote to {}: {}", message.from, message.to, message.text));
    }
    let (key, value) = ("users/want-it".to_owned(), "yes".to_owned());
    let known = crew.set_context(&SetContextRequest { who: ada, key, value, ..Default::default() }).await?;
    let value = known.value.unwrap_or_default();
    told.push(format!("{} is {value}, version {}, by {}", known.key, known.version, known.by));
    Ok(told)
}

fn member(name: &str) -> MemberName {
    MemberName::parse(name).expect("it is a name")
}

fn duty(word: &str) -> Role {
    Role::parse(word).expect("it is a role")
}
