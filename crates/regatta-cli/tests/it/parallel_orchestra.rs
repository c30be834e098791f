//! Manifests of parallel-orchestra, unchanged, through the binary: wherever they are, with a script that plays
//! `claude`.

use std::fs;
use std::path::Path;

use regatta_testkit::repo::write;
use regatta_testkit::world::World;

use crate::notify::hook::{Hook, Mood};
use crate::run_agents::with_agents;

/// Records where it was started, with what, and what it found there; then does what its task is about.
const CLAUDE: &str = r#"cat >/dev/null
{ pwd; echo "$@" | tr '\n' ' '; echo; echo "guard=$PO_WORKTREE_GUARD"; find . -path '*.claude/*' -type f; } >NOTES/$REGATTA_TASK
case $REGATTA_TASK in
*-add*) mkdir -p src .claude/reports; echo add >src/addition.py; echo good >.claude/reports/test-report-1.md; git add -A ;;
*-fail*) exit 1 ;;
*-look*|review) ;;
*) echo "$REGATTA_TASK" >"$REGATTA_TASK.py" ;;
esac
echo '{"type":"system","subtype":"init","session_id":"s","model":"m"}'
echo '{"type":"result","subtype":"success","is_error":false,"result":"done"}'"#;

fn scene() -> World {
    let mut world = with_agents(&[("claude", CLAUDE)]);
    let config_dir = world.outside("claude-config");
    world.env("CLAUDE_CONFIG_DIR", config_dir);
    world
}

/// What the agent of a task recorded: its directory, its arguments, its guard, the files of every `.claude`.
fn noted(world: &World, task: &str) -> (String, String, String, Vec<String>) {
    let text = fs::read_to_string(world.outside("notes").join(task)).unwrap();
    let mut lines = text.lines().map(str::to_owned);
    let mut next = || lines.next().unwrap();
    let (dir, argv, guard) = (next(), next(), next());
    let mut files: Vec<String> = lines.map(|line| line.trim_start_matches("./").to_owned()).collect();
    files.sort();
    (dir, argv, guard, files)
}

#[test]
fn the_seeds_own_layout_runs_with_the_agents_at_the_root_and_the_projects_claude_directory_there() {
    let world = scene();
    let repo = world.repo();
    for (path, text) in [
        ("agents/tdd-develop.md", "---\nname: tdd-develop\n---\ntest first\n"),
        ("skills/tdd.md", "how\n"),
        ("CLAUDE.md", "start like this\n"),
        ("settings.json", "{}\n"),
        ("settings.local.json", "{}\n"),
        ("memory/yesterday", "x\n"),
        ("reports/test-report-0.md", "old\n"),
    ] {
        repo.write(format!("example/.claude/{path}"), text);
    }
    repo.write("example/src/addition.py", "");
    let plan = "---\npo_plan_version: \"0.1\"\nname: \"tdd\"\ncwd: \"../..\"\n\ntasks:\n\
                \x20 - id: tdd-add\n    agent: tdd-develop\n    read_only: false\n    prompt: |\n      足し算\n\n\
                \x20 - id: tdd-mul\n    agent: tdd-develop\n    read_only: false\n    depends_on:\n      - tdd-add\n    prompt: |\n      ...\n\n\
                \x20 - id: tdd-look\n    agent: tdd-develop\n    read_only: true\n    depends_on: [tdd-mul]\n    prompt: look\n---\n\n# notes\n";
    repo.write("example/.claude/reports/plan-report-tdd.md", plan);
    repo.commit_all("example");
    world.regatta(["run", "example/.claude/reports/plan-report-tdd.md"]).exited(0);
    world.assert_states(["tdd-add landed", "tdd-look done", "tdd-mul landed"]);
    let (dir, argv, guard, files) = noted(&world, "tdd-add");
    assert_eq!(Path::new(&dir), world.lanes().join("tdd-add"), "at the root of its lane");
    assert!(argv.contains("--agent tdd-develop"), "{argv}");
    assert_eq!(guard, "guard=1");
    let own: Vec<&str> =
        files.iter().map(String::as_str).filter(|file| !file.starts_with("example/")).collect();
    let expected = [
        ".claude/agents/tdd-develop.md",
        ".claude/reports/plan-report-tdd.md",
        ".claude/settings.local.json",
        ".claude/skills/tdd.md",
    ];
    assert_eq!(own, expected);
    let (dir, _, guard, _) = noted(&world, "tdd-look");
    assert_eq!((dir.ends_with("/example"), guard.as_str()), (true, "guard="), "{dir}");
    let landed = repo.git(["ls-tree", "-r", "--name-only", "main", ".claude"]);
    assert_eq!(landed, ".claude/reports/test-report-1.md", "reports land, copies do not");
    assert_eq!(world.landed("src/addition.py").as_deref(), Some("add\n"));
}

#[test]
fn a_manifest_may_lie_anywhere_and_be_started_from_anywhere() {
    // Where the manifest is, relative to the directory around the repository, its `cwd`, and the user's directory.
    let cases = [
        ("plans/p.md", "../repo", "repo"),
        ("p.md", "repo", "repo"),
        ("p.md", "repo", "."),
        ("repo/plans/p.md", ".", "repo"),
        ("repo/plans/p.md", "..", "."),
        ("elsewhere/p.md", ".", "repo"),
    ];
    for (n, (at, cwd, from)) in cases.into_iter().enumerate() {
        let world = scene();
        let outside = world.outside(".");
        let path = outside.join(at);
        write(
            &path,
            format!(
                "---\npo_plan_version: \"0.1\"\nname: p\ncwd: {cwd}\ntasks:\n\
                 \x20 - {{id: a{n}, agent: dev, read_only: false, writes: [x.py]}}\n\
                 \x20 - {{id: b{n}, agent: dev, read_only: false, writes: [x.py]}}\n\
                 \x20 - {{id: c{n}-look, agent: dev, read_only: true}}\n---\n"
            ),
        );
        let ran = world.regatta_in(&outside.join(from), ["run", path.to_str().unwrap()]);
        let ran = ran.exited(0);
        for task in ["a", "b"] {
            assert!(world.landed(&format!("{task}{n}.py")).is_some(), "{at} {cwd} {from}: {ran:?}");
            let (dir, ..) = noted(&world, &format!("{task}{n}"));
            assert_eq!(Path::new(&dir), world.lanes().join(format!("{task}{n}")));
        }
        let (dir, ..) = noted(&world, &format!("c{n}-look"));
        assert!(!dir.ends_with("plans"), "no commit has that directory: {dir}");
        world.regatta_in(&outside.join(from), ["validate", path.to_str().unwrap()]).exited(0);
    }
}

#[test]
fn both_webhooks_are_called_at_the_end_with_the_sums_and_only_where_that_is_allowed() {
    let plan = |hook: &str, tasks: &str| {
        format!(
            "---\npo_plan_version: \"0.1\"\nname: sums\ncwd: .\ndefaults: {{max_retries: 0}}\n\
             on_complete: {{webhook_url: \"{hook}/done\"}}\non_failure: {{webhook_url: \"{hook}/failed\"}}\n\
             tasks:\n{tasks}---\n"
        )
    };
    let good = "  - {id: a, agent: dev, read_only: false}\n";
    let bad = "  - {id: x-fail, agent: dev, read_only: false}\n  - {id: y, agent: dev, read_only: false, depends_on: [x-fail]}\n";

    // A plan cannot send anything into the user's own network.
    let world = scene();
    let hook = Hook::new(Mood::Answers(200));
    world.repo().write("plan.md", plan(&hook.url("secret-path"), good));
    insta::assert_snapshot!(world.regatta(["run", "plan.md"]).shown(), @r#"
    --- stderr
    plan.md:6:28: error: `webhook_url` must be a public https address
      hint: for a machine of your own, name the same address in regatta.yaml: notify: [{ on: [failed], webhook: "…", allow_private: true }]
    plan.md:7:27: error: `webhook_url` must be a public https address
      hint: for a machine of your own, name the same address in regatta.yaml: notify: [{ on: [failed], webhook: "…", allow_private: true }]
    error: 2 mistakes found; nothing was changed
    hint: correct them; `regatta validate FILE` checks again without running anything
    --- exit 2
    "#);
    world.repo().write("plan.md", plan(&format!("https://localhost:{}/secret-path", hook.port()), good));
    let ran = world.regatta(["run", "plan.md"]).exited(0);
    insta::assert_snapshot!(hook.without_port(&ran), @"warning: on_complete could not notify https://localhost:PORT/…: its name leads to 127.0.0.1, on this machine or its network; `allow_private: true` allows that");
    assert!(!ran.stdout.contains("secret-path"), "{ran:?}");
    assert!(hook.posts().is_empty());

    // The user can.
    for (tasks, code, expected) in [
        (good, 0, vec![("complete", [1, 1, 0, 0])]),
        (bad, 1, vec![("complete", [2, 0, 1, 1]), ("failure", [2, 0, 1, 1])]),
    ] {
        let world = scene();
        let hook = Hook::new(Mood::Answers(200));
        let rows = ["done", "failed"].map(|end| {
            format!("  - {{ on: parked, webhook: \"{}\", allow_private: true }}\n", hook.url(end))
        });
        world.config(&format!("notify:\n{}", rows.concat()));
        world.repo().write("plan.md", plan(hook.url("").trim_end_matches('/'), tasks));
        world.regatta(["run", "plan.md"]).exited(code);
        let sums: Vec<(String, [u64; 4])> = hook
            .posts()
            .iter()
            .map(|post| {
                assert_eq!(post.body["manifest"], "sums");
                assert!(post.body["duration_sec"].as_f64().is_some(), "{post:?}");
                let count = |name: &str| post.body[name].as_u64().unwrap();
                let event = post.body["event"].as_str().unwrap().to_owned();
                (event, ["total", "succeeded", "failed", "skipped"].map(count))
            })
            .collect();
        let expected: Vec<(String, [u64; 4])> =
            expected.into_iter().map(|(event, sums)| (event.to_owned(), sums)).collect();
        assert_eq!(sums, expected);
    }
}

#[test]
fn the_example_runs_as_it_is_with_its_own_persona() {
    let world = scene();
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/orchestra/plan.md");
    world.run(&examples, &[]).exited(0);
    let (_, argv, _, files) = noted(&world, "feature-a");
    assert!(argv.contains("--agent developer"), "{argv}");
    assert_eq!(files, [".claude/agents/developer.md"]);
    assert_eq!(world.repo().git(["ls-tree", "-r", "--name-only", "main", ".claude"]), "");
}
