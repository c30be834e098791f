//! `docs/guide/several-repositories.md`: its commands are typed, in its order, and print what it says.

use std::path::Path;

use regatta_testkit::repo::{ScratchRepo, write};
use regatta_testkit::shown::shown;
use regatta_testkit::world::World;

use crate::REGATTA;
use crate::repo_status::{pushed_elsewhere, with_remote};

/// Every command of the page's `console` blocks, with the output that follows it.
fn typed(page: &str) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    let mut inside = false;
    for line in page.lines() {
        match (inside, line) {
            (_, "```console") => inside = true,
            (true, "```") => inside = false,
            (true, line) => match (line.strip_prefix("$ "), found.last_mut()) {
                (Some(command), _) => found.push((command.to_owned(), String::new())),
                (None, Some((_, output))) => *output += &format!("{line}\n"),
                (None, None) => panic!("output before a command: {line}"),
            },
            (false, _) => {}
        }
    }
    found
}

#[test]
fn the_page_is_followed_word_for_word() {
    let repo = ScratchRepo::at("shop", "main", &[]);
    repo.commit_file("regatta.yaml", "# the shop\nmax_workers: 2\n", "first");
    let world = World::around(REGATTA, repo);
    let cargo = |name: &str, more: &str| format!("[package]\nname = \"{name}\"\nversion = \"1.0.0\"\n{more}");
    let api = cargo("api", "\n[dependencies]\nshared = { path = \"../shared\" }\n");
    let web = "{\n  \"dependencies\": {\n    \"api-client\": \"file:../api\"\n  }\n}\n";
    with_remote(&world, "shared", &[("Cargo.toml", &cargo("shared", ""))]);
    let api = with_remote(&world, "api", &[("Cargo.toml", &api)]);
    with_remote(&world, "web", &[("package.json", web)]);
    pushed_elsewhere(&world, "shared", "src/lib.rs");
    write(&api.join("notes.txt"), "not committed");
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/several-repositories.md");
    let page = std::fs::read_to_string(page).unwrap();
    let typed = typed(&page);
    assert!(typed.len() >= 8, "{typed:?}");
    for (command, expected) in typed {
        let mut words = command.split_whitespace();
        assert_eq!(words.next(), Some("regatta"), "{command}");
        let ran = world.regatta(words).exited(0);
        let output = shown(&format!("{}{}", ran.stdout, ran.stderr)).replace("DIR/", "~/src/");
        assert_eq!(output, shown(&expected), "{command}");
    }
}
