use regatta_testkit::forge::{Bucket, Forge};
use regatta_testkit::world::World;
use serde_json::json;

use super::desk::Desk;

#[test]
fn the_real_host_names_and_enterprise_come_through_the_socket() {
    let forge = Forge::with_shop();
    forge.enterprise("ghe.acme.test");
    let public = Desk::new(&forge).by_socket("github.com");
    let user = public.get("user");
    assert_eq!(user.body["url"], "https://api.github.com/users/octo");
    let body = json!({"query": "query Viewer { viewer { login } }"});
    assert_eq!(
        public.gh_raw("POST", "graphql", Some(body.clone()), &[]).body["data"]["viewer"]["login"],
        "octo"
    );
    let enterprise = Desk::new(&forge).by_socket("ghe.acme.test");
    assert_eq!(enterprise.get("repos/acme/shop").body["url"], "https://ghe.acme.test/api/v3/repos/acme/shop");
    assert_eq!(enterprise.gh_raw("POST", "graphql", Some(body), &[]).body["data"]["viewer"]["login"], "octo");
    assert_eq!(
        forge.call_lines(),
        ["GET /user", "POST /graphql Viewer", "GET /repos/acme/shop", "POST /graphql Viewer"]
    );
    assert_eq!(forge.writes(), 0);
}

#[test]
fn a_token_opens_only_what_its_user_may_do() {
    let forge = Forge::with_shop();
    let desk = Desk::new(&forge).without("GH_TOKEN");
    desk.commit("a", &[("a.txt", "a")]);
    let (pushed, said) = desk.try_git(&["push", "-q", "origin", "HEAD:a"]);
    assert!(!pushed && said.contains("could not read Username"), "{said}");
    forge.user("eve");
    let eve = Desk::new(&forge).for_user("eve");
    eve.commit("a", &[("a.txt", "a")]);
    let (pushed, said) = eve.try_git(&["push", "-q", "origin", "HEAD:a"]);
    assert!(!pushed && said.contains("403"), "{said}");
    let octo = Desk::new(&forge);
    forge.new_token("octo", "gho_other");
    assert_eq!(octo.gh_raw("GET", "user", None, &[]).said(), (401, "Bad credentials"));
    assert_eq!(Desk::new(&forge).get("user").status, 200);
}

#[test]
fn the_quota_is_counted_and_ends() {
    let forge = Forge::with_shop();
    let desk = Desk::new(&forge);
    let left = |answer: &super::desk::Answer, name: &str| answer.header(name).unwrap().to_owned();
    let first = desk.get("user");
    assert_eq!(
        (left(&first, "x-ratelimit-limit"), left(&first, "x-ratelimit-remaining")),
        ("5000".into(), "4999".into())
    );
    // Eleven lists of a hundred in each of a hundred: eleven points.
    let query =
        "query Many { repository(owner: \"acme\", name: \"shop\") { issues(first: 100) { nodes { id } }
        pullRequests(first: 100) { nodes { id } } } rateLimit { cost remaining } }";
    let many = desk.gh_raw("POST", "graphql", Some(json!({"query": query})), &[]);
    assert_eq!(many.body["data"]["rateLimit"], json!({"cost": 1, "remaining": 4999}), "{many:?}");
    assert_eq!(forge.calls().last().unwrap().points, 1);
    forge.quota("octo", Bucket::Core, 1, 600);
    assert_eq!(left(&desk.get("user"), "x-ratelimit-remaining"), "0");
    let over = desk.get("user");
    assert_eq!(over.status, 403);
    assert!(over.said().1.starts_with("API rate limit exceeded"), "{over:?}");
    // The other bucket is its own.
    assert_eq!(desk.gh_raw("POST", "graphql", Some(json!({"query": query})), &[]).status, 200);
    forge.quota("octo", Bucket::Core, 0, 0);
    assert_eq!(desk.get("user").status, 200, "an hour later");
}

#[test]
fn a_world_is_furnished_with_a_login_of_its_own() {
    let forge = Forge::start();
    let mut world = World::new("/bin/true");
    forge.furnish(&mut world);
    assert_eq!(forge.tip("main"), Some(world.git(["rev-parse", "HEAD"])));
    let mut gh = std::process::Command::new("gh");
    gh.args(["api", "user", "--jq", ".login"]).env_clear().envs(world.variables()).current_dir(world.root());
    assert_eq!(String::from_utf8_lossy(&gh.output().unwrap().stdout), "octo\n");
    // Without the token nothing else is found: no file of the machine's user, no keyring.
    gh.env_remove("GH_TOKEN");
    let said = String::from_utf8_lossy(&gh.output().unwrap().stderr).into_owned();
    assert!(said.contains("Requires authentication (HTTP 401)"), "{said}");
}

#[test]
fn other_hosts_are_strangers() {
    let forge = Forge::with_shop();
    let desk = Desk::new(&forge);
    let (reached, _) = desk.try_git(&["ls-remote", "http://example.org/a/b.git"]);
    assert!(!reached);
    let strangers = forge.take_strangers();
    assert!(strangers[0].contains("example.org"), "{strangers:?}");
}
