//! `regatta validate`.

use crate::world::World;

#[test]
fn every_mistake_is_told_with_its_place_and_nothing_is_made() {
    let world = World::new();
    world.write("bad.md", "---\nregatta: 1\ntasks:\n  - { id: a, agnt: sh, prompt: x }\n  - { id: b, deps: [nobody], prompt: x }\n---\n");
    let before = world.snapshot();
    let ran = world.run(["validate", "bad.md"]).exits(2);
    assert!(
        ran.err.contains("bad.md:4:14: error:") && ran.err.contains("did you mean `agent`?"),
        "{}",
        ran.err
    );
    assert!(ran.err.contains("bad.md:5:") && ran.err.contains("nobody"), "{}", ran.err);
    assert!(ran.err.contains("2 mistakes found; nothing was changed"), "{}", ran.err);
    let json = world.run(["validate", "bad.md", "--json"]).exits(2).error();
    assert_eq!(json["code"], 2);
    assert_eq!((&json["diagnostics"][0]["line"], &json["diagnostics"][0]["column"]), (&4.into(), &14.into()));
    world.run(["run", "--no-dashboard", "bad.md"]).exits(2);
    assert_eq!(world.snapshot(), before);
    assert!(!world.root().join(".regatta").exists());
}

#[test]
fn good_files_are_counted_and_missing_ones_named() {
    let world = World::new();
    let path = world.plan_file(crate::world::PLAN);
    let path = path.to_str().unwrap();
    assert_eq!(world.run(["validate", path]).exits(0).out, "ok: 4 tasks\n");
    let json = world.run(["parcel", "validate", path, "--json"]).exits(0).json();
    assert_eq!(json["tasks"], serde_json::json!(["good", "script", "broken", "after"]));
    let missing = world.run(["validate", "no.md", "--json"]).exits(2).error();
    assert!(missing["error"].as_str().unwrap().contains("no.md"), "{missing}");
    world.write("latin.md", b"---\nid: x\n---\ncaf\xe9\n");
    let latin = world.run(["validate", "latin.md"]).exits(2);
    assert!(latin.err.contains("latin.md:4:4: error: is not UTF-8"), "{}", latin.err);
}
