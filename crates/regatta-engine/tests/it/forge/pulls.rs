//! Pull requests: opened once, merged once.

use regatta_core::forge::pull::PullState;
use regatta_core::oid::Oid;
use regatta_engine::forge::{Forge as _, ForgeError, MergeRequest, Merged, NewPull};
use regatta_testkit::forge::{Fault, Permission, Rules};

use super::{Desk, new_pull, shop, squash};

#[tokio::test]
async fn a_pull_request_is_opened_once_and_found_afterwards() {
    let desk = Desk::new();
    let client = desk.client();
    let head = desk.branch("regatta/a");
    let first = client.propose(&shop(), &new_pull("regatta/a")).await.unwrap();
    assert!(first.created && first.notes.is_empty() && first.state == PullState::Open);
    assert_eq!((&first.head.commit, first.base.as_str(), first.draft), (&head, "main", false));
    let again = client.propose(&shop(), &new_pull("regatta/a")).await.unwrap();
    assert_eq!((again.created, again.number, &again.id), (false, first.number, &first.id));
    // The act was done, and its answer was lost.
    desk.branch("regatta/b");
    desk.server.next("POST /repos/*/pulls", Fault::Lost);
    let lost = client.propose(&shop(), &new_pull("regatta/b")).await.unwrap_err();
    assert!(matches!(lost, ForgeError::Away(_)), "{lost:?}");
    let found = desk.client().propose(&shop(), &new_pull("regatta/b")).await.unwrap();
    assert!(!found.created);
    assert_eq!(desk.server.read(|state| state.repos()[0].pulls().count()), 2);
}

#[tokio::test]
async fn labels_and_reviewers_are_set_and_what_is_refused_is_noted() {
    let desk = Desk::new();
    let client = desk.client();
    desk.server.member("acme/shop", "ann", Permission::Write);
    desk.branch("regatta/a");
    let new = NewPull {
        draft: true,
        labels: vec!["regatta".into()],
        reviewers: vec!["ann".into()],
        ..new_pull("regatta/a")
    };
    let pull = client.propose(&shop(), &new).await.unwrap();
    assert!(pull.draft && pull.notes.is_empty(), "{:?}", pull.notes);
    desk.server.read(|state| {
        let (issue, pull) = state.pull(pull.number.0);
        assert_eq!((issue.labels.join(","), pull.reviewers.join(",")), ("regatta".into(), "ann".into()));
    });
    assert!(
        desk.server.write_gaps().iter().all(|gap| gap.as_millis() >= 950),
        "{:?}",
        desk.server.write_gaps()
    );
    desk.branch("regatta/b");
    let new = NewPull { reviewers: vec!["stranger".into()], ..new_pull("regatta/b") };
    let pull = client.propose(&shop(), &new).await.unwrap();
    assert!(pull.created && pull.notes[0].starts_with("the reviewers were refused"), "{:?}", pull.notes);
}

#[tokio::test]
async fn what_github_refuses_is_refused_with_its_words() {
    let desk = Desk::new();
    let client = desk.client();
    let nothing = NewPull { base: "main".into(), ..new_pull("main") };
    let error = client.propose(&shop(), &nothing).await.unwrap_err();
    assert!(
        matches!(&error, ForgeError::Refused(why) if why.contains("acme/shop refused the pull request")),
        "{error:?}"
    );
    desk.branch("regatta/a");
    desk.server.next(
        "POST /repos/*/pulls",
        Fault::Invalid("A pull request already exists for acme:regatta/a.".into()),
    );
    let lag = client.propose(&shop(), &new_pull("regatta/a")).await.unwrap_err();
    assert!(matches!(lag, ForgeError::Away(_)), "a list that lags behind: {lag:?}");
}

#[tokio::test]
async fn a_merge_needs_the_head_that_was_seen() {
    let desk = Desk::new();
    let client = desk.client();
    let pull = desk.pull(&client, "regatta/a").await;
    let moved = desk.server.as_user("ann").push("regatta/a", &[("more.txt", "x\n")]);
    assert_eq!(client.merge(&pull, &pull.head.commit, &squash()).await, Err(ForgeError::Stale));
    let head = Oid::parse(&moved).unwrap();
    let Merged::Done { commit: Some(commit) } = client.merge(&pull, &head, &squash()).await.unwrap() else {
        panic!("it is merged")
    };
    assert_eq!(desk.server.tip("main").as_deref(), Some(commit.as_str()));
    let message = desk.server.git(["log", "-1", "--format=%B", "main"]);
    assert!(message.starts_with("Work\n\nAll of it."), "{message}");
    // After a crash it is found merged.
    assert_eq!(client.merge(&pull, &head, &squash()).await, Ok(Merged::Done { commit: Some(commit) }));
}

#[tokio::test]
async fn a_merge_whose_answer_was_lost_is_found() {
    let desk = Desk::new();
    let pull = desk.pull(&desk.client(), "regatta/a").await;
    desk.server.next("PUT *", Fault::Lost);
    let lost = desk.client().merge(&pull, &pull.head.commit, &squash()).await;
    assert!(matches!(lost, Err(ForgeError::Away(_))), "{lost:?}");
    let found = desk.client().merge(&pull, &pull.head.commit, &squash()).await.unwrap();
    assert!(matches!(found, Merged::Done { commit: Some(_) }), "{found:?}");
}

#[tokio::test]
async fn what_the_rules_forbid_is_not_merged_now() {
    let desk = Desk::new();
    desk.server.rules("main", Rules::checks(["test"]));
    let client = desk.client();
    let pull = desk.pull(&client, "regatta/a").await;
    let answer = client.merge(&pull, &pull.head.commit, &squash()).await.unwrap();
    assert!(matches!(answer, Merged::NotNow { .. }), "{answer:?}");
    desk.server.next("PUT *", Fault::Status(409));
    let answer = client.merge(&pull, &pull.head.commit, &squash()).await.unwrap();
    assert!(
        matches!(&answer, Merged::NotNow { why } if why.contains("modified")),
        "the base moved: {answer:?}"
    );
}

#[tokio::test]
async fn a_queue_takes_it_once() {
    let desk = Desk::new();
    desk.server.rules("main", Rules::default().queue());
    let client = desk.client();
    let pull = desk.pull(&client, "regatta/a").await;
    for _ in 0..2 {
        assert_eq!(client.merge(&pull, &pull.head.commit, &MergeRequest::Queue).await, Ok(Merged::Queued));
    }
    desk.server.run_queue("main");
    let facts = client.pull(&pull.id).await.unwrap();
    assert!(matches!(facts.state, PullState::Merged { commit: Some(_) }), "{:?}", facts.state);
}

#[tokio::test]
async fn it_is_closed_and_opened_again() {
    let desk = Desk::new();
    let client = desk.client();
    let pull = desk.pull(&client, "regatta/a").await;
    client.set_open(&pull, false).await.unwrap();
    assert_eq!(client.look(std::slice::from_ref(&pull.id)).await.unwrap()[0].state, Some(PullState::Closed));
    client.set_open(&pull, true).await.unwrap();
    assert_eq!(client.look(std::slice::from_ref(&pull.id)).await.unwrap()[0].state, Some(PullState::Open));
}
