use regatta_testkit::forge::{Ci, Conclusion, Forge, Inline, Progress, Rules, Verdict};
use serde_json::{Value, json};

use super::desk::Desk;

const FEEDBACK: &str = include_str!("feedback.graphql");
const WATCH: &str = include_str!("watch.graphql");

#[test]
fn a_watch_sees_what_people_and_checks_do() {
    let forge = Forge::with_shop();
    forge.ci(Ci::Waits("ci".to_owned())).rules("main", Rules::checks(["ci"]).approvals(1));
    let desk = Desk::new(&forge);
    let (number, head) = desk.propose("a");
    let issue = forge.as_user("ann").open_issue("A wish", "Words");
    let ids = forge.read(|state| [state.pull(number).0.node_id(), state.issue(issue).node_id()]);
    let look = || {
        let body = json!({"query": WATCH, "variables": {"ids": ids}});
        desk.gh_raw("POST", "graphql", Some(body), &[]).body["data"]["nodes"].clone()
    };
    let first = desk.ask(WATCH, json!({"ids": ids}));
    assert_eq!(first["rateLimit"]["cost"], 1);
    let pull = &first["nodes"][0];
    assert_eq!((&pull["state"], &pull["mergeStateStatus"]), (&json!("OPEN"), &json!("BLOCKED")));
    assert_eq!(
        (&pull["statusCheckRollup"]["state"], &pull["reviewDecision"]),
        (&json!("PENDING"), &json!("REVIEW_REQUIRED"))
    );
    assert_eq!((&pull["headRefOid"], &pull["canBeRebased"]), (&json!(head), &json!(true)));
    assert_eq!(first["nodes"][1]["issueState"], "OPEN");
    forge.check(number, "ci", Conclusion::ActionRequired);
    forge.as_user("bob").review(
        number,
        Verdict::ChangesRequested,
        "Please",
        &[Inline::new("a.txt", 1, "Why?")],
    );
    forge.as_user("bob").comment(number, "Also this");
    let second = look();
    assert_eq!(
        (&second[0]["statusCheckRollup"]["state"], &second[0]["totalCommentsCount"]),
        (&json!("FAILURE"), &json!(3))
    );
    assert_eq!(second[0]["reviewDecision"], "CHANGES_REQUESTED");
    assert_ne!(second[0]["updatedAt"], pull["updatedAt"], "what people do takes a second");
    forge.as_user("bob").edit_issue(issue, "Other words");
    forge.as_user("bob").close(issue);
    forge.as_user("bob").close(number);
    let third = look();
    assert_eq!(
        (&third[0]["state"], &third[1]["issueState"], &third[1]["stateReason"]),
        (&json!("CLOSED"), &json!("CLOSED"), &json!("COMPLETED"))
    );
    assert!(third[1]["lastEditedAt"].is_string());
    let unknown = desk.gh_raw(
        "POST",
        "graphql",
        Some(json!({"query": WATCH, "variables": {"ids": ["PR_1", ids[0]]}})),
        &[],
    );
    assert_eq!(unknown.body["data"]["nodes"][0], Value::Null);
    assert_eq!(
        (&unknown.body["errors"][0]["type"], &unknown.body["errors"][0]["path"]),
        (&json!("NOT_FOUND"), &json!(["nodes", 0]))
    );
    assert_eq!(unknown.body["data"]["nodes"][1]["state"], "CLOSED");
}

#[test]
fn feedback_has_reviews_threads_comments_and_checks() {
    let forge = Forge::with_shop();
    forge.rules("main", Rules::checks(["ci"]));
    let desk = Desk::new(&forge);
    let (number, head) = desk.propose("a");
    let ann = forge.as_user("ann");
    ann.review(number, Verdict::ChangesRequested, "Not yet", &[Inline::new("a.txt", 1, "Why?")]);
    forge.as_user("octo").reply(number, "a.txt", "Because");
    let comment = ann.comment(number, "first words");
    ann.edit_comment(comment, "better words");
    let hidden = ann.comment(number, "spam");
    ann.minimize(hidden, "SPAM");
    forge.bot("robot");
    forge.as_user("robot").comment(number, "beep");
    let job = forge.check_with(number, "ci", Some(Conclusion::Failure), "line 1\nerror: no\n");
    let other = forge.check_with(number, "other", None, "");
    forge.edit_check(other, |check| {
        check.progress = Progress::Waiting;
        check.app = "other-ci".to_owned();
        check.title = Some("Title".to_owned());
        check.annotations = vec!["line 3 is odd".to_owned()];
    });
    let id = forge.read(|state| state.pull(number).0.node_id());
    let data = desk.ask(FEEDBACK, json!({"id": id}));
    let pull = &data["node"];
    let other = &pull["statusCheckRollup"]["contexts"]["nodes"][1];
    assert_eq!((&other["status"], &other["checkSuite"]["workflowRun"]), (&json!("WAITING"), &Value::Null));
    assert_eq!(other["annotations"]["nodes"][0]["message"], "line 3 is odd");
    assert_eq!(
        (&pull["reviews"]["nodes"][0]["state"], &pull["reviews"]["nodes"][0]["commit"]["oid"]),
        (&json!("CHANGES_REQUESTED"), &json!(head))
    );
    let thread = &pull["reviewThreads"]["nodes"][0];
    assert_eq!(
        (&thread["path"], &thread["line"], &thread["isOutdated"]),
        (&json!("a.txt"), &json!(1), &json!(false))
    );
    assert!(thread["comments"]["nodes"][0]["diffHunk"].as_str().unwrap().starts_with("@@ -0,0 +1 @@"));
    let said: Vec<&str> = thread["comments"]["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|comment| comment["body"].as_str().unwrap())
        .collect();
    assert_eq!(said, ["Why?", "Because"]);
    let comments = pull["comments"]["nodes"].as_array().unwrap();
    assert_eq!(
        (&comments[0]["body"], comments[0]["lastEditedAt"].is_string()),
        (&json!("better words"), true)
    );
    assert_eq!(comments[2]["author"]["__typename"], "Bot");
    let check = &pull["statusCheckRollup"]["contexts"]["nodes"][0];
    assert_eq!(
        (&check["databaseId"], &check["conclusion"], &check["isRequired"]),
        (&json!(job), &json!("FAILURE"), &json!(true))
    );
    assert_eq!(check["checkSuite"]["app"]["slug"], "github-actions");
    // gh follows the redirect to the log.
    let log = desk.gh_raw("GET", &format!("repos/acme/shop/actions/jobs/{job}/logs"), None, &[]);
    assert_eq!((log.status, log.text.as_str()), (200, "line 1\nerror: no\n"));
    let run = check["checkSuite"]["workflowRun"]["databaseId"].as_u64().unwrap();
    let again =
        desk.gh("POST", &format!("repos/acme/shop/actions/runs/{run}/rerun-failed-jobs"), Some(json!({})));
    assert_eq!(again.status, 201, "{again:?}");
    let runs = desk.get(&format!("repos/acme/shop/commits/{head}/check-runs")).body;
    assert_eq!((&runs["total_count"], &runs["check_runs"][0]["status"]), (&json!(2), &json!("waiting")));
    forge.status(number, "old", regatta_testkit::forge::StatusState::Error);
    assert_eq!(desk.get(&format!("repos/acme/shop/commits/{head}/status")).body["state"], "failure");
    // A new head makes conversations outdated.
    forge.as_user("ann").push("a", &[("a.txt", "other")]);
    let later =
        desk.gh_raw("POST", "graphql", Some(json!({"query": FEEDBACK, "variables": {"id": id}})), &[]);
    assert_eq!(later.body["data"]["node"]["reviewThreads"]["nodes"][0]["isOutdated"], true);
    assert_eq!(later.body["data"]["node"]["statusCheckRollup"], Value::Null);
}

#[test]
fn an_unknown_field_or_operation_is_a_stranger() {
    let forge = Forge::with_shop();
    let desk = Desk::new(&forge);
    let body = json!({"query": "query Odd { viewer { login shoeSize } }"});
    let answer = desk.gh_raw("POST", "graphql", Some(body), &[]);
    assert_eq!(answer.body["errors"][0]["message"], "Field 'shoeSize' doesn't exist on type 'User'");
    assert_eq!(forge.take_strangers(), ["POST /graphql Odd: Field 'shoeSize' doesn't exist on type 'User'"]);
    let body = json!({"query": "query Viewer { viewer { ...who } } fragment who on User { name: login }"});
    assert_eq!(
        desk.gh_raw("POST", "graphql", Some(body), &[]).body,
        json!({"data": {"viewer": {"name": "octo"}}})
    );
}
