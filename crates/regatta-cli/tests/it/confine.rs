//! The hidden command around everything that agents cause to run.

use std::process::Command;

use crate::REGATTA;

#[test]
fn it_says_what_the_machine_can_do_and_refuses_nonsense() {
    let said = Command::new(REGATTA).args(["confine", "--probe"]).output().unwrap();
    let machine: serde_json::Value = serde_json::from_slice(&said.stdout).unwrap();
    for part in ["namespaces", "overlay", "proc", "landlock", "seccomp"] {
        assert!(machine.get(part).is_some(), "{machine}");
    }
    let said = Command::new(REGATTA).args(["confine", "--", "true"]).output().unwrap();
    assert!(!said.status.success());
    let error = String::from_utf8_lossy(&said.stderr).into_owned();
    assert_eq!(error, "the sandbox could not be set up: read the command line: no --document\n");
}
