//! `regatta ctx`: shared context.

use regatta_testkit::world::World;
use serde_json::Value;

use crate::REGATTA;

#[test]
fn values_are_written_in_versions() {
    let world = World::new(REGATTA);
    world.regatta(["ctx", "get", "jwt"]).exited(4);
    world.regatta(["ctx", "set", "jwt", "hs256"]).exited(0);
    assert_eq!(world.regatta(["ctx", "get", "jwt"]).exited(0).stdout, "hs256\n");
    world.regatta(["ctx", "set", "jwt", "rs256", "--if-version", "1"]).exited(0);
    let late = world.regatta(["ctx", "set", "jwt", "none", "--if-version", "1", "--json"]).exited(6);
    assert_eq!(late.error()["error"].as_str(), Some("jwt is at version 2, not at version 1"));
    world.regatta(["ctx", "set", "jwt", "none", "--if-version", "0"]).exited(6);
    world.regatta(["ctx", "delete", "jwt"]).exited(0);
    world.regatta(["ctx", "delete", "jwt"]).exited(4);
    let again = world.regatta(["ctx", "set", "jwt", "-", "--if-version", "0", "--json"]).exited(0).json();
    assert_eq!((again["version"].as_u64(), again["by"].as_str()), (Some(4), Some("ada")));
    world.regatta(["ctx", "set", "other", "1"]).exited(0);
    let listed = world.regatta(["ctx", "list", "o", "--json"]).exited(0).json();
    assert_eq!(listed.as_array().map(Vec::len), Some(1));
    let long = "x".repeat(64 * 1024 + 1);
    insta::assert_snapshot!(world.regatta(["ctx", "set", "jwt", &long, "--json"]).shown(), @r#"
    --- stderr
    {"code":2,"error":"the value of jwt has 65537 bytes, more than the 65536 that are allowed; put long text into a file and name it","hint":"`regatta help` lists the commands, `regatta help COMMAND` explains one","next":[{"text":"`regatta help` lists the commands, `regatta help COMMAND` explains one"}]}
    --- exit 2
    "#);
    world.regatta(["ctx", "set", "", "x"]).exited(2);
}

#[test]
fn changes_are_followed_deletions_too() {
    let world = World::new(REGATTA);
    world.regatta(["ctx", "set", "a", "1"]).exited(0);
    let mut watch = world.begin(["ctx", "watch", "a", "--json"]);
    let mut next = || -> (u64, Option<String>) {
        let line: Value = serde_json::from_str(&watch.next_line().expect("it goes on")).expect("an object");
        assert_eq!(line["key"], "a");
        (line["version"].as_u64().expect("a number"), line["value"].as_str().map(str::to_owned))
    };
    assert_eq!(next(), (1, Some("1".to_owned())));
    world.regatta(["ctx", "set", "b", "x"]).exited(0);
    world.regatta(["ctx", "set", "a", "2"]).exited(0);
    assert_eq!(next(), (2, Some("2".to_owned())));
    world.regatta(["ctx", "delete", "a"]).exited(0);
    assert_eq!(next(), (3, None));
}
