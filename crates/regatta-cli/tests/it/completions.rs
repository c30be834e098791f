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
fn scripts_complete_the_ids_of_tasks() {
    let world = World::after_plan();
    let ids = world.run(["complete-ids"]).exits(0).out;
    let mut ids: Vec<&str> = ids.lines().collect();
    ids.sort_unstable();
    assert_eq!(ids, ["after", "broken", "good", "script"]);
    assert_eq!(
        world.run_in(&world.outside(), ["complete-ids"]).exits(0).out,
        "",
        "no project, no ids, no error"
    );
    let script = world.outside().join("regatta.bash");
    std::fs::write(&script, world.run(["completions", "bash"]).exits(0).out).unwrap();
    let bin = std::path::Path::new(crate::REGATTA).parent().unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
    let typed = format!(
        ". {}; COMP_WORDS=(regatta status g); COMP_CWORD=2; _regatta_with_ids regatta g status; echo \"${{COMPREPLY[@]}}\"",
        script.display()
    );
    let mut bash = std::process::Command::new("bash");
    bash.arg("-c").arg(typed).current_dir(world.root()).env_clear().envs(world.env()).env("PATH", path);
    let completed = bash.output().unwrap();
    assert_eq!(String::from_utf8_lossy(&completed.stdout), "good\n", "{completed:?}");
    for shell in ["zsh", "fish"] {
        assert!(world.run(["completions", shell]).exits(0).out.contains("regatta complete-ids"), "{shell}");
    }
    let zsh = world.run(["completions", "zsh"]).exits(0).out;
    assert!(zsh.contains(":_regatta_ids'"), "{zsh}");
}

#[test]
fn the_version_is_the_same_both_ways() {
    let world = World::new();
    let out = world.run_in(&world.outside(), ["version"]).exits(0).out;
    assert_eq!(out, format!("regatta {}\n", env!("CARGO_PKG_VERSION")));
    assert_eq!(world.run(["--version"]).exits(0).out, out);
    assert_eq!(world.run(["version", "--json"]).exits(0).json()["version"], env!("CARGO_PKG_VERSION"));
}
