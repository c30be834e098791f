//! The skill of parallel-agents, its commands typed in its order with `regatta` for `paw.py`.

use std::fs;
use std::path::PathBuf;

use regatta_testkit::daemon::{is_alive, until};
use regatta_testkit::forge::Forge;
use regatta_testkit::repo::script;
use regatta_testkit::shown::shown;
use regatta_testkit::world::{Ran, Running, text};
use serde_json::{Value, json};

use crate::send::{PASSES, Scene};

/// A planning directory, which is no repository, beside the repository `repo` that the work goes to.
struct Planning {
    scene: Scene,
    dir: PathBuf,
    root: Option<String>,
}

impl Planning {
    fn new() -> Self {
        let scene = Scene::new("max_workers: 4\n");
        let dir = scene.world.outside("planning");
        fs::create_dir_all(&dir).unwrap();
        Self { scene, dir, root: None }
    }

    /// As users of the plugin have it, including `--root`.
    fn with_root() -> Self {
        let planning = Self::new();
        let root = planning.dir.join(".claude/parallel-agents").display().to_string();
        Self { root: Some(root), ..planning }
    }

    /// What an agent of this task does.
    fn work(&self, id: &str, script: &str) {
        fs::write(self.scene.world.outside(&format!("notes/work.{id}")), script).unwrap();
    }

    fn args(&self, args: &[&str]) -> Vec<String> {
        let root = self.root.iter().flat_map(|root| ["--root".to_owned(), root.clone()]);
        root.chain(args.iter().map(|arg| (*arg).to_owned())).collect()
    }

    fn try_type(&self, args: &[&str]) -> Ran {
        self.scene.world.regatta_in(&self.dir, self.args(args))
    }

    /// Types a command; returns the one JSON document it prints.
    #[track_caller]
    fn types(&self, args: &[&str]) -> Value {
        let ran = self.try_type(args).exited(0);
        serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {}", ran.stdout))
    }

    fn begins(&self, args: &[&str]) -> Running {
        self.scene.world.begin_in(&self.dir, self.args(args))
    }

    /// The init sub-flow.
    fn set_up(&self) {
        self.types(&["init", "--discover-from", &self.dir.display().to_string()]);
        self.register();
    }

    fn register(&self) -> Value {
        let path = self.scene.world.root().display().to_string();
        self.types(&["repo", "add", "--name", "api", "--path", &path, "--default-branch", "main"])
    }

    fn create(&self, id: &str, description: &str) -> Value {
        let args = ["task", "create", "--type", "prd", "--repo", "api", "--task-id", id];
        self.types(&[&args[..], &["--description", description]].concat())
    }

    fn create_generic(&self, description: &str) -> Value {
        let args = ["task", "create", "--type", "generic", "--repo", "api", "--description", description];
        self.types(&args)
    }

    fn start(&self, id: &str, prompt: &str) -> Value {
        self.types(&["task", "start", "--task-id", id, "--prompt", prompt])
    }

    fn status(&self, id: &str) -> Value {
        self.types(&["task", "status", "--task-id", id, "--tail", "20"])
    }

    /// The prompt that an attempt of its agent got.
    fn told(&self, id: &str, attempt: u32) -> String {
        fs::read_to_string(self.scene.world.outside(&format!("notes/stdin.{id}.{attempt}"))).unwrap()
    }
}

/// Ids and statuses of a list.
fn statuses(list: &Value) -> Vec<String> {
    let tasks = list["tasks"].as_array().expect("tasks are a list");
    tasks.iter().map(|task| format!("{} {}", text(&task["id"]), text(&task["status"]))).collect()
}

#[test]
fn the_skill_is_followed_word_for_word() {
    let mut planning = Planning::with_root();
    let forge = Forge::start();
    forge.furnish(&mut planning.scene.world);
    let world = &planning.scene.world;
    // Preconditions: nothing exists yet.
    let listed = planning.types(&["repo", "list"]);
    assert_eq!(listed["repositories"], json!([]));
    assert_eq!(listed["config"]["monitoring"], json!({ "mode": "live", "event_granularity": "exit" }));
    // The init sub-flow.
    let init = planning.types(&["init", "--discover-from", &planning.dir.display().to_string()]);
    assert_eq!((&init["config_created"], &init["state_created"]), (&json!(true), &json!(true)));
    assert_eq!(init["root"], planning.root.as_deref().unwrap());
    let siblings: Vec<&str> = init["siblings"].as_array().unwrap().iter().map(text).collect();
    assert_eq!(siblings, [world.root().to_str().unwrap()]);
    assert_eq!(planning.register()["added"]["name"], "api");
    let again = planning.types(&["init", "--discover-from", "."]);
    assert_eq!((&again["config_created"], &again["state_created"]), (&json!(false), &json!(false)));
    let listed = planning.types(&["repo", "list"]);
    assert_eq!(listed["repositories"][0]["default_branch"], "main");
    // Start: the status refresh, then create and start.
    assert_eq!(planning.types(&["task", "list"])["tasks"], json!([]));
    let barrier = world.barrier("prd");
    let tool = r#"echo '{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t","name":"Edit","input":{}}]}}'"#;
    planning.work(
        "PRD-010",
        &format!("{tool}\n[ \"$REGATTA_ATTEMPT\" != 1 ] || {{ {}; }}\n{PASSES}", barrier.script()),
    );
    let args = ["task", "create", "--type", "prd", "--repo", "api", "--task-id", "PRD-010"];
    let created = planning
        .types(&[&args[..], &["--description", "Log in", "--blocked-by", "PRD-008, PRD-009"]].concat());
    let task = &created["task"];
    assert_eq!(
        (&task["status"], &task["type"], &task["repo"]),
        (&json!("created"), &json!("prd"), &json!("api"))
    );
    assert_eq!(task["blocked_by"], json!(["PRD-008", "PRD-009"]));
    for absent in ["session_id", "process", "pr", "initial_prompt", "log_path"] {
        assert_eq!(task[absent], Value::Null, "{absent}");
    }
    assert_eq!(text(&task["worktree_path"]), world.lanes().join("PRD-010").display().to_string());
    let prompt = "/implement-prd PRD-010";
    let dry = planning.types(&["task", "start", "--task-id", "PRD-010", "--prompt", prompt, "--dry-run"]);
    assert_eq!((&dry["dry_run"], &dry["command"][0]), (&json!(true), &json!("claude")), "{dry:#}");
    let started = planning.start("PRD-010", prompt);
    assert_eq!(started["daemon"]["state"], "started", "{started:#}");
    assert_eq!(started["task"]["status"], "running", "{started:#}");
    let pid = started["task"]["process"]["pid"].as_u64().unwrap();
    assert_eq!(started["task"]["session_name"], "PRD-010: Log in");
    let session = text(&started["task"]["session_id"]).to_owned();
    assert!(!session.is_empty());
    barrier.arrived();
    assert_eq!(planning.told("PRD-010", 1).trim(), prompt);
    // The live watcher.
    let args = ["task", "wait", "--task-id", "PRD-010", "--granularity", "tool", "--poll-interval", "1.0"];
    let mut watcher = planning.begins(&args);
    let line = watcher.next_line();
    assert_eq!(line, Some(format!("WATCHING task=PRD-010 pid={pid} granularity=tool")));
    assert_eq!(watcher.next_line().as_deref(), Some("TOOL task=PRD-010 tool=Edit"));
    // A generic task beside it.
    planning.work("GEN-001", PASSES);
    assert_eq!(planning.create_generic("calendar")["task"]["id"], "GEN-001");
    let second = planning.start("GEN-001", "-- why is it flaky?");
    assert_eq!(second["daemon"], Value::Null, "one daemon serves both");
    let ran = planning.try_type(&["task", "wait", "--task-id", "GEN-001"]).exited(0);
    assert!(ran.stdout.starts_with("WATCHING task=GEN-001 pid="), "{ran:?}");
    assert!(ran.stdout.ends_with(" granularity=exit\nEXITED task=GEN-001\n"), "{ran:?}");
    // Check status.
    assert_eq!(statuses(&planning.types(&["task", "list"])), ["PRD-010 running", "GEN-001 exited"]);
    let status = planning.status("PRD-010");
    assert_eq!((&status["reaped"], &status["drained"]), (&json!(false), &json!(false)));
    let tail = status["log_tail"].as_array().unwrap();
    assert!(tail.iter().any(|line| text(line).contains("Edit")), "{status:#}");
    // Sent while it runs: queued, and delivered by the daemon without another command.
    let sent = planning.types(&["task", "send", "--task-id", "PRD-010", "--prompt", "also the CHANGELOG"]);
    assert_eq!((&sent["dispatched"], &sent["queued_count"]), (&json!(false), &json!(1)), "{sent:#}");
    assert_eq!(sent["task"]["queued_prompts"], json!(["also the CHANGELOG"]));
    let all = planning.types(&["task", "broadcast", "--prompt", "run the linter"]);
    assert_eq!(all["total"], 2, "{all:#}");
    let of = |id: &str| all["results"].as_array().unwrap().iter().find(|one| one["task_id"] == id).unwrap();
    assert_eq!((&of("GEN-001")["dispatched"], &of("PRD-010")["dispatched"]), (&json!(true), &json!(false)));
    assert_eq!(of("PRD-010")["queued_count"], 2);
    barrier.open();
    for expected in ["TOOL task=PRD-010 tool=Edit", "TOOL task=PRD-010 tool=Edit", "EXITED task=PRD-010"] {
        assert_eq!(watcher.next_line().as_deref(), Some(expected));
    }
    watcher.wait().exited(0);
    assert!(planning.told("PRD-010", 2).starts_with("also the CHANGELOG"));
    assert!(planning.told("PRD-010", 3).starts_with("run the linter"));
    planning.try_type(&["task", "wait", "--task-id", "GEN-001"]).exited(0);
    assert!(planning.told("GEN-001", 2).starts_with("run the linter"));
    let status = planning.status("PRD-010");
    assert_eq!((&status["task"]["status"], &status["task"]["state"]), (&json!("exited"), &json!("done")));
    assert_eq!(status["task"]["session_id"], session.as_str());
    assert!(!status["task"]["process"]["exited_at"].is_null());
    // Jump into the session: the line is for a shell, in the worktree, with the conversation's id.
    let attach = planning.types(&["task", "attach", "--task-id", "PRD-010"]);
    assert_eq!(
        (&attach["session_name"], &attach["session_id"]),
        (&json!("PRD-010: Log in"), &json!(session))
    );
    script(&world.outside("bin/claude"), "echo \"$PWD $*\"");
    let bin = format!("{}:/usr/bin:/bin", world.outside("bin").display());
    let mut shell = std::process::Command::new("sh");
    let ran = shell.args(["-c", text(&attach["resume_command"])]).env("PATH", bin).output().unwrap();
    let wanted = format!("{} --resume {session}\n", text(&attach["worktree_path"]));
    assert_eq!(String::from_utf8_lossy(&ran.stdout), wanted);
    // Clean up what is merged: generic tasks are never touched.
    let cleaned = planning.types(&["task", "cleanup"]);
    assert_eq!(cleaned["results"][0]["action"], "skipped", "{cleaned:#}");
    assert_eq!(cleaned["results"][0]["reason"], "pr_state=none");
    assert_eq!(cleaned["results"][0]["error"], Value::Null);
    world.git(["push", "--quiet", "origin", "regatta/PRD-010"]);
    let number = forge.as_user("octo").open_pull("regatta/PRD-010", "main", "Log in", "");
    let checked = planning.types(&["task", "pr-check", "--task-id", "PRD-010"]);
    assert_eq!((&checked["found"], &checked["pr"]["state"]), (&json!(true), &json!("OPEN")), "{checked:#}");
    assert_eq!(planning.types(&["task", "cleanup"])["results"][0]["reason"], "pr_state=OPEN");
    forge.as_user("octo").merge(number);
    let checked = planning.types(&["task", "pr-check", "--task-id", "PRD-010"]);
    assert_eq!((&checked["found"], &checked["pr"]["state"]), (&json!(true), &json!("MERGED")), "{checked:#}");
    let pr = &checked["pr"];
    assert_eq!((&pr["number"], text(&pr["url"])), (&json!(1), "http://github.localhost/acme/shop/pull/1"));
    assert!(pr["merged_at"].is_string(), "{checked:#}");
    let lines = forge.call_lines();
    assert!(lines.iter().any(|line| line == "GET /repos/acme/shop/pulls"), "{lines:#?}");
    let dry = planning.types(&["task", "cleanup", "--dry-run"]);
    assert_eq!((&dry["results"][0]["action"], &dry["destroyed"]), (&json!("would_destroy"), &json!(0)));
    let tip = world.repo().git(["rev-parse", "regatta/PRD-010"]);
    let cleaned = planning.types(&["task", "cleanup"]);
    assert_eq!((&cleaned["scanned"], &cleaned["destroyed"]), (&json!(1), &json!(1)), "{cleaned:#}");
    let detail = &cleaned["results"][0]["detail"];
    assert_eq!((&detail["worktree_removed"], &detail["branch_deleted"]), (&json!(true), &json!(true)));
    assert_eq!(detail["branch_delete_error"], Value::Null);
    assert_eq!(world.repo().git(["rev-parse", "origin/regatta/PRD-010"]), tip, "no commit is lost");
    assert_eq!(statuses(&planning.types(&["task", "list"])), ["GEN-001 exited"]);
    let history = planning.types(&["task", "list", "--include-history"]);
    assert_eq!(statuses(&history), ["PRD-010 destroyed", "GEN-001 exited"]);
    let destroyed = planning.types(&["task", "destroy", "--task-id", "GEN-001"]);
    assert_eq!((&destroyed["destroyed"], &destroyed["branch_deleted"]), (&json!("GEN-001"), &json!(false)));
    insta::assert_snapshot!(planning.try_type(&["task", "destroy", "--task-id", "GEN-001"]).shown(), @"
    --- stderr
    error: No active task: GEN-001
    hint: it was already destroyed; `regatta task list --include-history` shows it
    --- exit 4
    ");
    assert_eq!(world.lane_dirs(), [""; 0]);
    world.regatta(["daemon", "stop", "--kill"]).exited(0);
}

#[test]
fn destroying_ends_the_tree_and_keeps_uncommitted_work_unless_forced_and_then_saves_it() {
    let planning = Planning::new();
    planning.set_up();
    let world = &planning.scene.world;
    planning.create("PRD-1", "one");
    let barrier = world.barrier("one");
    planning.work("PRD-1", &format!("echo precious >kept.txt\nsleep 1000 &\n{}\n{PASSES}", barrier.script()));
    let pid = planning.start("PRD-1", "/implement-prd PRD-1")["task"]["process"]["pid"].as_u64().unwrap();
    barrier.arrived();
    let mut watcher = planning.begins(&["task", "wait", "--task-id", "PRD-1"]);
    watcher.wait_line("WATCHING");
    let again = planning.try_type(&["task", "start", "--task-id", "PRD-1", "--prompt", "again"]).exited(6);
    insta::assert_snapshot!(shown(&again.stderr.replace(&format!("pid={pid}"), "pid=ITS-OWN")), @r#"
    error: Task PRD-1 is already running (pid=ITS-OWN)
    hint: `regatta task send --task-id PRD-1 --prompt "…"` sends it a follow-up
    "#);
    insta::assert_snapshot!(planning.try_type(&["task", "destroy", "--task-id", "PRD-1"]).shown(), @"
    --- stderr
    error: the worktree of PRD-1 is kept: uncommitted work in kept.txt
    hint: --force saves it under refs/regatta/salvage/ and removes the worktree
    --- exit 6
    ");
    assert_eq!(watcher.next_line().as_deref(), Some("EXITED task=PRD-1"));
    watcher.wait().exited(0);
    assert!(!is_alive(u32::try_from(pid).unwrap()));
    assert_eq!(fs::read_to_string(world.lanes().join("PRD-1/kept.txt")).unwrap(), "precious\n");
    assert_eq!(statuses(&planning.types(&["task", "list"])), ["PRD-1 exited"]);
    let done = planning.types(&["task", "destroy", "--task-id", "PRD-1", "--delete-branch", "--force"]);
    assert_eq!((&done["worktree_removed"], &done["branch_delete_error"]), (&json!(true), &Value::Null));
    let saved = text(&done["salvaged"][0]);
    assert_eq!(world.repo().git(["show", &format!("{saved}:kept.txt")]), "precious");
    assert_eq!(statuses(&planning.types(&["task", "list", "--include-history"])), ["PRD-1 destroyed"]);
    insta::assert_snapshot!(planning.try_type(&["task", "wait", "--task-id", "PRD-1"]).shown(), @"
    ERROR task=PRD-1 reason=not_found
    --- exit 3
    ");
    insta::assert_snapshot!(planning.try_type(&["task", "send", "--task-id", "PRD-1", "--prompt", "x"]).shown(), @"
    --- stderr
    error: No active task: PRD-1
    hint: it was destroyed; `regatta task create` creates it again
    --- exit 6
    ");
    // The id is free again, and its task starts over.
    planning.work("PRD-1", PASSES);
    assert_eq!(planning.create("PRD-1", "one, anew")["task"]["status"], "created");
    planning.start("PRD-1", "/implement-prd PRD-1");
    planning.try_type(&["task", "wait", "--task-id", "PRD-1"]).exited(0);
    assert_eq!(planning.status("PRD-1")["task"]["status"], "exited");
    assert_eq!(planning.told("PRD-1", 2).trim(), "/implement-prd PRD-1");
    world.regatta(["daemon", "stop", "--kill"]).exited(0);
    world.assert_sound();
}

#[test]
fn ids_are_counted_and_found_over_all_repositories_and_each_has_its_own_daemon() {
    let planning = Planning::new();
    planning.set_up();
    let world = &planning.scene.world;
    let web = world.outside("web");
    let web_path = web.display().to_string();
    world.repo().git(["clone", "--quiet", ".", &web_path]);
    planning.types(&["repo", "add", "--name", "web", "--path", &web_path]);
    planning.work("GEN-001", PASSES);
    planning.work("GEN-002", PASSES);
    assert_eq!(planning.create_generic("here")["task"]["id"], "GEN-001");
    let args = ["task", "create", "--type", "generic", "--repo", "web", "--description", "there"];
    let there = planning.types(&args);
    assert_eq!((&there["task"]["id"], &there["task"]["repo"]), (&json!("GEN-002"), &json!("web")));
    // Sent before the task was started: it is kept until then.
    let all = planning.types(&["task", "broadcast", "--prompt", "mind the gap"]);
    assert_eq!((&all["total"], &all["results"][1]["dispatched"]), (&json!(2), &json!(false)), "{all:#}");
    let started = planning.start("GEN-002", "look into it");
    assert_eq!(started["daemon"]["repo"], "web", "{started:#}");
    planning.try_type(&["task", "wait", "--task-id", "GEN-002"]).exited(0);
    let told = planning.told("GEN-002", 1);
    assert!(told.starts_with("look into it") && told.contains("mind the gap"), "{told}");
    // A prompt starts a task that was never started.
    let sent = planning.types(&["task", "send", "--task-id", "GEN-001", "--prompt", "begin"]);
    assert_eq!((&sent["dispatched"], &sent["daemon"]["repo"]), (&json!(true), &json!("api")), "{sent:#}");
    planning.try_type(&["task", "wait", "--task-id", "GEN-001"]).exited(0);
    assert_eq!(statuses(&planning.types(&["task", "list"])), ["GEN-001 exited", "GEN-002 exited"]);
    // A daemon that died is started again for waiting prompts, by the next command.
    let pid = planning.types(&["daemon", "status", "--json", "-C", &web_path])["pid"].as_u64().unwrap();
    regatta_testkit::daemon::signal(u32::try_from(pid).unwrap(), "KILL");
    until("it is gone", || (!is_alive(u32::try_from(pid).unwrap())).then_some(()));
    let sent = planning.types(&["task", "send", "--task-id", "GEN-002", "--prompt", "once more"]);
    assert_eq!(
        (&sent["dispatched"], &sent["daemon"]["state"]),
        (&json!(true), &json!("started")),
        "{sent:#}"
    );
    planning.try_type(&["task", "wait", "--task-id", "GEN-002"]).exited(0);
    assert!(planning.told("GEN-002", 2).starts_with("once more"));
    // An id destroyed in one repository may still exist in another, and is found there.
    planning.types(&["task", "destroy", "--task-id", "GEN-001"]);
    let args = ["task", "create", "--type", "generic", "--repo", "web", "--task-id", "GEN-001"];
    planning.types(&[&args[..], &["--description", "again"]].concat());
    assert_eq!(planning.status("GEN-001")["task"]["repo"], "web");
    let refused = ["task", "create", "--type", "generic", "--repo", "api", "--task-id", "GEN-001"];
    let refused = [&refused[..], &["--description", "twice"]].concat();
    insta::assert_snapshot!(planning.try_type(&refused).shown(), @"
    --- stderr
    error: Active task already exists: GEN-001
    hint: it is parked in web; `regatta task destroy --task-id GEN-001` removes it
    --- exit 6
    ");
    // A repository that is gone affects no other.
    world.regatta_in(&web, ["daemon", "stop", "--kill"]).exited(0);
    fs::rename(&web, world.outside("moved")).unwrap();
    let listed = planning.types(&["task", "list"]);
    assert_eq!(statuses(&listed), [""; 0]);
    assert_eq!(listed["errors"][0]["repo"], "web", "{listed:#}");
    insta::assert_snapshot!(planning.try_type(&["task", "status", "--task-id", "GEN-002"]).shown(), @"
    --- stderr
    error: No task: GEN-002
    hint: could not read: web
    --- exit 4
    ");
    world.regatta(["daemon", "stop", "--kill"]).exited(0);
}

#[test]
fn what_is_wrong_is_refused_with_a_sentence() {
    let planning = Planning::new();
    planning.set_up();
    let world = &planning.scene.world;
    let root = world.root().display().to_string();
    let mut all = String::new();
    let mut refused = |args: &[&str]| {
        all += &format!("── {}\n{}", shown(&args.join(" ")), planning.try_type(args).shown());
    };
    let dir = planning.dir.display().to_string();
    refused(&["repo", "add", "--name", "api", "--path", &dir]);
    refused(&["repo", "add", "--name", "b", "--path", "/nowhere/at/all"]);
    refused(&["repo", "add", "--name", "b", "--path", &root]);
    refused(&["repo", "add", "--name", "b", "--path", &root, "--default-branch", "nope"]);
    let other = world.outside("other").display().to_string();
    world.repo().git(["clone", "--quiet", ".", &other]);
    refused(&["repo", "add", "--name", "api", "--path", &other]);
    let create = ["task", "create", "--repo", "api", "--description", "d"];
    refused(&[&create[..], &["--type", "prd"]].concat());
    refused(&[&create[..], &["--type", "prd", "--task-id", "../x"]].concat());
    refused(&[&create[..], &["--type", "generic", "--task-id", "PRD-1"]].concat());
    refused(&[&create[..], &["--type", "other"]].concat());
    planning.create("PRD-1", "one");
    refused(&[&create[..], &["--type", "prd", "--task-id", "PRD-1"]].concat());
    refused(&["task", "create", "--type", "generic", "--repo", "nope", "--description", "d"]);
    refused(&["task", "start", "--task-id", "PRD-9", "--prompt", "x"]);
    refused(&["task", "start", "--task-id", "PRD-1", "--prompt", " "]);
    refused(&["task", "attach", "--task-id", "PRD-1"]);
    refused(&["task", "wait", "--task-id", "PRD-9"]);
    refused(&["task", "wait", "--task-id", "PRD-1"]);
    refused(&["task", "wait", "--task-id", "PRD-1", "--granularity", "loud"]);
    // At most as many worktrees as the file says, and an invalid file is named.
    for n in 2..=4 {
        planning.create(&format!("PRD-{n}"), "more");
    }
    refused(&[&create[..], &["--type", "generic"]].concat());
    planning.types(&["task", "destroy", "--task-id", "PRD-4"]);
    assert_eq!(planning.create_generic("fits")["task"]["id"], "GEN-001");
    let config = planning.dir.join(".regatta/parallel-agents/config.json");
    fs::write(&config, "{\n \"repositories\": oops\n}").unwrap();
    refused(&["repo", "list"]);
    insta::assert_snapshot!(all, @r#"
    ── repo add --name api --path DIR/planning
    --- stderr
    error: Not a git repo: DIR/planning
    hint: give the top directory of a checkout, or create one: git init
    --- exit 7
    ── repo add --name b --path /nowhere/at/all
    --- stderr
    error: Path does not exist: /nowhere/at/all
    hint: --path names the checkout of a repository
    --- exit 4
    ── repo add --name b --path DIR/repo
    --- stderr
    error: Path already registered under name 'api'
    hint: `regatta repo list` shows all
    --- exit 6
    ── repo add --name b --path DIR/repo --default-branch nope
    --- stderr
    error: DIR/repo has no branch "nope"
    hint: give the branch that work starts from: --default-branch BRANCH; it needs a first commit
    --- exit 7
    ── repo add --name api --path DIR/other
    --- stderr
    error: Repository 'api' already registered
    hint: it is DIR/repo; choose another name
    --- exit 6
    ── task create --repo api --description d --type prd
    --- stderr
    error: PRD task requires --task-id
    hint: for example: --task-id PRD-010
    --- exit 2
    ── task create --repo api --description d --type prd --task-id ../x
    --- stderr
    error: Invalid PRD id: ../x (expected PRD-<digits>)
    hint: omit --task-id for a generic task: it gets the next number
    --- exit 2
    ── task create --repo api --description d --type generic --task-id PRD-1
    --- stderr
    error: Invalid generic id: PRD-1 (expected GEN-<digits>)
    hint: omit --task-id for a generic task: it gets the next number
    --- exit 2
    ── task create --repo api --description d --type other
    --- stderr
    error: invalid value 'other' for '--type <TYPE>'
      [possible values: prd, generic]

    For more information, try '--help'.
    --- exit 2
    ── task create --repo api --description d --type prd --task-id PRD-1
    --- stderr
    error: Active task already exists: PRD-1
    hint: it is parked in api; `regatta task destroy --task-id PRD-1` removes it
    --- exit 6
    ── task create --type generic --repo nope --description d
    --- stderr
    error: Unknown repository: nope
    hint: known repositories: api; `regatta repo add` adds another
    --- exit 4
    ── task start --task-id PRD-9 --prompt x
    --- stderr
    error: No task: PRD-9
    hint: `regatta task list` shows all tasks
    --- exit 4
    ── task start --task-id PRD-1 --prompt
    --- stderr
    error: the prompt is empty
    hint: say what to do: --prompt "…"
    --- exit 2
    ── task attach --task-id PRD-1
    --- stderr
    error: PRD-1 has no session yet: it has not been started
    hint: `regatta status PRD-1` shows what it waits for
    --- exit 6
    ── task wait --task-id PRD-9
    ERROR task=PRD-9 reason=not_found
    --- exit 3
    ── task wait --task-id PRD-1
    ERROR task=PRD-1 reason=no_process
    --- exit 4
    ── task wait --task-id PRD-1 --granularity loud
    ERROR task=PRD-1 reason=invalid_granularity=loud
    --- exit 2
    ── task create --repo api --description d --type generic
    --- stderr
    error: Worktree cap reached for repo 'api' (4/4).
    hint: Destroy a task first (`regatta task destroy`), or raise max_worktrees_per_repo in DIR/planning/.regatta/parallel-agents/config.json
    --- exit 6
    ── repo list
    --- stderr
    error: DIR/planning/.regatta/parallel-agents/config.json: expected value at line 2 column 18
    hint: correct it, or move it aside and register the repositories again: regatta help repo
    --- exit 2
    "#);
}

#[test]
fn a_missing_or_angry_gh_is_a_sentence_and_nothing_is_destroyed() {
    let planning = Planning::new();
    planning.set_up();
    planning.create("PRD-1", "one");
    let check = |program: &str| {
        let checked = planning.types(&["task", "pr-check", "--task-id", "PRD-1", "--gh-bin", program]);
        assert_eq!(checked["found"], false, "{checked:#}");
        let cleaned = planning.types(&["task", "cleanup", "--gh-bin", program]);
        assert_eq!((&cleaned["results"][0]["action"], &cleaned["destroyed"]), (&json!("skipped"), &json!(0)));
        shown(text(&checked["error"]))
    };
    insta::assert_snapshot!(check("/nowhere/gh"), @"the repository has no remote, so it is on no forge; add it: git remote add origin https://github.com/OWNER/NAME.git");
    planning.scene.world.git(["remote", "add", "origin", "https://github.com/acme/shop.git"]);
    insta::assert_snapshot!(check("/nowhere/gh"), @"gh is not installed: get it from https://cli.github.com, then run `gh auth login`");
    let angry = planning.scene.world.outside("angry");
    script(&angry, "echo 'no such host' >&2; exit 1");
    insta::assert_snapshot!(check(&angry.display().to_string()), @"the forge cannot be reached: no such host");
}

#[test]
fn a_registry_that_paw_made_is_gone_on_with_and_keeps_what_is_in_it() {
    let planning = Planning::new();
    let world = &planning.scene.world;
    let dir = planning.dir.join(".claude/parallel-agents");
    fs::create_dir_all(&dir).unwrap();
    let entry = json!({ "name": "api", "path": world.root(), "default_branch": "main", "branch_prefix_prd": "prd/", "branch_prefix_generic": "task/" });
    let monitoring = json!({ "mode": "wait", "event_granularity": "tool", "_comment_mode": "mine" });
    let config = json!({ "version": 1, "worktree_root": ".claude/worktrees", "max_worktrees_per_repo": 9, "monitoring": monitoring, "repositories": [entry] });
    fs::write(dir.join("config.json"), config.to_string()).unwrap();
    let theirs = json!([{ "id": "GEN-041", "status": "exited" }]);
    let state = json!({ "version": 1, "gen_seq": 41, "tasks": theirs, "more": [1] });
    fs::write(dir.join("state.json"), state.to_string()).unwrap();
    assert_eq!(planning.types(&["repo", "list"])["config"], config);
    // Many at once get one number each, and none is lost.
    let made: Vec<Running> = (0..6)
        .map(|_| {
            planning.begins(&["task", "create", "--type", "generic", "--repo", "api", "--description", "d"])
        })
        .collect();
    let mut ids: Vec<String> = made
        .into_iter()
        .map(|running| {
            let created: Value = serde_json::from_str(&running.wait().exited(0).stdout).unwrap();
            text(&created["task"]["id"]).to_owned()
        })
        .collect();
    ids.sort();
    assert_eq!(ids, ["GEN-042", "GEN-043", "GEN-044", "GEN-045", "GEN-046", "GEN-047"]);
    let state: Value = serde_json::from_slice(&fs::read(dir.join("state.json")).unwrap()).unwrap();
    assert_eq!((&state["tasks"], &state["more"], &state["gen_seq"]), (&theirs, &json!([1]), &json!(47)));
    assert_eq!(state["regatta"].as_object().unwrap().len(), 6);
}

#[test]
fn a_branch_that_somebody_has_checked_out_stays_and_a_dead_daemon_is_replaced_by_whoever_asks() {
    let planning = Planning::new();
    planning.set_up();
    let world = &planning.scene.world;
    let barrier = world.barrier("one");
    planning
        .work("PRD-1", &format!("[ \"$REGATTA_ATTEMPT\" != 1 ] || {{ {}; }}\n{PASSES}", barrier.script()));
    planning.create("PRD-1", "one");
    planning.start("PRD-1", "/implement-prd PRD-1");
    barrier.arrived();
    let daemon = world.daemon_pid().unwrap();
    regatta_testkit::daemon::signal(daemon, "KILL");
    until("it is gone", || (!is_alive(daemon)).then_some(()));
    let status = planning.status("PRD-1");
    assert_eq!(
        (&status["reaped"], &status["daemon"]["state"]),
        (&json!(true), &json!("started")),
        "{status:#}"
    );
    barrier.open();
    planning.try_type(&["task", "wait", "--task-id", "PRD-1"]).exited(0);
    assert_eq!(planning.status("PRD-1")["task"]["state"], "done");
    assert_eq!(world.attempts("PRD-1").0, 1, "it was adopted");
    world.repo().git(["switch", "--quiet", "regatta/PRD-1"]);
    let done = planning.types(&["task", "destroy", "--task-id", "PRD-1", "--delete-branch"]);
    assert_eq!(done["branch_deleted"], false);
    insta::assert_snapshot!(shown(text(&done["branch_delete_error"])), @"branch regatta/PRD-1 is checked out in DIR/repo");
    // Asked again when the branch is not checked out anywhere.
    world.repo().git(["switch", "--quiet", "main"]);
    let done = planning.types(&["task", "destroy", "--task-id", "PRD-1", "--delete-branch"]);
    assert_eq!(
        (&done["branch_deleted"], &done["branch_delete_error"]),
        (&json!(true), &Value::Null),
        "{done:#}"
    );
    world.regatta(["daemon", "stop", "--kill"]).exited(0);
}

#[test]
fn another_program_plays_claude_where_one_is_named() {
    let planning = Planning::new();
    planning.set_up();
    let world = &planning.scene.world;
    planning.work("GEN-001", PASSES);
    let other = world.outside("other-claude");
    fs::rename(world.outside("bin/claude"), &other).unwrap();
    planning.create_generic("one");
    let named = other.display().to_string();
    planning.types(&["task", "start", "--task-id", "GEN-001", "--prompt", "do it", "--claude-bin", &named]);
    planning.try_type(&["task", "wait", "--task-id", "GEN-001"]).exited(0);
    assert_eq!(planning.status("GEN-001")["task"]["state"], "done");
    world.regatta(["daemon", "stop", "--kill"]).exited(0);
}

#[test]
fn without_a_registry_the_repository_is_the_one_that_it_is_typed_in() {
    let scene = Scene::new("max_workers: 4\n");
    let world = &scene.world;
    let _daemon = world.daemon();
    scene.add("GEN-007", "", PASSES);
    world.wait_state("GEN-007", "done");
    let status = world.regatta(["task", "status", "--task-id", "GEN-007"]).exited(0);
    let status: Value = serde_json::from_str(&status.stdout).unwrap();
    assert_eq!((&status["task"]["status"], &status["task"]["type"]), (&json!("exited"), &json!("generic")));
    // And the crew's board stays as it was.
    world.regatta(["task", "push", "by hand"]).exited(0);
    let board = world.regatta(["task", "list", "--json"]).exited(0);
    let board: Value = serde_json::from_str(&board.stdout).unwrap();
    assert_eq!(board[0]["id"], "TASK-001", "{board:#}");
}

#[test]
fn what_means_nothing_here_is_refused_or_named_and_the_registered_granularity_holds() {
    let planning = Planning::new();
    planning.set_up();
    let create =
        ["task", "create", "--type", "generic", "--repo", "api", "--description", "x", "--slug", "y"];
    insta::assert_snapshot!(planning.try_type(&create).shown(), @"
    --- stderr
    error: the branch of a task is regatta/ID; it has no slug
    hint: remove --slug; push under any name: git push origin regatta/ID:NAME
    --- exit 2
    ");
    let add = ["repo", "add", "--name", "b", "--path", "."];
    insta::assert_snapshot!(planning.try_type(&[&add[..], &["--branch-prefix-prd", "mine/"]].concat()).shown(), @"
    --- stderr
    error: the branches of tasks are regatta/ID; you cannot choose the prefix
    hint: remove --branch-prefix-prd and --branch-prefix-generic; push under any name: git push origin regatta/ID:NAME
    --- exit 2
    ");
    let wait = ["--poll-interval=soon", "--poll-interval=-1"]
        .map(|flag| planning.try_type(&["task", "wait", "--task-id", "PRD-010", flag]).shown());
    insta::assert_snapshot!(wait.concat(), @"
    --- stderr
    error: --poll-interval is not a number of seconds
    hint: for example: 1.0
    --- exit 2
    --- stderr
    error: --poll-interval is not a number of seconds
    hint: for example: 1.0
    --- exit 2
    ");
    let path = planning.dir.join(".regatta/parallel-agents/config.json");
    let mut config: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    config["worktree_root"] = "../elsewhere".into();
    config["monitoring"]["event_granularity"] = "rarely".into();
    fs::write(&path, config.to_string()).unwrap();
    insta::assert_snapshot!(shown(&planning.try_type(&["repo", "list"]).exited(0).stderr), @"warning: DIR/planning/.regatta/parallel-agents/config.json: `worktree_root` is ignored: worktrees are beside each repository; `lanes_root` in its regatta.yaml names another place");
    let wait = planning.try_type(&["task", "wait", "--task-id", "PRD-010"]).exited(2);
    assert_eq!(wait.stdout, "ERROR task=PRD-010 reason=invalid_granularity=rarely\n");
    let world = &planning.scene.world;
    for action in ["status", "stop"] {
        let refused = world.regatta(["daemon", action, "--profiles", "a"]);
        insta::allow_duplicates! {
            insta::assert_snapshot!(refused.shown(), @"
            --- stderr
            error: --profiles only works when a daemon starts
            hint: `regatta profiles` shows the accounts and their state
            --- exit 2
            ");
        }
    }
    world.regatta(["-vv", "list"]).exited(2);
}

#[test]
fn a_task_is_added_to_a_registered_repository_from_anywhere() {
    let planning = Planning::new();
    planning.set_up();
    insta::assert_snapshot!(planning.try_type(&["add", "Log in", "--repo", "web"]).shown(), @"
    --- stderr
    error: Unknown repository: web
    hint: known repositories: api; `regatta repo add` adds another
    --- exit 4
    ");
    let added = planning.types(&["add", "Log in", "--repo", "api", "--id", "login", "--json"]);
    assert_eq!(added["tasks"][0]["id"], "login", "{added}");
    let world = &planning.scene.world;
    insta::assert_snapshot!(world.regatta(["status", "login", "--json"]).shown(), @r#"
    {
      "id": "login",
      "title": "Log in",
      "state": "pending",
      "reason": null,
      "priority": 0,
      "attempts": [],
      "waiting_on": [],
      "agent": "claude",
      "labels": [],
      "role": null,
      "chain": null,
      "link": null,
      "branch": "regatta/login",
      "updated_at": "WHEN",
      "landed_commit": null,
      "landings": [],
      "lane": null,
      "salvage": [],
      "deps": [],
      "plan": null,
      "source": "",
      "max_attempts": 3,
      "charged": 0,
      "created_at": "WHEN",
      "held": null,
      "radar": [],
      "prompts": [],
      "suspicions": [],
      "budget": null,
      "next": "`regatta daemon` runs it, unless one is already running",
      "next_steps": [
        {
          "act": "status",
          "command": "regatta status login",
          "task": "login",
          "text": "`regatta status login` shows its state"
        },
        {
          "act": "cancel",
          "command": "regatta cancel login",
          "task": "login",
          "text": "`regatta cancel login` cancels it"
        }
      ],
      "doing": null,
      "sandbox": null,
      "cost_usd": null,
      "under_test_since": null
    }
    "#);
}
