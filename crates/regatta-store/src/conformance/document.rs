//! Documents that machines leave for each other.

use super::Fixture;
use super::node::{Node, at};
use crate::{Document, DocumentWrite, LOG_PIECE, MAX_DOCUMENT, Result, STATUS, Store, StoreError};

async fn put(store: &dyn Store, write: DocumentWrite) -> Result<u64> {
    store.put_document(&write, at(1)).await
}

fn node(body: &str) -> DocumentWrite {
    DocumentWrite::new("node", "n1", body)
}

pub async fn a_document_is_written_compared_and_deleted(fixture: &dyn Fixture) {
    let store = fixture.machine().await;
    let store = store.as_ref();
    assert_eq!(store.document("node", "n1").await.unwrap(), None);
    assert_eq!(put(store, node("a").at_version(0)).await.unwrap(), 1);
    assert_eq!(put(store, node("b").at_version(1)).await.unwrap(), 2);
    let found = store.document("node", "n1").await.unwrap();
    assert_eq!(found, Some(Document { id: "n1".into(), body: "b".into(), version: 2, at: at(1) }));
    for stale in [0, 1, 3] {
        let refused = put(store, node("c").at_version(stale)).await;
        assert!(matches!(refused, Err(StoreError::Conflict(_))), "{refused:?}");
    }
    assert_eq!(put(store, node("b").at_version(0)).await.unwrap(), 2, "what it says already is accepted");
    assert_eq!(put(store, node("c")).await.unwrap(), 3);
    assert_eq!(put(store, DocumentWrite::deletion("node", "n1")).await.unwrap(), 0);
    assert_eq!(put(store, DocumentWrite::deletion("node", "n1")).await.unwrap(), 0);
    assert_eq!(store.document("node", "n1").await.unwrap(), None);
    assert_eq!(put(store, node("d").at_version(0)).await.unwrap(), 1, "it starts over");
}

pub async fn documents_are_listed_by_kind_and_prefix(fixture: &dyn Fixture) {
    let store = fixture.machine().await;
    let names = ["a/1", "a/10", "a/2", "a_", "b", "ä/%", "A/1"];
    for name in names {
        put(store.as_ref(), DocumentWrite::new("log", name, format!("of {name}"))).await.unwrap();
    }
    put(store.as_ref(), DocumentWrite::new("logs", "a/3", "other")).await.unwrap();
    for (prefix, expected) in [
        ("a/", vec!["a/1", "a/10", "a/2"]),
        ("", vec!["A/1", "a/1", "a/10", "a/2", "a_", "b", "ä/%"]),
        ("a_", vec!["a_"]),
        ("ä", vec!["ä/%"]),
        ("%", vec![]),
        ("c", vec![]),
    ] {
        let found = store.documents("log", prefix).await.unwrap();
        let ids: Vec<&str> = found.iter().map(|document| document.id.as_str()).collect();
        assert_eq!(ids, expected, "{prefix:?}");
        assert!(found.iter().all(|document| document.body == format!("of {}", document.id)));
    }
}

pub async fn a_document_under_a_role_needs_its_term(fixture: &dyn Fixture) {
    let (one, two) = (Node::join(fixture, "one").await, Node::join(fixture, "two").await);
    let clerk = one.store.elect("clerk", &one.session).await.unwrap().unwrap();
    let cursor = |body: &str| DocumentWrite {
        lander: Some(clerk.clone()),
        ..DocumentWrite::new("cursor", "mail", body)
    };
    assert_eq!(put(one.store.as_ref(), cursor("5")).await.unwrap(), 1);
    one.store.resign(&clerk).await.unwrap();
    two.store.elect("clerk", &two.session).await.unwrap().unwrap();
    let refused = put(one.store.as_ref(), cursor("6")).await;
    assert!(matches!(refused, Err(StoreError::Fenced(_))), "{refused:?}");
    assert_eq!(two.store.document("cursor", "mail").await.unwrap().unwrap().body, "5");
}

pub async fn of_many_who_create_it_one_succeeds(fixture: &dyn Fixture) {
    let mut writers = Vec::new();
    for n in 0..6 {
        let store = fixture.machine().await;
        writers.push(tokio::spawn(async move {
            put(store.as_ref(), DocumentWrite::new("home", "home", format!("{n}")).at_version(0)).await
        }));
    }
    let mut winners = Vec::new();
    for (n, writer) in writers.into_iter().enumerate() {
        match writer.await.unwrap() {
            Ok(version) => winners.push((n, version)),
            Err(error) => assert!(matches!(error, StoreError::Conflict(_)), "{error}"),
        }
    }
    let store = fixture.machine().await;
    let found = store.document("home", "home").await.unwrap().unwrap();
    assert_eq!(winners, [(found.body.parse::<usize>().unwrap(), 1)]);
}

pub async fn a_document_wakes_others_unless_it_is_a_status(fixture: &dyn Fixture) {
    let (writer, reader) = (fixture.machine().await, fixture.machine().await);
    let mut changed = reader.subscribe().await.unwrap();
    put(writer.as_ref(), DocumentWrite::new("order", "n1", "drain")).await.unwrap();
    loop {
        changed.changed().await.unwrap();
        if reader.document("order", "n1").await.unwrap().is_some() {
            break;
        }
    }
    let mut documents = reader.subscribe_documents().await.unwrap();
    put(writer.as_ref(), DocumentWrite::new(LOG_PIECE, "r1/1", "line")).await.unwrap();
    while reader.document(LOG_PIECE, "r1/1").await.unwrap().is_none() {
        documents.changed().await.unwrap();
    }
    put(writer.as_ref(), DocumentWrite::new(STATUS, "s1", "idle")).await.unwrap();
    assert_eq!(reader.document(STATUS, "s1").await.unwrap().unwrap().body, "idle");
}

pub async fn a_long_document_comes_back_and_a_longer_one_is_refused(fixture: &dyn Fixture) {
    let store = fixture.machine().await;
    let store = store.as_ref();
    let long = "\u{0}é\\'\"\n".repeat(MAX_DOCUMENT / 7);
    put(store, DocumentWrite::new("plan", "p", long.as_str())).await.unwrap();
    assert_eq!(store.document("plan", "p").await.unwrap().unwrap().body, long);
    for (kind, id, body) in [
        ("plan", "p", "x".repeat(MAX_DOCUMENT + 1)),
        ("", "p", String::new()),
        ("plan", "", String::new()),
        ("plan", "a\nb", String::new()),
    ] {
        let refused = put(store, DocumentWrite::new(kind, id, body)).await;
        assert!(matches!(refused, Err(StoreError::Invalid(_))), "{kind} {id}: {refused:?}");
    }
    assert_eq!(store.document("plan", "p").await.unwrap().unwrap().version, 1);
}
