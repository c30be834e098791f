//! Issues and comments.

use regatta_core::forge::marker::Marker;
use regatta_core::forge::{IssueQuery, NewIssue, PullNumber};
use regatta_engine::forge::{Forge as _, ForgeError, Place};
use regatta_testkit::forge::Fault;

use super::{Desk, shop};

#[tokio::test]
async fn a_list_that_has_not_changed_costs_nothing() {
    let desk = Desk::new();
    let ann = desk.server.as_user("ann");
    let n = ann.open_issue("Log in", "Please.");
    ann.label(n, "regatta");
    ann.open_issue("Other", "No.");
    let client = desk.client();
    desk.pull(&client, "regatta/a").await;
    let query = IssueQuery { labels: vec!["regatta".into()], ..IssueQuery::default() };
    let first = client.issues(&shop(), &query).await.unwrap();
    assert_eq!((first.changed, first.items.len(), first.items[0].title.as_str()), (true, 1, "Log in"));
    let second = client.issues(&shop(), &query).await.unwrap();
    assert_eq!((second.changed, &second.items), (false, &first.items));
    assert_eq!(desk.server.calls().last().and_then(|call| call.status), Some(304));
    ann.rename_issue(n, "Log out");
    let third = client.issues(&shop(), &query).await.unwrap();
    assert_eq!((third.changed, third.items[0].title.as_str()), (true, "Log out"));
    let all = client.issues(&shop(), &IssueQuery::default()).await.unwrap();
    assert_eq!(all.items.len(), 2, "a pull request is no issue");
    let whole = client.issue_details(&[first.items[0].id.clone()]).await.unwrap();
    assert_eq!((whole[0].body.as_str(), whole[0].brief.author.as_deref()), ("Please.", Some("ann")));
}

#[tokio::test]
async fn an_issue_is_opened_once() {
    let desk = Desk::new();
    let parent = desk.server.as_user("ann").open_issue("Big", "Split me.");
    let new = NewIssue {
        title: "Part (1/2 of #1)".into(),
        body: "The first half.".into(),
        labels: Vec::new(),
        parent: Some(PullNumber(parent)),
        key: "split-1.1".into(),
    };
    desk.server.next("POST /repos/*/issues", Fault::Lost);
    assert!(matches!(desk.client().open_issue(&shop(), &new).await, Err(ForgeError::Away(_))));
    let client = desk.client();
    let first = client.open_issue(&shop(), &new).await.unwrap();
    let second = client.open_issue(&shop(), &new).await.unwrap();
    assert_eq!(first.brief.number, second.brief.number);
    desk.server.read(|state| {
        assert_eq!(state.repos()[0].issues.len(), 2);
        assert_eq!(state.issue(parent).sub_issues.len(), 1);
        assert_eq!(state.issue(parent).body, "Split me.");
    });
}

#[tokio::test]
async fn there_is_one_comment_with_a_key() {
    let desk = Desk::new();
    let ann = desk.server.as_user("ann");
    let n = ann.open_issue("Log in", "Please.");
    // Somebody pasted our mark: it proves nothing.
    let forged = Marker::new().with("key", "GH-1");
    ann.comment(n, &format!("fake\n{forged}"));
    let place = Place { repo: shop(), number: PullNumber(n), comment: None };
    desk.server.next("POST /repos/*/comments", Fault::Lost);
    assert!(matches!(desk.client().say(&place, "GH-1", "one").await, Err(ForgeError::Away(_))));
    let client = desk.client();
    let found = client.say(&place, "GH-1", "two").await.unwrap();
    let known = Place { comment: Some(found.clone()), ..place.clone() };
    desk.server.forget_calls();
    assert_eq!(client.say(&known, "GH-1", "three").await.unwrap(), found);
    assert_eq!(desk.server.calls().len(), 1, "an edit is one request");
    let bodies = || {
        desk.server.read(|state| {
            state.issue(n).comments.iter().map(|comment| comment.body.clone()).collect::<Vec<_>>()
        })
    };
    assert_eq!(bodies().len(), 2);
    assert_eq!(bodies()[1], format!("three\n\n{forged}"));
    desk.server.as_user("octo").delete_comment(found.number);
    let made = client.say(&known, "GH-1", "four").await.unwrap();
    assert_ne!(made, found);
    assert_eq!(bodies().len(), 2);
}
