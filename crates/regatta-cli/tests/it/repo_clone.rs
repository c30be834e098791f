//! `regatta repo clone`: what is missing comes from `remote`, and nothing that exists is touched.

use std::fs;
use std::path::PathBuf;

use regatta_testkit::repo::write;
use regatta_testkit::world::World;
use serde_json::json;

use crate::REGATTA;
use crate::repo_status::with_remote;

/// A repository that only its remote has.
fn only_remote(world: &World, name: &str) -> PathBuf {
    let dir = with_remote(world, name, &[("lib.txt", "lib\n")]);
    fs::remove_dir_all(dir).unwrap();
    world.outside(&format!("remotes/{name}.git"))
}

#[test]
fn what_is_missing_is_cloned_and_what_is_there_stays() {
    let mut world = World::new(REGATTA);
    let shared = only_remote(&world, "shared");
    let full = only_remote(&world, "full");
    with_remote(&world, "here", &[]);
    write(&world.outside("full/mine.txt"), "mine\n");
    write(
        &world.outside("gitconfig"),
        format!(
            "[url \"file://{}/\"]\n\tinsteadOf = https://github.com/acme/\n",
            world.outside("remotes").display()
        ),
    );
    let settings = world.outside("gitconfig");
    world.env("GIT_CONFIG_GLOBAL", settings);
    only_remote(&world, "api");
    world.config(&format!(
        "repos:\n  - {{ name: shared, path: ../libs/shared, remote: {}, target: main }}\n  \
         - {{ name: api, remote: acme/api }}\n  - {{ name: here }}\n  - {{ name: full, remote: {} }}\n  \
         - {{ name: nowhere }}\n  - {{ name: gone, remote: {} }}\n",
        shared.display(),
        full.display(),
        world.outside("remotes/gone.git").display(),
    ));
    insta::assert_snapshot!(world.regatta(["repo", "clone", "shared"]).exited(0).shown(), @"shared: cloned DIR/remotes/shared to DIR/libs/shared");
    insta::assert_snapshot!(world.regatta(["repo", "clone", "--all"]).shown(), @"
    shared: is at DIR/libs/shared already
    api: cloned github.com/acme/api to DIR/api
    here: is at DIR/here already
    --- stderr
    full: not cloned: DIR/full is not a repository
    nowhere: not cloned: its row in regatta.yaml has no `remote`, and there is no directory DIR/nowhere
    gone: not cloned: repository 'DIR/remotes/gone.git' does not exist
    --- exit 6
    ");
    assert_eq!(fs::read_to_string(world.outside("api/lib.txt")).unwrap(), "lib\n");
    assert_eq!(fs::read_to_string(world.outside("full/mine.txt")).unwrap(), "mine\n");
    assert!(!world.outside("gone").exists() && !world.outside("nowhere").exists());
    let again = world.regatta(["repo", "clone", "api", "--json"]).exited(0).json();
    assert_eq!(
        again,
        json!([{
            "name": "api", "path": world.outside("api"), "remote": "acme/api", "result": "there", "why": null,
        }])
    );
    // What was cloned is what the settings mean.
    let listed = world.regatta(["repo", "list", "--json"]).exited(0).json();
    let of = |name: &str| {
        listed["repositories"].as_array().unwrap().iter().find(|one| one["name"] == name).unwrap().clone()
    };
    for name in ["shared", "api"] {
        assert_eq!((of(name)["problem"].clone(), of(name)["warning"].clone()), (json!(null), json!(null)));
    }
    world
        .repo()
        .git_in(&world.outside("api"), ["remote", "set-url", "origin", "https://github.com/evil/api"]);
    let listed = world.regatta(["repo", "list"]).exited(0).stderr;
    assert!(
        listed.contains("api: its remote is github.com/evil/api, and `remote` in the settings is acme/api"),
        "{listed}"
    );
    let doctor = world.regatta(["doctor"]).stdout;
    assert!(doctor.contains("api: its remote is github.com/evil/api"), "{doctor}");
    assert_eq!(world.regatta(["repo", "clone"]).code, 2);
}

#[test]
fn a_remote_is_data() {
    let world = World::new(REGATTA);
    let odd = ["ext::touch", "fd::7", "ssh://-oProxyCommand=touch/x", "evil://host/x", "../api", "api"];
    let row = |(n, remote): (usize, &&str)| format!("  - {{ name: r{n}, remote: {remote:?} }}\n");
    world.config(&format!("repos:\n{}", odd.iter().enumerate().map(row).collect::<String>()));
    let cloned = world.regatta(["repo", "clone", "--all", "--json"]).exited(6).json();
    for one in cloned.as_array().unwrap() {
        assert_eq!(one["result"], "held");
        assert!(one["why"].as_str().unwrap().contains("neither OWNER/NAME nor an address"), "{one}");
    }
    assert!(!world.outside("r0").exists());
}
