//! What the ZooKeeper backend promises beyond the conformance suite.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use regatta_core::id::TaskId;
use regatta_store::conformance::Fixture;
use regatta_store::conformance::node::{Node, at, id, task};
use regatta_store::faulty::Faulty;
use regatta_store::zookeeper::ZookeeperStore;
use regatta_store::{DocumentWrite, NewTask, Operation, RequestId, Result, Store, StoreError, TaskQuery};
use regatta_testkit::zookeeper::Ensemble;
use zookeeper_client::{Acls, Client, CreateMode};

/// A node of its own in the servers of this test program.
pub(crate) struct Chroot {
    url: String,
    percent: u64,
    machines: AtomicU64,
}

impl Chroot {
    /// On one server, behind a network that loses so much.
    pub(crate) fn fresh(percent: u64) -> Self {
        Self { percent, ..Self::on(Ensemble::shared()) }
    }

    /// On three servers.
    pub(crate) fn on_three() -> Self {
        Self::on(Ensemble::shared_three())
    }

    fn on(ensemble: &Ensemble) -> Self {
        static NODES: AtomicU64 = AtomicU64::new(0);
        let url = ensemble.url(&format!("t{}", NODES.fetch_add(1, Ordering::Relaxed)));
        Self { url, percent: 0, machines: AtomicU64::new(1) }
    }
}

#[async_trait]
impl Fixture for Chroot {
    async fn machine(&self) -> Arc<dyn Store> {
        let store = ZookeeperStore::open(&self.url).await.unwrap();
        match self.percent {
            0 => Arc::new(store),
            percent => Arc::new(Faulty::new(store, percent, self.machines.fetch_add(1, Ordering::Relaxed))),
        }
    }
}

/// How long a test waits for what has to happen, on a busy machine too.
const LIMIT: Duration = Duration::from_secs(60);

/// Repeats a call while the store is unreachable, as its callers have to.
async fn persist<T, F: Future<Output = Result<T>>>(call: impl Fn() -> F) -> T {
    let started = Instant::now();
    loop {
        match call().await {
            Err(StoreError::Unavailable(why)) => {
                assert!(started.elapsed() < LIMIT, "the store stays away: {why}");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            answer => return answer.unwrap(),
        }
    }
}

/// Eight writers over two handles, while the leader is killed and started again.
async fn no_acknowledged_task_is_lost(ensemble: Arc<Ensemble>) {
    const WRITERS: u64 = 8;
    const TASKS: u64 = 30;
    let url = ensemble.url("killed");
    let stores = [ZookeeperStore::open(&url).await.unwrap(), ZookeeperStore::open(&url).await.unwrap()];
    let stores = stores.map(Arc::new);
    let done = Arc::new(AtomicU64::new(0));
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (store, done) = (Arc::clone(&stores[usize::from(writer % 2 == 0)]), Arc::clone(&done));
            tokio::spawn(async move {
                for n in 0..TASKS {
                    let (new, request) = ([task(&format!("w{writer}-{n}"))], RequestId::fresh());
                    persist(|| store.enqueue(&new, &request, at(1))).await;
                    done.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    for round in 1..=2 {
        while done.load(Ordering::Relaxed) < round * WRITERS * TASKS / 4 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let ensemble = Arc::clone(&ensemble);
        tokio::task::spawn_blocking(move || ensemble.restart(ensemble.kill_leader())).await.unwrap();
    }
    for writer in writers {
        writer.await.unwrap();
    }
    let all = TaskQuery::default();
    let tasks = persist(|| stores[0].tasks(&all)).await;
    assert_eq!(tasks.len() as u64, WRITERS * TASKS);
    // A state and its event are one step, a repeated request is carried out once, and no number is missing.
    let events = persist(|| stores[1].events(0, None, usize::MAX)).await;
    assert_eq!(events.len() as u64, WRITERS * TASKS);
    assert!(events.iter().zip(1..).all(|(event, seq)| event.seq == seq));
    let mut names: Vec<&TaskId> = events.iter().filter_map(|event| event.task.as_ref()).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len() as u64, WRITERS * TASKS);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_when_the_server_is_killed() {
    let ensemble = tokio::task::spawn_blocking(|| Arc::new(Ensemble::start(1))).await.unwrap();
    no_acknowledged_task_is_lost(ensemble).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_when_the_leader_of_three_is_killed() {
    let ensemble = tokio::task::spawn_blocking(|| Arc::new(Ensemble::start(3))).await.unwrap();
    no_acknowledged_task_is_lost(ensemble).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listener_that_was_cut_off_listens_again() {
    let ensemble = tokio::task::spawn_blocking(|| Arc::new(Ensemble::start(1))).await.unwrap();
    let chroot = Chroot::on(&ensemble);
    let (store, other) = (chroot.machine().await, chroot.machine().await);
    let mut changes = store.subscribe().await.unwrap();
    // Woken once it listens.
    changes.changed().await.unwrap();
    other.enqueue(&[task("a")], &RequestId::fresh(), at(1)).await.unwrap();
    tokio::time::timeout(LIMIT, changes.changed()).await.unwrap().unwrap();
    let restarting = Arc::clone(&ensemble);
    tokio::task::spawn_blocking(move || restarting.restart(restarting.kill_leader())).await.unwrap();
    // Woken because something may have been missed.
    tokio::time::timeout(LIMIT, changes.changed()).await.unwrap().unwrap();
    let (new, request) = ([task("b")], RequestId::fresh());
    persist(|| other.enqueue(&new, &request, at(1))).await;
    tokio::time::timeout(LIMIT, changes.changed()).await.unwrap().unwrap();
}

fn chain(count: usize, long: &str) -> Vec<NewTask> {
    let chained = |n: usize| {
        let mut new = task(&format!("c{n}"));
        new.spec.title = long.into();
        new.spec.deps = (n > 0).then(|| id(&format!("c{}", n - 1))).into_iter().collect();
        new
    };
    (0..count).map(chained).collect()
}

/// Each reader sees all of a long plan or nothing of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_sees_half_of_a_long_plan() {
    const COUNT: usize = 700;
    let chroot = Chroot::fresh(0);
    let (store, reader) = (chroot.machine().await, chroot.machine().await);
    let reading = tokio::spawn(async move {
        let (mut seen, all) = (Vec::new(), TaskQuery::default());
        loop {
            let counts = persist(|| reader.counts(None)).await;
            let count: u64 = counts.iter().map(|(_, count)| count).sum();
            let events = persist(|| reader.last_seq()).await;
            let listed = persist(|| reader.briefs(&all)).await.len();
            if seen.last() != Some(&(count, events, listed)) {
                seen.push((count, events, listed));
            }
            if events >= 2 * COUNT as u64 {
                return seen;
            }
        }
    });
    let (new, queued, cancelled) = (chain(COUNT, &"x".repeat(900)), RequestId::fresh(), RequestId::fresh());
    persist(|| store.enqueue(&new, &queued, at(1))).await;
    let (first, cancel) = (id("c0"), Operation::Cancel { by: "me".into() });
    persist(|| store.operate(&first, &cancel, &cancelled, at(2))).await;
    let seen = tokio::time::timeout(LIMIT, reading).await.unwrap().unwrap();
    let whole = |n: u64| n == 0 || n == COUNT as u64;
    for (count, events, listed) in seen {
        assert!(
            whole(count) && whole(events % (2 * COUNT as u64)) && whole(listed as u64),
            "{count} {events} {listed}"
        );
    }
}

/// A plan whose owner ended in the middle is finished by the next who comes along.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_plan_that_was_left_in_the_middle_is_finished_by_others() {
    const COUNT: usize = 700;
    let chroot = Chroot::fresh(0);
    let (new, request) = (chain(COUNT, &"x".repeat(900)), RequestId::fresh());
    for millis in [5, 20, 40, 60, 90, 120, 200] {
        let store = chroot.machine().await;
        // It listens: nodes of its own are gone with its client.
        store.subscribe().await.unwrap().changed().await.unwrap();
        // Given up after a moment, wherever it is by then; its client goes with it.
        let limit = Duration::from_millis(millis);
        let _cut_off = tokio::time::timeout(limit, store.enqueue(&new, &request, at(1))).await;
        drop(store);
        let next = chroot.machine().await;
        let count = persist(|| next.counts(None)).await;
        assert!(count.is_empty() || count[0].1 == COUNT as u64, "{count:?}");
    }
    let store = chroot.machine().await;
    persist(|| store.enqueue(&new, &request, at(1))).await;
    let events = persist(|| store.events(0, None, usize::MAX)).await;
    assert_eq!(events.len(), COUNT);
    let all = TaskQuery::default();
    assert_eq!(persist(|| store.tasks(&all)).await.len(), COUNT);
}

/// A plan as an earlier version wrote it: it rings its owner's own bell, which is gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_plan_whose_owner_and_its_bell_are_gone_is_finished_by_others() {
    let chroot = Chroot::fresh(0);
    drop(chroot.machine().await);
    let client = Client::connect(&Ensemble::shared().hosts()).await.unwrap();
    let client = client.chroot(format!("/{}", chroot.url.rsplit('/').next().unwrap())).unwrap();
    let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
    client.create("/plans/left", b"", &options).await.unwrap();
    let part = "s 12 0 -1\n/bell/g~deads 12 0 -1\n/bell/d~deadc 5 4 -1\n/lefthere";
    client.create("/plans/left/000000", part.as_bytes(), &options).await.unwrap();
    client.set_data("/gate", b"/plans/left 1 0", None).await.unwrap();
    let store = chroot.machine().await;
    let (new, request) = ([task("t")], RequestId::fresh());
    persist(|| store.enqueue(&new, &request, at(1))).await;
    assert_eq!(client.get_data("/left").await.unwrap().0, b"here");
    assert_eq!(client.get_data("/plans/left").await.unwrap().0, b"done");
    assert!(client.get_data("/gate").await.unwrap().0.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_values_come_back_and_too_long_ones_are_refused() {
    let chroot = Chroot::fresh(0);
    let node = Node::join(&chroot, "a").await;
    let mut new = task("long");
    // Longer than one request may be.
    new.spec.prompt = "ü".repeat(450_000);
    node.add(std::slice::from_ref(&new)).await;
    assert_eq!(node.store.task(&id("long")).await.unwrap().spec, new.spec);
    let document = DocumentWrite::new("kind", "id", "x".repeat(200_000));
    node.store.put_document(&document, at(1)).await.unwrap();
    let shorter = DocumentWrite::new("kind", "id", "y".repeat(100_000));
    node.store.put_document(&shorter, at(1)).await.unwrap();
    assert_eq!(node.store.document("kind", "id").await.unwrap().unwrap().body, "y".repeat(100_000));
    node.store.put_document(&DocumentWrite::deletion("kind", "id"), at(1)).await.unwrap();
    // What replaced and deleted values were kept in is gone; what the task is kept in is not.
    let client = Client::connect(&Ensemble::shared().hosts()).await.unwrap();
    let blobs = format!("/{}/blobs", chroot.url.rsplit('/').next().unwrap());
    assert_eq!(client.list_children(&blobs).await.unwrap().len(), 2);
    let mut longer = task("longer");
    longer.spec.prompt = "x".repeat(1_200_000);
    let refused = node.store.enqueue(&[longer], &RequestId::fresh(), at(1)).await;
    assert!(matches!(&refused, Err(StoreError::Invalid(why)) if why.contains("900 KiB")), "{refused:?}");
    assert!(node.store.task(&id("longer")).await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_of_5000_tasks_is_queued_at_once() {
    let chroot = Chroot::fresh(0);
    let node = Node::join(&chroot, "a").await;
    let tasks: Vec<_> = (0..5000).map(|n| task(&format!("t{n}"))).collect();
    let request = RequestId::fresh();
    // On a busy machine it may take longer than one call may.
    persist(|| node.store.enqueue(&tasks, &request, at(1))).await;
    assert_eq!(node.store.counts(None).await.unwrap().iter().map(|(_, count)| count).sum::<u64>(), 5000);
    assert_eq!(node.store.ready("main", None, 10_000).await.unwrap().len(), 5000);
    assert_eq!(node.store.events(0, None, usize::MAX).await.unwrap().len(), 5000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_processes_may_create_the_store_at_once() {
    let chroot = Chroot::fresh(0);
    let opened = (0..8).map(|_| {
        let url = chroot.url.clone();
        tokio::spawn(async move { regatta_store::open(&url).await.unwrap() })
    });
    for (n, store) in opened.collect::<Vec<_>>().into_iter().enumerate() {
        let store = store.await.unwrap();
        store.enqueue(&[task(&format!("t{n}"))], &RequestId::fresh(), at(1)).await.unwrap();
    }
    assert_eq!(chroot.machine().await.describe(), chroot.url);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_a_store_is_refused() {
    let ensemble = Ensemble::shared();
    let refused =
        async |url: String| regatta_store::open(&url).await.map(|store| store.describe()).unwrap_err();
    let away = refused("zk://127.0.0.1:1/x".into()).await;
    assert!(matches!(&away, StoreError::Unavailable(why) if why.contains("127.0.0.1:1")), "{away:?}");
    let far = refused("zk://zoo.example/x".into()).await;
    assert!(matches!(&far, StoreError::Invalid(why) if why.contains("plain=true")), "{far:?}");
    let client = Client::connect(&ensemble.hosts()).await.unwrap();
    let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
    client.mkdir("/theirs/things", &options).await.unwrap();
    let theirs = refused(ensemble.url("theirs")).await;
    assert!(matches!(&theirs, StoreError::Corrupt(why) if why.contains("another program")), "{theirs:?}");
    regatta_store::open(&ensemble.url("newer")).await.unwrap();
    client.set_data("/newer/schema", b"99", None).await.unwrap();
    // It only added something.
    regatta_store::open(&ensemble.url("newer")).await.unwrap();
    client.set_data("/newer/oldest-program", b"7", None).await.unwrap();
    let newer = refused(ensemble.url("newer")).await;
    let StoreError::Corrupt(why) = &newer else { panic!("{newer:?}") };
    assert!(why.contains("written by a newer Regatta (schema 99, for program 7 or newer"), "{why}");
    assert!(why.contains("this is program 1; upgrade Regatta on "), "{why}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_with_a_password_is_closed_to_others() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        format!("?auth_file={}", path.display())
    };
    let url = Ensemble::shared().url("closed");
    let ours = regatta_store::open(&format!("{url}{}", file("ours", "me:secret\n"))).await.unwrap();
    ours.enqueue(&[task("t")], &RequestId::fresh(), at(1)).await.unwrap();
    assert_eq!(ours.describe(), url);
    // What is copied is closed to others as well.
    let copy = Ensemble::shared().url("closed-copy");
    let there = regatta_store::open(&format!("{copy}{}", file("ours", "me:secret\n"))).await.unwrap();
    regatta_store::transfer::copy(ours.as_ref(), there.as_ref(), true, &|_, _| {}).await.unwrap();
    let client = Client::connect(&Ensemble::shared().hosts()).await.unwrap();
    for path in ["/closed-copy/t/t", "/closed-copy/t/t/spec", "/closed-copy/events/e-0000000000"] {
        let read = client.get_data(path).await;
        assert!(matches!(read, Err(zookeeper_client::Error::NoAuth)), "{path}: {read:?}");
    }
    for other in [String::new(), file("theirs", "me:guess\n")] {
        let refused = regatta_store::open(&format!("{url}{other}")).await.map(|store| store.describe());
        assert!(
            matches!(&refused, Err(StoreError::Refused(why)) if why.contains("auth_file")),
            "{refused:?}"
        );
    }
}
