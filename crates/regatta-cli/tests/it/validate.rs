//! `regatta validate`.

use regatta_testkit::world::{PLAN, World};

use crate::REGATTA;

#[test]
fn every_mistake_is_told_with_its_place_and_nothing_is_made() {
    let world = World::new(REGATTA);
    world.repo().write("bad.md", "---\nregatta: 1\ntasks:\n  - { id: a, agnt: sh, prompt: x }\n  - { id: b, deps: [nobody], prompt: x }\n---\n");
    let before = world.repo().snapshot();
    let ran = world.regatta(["validate", "bad.md"]).exited(2);
    assert!(
        ran.stderr.contains("bad.md:4:14: error:") && ran.stderr.contains("did you mean `agent`?"),
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.contains("bad.md:5:") && ran.stderr.contains("nobody"), "{}", ran.stderr);
    assert!(ran.stderr.contains("2 mistakes found; nothing was changed"), "{}", ran.stderr);
    let json = world.regatta(["validate", "bad.md", "--json"]).exited(2).error();
    assert_eq!(json["code"], 2);
    assert_eq!((&json["diagnostics"][0]["line"], &json["diagnostics"][0]["column"]), (&4.into(), &14.into()));
    world.regatta(["run", "--no-dashboard", "bad.md"]).exited(2);
    assert_eq!(world.repo().snapshot(), before);
    assert!(!world.root().join(".regatta").exists());
}

#[test]
fn good_files_are_counted_and_missing_ones_named() {
    let world = World::new(REGATTA);
    let path = world.plan_file(PLAN);
    let path = path.to_str().unwrap();
    assert_eq!(world.regatta(["validate", path]).exited(0).stdout, "ok: 4 tasks\n");
    let json = world.regatta(["parcel", "validate", path, "--json"]).exited(0).json();
    assert_eq!(json["tasks"], serde_json::json!(["good", "script", "broken", "after"]));
    let missing = world.regatta(["validate", "no.md", "--json"]).exited(2).error();
    assert!(missing["error"].as_str().unwrap().contains("no.md"), "{missing}");
    world.repo().write("latin.md", b"---\nid: x\n---\ncaf\xe9\n");
    let latin = world.regatta(["validate", "latin.md"]).exited(2);
    assert!(latin.stderr.contains("latin.md:4:4: error: is not UTF-8"), "{}", latin.stderr);
}
