//! What moving a store into ZooKeeper and out of it promises beyond the other backends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use regatta_core::crew::MemberName;
use regatta_core::oid::Oid;
use regatta_store::conformance::Fixture;
use regatta_store::conformance::node::{Node, at, id, task};
use regatta_store::sqlite::SqliteStore;
use regatta_store::transfer::{self, Kind, Mark, Transfer};
use regatta_store::zookeeper::ZookeeperStore;
use regatta_store::{
    Author, Authority, ContextQuery, ContextWrite, MessageKind, NewMember, NewMessage, Operation, Recipients,
    RequestId, SessionId, Store, StoreError, TaskQuery,
};
use regatta_testkit::zookeeper::Ensemble;
use rusqlite::Connection;
use zookeeper_client::Client;

use crate::zookeeper::Chroot;

fn movable(store: &Arc<dyn Store>) -> &dyn Transfer {
    store.transfer().unwrap()
}

fn silent(_: Kind, _: u64) {}

async fn lines(store: &Arc<dyn Store>) -> String {
    let mut text = Vec::new();
    transfer::dump(store.as_ref(), &mut text).await.unwrap();
    let text = String::from_utf8(text).unwrap();
    text.split_once('\n').unwrap().1.to_owned()
}

async fn sound(store: &Arc<dyn Store>) {
    assert_eq!(transfer::check(movable(store)).await.unwrap().violations, []);
}

async fn set(store: &Arc<dyn Store>, key: &str, value: &str) {
    let write = ContextWrite {
        key: key.into(),
        value: Some(value.into()),
        by: "me".into(),
        if_version: None,
        leader: None,
    };
    store.set_context(&write, &RequestId::fresh(), at(6)).await.unwrap();
}

/// A store in a file, in a directory that goes with the test.
fn file() -> (tempfile::TempDir, Arc<dyn Store>) {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open_marked(directory.path().join("from")).unwrap();
    (directory, Arc::new(store))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_order_of_cars_and_of_passed_trees_is_kept() {
    let (_directory, from) = file();
    let node = Node::over(Arc::clone(&from), "a").await;
    node.add(&[task("first"), task("second"), task("third")]).await;
    for name in ["third", "first", "second"] {
        node.approve(name).await;
    }
    let trees = ["c", "a", "b"].map(Oid::sample);
    for tree in &trees {
        from.record_pass("gate", tree, at(1)).await.unwrap();
    }
    from.close_session(&node.session, at(2)).await.unwrap();
    let to = Chroot::fresh(0).machine().await;
    transfer::copy(from.as_ref(), to.as_ref(), false, &silent).await.unwrap();
    let cars = to.cars("main").await.unwrap();
    let order: Vec<&str> = cars.iter().map(|car| car.task.as_str()).collect();
    assert_eq!(order, ["third", "first", "second"]);
    let newest: Vec<Oid> = trees.iter().rev().cloned().collect();
    assert_eq!(to.passes("gate").await.unwrap(), newest);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_of_the_context_are_numbered_after_those_that_were_copied() {
    let (directory, from) = file();
    for value in ["1", "2"] {
        set(&from, "a", value).await;
        set(&from, "b", value).await;
    }
    // More changes than an ensemble that is new has had transactions.
    let db = Connection::open(directory.path().join("from")).unwrap();
    db.execute("update context set change = change + 1000000000000", []).unwrap();
    let [first, second] = [Chroot::fresh(0).machine().await, Chroot::fresh(0).machine().await];
    transfer::copy(from.as_ref(), first.as_ref(), false, &silent).await.unwrap();
    let follows = async |store: &Arc<dyn Store>, after: u64| {
        let query = ContextQuery { prefix: String::new(), after: Some(after) };
        let changed = store.contexts(&query).await.unwrap();
        changed.into_iter().map(|entry| (entry.key, entry.value.unwrap(), entry.change)).collect::<Vec<_>>()
    };
    let seen = follows(&first, 0).await;
    assert_eq!(
        seen,
        [("a".into(), "2".into(), 1_000_000_000_003), ("b".into(), "2".into(), 1_000_000_000_004)]
    );
    assert_eq!(first.context("b").await.unwrap().unwrap().change, 1_000_000_000_004);
    set(&first, "a", &"long ".repeat(13_000)).await;
    set(&first, "a", "3").await;
    let later = follows(&first, 1_000_000_000_004).await;
    assert_eq!(later.len(), 1);
    assert_eq!((later[0].0.as_str(), later[0].1.as_str()), ("a", "3"));
    // A copy of the copy knows the same numbers.
    let before = lines(&first).await;
    transfer::copy(first.as_ref(), second.as_ref(), false, &silent).await.unwrap();
    assert_eq!(lines(&second).await, before);
    set(&second, "c", "4").await;
    assert_eq!(follows(&second, later[0].2).await.len(), 1);
    sound(&second).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_values_many_dependencies_and_many_pages_are_moved_and_can_be_changed_afterwards() {
    let (directory, from) = file();
    let node = Node::over(Arc::clone(&from), "a").await;
    let mut many: Vec<_> = (0..1200).map(|n| task(&format!("t{n}"))).collect();
    many[7].spec.prompt = "long ".repeat(120_000);
    node.add(&many).await;
    let mut last = task("last");
    last.spec.deps = (0..1200).map(|n| id(&format!("t{n}"))).collect();
    last.spec.deps.reverse();
    node.add(&[last]).await;
    set(&from, "long", &"ü".repeat(30_000)).await;
    from.close_session(&node.session, at(2)).await.unwrap();
    let before = lines(&from).await;
    let to = Chroot::fresh(0).machine().await;
    transfer::copy(from.as_ref(), to.as_ref(), false, &silent).await.unwrap();
    assert_eq!(lines(&to).await, before);
    set(&to, "long", "short").await;
    let node = Node::over(Arc::clone(&to), "b").await;
    node.operate("t7", Operation::Cancel { by: "me".into() }).await.unwrap();
    assert_eq!(node.state("last").await.name(), "skipped");
    sound(&to).await;
    to.close_session(&node.session, at(3)).await.unwrap();
    let back: Arc<dyn Store> = Arc::new(SqliteStore::open_marked(directory.path().join("back")).unwrap());
    transfer::copy(to.as_ref(), back.as_ref(), false, &silent).await.unwrap();
    assert_eq!(lines(&back).await, lines(&to).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_was_posted_before_the_move_is_not_posted_again() {
    let (_directory, from) = file();
    for name in ["Ada", "bob"] {
        let name = MemberName::parse(name).unwrap();
        let member = NewMember {
            name: name.clone(),
            role: "developer".parse().unwrap(),
            session: SessionId::fresh("member"),
            node: regatta_store::NodeInfo::of_beats("a", &name),
            lease: None,
        };
        from.register(&member, at(8)).await.unwrap();
    }
    let message = NewMessage {
        author: Author { name: MemberName::parse("user").unwrap(), authority: Authority::Outside },
        to: Recipients::Everybody,
        kind: MessageKind::Broadcast,
        text: "hello".into(),
        reply_to: None,
    };
    let request = RequestId::fresh();
    let posted = from.post(&message, &request, at(9)).await.unwrap();
    let to = Chroot::fresh(0).machine().await;
    transfer::copy(from.as_ref(), to.as_ref(), false, &silent).await.unwrap();
    assert_eq!(to.post(&message, &request, at(10)).await.unwrap(), posted);
    assert_eq!(to.correspondence(0, 10).await.unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_is_written_meanwhile_is_read_as_of_one_moment() {
    let fixture = Chroot::fresh(0);
    let store = fixture.machine().await;
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..3)
        .map(|n| {
            let (store, stop) = (Arc::clone(&store), Arc::clone(&stop));
            tokio::spawn(async move {
                let node = Node::over(store, &format!("w{n}")).await;
                let mut done = 0;
                while !stop.load(Ordering::Relaxed) {
                    let (one, other) = (format!("w{n}-{done}"), format!("w{n}-{done}-after"));
                    let mut after = task(&other);
                    after.spec.deps = vec![id(&one)];
                    node.add(&[task(&one), after]).await;
                    node.finish(&one).await;
                    node.approve(&other).await;
                    done += 1;
                }
                done
            })
        })
        .collect();
    let reader = fixture.machine().await;
    let mut sizes = Vec::new();
    for _ in 0..6 {
        let checked = transfer::check(movable(&reader)).await.unwrap();
        // What it finds wrong with entries is of another moment, and must be nothing as well.
        assert_eq!(checked.violations, []);
        sizes.push(checked.sums.get(&Kind::Event).map_or(0, |sum| sum.count));
    }
    stop.store(true, Ordering::Relaxed);
    for writer in writers {
        assert!(writer.await.unwrap() > 0);
    }
    assert!(sizes.first() < sizes.last(), "it was written meanwhile: {sizes:?}");
    // A copy that leaves the source in use either is right or says that the source was changed.
    let to = Chroot::fresh(0).machine().await;
    transfer::copy(reader.as_ref(), to.as_ref(), true, &silent).await.unwrap();
    assert_eq!(lines(&to).await, lines(&reader).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_continues_after_the_server_was_killed_in_the_middle() {
    let (_directory, from) = file();
    let node = Node::over(Arc::clone(&from), "a").await;
    for part in 0..4 {
        let some: Vec<_> = (0..600).map(|n| task(&format!("t{part}-{n}"))).collect();
        node.add(&some).await;
    }
    from.close_session(&node.session, at(2)).await.unwrap();
    let ensemble = Arc::new(Ensemble::start(1));
    let url = ensemble.url("moved");
    for kind in [Kind::Task, Kind::Spec, Kind::Event] {
        let to: Arc<dyn Store> = Arc::new(ZookeeperStore::open_marked(&url).await.unwrap());
        let (killed, server) = (AtomicBool::new(false), Arc::clone(&ensemble));
        let kills = move |now: Kind, done: u64| {
            if now == kind && done >= 1000 && !killed.swap(true, Ordering::Relaxed) {
                server.kill_leader();
            }
        };
        let lost = transfer::copy(from.as_ref(), to.as_ref(), false, &kills).await;
        assert!(matches!(lost, Err(StoreError::Unavailable(_))), "{lost:?}");
        // The source is as it was.
        assert_eq!(movable(&from).mark().await.unwrap(), None);
        ensemble.restart(0);
        let to = ZookeeperStore::open_marked(&url).await.unwrap();
        let mark = to.mark().await.unwrap();
        assert!(matches!(&mark, Some(Mark::Copying { kind: now, .. }) if *now == kind), "{mark:?}");
        let refused = ZookeeperStore::open(&url).await.err();
        assert!(
            matches!(&refused, Some(StoreError::Refused(why)) if why.contains("is an unfinished copy of")),
            "{refused:?}"
        );
    }
    let to: Arc<dyn Store> = Arc::new(ZookeeperStore::open_marked(&url).await.unwrap());
    let copied = transfer::copy(from.as_ref(), to.as_ref(), false, &silent).await.unwrap();
    assert!(copied.resumed);
    assert_eq!(lines(&to).await, lines(&from).await);
    assert_eq!(to.tasks(&TaskQuery { limit: 5, ..TaskQuery::default() }).await.unwrap().len(), 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_copies_into_one_node_do_not_mix() {
    let (_directory, from) = file();
    let node = Node::over(Arc::clone(&from), "a").await;
    node.add(&(0..1500).map(|n| task(&format!("t{n}"))).collect::<Vec<_>>()).await;
    let fixture = Chroot::fresh(0);
    let [one, other] = [fixture.machine().await, fixture.machine().await];
    let (first, second) = tokio::join!(
        transfer::copy(from.as_ref(), one.as_ref(), true, &silent),
        transfer::copy(from.as_ref(), other.as_ref(), true, &silent),
    );
    let is_conflict = |copied: &regatta_store::Result<transfer::Copied>| {
        matches!(copied, Err(StoreError::Conflict(_) | StoreError::Refused(_)))
    };
    assert!(first.is_ok() || is_conflict(&first), "{first:?}");
    assert!(second.is_ok() || is_conflict(&second), "{second:?}");
    if first.is_err() && second.is_err() {
        transfer::copy(from.as_ref(), one.as_ref(), true, &silent).await.unwrap();
    }
    assert_eq!(lines(&one).await, lines(&from).await);
    sound(&other).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entries_that_are_at_odds_with_their_records_are_found() {
    let url = Ensemble::shared().url("odds");
    let store: Arc<dyn Store> = Arc::new(ZookeeperStore::open(&url).await.unwrap());
    let node = Node::over(Arc::clone(&store), "a").await;
    let mut after = task("after");
    after.spec.deps = vec![id("t")];
    node.add(&[task("t"), after, task("gone")]).await;
    sound(&store).await;
    let client = Client::connect(&Ensemble::shared().hosts()).await.unwrap().chroot("/odds").unwrap();
    let delete = async |path: &str| client.delete(path, None).await.unwrap();
    let ready = client.list_children("/q/main/ready").await.unwrap();
    let of_t = ready.iter().find(|name| name.ends_with("~t")).unwrap();
    delete(&format!("/q/main/ready/{of_t}")).await;
    delete("/t/t/k~after").await;
    delete("/t/gone/spec").await;
    let found = transfer::check(movable(&store)).await.unwrap().violations;
    let found: Vec<String> = found.iter().map(|one| format!("{}: {}", one.record, one.problem)).collect();
    let expected = [
        "task gone: it has no spec".to_owned(),
        "the database: task after has no entry /t/t/k~after".into(),
        format!("the database: task t has no entry /q/main/ready/{of_t}"),
        "the database: the entry /t/gone/brief stands for no record".into(),
    ];
    assert_eq!(found, expected);
}
