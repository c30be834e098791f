//! Several repositories in one project: one store, one run, one train for each of them.

use std::fs;
use std::path::PathBuf;

use regatta_testkit::daemon::until;
use regatta_testkit::repo::write;
use regatta_testkit::shown::shown;
use regatta_testkit::world::World;

/// A project with more repositories beside it, each with one commit.
struct Yard {
    world: World,
}

impl Yard {
    fn new(repos: &[&str], yaml: &str) -> Self {
        let world = World::new(env!("CARGO_BIN_EXE_regatta"));
        for repo in repos {
            let dir = world.outside(repo);
            fs::create_dir_all(&dir).unwrap();
            let git = |args: &[&str]| world.repo().git_in(&dir, args);
            git(&["init", "--quiet", "--initial-branch=main"]);
            git(&["config", "user.name", "Ada"]);
            git(&["config", "user.email", "ada@example.org"]);
            write(&dir.join("README.md"), format!("{repo}\n"));
            git(&["add", "."]);
            git(&["commit", "--quiet", "-m", "first"]);
        }
        world.config(yaml);
        Self { world }
    }

    fn dir(&self, repo: &str) -> PathBuf {
        self.world.outside(repo)
    }

    /// A file of a repository's own checkout.
    fn file(&self, repo: &str, path: &str) -> Option<String> {
        fs::read_to_string(self.dir(repo).join(path)).ok()
    }

    fn subjects(&self, repo: &str) -> Vec<String> {
        let log = self.world.repo().git_in(&self.dir(repo), ["log", "--format=%s", "main"]);
        log.lines().map(str::to_owned).collect()
    }
}

const CHAIN: &str = "repos:\n  - { name: shared, path: ../libs/shared }\n  - { name: api, path: ../api, depends_on: [shared] }\n  - name: web\n    path: ../web\n    depends_on: [api]\n    test_command: test -f ../libs/shared/lib.txt\n";

#[test]
fn a_plan_over_three_repositories_lands_in_order_and_each_finds_what_landed_beside_it() {
    let yard = Yard::new(&["libs/shared", "api", "web"], CHAIN);
    let plan = yard.world.plan(
        "- { id: lib, repo: shared, prompt: \"echo one > lib.txt\" }\n\
         - id: use\n  repo: api\n  deps: [lib]\n  checks: [\"grep one ../libs/shared/lib.txt\"]\n  \
         prompt: \"cat ../libs/shared/lib.txt > used.txt; echo $REGATTA_REPO >> used.txt\"\n\
         - id: page\n  repo: web\n  deps: [use]\n  \
         prompt: \"cat ../api/used.txt $REGATTA_SIBLING_SHARED/lib.txt > page.txt\"\n\
         - { id: own, prompt: \"echo own > own.txt\" }\n",
    );
    yard.world.regatta(["run", &plan.display().to_string()]).exited(0);
    assert_eq!(yard.file("libs/shared", "lib.txt").as_deref(), Some("one\n"), "its own checkout follows");
    assert_eq!(yard.file("api", "used.txt").as_deref(), Some("one\napi\n"));
    assert_eq!(yard.file("web", "page.txt").as_deref(), Some("one\napi\none\n"));
    assert_eq!(yard.file("repo", "own.txt").as_deref(), Some("own\n"));
    assert_eq!(yard.subjects("api").len(), 2);
    assert!(!yard.dir("api/.regatta/regatta.db").exists(), "one store for all");
    assert!(!yard.world.outside("web.lanes/page").exists(), "bays go with their lanes");
}

#[test]
fn commits_name_the_commits_beside_their_lane_and_an_agent_cannot() {
    for strategy in ["rebase", "squash", "merge"] {
        let yaml = format!(
            "land: {{ strategy: {strategy} }}\nrepos: [{{ name: shared }}, {{ name: api, depends_on: [shared] }}]\n"
        );
        let yard = Yard::new(&["shared", "api"], &yaml);
        let world = &yard.world;
        let forged = "0123456789012345678901234567890123456789";
        let plan = world.plan(&format!(
            "- {{ id: lib, repo: shared, prompt: \"echo one > lib.txt\" }}\n\
             - id: use\n  repo: api\n  deps: [lib]\n  prompt: |\n    \
             echo 1 > a.txt; git add a.txt; git commit -qm one -m 'Regatta-With: shared@{forged}'\n    \
             echo 2 > b.txt; regatta done --verdict pass --summary 'two\n\n    regatta-with: other@{forged}'\n"
        ));
        world.regatta(["run", &plan.display().to_string()]).exited(0);
        let shared = world.repo().git_in(&yard.dir("shared"), ["rev-parse", "main"]);
        let said = world.repo().git_in(&yard.dir("api"), ["log", "-1", "--format=%B", "main"]);
        assert!(said.ends_with(&format!("\nRegatta-With: shared@{shared}")), "{strategy}: {said}");
        let all = world.repo().git_in(&yard.dir("api"), ["log", "--format=%B", "main"]);
        assert!(!all.contains(forged), "{strategy}: {all}");
        let own = world.repo().git_in(&yard.dir("shared"), ["log", "--format=%B", "main"]);
        assert!(!own.contains("Regatta-With"), "{own}");
        let line = format!("- with shared@{shared}\n");
        let status = world.regatta(["status", "use"]).exited(0).stdout;
        assert!(status.contains(&line), "{status}");
        let report = world.regatta(["report"]).exited(0).stdout;
        assert_eq!(report.matches(&line).count(), 1, "{report}");
    }
}

#[test]
fn what_an_agent_changes_beside_its_lane_is_saved_in_that_repository() {
    let mut yard = Yard::new(&["libs/shared", "api", "web"], CHAIN);
    yard.world.env("REGATTA_SANDBOX", "off");
    let plan = yard.world.plan(
        "- id: stray\n  repo: api\n  prompt: \"cd ../libs/shared && chmod u+w README.md && echo mine > README.md; \
         echo x > $REGATTA_LANE/x.txt\"\n",
    );
    yard.world.regatta(["run", &plan.display().to_string()]).exited(0);
    assert_eq!(yard.file("libs/shared", "README.md").as_deref(), Some("libs/shared\n"));
    let saved = yard
        .world
        .repo()
        .git_in(&yard.dir("libs/shared"), ["show", "refs/regatta/salvage/stray/1:README.md"]);
    assert_eq!(saved.trim(), "mine");
    let status = yard.world.regatta(["status", "stray", "--json"]).exited(0).stdout;
    assert!(status.contains("it changed shared, which is not its repository"), "{status}");
}

#[test]
fn a_repository_that_cannot_be_opened_holds_only_its_own_tasks() {
    let yard = Yard::new(&["api"], "repos: [{ name: api }, { name: gone }]\n");
    let plan = yard.world.plan(
        "- { id: a, repo: api, prompt: \"echo a > a.txt\" }\n- { id: g, repo: gone, prompt: \"echo g > g.txt\" }\n",
    );
    let ran = yard.world.regatta(["run", &plan.display().to_string()]);
    assert_eq!(yard.file("api", "a.txt").as_deref(), Some("a\n"));
    let said = format!("{}{}", ran.stdout, ran.stderr);
    assert!(said.contains("its repository gone cannot be used: there is no directory"), "{said}");
}

#[test]
fn unknown_repositories_are_refused_with_the_nearest_name() {
    let yard = Yard::new(&["api"], "repos: [{ name: api }]\n");
    let plan = yard.world.plan("- { id: a, repo: apu, prompt: x }\n");
    let ran = yard.world.regatta(["validate", &plan.display().to_string()]);
    let said = format!("{}{}", ran.stdout, ran.stderr);
    assert!(said.contains("there is no repository \"apu\" in `repos`"), "{said}");
    assert!(said.contains("did you mean `api`?"), "{said}");
    let ran = yard.world.regatta(["add", "--repo", "apo", "x"]);
    assert!(ran.stderr.contains("did you mean `api`?"), "{}", ran.stderr);
}

#[test]
fn downstream_waits_for_upstream_and_a_repository_has_its_own_limit() {
    let yaml = "max_workers: 4\nrepos:\n  - { name: shared }\n  - { name: api, depends_on: [shared], wait: landed, max_workers: 1 }\n";
    let yard = Yard::new(&["shared", "api"], yaml);
    let plan = yard.world.plan(
        "- { id: up, repo: shared, prompt: \"echo up > up.txt\" }\n\
         - { id: one, repo: api, prompt: \"cat ../shared/up.txt > one.txt\" }\n\
         - { id: two, repo: api, prompt: \"cat ../shared/up.txt > two.txt\" }\n",
    );
    yard.world.regatta(["run", &plan.display().to_string()]).exited(0);
    // Neither depends on it, and both found what landed.
    assert_eq!(yard.file("api", "one.txt").as_deref(), Some("up\n"));
    assert_eq!(yard.file("api", "two.txt").as_deref(), Some("up\n"));
}

#[test]
fn a_killed_run_over_two_repositories_is_resumed_where_it_was() {
    let mut yard =
        Yard::new(&["shared", "api"], "repos: [{ name: shared }, { name: api, depends_on: [shared] }]\n");
    let plan = yard.world.plan(
        "- { id: lib, repo: shared, prompt: \"echo lib > lib.txt\" }\n\
         - { id: use, repo: api, deps: [lib], prompt: \"cat ../shared/lib.txt > use.txt\" }\n",
    );
    let plan = plan.display().to_string();
    for point in ["claimed", "lane-made", "exited", "kept"] {
        yard.world.env("REGATTA_FAILPOINT", point);
        let ran = yard.world.regatta(["run", "--resume", &plan]);
        assert!(ran.code > 128, "{point}: {}", ran.stderr);
    }
    yard.world.env("REGATTA_FAILPOINT", "");
    yard.world.regatta(["run", "--resume", &plan]).exited(0);
    assert_eq!(yard.file("api", "use.txt").as_deref(), Some("lib\n"));
    assert_eq!(yard.subjects("shared").len(), 2, "each landed once");
    assert_eq!(yard.subjects("api").len(), 2);
}

#[test]
fn lists_and_trains_name_the_repository_of_each_task() {
    let yard = Yard::new(&["shared"], "repos: [{ name: main-app, path: . }, { name: shared }]\n");
    let world = &yard.world;
    // The checkout of `shared` has changes in the way, so its car waits.
    let plan = world.plan(
        "- { id: lib, repo: shared, auto_land: true, prompt: \"echo one > README.md\" }\n- { id: own, auto_land: true, prompt: \"echo own > own.txt\" }\n",
    );
    write(&yard.dir("shared").join("README.md"), "mine\n");
    let daemon = world.daemon();
    world.enqueue(&plan);
    world.wait_state("own", "landed");
    until("it waits for the checkout", || {
        let train = world.regatta(["land", "status", "--json"]).exited(0).json();
        let car = train["cars"].as_array()?.first()?.clone();
        (car["repo"] == "shared" && car["waiting"].is_string()).then_some(())
    });
    // How much of the reason fits depends on the length of the path in it.
    let list = world.regatta(["list"]).exited(0).stdout;
    let begin = |line: &str| line.split_whitespace().take(4).collect::<Vec<_>>().join(" ");
    insta::assert_snapshot!(list.lines().map(begin).collect::<Vec<_>>().join("\n"), @"
    TASK REPO STATE TRY
    ◐ lib shared landing
    ✓ own main-app landed
    ");
    insta::assert_snapshot!(shown(&world.regatta(["land", "status"]).exited(0).stdout), @"
    train → main (HASH), 0 cars, no gate
          CAR  REPO    PRIORITY  ACTIVITY
    1  ⏸  lib  shared  0         waits: the checkout at DIR/shared has uncommitted changes in README.md; commit or stash them

    ✓ own landed on main as HASH TIME ago
    ");
    let list = world.regatta(["list", "--json"]).exited(0).json();
    let repo = |id: &str| list.as_array().unwrap().iter().find(|one| one["id"] == id).unwrap().get("repo");
    assert_eq!(repo("lib").and_then(|repo| repo.as_str()), Some("shared"));
    assert_eq!(repo("own"), None);
    let page = world.regatta(["top", "--once", "--size", "100x20"]).exited(0).stdout;
    let begins: Vec<String> = page.lines().map(begin).collect();
    for row in ["▸◐ lib shared sh", "✓ own main-app sh"] {
        assert!(begins.iter().any(|begin| begin == row), "{page}");
    }
    daemon.signal("TERM");
    daemon.wait();
}

#[test]
fn a_daemon_takes_tasks_of_every_repository() {
    let yard = Yard::new(&["shared"], "repos: [{ name: shared }]\n");
    let world = &yard.world;
    world.regatta(["daemon", "start"]).exited(0);
    world
        .regatta(["add", "--repo", "shared", "--id", "a", "--agent", "sh", "--land", "echo a > a.txt"])
        .exited(0);
    world.regatta(["wait", "a"]).exited(0);
    assert_eq!(yard.file("shared", "a.txt").as_deref(), Some("a\n"));
    assert!(world.regatta(["diff", "a"]).exited(0).stdout.contains("+a"));
    world.regatta(["daemon", "stop"]).exited(0);
}

#[test]
fn the_commands_of_parallel_agents_work_on_the_repositories_of_the_project() {
    let yaml = "default_agent: sh\nrepos: [{ name: home, path: . }, { name: shared }, { name: api }]\n";
    let yard = Yard::new(&["shared", "api"], yaml);
    let types = |args: &[&str]| -> serde_json::Value {
        let ran = yard.world.regatta(args).exited(0);
        serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {}", ran.stdout))
    };
    let create = |repo: &str, id: &str| {
        let args =
            ["task", "create", "--type", "prd", "--repo", repo, "--task-id", id, "--description", "Do it"];
        yard.world.regatta(args)
    };
    insta::assert_snapshot!(create("web", "PRD-1").shown(), @"
    --- stderr
    error: Unknown repository: web
    hint: known repositories: home, shared, api; `regatta repo add` adds another
    --- exit 4
    ");
    for (repo, id) in [("api", "PRD-1"), ("shared", "PRD-2"), ("home", "PRD-3")] {
        create(repo, id).exited(0);
        let prompt = format!("echo {id} > made.txt");
        let started = types(&["task", "start", "--task-id", id, "--prompt", &prompt]);
        assert_eq!((started["daemon"].is_null(), &started["task"]["repo"]), (id != "PRD-1", &repo.into()));
        yard.world.regatta(["task", "wait", "--task-id", id]).exited(0);
    }
    let listed = types(&["task", "list"]);
    let rows = listed["tasks"].as_array().unwrap().iter();
    let rows: Vec<_> =
        rows.map(|task| format!("{} {} {}", task["id"], task["repo"], task["status"])).collect();
    insta::assert_snapshot!(rows.join("\n").replace('"', ""), @"
    PRD-3 home exited
    PRD-2 shared exited
    PRD-1 api exited
    ");
    for (dir, id) in [("api", "PRD-1"), ("shared", "PRD-2"), ("repo", "PRD-3")] {
        let made = yard.world.repo().git_in(&yard.dir(dir), ["show", &format!("regatta/{id}:made.txt")]);
        assert_eq!(made.trim(), id);
        assert!(dir == "repo" || !yard.dir(dir).join(".regatta/regatta.db").exists(), "one store for all");
    }
    let gone = types(&["task", "destroy", "--task-id", "PRD-1", "--delete-branch"]);
    assert_eq!((&gone["destroyed"], &gone["branch_deleted"]), (&"PRD-1".into(), &true.into()), "{gone:#}");
    let branches = yard.world.repo().git_in(&yard.dir("api"), ["branch", "--list", "regatta/*"]);
    assert_eq!(branches, "");
    yard.world.regatta(["daemon", "stop"]).exited(0);
}
