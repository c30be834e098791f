//! Follow-ups to a task's agent.

use regatta_core::attempt::Attempt;
use regatta_core::event::EventBody;
use regatta_core::failure::FailureClass;
use regatta_core::oid::Oid;
use regatta_core::prompt::{MAX_PROMPT, PromptState};
use regatta_core::state::{BlockReason, ParkReason, TaskState};
use regatta_core::train::{Intent, LandStep};

use super::Fixture;
use super::node::{Node, QUEUE, at, id, landing, record, task};
use crate::{Claim, IfPresent, NewPrompt, Operation, Outcome, RequestId, Result, Sent, Step, StoreError};

/// A follow-up.
pub fn prompt(text: &str) -> NewPrompt {
    NewPrompt { text: text.into(), beginning: text.into(), by: "me".into(), queue: None, urgent: false }
}

impl Node {
    /// Sends a follow-up to a task's agent.
    pub async fn send(&self, name: &str, text: &str) -> Result<Sent> {
        self.store.send(&id(name), &prompt(text), &RequestId::fresh(), at(4)).await
    }

    /// Settles an attempt whose agent has started.
    pub async fn settle_started(&self, claim: &Claim, outcome: Outcome) {
        let attempt = Attempt { started_at: Some(at(2)), ..record(claim) };
        self.step(claim, Step::Settled { attempt, outcome }).await.expect("the holder settles");
    }

    /// `text state attempt` of each prompt of a task.
    pub async fn prompts(&self, name: &str) -> Vec<String> {
        let prompts = self.store.prompts(&id(name)).await.expect("the task is there");
        let attempt = |attempt: Option<u32>| attempt.map_or_else(|| "-".to_owned(), |n| n.to_string());
        prompts
            .iter()
            .enumerate()
            .map(|(place, prompt)| {
                assert_eq!(prompt.n as usize, place + 1);
                format!("{} {} {}", prompt.text, prompt.state.as_str(), attempt(prompt.attempt))
            })
            .collect()
    }

    /// Lands a task that is in the train, as its only car.
    pub async fn land(&self, name: &str, commit: &str) {
        let lander = self.store.elect("train:main", &self.session).await.unwrap().expect("nobody lands");
        for step in [
            LandStep::Intend { intent: Intent { onto: None, at: at(1) } },
            LandStep::Gate { candidate: Oid::sample(commit), note: String::new() },
            LandStep::Landed { commit: Oid::sample(commit) },
        ] {
            self.store.land(&lander, &id(name), &step, at(6)).await.expect("a car lands");
        }
        self.store.resign(&lander).await.expect("a role can be given back");
    }
}

fn told(claim: &Claim) -> Option<&str> {
    claim.prompt.as_ref().map(|prompt| prompt.text.as_str())
}

pub async fn an_urgent_prompt_interrupts_its_task_and_is_taken_first(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    node.add(&[task("t")]).await;
    node.send("t", "x").await.unwrap();
    let claim = node.claim("t").await;
    assert_eq!(told(&claim), Some("x"));
    node.send("t", "y").await.unwrap();
    let urgent = NewPrompt { urgent: true, ..prompt("now") };
    let request = RequestId::fresh();
    let sent = node.store.send(&id("t"), &urgent, &request, at(4)).await.unwrap();
    assert_eq!(sent, Sent { prompt: 3, position: 1, rearmed: false });
    assert_eq!(node.store.send(&id("t"), &urgent, &request, at(5)).await.unwrap(), sent, "a repeat");
    let asked = node.store.task(&id("t")).await.unwrap().interrupt_asked;
    assert_eq!(asked.as_deref(), Some("me"));
    // The agent had received `x` before it was interrupted, so it does not get it twice.
    node.settle_started(&claim, Outcome::Release { why: "interrupted".into() }).await;
    assert_eq!(node.prompts("t").await, ["x told 1", "y queued -", "now queued -"]);
    let record = node.store.task(&id("t")).await.unwrap();
    assert_eq!((record.state.name(), record.interrupt_asked), ("pending", None));
    let claim = node.claim("t").await;
    assert_eq!(told(&claim), Some("now"));
    // Without an interruption, a released prompt is taken again, still before the others.
    node.settle_started(&claim, Outcome::Release { why: "drained".into() }).await;
    let claim = node.claim("t").await;
    assert_eq!(told(&claim), Some("now"));
    node.settle_started(&claim, Outcome::Done { head: None }).await;
    assert_eq!(told(&node.claim("t").await), Some("y"));
}

pub async fn conversations_that_were_ended_are_marked_on_every_attempt(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    node.add(&[task("t")]).await;
    let claim = node.claim("t").await;
    let end = |request| {
        let node = &node;
        async move { node.store.operate(&id("t"), &Operation::EndConversations, &request, at(4)).await }
    };
    assert!(matches!(end(RequestId::fresh()).await, Err(StoreError::Refused(_))), "its holder's to change");
    node.settle_started(&claim, Outcome::Fail { why: "x".into() }).await;
    end(RequestId::fresh()).await.unwrap();
    let over: Vec<bool> = node
        .store
        .attempts(&id("t"))
        .await
        .unwrap()
        .iter()
        .map(|attempt| attempt.conversation_over)
        .collect();
    assert_eq!(over, [true]);
}

pub async fn what_is_said_is_kept_in_order_and_taken_one_per_claim(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    node.add(&[task("t")]).await;
    assert_eq!(node.send("t", "x").await.unwrap(), Sent { prompt: 1, position: 1, rearmed: false });
    assert_eq!(node.send("T", "y").await.unwrap(), Sent { prompt: 2, position: 2, rearmed: false });
    assert_eq!(node.prompts("t").await, ["x queued -", "y queued -"]);
    let claim = node.claim("t").await;
    assert_eq!((told(&claim), claim.standing.as_ref()), (Some("x"), None));
    assert_eq!(node.store.attempts(&id("t")).await.unwrap()[0].prompt, Some(1));
    assert_eq!(node.store.claims_of(&node.session).await.unwrap(), std::slice::from_ref(&claim));
    assert_eq!(node.send("t", "z").await.unwrap(), Sent { prompt: 3, position: 2, rearmed: false });
    assert_eq!(node.prompts("t").await, ["x taken 1", "y queued -", "z queued -"]);
    node.settle_started(&claim, Outcome::Done { head: None }).await;
    let said = node.happened("t", |event| matches!(event, EventBody::PromptQueued { .. })).await;
    assert_eq!(said, 3);
    for (text, state) in [("y", "pending"), ("z", "done")] {
        let claim = node.claim("t").await;
        assert_eq!(told(&claim), Some(text));
        node.settle_started(&claim, Outcome::Done { head: None }).await;
        assert_eq!(node.state("t").await.name(), state);
    }
    assert_eq!(node.prompts("t").await, ["x told 1", "y told 2", "z told 3"]);
}

pub async fn the_same_request_says_it_once_and_gets_the_same_answer(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    node.add(&[task("t")]).await;
    node.finish("t").await;
    let request = RequestId::fresh();
    let send = || async { node.store.send(&id("t"), &prompt("x"), &request, at(4)).await };
    let sent = send().await.unwrap();
    assert_eq!(sent, Sent { prompt: 1, position: 1, rearmed: true });
    assert_eq!(send().await.unwrap(), sent);
    let claim = node.claim("t").await;
    assert_eq!(send().await.unwrap(), sent);
    node.settle_started(&claim, Outcome::Done { head: None }).await;
    assert_eq!(send().await.unwrap(), sent);
    assert_eq!((node.state("t").await.name(), node.prompts("t").await), ("done", vec!["x told 2".into()]));
    assert_eq!(node.happened("t", |event| matches!(event, EventBody::PromptQueued { .. })).await, 1);
}

pub async fn what_cannot_be_told_is_refused_and_changes_nothing(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    node.add(&[task("gone"), task("child").after(&["gone"]), task("open"), task("old").after(&["open"])])
        .await;
    node.finish("open").await;
    node.fail("old").await;
    node.operate("gone", Operation::Cancel { by: "me".into() }).await.unwrap();
    node.operate("open", Operation::Requeue { by: "me".into() }).await.unwrap();
    node.operate("open", Operation::Cancel { by: "me".into() }).await.unwrap();
    let before = node.store.last_seq().await.unwrap();
    // Cancelled, skipped, and failed with a dead dependency.
    for name in ["gone", "child", "old"] {
        let refused = node.send(name, "x").await;
        assert!(matches!(refused, Err(StoreError::Refused(_))), "{name}: {refused:?}");
        assert!(node.prompts(name).await.is_empty());
    }
    for text in ["", " \n", &"x".repeat(MAX_PROMPT + 1)] {
        let refused = node.send("open", text).await;
        assert!(matches!(refused, Err(StoreError::Invalid(_))), "{refused:?}");
    }
    assert!(matches!(node.send("nobody", "x").await, Err(StoreError::NotFound(_))));
    assert!(matches!(node.store.prompts(&id("nobody")).await, Err(StoreError::NotFound(_))));
    assert_eq!(node.store.last_seq().await.unwrap(), before);
    node.add(&[task("t")]).await;
    let odd = "é \u{0} '\"\n".repeat(MAX_PROMPT / 8);
    node.send("t", &odd).await.unwrap();
    assert_eq!(node.store.prompts(&id("t")).await.unwrap()[0].text, odd);
}

pub async fn a_task_that_has_ended_starts_again_uncharged(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    let outcomes = [
        ("done", Outcome::Done { head: Some(Oid::sample("h")) }),
        ("failed", Outcome::Fail { why: "no".into() }),
        ("blocked", Outcome::Block { reason: BlockReason::Policy, detail: "key".into() }),
    ];
    for (name, outcome) in outcomes {
        node.add(&[task(name).queued("run-1")]).await;
        let claim = node.claim(name).await;
        let attempt = Attempt { charged: true, started_at: Some(at(2)), ..record(&claim) };
        node.step(&claim, Step::Settled { attempt, outcome }).await.unwrap();
        assert_eq!(node.state(name).await.name(), name);
        let elsewhere = NewPrompt { queue: Some(QUEUE.into()), ..prompt("x") };
        let sent = node.store.send(&id(name), &elsewhere, &RequestId::fresh(), at(4)).await.unwrap();
        assert!(sent.rearmed, "{name}");
        let record = node.store.task(&id(name)).await.unwrap();
        assert_eq!(
            (record.state, record.charged, &*record.queue),
            (TaskState::pending(), 0, QUEUE),
            "{name}"
        );
        assert_eq!(record.standing.is_some(), name == "done", "{name}");
        let claim = node.claim(name).await;
        assert_eq!((told(&claim), claim.charged, &claim.standing), (Some("x"), 0, &record.standing));
    }
    // A task that has not ended stays in its queue.
    node.add(&[task("waiting").queued("run-1")]).await;
    let elsewhere = NewPrompt { queue: Some(QUEUE.into()), ..prompt("x") };
    let sent = node.store.send(&id("waiting"), &elsewhere, &RequestId::fresh(), at(4)).await.unwrap();
    assert!(!sent.rearmed);
    assert_eq!(node.store.task(&id("waiting")).await.unwrap().queue, "run-1");
}

pub async fn what_was_not_told_to_its_end_is_the_next_to_be_told(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    node.add(&[task("t")]).await;
    let class = FailureClass::Work;
    let why = || "w".to_owned();
    node.send("t", "x").await.unwrap();
    node.send("t", "y").await.unwrap();
    let undone = [
        Outcome::Release { why: why() },
        Outcome::Retry { not_before: None, class, why: why() },
        Outcome::Park { until: at(9), why: ParkReason::RateLimited, detail: why() },
        Outcome::Block { reason: BlockReason::Policy, detail: why() },
        Outcome::Block { reason: BlockReason::Budget, detail: why() },
        Outcome::Cancel { by: "me".into() },
    ];
    for outcome in undone {
        let claim = node.claim("t").await;
        assert_eq!(told(&claim), Some("x"), "before {outcome:?}");
        node.settle_started(&claim, outcome.clone()).await;
        let taken = format!("x queued {}", claim.attempt);
        assert_eq!(node.prompts("t").await, [taken.as_str(), "y queued -"], "after {outcome:?}");
        match node.state("t").await.name() {
            "pending" => {}
            "parked" => node.operate("t", Operation::Due).await.unwrap(),
            _ => node.operate("t", Operation::Requeue { by: "me".into() }).await.unwrap(),
        }
    }
    // An agent that never started has received nothing: it has not answered, and the next attempt does not build on it.
    let claim = node.claim("t").await;
    node.settle(&claim, Outcome::Fail { why: why() }).await.unwrap();
    assert_eq!(node.state("t").await.name(), "failed");
    assert_eq!(node.prompts("t").await, ["x queued 7", "y queued -"]);
}

pub async fn a_session_that_ends_gives_back_what_it_had_taken(fixture: &dyn Fixture) {
    let (a, b) = (Node::join(fixture, "a").await, Node::join(fixture, "b").await);
    a.add(&[task("t")]).await;
    a.send("t", "x").await.unwrap();
    a.send("t", "y").await.unwrap();
    let claim = a.claim("t").await;
    a.start(&claim).await;
    // An heir takes over the attempt together with its prompt.
    b.expire(&a, Some(&b.session)).await;
    let held = b.store.claims_of(&b.session).await.unwrap();
    assert_eq!(held.iter().map(told).collect::<Vec<_>>(), [Some("x")]);
    assert_eq!(b.prompts("t").await, ["x taken 1", "y queued -"]);
    b.store.close_session(&b.session, at(7)).await.unwrap();
    let c = Node::join(fixture, "c").await;
    assert_eq!(c.prompts("t").await, ["x queued 1", "y queued -"]);
    assert_eq!(told(&c.claim("t").await), Some("x"));
}

pub async fn no_end_is_the_end_while_something_waits_to_be_told(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    let block = |reason| Outcome::Block { reason, detail: "?".into() };
    let ends = [
        Outcome::Approve(landing("h")),
        Outcome::Done { head: Some(Oid::sample("h")) },
        Outcome::Fail { why: "no".into() },
        block(BlockReason::Verdict),
        block(BlockReason::NeedsInput),
    ];
    for (n, outcome) in ends.into_iter().enumerate() {
        let name = format!("t{n}");
        node.add(&[task(&name), task(&format!("child{n}")).after(&[&name])]).await;
        let claim = node.claim(&name).await;
        node.send(&name, "x").await.unwrap();
        let attempt = Attempt { charged: true, started_at: Some(at(2)), ..record(&claim) };
        node.step(&claim, Step::Settled { attempt, outcome: outcome.clone() }).await.unwrap();
        let record = node.store.task(&id(&name)).await.unwrap();
        assert_eq!((record.state, record.charged), (TaskState::pending(), 0), "{outcome:?}");
        assert!(node.store.cars("main").await.unwrap().is_empty(), "nothing lands without what was said");
        assert!(!node.ready().await.contains(&format!("child{n}")), "nothing is met yet");
        assert_eq!(node.state(&format!("child{n}")).await.name(), "pending", "nothing is dead");
        assert_eq!(node.happened(&name, |event| matches!(event, EventBody::FollowingUp { .. })).await, 1);
        let claim = node.claim(&name).await;
        assert_eq!(told(&claim), Some("x"));
        node.settle_started(&claim, Outcome::Done { head: None }).await;
        assert_eq!(node.state(&name).await.name(), "done");
    }
    // Problems that no agent can solve are left to a user.
    for reason in [BlockReason::Policy, BlockReason::Budget] {
        node.add(&[task(reason.as_str())]).await;
        let claim = node.claim(reason.as_str()).await;
        node.send(reason.as_str(), "x").await.unwrap();
        node.settle_started(&claim, block(reason)).await;
        assert_eq!(node.state(reason.as_str()).await.name(), "blocked");
        assert_eq!(node.prompts(reason.as_str()).await, ["x queued -"]);
    }
}

pub async fn what_landed_stands_while_it_is_followed_up(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    node.add(&[task("t"), task("child").after(&["t"])]).await;
    node.approve("t").await;
    node.send("t", "x").await.unwrap();
    assert_eq!(node.state("t").await.name(), "landing");
    node.land("t", "c1").await;
    let landed = TaskState::Landed { attempt: 1, commit: Oid::sample("c1"), target: Some("main".into()) };
    let record = node.store.task(&id("t")).await.unwrap();
    assert_eq!((record.state.clone(), record.met()), (TaskState::pending(), Some(&landed)));
    assert_eq!(node.ready().await, ["t", "child"], "its dependents have what landed");
    let claim = node.claim("t").await;
    assert_eq!((told(&claim), claim.standing.as_ref()), (Some("x"), Some(&landed)));
    // It fails: the landed work is still there.
    node.settle_started(&claim, Outcome::Fail { why: "no".into() }).await;
    assert_eq!(node.states(["t", "child"]).await, ["failed", "pending"]);
    assert_eq!(node.ready().await, ["child"]);
    // A question changes nothing.
    assert!(node.send("t", "y").await.unwrap().rearmed);
    let claim = node.claim("t").await;
    node.settle_started(&claim, Outcome::Done { head: None }).await;
    let record = node.store.task(&id("t")).await.unwrap();
    assert_eq!((record.state, record.standing), (landed, None));
    // More work lands as another commit.
    assert!(node.send("t", "z").await.unwrap().rearmed);
    let claim = node.claim("t").await;
    node.settle_started(&claim, Outcome::Approve(landing("h2"))).await;
    assert_eq!(node.ready().await, ["child"]);
    node.land("t", "c2").await;
    assert_eq!(
        node.state("t").await,
        TaskState::Landed { attempt: 4, commit: Oid::sample("c2"), target: Some("main".into()) }
    );
    // Only a requeue removes it.
    node.operate("t", Operation::Requeue { by: "me".into() }).await.unwrap();
    assert_eq!(node.ready().await, ["t"]);
}

pub async fn what_was_done_stands_while_it_is_followed_up(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    node.add(&[task("t"), task("child").after(&["t"])]).await;
    node.bring("t", Outcome::Done { head: Some(Oid::sample("h1")) }).await;
    node.send("t", "x").await.unwrap();
    let done = TaskState::Done { attempt: 1, head: Some(Oid::sample("h1")) };
    assert_eq!(node.store.task(&id("t")).await.unwrap().met(), Some(&done));
    assert_eq!(node.ready().await, ["t", "child"]);
    // A resumed run does not change it.
    node.add(&[task("t").or(IfPresent::Resume)]).await;
    assert_eq!(node.store.task(&id("t")).await.unwrap().met(), Some(&done));
    let claim = node.claim("t").await;
    node.settle_started(&claim, Outcome::Done { head: None }).await;
    assert_eq!(node.state("t").await, TaskState::Done { attempt: 2, head: Some(Oid::sample("h1")) });
    node.send("t", "y").await.unwrap();
    let claim = node.claim("t").await;
    node.settle_started(&claim, Outcome::Cancel { by: "me".into() }).await;
    assert_eq!(node.states(["t", "child"]).await, ["cancelled", "pending"]);
    assert_eq!(node.ready().await, ["child"], "a follow-up that was called off takes nothing away");
}

pub async fn a_car_that_is_refused_goes_on_with_what_was_said(fixture: &dyn Fixture) {
    let node = Node::join(fixture, "a").await;
    node.add(&[task("t")]).await;
    node.approve("t").await;
    node.send("t", "x").await.unwrap();
    let lander = node.store.elect("train:main", &node.session).await.unwrap().unwrap();
    let reject = LandStep::Reject { reason: BlockReason::Tests, detail: "red".into(), files: Vec::new() };
    for _ in 0..2 {
        node.store.land(&lander, &id("t"), &reject, at(6)).await.unwrap();
        assert_eq!(node.state("t").await, TaskState::pending());
    }
    assert!(node.store.cars("main").await.unwrap().is_empty());
    assert_eq!(told(&node.claim("t").await), Some("x"));
    // A landing reported again after its follow-up began is accepted as history.
    node.add(&[task("u")]).await;
    node.approve("u").await;
    node.send("u", "x").await.unwrap();
    node.store.resign(&lander).await.unwrap();
    node.land("u", "c1").await;
    let lander = node.store.elect("train:main", &node.session).await.unwrap().unwrap();
    let landed = LandStep::Landed { commit: Oid::sample("c1") };
    node.store.land(&lander, &id("u"), &landed, at(6)).await.unwrap();
    node.claim("u").await;
    node.store.land(&lander, &id("u"), &landed, at(6)).await.unwrap();
    let other = LandStep::Landed { commit: Oid::sample("c2") };
    assert!(matches!(node.store.land(&lander, &id("u"), &other, at(6)).await, Err(StoreError::Conflict(_))));
}

pub async fn sending_that_races_settling_is_never_left_behind(fixture: &dyn Fixture) {
    let (a, b) = (Node::join(fixture, "a").await, Node::join(fixture, "b").await);
    for round in 0..40 {
        let name = format!("t{round}");
        a.add(&[task(&name)]).await;
        let claim = a.claim(&name).await;
        let (_, sent) =
            tokio::join!(a.settle_started(&claim, Outcome::Done { head: None }), b.send(&name, "x"));
        assert!(sent.unwrap().position == 1);
        let claim = b.claim(&name).await;
        assert_eq!(told(&claim), Some("x"), "round {round}");
        b.settle_started(&claim, Outcome::Done { head: None }).await;
        let prompts = b.store.prompts(&id(&name)).await.unwrap();
        assert_eq!(prompts.iter().map(|prompt| prompt.state).collect::<Vec<_>>(), [PromptState::Told]);
    }
}
