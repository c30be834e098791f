//! What is not started, and the sentence that says why.

use std::fs;
use std::process::Command;

use regatta_core::exit::Exit;
use regatta_core::sandbox::{Level, Net};
use serde_json::{Value, json};

use super::{World, exe, users};

fn refused(world: &World, document: &Value) -> String {
    let marker = world.path("lanes/mine/ran");
    let confinement = serde_json::from_value(document.clone()).unwrap();
    let ran = world.shell(&confinement, "echo > ran");
    let Exit::NeverStarted { error, .. } = ran.exit else { panic!("{document}: {ran:?}") };
    assert!(!marker.exists(), "{document}");
    error
}

#[test]
fn a_document_that_makes_no_sense_starts_nothing() {
    let world = World::new(None);
    let good = serde_json::to_value(world.document(Level::Full)).unwrap();
    for (change, why) in [
        (json!({ "version": 9 }), "its version is 9"),
        (json!({ "level": "off" }), "confines nothing"),
        (json!({ "tmp": "relative" }), "not an absolute path"),
        (json!({ "tmp": "/no/such/directory" }), "open /no/such/directory: No such file or directory"),
        (json!({ "rules": [{ "path": "/", "access": "write" }] }), "/ can only be read"),
        (json!({ "level": "files", "nested": true }), "need the level full"),
        (
            json!({ "level": "files", "network": { "own": { "proxy": true, "local": [] } } }),
            "needs the level full",
        ),
        (json!({ "level": "files", "abi": 1 }), "older than version 2"),
        (json!({ "processes": 0 }), "lets nothing run"),
    ] {
        let mut document = good.clone();
        document.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let error = refused(&world, &document);
        assert!(
            error.starts_with("the sandbox could not be set up: ") && error.contains(why),
            "{change}: {error}"
        );
    }
}

#[test]
fn without_namespaces_the_full_level_starts_nothing() {
    for user in users() {
        let world = World::new(user);
        let document = world.document(Level::Full);
        let env = json!(["PATH=/usr/bin:/bin", "REGATTA_TEST_SANDBOX=no-userns"]);
        let ran = world.start(Some(&document), &["touch", "ran"], json!({ "env": env })).ended();
        let Exit::NeverStarted { error, .. } = &ran.exit else { panic!("{ran:?}") };
        assert_eq!(
            error,
            "the sandbox could not be set up: make namespaces: Operation not permitted (os error 1)"
        );
        assert!(!world.path("lanes/mine/ran").exists());
    }
}

#[test]
fn a_working_directory_that_is_hidden_is_an_error() {
    let world = World::new(None);
    let more = json!({ "cwd": world.path("lanes/other") });
    let ran = world.start(Some(&world.document(Level::Full)), &["cat", "work"], more).ended();
    let Exit::NeverStarted { error, .. } = &ran.exit else { panic!("{ran:?}") };
    assert!(error.contains("enter ") && error.contains("lanes/other: No such file"), "{error}");
}

#[test]
fn a_command_line_that_makes_no_sense_does_nothing() {
    let world = World::new(None);
    let document = world.path("runs/document");
    fs::write(&document, "{}").unwrap();
    for args in [
        &["confine"][..],
        &["confine", "--"],
        &["confine", "--", "touch", "ran"],
        &["confine", "--document"],
        &["confine", "--document", "x", "--", "touch", "ran"],
        &["confine", "--document", "77", "--cwd", "/", "--", "touch", "ran"],
        &["confine", "--document", "0", "--cwd", "/", "--", "touch", "ran"],
        &["confine", "--document", "-1", "--cwd", "/", "--", "touch", "ran"],
        &["confine", "--document", "7", "--status", "7", "--cwd", "/", "--", "touch", "ran"],
        &["confine", "--off", "1", "--", "touch", "ran"],
    ] {
        let output = Command::new(exe()).args(args).current_dir(world.path("lanes/mine")).output().unwrap();
        assert!(!output.status.success(), "{args:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.starts_with("the sandbox could not be set up: "), "{args:?}: {said}");
    }
    assert!(!world.path("lanes/mine/ran").exists());
}

#[test]
fn a_person_can_try_it_in_a_terminal() {
    let world = World::new(None);
    let mut document = world.document(Level::Full);
    document.network = Net::None;
    let argv = ["sh", "-c", "cat work; echo x > /tmp/x; exit 7"].map(Into::into);
    let mut confined =
        regatta_engine::confine::command(exe(), &document, &world.path("lanes/mine"), &argv).unwrap();
    let output = confined.command.output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stdout).as_ref()), (Some(7), "mine\n"));
    assert_eq!(world.read("box/tmp/x"), "x\n");
}
