//! Messages and inboxes.

use regatta_core::crew::{MemberName, Role};

use super::Fixture;
use super::member::{join, name};
use super::node::{Node, at, task};
use crate::{
    Author, Authority, BOARD_QUEUE, InboxQuery, MAX_MESSAGE, Mark, MessageKind, NewMessage, Outcome,
    Recipients, RequestId, Result, Store, StoreError,
};

fn from(author: &str, authority: Authority, to: Recipients, text: &str) -> NewMessage {
    let author = Author { name: name(author), authority };
    NewMessage { author, to, kind: MessageKind::Direct, text: text.to_owned(), reply_to: None }
}

fn message(to: Recipients, text: &str) -> NewMessage {
    from("ada", Authority::Outside, to, text)
}

async fn send(store: &dyn Store, message: &NewMessage) -> Result<Vec<String>> {
    let posted = store.post(message, &RequestId::fresh(), at(1)).await?;
    Ok(posted.to.iter().map(MemberName::to_string).collect())
}

async fn texts(store: &dyn Store, of: &str, query: &InboxQuery) -> Vec<String> {
    let messages = store.inbox(&name(of), query).await.expect("the store answers");
    messages.into_iter().map(|message| message.text).collect()
}

pub async fn a_repeated_message_is_delivered_once(fixture: &dyn Fixture) {
    let tom = join(fixture, "Tom", "tester").await;
    let (store, request) = (tom.store.as_ref(), RequestId::fresh());
    let hello = message(Recipients::One(name("tom")), "hello \u{1f6a3}\n\0");
    let first = store.post(&hello, &request, at(1)).await.unwrap();
    assert_eq!(store.post(&hello, &request, at(2)).await.unwrap(), first);
    assert_eq!(first.to, [name("Tom")]);
    let inbox = store.inbox(&name("TOM"), &InboxQuery::default()).await.unwrap();
    let [one] = inbox.as_slice() else { panic!("{inbox:?}") };
    assert_eq!((one.id, &one.from, &one.to, one.read_at), (first.id, &name("ada"), &name("Tom"), None));
    assert_eq!((&one.text, one.kind, one.reply_to, one.at), (&hello.text, MessageKind::Direct, None, at(1)));
}

pub async fn everybody_is_who_is_there_and_who_is_at_work(fixture: &dyn Fixture) {
    let (tom, bob) = (join(fixture, "Tom", "tester").await, join(fixture, "Bob", "builder").await);
    let gone = join(fixture, "Gone", "tester").await;
    gone.store.close_session(&gone.session, at(1)).await.unwrap();
    let engine = Node::join(fixture, "engine").await;
    engine.add(&[task("working"), task("waiting"), task("by-hand").queued(BOARD_QUEUE), task("over")]).await;
    engine.claim("working").await;
    engine.finish("over").await;
    tom.claim("by-hand").await;
    let store = engine.store.as_ref();
    let everybody = message(Recipients::Everybody, "all");
    assert_eq!(send(store, &everybody).await.unwrap(), ["Bob", "Tom", "working"]);
    let tom_says = from("Tom", Authority::Member(tom.session.clone()), Recipients::Everybody, "all");
    assert_eq!(send(store, &tom_says).await.unwrap(), ["Bob", "working"]);
    let role = |role: &str| message(Recipients::Role(Role::parse(role).unwrap()), "some");
    assert_eq!(send(store, &role("builder")).await.unwrap(), ["Bob"]);
    assert_eq!(send(store, &role("agent")).await.unwrap(), ["working"]);
    assert_eq!(send(store, &role("nobody")).await.unwrap(), [""; 0]);
    assert_eq!(texts(store, "Bob", &InboxQuery::default()).await, ["all", "all", "some"]);
    // A member who has left and a task that has not started still receive direct messages.
    for to in ["gone", "Waiting"] {
        assert_eq!(send(store, &message(Recipients::One(name(to)), "you")).await.unwrap().len(), 1);
        assert_eq!(texts(store, to, &InboxQuery::default()).await, ["you"]);
    }
    drop(bob);
}

pub async fn an_inbox_is_read_by_page_and_marked(fixture: &dyn Fixture) {
    let tom = join(fixture, "Tom", "tester").await;
    let store = tom.store.as_ref();
    let mut ids = Vec::new();
    for text in ["a", "b", "c", "d"] {
        let new = message(Recipients::One(name("Tom")), text);
        ids.push(store.post(&new, &RequestId::fresh(), at(1)).await.unwrap().id);
    }
    assert!(ids.is_sorted());
    let page = InboxQuery { after: ids[0], limit: 2, unread: false };
    assert_eq!(texts(store, "Tom", &page).await, ["b", "c"]);
    for when in [5, 6] {
        store.mark(&name("tom"), &ids[..2], Mark::Read, at(when)).await.unwrap();
    }
    let unread = InboxQuery { unread: true, ..InboxQuery::default() };
    assert_eq!(texts(store, "Tom", &unread).await, ["c", "d"]);
    let all = store.inbox(&name("Tom"), &InboxQuery::default()).await.unwrap();
    assert_eq!(all[0].read_at, Some(at(5)), "the first time counts");
    for _ in 0..2 {
        store.mark(&name("Tom"), &[ids[0], ids[3]], Mark::Dismissed, at(7)).await.unwrap();
    }
    assert_eq!(texts(store, "Tom", &InboxQuery::default()).await, ["b", "c"]);
    let unknown = store.mark(&name("Tom"), &[ids[2], 999], Mark::Read, at(8)).await;
    assert!(matches!(unknown, Err(StoreError::NotFound(_))), "{unknown:?}");
    assert_eq!(texts(store, "Tom", &unread).await, ["c"], "none was marked");
    let others = store.mark(&name("Bob"), &[ids[2]], Mark::Read, at(8)).await;
    assert!(matches!(others, Err(StoreError::NotFound(_))), "{others:?}");
}

pub async fn whoever_looks_sees_the_last_messages_of_all(fixture: &dyn Fixture) {
    let (tom, _bob) = (join(fixture, "Tom", "tester").await, join(fixture, "Bob", "tester").await);
    let store = tom.store.as_ref();
    assert!(store.correspondence(0, 10).await.unwrap().is_empty());
    send(store, &message(Recipients::One(name("Tom")), "first")).await.unwrap();
    send(store, &message(Recipients::Everybody, "all")).await.unwrap();
    send(store, &message(Recipients::One(name("Bob")), "last")).await.unwrap();
    let seen = async |after: u64, limit: usize| {
        let messages = store.correspondence(after, limit).await.expect("the store answers");
        messages.iter().map(|one| format!("{}: {}", one.to, one.text)).collect::<Vec<_>>()
    };
    let all = ["Tom: first", "Bob: all", "Tom: all", "Bob: last"];
    assert_eq!(seen(0, 10).await, all);
    let ids: Vec<u64> = store.correspondence(0, 10).await.unwrap().iter().map(|one| one.id).collect();
    assert_eq!(seen(ids[0], 10).await, all[1..]);
    assert_eq!(seen(0, 1).await, all[3..], "messages are counted, not inboxes");
    assert_eq!(seen(0, 2).await, all[1..]);
    assert!(seen(ids[3], 10).await.is_empty());
    store.mark(&name("Tom"), &ids[..1], Mark::Dismissed, at(5)).await.unwrap();
    assert_eq!(seen(0, 10).await, all, "dismissed ones too");
    assert_eq!(store.correspondence(0, 10).await.unwrap()[0].read_at, Some(at(5)));
}

pub async fn only_who_has_the_right_writes_under_a_name(fixture: &dyn Fixture) {
    let (tom, bob) = (join(fixture, "Tom", "tester").await, join(fixture, "Bob", "tester").await);
    let store = bob.store.as_ref();
    let to = || Recipients::One(name("Bob"));
    let as_tom = from("Tom", Authority::Member(tom.session.clone()), to(), "me");
    send(store, &as_tom).await.unwrap();
    tom.store.close_session(&tom.session, at(2)).await.unwrap();
    let late = send(store, &as_tom).await;
    assert!(matches!(late, Err(StoreError::SessionExpired)), "{late:?}");
    let engine = Node::join(fixture, "engine").await;
    engine.add(&[task("t")]).await;
    let claim = engine.claim("t").await;
    let attempt = |attempt: u32, token: &str| {
        let authority = Authority::Attempt { attempt, token_hash: token.to_owned() };
        from("t", authority, to(), "an agent")
    };
    send(store, &attempt(1, "token of t")).await.unwrap();
    for wrong in [attempt(2, "token of t"), attempt(1, "another")] {
        let refused = send(store, &wrong).await;
        assert!(matches!(refused, Err(StoreError::Fenced(_))), "{refused:?}");
    }
    engine.settle(&claim, Outcome::Done { head: None }).await.unwrap();
    let late = send(store, &attempt(1, "token of t")).await;
    assert!(matches!(late, Err(StoreError::Fenced(_))), "{late:?}");
    assert_eq!(texts(store, "Bob", &InboxQuery::default()).await, ["me", "an agent"]);
}

pub async fn what_cannot_be_delivered_is_refused_whole(fixture: &dyn Fixture) {
    let tom = join(fixture, "Tom", "tester").await;
    let store = tom.store.as_ref();
    let stranger = send(store, &message(Recipients::One(name("nobody")), "x")).await;
    assert!(matches!(stranger, Err(StoreError::NotFound(_))), "{stranger:?}");
    let to = || Recipients::One(name("Tom"));
    let answer = NewMessage { reply_to: Some(77), ..message(to(), "x") };
    assert!(matches!(send(store, &answer).await, Err(StoreError::NotFound(_))));
    let long = message(to(), &"x".repeat(MAX_MESSAGE + 1));
    assert!(matches!(send(store, &long).await, Err(StoreError::Invalid(_))));
    send(store, &message(to(), &"x".repeat(MAX_MESSAGE))).await.unwrap();
    assert_eq!(texts(store, "Tom", &InboxQuery::default()).await.len(), 1);
}
