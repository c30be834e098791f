//! Records of a newer version, as only the backend itself can have them: fields of tables and nodes that this version
//! does not know, and records that it cannot read at all.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use regatta_core::crew::MemberName;
use regatta_core::oid::Oid;
use regatta_core::state::{StateName, TaskState};
use regatta_core::train::{Intent, LandStep};
use regatta_store::conformance::Fixture;
use regatta_store::conformance::node::{Node, at, id, task};
use regatta_store::sqlite::SqliteStore;
use regatta_store::{
    AccountKey, Author, Authority, ContextWrite, DocumentWrite, MessageKind, NewMember, NewMessage,
    NewPrompt, NodeInfo, Operation, Outcome, Recipients, RequestId, SessionId, Step, Store, StoreError,
    TaskQuery, Word, WorkerReport, transfer,
};
use regatta_testkit::postgres::Server;
use regatta_testkit::zookeeper::Ensemble;
use rusqlite::Connection;
use zookeeper_client::Client;

use crate::postgres::{Schema, client};
use crate::zookeeper::Chroot;

fn ada() -> MemberName {
    MemberName::parse("Ada").unwrap()
}

fn prompt(text: &str) -> NewPrompt {
    NewPrompt { text: text.into(), by: "me".into(), beginning: "a".into(), queue: None, urgent: false }
}

async fn say(store: &dyn Store, word: Word) {
    let token_hash = "token of runs".to_owned();
    let report = WorkerReport { task: id("runs"), attempt: 1, token_hash, word };
    store.report(&report, &RequestId::fresh(), at(6)).await.unwrap();
}

async fn set_context(store: &dyn Store, value: &str) {
    let write = ContextWrite {
        key: "key".into(),
        value: Some(value.into()),
        by: "me".into(),
        if_version: None,
        leader: None,
    };
    store.set_context(&write, &RequestId::fresh(), at(6)).await.unwrap();
}

/// Something of every kind that is ever written twice.
async fn fill(store: &Arc<dyn Store>) -> (Node, Node) {
    let (node, other) =
        (Node::over(Arc::clone(store), "a").await, Node::over(Arc::clone(store), "other").await);
    node.add(&[task("runs"), task("lands"), task("told"), task("kept")]).await;
    let claim = other.claim("runs").await;
    other.start(&claim).await;
    say(store.as_ref(), Word::Stuck("which?".into())).await;
    node.approve("lands").await;
    node.finish("told").await;
    node.finish("kept").await;
    store.send(&id("told"), &prompt("more"), &RequestId::fresh(), at(5)).await.unwrap();
    let lander = store.elect("train:main", &node.session).await.unwrap().unwrap();
    store.resign(&lander).await.unwrap();
    store.take_turn(&AccountKey { profile: "p".into(), agent: "a".into() }).await.unwrap();
    set_context(store.as_ref(), "1").await;
    store.put_document(&DocumentWrite::new("plan", "one", "{}"), at(7)).await.unwrap();
    let member = NewMember {
        name: ada(),
        role: "developer".parse().unwrap(),
        session: SessionId::fresh("member"),
        node: NodeInfo::of_beats("a", &ada()),
        lease: None,
    };
    store.register(&member, at(8)).await.unwrap();
    let message = NewMessage {
        author: Author { name: MemberName::parse("user").unwrap(), authority: Authority::Outside },
        to: Recipients::One(ada()),
        kind: MessageKind::Direct,
        text: "hello".into(),
        reply_to: None,
    };
    store.post(&message, &RequestId::fresh(), at(9)).await.unwrap();
    (node, other)
}

/// Writes all of it once more.
async fn rewrite(store: &Arc<dyn Store>, node: &Node, other: &Node) {
    let claims = store.claims_of(&other.session).await.unwrap();
    other.step(&claims[0], Step::Update(store.attempts(&id("runs")).await.unwrap().remove(0))).await.unwrap();
    say(store.as_ref(), Word::Stuck("which one?".into())).await;
    node.operate("runs", Operation::AskCancel { by: "me".into() }).await.unwrap();
    let lander = store.elect("train:main", &node.session).await.unwrap().unwrap();
    let intent = Intent { onto: Some(Oid::sample("tip")), at: at(6) };
    store.land(&lander, &id("lands"), &LandStep::Intend { intent }, at(6)).await.unwrap();
    node.operate("told", Operation::Assign { node: Some("big-1".into()), by: "me".into() }).await.unwrap();
    node.claim("told").await;
    store.take_turn(&AccountKey { profile: "p".into(), agent: "a".into() }).await.unwrap();
    set_context(store.as_ref(), "2").await;
    store.put_document(&DocumentWrite::new("plan", "one", "{\"a\":1}"), at(8)).await.unwrap();
    store.mark(&ada(), &[1], regatta_store::Mark::Read, at(9)).await.unwrap();
    node.expire(other, None).await;
}

/// The tables whose rows are written again.
const TABLES: [&str; 13] = [
    "session", "role", "task", "spec", "attempt", "report", "prompt", "car", "profile", "member", "delivery",
    "context", "document",
];

/// What is there of each kind must be there afterwards, with what only the newer version knows.
#[track_caller]
fn all_kept(before: &BTreeMap<String, u64>, after: &BTreeMap<String, u64>) {
    let lost: Vec<_> = before.iter().filter(|(key, n)| after.get(*key) < Some(n)).collect();
    assert!(lost.is_empty(), "lost: {lost:?}");
    assert!(before.values().all(|n| *n > 0), "nothing is compared: {before:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_rows_keep_columns_of_a_newer_version() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("regatta.db");
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&path).unwrap());
    let (node, other) = fill(&store).await;
    let db = Connection::open(&path).unwrap();
    for table in TABLES {
        db.execute_batch(&format!(
            "alter table {table} add column sail text; update {table} set sail = 'red'"
        ))
        .unwrap();
    }
    let count = || -> BTreeMap<String, u64> {
        let of = |table: &&str| {
            let sql = format!("select count(*) from {table} where sail = 'red'");
            let n: i64 = db.query_row(&sql, [], |row| row.get(0)).unwrap();
            ((*table).to_owned(), n.cast_unsigned())
        };
        TABLES.iter().map(of).collect()
    };
    let before = count();
    rewrite(&store, &node, &other).await;
    all_kept(&before, &count());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_rows_keep_columns_of_a_newer_version() {
    let server = Server::shared();
    let store = regatta_store::open(&server.url("sails")).await.unwrap();
    let (node, other) = fill(&store).await;
    let client = client(server).await;
    client.batch_execute("set search_path = regatta_sails").await.unwrap();
    for table in TABLES {
        let sql = format!("alter table {table} add column sail text; update {table} set sail = 'red'");
        client.batch_execute(&sql).await.unwrap();
    }
    let mut counts = Vec::new();
    for turn in 0..2 {
        let mut count = BTreeMap::new();
        for table in TABLES {
            let sql = format!("select count(*) from {table} where sail = 'red'");
            let n: i64 = client.query_one(&sql, &[]).await.unwrap().get(0);
            count.insert(table.to_owned(), n.cast_unsigned());
        }
        counts.push(count);
        if turn == 0 {
            rewrite(&store, &node, &other).await;
        }
    }
    all_kept(&counts[0], &counts[1]);
}

/// All nodes below a node.
async fn walk(client: &Client, root: &str) -> BTreeMap<String, String> {
    let (mut found, mut open) = (BTreeMap::new(), vec![root.to_owned()]);
    while let Some(path) = open.pop() {
        let Ok((data, _)) = client.get_data(&path).await else { continue };
        for child in client.list_children(&path).await.unwrap() {
            open.push(format!("{path}/{child}"));
        }
        found.insert(path, String::from_utf8(data).unwrap());
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn zookeeper_nodes_keep_fields_of_a_newer_version() {
    let ensemble = Ensemble::shared();
    let store = regatta_store::open(&ensemble.url("sails")).await.unwrap();
    let (node, other) = fill(&store).await;
    let client = Client::connect(&ensemble.hosts()).await.unwrap();
    // What lists and sums are read from is worked out from the records, and written as a whole.
    let is_record = |path: &str| !path.ends_with("/brief") && !path.contains("/spent");
    let mut marked = Vec::new();
    for (path, text) in walk(&client, "/sails").await {
        let Ok(mut fields) = serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(&text) else {
            continue;
        };
        if !is_record(&path) || path.contains("/events/") {
            continue;
        }
        fields.insert("sail".into(), "red".into());
        client.set_data(&path, serde_json::to_string(&fields).unwrap().as_bytes(), None).await.unwrap();
        marked.push(path);
    }
    assert!(marked.len() > 20, "{marked:?}");
    rewrite(&store, &node, &other).await;
    let after = walk(&client, "/sails").await;
    let is_kept = |path: &&String| after.get(*path).is_some_and(|text| text.contains("\"sail\":\"red\""));
    let lost: Vec<_> =
        marked.iter().filter(|path| !is_kept(path)).map(|path| (path, after.get(path))).collect();
    assert!(lost.is_empty(), "{lost:?}");
}

/// A store in a file with records that only a newer version can read.
async fn filled_by_newer(path: &Path) {
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(path).unwrap());
    let node = Node::over(Arc::clone(&store), "a").await;
    let names = ["plain", "dreams", "ordered", "shunted", "tried", "stood", "child"];
    let mut tasks: Vec<_> = names.iter().map(|name| task(name)).collect();
    tasks[6].spec.deps = vec![id("dreams")];
    node.add(&tasks).await;
    node.approve("shunted").await;
    node.bring("tried", Outcome::Release { why: "x".into() }).await;
    node.finish("stood").await;
    store.send(&id("stood"), &prompt("more"), &RequestId::fresh(), at(5)).await.unwrap();
    store.close_session(&node.session, at(9)).await.unwrap();
    let db = Connection::open(path).unwrap();
    let set = |sql: &str, body: &str| assert_eq!(db.execute(sql, [body]).unwrap(), 1, "{sql}");
    let of = |name: &str| format!("(select seq from task where id = '{name}')");
    set(
        "update task set name = 'dreaming', state = ?1 where id = 'dreams'",
        r#"{"state":"dreaming","of":"sheep"}"#,
    );
    set("update task set standing = ?1 where id = 'stood'", r#"{"state":"moored","at":3}"#);
    set(&format!("update car set step = ?1 where task = {}", of("shunted")), r#"{"step":"shunted","to":3}"#);
    let newer_spec =
        |body: String| body.replace(r#""verdict_adapter":"chain""#, r#""verdict_adapter":"oracle""#);
    let spec: String = db
        .query_row(&format!("select body from spec where task = {}", of("ordered")), [], |row| row.get(0))
        .unwrap();
    assert_ne!(newer_spec(spec.clone()), spec);
    set(&format!("update spec set body = ?1 where task = {}", of("ordered")), &newer_spec(spec));
    let tried = r#"{"n":1,"agent":"fake","exit":{"kind":"evaporated"},"head":"x"}"#;
    set(&format!("update attempt set body = ?1 where task = {}", of("tried")), tried);
}

async fn lines(store: &Arc<dyn Store>) -> String {
    let mut text = Vec::new();
    transfer::dump(store.as_ref(), &mut text).await.unwrap();
    String::from_utf8(text).unwrap()
}

/// What this version cannot read is shown, left alone, and harms nothing else.
async fn shows_and_leaves_alone(store: Arc<dyn Store>) {
    let node = Node::over(Arc::clone(&store), "b").await;
    let is_newer = |state: &TaskState| state.is_newer();
    let shown = store.tasks(&TaskQuery::default()).await.unwrap();
    let newer: Vec<&str> =
        shown.iter().filter(|task| is_newer(&task.state)).map(|task| task.spec.id.as_str()).collect();
    assert_eq!(newer, ["dreams", "ordered", "shunted"]);
    let briefs = store.briefs(&TaskQuery::default()).await.unwrap();
    assert_eq!(briefs.len(), 7);
    let briefly: Vec<&str> =
        briefs.iter().filter(|task| is_newer(&task.state)).map(|task| task.id.as_str()).collect();
    assert_eq!(briefly, ["dreams", "shunted"]);
    let blocked = TaskQuery { states: vec![StateName::Blocked], ..TaskQuery::default() };
    let blocked = store.briefs(&blocked).await.unwrap();
    assert_eq!(blocked.iter().map(|task| task.id.as_str()).collect::<Vec<_>>(), ["dreams"]);
    let counts = store.counts(None).await.unwrap();
    let counts: Vec<String> = counts.iter().map(|(name, n)| format!("{name} {n}")).collect();
    assert_eq!(counts.join(", "), "pending 5, landing 1, blocked 1");
    // The rest of the queue goes on.
    assert_eq!(node.ready().await, ["plain", "tried", "stood"]);
    assert_eq!(store.ready("main", None, 1).await.unwrap().len(), 1);
    assert_eq!(store.cars("main").await.unwrap(), []);
    let attempts = store.attempts(&id("tried")).await.unwrap();
    assert_eq!((attempts.len(), attempts[0].n, attempts[0].agent.as_str()), (1, 1, "fake"));
    let before = lines(&store).await;
    let by = || "me".to_owned();
    for (name, operation) in [
        ("dreams", Operation::Requeue { by: by() }),
        ("dreams", Operation::Retry { by: by() }),
        ("dreams", Operation::Cancel { by: by() }),
        ("dreams", Operation::Park { until: at(99), detail: "x".into() }),
        ("dreams", Operation::Assign { node: Some("n".into()), by: by() }),
        ("shunted", Operation::Cancel { by: by() }),
        ("ordered", Operation::Assign { node: Some("n".into()), by: by() }),
        ("stood", Operation::Cancel { by: by() }),
    ] {
        let refused = node.operate(name, operation.clone()).await;
        let Err(StoreError::Refused(why)) = &refused else { panic!("{name} {operation:?}: {refused:?}") };
        assert!(why.contains("newer version of Regatta"), "{why}");
    }
    let sent = store.send(&id("dreams"), &prompt("x"), &RequestId::fresh(), at(5)).await;
    assert!(matches!(&sent, Err(StoreError::Refused(_))), "{sent:?}");
    assert!(matches!(node.try_claim("ordered").await, Err(StoreError::Refused(_))));
    assert!(matches!(node.try_claim("stood").await, Err(StoreError::Refused(_))));
    assert!(node.try_claim("dreams").await.unwrap().is_none());
    assert_eq!(lines(&store).await, before, "nothing of it was written");
    node.finish("plain").await;
    // A new attempt leaves the record of the old one alone.
    node.finish("tried").await;
    let after = lines(&store).await;
    for kept in ["dreaming", "sheep", "moored", "shunted", "oracle", "evaporated"] {
        assert!(after.contains(kept), "{kept} is gone");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_shows_and_leaves_alone_what_only_a_newer_version_can_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("regatta.db");
    filled_by_newer(&path).await;
    shows_and_leaves_alone(Arc::new(SqliteStore::open(&path).unwrap())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_holds_a_task_in_a_state_of_a_newer_version_ends_like_any_other() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("regatta.db");
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&path).unwrap());
    let (node, gone) =
        (Node::over(Arc::clone(&store), "a").await, Node::over(Arc::clone(&store), "gone").await);
    node.add(&[task("held"), task("plain")]).await;
    let claim = gone.claim("held").await;
    gone.claim("plain").await;
    let db = Connection::open(&path).unwrap();
    let sql = "update task set name = 'dreaming', state = ?1 where id = 'held'";
    db.execute(sql, [r#"{"state":"dreaming","of":"sheep"}"#]).unwrap();
    node.expire(&gone, None).await;
    assert_eq!(node.ready().await, ["plain"]);
    let held = store.task(&id("held")).await.unwrap();
    assert!(held.state.is_newer() && held.session.is_none() && held.fence > claim.fence, "{held:?}");
    let state: String =
        db.query_row("select state from task where id = 'held'", [], |row| row.get(0)).unwrap();
    assert_eq!(state, r#"{"state":"dreaming","of":"sheep"}"#);
}

async fn moved_to(store: Arc<dyn Store>) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("regatta.db");
    filled_by_newer(&path).await;
    let from: Arc<dyn Store> = Arc::new(SqliteStore::open_marked(&path).unwrap());
    transfer::copy(from.as_ref(), store.as_ref(), false, &|_, _| {}).await.unwrap();
    shows_and_leaves_alone(store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_shows_and_leaves_alone_what_only_a_newer_version_can_read() {
    moved_to(Schema::fresh(0).machine().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn zookeeper_shows_and_leaves_alone_what_only_a_newer_version_can_read() {
    moved_to(Chroot::fresh(0).machine().await).await;
}
