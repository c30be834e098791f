//! What the PostgreSQL backend promises beyond the conformance suite.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use regatta_store::conformance::Fixture;
use regatta_store::conformance::node::{Node, at, id, task};
use regatta_store::faulty::Faulty;
use regatta_store::postgres::PostgresStore;
use regatta_store::{NewPrompt, RequestId, Result, Store, StoreError, TaskQuery};

use regatta_testkit::postgres::Server;

/// A schema of its own in the server of this test program.
pub(crate) struct Schema {
    url: String,
    percent: u64,
    machines: AtomicU64,
}

impl Schema {
    pub(crate) fn fresh(percent: u64) -> Self {
        static SCHEMAS: AtomicU64 = AtomicU64::new(0);
        let project = format!("t{}", SCHEMAS.fetch_add(1, Ordering::Relaxed));
        Self { url: Server::shared().url(&project), percent, machines: AtomicU64::new(1) }
    }
}

#[async_trait]
impl Fixture for Schema {
    async fn machine(&self) -> Arc<dyn Store> {
        let store = PostgresStore::open(&self.url).await.unwrap();
        match self.percent {
            0 => Arc::new(store),
            percent => Arc::new(Faulty::new(store, percent, self.machines.fetch_add(1, Ordering::Relaxed))),
        }
    }
}

/// A connection beside the store's own.
pub(crate) async fn client(server: &Server) -> tokio_postgres::Client {
    let (client, wire) = tokio_postgres::connect(&server.plain_url(), tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(wire);
    client
}

/// How long a test waits for what has to happen, on a busy machine too.
const LIMIT: Duration = Duration::from_secs(60);

/// Repeats a call while the store is unreachable, as its callers have to.
pub(crate) async fn persist<T, F: Future<Output = Result<T>>>(call: impl Fn() -> F) -> T {
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_acknowledged_task_is_lost_when_the_server_is_killed() {
    let server = Arc::new(Server::start());
    let store = Arc::new(PostgresStore::open(&server.url("killed")).await.unwrap());
    let done = Arc::new(AtomicU64::new(0));
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let (store, done) = (Arc::clone(&store), Arc::clone(&done));
            tokio::spawn(async move {
                for n in 0..60 {
                    let (new, request) = ([task(&format!("w{writer}-{n}"))], RequestId::fresh());
                    persist(|| store.enqueue(&new, &request, at(1))).await;
                    done.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    for round in 1..=3 {
        while done.load(Ordering::Relaxed) < round * 50 {
            tokio::task::yield_now().await;
        }
        let server = Arc::clone(&server);
        tokio::task::spawn_blocking(move || server.kill_and_restart()).await.unwrap();
    }
    for writer in writers {
        writer.await.unwrap();
    }
    let all = TaskQuery::default();
    let tasks = persist(|| store.tasks(&all)).await;
    assert_eq!(tasks.len(), 240);
    // A state and its event are one step, a repeated request is carried out once, and no number is missing.
    let events = store.events(0, None, usize::MAX).await.unwrap();
    assert_eq!(events.len(), 240);
    assert!(events.iter().zip(1..).all(|(event, seq)| event.seq == seq));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listener_that_was_cut_off_listens_again() {
    let schema = Schema::fresh(0);
    let (store, other) = (schema.machine().await, schema.machine().await);
    let mut changes = store.subscribe().await.unwrap();
    // Woken once it listens.
    changes.changed().await.unwrap();
    let client = client(Server::shared()).await;
    let name = schema.url.rsplit('=').next().unwrap().to_owned();
    let cut = "select count(pg_terminate_backend(pid)) from pg_stat_activity where query = $1";
    let cut: i64 = client.query_one(cut, &[&format!("listen regatta_{name}")]).await.unwrap().get(0);
    assert_eq!(cut, 1);
    // Woken because something may have been missed.
    tokio::time::timeout(LIMIT, changes.changed()).await.unwrap().unwrap();
    other.enqueue(&[task("t")], &RequestId::fresh(), at(1)).await.unwrap();
    tokio::time::timeout(LIMIT, changes.changed()).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_hangs_is_answered_within_its_limit() {
    let schema = Schema::fresh(0);
    let store = schema.machine().await;
    let client = client(Server::shared()).await;
    let name = schema.url.rsplit('=').next().unwrap().to_owned();
    client.batch_execute(&format!("begin; select * from regatta_{name}.project for update")).await.unwrap();
    let (request, started) = (RequestId::fresh(), Instant::now());
    let new = task("t");
    let held = store.enqueue(std::slice::from_ref(&new), &request, at(1)).await;
    assert!(matches!(held, Err(StoreError::Unavailable(_))), "{held:?}");
    assert!(started.elapsed() < Duration::from_secs(15), "{:?}", started.elapsed());
    // Reading goes on, and the same call succeeds later.
    assert_eq!(store.counts(None).await.unwrap(), []);
    client.batch_execute("rollback").await.unwrap();
    store.enqueue(std::slice::from_ref(&new), &request, at(1)).await.unwrap();
    assert_eq!(store.last_seq().await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_handles_that_race_for_200_tasks_none_gets_one_twice() {
    let schema = Schema::fresh(0);
    let (a, b) = (Node::join(&schema, "a").await, Node::join(&schema, "b").await);
    let tasks: Vec<_> = (0..200).map(|n| task(&format!("t{n}"))).collect();
    a.add(&tasks).await;
    let race = |node: Node| {
        tokio::spawn(async move {
            let mut taken = Vec::new();
            for n in 0..200 {
                let name = format!("t{n}");
                taken.extend(node.try_claim(&name).await.unwrap().map(|claim| (claim.task, claim.fence)));
            }
            taken
        })
    };
    let (x, y) = (race(a.clone()), race(b.clone()));
    let (x, y) = (x.await.unwrap(), y.await.unwrap());
    assert_eq!(x.len() + y.len(), 200);
    assert!(x.iter().chain(&y).all(|(_, fence)| *fence == 1));
    assert_eq!(a.store.claims_of(&a.session).await.unwrap().len(), x.len());
    assert_eq!(a.store.claims_of(&b.session).await.unwrap().len(), y.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_processes_may_create_the_schema_at_once() {
    let schema = Schema::fresh(0);
    let opened = (0..8).map(|_| {
        let url = schema.url.clone();
        tokio::spawn(async move { regatta_store::open(&url).await.unwrap() })
    });
    for (n, store) in opened.collect::<Vec<_>>().into_iter().enumerate() {
        let store = store.await.unwrap();
        store.enqueue(&[task(&format!("t{n}"))], &RequestId::fresh(), at(1)).await.unwrap();
    }
    let shown = schema.machine().await.describe();
    let (server, project) = shown.split_once('?').unwrap();
    assert!(server.starts_with("postgres://regatta@/") && project.starts_with("project="), "{shown}");
    assert!(!project.contains('&'), "{shown}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_went_back_in_time_is_unusable() {
    let server = Server::start();
    let store = PostgresStore::open(&server.url("back")).await.unwrap();
    for name in ["a", "b", "c"] {
        store.enqueue(&[task(name)], &RequestId::fresh(), at(1)).await.unwrap();
    }
    // As after a failover to a standby that had not got all of it.
    let client = client(&server).await;
    client.batch_execute("update regatta_back.project set event_seq = 1").await.unwrap();
    drop(client);
    let server = Arc::new(server);
    let restarting = Arc::clone(&server);
    tokio::task::spawn_blocking(move || restarting.kill_and_restart()).await.unwrap();
    let lost = loop {
        match store.counts(None).await {
            Err(StoreError::Corrupt(why)) => break why,
            Err(StoreError::Unavailable(_)) => tokio::task::yield_now().await,
            other => panic!("{other:?}"),
        }
    };
    assert!(lost.contains("lost events 2..3") && lost.contains("regatta store accept-loss"), "{lost}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_would_lose_or_change_what_it_stores_is_refused() {
    let server = Server::shared();
    let client = client(server).await;
    client.batch_execute("create role hasty superuser login").await.unwrap();
    client.batch_execute("alter role hasty set synchronous_commit = off").await.unwrap();
    client.batch_execute("create database bytes template template0 encoding 'SQL_ASCII'").await.unwrap();
    let url = server.url("refused");
    for (url, why) in [
        (url.replace("regatta@", "hasty@"), "synchronous_commit=off"),
        (url.replace("/postgres?", "/bytes?"), "SQL_ASCII"),
        (url.replace("/postgres?", "/nowhere?"), "does not exist"),
    ] {
        let refused = regatta_store::open(&url).await.map(|store| store.describe());
        assert!(matches!(&refused, Err(StoreError::Invalid(text)) if text.contains(why)), "{refused:?}");
    }
    let away = regatta_store::open("postgres://me@127.0.0.1:1/x?sslmode=disable").await;
    let away = away.map(|store| store.describe());
    assert!(matches!(&away, Err(StoreError::Unavailable(text)) if text.contains("127.0.0.1:1")), "{away:?}");
    // A schema that another program has filled, and one of a newer version.
    client.batch_execute("create schema regatta_theirs; create table regatta_theirs.x()").await.unwrap();
    let theirs = regatta_store::open(&server.url("theirs")).await.map(|store| store.describe());
    assert!(
        matches!(&theirs, Err(StoreError::Corrupt(text)) if text.contains("other program")),
        "{theirs:?}"
    );
    regatta_store::open(&server.url("newer")).await.unwrap();
    client.batch_execute("update regatta_newer.project set schema = 99").await.unwrap();
    // It only added something.
    regatta_store::open(&server.url("newer")).await.unwrap();
    client.batch_execute("update regatta_newer.project set oldest_program = 7").await.unwrap();
    let newer = regatta_store::open(&server.url("newer")).await.map(|store| store.describe());
    assert!(matches!(&newer, Err(StoreError::Corrupt(text)) if text.contains("newer Regatta")), "{newer:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn text_that_postgresql_cannot_hold_comes_back() {
    let schema = Schema::fresh(0);
    let node = Node::join(&schema, "a").await;
    let odd = "a\0b \u{10FFFF} \u{10FFFF}0";
    let mut new = task("odd");
    new.spec.title = odd.into();
    node.add(&[new]).await;
    let prompt =
        NewPrompt { text: odd.into(), by: odd.into(), beginning: "a".into(), queue: None, urgent: false };
    node.store.send(&id("odd"), &prompt, &RequestId::fresh(), at(1)).await.unwrap();
    let told = node.store.prompts(&id("odd")).await.unwrap();
    assert_eq!((told[0].text.as_str(), told[0].by.as_str()), (odd, odd));
    let listed = node.store.briefs(&TaskQuery::default()).await.unwrap();
    assert_eq!(listed[0].title, odd);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_is_used_and_checked_as_the_address_says() {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let settings = format!("listen_addresses = '127.0.0.1'\nport = {port}\nssl = on\n");
    let _server = Server::start_with(&[
        ("postgresql.conf", &settings),
        // Over the network only with TLS.
        ("pg_hba.conf", "hostssl all all 127.0.0.1/32 trust\n"),
        ("server.crt", &made.cert.pem()),
        ("server.key", &made.signing_key.serialize_pem()),
    ]);
    let directory = tempfile::tempdir().unwrap();
    let roots = directory.path().join("roots.pem");
    std::fs::write(&roots, made.cert.pem()).unwrap();
    let roots = roots.display();
    let open = async |host: &str, parameters: String| {
        let url = format!("postgres://regatta@{host}:{port}/postgres?{parameters}");
        regatta_store::open(&url).await.map(|store| store.describe())
    };
    let plain = open("localhost", "sslmode=disable".into()).await;
    assert!(matches!(&plain, Err(StoreError::Invalid(why)) if why.contains("no encryption")), "{plain:?}");
    open("localhost", "sslmode=require".into()).await.unwrap();
    open("localhost", String::new()).await.unwrap();
    open("localhost", format!("sslmode=verify-full&sslrootcert={roots}")).await.unwrap();
    let other_host = open("127.0.0.1", format!("sslmode=verify-full&sslrootcert={roots}")).await;
    assert!(other_host.is_err(), "{other_host:?}");
    let unknown = open("localhost", "sslmode=verify-full".into()).await;
    assert!(unknown.is_err(), "{unknown:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_is_sent_over_a_connection_that_is_bound_to_it() {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let settings = format!("listen_addresses = '127.0.0.1'\nport = {port}\nssl = on\n");
    let server = Server::start_with(&[
        ("postgresql.conf", &settings),
        (
            "pg_hba.conf",
            "local all all trust\nhostssl all by_md5 127.0.0.1/32 password\nhostssl all all 127.0.0.1/32 scram-sha-256\n",
        ),
        ("server.crt", &made.cert.pem()),
        ("server.key", &made.signing_key.serialize_pem()),
    ]);
    let directory = tempfile::tempdir().unwrap();
    let roots = directory.path().join("roots.pem");
    std::fs::write(&roots, made.cert.pem()).unwrap();
    let owner = server.plain_url().replace("/postgres", &format!(":{port}/postgres"));
    let (client, connection) = tokio_postgres::connect(&owner, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let roles = "alter role regatta password 'right'; create role by_md5 superuser login password 'right'";
    client.batch_execute(roles).await.unwrap();
    let open = async |user: &str, more: &str| {
        let roots = roots.display();
        let url = format!(
            "postgres://{user}@localhost:{port}/postgres?sslmode=verify-full&sslrootcert={roots}{more}"
        );
        regatta_store::open(&url).await.map(|store| store.describe()).map_err(|error| error.to_string())
    };
    open("regatta:right", "").await.unwrap();
    open("regatta:wrong", "").await.unwrap_err();
    // A server that asks for the password itself does not get it.
    open("by_md5:right", "").await.unwrap_err();
    open("by_md5:right", "&channel_binding=prefer").await.unwrap();
}
