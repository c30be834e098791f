use regatta_testkit::forge::{Ci, Conclusion, Forge, Method, Permission, Rules, StatusState, Verdict};
use serde_json::json;

use super::desk::Desk;

const ENQUEUE: &str = include_str!("enqueue.graphql");
const WATCH: &str = include_str!("watch.graphql");

#[test]
fn each_method_makes_its_own_history() {
    let forge = Forge::with_shop();
    let desk = Desk::new(&forge);
    let (merge, head) = desk.propose("one");
    let merged = desk.merge(merge, "merge", &head);
    assert_eq!(merged.status, 200, "{merged:?}");
    assert_eq!(forge.git(["log", "--format=%s|%b", "-1", "main"]), "Title (#1)|Text");
    assert_eq!(forge.git(["rev-parse", "main^2"]), head);
    let (squash, head) = desk.propose("two");
    desk.git(&["commit", "-q", "--allow-empty", "-m", "second of two"]);
    desk.git(&["push", "-q", "origin", "HEAD:two"]);
    let stale = desk.merge(squash, "squash", &head);
    assert_eq!(stale.said(), (409, "Head branch was modified. Review and try the merge again."));
    let head = desk.git(&["rev-parse", "HEAD"]);
    assert_eq!(desk.merge(squash, "squash", &head).status, 200);
    assert_eq!(forge.git(["log", "--format=%s", "-2", "main"]), "Title (#2)\nTitle (#1)");
    let (rebase, first) = desk.propose("three");
    desk.repo.write("three-b.txt", "b");
    let head = desk.repo.commit_all("third, second part");
    desk.git(&["push", "-q", "origin", "HEAD:three"]);
    forge.as_user("ann").push("main", &[("between.txt", "x")]);
    let merged = desk.merge(rebase, "rebase", &head);
    assert_eq!(merged.status, 200, "{merged:?}");
    let subjects = forge.git(["log", "--format=%s|%an", "-3", "main"]);
    assert_eq!(subjects, "third, second part|Ada\nthree|Ada\nbetween.txt by ann|ann");
    assert_ne!(forge.git(["rev-parse", "main^"]), first);
    let pull = desk.pull(rebase);
    assert_eq!((&pull["merged"], &pull["merge_commit_sha"]), (&json!(true), &merged.body["sha"]));
    assert_eq!(desk.merge(rebase, "rebase", &head).said(), (405, "Pull Request is not mergeable"));
    forge.git(["fsck", "--strict"]);
    let forced: Vec<bool> = forge.pushes().iter().map(|pushed| pushed.forced).collect();
    assert!(!forced.contains(&true));
}

#[test]
fn what_the_rules_ask_for_must_be_there() {
    let forge = Forge::with_shop();
    forge.rules("main", Rules::checks(["ci", "lint"]).approvals(1));
    forge.repo_with("acme/shop", |repo| repo.methods([Method::Merge]));
    let desk = Desk::new(&forge);
    let (number, head) = desk.propose("a");
    let refused = |method: &str| desk.merge(number, method, &head).said().1.to_owned();
    forge.as_user("ann").make_draft(number);
    assert_eq!(refused("merge"), "Pull Request is still a draft");
    assert_eq!(desk.pull(number)["mergeable_state"], "draft");
    forge.as_user("ann").ready(number);
    assert_eq!(refused("squash"), "Squash merges are not allowed on this repository.");
    assert_eq!(refused("merge"), "Required status check \"ci\" is expected.");
    forge.check(number, "ci", Conclusion::Failure);
    assert_eq!(refused("merge"), "Required status check \"ci\" is failing.");
    forge.check(&head, "ci", Conclusion::Success);
    forge.status(number, "lint", StatusState::Pending);
    assert_eq!(refused("merge"), "Required status check \"lint\" is in progress.");
    forge.status(number, "lint", StatusState::Success);
    assert_eq!(refused("merge"), "At least 1 approving review is required by reviewers with write access.");
    assert_eq!(desk.pull(number)["mergeable_state"], "blocked");
    // The word of a user who may not push does not count; one that was taken back neither.
    forge.member("acme/shop", "tim", Permission::Triage);
    forge.as_user("tim").approve(number);
    let review = forge.as_user("ann").approve(number);
    forge.as_user("acme").dismiss(number, review);
    assert_eq!(desk.merge(number, "merge", &head).status, 405);
    forge.as_user("bob").approve(number);
    forge.as_user("ann").review(number, Verdict::ChangesRequested, "No", &[]);
    assert_eq!(desk.merge(number, "merge", &head).status, 405);
    forge.as_user("ann").approve(number);
    assert_eq!(desk.merge(number, "merge", &head).status, 200);
    forge.user("eve");
    let (other, head) = desk.propose("b");
    let eve = Desk::new(&forge).for_user("eve");
    assert_eq!(eve.merge(other, "merge", &head).status, 403);
}

#[test]
fn a_conflict_is_found_and_a_strict_rule_asks_for_the_newest_base() {
    let forge = Forge::with_shop();
    forge.unknown_at_first(2);
    let desk = Desk::new(&forge);
    let head = desk.push("a", &[("README.md", "mine\n")]);
    let number = desk.open("a");
    // Opening it was the first look.
    assert_eq!(desk.pull(number)["mergeable"], json!(null));
    assert_eq!(desk.pull(number)["mergeable"], json!(true));
    forge.as_user("ann").push("main", &[("README.md", "theirs\n")]);
    assert_eq!(desk.pull(number)["mergeable_state"], "unknown");
    desk.pull(number);
    let pull = desk.pull(number);
    assert_eq!((&pull["mergeable"], &pull["mergeable_state"]), (&json!(false), &json!("dirty")));
    for method in ["merge", "squash", "rebase"] {
        assert_eq!(
            desk.merge(number, method, &head).said(),
            (405, "Pull Request is not mergeable"),
            "{method}"
        );
    }
    forge.unknown_at_first(0).ci(Ci::Passes("ci".to_owned())).rules("main", Rules::checks(["ci"]).strict());
    let (behind, head) = desk.propose("b");
    forge.as_user("ann").push("main", &[("other.txt", "x")]);
    assert_eq!(desk.pull(behind)["mergeable_state"], "behind");
    assert_eq!(
        desk.merge(behind, "merge", &head).said(),
        (405, "Head branch is out of date with the base branch.")
    );
    desk.git(&["fetch", "-q", "origin"]);
    desk.git(&["merge", "-q", "--no-edit", "origin/main"]);
    desk.git(&["push", "-q", "origin", "HEAD:b"]);
    let head = desk.git(&["rev-parse", "HEAD"]);
    assert_eq!(desk.pull(behind)["head"]["sha"], json!(head));
    assert_eq!(desk.merge(behind, "merge", &head).status, 200);
}

#[test]
fn the_queue_takes_merges_and_throws_out() {
    let forge = Forge::with_shop();
    forge.rules("main", Rules::checks(["ci"]).queue());
    let desk = Desk::new(&forge);
    let (first, head) = desk.propose("a");
    let (second, other) = desk.propose("b");
    let refused = desk.merge(first, "merge", &head);
    assert!(refused.said().1.contains("merge queue"), "{refused:?}");
    let id = |number: u64| forge.read(|state| state.pull(number).0.node_id());
    let entered = desk.ask(ENQUEUE, json!({"id": id(first), "head": head}));
    assert_eq!(entered["enqueuePullRequest"]["mergeQueueEntry"]["position"], 1);
    let raw = |id: String, head: &str| {
        let body = json!({"query": ENQUEUE, "variables": {"id": id, "head": head}});
        desk.gh_raw("POST", "graphql", Some(body), &[]).body["errors"][0]["message"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    assert_eq!(raw(id(second), &head), "Head branch was modified. Review and try the merge again.");
    assert_eq!(raw(id(second), &other), "");
    forge.check(first, "ci", Conclusion::Success);
    forge.run_queue("main");
    let looked = desk.ask(WATCH, json!({"ids": [id(first), id(second)]}));
    assert_eq!(
        (&looked["nodes"][0]["state"], &looked["nodes"][0]["isInMergeQueue"]),
        (&json!("MERGED"), &json!(false))
    );
    assert_eq!(looked["nodes"][1]["mergeQueueEntry"]["position"], 1);
    forge.kick_out(second, "failed checks");
    let looked = desk.gh_raw(
        "POST",
        "graphql",
        Some(json!({"query": WATCH, "variables": {"ids": [id(second)]}})),
        &[],
    );
    assert_eq!(looked.body["data"]["nodes"][0]["isInMergeQueue"], false);
}

#[test]
fn pushes_close_merge_and_move_pull_requests() {
    let forge = Forge::with_shop();
    let desk = Desk::new(&forge);
    let (gone, _) = desk.propose("gone");
    desk.git(&["push", "-q", "origin", ":gone"]);
    let pull = desk.pull(gone);
    assert_eq!((&pull["state"], &pull["merged"]), (&json!("closed"), &json!(false)));
    let reopen = desk.gh("PATCH", &format!("repos/acme/shop/pulls/{gone}"), Some(json!({"state": "open"})));
    assert_eq!(reopen.status, 422, "{reopen:?}");
    // Its head is pushed to its base.
    let (pushed, head) = desk.propose("pushed");
    desk.git(&["push", "-q", "origin", "HEAD:main"]);
    let pull = desk.pull(pushed);
    assert_eq!((&pull["merged"], &pull["merge_commit_sha"]), (&json!(true), &json!(head)));
    // One on top of another goes to the other's base when that was merged and its branch is gone.
    forge.repo_with("acme/shop", |repo| repo.delete_branch_on_merge());
    let (lower, head) = desk.propose("lower");
    desk.repo.write("upper.txt", "u");
    desk.repo.commit_all("upper");
    desk.git(&["push", "-q", "origin", "HEAD:upper"]);
    let body = json!({"title": "Upper", "head": "upper", "base": "lower"});
    let upper = desk.gh("POST", "repos/acme/shop/pulls", Some(body)).number();
    assert_eq!(desk.merge(lower, "merge", &head).status, 200);
    assert_eq!((forge.tip("lower"), &desk.pull(upper)["base"]["ref"]), (None, &json!("main")));
    // A force push is done, and seen as one.
    desk.git(&["commit", "-q", "--amend", "-m", "again"]);
    desk.git(&["push", "-q", "--force", "origin", "HEAD:upper"]);
    let last = forge.pushes().pop().unwrap();
    assert_eq!((last.forced, last.reference.as_str(), last.by.as_str()), (true, "refs/heads/upper", "octo"));
    assert_eq!(desk.pull(upper)["head"]["sha"], json!(desk.git(&["rev-parse", "HEAD"])));
    assert!(desk.git(&["ls-remote", "origin"]).contains(&format!("refs/pull/{upper}/head")));
}

#[test]
fn a_protected_branch_refuses_pushes_and_a_lease_loses() {
    let forge = Forge::with_shop();
    forge.rules("main", Rules::default().protected());
    let desk = Desk::new(&forge);
    desk.commit("a", &[("a.txt", "a")]);
    let (done, said) = desk.try_git(&["push", "origin", "HEAD:main"]);
    assert!(!done && said.contains("GH006: Protected branch update failed for refs/heads/main."), "{said}");
    assert_eq!(forge.pushes().pop().map(|pushed| pushed.accepted), Some(false));
    desk.git(&["push", "-q", "--force-with-lease=refs/heads/a:", "origin", "HEAD:refs/heads/a"]);
    let tip = desk.git(&["rev-parse", "HEAD"]);
    forge.as_user("ann").push("a", &[("late.txt", "x")]);
    let (done, _) =
        desk.try_git(&["push", &format!("--force-with-lease=refs/heads/a:{tip}"), "origin", ":refs/heads/a"]);
    assert!(!done && forge.tip("a").is_some());
    let claim = |name: &str| {
        desk.try_git(&[
            "push",
            "-q",
            "--force-with-lease=refs/regatta/claims/GH-1:",
            "origin",
            &format!("{name}:refs/regatta/claims/GH-1"),
        ])
        .0
    };
    assert!(claim("HEAD") && !claim("origin/main"), "a claim is made once");
}
