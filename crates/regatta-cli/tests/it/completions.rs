//! `regatta completions` and `regatta version`.

use crate::world::World;

#[test]
fn every_shell_gets_a_script_that_knows_the_commands() {
    let world = World::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = world.run_in(&world.outside(), ["completions", shell]).exits(0).out;
        for word in ["validate", "doctor", "--json"] {
            assert!(script.contains(word.trim_start_matches('-')), "{word} in {shell}");
        }
    }
    let wrong = world.run(["completions", "cmd", "--json"]).exits(2);
    assert_eq!(wrong.error()["code"], 2);
}

#[test]
fn the_version_is_the_same_both_ways() {
    let world = World::new();
    let out = world.run_in(&world.outside(), ["version"]).exits(0).out;
    assert_eq!(out, format!("regatta {}\n", env!("CARGO_PKG_VERSION")));
    assert_eq!(world.run(["--version"]).exits(0).out, out);
    assert_eq!(world.run(["version", "--json"]).exits(0).json()["version"], env!("CARGO_PKG_VERSION"));
}
