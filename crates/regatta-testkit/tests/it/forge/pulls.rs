use regatta_testkit::forge::{Forge, Method, Permission, Rules};
use serde_json::json;

use super::desk::{Desk, wanted};

#[test]
fn a_pull_request_is_opened_once_found_by_its_branch_and_changed() {
    let forge = Forge::with_shop();
    let desk = Desk::new(&forge);
    assert_eq!(desk.get("user").body["login"], "octo");
    let head = desk.push("a", &[("a.txt", "a\n")]);
    let number = desk.open("a");
    let again = desk.gh("POST", "repos/acme/shop/pulls", Some(wanted("a")));
    assert_eq!(again.status, 422);
    assert_eq!(again.body["errors"][0]["message"], "A pull request already exists for acme:a.");
    let list = desk.get("repos/acme/shop/pulls?head=acme%3Aa&state=all");
    assert_eq!(list.body.as_array().unwrap().len(), 1);
    assert_eq!((&list.body[0]["number"], &list.body[0]["head"]["sha"]), (&json!(number), &json!(head)));
    assert_eq!(desk.get("repos/acme/shop/pulls?head=acme%3Ab&state=all").body, json!([]));
    let path = format!("repos/acme/shop/pulls/{number}");
    let one = desk.get(&path);
    assert_eq!((&one.body["mergeable"], &one.body["mergeable_state"]), (&json!(true), &json!("clean")));
    assert_eq!((&one.body["commits"], &one.body["changed_files"]), (&json!(1), &json!(1)));
    let changed = desk.gh("PATCH", &path, Some(json!({"title": "New", "body": "Other", "state": "closed"})));
    assert_eq!((&changed.body["title"], &changed.body["state"]), (&json!("New"), &json!("closed")));
    assert_eq!(desk.gh("PATCH", &path, Some(json!({"state": "open"}))).body["state"], "open");
    let labels = desk.gh(
        "POST",
        &format!("repos/acme/shop/issues/{number}/labels"),
        Some(json!({"labels": ["fast"]})),
    );
    assert_eq!((labels.status, &labels.body[0]["name"]), (200, &json!("fast")));
    forge.member("acme/shop", "ann", Permission::Write);
    let path = format!("{path}/requested_reviewers");
    let asked = desk.gh("POST", &path, Some(json!({"reviewers": ["ann"]})));
    assert_eq!((asked.status, &asked.body["requested_reviewers"][0]["login"]), (201, &json!("ann")));
    let himself = desk.gh("POST", &path, Some(json!({"reviewers": ["octo"]})));
    assert_eq!(himself.said(), (422, "Review cannot be requested from pull request author."));
    assert_eq!(desk.gh("POST", &path, Some(json!({"reviewers": ["nobody"]}))).status, 422);
}

#[test]
fn what_is_not_there_is_refused() {
    let forge = Forge::with_shop();
    let desk = Desk::new(&forge);
    let missing = desk.gh("POST", "repos/acme/shop/pulls", Some(wanted("nowhere")));
    assert_eq!((missing.status, &missing.body["errors"][0]["field"]), (422, &json!("head")));
    let body = json!({"title": "t", "head": "main", "base": "other"});
    assert_eq!(desk.gh("POST", "repos/acme/shop/pulls", Some(body)).body["errors"][0]["field"], "base");
    desk.git(&["push", "-q", "origin", "origin/main:refs/heads/same"]);
    let same = desk.gh("POST", "repos/acme/shop/pulls", Some(wanted("same")));
    assert_eq!(same.body["errors"][0]["message"], "No commits between main and same");
    assert_eq!(desk.get("repos/acme/shop/pulls/7").said(), (404, "Not Found"));
    assert_eq!(desk.get("repos/acme/none").said(), (404, "Not Found"));
    let stranger = desk.gh_raw("GET", "repos/acme/shop/unheard/of", None, &[]);
    assert_eq!(stranger.status, 404);
    assert_eq!(forge.take_strangers(), ["GET /repos/acme/shop/unheard/of"]);
}

#[test]
fn a_repository_says_what_the_user_may_do_and_how_it_merges() {
    let forge = Forge::with_shop();
    forge.repo_with("acme/shop", |repo| repo.methods([Method::Squash]));
    let desk = Desk::new(&forge);
    let repo = desk.get("repos/acme/shop").body;
    assert_eq!((&repo["full_name"], &repo["default_branch"]), (&json!("acme/shop"), &json!("main")));
    assert_eq!((&repo["allow_squash_merge"], &repo["allow_merge_commit"]), (&json!(true), &json!(false)));
    assert_eq!((&repo["permissions"]["push"], &repo["permissions"]["admin"]), (&json!(true), &json!(false)));
    forge.member("acme/shop", "tim", Permission::Triage).user("eve");
    for (login, permission, role) in [
        ("octo", "write", "write"),
        ("tim", "read", "triage"),
        ("eve", "read", "read"),
        ("acme", "admin", "admin"),
    ] {
        let answer = desk.get(&format!("repos/acme/shop/collaborators/{login}/permission")).body;
        assert_eq!(
            (&answer["permission"], &answer["role_name"]),
            (&json!(permission), &json!(role)),
            "{login}"
        );
    }
    assert_eq!(desk.get("repos/acme/shop/collaborators/nobody/permission").status, 404);
    let eve = Desk::new(&forge).for_user("eve");
    assert_eq!(eve.get("repos/acme/shop").body.get("allow_squash_merge"), None);
    forge.repo_with("acme/shop", |repo| repo.private());
    assert_eq!(eve.get("repos/acme/shop").status, 404);
}

#[test]
fn rules_of_a_branch_are_told() {
    let forge = Forge::with_shop();
    let rules = Rules { signatures: true, linear: true, ..Rules::checks(["ci", "lint"]) };
    forge.rules("main", rules.strict().approvals(2).queue());
    let desk = Desk::new(&forge);
    let rules = desk.get("repos/acme/shop/rules/branches/main").body;
    let kinds: Vec<&str> =
        rules.as_array().unwrap().iter().map(|rule| rule["type"].as_str().unwrap()).collect();
    assert_eq!(
        kinds,
        [
            "required_status_checks",
            "pull_request",
            "merge_queue",
            "required_signatures",
            "required_linear_history"
        ]
    );
    let checks = &rules[0]["parameters"];
    assert_eq!(checks["required_status_checks"], json!([{"context": "ci"}, {"context": "lint"}]));
    assert_eq!(checks["strict_required_status_checks_policy"], true);
    assert_eq!(desk.get("repos/acme/shop/rules/branches/some%2Fother").body, json!([]));
    assert_eq!(desk.get("repos/acme/shop/branches/main").body["protection"]["enabled"], false);
    forge.rules("main", Rules::checks(["ci"]).classic());
    assert_eq!(desk.get("repos/acme/shop/rules/branches/main").body, json!([]));
    let branch = desk.get("repos/acme/shop/branches/main").body;
    assert_eq!(branch["protection"]["required_status_checks"]["contexts"], json!(["ci"]));
    assert_eq!(branch["commit"]["sha"], json!(forge.tip("main")));
    assert_eq!(desk.get("repos/acme/shop/branches/some%2Fother").said(), (404, "Branch not found"));
}

#[test]
fn a_renamed_repository_redirects_reads_and_refuses_to_be_followed_by_acts() {
    let forge = Forge::with_shop();
    let desk = Desk::new(&forge);
    let id = forge.read(|state| state.repos()[0].id);
    forge.as_user("acme").rename_repo("store");
    // gh follows the redirect of a read.
    let repo = desk.get("repos/acme/shop");
    assert_eq!((repo.status, &repo.body["full_name"]), (200, &json!("acme/store")));
    assert_eq!(forge.call_lines(), ["GET /repos/acme/shop".to_owned(), format!("GET /repositories/{id}")]);
    let statuses: Vec<Option<u16>> = forge.calls().iter().map(|call| call.status).collect();
    assert_eq!(statuses, [Some(301), Some(200)]);
    // An act is not done, and gh does not follow.
    let opened = desk.gh_raw("POST", "repos/acme/shop/pulls", Some(wanted("a")), &[]);
    assert_eq!(opened.status, 307, "{opened:?}");
    assert!(opened.header("location").unwrap().ends_with(&format!("/repositories/{id}/pulls")), "{opened:?}");
    // git follows.
    desk.push("a", &[("a.txt", "a")]);
    let opened = desk.gh("POST", "repos/acme/store/pulls", Some(wanted("a")));
    assert_eq!(opened.status, 201, "{opened:?}");
}

#[test]
fn a_fork_proposes_to_its_parent() {
    let forge = Forge::with_shop();
    assert_eq!(forge.fork("acme/shop", "octo"), "octo/shop");
    let desk = Desk::new(&forge);
    let fork = desk.get("repos/octo/shop").body;
    assert_eq!((&fork["fork"], &fork["parent"]["full_name"]), (&json!(true), &json!("acme/shop")));
    desk.git(&["remote", "set-url", "--push", "origin", &forge.remote("octo/shop")]);
    let head = desk.push("a", &[("a.txt", "a")]);
    let opened = desk.gh("POST", "repos/acme/shop/pulls", Some(wanted("octo:a")));
    assert_eq!((opened.status, &opened.body["head"]["label"]), (201, &json!("octo:a")), "{opened:?}");
    assert_eq!(
        desk.get("repos/acme/shop/pulls?head=octo%3Aa").body[0]["head"]["repo"]["full_name"],
        "octo/shop"
    );
    let merged = desk.merge(opened.number(), "merge", &head);
    assert_eq!(merged.status, 200, "{merged:?}");
    assert_eq!(forge.git(["show", "main:a.txt"]), "a");
}

#[test]
fn a_list_comes_in_pages() {
    let forge = Forge::with_shop();
    let desk = Desk::new(&forge);
    for n in 0..5 {
        forge.as_user("ann").open_issue(&format!("Issue {n}"), "");
    }
    let first = desk.get("repos/acme/shop/issues?per_page=2&state=open");
    let link = first.header("link").unwrap().to_owned();
    assert_eq!(
        link,
        "<http://api.github.localhost/repos/acme/shop/issues?per_page=2&state=open&page=2>; rel=\"next\", \
         <http://api.github.localhost/repos/acme/shop/issues?per_page=2&state=open&page=3>; rel=\"last\""
    );
    let last = desk.get("repos/acme/shop/issues?per_page=2&page=3");
    assert_eq!((last.body.as_array().unwrap().len(), last.header("link")), (1, None));
}
