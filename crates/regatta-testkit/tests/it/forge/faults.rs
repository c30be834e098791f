use std::time::Duration;

use regatta_testkit::forge::{Fault, Forge, Method};
use serde_json::json;

use super::desk::{Desk, wanted};

#[test]
fn an_answer_may_be_anything() {
    let forge = Forge::with_shop();
    let desk = Desk::new(&forge);
    let user = || desk.gh_raw("GET", "user", None, &[]);
    for status in [500, 502, 503, 401, 403, 404, 405, 409, 422] {
        forge.next("GET /user", Fault::Status(status));
        assert_eq!(user().status, status);
    }
    forge.next_times("GET /user", 2, Fault::Status(500));
    assert_eq!([user().status, user().status, user().status], [500, 500, 200]);
    forge.next("GET /user", Fault::Secondary { retry_after: 7 });
    let limited = user();
    assert_eq!((limited.status, limited.header("retry-after")), (403, Some("7")));
    assert!(limited.said().1.contains("secondary rate limit"));
    forge.next("GET /user", Fault::TooMany { retry_after: 9 });
    assert_eq!(user().status, 429);
    forge.next("GET /user", Fault::Primary { reset_in: 60 });
    assert_eq!(user().header("x-ratelimit-remaining"), Some("0"));
    forge.next("GET /user", Fault::Sso);
    assert!(user().header("x-github-sso").is_some());
    forge.next("GET /user", Fault::Html(200));
    let page = user();
    assert!(page.status == 200 && page.text.contains("Unicorn"), "{page:?}");
    forge.next("GET /user", Fault::Moved("http://api.github.localhost/users/octo".to_owned()));
    assert_eq!(user().status, 200);
    forge.next("GET /user", Fault::Cut);
    let half = user();
    assert!(half.status == 200 && !half.text.is_empty() && half.body.is_null(), "{half:?}");
    forge.next("GET /user", Fault::Refuse);
    assert_eq!(user().status, 0);
    assert!(forge.faults_left().is_empty());
}

#[test]
fn an_act_may_be_done_and_its_answer_lost() {
    let forge = Forge::with_shop();
    let desk = Desk::new(&forge);
    let head = desk.push("a", &[("a.txt", "a")]);
    forge.next("POST /repos/*/pulls", Fault::Lost);
    assert_eq!(desk.gh_raw("POST", "repos/acme/shop/pulls", Some(wanted("a")), &[]).status, 0);
    assert_eq!(desk.gh("POST", "repos/acme/shop/pulls", Some(wanted("a"))).status, 422);
    forge.next("PUT /repos/*/pulls/*/merge", Fault::Lost);
    let wish = json!({"sha": head, "merge_method": "squash"});
    assert_eq!(desk.gh_raw("PUT", "repos/acme/shop/pulls/1/merge", Some(wish), &[]).status, 0);
    assert_eq!(desk.pull(1)["merged"], true);
    // git: the push arrives, its answer does not.
    desk.commit("b", &[("b.txt", "b")]);
    forge.next("POST /acme/shop.git/git-receive-pack", Fault::Lost);
    assert!(!desk.try_git(&["push", "-q", "origin", "HEAD:b"]).0);
    assert!(forge.tip("b").is_some());
    desk.git(&["push", "-q", "origin", "HEAD:b"]);
}

#[test]
fn a_list_may_lag_behind() {
    let forge = Forge::with_shop();
    let desk = Desk::new(&forge);
    desk.push("a", &[("a.txt", "a")]);
    forge.next_times("GET /repos/acme/shop/pulls", 2, Fault::Lag);
    desk.open("a");
    let count = || desk.get("repos/acme/shop/pulls?state=all").body.as_array().unwrap().len();
    assert_eq!([count(), count(), count()], [0, 0, 1]);
}

#[test]
fn a_request_may_hang_while_others_are_answered() {
    let forge = Forge::with_shop();
    let desk = Desk::new(&forge);
    forge.next("GET /user", Fault::Hang);
    let mut command = std::process::Command::new("gh");
    command.args(["api", "user"]).env_clear().envs(desk.repo.env()).envs(forge.world_env());
    let mut hanging = command.stdout(std::process::Stdio::null()).spawn().unwrap();
    forge.wait_called("GET /user", 1);
    assert_eq!(desk.get("repos/acme/shop").status, 200);
    assert_eq!(forge.most_at_once(), 2);
    assert!(hanging.try_wait().unwrap().is_none(), "it waits for an answer");
    hanging.kill().unwrap();
    hanging.wait().unwrap();
}

#[test]
fn people_act_while_a_request_is_under_way() {
    let forge = Forge::with_shop();
    let desk = Desk::new(&forge);
    let (number, head) = desk.propose("a");
    let gate = forge.hold("PUT /repos/*/pulls/*/merge");
    std::thread::scope(|scope| {
        let merge = scope.spawn(|| desk.merge(number, "merge", &head).status);
        gate.arrived();
        forge.as_user("ann").push("a", &[("late.txt", "x")]);
        gate.open();
        assert_eq!(merge.join().unwrap(), 409);
    });
    forge.as_user("ann").push("b", &[("b.txt", "b")]);
    let theirs = forge.as_user("ann").open_pull("b", "main", "B", "");
    let gate = forge.hold("POST /acme/shop.git/git-receive-pack");
    std::thread::scope(|scope| {
        let push = scope.spawn(|| {
            desk.commit("c", &[("c.txt", "c")]);
            desk.try_git(&["push", "-q", "origin", "HEAD:main"]).0
        });
        gate.arrived();
        forge.as_user("ann").merge_by(theirs, Method::Squash);
        gate.open();
        assert!(!push.join().unwrap(), "the base moved first");
    });
}

#[test]
fn a_test_waits_for_what_happens_and_sees_how_it_was_asked() {
    let forge = Forge::with_shop();
    let desk = Desk::new(&forge);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            forge.wait_for("a pull request is merged", |state| {
                let mut pulls = state.repos()[0].pulls();
                pulls.find_map(|(issue, pull)| Some((issue.number, pull.merged.clone()?.sha)))
            })
        });
        let (number, head) = desk.propose("a");
        let merged = desk.merge(number, "squash", &head);
        let sha = merged.body["sha"].as_str().unwrap().to_owned();
        assert_eq!(waiting.join().unwrap(), (number, sha));
    });
    assert_eq!(forge.call_lines(), ["POST /repos/acme/shop/pulls", "PUT /repos/acme/shop/pulls/1/merge"]);
    assert_eq!((forge.writes(), forge.most_at_once(), forge.write_gaps().len()), (2, 1, 1));
    assert!(forge.write_gaps()[0] < Duration::from_secs(60));
    forge.forget_calls();
    assert!(forge.calls().is_empty());
}
