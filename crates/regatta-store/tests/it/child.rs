//! Children of tests: this very test binary, started again to do one job in a process of its own.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use regatta_store::conformance::node::{at, task};
use regatta_store::sqlite::SqliteStore;
use regatta_store::{RequestId, Store};

const JOB: &str = "REGATTA_TEST_JOB";
const PATH: &str = "REGATTA_TEST_PATH";
const ROUND: &str = "REGATTA_TEST_ROUND";

/// A child that will do `job` on the store at `path`.
pub(crate) fn command(job: &str, path: &Path, round: usize) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child::does_the_job_it_was_started_for", "--nocapture"]);
    command.env(JOB, job).env(PATH, path).env(ROUND, round.to_string()).stdout(Stdio::piped());
    command
}

/// Not a test by itself: without a job it does nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn does_the_job_it_was_started_for() {
    let Ok(job) = std::env::var(JOB) else { return };
    if job == "migrate" {
        regatta_store::open_marked(&std::env::var(PATH).unwrap()).await.unwrap();
        return;
    }
    let store = Arc::new(SqliteStore::open(std::env::var(PATH).unwrap()).unwrap());
    let round = std::env::var(ROUND).unwrap();
    match job.as_str() {
        "enqueue one" => {
            let name = format!("r{round}");
            store.enqueue(&[task(&name)], &RequestId::fresh(), at(1)).await.unwrap();
        }
        "enqueue for ever" => {
            let writers = (0..4)
                .map(|writer| tokio::spawn(enqueue_for_ever(Arc::clone(&store), round.clone(), writer)));
            for writer in writers.collect::<Vec<_>>() {
                writer.await.unwrap();
            }
        }
        other => panic!("no such job: {other}"),
    }
}

/// Says each task's name once it is acknowledged, and not before.
async fn enqueue_for_ever(store: Arc<SqliteStore>, round: String, writer: usize) {
    for n in 0.. {
        let name = format!("r{round}-{writer}-{n}");
        store.enqueue(&[task(&name)], &RequestId::fresh(), at(1)).await.unwrap();
        let mut stdout = std::io::stdout().lock();
        writeln!(stdout, "\nACK {name}").unwrap();
        stdout.flush().unwrap();
    }
}
