//! Whole stores: copied in both directions, and checked.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use regatta_core::crew::MemberName;
use regatta_core::oid::Oid;
use regatta_core::profiles::{Cooling, Limited};
use regatta_core::state::ParkReason;
use regatta_store::conformance::Fixture;
use regatta_store::conformance::node::{Node, at, id, node_info, task};
use regatta_store::sqlite::SqliteStore;
use regatta_store::transfer::{self, Mark, Transfer};
use regatta_store::{
    AccountKey, Author, Authority, ClaimLimits, ClaimRequest, ContextWrite, DocumentWrite, MessageKind,
    NewMember, NewMessage, NewPrompt, NewTask, Operation, Outcome, Recipients, RequestId, SessionId, Store,
    StoreError, Word, WorkerReport,
};
use rusqlite::Connection;

use crate::postgres::Schema;
use crate::zookeeper::Chroot;

/// A task that depends on others.
fn after(name: &str, deps: &[&str]) -> NewTask {
    let mut new = task(name);
    new.spec.deps = deps.iter().map(|dep| id(dep)).collect();
    new
}

/// Fills a store with something of every kind, and ends all sessions of engines.
async fn fill(store: Arc<dyn Store>) {
    let node = Node::over(Arc::clone(&store), "a").await;
    let mut odd = task("odd");
    odd.spec.title = "a\0b \u{10FFFF} ü".into();
    odd.spec.labels = vec!["x".into()];
    node.add(&[task("done"), task("fails"), task("waits"), task("lands"), task("lost"), odd]).await;
    node.add(&[after("met", &["done"]), after("skipped", &["fails"]), after("unmet", &["waits", "done"])])
        .await;
    node.finish("done").await;
    node.fail("fails").await;
    node.approve("lands").await;
    let parked = Outcome::Park { why: ParkReason::Environment, detail: "later".into(), until: at(99) };
    node.bring("met", parked).await;
    let prompt = |text: &str| NewPrompt {
        text: text.into(),
        by: "me".into(),
        beginning: "a".into(),
        queue: None,
        urgent: false,
    };
    for text in ["more", "and more"] {
        store.send(&id("waits"), &prompt(text), &RequestId::fresh(), at(5)).await.unwrap();
    }
    let gone = Node::over(Arc::clone(&store), "gone").await;
    let asked = ClaimRequest { limits: Some(ClaimLimits::default()), ..gone.asking_for("lost") };
    let claim = store.claim(&asked, at(6)).await.unwrap().unwrap();
    gone.start(&claim).await;
    let word = Word::Stuck("which database?".into());
    let report = WorkerReport { task: id("lost"), attempt: 1, token_hash: asked.token_hash, word };
    store.report(&report, &RequestId::fresh(), at(6)).await.unwrap();
    node.expire(&gone, None).await;
    store.elect("train:main", &node.session).await.unwrap().unwrap();
    for n in 0..3 {
        store.record_pass("gate", &Oid::sample(&format!("tree {n}")), at(n)).await.unwrap();
        store.take_turn(&AccountKey { profile: "p".into(), agent: format!("a{}", n % 2) }).await.unwrap();
    }
    let state = Limited::Spent { until: at(50) };
    let cooling = Cooling { limit: "5h".into(), state, why: "spent".into(), since: at(1) };
    store.cool(&AccountKey { profile: "p".into(), agent: "a0".into() }, &cooling).await.unwrap();
    for (key, value) in [("b", Some("1")), ("a", Some("1")), ("b", Some("2")), ("c", Some("x")), ("c", None)]
    {
        let write = ContextWrite {
            key: key.into(),
            value: value.map(Into::into),
            by: "me".into(),
            if_version: None,
            leader: None,
        };
        store.set_context(&write, &RequestId::fresh(), at(6)).await.unwrap();
    }
    store.put_document(&DocumentWrite::new("plan", "one", "{}"), at(7)).await.unwrap();
    let ada = MemberName::parse("Ada").unwrap();
    let session = SessionId::fresh("member");
    let member = NewMember {
        name: ada.clone(),
        role: "developer".parse().unwrap(),
        session: session.clone(),
        node: regatta_store::NodeInfo::of_beats("a", &ada),
        lease: None,
    };
    store.register(&member, at(8)).await.unwrap();
    let message = NewMessage {
        author: Author { name: MemberName::parse("user").unwrap(), authority: Authority::Outside },
        to: Recipients::One(ada),
        kind: MessageKind::Direct,
        text: "hello".into(),
        reply_to: None,
    };
    store.post(&message, &RequestId::fresh(), at(9)).await.unwrap();
    node.operate("odd", Operation::Cancel { by: "me".into() }).await.unwrap();
    store.close_session(&node.session, at(10)).await.unwrap();
}

fn movable(store: &Arc<dyn Store>) -> &dyn Transfer {
    store.transfer().unwrap()
}

async fn lines(store: &Arc<dyn Store>) -> Vec<u8> {
    let mut text = Vec::new();
    transfer::dump(store.as_ref(), &mut text).await.unwrap();
    let first = text.iter().position(|byte| *byte == b'\n').unwrap();
    text.split_off(first)
}

fn silent(_: transfer::Kind, _: u64) {}

async fn is_the_same_after_moving_there_and_back(there: Arc<dyn Store>) {
    let directory = tempfile::tempdir().unwrap();
    let open = |name: &str| -> Arc<dyn Store> {
        Arc::new(SqliteStore::open_marked(directory.path().join(name)).unwrap())
    };
    let (from, back) = (open("from"), open("back"));
    fill(Arc::clone(&from)).await;
    let before = lines(&from).await;
    let copied = transfer::copy(from.as_ref(), there.as_ref(), false, &silent).await.unwrap();
    let missing: Vec<_> =
        transfer::Kind::ALL.into_iter().filter(|kind| !copied.sums.contains_key(kind)).collect();
    assert_eq!(missing, [], "every kind is there");
    assert_eq!(String::from_utf8(lines(&there).await), String::from_utf8(before.clone()));
    // Writes to the source are refused by handles that were open before.
    let moved = from.take_turn(&AccountKey { profile: "p".into(), agent: "a".into() }).await;
    assert!(matches!(&moved, Err(StoreError::Refused(why)) if why.contains("has moved to")), "{moved:?}");
    transfer::copy(there.as_ref(), back.as_ref(), false, &silent).await.unwrap();
    assert_eq!(String::from_utf8(lines(&back).await), String::from_utf8(before));
    let moved = there.take_turn(&AccountKey { profile: "p".into(), agent: "a".into() }).await;
    assert!(matches!(&moved, Err(StoreError::Refused(why)) if why.contains("has moved to")), "{moved:?}");
    works_on(back).await;
}

/// The copy continues all numbers: what is added is as if nothing had been moved.
async fn works_on(copy: Arc<dyn Store>) {
    let node = Node::over(Arc::clone(&copy), "b").await;
    node.add(&[task("new")]).await;
    assert_eq!(copy.task(&id("new")).await.unwrap().seq, 10);
    assert_eq!(node.ready().await, ["waits", "lost", "new"]);
    assert_eq!(copy.briefs(&regatta_store::TaskQuery::default()).await.unwrap().len(), 10);
    assert_eq!(copy.cars("main").await.unwrap().len(), 1);
    assert_eq!(node.claim("lost").await.fence, 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_with_something_of_every_kind_is_the_same_after_moving_there_and_back() {
    is_the_same_after_moving_there_and_back(Schema::fresh(0).machine().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_is_the_same_after_moving_to_zookeeper_and_back() {
    is_the_same_after_moving_there_and_back(Chroot::fresh(0).machine().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_is_the_same_after_moving_to_three_zookeepers_and_back() {
    is_the_same_after_moving_there_and_back(Chroot::on_three().machine().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_moves_from_zookeeper_to_another_to_postgresql_and_back() {
    let chain: [Arc<dyn Store>; 5] = [
        Chroot::fresh(0).machine().await,
        Chroot::fresh(0).machine().await,
        Schema::fresh(0).machine().await,
        Chroot::on_three().machine().await,
        Chroot::fresh(0).machine().await,
    ];
    fill(Arc::clone(&chain[0])).await;
    let before = String::from_utf8(lines(&chain[0]).await);
    for pair in chain.windows(2) {
        transfer::copy(pair[0].as_ref(), pair[1].as_ref(), false, &silent).await.unwrap();
        assert_eq!(String::from_utf8(lines(&pair[1]).await), before);
        let moved = pair[0].take_turn(&AccountKey { profile: "p".into(), agent: "a".into() }).await;
        assert!(matches!(&moved, Err(StoreError::Refused(why)) if why.contains("has moved to")), "{moved:?}");
    }
    works_on(Arc::clone(&chain[4])).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_accepted_loss_makes_every_later_fence_and_term_higher() {
    let file = crate::fixture::File::fresh(0);
    for store in [file.machine().await, Schema::fresh(0).machine().await, Chroot::fresh(0).machine().await] {
        let node = Node::over(Arc::clone(&store), "a").await;
        node.add(&[task("t"), task("u")]).await;
        let claim = node.claim("t").await;
        let lander = store.elect("train:main", &node.session).await.unwrap().unwrap();
        assert_eq!((claim.fence, lander.term), (1, 1));
        let (era, ended) = transfer::accept_loss(store.as_ref(), at(20)).await.unwrap();
        assert_eq!((era, ended.len()), (1, 1));
        let late = node.settle(&claim, Outcome::Done { head: None }).await;
        assert!(matches!(late, Err(StoreError::SessionExpired | StoreError::Fenced(_))), "{late:?}");
        let next = Node::over(Arc::clone(&store), "b").await;
        assert_eq!(next.claim("t").await.fence, (1 << 32) + 1);
        assert_eq!(next.claim("u").await.fence, (1 << 32) + 1);
        let lander = store.elect("train:main", &next.session).await.unwrap().unwrap();
        assert_eq!(lander.term, (1 << 32) + 1);
        assert_eq!(store.elect("other", &next.session).await.unwrap().unwrap().term, (1 << 32) + 1);
        assert_eq!(transfer::accept_loss(store.as_ref(), at(21)).await.unwrap().0, 2);
        let checked = transfer::check(movable(&store)).await.unwrap();
        assert_eq!(checked.violations, []);
    }
}

/// A filled store in a file that no process has open.
async fn filled(directory: &Path) -> PathBuf {
    let path = directory.join("filled.db");
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&path).unwrap());
    fill(Arc::clone(&store)).await;
    let node = Node::over(Arc::clone(&store), "late").await;
    node.start(&node.claim("waits").await).await;
    drop((node, store));
    Connection::open(&path).unwrap().execute_batch("pragma wal_checkpoint(truncate)").unwrap();
    path
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_violation_is_found() {
    let directory = tempfile::tempdir().unwrap();
    let good = filled(directory.path()).await;
    let found = async |name: &str, sql: &str| {
        let path = directory.path().join(format!("{name}.db"));
        std::fs::copy(&good, &path).unwrap();
        Connection::open(&path).unwrap().execute_batch(sql).unwrap();
        let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&path).unwrap());
        let checked = transfer::check(movable(&store)).await.unwrap();
        let text = checked.violations.iter().map(|one| format!("{}: {}\n", one.record, one.problem));
        text.collect::<String>()
    };
    assert_eq!(found("good", "").await, "");
    let of = |task: &str| format!("(select seq from task where id = '{task}')");
    for (n, (sql, expected)) in [
        ("update session set node = '{}'".to_owned(), "its node cannot be read"),
        ("update session set ended = '[7]' where ended is not null".into(), "its ended cannot be read"),
        ("update role set session = 'nobody'".into(), "its session nobody does not exist"),
        ("update task set id = '..', folded = '..' where id = 'odd'".into(), "its id cannot be read"),
        ("update task set state = '7' where id = 'odd'".into(), "cannot be read"),
        ("update task set standing = '{\"state\":\"pending\"}' where id = 'lost'".into(), "remains valid cannot be pending"),
        ("update task set writes = '[7]' where id = 'lost'".into(), "its writes cannot be read"),
        (format!("delete from spec where task = {}", of("odd")), "task odd: it has no spec"),
        (format!("update spec set body = '{{}}' where task = {}", of("odd")), "its body cannot be read"),
        (format!("update spec set body = (select body from spec where task = {}) where task = {}", of("done"), of("odd")), "that of another task"),
        ("insert into spec(task, body) select 77, body from spec limit 1".into(), "its task #77 does not exist"),
        ("insert into dependency values(77, 1)".into(), "its task #77 does not exist"),
        (format!("insert into dependency values({}, 77)", of("odd")), "depends on #77, which does not exist"),
        ("update task set unmet = 5 where id = 'unmet'".into(), "waits for 5 dependencies, but 1 are not met"),
        ("update task set state = '{\"state\":\"pending\"}', name = 'pending', fate = 0 where id = 'skipped'".into(), "it is pending, but its dependency fails will never be met"),
        (format!("delete from dependency where child = {}; update task set unmet = 0 where id = 'skipped'", of("skipped")), "it is skipped because of fails, which is not dead"),
        ("update task set session = 'x' where id = 'odd'".into(), "it is cancelled, but session x holds it"),
        ("update task set session = null where id = 'waits'".into(), "it is running, but no session holds it"),
        ("update task set session = 'x' where id = 'waits'".into(), "session x holds it, which does not exist"),
        ("update session set ended = '[]'".into(), "holds it, which has ended"),
        ("update task set attempts = 0 where id = 'waits'".into(), "it is in attempt 1 of 0"),
        ("update task set attempts = 0 where id = 'waits'".into(), "the task has only 0 attempts"),
        ("delete from car".into(), "it is landing with 0 cars"),
        (format!("update car set task = {}", of("odd")), "it is cancelled, but has a car"),
        ("update car set step = '{\"x\":1}'".into(), "its step cannot be read"),
        ("update car set request = '{}'".into(), "its request cannot be read"),
        ("update attempt set body = '{}' where n = 1".into(), "its body cannot be read"),
        (format!("update attempt set n = 2 where task = {}", of("lost")), "that of another attempt"),
        ("insert into report values(77, 1, '{', null)".into(), "its statement cannot be read"),
        (format!("delete from prompt where n = 1 and task = {}", of("waits")), "prompt 1 is missing"),
        ("update prompt set state = 'eaten' where n = 2".into(), "its state cannot be \"eaten\""),
        ("update pass set tree = 'oak' where seq = 2".into(), "is no id of an object"),
        ("insert into cooling values('p', 'a0', 'x', '{}')".into(), "its body cannot be read"),
        ("update member set role = ''".into(), "its role cannot be read"),
        ("update member set name = '../x'".into(), "is not a valid name"),
        ("update member set session = 'x'".into(), "its session x does not exist"),
        ("update message set kind = '7'".into(), "its kind cannot be read"),
        ("update message set author = '/'".into(), "is not a valid name"),
        ("delete from message".into(), "message 1 does not exist"),
        ("insert into request values('r', 'x', 77)".into(), "its task #77 does not exist"),
        ("delete from event where seq = 3".into(), "the event before it is 2; 3 is missing"),
        ("update event set body = '7' where seq = 3".into(), "its body cannot be read"),
        ("update event set task = 77 where seq = 3".into(), "its task #77 does not exist"),
        ("update sqlite_sequence set seq = 3 where name = 'task'".into(), "the last number of tasks is 3, but 9 was given"),
        ("update sqlite_sequence set seq = 0 where name = 'message'".into(), "the last number of messages is 0"),
        ("update sqlite_sequence set seq = seq + 1 where name = 'event'".into(), "the last number of events is"),
        ("update task set name = 'landed' where id = 'odd'".into(), "task odd is filed under the state \"landed\""),
    ]
    .into_iter()
    .enumerate()
    {
        let found = found(&format!("bad{n}"), &sql).await;
        assert!(found.contains(expected), "{sql}: {found:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_counters_of_postgresql_and_the_marks_are_compared() {
    let store = Schema::fresh(0).machine().await;
    fill(Arc::clone(&store)).await;
    let other: Arc<dyn Store> = Schema::fresh(0).machine().await;
    let whole = movable(&store);
    assert_eq!(transfer::check(whole).await.unwrap().violations, []);
    // Only one process can begin a copy.
    let mark = Mark::Moving { to: "x".into() };
    whole.set_mark(None, Some(&mark)).await.unwrap();
    let again = whole.set_mark(None, Some(&mark)).await;
    assert!(matches!(again, Err(StoreError::Conflict(_))), "{again:?}");
    let held = store.open_session(&SessionId::fresh("late"), &node_info("late"), at(1)).await;
    assert!(
        matches!(&held, Err(StoreError::Refused(why)) if why.contains("is being moved to x")),
        "{held:?}"
    );
    transfer::copy(store.as_ref(), other.as_ref(), false, &silent).await.unwrap();
    let full = transfer::copy(other.as_ref(), store.as_ref(), false, &silent).await;
    assert!(matches!(&full, Err(StoreError::Refused(why)) if why.contains("has moved to")), "{full:?}");
}

/// Begins a copy and ends in the middle of it, when lines of this kind are there.
async fn left_at(wanted: transfer::Kind, from: &Arc<dyn Store>, to: &Arc<dyn Store>) {
    let (from, to) = (Arc::clone(from), Arc::clone(to));
    let dies = move |kind: transfer::Kind, _: u64| assert_ne!(kind, wanted, "as it should");
    let copying = tokio::spawn(async move {
        transfer::copy(from.as_ref(), to.as_ref(), true, &dies).await.unwrap();
    });
    assert!(copying.await.unwrap_err().is_panic());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_that_does_not_fit_its_changed_source_any_more_begins_again() {
    let directory = tempfile::tempdir().unwrap();
    let from: Arc<dyn Store> = Arc::new(SqliteStore::open_marked(directory.path().join("from")).unwrap());
    fill(Arc::clone(&from)).await;
    for (n, kind) in [transfer::Kind::Request, transfer::Kind::Event].into_iter().enumerate() {
        let file: Arc<dyn Store> =
            Arc::new(SqliteStore::open_marked(directory.path().join(kind.name())).unwrap());
        let network = [Schema::fresh(0).machine().await, Chroot::fresh(0).machine().await];
        for (m, to) in [file].into_iter().chain(network).enumerate() {
            left_at(kind, &from, &to).await;
            // Its request comes before those that were copied, and its event is of a task that was not.
            let new = task(&format!("late{n}{m}"));
            from.enqueue(&[new], &RequestId(format!("!{n}{m}")), at(30)).await.unwrap();
            let copied = transfer::copy(from.as_ref(), to.as_ref(), true, &silent).await.unwrap();
            assert!(copied.resumed);
            assert_eq!(String::from_utf8(lines(&to).await), String::from_utf8(lines(&from).await));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_load_that_fails_leaves_an_empty_store_and_one_that_was_left_makes_way_for_another() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("from");
    let from: Arc<dyn Store> = Arc::new(SqliteStore::open(&path).unwrap());
    fill(Arc::clone(&from)).await;
    let (mut good, mut bad) = (Vec::new(), Vec::new());
    transfer::dump(from.as_ref(), &mut good).await.unwrap();
    Connection::open(&path).unwrap().execute("update event set task = 77 where seq = 3", []).unwrap();
    transfer::dump(from.as_ref(), &mut bad).await.unwrap();
    let (good, bad) = (Arc::new(good), Arc::new(bad));
    let open = |name: &str| -> Arc<dyn Store> {
        Arc::new(SqliteStore::open_marked(directory.path().join(name)).unwrap())
    };
    for to in [open("to"), Schema::fresh(0).machine().await, Chroot::fresh(0).machine().await] {
        let refused = transfer::load(to.as_ref(), &|| Ok(&bad[..]), &silent).await;
        assert!(matches!(&refused, Err(StoreError::Invalid(_))), "{refused:?}");
        assert_eq!(movable(&to).mark().await.unwrap(), None);
        assert_eq!(to.last_seq().await.unwrap(), 0, "nothing is left");
        for taken_back in [true, false] {
            let (store, bad) = (Arc::clone(&to), Arc::clone(&bad));
            let dies = |kind: transfer::Kind, _: u64| assert_ne!(kind, transfer::Kind::Task, "as it should");
            let loading = tokio::spawn(async move {
                transfer::load(store.as_ref(), &|| Ok(&bad[..]), &dies).await.unwrap();
            });
            assert!(loading.await.unwrap_err().is_panic());
            assert!(movable(&to).mark().await.unwrap().is_some());
            if taken_back {
                transfer::undo(to.as_ref()).await.unwrap();
                assert_eq!(movable(&to).mark().await.unwrap(), None);
                assert_eq!(to.tasks(&regatta_store::TaskQuery::default()).await.unwrap(), []);
            }
        }
        transfer::load(to.as_ref(), &|| Ok(&good[..]), &silent).await.unwrap();
        assert_eq!(transfer::check(movable(&to)).await.unwrap().violations, []);
    }
    for to in [open("another"), Schema::fresh(0).machine().await, Chroot::fresh(0).machine().await] {
        left_at(transfer::Kind::Task, &from, &to).await;
        let other = transfer::load(to.as_ref(), &|| Ok(&good[..]), &silent).await;
        assert!(
            matches!(&other, Err(StoreError::Refused(why)) if why.contains("copy --undo")),
            "a copy of a store makes no way: {other:?}"
        );
        transfer::undo(to.as_ref()).await.unwrap();
        transfer::load(to.as_ref(), &|| Ok(&good[..]), &silent).await.unwrap();
        assert_eq!(transfer::check(movable(&to)).await.unwrap().violations, []);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_that_may_be_all_that_is_left_is_not_emptied() {
    let directory = tempfile::tempdir().unwrap();
    let open = |name: &str| -> Arc<dyn Store> {
        Arc::new(SqliteStore::open_marked(directory.path().join(name)).unwrap())
    };
    let (from, to) = (open("from"), open("to"));
    fill(Arc::clone(&from)).await;
    left_at(transfer::Kind::Counters, &from, &to).await;
    let refused = transfer::undo(to.as_ref()).await;
    assert!(
        matches!(&refused, Err(StoreError::Refused(why)) if why.contains("has every record")),
        "{refused:?}"
    );
    transfer::copy(from.as_ref(), to.as_ref(), false, &silent).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_keeps_its_mark_when_it_is_migrated() {
    let directory = tempfile::tempdir().unwrap();
    let migration = directory.path().join("migration.sql");
    let file = format!("sqlite:{}", directory.path().join("marked").display());
    let sql = "create table later(x bigint);";
    for (url, text) in [
        (file, sql),
        (regatta_testkit::postgres::Server::shared().url("marked_and_migrated"), sql),
        (regatta_testkit::zookeeper::Ensemble::shared().url("marked_and_migrated"), "create /later"),
    ] {
        std::fs::write(&migration, text).unwrap();
        let store = regatta_store::open_marked(&url).await.unwrap();
        let mark = Mark::Moving { to: "x".into() };
        movable(&store).set_mark(None, Some(&mark)).await.unwrap();
        let mut child = crate::child::command("migrate", Path::new(&url), 0);
        let done =
            child.env("REGATTA_TEST_MIGRATION", &migration).spawn().unwrap().wait_with_output().unwrap();
        assert!(done.status.success());
        let refused = regatta_store::open(&url).await.map(|store| store.describe());
        assert!(
            matches!(&refused, Err(StoreError::Refused(why)) if why.contains("is being moved to x")),
            "{refused:?}"
        );
        assert_eq!(movable(&store).mark().await.unwrap(), Some(mark));
    }
}
