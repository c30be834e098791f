//! The door of a sandbox: what an agent reaches without a token, and what it does not.

mod hostile;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use regatta_engine::process::{DoorSpec, ExitRecord, Launch, Shim, Stdin, Supervisor};
use regatta_testkit::daemon::until;
use serde_json::Value;

use regatta_testkit::world::{Ran, Running, World, let_go};

use crate::REGATTA;

/// A running attempt of the task `talker`, and a shim that holds a door for it.
pub(crate) struct Doorway {
    pub(crate) world: World,
    run: Option<Running>,
    pub(crate) dir: PathBuf,
    run_dir: PathBuf,
    shim: Shim,
    runtime: tokio::runtime::Runtime,
    agent_ends: PathBuf,
    attempt_ends: PathBuf,
}

impl Doorway {
    /// With an agent that does nothing until it is let go.
    pub(crate) fn new() -> Self {
        Self::with("read go < \"$AGENT_ENDS\"")
    }

    /// With an agent that runs this script.
    pub(crate) fn with(script: &str) -> Self {
        // The attempt lends its token and store to a door that the test opens itself.
        let world = World::without_sandbox(REGATTA);
        let attempt_ends = world.fifo("attempt-ends");
        let note = world.outside("note");
        let plan = world.plan_file(&format!(
            "---\nregatta: 1\ntasks:\n  - id: talker\n    agent: sh\n    prompt: |\n      echo \"$REGATTA_TOKEN $REGATTA_STORE $REGATTA_LANE\" > {0}.tmp\n      mv {0}.tmp {0}\n      read go < {1}\n      echo x > made.txt\n---\n",
            note.display(),
            attempt_ends.display()
        ));
        let run = world.start(&plan, &[]);
        let note = until("the attempt runs", || std::fs::read_to_string(&note).ok());
        let words: Vec<&str> = note.split_whitespace().collect();
        let [token, store, lane] = words.as_slice() else { panic!("three words: {note}") };
        let (dir, run_dir) = (world.outside("door"), world.outside("run"));
        std::fs::create_dir(&dir).unwrap();
        let agent_ends = world.fifo("agent-ends");
        let spec = DoorSpec {
            dir: dir.clone(),
            task: "talker".into(),
            attempt: 1,
            token: (*token).into(),
            store: (*store).into(),
            lane: lane.into(),
            project: world.root().to_owned(),
            config: None,
        };
        let mut env: Vec<(OsString, OsString)> = world
            .command(world.root(), ["version"])
            .get_envs()
            .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())))
            .collect();
        env.push(("AGENT_ENDS".into(), agent_ends.clone().into()));
        env.push(("REGATTA".into(), REGATTA.into()));
        for (name, value) in variables(&dir) {
            env.push((name.into(), value.into()));
        }
        let launch = Launch {
            run_dir: run_dir.clone(),
            argv: ["sh", "-c", script].map(OsString::from).to_vec(),
            cwd: world.root().to_owned(),
            env,
            secrets: Vec::new(),
            stdin: Stdin::Null,
            stdout: world.outside("out"),
            stderr: world.outside("err"),
            // Of its own: a shim ends every process that carries its marker.
            run_id: format!("door-test-{}", world.root().display()),
            limit: None,
            grace: Duration::from_secs(5),
            log_limit: None,
            hold: Some(world.outside("hold.lock")),
            confine: None,
            door: Some(spec),
            proxy: None,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let supervisor = Supervisor::new(REGATTA);
        let shim = runtime.block_on(supervisor.launch(&launch)).unwrap();
        Self { world, run: Some(run), dir, run_dir, shim, runtime, agent_ends, attempt_ends }
    }

    /// A command of the agent.
    pub(crate) fn run<const N: usize>(&self, args: [&str; N]) -> Ran {
        let variables = variables(&self.dir);
        let variables: Vec<(&str, &str)> =
            variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
        self.world.regatta_with(&variables, args)
    }

    /// The events of the task of one kind.
    fn events(&self, kind: &str) -> Vec<Value> {
        let events = self.world.regatta(["events", "--json", "--task", "talker"]).exited(0).json_lines();
        events.into_iter().filter(|event| event["kind"] == kind).collect()
    }

    /// Lets the agent below the shim end, and waits for the shim's record.
    pub(crate) fn end_agent(&self) -> ExitRecord {
        let_go(&self.agent_ends);
        self.record()
    }

    pub(crate) fn record(&self) -> ExitRecord {
        self.runtime.block_on(self.shim.wait_record()).expect("the shim recorded the end")
    }

    /// Lets the attempt end, and returns the state of its task.
    fn end_attempt(&mut self) -> Value {
        let_go(&self.attempt_ends);
        drop(self.run.take().map(Running::rest));
        self.world.regatta(["status", "talker", "--json"]).exited(0).json()
    }

    pub(crate) fn shim_pid(&self) -> u32 {
        self.shim.identity().pid
    }
}

impl Drop for Doorway {
    fn drop(&mut self) {
        if !self.run_dir.join("exit.json").exists() {
            let pid = i32::try_from(self.shim_pid()).ok().and_then(rustix::process::Pid::from_raw).unwrap();
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::USR1);
            let _ = self.runtime.block_on(self.shim.wait_record());
        }
    }
}

/// The variables that an agent in a sandbox has.
pub(crate) fn variables(dir: &std::path::Path) -> Vec<(&'static str, String)> {
    vec![
        ("REGATTA_DOOR", dir.display().to_string()),
        ("REGATTA_TASK", "talker".into()),
        ("REGATTA_ATTEMPT", "1".into()),
    ]
}

#[test]
fn reports_go_through_the_door_and_say_the_same() {
    let mut door = Doorway::new();
    let ran = door.run(["progress", "half-way", "--phase", "code"]).exited(0);
    assert_eq!(ran.stdout, "talker attempt 1: progress recorded\n");
    assert_eq!(door.events("progressed")[0]["phase"], "code");
    assert_eq!(door.run(["--quiet", "progress", "more"]).exited(0).stdout, "");
    door.run(["stuck", "which one?"]).exited(0);
    assert_eq!(door.events("stuck")[0]["why"], "which one?");
    let detail = door.world.outside("detail.md");
    std::fs::write(&detail, "because\n").unwrap();
    let ran = door.run([
        "parcel",
        "done",
        "--verdict",
        "warn",
        "--summary",
        "Mostly",
        "--detail-file",
        detail.to_str().unwrap(),
        "--tokens-in",
        "7",
        "--json",
    ]);
    assert_eq!(ran.exited(0).json(), serde_json::json!({ "ok": true, "task": "talker", "attempt": 1 }));
    let missing = door.run(["done", "--verdict", "pass", "--detail-file", "/nowhere/x"]);
    insta::assert_snapshot!(missing.shown(), @"
    --- stderr
    error: reading /nowhere/x: No such file or directory (os error 2)
    hint: check the path
    --- exit 4
    ");
    assert_eq!(std::fs::read_dir(&door.dir).unwrap().count(), 1, "nothing but the bell is left in the door");
    let record = door.end_agent();
    assert_eq!((record.leftovers, record.spared), (0, 0));
    insta::assert_snapshot!(door.run(["progress", "x"]).shown(), @"
    --- stderr
    error: the way out of this sandbox is closed
    hint: the attempt is over; what it says no longer counts
    --- exit 3
    ");
    let status = door.end_attempt();
    assert_eq!(status["attempts"][0]["summary"], "Mostly\n\nbecause", "{status:#}");
}

#[test]
fn the_crew_is_reached_through_the_door_and_only_as_oneself() {
    let door = Doorway::new();
    let world = &door.world;
    world.regatta(["crew", "register", "ann", "--lease", "1h"]).exited(0);
    // The agent is one of them.
    insta::assert_snapshot!(door.run(["crew", "list"]).shown(), @"
    NAME    ROLE     STATUS  TASK  SINCE  BY
    ann     general  idle    -  TIME ago  heartbeats, TIME
    talker  agent    busy    talker  TIME ago  attempt
    ");
    insta::assert_snapshot!(door.run(["msg", "send", "ann", "hello"]).shown(), @"message 1 is in the inbox of ann");
    world.regatta(["msg", "send", "talker", "take the blue one", "--as", "ann"]).exited(0);
    let inbox = door.run(["msg", "inbox", "--json"]).exited(0).json();
    assert_eq!((&inbox[0]["text"], &inbox[0]["read"]), (&"take the blue one".into(), &false.into()));
    let number = inbox[0]["id"].to_string();
    insta::assert_snapshot!(door.run(["msg", "inbox"]).shown(), @"
    --- stderr
    no new messages; --all shows old ones
    ");
    insta::assert_snapshot!(door.run(["msg", "read", &number]).shown(), @"
    2  ann  DATE CLOCK
        take the blue one
    ");
    insta::assert_snapshot!(door.run(["msg", "reply", &number, "I will"]).shown(), @"message 3 is in the inbox of ann");
    insta::assert_snapshot!(world.regatta(["msg", "inbox", "--as", "ann"]).shown(), @"
    1  talker  DATE CLOCK
        hello
    3  talker, in answer to 2  DATE CLOCK
        I will
    ");
    assert_eq!(door.run(["msg", "dismiss", &number]).exited(0).stdout, "1 dismissed\n");
    insta::assert_snapshot!(door.run(["msg", "dismiss", "99"]).shown(), @"
    --- stderr
    error: there is no message 99 in the inbox of talker
    hint: `regatta msg inbox --all` shows all messages
    --- exit 4
    ");
    door.run(["msg", "wait", "--timeout", "1"]).exited(5);
    door.run(["msg", "broadcast", "all done?"]).exited(0);
    door.run(["msg", "ask", "which?", "--wait", "--timeout", "1"]).exited(5);

    assert_eq!(door.run(["ctx", "set", "a/b", "1"]).exited(0).stdout, "a/b is now at version 1\n");
    assert_eq!(door.run(["ctx", "get", "a/b"]).exited(0).stdout, "1\n");
    insta::assert_snapshot!(door.run(["ctx", "list"]).shown(), @"
    KEY  VERSION  BY  WHEN  VALUE
    a/b  1        talker  TIME ago  1
    ");
    insta::assert_snapshot!(door.run(["ctx", "get", "none"]).shown(), @r#"
    --- stderr
    error: there is no value "none"
    hint: `regatta ctx list` shows all values
    --- exit 4
    "#);
    insta::assert_snapshot!(door.run(["ctx", "set", "a/b", "2", "--if-version", "7"]).shown(), @"
    --- stderr
    error: a/b is at version 1, not at version 7
    hint: read it again: `regatta ctx get a/b --json`
    --- exit 6
    ");

    let mut refusals = BTreeSet::new();
    for args in [
        &["list"][..],
        &["status", "talker"],
        &["enqueue", "x.md"],
        &["ctx", "delete", "a/b"],
        &["logs", "talker"],
        &["daemon"],
        &["config"],
        &["run", "--dry-run", "x.md"],
        &["crew", "register", "eve"],
    ] {
        let ran = match args {
            [a] => door.run([a]),
            [a, b] => door.run([a, b]),
            [a, b, c] => door.run([a, b, c]),
            _ => unreachable!(),
        };
        refusals.insert(ran.shown());
    }
    insta::assert_snapshot!(refusals.into_iter().collect::<String>(), @r#"
    --- stderr
    error: this command is not available to the agent of a task; it may use `regatta done`, `progress`, `stuck`, `msg`, `ctx get`, `ctx set`, `ctx list`, `ctx watch`, `crew list` and `regatta mcp`
    hint: `regatta stuck "…"` asks a person; the tools of `regatta mcp` show tasks and their states
    --- exit 6
    "#);
    insta::assert_snapshot!(door.run(["msg", "inbox", "--as", "ann"]).shown(), @"
    --- stderr
    error: the agent of a task cannot act as ann
    hint: leave out --as and REGATTA_MEMBER: it acts as its own task
    --- exit 6
    ");
    insta::assert_snapshot!(door.run(["msg", "send", "talker", "go", "--wake"]).shown(), @"
    --- stderr
    error: the agent of a task cannot start another
    hint: without --wake the message goes to its inbox
    --- exit 6
    ");
    insta::assert_snapshot!(door.run(["--store", "/tmp/x.db", "progress", "x"]).shown(), @r#"
    --- stderr
    error: --store is not available to the agent of a task; it may use `regatta done`, `progress`, `stuck`, `msg`, `ctx get`, `ctx set`, `ctx list`, `ctx watch`, `crew list` and `regatta mcp`
    hint: `regatta stuck "…"` asks a person; the tools of `regatta mcp` show tasks and their states
    --- exit 6
    "#);
    door.run(["version"]).exited(0);
}

#[test]
fn the_door_works_while_no_engine_runs() {
    let mut door = Doorway::new();
    drop(door.run.take().unwrap().kill());
    door.run(["progress", "alone"]).exited(0);
    door.run(["done", "--verdict", "pass", "--summary", "Made alone"]).exited(0);
    assert_eq!(door.events("reported")[0]["statement"]["summary"], "Made alone");
    let_go(&door.attempt_ends);
    // The next engine adopts the attempt, with its report.
    let plan = door.world.outside("plan.md");
    door.world.run(&plan, &["--resume"]).exited(0);
    let status = door.world.regatta(["status", "talker", "--json"]).exited(0).json();
    assert_eq!(status["attempts"][0]["summary"], "Made alone", "{status:#}");
}

#[test]
fn fifty_at_once_are_all_answered() {
    let door = Doorway::new();
    let ended: Vec<Ran> = std::thread::scope(|scope| {
        let one = |n: usize| {
            let (key, value) = (format!("k{n}"), n.to_string());
            let (world, dir) = (&door.world, &door.dir);
            scope.spawn(move || {
                let variables = variables(dir);
                let variables: Vec<(&str, &str)> =
                    variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
                world.regatta_with(&variables, ["ctx", "set", &key, &value])
            })
        };
        let all: Vec<_> = (0..50).map(one).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    for ran in ended {
        ran.exited(0);
    }
    assert_eq!(door.world.regatta(["ctx", "list", "--json"]).exited(0).json().as_array().unwrap().len(), 50);
}

#[test]
fn a_request_under_way_is_carried_out_when_the_agent_ends() {
    // The agent does not wait for its own report, and leaves an MCP server and a process behind.
    let script = "sleep 600 & \"$REGATTA\" mcp < \"$AGENT_ENDS\" > served & exec 3> \"$AGENT_ENDS\"; \
                  echo '{}' >&3; while [ ! -s served ]; do :; done; \"$REGATTA\" progress first; \"$REGATTA\" done --verdict pass --summary Late & \
                  while ! ls \"$REGATTA_DOOR\"/*.knock; do [ -e /proc/$! ] || break; done; exit 0";
    let door = Doorway::with(script);
    let record = door.record();
    assert_eq!(door.events("progressed").len(), 1);
    assert_eq!(door.events("reported")[0]["statement"]["summary"], "Late");
    // The sleeper and the client of the server; not the workers outside.
    assert!(record.leftovers <= 3, "{record:?}");
    assert_eq!(record.agent, Some(regatta_core::exit::Exit::Exited { code: 0 }));
}
