//! Tasks without a file.

use std::collections::BTreeSet;

use regatta_testkit::world::World;
use serde_json::json;

use super::{n_events, spec, world};
use crate::REGATTA;

#[test]
fn a_prompt_is_enough_and_names_are_given_in_order() {
    let world = World::new(REGATTA);
    insta::assert_snapshot!(world.regatta(["add", "Mend the flaky test\n\nIt fails on Mondays.", "--agent", "sh"]).shown(), @"
    enqueued GEN-001  pending  stays on regatta/GEN-001
    no daemon is running; start one with `regatta daemon start`
    ");
    let args =
        ["add", "again", "--deps", "GEN-001", "--priority", "4", "--title", "T: \"x\"", "--model", "opus"];
    world.regatta(args.iter().chain(&["--land"])).exited(0);
    let first = spec(&world, "GEN-001");
    assert_eq!((first.title.as_str(), first.land), ("Mend the flaky test", false));
    assert!(first.prompt.ends_with("on Mondays."), "{}", first.prompt);
    let second = spec(&world, "GEN-002");
    assert_eq!((second.title.as_str(), second.priority, second.land), ("T: \"x\"", 4, true));
    assert_eq!(second.model.as_deref(), Some("opus"));
    assert_eq!(second.deps, [first.id]);
    let json = world.regatta(["add", "named", "--id", "my-own", "--json"]).exited(0).json();
    assert_eq!(json["tasks"][0]["id"], "my-own");
    insta::assert_snapshot!(world.regatta(["add", "named", "--id", "MY-own", "--json"]).shown(), @r#"
    --- stderr
    {"code":6,"error":"my-own (pending) already exists; nothing was changed","hint":"it has not ended: `regatta enqueue --replace my-own` replaces it with the new text of its file","next":[{"text":"it has not ended: `regatta enqueue --replace my-own` replaces it with the new text of its file"}]}
    --- exit 6
    "#);
}

#[test]
fn what_cannot_be_a_task_is_refused_and_nothing_is_made() {
    let world = World::new(REGATTA);
    for args in [
        &["add"][..],
        &["add", "  "],
        &["add", "x", "--agent", "nobody"],
        &["add", "x", "--id", "../x"],
        &["add", "x", "--deps", "nobody"],
        &["add", "x", "--prd", "ten"],
        &["add", "x", "--id", "a", "--prd", "1"],
    ] {
        world.regatta(args.iter().chain(&["--json"])).exited(2).error();
    }
    assert_eq!(world.regatta(["list", "--json"]).exited(0).json(), json!([]));
}

#[test]
fn eight_at_once_get_eight_names() {
    let world = World::new(REGATTA);
    world.regatta(["add", "the first"]).exited(0);
    let ids: BTreeSet<String> = std::thread::scope(|scope| {
        let add = |n: usize| {
            let world = &world;
            scope.spawn(move || {
                let ran = world.regatta(["add", &format!("number {n}"), "--json"]).exited(0);
                ran.json()["tasks"][0]["id"].as_str().unwrap().to_owned()
            })
        };
        let adding: Vec<_> = (0..8).map(add).collect();
        adding.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let expected: BTreeSet<String> = (2..10).map(|n| format!("GEN-{n:03}")).collect();
    assert_eq!(ids, expected);
    assert_eq!(n_events(&world), 9);
}

#[test]
fn a_name_whose_branch_is_there_is_not_given_again() {
    let world = World::new(REGATTA);
    world.repo().git(["branch", "regatta/GEN-001"]);
    let json = world.regatta(["add", "x", "--json"]).exited(0).json();
    assert_eq!(json["tasks"][0]["id"], "GEN-002");
}

#[test]
fn a_requirement_document_gives_name_title_prompt_and_dependencies() {
    let world = world();
    world.repo().write("docs/prd/PRD-009-base.md", "# The base\n");
    world.repo().write(
        "docs/prd/PRD-010-login.md",
        "# Log in\n\n**Depends on:** PRD-009, PRD-001\n\nPeople log in.\n",
    );
    world.repo().write("docs/prd/PRD-0101-other.md", "# Another\n");
    world.repo().write("node_modules/x/PRD-010-copy.md", "# A copy\n");
    world.regatta(["add", "--prd", "9"]).exited(0);
    let ran = world.regatta(["add", "--prd", "010", "Mind the tests."]).exited(0);
    // Further warnings depend on the agents of this machine.
    insta::assert_snapshot!(ran.stderr.lines().take(2).collect::<Vec<_>>().join("\n"), @"
    docs/prd/PRD-010-login.md:1:1: warning: depends on PRD-001, which is not a task here, so it is ignored
      hint: --deps IDS says what to wait for
    ");
    let login = spec(&world, "PRD-010");
    assert_eq!(login.title, "Log in");
    assert_eq!(login.deps.iter().map(|dep| dep.as_str()).collect::<Vec<_>>(), ["PRD-009"]);
    insta::assert_snapshot!(login.prompt, @"
    # Log in

    Mind the tests.

    Implement the requirements of PRD-010, from docs/prd/PRD-010-login.md:

    # Log in

    **Depends on:** PRD-009, PRD-001

    People log in.
    ");
    // If claude has its own command for it, claude is given that; others get the document.
    world.repo().write(".claude/commands/implement-prd.md", "Implement $ARGUMENTS\n");
    world.repo().write("docs/prd/PRD-011-logout.md", "# Log out\n\nDepends on: PRD-010\n\nPeople log out.\n");
    world.repo().write("docs/prd/PRD-012-more.md", "# More\n\nMore of it.\n");
    world.regatta(["add", "--prd", "11"]).exited(0);
    let logout = spec(&world, "PRD-011");
    assert_eq!((logout.prompt.trim(), logout.title.as_str()), ("/implement-prd PRD-011", "Log out"));
    assert_eq!(logout.deps, [spec(&world, "PRD-010").id]);
    world.regatta(["add", "--prd", "12", "--agent", "sh"]).exited(0);
    insta::assert_snapshot!(spec(&world, "PRD-012").prompt, @"
    # More

    Implement the requirements of PRD-012, from docs/prd/PRD-012-more.md:

    # More

    More of it.
    ");
    world.regatta(["add", "--prd", "10"]).exited(6);
    insta::assert_snapshot!(world.regatta(["add", "--prd", "77", "--json"]).shown(), @r#"
    --- stderr
    {"code":4,"error":"there is no PRD-77*.md in DIR/repo","hint":"write one, for example docs/prd/PRD-010-title.md, or omit --prd","next":[{"text":"write one, for example docs/prd/PRD-010-title.md, or omit --prd"}]}
    --- exit 4
    "#);
    world.repo().write("more/PRD-077-a.md", "# A\n");
    world.repo().write("more/PRD-077-b.md", "# B\n");
    insta::assert_snapshot!(world.regatta(["add", "--prd", "PRD-077", "--json"]).shown(), @r#"
    --- stderr
    {"code":2,"error":"PRD-077 could be more/PRD-077-a.md or more/PRD-077-b.md","hint":"rename or remove all but one of them","next":[{"text":"rename or remove all but one of them"}]}
    --- exit 2
    "#);
}
