//! `regatta validate`.

use regatta_testkit::world::{PLAN, World};

use crate::REGATTA;

#[test]
fn every_mistake_is_told_with_its_place_and_nothing_is_made() {
    let world = World::new(REGATTA);
    world.repo().write("bad.md", "---\nregatta: 1\ntasks:\n  - { id: a, agnt: sh, prompt: x }\n  - { id: b, deps: [nobody], prompt: x }\n---\n");
    let before = world.repo().snapshot();
    insta::assert_snapshot!(world.regatta(["validate", "bad.md"]).shown(), @"
    --- stderr
    bad.md:4:14: error: unknown key `agnt`
      hint: did you mean `agent`?
    bad.md:5:21: error: unknown dependency `nobody`: there is no such task
    error: 2 mistakes found; nothing was changed
    hint: correct them; `regatta validate FILE` checks again without running anything
    --- exit 2
    ");
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
    insta::assert_snapshot!(world.regatta(["validate", "no.md", "--json"]).shown(), @r#"
    --- stderr
    {"code":2,"error":"reading no.md: No such file or directory (os error 2)","hint":"check the path","next":[{"text":"check the path"}]}
    --- exit 2
    "#);
    world.repo().write("latin.md", b"---\nid: x\n---\ncaf\xe9\n");
    insta::assert_snapshot!(world.regatta(["validate", "latin.md"]).shown(), @"
    --- stderr
    latin.md:4:4: error: is not UTF-8: byte 17 is 0xe9
      hint: save the file as UTF-8
    error: 1 mistake found; nothing was changed
    hint: correct it; `regatta validate FILE` checks again without running anything
    --- exit 2
    ");
}
