//! Checks that a commit is synced, and that the queue's reads and the claim cost the same with ten and with a hundred
//! thousand pending tasks, counted in steps of SQLite's virtual machine and not in time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use regatta_core::spec::TaskSpec;
use rusqlite::{Connection, StatementStatus, params};

use super::writer::Tx;
use super::{ledger, open, queue, rows};
use crate::conformance::node::{QUEUE, at, node_info, task};
use crate::rules::{claims, enqueue, sessions};
use crate::{ClaimRequest, NewTask, ReadyKey, RequestId, SessionId};

/// The plan of a query, as SQLite explains it.
fn plan(db: &Connection, sql: &str, parameters: usize) -> String {
    let mut explain = db.prepare(&format!("explain query plan {sql}")).unwrap();
    let nulls = vec![rusqlite::types::Null; parameters];
    let lines = explain.query_map(rusqlite::params_from_iter(nulls), |row| row.get::<_, String>(3)).unwrap();
    lines.collect::<rusqlite::Result<Vec<_>>>().unwrap().join("\n")
}

#[test]
fn a_commit_is_on_disk_before_it_returns() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    // The same for an existing file, which needs no set-up any more.
    for _ in 0..2 {
        let db = open::writer(&path, open::Marks::Refused).unwrap();
        let pragma =
            |name: &str| db.pragma_query_value(None, name, |row| row.get::<_, rusqlite::types::Value>(0));
        assert_eq!(pragma("synchronous").unwrap(), 2.into(), "FULL");
        assert_eq!(pragma("journal_mode").unwrap(), "wal".to_owned().into());
    }
}

#[test]
fn ready_timers_and_claims_walk_their_indexes() {
    let directory = tempfile::tempdir().unwrap();
    let db = open::writer(&directory.path().join("db"), open::Marks::Refused).unwrap();
    for (sql, seeks) in queue::READY.iter().zip(["queue=? AND rank=? AND seq>?", "queue=? AND rank>?"]) {
        let ready = plan(&db, sql, 4);
        assert!(ready.contains(&format!("USING INDEX task_ready ({seeks})")), "{ready}");
        assert!(!ready.contains("TEMP B-TREE") && !ready.contains("SCAN"), "{ready}");
    }
    let timers = plan(&db, queue::TIMERS, 2);
    assert!(timers.contains("USING INDEX task_timer (queue=?"), "{timers}");
    assert!(!timers.contains("TEMP B-TREE") && !timers.contains("SCAN"), "{timers}");
    let active = plan(&db, &ledger::ACTIVE.replace("{COLUMNS}", rows::COLUMNS), 0);
    assert!(active.contains("USING INDEX task_held"), "{active}");
}

/// A database with `n` pending tasks of ten priorities, a tenth of which wait for another.
fn populated(directory: &tempfile::TempDir, n: usize) -> Connection {
    let db = open::writer(&directory.path().join(n.to_string()), open::Marks::Refused).unwrap();
    let tasks: Vec<NewTask> = (0..n)
        .map(|k| {
            let task = task(&format!("t{k}"));
            let deps = if k % 10 == 9 { vec![task_id(k - 1)] } else { Vec::new() };
            NewTask { spec: TaskSpec { priority: (k % 10) as i32, deps, ..task.spec }, ..task }
        })
        .collect();
    let tx = Tx::for_test(&db);
    tx.carry_out(&sessions::open(&SessionId("s".into()), &node_info("a"), at(1))).unwrap();
    db.execute_batch("begin").unwrap();
    let tasks = enqueue::prepare(&tasks).unwrap();
    tx.carry_out(&enqueue::enqueue(&tasks, &RequestId("r".into()), at(1))).unwrap();
    db.execute_batch("commit").unwrap();
    db
}

fn task_id(k: usize) -> regatta_core::id::TaskId {
    regatta_core::id::TaskId::parse(&format!("t{k}")).unwrap()
}

/// Steps for a page of `ready`, from the start and from behind a task in the middle of its priority.
fn steps_of_ready(db: &Connection) -> [i32; 4] {
    let middle: i64 =
        db.query_row("select max(seq) from task where rank = -8", [], |row| row.get(0)).unwrap();
    let mut steps = Vec::new();
    for (rank, seq) in [(i64::MIN, 0), (-8, middle / 2)] {
        for sql in queue::READY {
            let mut statement = db.prepare(sql).unwrap();
            statement.query_map(params![QUEUE, rank, seq, 1], |_| Ok(())).unwrap().for_each(drop);
            steps.push(statement.get_status(StatementStatus::VmStep));
        }
    }
    steps.try_into().expect("two places, two walks")
}

/// Steps for one claim, all of its statements together.
fn steps_of_claim(db: &mut Connection, key: &ReadyKey, name: &str) -> u64 {
    let counted = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&counted);
    let count = move || {
        counter.fetch_add(1, Ordering::Relaxed);
        false
    };
    db.progress_handler(1, Some(count)).unwrap();
    let wanted = ClaimRequest {
        task: regatta_core::id::TaskId::parse(name).unwrap(),
        session: SessionId("s".into()),
        token_hash: "h".into(),
        request: RequestId::fresh(),
        limits: None,
    };
    let claim = Tx::for_test(db).carry_out(&claims::claim(&wanted, at(2))).unwrap();
    db.progress_handler(0, None::<fn() -> bool>).unwrap();
    assert!(claim.is_some_and(|claim| claim.spec.priority == key.priority));
    counted.load(Ordering::Relaxed)
}

#[test]
fn ready_and_claim_cost_the_same_at_ten_and_at_a_hundred_thousand_pending() {
    let directory = tempfile::tempdir().unwrap();
    let costs: Vec<_> = [10, 100_000]
        .map(|n| {
            let mut db = populated(&directory, n);
            let first = queue::ready(&db, QUEUE, None, 1).unwrap().pop().unwrap();
            (steps_of_ready(&db), steps_of_claim(&mut db, &first.key, first.spec.id.as_str()))
        })
        .to_vec();
    assert!(costs[0].1 > 10, "steps were counted: {costs:?}");
    assert_eq!(costs[0], costs[1]);
}
