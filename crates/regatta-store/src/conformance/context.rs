//! The shared context.

use super::Fixture;
use super::member::join;
use super::node::{Node, at};
use crate::{
    ContextQuery, ContextWrite, LEADER_ROLE, MAX_CONTEXT_KEY, MAX_CONTEXT_VALUE, RequestId, Result, Store,
    StoreError,
};

fn write(key: &str, value: Option<&str>, if_version: Option<u64>) -> ContextWrite {
    let value = value.map(str::to_owned);
    ContextWrite { key: key.to_owned(), value, if_version, leader: None, by: "me".to_owned() }
}

async fn set(store: &dyn Store, write: &ContextWrite) -> Result<u64> {
    store.set_context(write, &RequestId::fresh(), at(1)).await
}

pub async fn versions_grow_and_deletions_count(fixture: &dyn Fixture) {
    let store = fixture.machine().await;
    let store = store.as_ref();
    assert_eq!(store.context("k").await.unwrap(), None);
    assert_eq!(set(store, &write("k", Some("a"), None)).await.unwrap(), 1);
    assert_eq!(set(store, &write("k", Some("b"), Some(1))).await.unwrap(), 2);
    let entry = store.context("k").await.unwrap().unwrap();
    assert_eq!((entry.value.as_deref(), entry.version, entry.by.as_str()), (Some("b"), 2, "me"));
    for stale in [0, 1, 3] {
        let refused = set(store, &write("k", Some("c"), Some(stale))).await;
        assert!(matches!(refused, Err(StoreError::Conflict(_))), "{refused:?}");
    }
    assert_eq!(set(store, &write("k", None, Some(2))).await.unwrap(), 3);
    assert_eq!(store.context("k").await.unwrap(), None);
    let refused = set(store, &write("k", Some("c"), Some(3))).await;
    assert!(matches!(refused, Err(StoreError::Conflict(_))), "what is deleted is not there: {refused:?}");
    assert_eq!(set(store, &write("k", Some("c"), Some(0))).await.unwrap(), 4);
}

pub async fn a_repeated_write_is_one_version(fixture: &dyn Fixture) {
    let store = fixture.machine().await;
    let (first, second) = (RequestId::fresh(), RequestId::fresh());
    let one = write("k", Some("a"), Some(0));
    assert_eq!(store.set_context(&one, &first, at(1)).await.unwrap(), 1);
    assert_eq!(store.set_context(&write("k", Some("b"), None), &second, at(2)).await.unwrap(), 2);
    assert_eq!(store.set_context(&one, &first, at(3)).await.unwrap(), 1, "told the same, written once");
    assert_eq!(store.context("k").await.unwrap().unwrap().value.as_deref(), Some("b"));
}

pub async fn of_writers_that_compare_none_is_lost(fixture: &dyn Fixture) {
    const EACH: u64 = 10;
    let mut writers = Vec::new();
    for _ in 0..4 {
        let store = fixture.machine().await;
        writers.push(tokio::spawn(async move {
            let mut written = 0;
            while written < EACH {
                let entry = store.context("n").await.unwrap();
                let (version, n) = entry.map_or((0, 0), |entry| {
                    (entry.version, entry.value.unwrap_or_default().parse::<u64>().unwrap())
                });
                let next = write("n", Some(&(n + 1).to_string()), Some(version));
                match set(store.as_ref(), &next).await {
                    Ok(_) => written += 1,
                    Err(StoreError::Conflict(_)) => tokio::task::yield_now().await,
                    Err(error) => panic!("{error}"),
                }
            }
        }));
    }
    for writer in writers {
        writer.await.unwrap();
    }
    let entry = fixture.machine().await.context("n").await.unwrap().unwrap();
    assert_eq!((entry.value.as_deref(), entry.version), (Some("40"), 40));
}

pub async fn who_follows_changes_misses_no_key(fixture: &dyn Fixture) {
    let store = fixture.machine().await;
    let store = store.as_ref();
    for (key, value) in
        [("b/1", Some("x")), ("a", Some("y")), ("b/2", Some("z")), ("a", None), ("b/1", Some("w"))]
    {
        set(store, &write(key, value, None)).await.unwrap();
    }
    let keys = async |prefix: &str, after: Option<u64>| -> Vec<String> {
        let query = ContextQuery { prefix: prefix.to_owned(), after };
        let entries = store.contexts(&query).await.unwrap();
        entries.into_iter().map(|entry| format!("{} {:?}", entry.key, entry.value)).collect()
    };
    assert_eq!(keys("", None).await, ["b/1 Some(\"w\")", "b/2 Some(\"z\")"]);
    assert_eq!(keys("b/2", None).await, ["b/2 Some(\"z\")"]);
    assert_eq!(keys("", Some(0)).await, ["b/2 Some(\"z\")", "a None", "b/1 Some(\"w\")"]);
    let last = store.contexts(&ContextQuery { prefix: String::new(), after: Some(0) }).await.unwrap();
    let last = last.last().unwrap().change;
    assert!(keys("", Some(last)).await.is_empty());
    set(store, &write("c", Some("v"), None)).await.unwrap();
    assert_eq!(keys("", Some(last)).await, ["c Some(\"v\")"]);
}

pub async fn a_leader_that_was_replaced_writes_nothing(fixture: &dyn Fixture) {
    let tom = join(fixture, "Tom", "leader").await;
    let judge = Node::join(fixture, "judge").await;
    let store = judge.store.as_ref();
    let old = store.holder(LEADER_ROLE).await.unwrap();
    let as_leader = |leader| ContextWrite { leader, ..write("plan", Some("x"), None) };
    assert_eq!(set(store, &as_leader(old.clone())).await.unwrap(), 1);
    judge.expire(&tom, None).await;
    assert!(set(store, &as_leader(old.clone())).await.is_err());
    let _ann = join(fixture, "Ann", "leader").await;
    assert!(set(store, &as_leader(old)).await.is_err());
    let new = store.holder(LEADER_ROLE).await.unwrap();
    assert_eq!(set(store, &as_leader(new)).await.unwrap(), 2);
}

pub async fn what_is_too_long_is_refused(fixture: &dyn Fixture) {
    let store = fixture.machine().await;
    let store = store.as_ref();
    let (key, value) = ("k".repeat(MAX_CONTEXT_KEY), "v".repeat(MAX_CONTEXT_VALUE));
    assert_eq!(set(store, &write(&key, Some(&value), None)).await.unwrap(), 1);
    for wrong in [
        write(&format!("{key}k"), Some("v"), None),
        write("", Some("v"), None),
        write("a\nb", Some("v"), None),
        write("k", Some(&format!("{value}v")), None),
    ] {
        let refused = set(store, &wrong).await;
        assert!(matches!(refused, Err(StoreError::Invalid(_))), "{refused:?}");
    }
    assert_eq!(store.contexts(&ContextQuery::default()).await.unwrap().len(), 1);
}
