//! Several clones with one store and one hub: tasks are built wherever there is room, continue where another clone left
//! them, and land once.

use std::fs;
use std::path::{Path, PathBuf};

use regatta_testkit::daemon::until;
use regatta_testkit::postgres::Server;
use regatta_testkit::shown::told as finding;
use regatta_testkit::world::{Running, World, task, text};

use super::REGATTA;

/// Clones of one hub that use one store.
struct Fleet {
    worlds: Vec<World>,
    hub: PathBuf,
}

impl Fleet {
    /// This many clones, each with its own home.
    fn new(project: &str, n: usize) -> Self {
        let mut worlds: Vec<World> = (0..n).map(|_| World::new(REGATTA)).collect();
        let first = &worlds[0];
        let hub = first.outside("hub.git");
        first.repo().git(["init", "--quiet", "--bare", "--initial-branch=main", shown(&hub)]);
        first.repo().git(["push", "--quiet", shown(&hub), "main"]);
        let store = Server::shared().url(&format!("fleet_{project}"));
        for (n, world) in worlds.iter_mut().enumerate() {
            let name = format!("node-{}", n + 1);
            let settings = world.outside("home/regatta/node.yaml");
            fs::create_dir_all(settings.parent().unwrap()).unwrap();
            fs::write(settings, format!("name: {name}\n")).unwrap();
            world.env("REGATTA_STORE", &store);
            world.env("REGATTA_HUB", &hub);
            // With one agent at work, the first clone has no room.
            world.env("REGATTA_MAX_WORKERS", (n + 1).to_string());
            // Agents leave signs beside the first clone.
            world.env("REGATTA_SANDBOX", "off");
        }
        let fleet = Self { worlds, hub };
        for world in &fleet.worlds {
            assert_eq!(world.repo().rev("main"), fleet.at_hub("main"), "clones of one commit");
        }
        fleet
    }

    /// With a lease of six seconds, and checkpoints every 200 ms.
    fn leased(project: &str, n: usize) -> Self {
        let mut fleet = Self::new(project, n);
        for world in &mut fleet.worlds {
            world.env("REGATTA_TEST_FENCE_MS", "4000");
            world.env("REGATTA_TEST_CHECKPOINT_MS", "200");
        }
        fleet
    }

    fn git(&self, args: &[&str]) -> String {
        self.worlds[0].repo().git_in(&self.hub, args)
    }

    fn at_hub(&self, name: &str) -> String {
        self.git(&["rev-parse", name])
    }

    /// The refs at the hub below a prefix.
    fn refs(&self, prefix: &str) -> Vec<String> {
        let listed = self.git(&["for-each-ref", "--format=%(refname)", prefix]);
        listed.lines().map(str::to_owned).collect()
    }

    /// A file of a commit at the hub.
    fn file(&self, commit: &str, path: &str) -> Option<String> {
        let shown = self.worlds[0].repo().try_git(&self.hub, &["show", &format!("{commit}:{path}")]);
        shown.status.success().then(|| String::from_utf8_lossy(&shown.stdout).into_owned())
    }

    fn state(&self, id: &str) -> String {
        let status = self.worlds[0].regatta(["status", id, "--json"]).exited(0).json();
        text(&status["state"]).to_owned()
    }

    fn wait_state(&self, id: &str, state: &str) {
        let mut last = String::new();
        until(&format!("{id} is {state}"), || {
            last = self.state(id);
            (last == state).then_some(())
        });
    }

    /// How each attempt of a task ended.
    fn exits(&self, id: &str) -> Vec<String> {
        let status = self.worlds[0].regatta(["status", id, "--json"]).exited(0).json();
        let attempts = status["attempts"].as_array().cloned().unwrap_or_default();
        attempts.iter().map(|attempt| text(&attempt["exit"]).to_owned()).collect()
    }

    /// Waits until a checkpoint of this task has this file.
    fn wait_checkpoint(&self, id: &str, path: &str) {
        until(&format!("{path} is saved"), || {
            let refs = self.refs(&format!("refs/regatta/wip/{id}/"));
            refs.iter().find_map(|name| self.file(name, path)).map(drop)
        });
    }

    /// Every task that the history of the target has, once for each landing.
    fn landed(&self) -> Vec<String> {
        let format = "--format=%(trailers:key=Regatta-Task,valueonly,separator=%x2C)";
        let log = self.git(&["log", "--reverse", format, "main"]);
        log.lines().filter(|task| !task.is_empty()).map(str::to_owned).collect()
    }
}

fn shown(path: &Path) -> &str {
    path.to_str().expect("a path that is text")
}

fn stop(daemon: Running) {
    daemon.signal("TERM");
    daemon.wait().exited(0);
}

/// Which clone has the log of an attempt.
fn ran_in(world: &World, id: &str, attempt: u32) -> bool {
    world.state_dir().join(format!("logs/{id}/{attempt}.jsonl")).exists()
}

#[test]
fn tasks_are_built_on_the_work_of_another_clone_and_land_at_the_hub() {
    let fleet = Fleet::leased("shared", 2);
    let [one, two] = &fleet.worlds[..] else { unreachable!() };
    let busy = one.barrier("busy");
    let in_one = one.daemon();
    one.enqueue(&one.plan(&task("first", "auto_land: false", "echo 1 >first.txt")));
    fleet.wait_state("first", "done");
    assert_eq!(fleet.refs("refs/regatta/work/first/").len(), 1, "done means that it is at the hub");
    // The first clone has no room for what comes now.
    one.enqueue(&one.plan(&task("busy", "auto_land: false", &busy.script())));
    busy.arrived();
    let diff = two.regatta(["diff", "first"]).exited(0).stdout;
    assert!(diff.contains("first.txt"), "{diff}");
    let in_two = two.daemon();
    two.enqueue(&two.plan(&task(
        "second",
        "auto_land: true\ndeps: [first]",
        "cat first.txt first.txt >second.txt",
    )));
    fleet.wait_state("second", "landed");
    assert!(ran_in(one, "first", 1) && ran_in(two, "second", 1));
    assert_eq!(fleet.file("main", "second.txt").as_deref(), Some("1\n1\n"));
    let lane = two.regatta(["status", "busy"]).exited(0).stdout;
    assert!(lane.contains(&format!("node-1:{}", shown(&one.lanes().join("busy")))), "{lane}");
    let refused = two.regatta(["lane", "path", "busy"]).exited(4).stderr;
    insta::assert_snapshot!(refused.replace(shown(&one.lanes()), "LANES"), @"
    error: the lane of busy is on another machine: node-1:LANES/busy
    hint: `regatta diff busy` shows its work from here
    ");
    until("the branch of the first clone follows", || {
        (one.repo().rev("main") == fleet.at_hub("main")).then_some(())
    });
    busy.open();
    fleet.wait_state("busy", "done");
    until("what landed is no longer kept at the hub", || {
        fleet.refs("refs/regatta/work/second/").is_empty().then_some(())
    });
    assert_eq!(fleet.refs("refs/regatta/work/first/").len(), 1, "what is done stays");
    assert_eq!(fleet.refs("refs/regatta/wip/second/").len(), 0);
    stop(in_one);
    stop(in_two);
}

/// An agent that leaves a file, and waits to be continued by one that finds it. Says whether both lived at once.
fn continued(world: &World) -> String {
    let pid = world.outside("agent.pid");
    let script = format!(
        "if [ -e saved.txt ]; then kill -0 $(cat {pid}) 2>/dev/null && touch both.txt; cp saved.txt again.txt; exit 0; fi\n\
         echo $$ >{pid}; echo mine >mine.txt; git add mine.txt; git commit -qm mine; echo saved >saved.txt\n\
         while :; do [ -e {go} ] && [ ! -e late.txt ] && {{ echo late >late.new; mv late.new late.txt; }}; sleep 0.1; done",
        pid = pid.display(),
        go = world.outside("late").display()
    );
    task("long", "auto_land: true", &script)
}

#[test]
fn a_task_of_a_clone_that_was_killed_continues_elsewhere_with_what_was_saved() {
    let fleet = Fleet::leased("killed", 2);
    let [one, two] = &fleet.worlds[..] else { unreachable!() };
    let in_one = one.daemon();
    one.enqueue(&one.plan(&continued(one)));
    fleet.wait_checkpoint("long", "saved.txt");
    let in_two = two.daemon();
    in_one.kill();
    fleet.wait_state("long", "landed");
    assert!(ran_in(two, "long", 2));
    assert_eq!(fleet.exits("long"), ["lost (the machine or the shim died)", "exit 0"]);
    assert_eq!(fleet.file("main", "again.txt").as_deref(), Some("saved\n"));
    assert_eq!(fleet.file("main", "mine.txt").as_deref(), Some("mine\n"));
    assert_eq!(fleet.file("main", "both.txt"), None, "the first agent was dead by then");
    assert_eq!(fleet.landed(), ["long"]);
    stop(in_two);
}

#[test]
fn a_clone_that_comes_back_lands_nothing_and_offers_what_it_has_at_the_hub() {
    let fleet = Fleet::leased("back", 2);
    let [one, two] = &fleet.worlds[..] else { unreachable!() };
    let in_one = one.daemon();
    one.enqueue(&one.plan(&continued(one)));
    fleet.wait_checkpoint("long", "saved.txt");
    in_one.signal("STOP");
    // Its agent works on, unseen, until its lease is over.
    fs::write(one.outside("late"), "").unwrap();
    let in_two = two.daemon();
    fleet.wait_state("long", "landed");
    let landed = fleet.at_hub("main");
    assert_eq!(fleet.file("main", "late.txt"), None);
    in_one.signal("CONT");
    let saved = until("what it has is at the hub", || fleet.refs("refs/regatta/salvage/long/").pop());
    assert!(saved.starts_with("refs/regatta/salvage/long/node-1-") && saved.ends_with(".1"), "{saved}");
    assert_eq!(fleet.file(&saved, "late.txt").as_deref(), Some("late\n"));
    assert!(!one.lanes().join("long").exists(), "its lane is given up");
    assert_eq!((fleet.at_hub("main"), fleet.landed()), (landed, vec!["long".to_owned()]));
    assert_eq!(fleet.file("main", "both.txt"), None);
    let listed = two.regatta(["salvage", "list"]).exited(0).stdout;
    assert!(listed.contains("node-1-"), "{listed}");
    let patch = two.regatta(["salvage", "show", "long"]).exited(0).stdout;
    assert!(patch.contains("late.txt"), "{patch}");
    stop(in_one);
    stop(in_two);
}

#[test]
fn finished_work_waits_for_a_hub_that_is_away_and_is_parked_after_some_time() {
    let mut fleet = Fleet::new("away", 1);
    let away = fleet.worlds[0].outside("away.git");
    let vanish = |fleet: &Fleet| fs::rename(&fleet.hub, &away).unwrap();
    let appear = |fleet: &Fleet| fs::rename(&away, &fleet.hub).unwrap();
    let begin = |fleet: &Fleet, id: &str| {
        let world = &fleet.worlds[0];
        let barrier = world.barrier(id);
        let daemon = world.daemon();
        let work = format!("echo {id} >{id}.txt; {}", barrier.script());
        world.enqueue(&world.plan(&task(id, "auto_land: true", &work)));
        barrier.arrived();
        vanish(fleet);
        barrier.open();
        daemon
    };
    let daemon = begin(&fleet, "waits");
    until("it waits for the hub", || {
        let events = fleet.worlds[0].regatta(["events", "--task", "waits"]).exited(0).stdout;
        events.contains("its finished work waits for the hub").then_some(())
    });
    assert_eq!(fleet.state("waits"), "judging");
    appear(&fleet);
    fleet.wait_state("waits", "landed");
    stop(daemon);

    fleet.worlds[0].env("REGATTA_TEST_HUB_PATIENCE_MS", "1000");
    let daemon = begin(&fleet, "parked");
    fleet.wait_state("parked", "parked");
    appear(&fleet);
    let world = &fleet.worlds[0];
    let status = world.regatta(["status", "parked", "--json"]).exited(0).json();
    let why = text(&status["reason"]).replace(shown(&fleet.hub), "HUB");
    insta::assert_snapshot!(why, @"environment: its finished work could not be pushed to the hub: the push to the hub HUB did not finish: fatal: 'HUB' does not appear to be a git repository; it is in its lane");
    assert!(world.lanes().join("parked/parked.txt").exists(), "its lane is kept");
    stop(daemon);
}

#[test]
fn a_commit_that_the_hub_does_not_have_is_waited_for() {
    let fleet = Fleet::new("missing", 2);
    let [one, two] = &fleet.worlds[..] else { unreachable!() };
    let daemon = one.daemon();
    one.enqueue(&one.plan(&task("first", "auto_land: false", "echo 1 >first.txt")));
    fleet.wait_state("first", "done");
    stop(daemon);
    let work = fleet.refs("refs/regatta/work/first/").pop().unwrap();
    let commit = fleet.at_hub(&work);
    fleet.git(&["update-ref", "-d", &work]);
    let daemon = two.daemon();
    two.enqueue(&two.plan(&task("second", "auto_land: true\ndeps: [first]", "cp first.txt second.txt")));
    fleet.wait_state("second", "parked");
    let status = two.regatta(["status", "second", "--json"]).exited(0).json();
    let why = text(&status["reason"]).replace(shown(&fleet.hub), "HUB").replace(&commit[..12], "COMMIT");
    insta::assert_snapshot!(why, @"environment: could not find commit COMMIT of first at the hub HUB: it is not there");
    one.repo().git(["push", "-q", shown(&fleet.hub), &format!("{commit}:{work}")]);
    two.regatta(["unpark", "second"]).exited(0);
    fleet.wait_state("second", "landed");
    stop(daemon);
}

#[test]
fn a_copied_file_that_an_agent_commits_never_reaches_the_hub() {
    let fleet = Fleet::new("private", 1);
    let one = &fleet.worlds[0];
    one.repo().write(".worktreeinclude", ".env\n");
    one.repo().write(".env", "TOKEN=private\n");
    let failed = |id: &str| {
        until("it has failed", || matches!(&*fleet.state(id), "failed" | "blocked").then_some(()));
    };
    let script = format!(
        "if [ -e {again} ]; then echo fine >fine.txt; exit 0; fi\n\
         touch {again}; git add -f .env; git commit -qm env; echo left >left.txt; exit 1",
        again = one.outside("again").display()
    );
    let daemon = one.daemon();
    one.enqueue(&one.plan(&task("env", "auto_land: true", &script)));
    failed("env");
    one.regatta(["requeue", "env"]).exited(0);
    fleet.wait_state("env", "landed");
    stop(daemon);
    let saved = one.repo().git(["for-each-ref", "--format=%(refname)", "refs/regatta/salvage/env/"]);
    assert!(!saved.is_empty(), "the first attempt is saved here");
    // Another salvage shows that all of them were looked at.
    let daemon = one.daemon();
    one.enqueue(&one.plan(&task("other", "auto_land: false", "echo other >other.txt; exit 1")));
    failed("other");
    stop(daemon);
    until("saved work is at the hub", || fleet.refs("refs/regatta/salvage/other/").pop());
    assert_eq!(fleet.refs("refs/regatta/salvage/env/"), Vec::<String>::new());
    assert_eq!(fleet.git(&["log", "--all", "--format=%H", "--", ".env"]), "");
}

#[test]
fn a_retry_continues_from_another_clone_and_a_task_that_is_requeued_starts_over() {
    let fleet = Fleet::new("retry", 2);
    let [one, two] = &fleet.worlds[..] else { unreachable!() };
    let script = "if [ -e mark.txt ]; then echo again >>mark.txt; exit 0; fi; echo first >mark.txt; exit 1";
    let daemon = one.daemon();
    one.enqueue(&one.plan(
        &[task("kept", "auto_land: false", script), task("over", "auto_land: false", script)].concat(),
    ));
    for id in ["kept", "over"] {
        until("it has failed", || matches!(&*fleet.state(id), "failed" | "blocked").then_some(()));
    }
    stop(daemon);
    two.regatta(["retry", "kept"]).exited(0);
    two.regatta(["requeue", "over"]).exited(0);
    let daemon = two.daemon();
    fleet.wait_state("kept", "done");
    until("it has failed again", || {
        (fleet.exits("over").len() == 2 && fleet.state("over") != "running").then_some(())
    });
    stop(daemon);
    let work = fleet.refs("refs/regatta/work/kept/").pop().unwrap();
    assert_eq!(fleet.file(&work, "mark.txt").as_deref(), Some("first\nagain\n"));
    assert_eq!(fs::read_to_string(two.lanes().join("over/mark.txt")).unwrap(), "first\n");
    assert!(ran_in(two, "kept", 2) && ran_in(two, "over", 2));
}

#[test]
fn runs_in_two_clones_land_at_one_hub_and_a_clone_without_the_hub_is_refused() {
    let mut fleet = Fleet::new("runs", 2);
    let plan =
        |world: &World, id: &str| world.plan(&task(id, "auto_land: true", &format!("echo {id} >{id}.txt")));
    let runs: Vec<Running> =
        fleet.worlds.iter().zip(["a", "b"]).map(|(world, id)| world.start(&plan(world, id), &[])).collect();
    for run in runs {
        run.wait().exited(0);
    }
    let mut landed = fleet.landed();
    landed.sort();
    assert_eq!(landed, ["a", "b"]);
    assert!(ran_in(&fleet.worlds[0], "a", 1) && ran_in(&fleet.worlds[1], "b", 1));
    let daemon = fleet.worlds[0].daemon();
    fleet.worlds[1].env("REGATTA_HUB", "none");
    let refused = fleet.worlds[1].run(&plan(&fleet.worlds[1], "c"), &[]).exited(6).stderr;
    insta::assert_snapshot!(refused.replace(shown(&fleet.hub), "HUB"), @"
    error: the tasks of this store are worked on in several clones, now on node-1, which share work through the hub HUB; this clone has no hub
    hint: `regatta enqueue` and all commands that read work from here; machines share work through a git repository that all of them reach: `hub` in regatta.yaml
    ");
    stop(daemon);
    // Alone it may.
    fleet.worlds[1].run(&plan(&fleet.worlds[1], "c"), &[]).exited(0);
}

/// What only one node does at a time, by node.
fn roles(world: &World, name: &str) -> Vec<String> {
    let node = world.regatta(["node", "show", name, "--json"]).exited(0).json();
    node["roles"].as_array().unwrap().iter().map(|role| text(role).to_owned()).collect()
}

#[test]
fn a_drained_node_gives_up_the_train_and_another_one_lands() {
    let fleet = Fleet::new("train", 2);
    let [one, two] = &fleet.worlds[..] else { unreachable!() };
    let in_one = one.daemon();
    one.enqueue(&one.plan(&task("first", "auto_land: true", "echo 1 >first.txt")));
    fleet.wait_state("first", "landed");
    until("it lands, and tidies the hub", || (roles(two, "node-1") == ["train", "clerk"]).then_some(()));
    let in_two = two.daemon();
    let mut watched = two.begin(["node", "list", "-w"]);
    let row = |line: &str, state: &str| line.starts_with("node-1 ") && line.contains(&format!(" {state} "));
    watched.until(|line| row(line, "up"));
    two.regatta(["node", "drain", "node-1"]).exited(0);
    watched.until(|line| row(line, "drained"));
    watched.kill();
    assert_eq!(roles(two, "node-1"), [""; 0]);
    one.enqueue(&one.plan(&task("second", "auto_land: true", "echo 2 >second.txt")));
    fleet.wait_state("second", "landed");
    assert_eq!(fleet.landed(), ["first", "second"]);
    assert!(ran_in(two, "second", 1));
    assert_eq!((roles(two, "node-1"), roles(two, "node-2").first()), (Vec::new(), Some(&"train".to_owned())));
    stop(in_one);
    stop(in_two);
}

#[test]
fn a_clone_with_a_hub_is_refused_while_one_without_works() {
    let mut fleet = Fleet::new("without", 2);
    fleet.worlds[0].env("REGATTA_HUB", "none");
    let [one, two] = &fleet.worlds[..] else { unreachable!() };
    let busy = one.barrier("busy");
    let in_one = one.daemon();
    one.enqueue(&one.plan(&task("first", "auto_land: false", &busy.script())));
    busy.arrived();
    let plan = two.plan(&task("second", "auto_land: true", "echo 2 >second.txt"));
    let refused = two.run(&plan, &[]).exited(6).stderr;
    let shown = refused.replace(&*one.root().canonicalize().unwrap().to_string_lossy(), "CLONE");
    insta::assert_snapshot!(shown, @r"
    error: the tasks of this store are worked on without a hub in CLONE/.git, now on node-1: stop the engine there, or restart it with a hub
    hint: `regatta enqueue` and all commands that read work from here; machines share work through a git repository that all of them reach: `hub` in regatta.yaml
    ");
    busy.open();
    fleet.wait_state("first", "done");
    stop(in_one);
    // Alone it may, and from then on the hub is where work is.
    two.run(&plan, &[]).exited(0);
    assert_eq!(fleet.landed(), ["second"]);
    let in_two = two.daemon();
    let refused = one.regatta(["daemon"]).exited(6).stderr;
    assert!(refused.contains("this clone has no hub"), "{refused}");
    stop(in_two);
}

#[test]
fn what_a_cancelled_task_has_at_the_hub_stays_there() {
    let fleet = Fleet::leased("cancelled", 2);
    let [one, two] = &fleet.worlds[..] else { unreachable!() };
    let in_one = one.daemon();
    one.enqueue(&one.plan(&continued(one)));
    fleet.wait_checkpoint("long", "saved.txt");
    let saved = fleet.refs("refs/regatta/wip/long/");
    one.regatta(["cancel", "long"]).exited(0);
    fleet.wait_state("long", "cancelled");
    // The clerk has looked at everything when it has deleted what it may.
    one.enqueue(&one.plan(&task("lands", "auto_land: true", "echo 1 >lands.txt")));
    fleet.wait_state("lands", "landed");
    until("refs of landed work are gone", || fleet.refs("refs/regatta/work/lands/").is_empty().then_some(()));
    assert_eq!(fleet.refs("refs/regatta/wip/long/"), saved);
    stop(in_one);
    // The only copy: the machine with its lane is gone for good.
    fs::remove_dir_all(one.lanes().join("long")).unwrap();
    let in_two = two.daemon();
    two.regatta(["retry", "long"]).exited(0);
    fleet.wait_state("long", "landed");
    assert_eq!(fleet.file("main", "again.txt").as_deref(), Some("saved\n"));
    assert!(ran_in(two, "long", 2));
    stop(in_two);
}

#[test]
fn doctor_looks_at_the_store_the_hub_and_the_other_nodes() {
    let mut fleet = Fleet::new("doctor", 2);
    for world in &mut fleet.worlds {
        world.env("REGATTA_DEFAULT_AGENT", "sh");
    }
    let url = Server::shared().url("fleet_doctor");
    let [one, two] = &fleet.worlds[..] else { unreachable!() };
    let daemons = [one.daemon(), two.daemon()];
    until("both are there", || {
        let nodes = one.regatta(["node", "list", "--json"]).exited(0).json();
        nodes.as_array().unwrap().iter().all(|node| text(&node["state"]) == "up").then_some(())
    });
    let rows = |world: &World, code: i32, checks: &[&str]| {
        let found = world.regatta(["doctor", "--json"]).exited(code).json();
        let rows = checks.iter().map(|check| format!("{check}: {}", finding(&found, check)));
        let rows = rows.collect::<String>().replace(env!("CARGO_PKG_VERSION"), "VERSION");
        rows.replace(&Server::shared().socket().parent().unwrap().display().to_string(), "SOCKET")
    };
    insta::assert_snapshot!(rows(one, 0, &["store", "hub", "clock", "versions", "node"]), @r"
    store: ok: postgres://regatta@SOCKET:5432/postgres?project=fleet_doctor: 0 tasks, 2 events
    hub: ok: DIR/hub.git: main at HASH
    clock: ok: as that of the store's server
    versions: ok: VERSION on 2 running nodes
    node: ok: node-1, id HASH…: no labels
    ");
    // Another version runs there now.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = regatta_store::open(&url).await.unwrap();
        let nodes = store.documents(regatta_store::NODE, "").await.unwrap();
        let second = nodes.into_iter().find(|node| node.body.contains("node-2")).unwrap();
        let mut record: serde_json::Value = serde_json::from_str(&second.body).unwrap();
        record["version"] = "9.9.0\u{1b}[31m".into();
        let write = regatta_store::DocumentWrite::new(regatta_store::NODE, &second.id, record.to_string());
        store.put_document(&write, regatta_engine::clock::now()).await.unwrap();
    });
    insta::assert_snapshot!(rows(one, 0, &["versions"]), @r"
    versions: warning: nodes run different versions: node-1 VERSION, node-2 9.9.0
      hint: neighbouring versions work together; upgrade the older nodes soon
    ");
    let away = fleet.worlds[0].outside("away.git");
    fs::rename(&fleet.hub, &away).unwrap();
    insta::assert_snapshot!(rows(one, 3, &["hub"]), @r"
    hub: error: could not reach the hub DIR/hub.git: fatal: 'DIR/hub.git' does not appear to be a git repository
      hint: `regatta hub check` tries it; nothing lands and no work travels without it
    ");
    fs::rename(&away, &fleet.hub).unwrap();
    daemons.into_iter().for_each(stop);
    fleet.worlds[1].env("REGATTA_HUB", "none");
    let found = fleet.worlds[1].regatta(["doctor", "--json"]).exited(0).json();
    insta::assert_snapshot!(finding(&found, "hub"), @r"
    warning: none: only one clone can work on the tasks of this store
      hint: name one with `hub` in regatta.yaml, or make one: regatta hub init ssh://HOST/PATH
    ");
}
