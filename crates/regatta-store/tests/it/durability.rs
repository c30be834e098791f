//! Acknowledged means durable: no `kill -9` loses a task whose enqueueing has returned.

use std::collections::HashSet;
use std::io::{BufRead, BufReader};

use regatta_store::sqlite::SqliteStore;
use regatta_store::{Store, TaskQuery};

use crate::child;

#[tokio::test]
async fn no_acknowledged_task_is_lost_to_kill_9() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("regatta.db");
    let mut acknowledged = HashSet::new();
    for round in 0..8 {
        let mut child = child::command("enqueue for ever", &path, round).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        // Killed in the middle of its work; what it had said before still comes through the pipe.
        let mut left = 5 + round * 17;
        for line in lines {
            let Some(name) = line.unwrap().strip_prefix("ACK ").map(str::to_owned) else { continue };
            acknowledged.insert(name);
            left = left.saturating_sub(1);
            if left == 0 {
                child.kill().unwrap();
            }
        }
        child.wait().unwrap();
    }
    let store = SqliteStore::open(&path).unwrap();
    let tasks = store.tasks(&TaskQuery::default()).await.unwrap();
    let there: HashSet<String> = tasks.into_iter().map(|record| record.spec.id.to_string()).collect();
    let lost: Vec<_> = acknowledged.difference(&there).collect();
    assert!(lost.is_empty(), "of {} acknowledged: {lost:?}", acknowledged.len());
    assert!(acknowledged.len() > 200, "the children did work: {}", acknowledged.len());
    // A state and its event are one step.
    let events = store.events(0, None, usize::MAX).await.unwrap();
    let told: HashSet<String> =
        events.into_iter().filter_map(|event| Some(event.task?.to_string())).collect();
    assert_eq!(told, there);
    drop(store);
    let db = rusqlite::Connection::open(&path).unwrap();
    let check: String = db.query_row("pragma integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(check, "ok");
}
