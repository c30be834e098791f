//! `regatta ctx`: shared context.

use serde_json::Value;

use crate::world::World;

#[test]
fn values_are_written_in_versions() {
    let world = World::new();
    world.run(["ctx", "get", "jwt"]).exits(4);
    world.run(["ctx", "set", "jwt", "hs256"]).exits(0);
    assert_eq!(world.run(["ctx", "get", "jwt"]).exits(0).out, "hs256\n");
    world.run(["ctx", "set", "jwt", "rs256", "--if-version", "1"]).exits(0);
    let late = world.run(["ctx", "set", "jwt", "none", "--if-version", "1", "--json"]).exits(6);
    assert_eq!(late.error()["error"].as_str(), Some("jwt is in version 2, not in version 1"));
    world.run(["ctx", "set", "jwt", "none", "--if-version", "0"]).exits(6);
    world.run(["ctx", "delete", "jwt"]).exits(0);
    world.run(["ctx", "delete", "jwt"]).exits(4);
    let again = world.run(["ctx", "set", "jwt", "-", "--if-version", "0", "--json"]).exits(0).json();
    assert_eq!((again["version"].as_u64(), again["by"].as_str()), (Some(4), Some("ada")));
    world.run(["ctx", "set", "other", "1"]).exits(0);
    let listed = world.run(["ctx", "list", "o", "--json"]).exits(0).json();
    assert_eq!(listed.as_array().map(Vec::len), Some(1));
    let long = "x".repeat(64 * 1024 + 1);
    let refused = world.run(["ctx", "set", "jwt", &long, "--json"]).exits(2);
    assert!(refused.error()["error"].as_str().is_some_and(|why| why.contains("65537 bytes")), "{refused:?}");
    world.run(["ctx", "set", "", "x"]).exits(2);
}

#[test]
fn changes_are_followed_deletions_too() {
    let world = World::new();
    world.run(["ctx", "set", "a", "1"]).exits(0);
    let mut watch = world.start(["ctx", "watch", "a", "--json"]);
    let mut next = || -> (u64, Option<String>) {
        let line: Value = serde_json::from_str(&watch.line().expect("it goes on")).expect("an object");
        assert_eq!(line["key"], "a");
        (line["version"].as_u64().expect("a number"), line["value"].as_str().map(str::to_owned))
    };
    assert_eq!(next(), (1, Some("1".to_owned())));
    world.run(["ctx", "set", "b", "x"]).exits(0);
    world.run(["ctx", "set", "a", "2"]).exits(0);
    assert_eq!(next(), (2, Some("2".to_owned())));
    world.run(["ctx", "delete", "a"]).exits(0);
    assert_eq!(next(), (3, None));
}
