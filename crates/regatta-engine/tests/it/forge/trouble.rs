//! Everything that can be the matter with a forge, by what a caller does about it.

use std::time::Duration;

use regatta_core::config::Github;
use regatta_engine::forge::{Forge as _, ForgeError};
use regatta_testkit::forge::{Bucket, Fault};

use super::{Desk, new_pull, shop};

/// The kind of an error.
fn kind(error: &ForgeError) -> &'static str {
    match error {
        ForgeError::Refused(_) => "refused",
        ForgeError::Limited { .. } => "limited",
        ForgeError::Pausing { .. } => "pausing",
        ForgeError::Away(_) => "away",
        ForgeError::Denied(_) => "denied",
        ForgeError::Gone(_) => "gone",
        ForgeError::Moved(_) => "moved",
        ForgeError::Stale => "stale",
    }
}

#[tokio::test]
async fn trouble_is_cut_by_what_the_caller_does() {
    let desk = Desk::new();
    let mut found = Vec::new();
    for (name, fault) in [
        ("500", Fault::Status(500)),
        ("502", Fault::Status(502)),
        ("408", Fault::Status(408)),
        ("html", Fault::Html(200)),
        ("html 502", Fault::Html(502)),
        ("cut", Fault::Cut),
        ("refused connection", Fault::Refuse),
        ("401", Fault::Status(401)),
        ("403", Fault::Status(403)),
        ("sso", Fault::Sso),
        ("404", Fault::Status(404)),
        ("secondary", Fault::Secondary { retry_after: 7 }),
        ("429", Fault::TooMany { retry_after: 7 }),
        ("primary", Fault::Primary { reset_in: 900 }),
    ] {
        desk.server.next("GET /repos/acme/shop", fault);
        let error = desk.client().repository(&shop(), None).await.unwrap_err();
        found.push(format!("{name}: {}", kind(&error)));
    }
    assert_eq!(desk.server.faults_left(), Vec::<String>::new());
    insta::assert_snapshot!(found.join("\n"), @"
    500: away
    502: away
    408: away
    html: away
    html 502: away
    cut: away
    refused connection: away
    401: denied
    403: denied
    sso: denied
    404: gone
    secondary: limited
    429: limited
    primary: limited
    ");
}

#[tokio::test]
async fn messages_say_what_to_do() {
    let desk = Desk::new();
    desk.server.next("GET /user", Fault::Status(401));
    let error = desk.client().who().await.unwrap_err().to_string();
    assert!(error.contains("gh auth login --hostname github.localhost"), "{error}");
    desk.server.next("GET /user", Fault::Sso);
    let error = desk.client().who().await.unwrap_err().to_string();
    assert!(error.contains("https://github.com/orgs/acme/sso?authorization_request=1"), "{error}");
    desk.server.next("GET /user", Fault::Status(403));
    let error = desk.client().who().await.unwrap_err().to_string();
    assert!(error.contains("scope `repo`"), "{error}");
}

#[tokio::test]
async fn a_host_that_wants_to_be_left_alone_is() {
    let desk = Desk::new();
    let client = desk.client();
    desk.server.next("GET /user", Fault::Secondary { retry_after: 300 });
    let Err(ForgeError::Limited { until }) = client.who().await else { panic!("it is limited") };
    let asked = desk.server.calls().len();
    assert_eq!(client.repository(&shop(), None).await, Err(ForgeError::Limited { until }));
    assert!(client.look(&[]).await.is_ok(), "nothing to ask");
    assert_eq!(desk.server.calls().len(), asked);
    let wait = until.since(regatta_engine::clock::now());
    assert!(wait > Duration::from_secs(290) && wait <= Duration::from_secs(300), "{wait:?}");
}

#[tokio::test]
async fn below_the_users_share_only_writes_and_commands_go_out() {
    let desk = Desk::new();
    let client = desk.client();
    let pull = desk.pull(&client, "regatta/a").await;
    desk.server.quota("octo", Bucket::Graphql, 1500, 1800);
    client.pull(&pull.id).await.unwrap();
    let look = client.look(std::slice::from_ref(&pull.id)).await;
    assert!(matches!(look, Err(ForgeError::Limited { .. })), "{look:?}");
    client.pull(&pull.id).await.unwrap();
    client.set_open(&pull, false).await.unwrap();
}

#[tokio::test]
async fn a_request_that_hangs_is_ended() {
    let desk = Desk::new();
    desk.server.next("GET /user", Fault::Hang);
    let begun = std::time::Instant::now();
    let error = desk.client().who().await.unwrap_err();
    assert_eq!(error, ForgeError::Away("no answer within 20 s".into()));
    assert!(begun.elapsed() < Duration::from_secs(60));
}

#[tokio::test]
async fn requests_go_one_at_a_time() {
    let desk = Desk::new();
    let client = desk.client();
    let slug = shop();
    let (a, b, c) =
        tokio::join!(client.who(), client.repository(&slug, None), client.permission(&slug, "octo"));
    assert!(a.is_ok() && b.is_ok() && c.is_ok());
    assert_eq!((desk.server.calls().len(), desk.server.most_at_once()), (3, 1));
}

#[tokio::test]
async fn a_redirected_write_has_done_nothing() {
    let desk = Desk::new();
    let client = desk.client();
    desk.branch("regatta/a");
    let elsewhere = "http://api.github.localhost/repos/acme/shop".to_owned();
    for fault in [Fault::Moved(elsewhere.clone()), Fault::Redirected(elsewhere)] {
        desk.server.next("POST /repos/*/pulls", fault);
        let error = desk.client().propose(&shop(), &new_pull("regatta/a")).await.unwrap_err();
        assert_eq!(kind(&error), "away", "{error:?}");
    }
    desk.server.as_user("acme").rename_repo("boutique");
    let error = desk.client().propose(&shop(), &new_pull("regatta/a")).await.unwrap_err();
    assert_eq!(error, ForgeError::Moved(regatta_core::forge::Slug::parse("acme/boutique").unwrap()));
    let home = client.home().await.unwrap();
    assert_eq!(
        (home.base.slug.to_string(), client.base().to_string()),
        ("acme/boutique".into(), "acme/boutique".into())
    );
    assert_eq!(desk.server.read(|state| state.repos()[0].pulls().count()), 0);
}

#[tokio::test]
async fn a_token_that_expires_is_asked_for_again() {
    let desk = Desk::new();
    let file = desk.scratch.outside().join("token");
    std::fs::write(&file, desk.server.token("octo")).unwrap();
    let github =
        Github { token_command: vec!["cat".into(), file.display().to_string()], ..Github::default() };
    let env: Vec<_> = desk.server.world_env().into_iter().filter(|(name, _)| name != "GH_TOKEN").collect();
    let client = desk.client_with(&github, env.clone());
    assert_eq!(client.who().await.unwrap().login, "octo");
    desk.server.new_token("octo", "ghs_second");
    std::fs::write(&file, "ghs_second\n").unwrap();
    client.repository(&shop(), None).await.unwrap();
    for (content, words) in [("", "printed nothing"), ("a b", "printed something else than a token")] {
        std::fs::write(&file, content).unwrap();
        let error = desk.client_with(&github, env.clone()).who().await.unwrap_err();
        assert_eq!(error, ForgeError::Denied(format!("github.token_command {words}")));
    }
    let github = Github { token_command: vec!["no-such-program-here".into()], ..Github::default() };
    let error = desk.client_with(&github, env).who().await.unwrap_err().to_string();
    assert!(error.contains("which is not installed"), "{error}");
}
