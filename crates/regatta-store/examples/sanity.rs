//! A quick look at speed: `cargo run --release -p regatta-store --features conformance --example sanity [DIR]`.

use std::sync::Arc;
use std::time::Instant;

use regatta_store::conformance::node::{Node, QUEUE, at, task};
use regatta_store::sqlite::SqliteStore;
use regatta_store::{NewTask, Outcome, RequestId, Store};

#[tokio::main]
async fn main() {
    let directory = std::env::args().nth(1).map_or_else(std::env::temp_dir, Into::into);
    let path = directory.join(format!("regatta-sanity-{}.db", std::process::id()));
    let begun = Instant::now();
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&path).expect("a fresh file opens"));
    say(format!("open a new file: {:?}", begun.elapsed()));

    let tasks: Vec<NewTask> = (0..10_000)
        .map(|n| {
            let mut new = task(&format!("t{n}"));
            new.spec.priority = n % 10;
            new
        })
        .collect();
    let begun = Instant::now();
    store.enqueue(&tasks, &RequestId::fresh(), at(1)).await.expect("enqueued");
    say(format!("enqueue 10,000 in one call: {:?}", begun.elapsed()));

    for clients in [1, 8, 64] {
        let node = Node::over(store.clone(), "n").await;
        let ready = store.ready(QUEUE, None, 1600).await.expect("ready");
        let begun = Instant::now();
        let mut running = Vec::new();
        for n in 0..clients {
            let (node, mine) =
                (node.clone(), ready.iter().skip(n).step_by(clients).cloned().collect::<Vec<_>>());
            running.push(tokio::spawn(async move {
                let mut claims = Vec::new();
                for ready in mine {
                    claims.push(node.claim(ready.spec.id.as_str()).await);
                }
                claims
            }));
        }
        let mut claims = Vec::new();
        for one in running {
            claims.extend(one.await.expect("no client failed"));
        }
        let rate = claims.len() as f64 / begun.elapsed().as_secs_f64();
        say(format!("{clients} clients: {rate:.0} claims/s"));
        let begun = Instant::now();
        let settled = claims.chunks(claims.len().div_ceil(clients)).map(|mine| {
            let (node, mine) = (node.clone(), mine.to_vec());
            tokio::spawn(async move {
                for claim in mine {
                    node.settle(&claim, Outcome::Done { head: None }).await.expect("settled");
                }
            })
        });
        for one in settled.collect::<Vec<_>>() {
            one.await.expect("no client failed");
        }
        say(format!(
            "{clients} clients: {:.0} settled/s",
            claims.len() as f64 / begun.elapsed().as_secs_f64()
        ));
    }
    drop(store);
    let begun = Instant::now();
    let store = SqliteStore::open(&path).expect("opens again");
    store.enqueue(&[task("one")], &RequestId::fresh(), at(1)).await.expect("enqueued");
    drop(store);
    say(format!("open, enqueue one, close: {:?}", begun.elapsed()));
    for suffix in ["", "-wal", "-shm"] {
        let _gone = std::fs::remove_file(format!("{}{suffix}", path.display()));
    }
}

#[expect(clippy::print_stdout, reason = "the example's whole purpose")]
fn say(line: String) {
    println!("{line}");
}
