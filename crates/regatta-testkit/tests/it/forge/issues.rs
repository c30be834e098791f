use regatta_testkit::forge::{Forge, Permission};
use serde_json::{Value, json};

use super::desk::Desk;

const INTAKE: &str = include_str!("intake.graphql");

#[test]
fn issues_are_listed_conditionally() {
    let forge = Forge::with_shop();
    let desk = Desk::new(&forge);
    let ann = forge.as_user("ann");
    let (one, two) = (ann.open_issue("One", "Words"), ann.open_issue("Two", ""));
    ann.label(one, "regatta");
    let path = "repos/acme/shop/issues?labels=regatta&state=open&sort=updated";
    let first = desk.get(path);
    assert_eq!((first.body.as_array().unwrap().len(), &first.body[0]["number"]), (1, &json!(one)));
    let etag = format!("If-None-Match: {}", first.header("etag").unwrap());
    let left = |answer: &super::desk::Answer| {
        answer.header("x-ratelimit-remaining").unwrap().parse::<u64>().unwrap()
    };
    let same = desk.gh_raw("GET", path, None, &["-H", &etag]);
    assert_eq!((same.status, same.text.as_str(), left(&same)), (304, "", left(&first)));
    ann.label(two, "regatta");
    let changed = desk.gh_raw("GET", path, None, &["-H", &etag]);
    assert_eq!(
        (changed.status, changed.body.as_array().unwrap().len(), left(&changed)),
        (200, 2, left(&first) - 1)
    );
    let updated = changed.body[0]["updated_at"].as_str().unwrap();
    let since = desk.get(&format!("{path}&since={updated}"));
    assert_eq!((since.body.as_array().unwrap().len(), &since.body[0]["number"]), (1, &json!(two)));
    forge.repo_with("acme/shop", |repo| repo.no_issues());
    assert_eq!(desk.get(path).status, 410);
}

#[test]
fn an_issue_is_opened_linked_commented_and_closed() {
    let forge = Forge::with_shop();
    let desk = Desk::new(&forge);
    let parent = forge.as_user("ann").open_issue("Parent", "The words of ann");
    let body =
        json!({"title": "Part (1/2 of #1)", "body": "Scope", "labels": ["sub-task"], "assignees": ["ann"]});
    let part = desk.gh("POST", "repos/acme/shop/issues", Some(body));
    assert_eq!((part.status, &part.body["labels"][0]["name"]), (201, &json!("sub-task")));
    let (number, id) = (part.number(), part.body["id"].clone());
    let path = format!("repos/acme/shop/issues/{parent}");
    let linked = desk.gh("POST", &format!("{path}/sub_issues"), Some(json!({"sub_issue_id": id})));
    assert_eq!((linked.status, &linked.body["sub_issues_summary"]["total"]), (201, &json!(1)));
    let twice = desk.gh("POST", &format!("{path}/sub_issues"), Some(json!({"sub_issue_id": id})));
    assert_eq!(twice.status, 422);
    assert_eq!(desk.get(&format!("{path}/sub_issues")).body[0]["number"], number);
    let other = forge.as_user("ann").open_issue("Other", "");
    let other = forge.read(|state| state.issue(other).id);
    let blocked = format!("repos/acme/shop/issues/{number}/dependencies/blocked_by");
    assert_eq!(desk.gh("POST", &blocked, Some(json!({"issue_id": other}))).status, 201);
    assert_eq!(desk.get(&blocked).body[0]["title"], "Other");
    let said = desk.gh("POST", &format!("{path}/comments"), Some(json!({"body": "working"})));
    let edited = desk.gh(
        "PATCH",
        &format!("repos/acme/shop/issues/comments/{}", said.body["id"]),
        Some(json!({"body": "done"})),
    );
    assert_eq!((said.status, edited.status, &edited.body["body"]), (201, 200, &json!("done")));
    assert_eq!(desk.get(&format!("{path}/comments")).body.as_array().unwrap().len(), 1);
    let closed = desk.gh("PATCH", &path, Some(json!({"state": "closed"})));
    assert_eq!(
        (&closed.body["state"], &closed.body["state_reason"]),
        (&json!("closed"), &json!("completed"))
    );
    assert_eq!(closed.body["body"], "The words of ann");
    assert_eq!(desk.get(&path).body["closed_by"]["login"], "octo");
    assert_eq!(desk.get("repos/acme/shop/issues/99").status, 404);
}

#[test]
fn a_merge_closes_the_issues_that_it_names() {
    let forge = Forge::with_shop();
    let desk = Desk::new(&forge);
    let issue = forge.as_user("ann").open_issue("Wish", "");
    let head = desk.push("a", &[("a.txt", "a")]);
    let body = json!({"title": "A", "head": "a", "base": "main", "body": format!("Closes #{issue}")});
    let number = desk.gh("POST", "repos/acme/shop/pulls", Some(body)).number();
    let listed = desk.get("repos/acme/shop/issues").body;
    assert!(listed[0]["pull_request"].is_object() && listed[1].get("pull_request").is_none(), "{listed:#}");
    assert_eq!(desk.merge(number, "squash", &head).status, 200);
    assert_eq!(desk.get(&format!("repos/acme/shop/issues/{issue}")).body["state"], "closed");
}

#[test]
fn intake_tells_who_did_what_when() {
    let forge = Forge::with_shop();
    let desk = Desk::new(&forge);
    forge.user("eve").member("acme/shop", "tim", Permission::Triage);
    let eve = forge.as_user("eve");
    let number = eve.open_issue("Wish", "First words");
    forge.as_user("tim").label(number, "regatta");
    forge.as_user("tim").unlabel(number, "regatta");
    forge.as_user("ann").label(number, "regatta");
    eve.edit_issue(number, "Other words");
    eve.rename_issue(number, "Another wish");
    eve.comment(number, "Please");
    forge.as_user("ann").assign(number, "ann");
    let id = forge.read(|state| state.issue(number).node_id());
    let data = desk.ask(INTAKE, json!({"ids": [id]}));
    let issue = &data["nodes"][0];
    assert_eq!((&issue["title"], &issue["body"]), (&json!("Another wish"), &json!("Other words")));
    assert_eq!((&issue["editor"]["login"], &issue["authorAssociation"]), (&json!("eve"), &json!("NONE")));
    let events: Vec<String> = issue["timelineItems"]["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| {
            format!("{} {}", event["__typename"].as_str().unwrap(), event["actor"]["login"].as_str().unwrap())
        })
        .collect();
    assert_eq!(
        events,
        ["LabeledEvent tim", "UnlabeledEvent tim", "LabeledEvent ann", "RenamedTitleEvent eve"]
    );
    let times: Vec<&Value> =
        issue["timelineItems"]["nodes"].as_array().unwrap().iter().map(|event| &event["createdAt"]).collect();
    assert!(times[2].as_str() < issue["lastEditedAt"].as_str(), "the edit came after the label: {issue:#}");
    assert_eq!(issue["assignees"]["nodes"][0]["login"], "ann");
    // Nobody may put labels or assignees on an issue without a role.
    let eve = Desk::new(&forge).for_user("eve");
    let labels =
        eve.gh("POST", &format!("repos/acme/shop/issues/{number}/labels"), Some(json!({"labels": ["x"]})));
    assert_eq!(labels.status, 403);
    let opened = eve.gh("POST", "repos/acme/shop/issues", Some(json!({"title": "t", "labels": ["regatta"]})));
    assert_eq!((opened.status, &opened.body["labels"]), (201, &json!([])));
}
