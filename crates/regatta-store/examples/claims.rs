//! How long claims take in a store with a given number of pending tasks: part of `bench/queue`.
//!
//! `claims PATH PENDING CLAIMS` makes the store, fills it, and prints one JSON object with the medians in microseconds.

use std::time::{Duration, Instant};

use regatta_core::id::TaskId;
use regatta_core::spec::TaskSpec;
use regatta_core::time::Timestamp;
use regatta_store::{
    ClaimRequest, IfPresent, MAIN_QUEUE, NewTask, NodeInfo, RequestId, SessionId, StoreError,
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [path, pending, claims] = args.as_slice() else { return Err("claims PATH PENDING CLAIMS".into()) };
    let (pending, n_claims): (usize, usize) = (pending.parse()?, claims.parse()?);
    let store = regatta_store::open(path).await?;
    let session = SessionId::fresh("bench");
    let node = NodeInfo {
        node: "bench".into(),
        kind: regatta_core::session::SessionKind::Daemon,
        what: "daemon".into(),
        boot_id: String::new(),
        pid: std::process::id(),
        starttime: 0,
        machine: None,
        pid_ns: None,
        place: None,
        lease_ms: None,
        node_id: None,
        program: None,
        rest: Default::default(),
    };
    store.open_session(&session, &node, Timestamp::from_millis(0)).await?;
    let mut at = 0;
    let mut now = || {
        at += 1;
        Timestamp::from_millis(at)
    };
    for first in (0..pending).step_by(5000) {
        let tasks: Vec<NewTask> = (first..pending.min(first + 5000)).map(task).collect::<Result<_, _>>()?;
        store.enqueue(&tasks, &RequestId::fresh(), now()).await?;
    }
    let (mut looks, mut takes) = (Vec::new(), Vec::new());
    for _ in 0..n_claims {
        let begun = Instant::now();
        let ready = store.ready(MAIN_QUEUE, None, 1).await?;
        looks.push(begun.elapsed());
        let next = ready.first().ok_or("nothing is left")?;
        let request = ClaimRequest {
            task: next.spec.id.clone(),
            session: session.clone(),
            token_hash: String::new(),
            request: RequestId::fresh(),
            limits: None,
        };
        let begun = Instant::now();
        store.claim(&request, now()).await?.ok_or("somebody was faster")?;
        takes.push(begun.elapsed());
    }
    let report = serde_json::json!({
        "pending": pending, "ready_us": median(looks), "claim_us": median(takes),
    });
    use std::io::Write;
    writeln!(std::io::stdout(), "{report}")?;
    Ok(())
}

/// As long an order as people write.
fn task(n: usize) -> Result<NewTask, StoreError> {
    let id = TaskId::parse(&format!("t{n:06}")).map_err(|error| StoreError::Invalid(error.to_string()))?;
    let mut spec = TaskSpec::plain(id, "sh", &"a line of the prompt\n".repeat(20));
    spec.priority = i32::try_from(n % 7).unwrap_or(0);
    Ok(NewTask { spec, queue: MAIN_QUEUE.to_owned(), if_present: IfPresent::Refuse })
}

fn median(mut times: Vec<Duration>) -> u64 {
    times.sort();
    times.get(times.len() / 2).map_or(0, |time| u64::try_from(time.as_micros()).unwrap_or(u64::MAX))
}
