//! One plan over several repositories, each of which lands by pull requests.

use std::fs;

use regatta_testkit::forge::{Ci, Forge, Permission};
use regatta_testkit::repo::write;
use regatta_testkit::shown::shown;
use regatta_testkit::world::World;

use crate::REGATTA;

/// The repositories beside the project, and how they build on each other.
const REPOS: [&str; 3] = ["shared", "api", "web"];
const CHAIN: &str = "repos:\n  - { name: shared, path: ../shared }\n  - { name: api, path: ../api, depends_on: [shared] }\n  \
                     - { name: web, path: ../web, depends_on: [api] }\n";
const PLAN: &str = "- { id: lib, repo: shared, prompt: \"echo one > lib.txt\" }\n\
                    - { id: use, repo: api, deps: [lib], prompt: \"cat ../shared/lib.txt > used.txt\" }\n\
                    - { id: page, repo: web, deps: [use], prompt: \"cat ../api/used.txt > page.txt\" }\n";

/// A project whose repositories are all at the server, as `acme/NAME`.
fn at_forge(merge: &str) -> (World, Forge) {
    let forge = Forge::start();
    forge.ci(Ci::Passes("ci".to_owned()));
    let mut world = World::new(REGATTA);
    world.env("REGATTA_TEST_LOOK_MS", "400").env("USER", "ann");
    world.config(&format!(
        "version: 1\nland: {{ via: pr, auto: true, pr: {{ merge: {merge} }} }}\nagents:\n  sh: {{ kind: command, argv: [sh] }}\n\
         {CHAIN}"
    ));
    forge.furnish(&mut world);
    for repo in REPOS {
        let (full_name, dir) = (format!("acme/{repo}"), world.outside(repo));
        forge.repo(&full_name).member(&full_name, "octo", Permission::Write);
        fs::create_dir_all(&dir).unwrap();
        write(&dir.join("README.md"), format!("{repo}\n"));
        let remote = forge.remote(&full_name);
        for args in [
            &["init", "--quiet", "--initial-branch=main"][..],
            &["config", "user.name", "Ada"],
            &["config", "user.email", "ada@example.org"],
            &["add", "."],
            &["commit", "--quiet", "-m", "first"],
            &["remote", "add", "origin", &remote],
        ] {
            world.repo().git_in(&dir, args);
        }
        world.git(["-C", dir.to_str().unwrap(), "push", "--quiet", "origin", "main"]);
    }
    (world, forge)
}

/// What the target of a repository has at the server.
fn there(forge: &Forge, repo: &str, file: &str) -> Option<String> {
    let dir = forge.read(|state| state.repo(&format!("acme/{repo}")).unwrap().dir.clone());
    let mut git = std::process::Command::new("git");
    let shown = git.arg("-C").arg(dir).args(["show", &format!("main:{file}")]).output().unwrap();
    shown.status.success().then(|| String::from_utf8_lossy(&shown.stdout).into_owned())
}

fn pulls(forge: &Forge) -> Vec<(&'static str, usize, usize)> {
    forge.read(|state| {
        let of = |repo: &'static str| {
            let pulls: Vec<_> = state.repo(&format!("acme/{repo}")).unwrap().pulls().collect();
            (repo, pulls.len(), pulls.iter().filter(|(_, pull)| pull.merged.is_some()).count())
        };
        REPOS.map(of).to_vec()
    })
}

#[test]
fn a_chain_over_three_repositories_is_merged_one_after_the_other() {
    let (mut world, forge) = at_forge("green");
    // Killed in the middle, and resumed.
    let plan = world.plan(PLAN);
    world.env("REGATTA_FAILPOINT", "merged-there:2");
    let first = world.run(&plan, &[]);
    assert_eq!(first.code, 137, "{}{}", first.stdout, first.stderr);
    world.env("REGATTA_FAILPOINT", "");
    world.run(&plan, &["--resume"]).exited(0);
    world.assert_states(["lib landed", "page landed", "use landed"]);
    assert_eq!(pulls(&forge), [("shared", 1, 1), ("api", 1, 1), ("web", 1, 1)]);
    for (repo, file) in [("shared", "lib.txt"), ("api", "used.txt"), ("web", "page.txt")] {
        assert_eq!(there(&forge, repo, file).as_deref(), Some("one\n"), "{repo}");
        assert_eq!(
            fs::read_to_string(world.outside(repo).join(file)).unwrap(),
            "one\n",
            "its checkout follows"
        );
    }
    world.assert_no_process();
}

#[test]
fn merges_are_limited_to_one_repository_by_its_name_here_or_there() {
    let (world, forge) = at_forge("approved");
    let tasks = "- { id: a, repo: shared, prompt: \"echo a > a.txt\" }\n- { id: b, repo: api, prompt: \"echo b > b.txt\" }\n\
                 - { id: c, prompt: \"echo c > c.txt\" }\n";
    world.run(&world.plan(tasks), &["--until", "proposed"]).exited(0);
    let dry = world.regatta(["merge", "--dry-run", "--repo", "acme/api"]).exited(0);
    insta::assert_snapshot!(shown(&dry.stdout), @"b #1 may be merged at HASH");
    let ran = world.regatta(["merge", "--repo", "shared"]).exited(0);
    insta::assert_snapshot!(shown(&ran.stdout), @"a #1 landed on shared:main as HASH");
    assert_eq!(pulls(&forge), [("shared", 1, 1), ("api", 1, 0), ("web", 0, 0)]);
    insta::assert_snapshot!(world.regatta(["merge", "--repo", "nothing"]).shown(), @r#"
    --- stderr
    error: the project has no repository "nothing"
    hint: known are: acme/api, acme/shared, acme/shop, api, shared, web
    --- exit 4
    "#);
    world.regatta(["merge"]).exited(0);
    world.assert_states(["a landed", "b landed", "c landed"]);
}
