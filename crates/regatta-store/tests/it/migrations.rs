//! Opening: empty, old, newer, foreign, and by many at once.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use regatta_core::event::EventBody;
use regatta_core::id::TaskId;
use regatta_store::conformance::node::{Node, at, id, landing, task};
use regatta_store::sqlite::SqliteStore;
use regatta_store::{Outcome, RequestId, Store, StoreError, TaskBrief, TaskQuery};
use rusqlite::Connection;

use crate::child;

/// A store as version 1 left it, with a task in every state.
const VERSION_1: &str = include_str!("golden/v1.sql");

fn version_1(path: &Path) {
    Connection::open(path).unwrap().execute_batch(VERSION_1).unwrap();
}

/// All definitions of a schema, in a fixed order.
fn schema(path: &Path) -> Vec<(String, String)> {
    let db = Connection::open(path).unwrap();
    let mut query = db
        .prepare("select name, sql from sqlite_schema where sql is not null and name not like 'sqlite_%' order by name")
        .unwrap();
    let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    rows.collect::<rusqlite::Result<_>>().unwrap()
}

#[tokio::test]
async fn a_populated_store_of_version_1_opens_and_works() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("regatta.db");
    version_1(&path);
    let store = std::sync::Arc::new(SqliteStore::open(&path).unwrap());
    let tasks = store.tasks(&TaskQuery::default()).await.unwrap();
    let mut states: Vec<_> = tasks.iter().map(|record| record.state.name()).collect();
    states.sort_unstable();
    states.dedup();
    assert_eq!(states.len(), regatta_core::state::StateName::ALL.len(), "every state: {states:?}");
    let briefs: Vec<_> = tasks.iter().map(TaskBrief::from).collect();
    assert_eq!(store.briefs(&TaskQuery::default()).await.unwrap(), briefs);
    for record in &tasks {
        store.attempts(&record.spec.id).await.unwrap();
        assert!(!store.events(0, Some(&record.spec.id), 100).await.unwrap().is_empty());
    }
    assert_eq!(store.cars("main").await.unwrap().len(), 1);
    assert!(store.reported(&id("running"), 1).await.unwrap().statement.is_some());
    assert_eq!(store.sessions().await.unwrap().len(), 1);
    let node = Node::over(store, "new").await;
    node.finish("pending").await;
    assert_eq!(node.state("pending").await.name(), "done");
}

#[test]
fn an_upgraded_store_has_the_schema_of_a_fresh_one() {
    let directory = tempfile::tempdir().unwrap();
    let (old, fresh) = (directory.path().join("old"), directory.path().join("fresh"));
    version_1(&old);
    drop(SqliteStore::open(&old).unwrap());
    drop(SqliteStore::open(&fresh).unwrap());
    assert_eq!(schema(&old), schema(&fresh));
}

#[test]
fn a_store_of_a_newer_program_is_refused_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("regatta.db");
    drop(SqliteStore::open(&path).unwrap());
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
    // It only added something.
    drop(SqliteStore::open(&path).unwrap());
    Connection::open(&path).unwrap().execute("update project set oldest_program = 7", []).unwrap();
    let refused = SqliteStore::open(&path).err();
    let Some(StoreError::Corrupt(why)) = &refused else { panic!("{refused:?}") };
    assert!(why.contains("written by a newer Regatta") && why.contains("99"), "{why}");
    assert!(why.contains("for program 7 or newer, this is program 1; upgrade Regatta on "), "{why}");
    let version: u32 =
        Connection::open(&path).unwrap().pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
    assert_eq!(version, 99);
}

#[test]
fn a_file_that_is_no_store_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let foreign = directory.path().join("foreign.db");
    Connection::open(&foreign).unwrap().execute_batch("create table theirs(x)").unwrap();
    let refused = SqliteStore::open(&foreign).err();
    assert!(
        matches!(&refused, Some(StoreError::Corrupt(why)) if why.contains("some other program")),
        "{refused:?}"
    );
    let text = directory.path().join("text.db");
    std::fs::write(&text, "dear diary, this is long enough to be looked at by SQLite".repeat(30)).unwrap();
    let refused = SqliteStore::open(&text).err();
    assert!(matches!(refused, Some(StoreError::Corrupt(_))), "{refused:?}");
    let refused = SqliteStore::open(directory.path()).err();
    assert!(matches!(refused, Some(StoreError::Invalid(_))), "{refused:?}");
}

#[tokio::test]
async fn a_url_names_the_backend() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("deep/er/regatta.db");
    let plain = regatta_store::open(path.to_str().unwrap()).await.unwrap();
    plain.enqueue(&[task("t")], &RequestId::fresh(), at(1)).await.unwrap();
    let named = regatta_store::open(&format!("sqlite:{}", path.display())).await.unwrap();
    named.task(&TaskId::parse("t").unwrap()).await.unwrap();
    assert_eq!(named.describe(), format!("sqlite:{}", path.display()));
    for url in ["postgres://", "zookeeper://a:1,b:2/x", "sqlite:", ""] {
        let refused = regatta_store::open(url).await.err();
        assert!(matches!(refused, Some(StoreError::Invalid(_))), "{url}: {refused:?}");
    }
}

#[test]
fn the_file_belongs_to_its_owner_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("regatta.db");
    let _store = SqliteStore::open(&path).unwrap();
    for file in std::fs::read_dir(directory.path()).unwrap() {
        let file = file.unwrap();
        let mode = file.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{}", file.path().display());
    }
}

#[tokio::test]
async fn eight_processes_that_open_an_empty_path_at_once_all_succeed() {
    for _ in 0..3 {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("new/regatta.db");
        let children: Vec<_> =
            (0..8).map(|n| child::command("enqueue one", &path, n).spawn().unwrap()).collect();
        for child in children {
            assert!(child.wait_with_output().unwrap().status.success());
        }
        let counts = SqliteStore::open(&path).unwrap().counts(None).await.unwrap();
        assert_eq!(counts, [(regatta_core::state::StateName::Pending, 8)]);
        let left_over = std::fs::read_dir(path.parent().unwrap()).unwrap();
        assert!(left_over.flatten().all(|file| !file.file_name().to_string_lossy().contains(".new-")));
    }
}

#[test]
fn eight_threads_that_open_an_empty_path_at_once_all_succeed() {
    for _ in 0..10 {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("regatta.db");
        std::thread::scope(|scope| {
            let opening: Vec<_> =
                (0..8).map(|_| scope.spawn(|| SqliteStore::open(&path).map(drop))).collect();
            for one in opening {
                one.join().unwrap().unwrap();
            }
        });
    }
}

#[tokio::test]
async fn what_a_newer_program_has_written_is_shown_and_stops_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("regatta.db");
    let node = Node::over(std::sync::Arc::new(SqliteStore::open(&path).unwrap()), "n").await;
    node.add(&[task("old"), task("odd")]).await;
    let db = Connection::open(&path).unwrap();
    let insert = "insert into event(at, task, attempt, body) values(1, 1, null, ?1)";
    db.execute(insert, [r#"{"kind":"teleported","to":"mars"}"#]).unwrap();
    let update = "update task set name = 'dreaming', state = ?1 where id = 'odd'";
    db.execute(update, [r#"{"state":"dreaming","of":"sheep"}"#]).unwrap();
    let events = node.events("old").await;
    assert!(matches!(events.last(), Some(EventBody::Unknown(_))), "{events:?}");
    let odd = node.state("odd").await;
    assert!(format!("{odd:?}").contains("dreaming"), "{odd:?}");
    assert_eq!(node.store.briefs(&TaskQuery::default()).await.unwrap().len(), 2);
    assert!(node.try_claim("odd").await.unwrap().is_none());
    node.finish("old").await;
}

#[tokio::test]
async fn an_id_of_a_commit_that_is_not_one_is_an_error_for_the_train_and_stays_visible_in_events() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("regatta.db");
    let node = Node::over(std::sync::Arc::new(SqliteStore::open(&path).unwrap()), "n").await;
    node.add(&[task("t")]).await;
    node.bring("t", Outcome::Approve(landing("h"))).await;
    let db = Connection::open(&path).unwrap();
    // What a newer version adds is that version's to land.
    db.execute("update car set step = ?1", [r#"{"step":"shunted"}"#]).unwrap();
    assert_eq!(node.store.cars("main").await.unwrap(), []);
    db.execute("update car set step = ?1", [r#"{"step":"gated","candidate":"--all"}"#]).unwrap();
    let error = node.store.cars("main").await.unwrap_err();
    let insert = "insert into event(at, task, attempt, body) values(1, 1, 1, ?1)";
    db.execute(insert, [r#"{"kind":"approved","head":"main"}"#]).unwrap();
    db.execute(insert, [r#"{"kind":"lane-ready","lane":"/l","base":""}"#]).unwrap();
    let events = node.events("t").await;
    let [.., approved, ready] = events.as_slice() else { panic!("{events:?}") };
    assert!(matches!(approved, EventBody::Unknown(_)), "{approved:?}");
    assert_eq!(*ready, EventBody::LaneReady { lane: "/l".into(), base: None });
    assert!(format!("{error:?}").contains("a car's step"), "{error:?}");
}
