//! `regatta completions` and `regatta version`.

use regatta_testkit::world::World;

use crate::REGATTA;

#[test]
fn every_shell_gets_a_script_that_knows_the_commands() {
    let world = World::new(REGATTA);
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = world.regatta_in(&world.repo().outside(), ["completions", shell]).exited(0).stdout;
        for word in ["validate", "doctor", "--json"] {
            assert!(script.contains(word.trim_start_matches('-')), "{word} in {shell}");
        }
    }
    let wrong = world.regatta(["completions", "cmd", "--json"]).exited(2);
    assert_eq!(wrong.error()["code"], 2);
}

#[test]
fn scripts_complete_the_ids_of_tasks() {
    let world = World::after_plan(REGATTA);
    let ids = world.regatta(["complete-ids"]).exited(0).stdout;
    let mut ids: Vec<&str> = ids.lines().collect();
    ids.sort_unstable();
    assert_eq!(ids, ["after", "broken", "good", "script"]);
    assert_eq!(
        world.regatta_in(&world.repo().outside(), ["complete-ids"]).exited(0).stdout,
        "",
        "no project, no ids, no error"
    );
    let script = world.outside("regatta.bash");
    std::fs::write(&script, world.regatta(["completions", "bash"]).exited(0).stdout).unwrap();
    let bin = std::path::Path::new(crate::REGATTA).parent().unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
    let typed = format!(
        ". {}; COMP_WORDS=(regatta status g); COMP_CWORD=2; _regatta_with_ids regatta g status; echo \"${{COMPREPLY[@]}}\"",
        script.display()
    );
    let mut bash = std::process::Command::new("bash");
    bash.arg("-c").arg(typed).current_dir(world.root()).env_clear().envs(world.variables()).env("PATH", path);
    let completed = bash.output().unwrap();
    assert_eq!(String::from_utf8_lossy(&completed.stdout), "good\n", "{completed:?}");
    for shell in ["zsh", "fish"] {
        assert!(
            world.regatta(["completions", shell]).exited(0).stdout.contains("regatta complete-ids"),
            "{shell}"
        );
    }
    let zsh = world.regatta(["completions", "zsh"]).exited(0).stdout;
    assert!(zsh.contains(":_regatta_ids'"), "{zsh}");
}

#[test]
fn the_version_is_the_same_both_ways() {
    let world = World::new(REGATTA);
    let out = world.regatta_in(&world.repo().outside(), ["version"]).exited(0).stdout;
    assert_eq!(out, format!("regatta {}\n", env!("CARGO_PKG_VERSION")));
    assert_eq!(world.regatta(["--version"]).exited(0).stdout, out);
    assert_eq!(world.regatta(["version", "--json"]).exited(0).json()["version"], env!("CARGO_PKG_VERSION"));
}
