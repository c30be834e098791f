//! PostgreSQL over a network that hangs, breaks in the middle of a message, and comes back; and a server that is
//! killed while machines write and one reads.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use regatta_core::event::{Event, EventBody};
use regatta_store::conformance::node::{Node, at, id, record, task};
use regatta_store::postgres::PostgresStore;
use regatta_store::{Claim, ContextWrite, NewPrompt, Outcome, RequestId, Step, Store, StoreError, TaskQuery};
use regatta_testkit::postgres::Server;
use regatta_testkit::wire::{Upstream, Way, Wire};

use crate::postgres::persist;

/// Longer than a call may take, on a busy machine too: its limit is 15 s.
const LIMIT: Duration = Duration::from_secs(60);

/// A proxy in front of the shared server.
fn wire() -> Wire {
    Wire::start(Upstream::Unix(Server::shared().socket()))
}

/// The address of a store behind the proxy.
fn through(wire: &Wire, project: &str) -> String {
    format!("postgres://regatta@{}/postgres?project={project}&sslmode=disable", wire.address())
}

/// Asserts that the events are numbered without gaps, and returns them.
#[track_caller]
fn gapless(events: Vec<Event>) -> Vec<Event> {
    let numbers: Vec<u64> = events.iter().map(|event| event.seq).collect();
    assert_eq!(numbers, (1..=events.len() as u64).collect::<Vec<_>>());
    events
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_falls_silent_is_unavailable_within_the_limit_of_a_call() {
    let wire = wire();
    let store = PostgresStore::open(&through(&wire, "silent")).await.unwrap();
    let mut changes = store.subscribe().await.unwrap();
    changes.changed().await.unwrap();
    store.enqueue(&[task("a")], &RequestId::fresh(), at(1)).await.unwrap();
    let (new, request) = ([task("b")], RequestId::fresh());
    wire.swallow();
    let started = Instant::now();
    // A write, a read, and a connection that is taken and not answered: one wait for all.
    let url = through(&wire, "silent");
    let (write, read, opened) =
        tokio::join!(store.enqueue(&new, &request, at(1)), store.counts(None), PostgresStore::open(&url));
    assert!(matches!(&write, Err(StoreError::Unavailable(why)) if why.contains("15 s")), "{write:?}");
    assert!(matches!(read, Err(StoreError::Unavailable(_))), "{read:?}");
    assert!(matches!(opened.map(drop), Err(StoreError::Unavailable(_))));
    assert!(started.elapsed() < LIMIT, "{:?}", started.elapsed());
    changes.mark_unchanged();
    wire.heal();
    // The same request is carried out now, and once.
    store.enqueue(&new, &request, at(1)).await.unwrap();
    store.enqueue(&new, &request, at(1)).await.unwrap();
    assert_eq!(gapless(store.events(0, None, usize::MAX).await.unwrap()).len(), 2);
    // The listener's connection was reset, and it has connected again.
    tokio::time::timeout(LIMIT, changes.changed()).await.unwrap().unwrap();
}

/// One write of each kind, with the requests that repeat it.
struct Writes {
    n: u64,
    claim: Option<Claim>,
    requests: [RequestId; 5],
}

impl Writes {
    fn new(n: u64) -> Self {
        Self { n, claim: None, requests: std::array::from_fn(|_| RequestId::fresh()) }
    }

    fn name(&self) -> String {
        format!("t{}", self.n)
    }

    /// Carries out the write `which`.
    async fn write(&mut self, node: &Node, which: usize) -> Result<(), StoreError> {
        let (store, request) = (&node.store, &self.requests[which]);
        match which {
            0 => store.enqueue(&[task(&self.name())], request, at(1)).await,
            1 => {
                let prompt = NewPrompt {
                    text: format!("more for {}", self.name()),
                    by: "me".into(),
                    beginning: "more".into(),
                    queue: None,
                    urgent: false,
                };
                store.send(&id(&self.name()), &prompt, request, at(1)).await.map(drop)
            }
            2 => {
                let wanted =
                    regatta_store::ClaimRequest { request: request.clone(), ..node.asking_for(&self.name()) };
                self.claim = store.claim(&wanted, at(1)).await?;
                Ok(())
            }
            3 => {
                let claim = self.claim.as_ref().expect("it was claimed before");
                let settled =
                    Step::Settled { attempt: record(claim), outcome: Outcome::Fail { why: "no".into() } };
                store.advance(claim, &settled, request, at(1)).await
            }
            _ => {
                let write = ContextWrite {
                    key: "count".into(),
                    value: Some(self.n.to_string()),
                    // Of two that are carried out, the second one would be a conflict.
                    if_version: Some(self.n),
                    leader: None,
                    by: "me".into(),
                };
                assert_eq!(store.set_context(&write, request, at(1)).await?, self.n + 1);
                Ok(())
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_cut_after_any_byte_loses_and_repeats_nothing() {
    let wire = wire();
    let store: Arc<dyn Store> = Arc::new(PostgresStore::open(&through(&wire, "cut")).await.unwrap());
    let node = Node::over(Arc::clone(&store), "cut").await;
    // Statements are prepared the first time, which takes more bytes.
    let mut bytes = [Vec::new(), Vec::new()];
    let mut n = 0;
    for _ in 0..2 {
        let mut writes = Writes::new(n);
        bytes = [Vec::new(), Vec::new()];
        for which in 0..5 {
            let before = [Way::Up, Way::Down].map(|way| wire.carried(way));
            writes.write(&node, which).await.unwrap();
            for way in [Way::Up, Way::Down] {
                bytes[way as usize].push(wire.carried(way) - before[way as usize]);
            }
        }
        n += 1;
    }
    let (mut lost, mut kept) = (0, 0);
    for way in [Way::Up, Way::Down] {
        for (which, most) in bytes[way as usize].iter().enumerate() {
            let places = 12;
            for place in 0..places {
                let mut writes = Writes::new(n);
                for earlier in 0..which {
                    persist_mut(&mut writes, &node, earlier).await;
                }
                let cuts = wire.cuts();
                // Up to the last byte; the last place is far beyond it: the store's listener uses the wire, too.
                let bytes = if place + 1 == places { most * 4 + 4096 } else { most * place / (places - 2) };
                wire.cut_after(way, bytes);
                let first = writes.write(&node, which).await;
                wire.heal();
                match first {
                    Ok(()) => kept += 1,
                    Err(StoreError::Unavailable(_)) => lost += 1,
                    Err(other) => panic!("{way:?} {which} after {place}/{places}: {other}"),
                }
                assert!(place > 0 || wire.cuts() == cuts + 1, "{way:?} {which}: nothing was cut");
                // Whatever came of it, it is repeated as a caller would, and then everything else follows.
                for later in which..5 {
                    persist_mut(&mut writes, &node, later).await;
                }
                n += 1;
            }
        }
    }
    assert!(lost >= 80 && kept >= 10, "{lost} calls were lost, {kept} were not");
    let all = TaskQuery::default();
    let tasks = persist(|| store.tasks(&all)).await;
    assert_eq!(tasks.len() as u64, n);
    for record in &tasks {
        assert_eq!((record.state.name(), record.attempts), ("failed", 1), "{}", record.spec.id);
        assert_eq!(store.prompts(&record.spec.id).await.unwrap().len(), 1, "{}", record.spec.id);
    }
    assert_eq!(store.context("count").await.unwrap().unwrap().version, n);
    let events = gapless(store.events(0, None, usize::MAX).await.unwrap());
    let count = |is: fn(&EventBody) -> bool| events.iter().filter(|event| is(&event.body)).count() as u64;
    assert_eq!(count(|body| matches!(body, EventBody::Enqueued { .. })), n);
    assert_eq!(count(|body| matches!(body, EventBody::Claimed { .. })), n);
    assert_eq!(count(|body| matches!(body, EventBody::Failed { .. })), n);
}

/// Repeats a write while the store is unreachable.
async fn persist_mut(writes: &mut Writes, node: &Node, which: usize) {
    let started = Instant::now();
    loop {
        match writes.write(node, which).await {
            Err(StoreError::Unavailable(why)) => {
                assert!(started.elapsed() < LIMIT, "the store stays away: {why}");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            answer => return answer.unwrap(),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_writers_on_three_machines_lose_nothing_when_the_server_is_killed_and_a_follower_sees_all() {
    const WRITERS: u64 = 8;
    const EACH: u64 = 40;
    let server = Arc::new(Server::start());
    let url = server.url("followed");
    let mut machines = Vec::new();
    for _ in 0..3 {
        machines.push(Arc::new(PostgresStore::open(&url).await.unwrap()));
    }
    let (done, is_over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (store, done) = (Arc::clone(&machines[writer as usize % 3]), Arc::clone(&done));
            tokio::spawn(async move {
                for n in 0..EACH {
                    let (new, request) = ([task(&format!("w{writer}-{n}"))], RequestId::fresh());
                    persist(|| store.enqueue(&new, &request, at(1))).await;
                    done.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    let follower = {
        let (store, is_over) = (PostgresStore::open(&url).await.unwrap(), Arc::clone(&is_over));
        tokio::spawn(async move {
            let mut changes = store.subscribe().await.unwrap();
            let mut seen: Vec<Event> = Vec::new();
            loop {
                let was_over = is_over.load(Ordering::SeqCst);
                let after = seen.last().map_or(0, |event| event.seq);
                let news = persist(|| store.events(after, None, 7)).await;
                if news.is_empty() && was_over {
                    return seen;
                }
                if news.is_empty() {
                    // Woken by the writers, and after the listener has connected again; the limit is only for the end.
                    let _woken = tokio::time::timeout(Duration::from_secs(1), changes.changed()).await;
                }
                seen.extend(news);
            }
        })
    };
    for round in 1..=2 {
        while done.load(Ordering::Relaxed) < round * WRITERS * EACH / 3 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let server = Arc::clone(&server);
        tokio::task::spawn_blocking(move || server.kill_and_restart()).await.unwrap();
    }
    for writer in writers {
        writer.await.unwrap();
    }
    is_over.store(true, Ordering::SeqCst);
    let seen = gapless(follower.await.unwrap());
    assert_eq!(seen, machines[0].events(0, None, usize::MAX).await.unwrap(), "another reader sees the same");
    let told: BTreeSet<String> =
        seen.iter().filter_map(|event| Some(event.task.as_ref()?.to_string())).collect();
    assert_eq!((seen.len() as u64, told.len() as u64), (WRITERS * EACH, WRITERS * EACH));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listener_whose_network_was_away_is_woken_when_it_is_back() {
    let wire = wire();
    let store = PostgresStore::open(&through(&wire, "woken")).await.unwrap();
    let other = PostgresStore::open(&Server::shared().url("woken")).await.unwrap();
    let mut changes = store.subscribe().await.unwrap();
    // Woken once it listens.
    changes.changed().await.unwrap();
    wire.refuse();
    wire.reset();
    other.enqueue(&[task("missed")], &RequestId::fresh(), at(1)).await.unwrap();
    changes.mark_unchanged();
    wire.heal();
    tokio::time::timeout(LIMIT, changes.changed()).await.unwrap().unwrap();
    assert_eq!(persist(|| store.last_seq()).await, 1);
    // And from then on as before.
    changes.mark_unchanged();
    other.enqueue(&[task("heard")], &RequestId::fresh(), at(1)).await.unwrap();
    tokio::time::timeout(LIMIT, changes.changed()).await.unwrap().unwrap();
}
