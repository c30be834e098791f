//! Secrets stay out of what Regatta stores, shows and lands, even if no variable holds them.

use regatta_testkit::world::{World, task};

use super::REGATTA;

const SECRET: &str = "s3cr3t-in-an-address";

#[track_caller]
fn assert_nowhere(world: &World, said: &str) {
    assert!(!said.contains(SECRET), "{said}");
    let logs = world.root().join(".regatta/logs/a/1.jsonl");
    let logged = std::fs::read_to_string(&logs).unwrap_or_default();
    assert!(!logged.contains(SECRET), "{logged}");
}

#[test]
fn a_password_in_an_address_is_masked_in_output_commits_and_reports() {
    let world = World::without_sandbox(REGATTA);
    // The text of a plan is stored as written, so no plan here contains the whole secret.
    let address = "https://bot:$pw@example.org/x.git";
    let script = format!(
        "pw=s3cr3t-in; pw=$pw-an-address\n\
         echo fetching {address}; echo 1 > a.txt; git add a.txt; git commit -qm \"from {address}\"\n\
         echo 2 > b.txt; git add b.txt; git commit -qm two\n\
         regatta ctx set origin {address}\n\
         regatta done --verdict pass --summary \"took it from {address}\""
    );
    let plan = world.plan(&task("a", "", &script));
    let mut said = world.run(&plan, &[]).exited(0).stdout;
    for args in [
        &["status", "a"][..],
        &["logs", "a"],
        &["report"],
        &["events"],
        &["ctx", "get", "origin"],
        &["land", "history", "a"],
    ] {
        said.push_str(&world.regatta(args).exited(0).stdout);
    }
    assert_nowhere(&world, &said);
    assert!(said.contains("https://bot:[redacted:url-password]@example.org/x.git"), "{said}");
    let landed = world.repo().git(["log", "--format=%B", "main"]);
    assert!(landed.contains("from https://bot:[redacted:url-password]@example.org"), "{landed}");
    assert!(!landed.contains(SECRET), "{landed}");
    assert_eq!(world.landed("b.txt").as_deref(), Some("2\n"));
}
