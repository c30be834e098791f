//! Real trees under a real shim: how they end, who survives whom, and what is left on disk.

use std::ffi::OsString;
use std::fs::{self, File};
use std::future::{Future, pending};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::task::Poll;
use std::time::{Duration, Instant};

use regatta_core::exit::{Exit, Limit};
use regatta_engine::process::{
    ExitRecord, Found, Identity, Launch, LaunchError, Shim, Stdin, StopRequest, Supervisor, find, sweep,
};

const SHIM_EXE: &str = env!("CARGO_BIN_EXE_regatta-test-shim");

/// A scratch directory in which one run is launched, and a check that nothing outlives the test.
struct Scratch {
    dir: tempfile::TempDir,
    run_id: String,
}

impl Scratch {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let run_id = format!("test-{}", dir.path().file_name().unwrap().display());
        Self { dir, run_id }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn run_dir(&self) -> PathBuf {
        self.path("run")
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    fn launch(&self, argv: &[&str]) -> Launch {
        Launch {
            run_dir: self.run_dir(),
            argv: argv.iter().map(OsString::from).collect(),
            cwd: self.dir.path().to_owned(),
            env: vec![("PATH".into(), "/usr/bin:/bin".into())],
            stdin: Stdin::Null,
            stdout: self.path("stdout"),
            stderr: self.path("stderr"),
            run_id: self.run_id.clone(),
            limit: None,
            grace: Duration::from_secs(20),
        }
    }

    fn shell(&self, script: &str) -> Launch {
        self.launch(&["sh", "-c", script])
    }

    fn record(&self) -> ExitRecord {
        serde_json::from_str(&self.read("run/exit.json")).unwrap()
    }

    /// The process whose pid a script wrote into this file.
    async fn process(&self, name: &str) -> Identity {
        let mut identity = None;
        eventually(name, || {
            identity = self.read(name).trim().parse().ok().and_then(|pid| Identity::of(pid).ok());
            identity.is_some()
        })
        .await;
        identity.unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A test that failed must not leave its processes to the next.
        sweep(&self.run_id);
    }
}

/// A process that is killed with the test.
struct Engine(Child);

impl Engine {
    fn start(command: &mut Command) -> Self {
        Self(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

fn supervisor() -> Supervisor {
    Supervisor::new(SHIM_EXE)
}

/// Waits until the condition holds; a test that waits too long says for what.
async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < deadline, "waited too long for: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn adopted(run_dir: &Path) -> Shim {
    match find(run_dir).unwrap() {
        Found::Alive(shim) => shim,
        other => panic!("expected a living shim, found {other:?}"),
    }
}

fn kill(pid: u32, signal: &str) {
    assert!(Command::new("kill").args([signal, &pid.to_string()]).status().unwrap().success());
}

/// Ignores what can be ignored and hides where one can hide: a session of its own, two forks, no environment.
/// They end with the scratch directory, so that a test that failed leaves nobody.
const HIDE: &str = r#"
    trap '' INT TERM HUP
    ( ( exec setsid env -i /bin/sh -c 'trap "" INT TERM HUP; echo $$ > hidden; while [ -e hidden ]; do /bin/sleep 1; done' ) & )
    sh -c 'trap "" INT TERM; echo $$ > plain; while [ -e plain ]; do sleep 1; done' &
"#;

#[tokio::test]
async fn an_exit_code_is_recorded() {
    let scratch = Scratch::new();
    let shim = supervisor().launch(&scratch.shell("echo out; echo err >&2; exit 7")).await.unwrap();
    assert_eq!(shim.wait().await, Exit::Exited { code: 7 });
    assert_eq!(shim.wait().await, Exit::Exited { code: 7 }, "waiting again gives the same answer");
    assert_eq!((scratch.read("stdout").as_str(), scratch.read("stderr").as_str()), ("out\n", "err\n"));
    assert_eq!(scratch.record().leftovers, 0);
    assert_eq!(scratch.read("run/shim.log"), "");
    for name in ["stdout", "stderr", "run/exit.json", "run/shim.json", "run/lock"] {
        let mode = fs::metadata(scratch.path(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name} is for its owner only");
    }
}

#[tokio::test]
async fn a_signal_from_outside_is_recorded_as_such() {
    let scratch = Scratch::new();
    let exit = supervisor().run(&scratch.shell("kill -SEGV $$"), pending()).await;
    assert_eq!(exit, Exit::Signalled { signal: 11 });
}

#[tokio::test]
async fn a_missing_binary_never_started() {
    let scratch = Scratch::new();
    let shim = supervisor().launch(&scratch.launch(&["no-such-agent"])).await.unwrap();
    assert_eq!(shim.agent_pid(), None);
    let Exit::NeverStarted { error } = shim.wait().await else { panic!("it cannot have started") };
    assert!(error.contains("no-such-agent"), "{error}");
    assert!(matches!(find(&scratch.run_dir()).unwrap(), Found::Ended(Exit::NeverStarted { .. })));
}

#[tokio::test]
async fn a_missing_working_directory_is_named() {
    let scratch = Scratch::new();
    let launch = Launch { cwd: scratch.path("nowhere"), ..scratch.launch(&["true"]) };
    let Exit::NeverStarted { error } = supervisor().run(&launch, pending()).await else { panic!() };
    assert!(error.contains("nowhere"), "{error}");
}

#[tokio::test]
async fn a_missing_shim_is_a_launch_error() {
    let scratch = Scratch::new();
    let error = Supervisor::new("/no/such/regatta").launch(&scratch.shell("true")).await.unwrap_err();
    assert!(matches!(error, LaunchError::Spawn { .. }), "{error}");
    assert!(matches!(find(&scratch.run_dir()).unwrap(), Found::NeverStarted));
}

#[tokio::test]
async fn stopping_ends_even_those_who_hide() {
    let scratch = Scratch::new();
    let script = format!("{HIDE} echo $$ > agent; while :; do sleep 1; done");
    let launch = Launch { grace: Duration::from_millis(50), ..scratch.shell(&script) };
    let shim = supervisor().launch(&launch).await.unwrap();
    let tree =
        [scratch.process("hidden").await, scratch.process("plain").await, scratch.process("agent").await];
    assert!(tree.iter().all(Identity::is_alive));
    shim.stop(&StopRequest::Asked("the operator".into())).unwrap();
    assert_eq!(shim.wait().await, Exit::Stopped { why: "the operator".into() });
    assert!(!tree.iter().any(Identity::is_alive), "somebody survived");
    let record = scratch.record();
    assert!(record.leftovers >= 2, "{record:?}");
    assert_eq!((record.agent, record.spared), (Some(Exit::Signalled { signal: 9 }), 0));
}

#[tokio::test]
async fn an_agent_that_cleans_up_on_interrupt_gets_the_time_for_it() {
    let scratch = Scratch::new();
    let script = "trap 'echo tidy > tidied; exit 0' INT; echo > up; while :; do sleep 0.01; done";
    let shim = supervisor().launch(&scratch.shell(script)).await.unwrap();
    eventually("the agent is up", || scratch.path("up").exists()).await;
    shim.stop(&StopRequest::Limit(Limit::Idle)).unwrap();
    assert_eq!(shim.wait().await, Exit::TimedOut { limit: Limit::Idle });
    assert_eq!(scratch.read("tidied"), "tidy\n");
    assert_eq!(scratch.record().agent, Some(Exit::Exited { code: 0 }));
}

#[tokio::test]
async fn the_second_request_cuts_the_grace_short() {
    for by_signal in [false, true] {
        let scratch = Scratch::new();
        let script = "trap 'echo > interrupted' INT; echo > up; while :; do sleep 0.01; done";
        let launch = Launch { grace: Duration::from_secs(3600), ..scratch.shell(script) };
        let shim = supervisor().launch(&launch).await.unwrap();
        eventually("the agent is up", || scratch.path("up").exists()).await;
        shim.stop(&StopRequest::Asked("first".into())).unwrap();
        eventually("the agent was interrupted", || scratch.path("interrupted").exists()).await;
        let second = StopRequest::Asked("second".into());
        if by_signal {
            shim.kill_now(&second).unwrap();
        } else {
            shim.stop(&second).unwrap();
        }
        assert_eq!(shim.wait().await, Exit::Stopped { why: "first".into() });
    }
}

#[tokio::test]
async fn a_stop_without_a_readable_reason_still_stops() {
    let scratch = Scratch::new();
    let shim = supervisor().launch(&scratch.shell("exec sleep 3600")).await.unwrap();
    fs::write(scratch.path("run/stop.json"), "{ torn").unwrap();
    kill(shim.identity().pid, "-TERM");
    let Exit::Stopped { why } = shim.wait().await else { panic!("it was asked to stop") };
    assert!(why.contains("stop.json"), "{why}");
}

#[tokio::test]
async fn a_launch_that_is_given_up_half_way_starts_nothing() {
    let scratch = Scratch::new();
    let fifo = scratch.path("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let launch = Launch { stdin: Stdin::File(fifo.clone()), ..scratch.shell("echo > ran; exec sleep 3600") };
    let supervisor = supervisor();
    let mut starting = Box::pin(supervisor.launch(&launch));
    // The shim opens the fifo and waits there for a writer, so the launch cannot be acknowledged.
    let polled = std::future::poll_fn(|context| Poll::Ready(starting.as_mut().poll(context))).await;
    assert!(polled.is_pending());
    eventually("the shim is there", || matches!(find(&scratch.run_dir()), Ok(Found::Alive(_)))).await;
    drop(starting);
    drop(File::options().write(true).open(&fifo).unwrap());
    eventually("the record", || scratch.path("run/exit.json").exists()).await;
    let record = scratch.record();
    assert!(matches!(record.exit, Exit::Stopped { .. }), "{record:?}");
    assert_eq!(record.agent, None);
    assert!(!scratch.path("ran").exists());
}

#[tokio::test]
async fn a_process_that_keeps_forking_away_is_caught() {
    let scratch = Scratch::new();
    fs::write(scratch.path("hop"), "echo $$ >> hops; [ -e hop ] && setsid sh hop &").unwrap();
    let launch = Launch { grace: Duration::ZERO, ..scratch.shell("sh hop; sh hop; sleep 3600") };
    let shim = supervisor().launch(&launch).await.unwrap();
    eventually("some hops", || scratch.read("hops").lines().count() > 50).await;
    shim.stop(&StopRequest::Asked("the operator".into())).unwrap();
    assert_eq!(shim.wait().await, Exit::Stopped { why: "the operator".into() });
    assert_eq!(sweep(&scratch.run_id), 0, "everybody was gone before the end was told");
}

#[tokio::test]
async fn a_daemon_left_behind_is_gone_when_the_run_has_ended() {
    let scratch = Scratch::new();
    let script = format!("{HIDE} while ! [ -s hidden -a -s plain ]; do sleep 0.01; done; exit 0");
    let exit = supervisor().run(&scratch.shell(&script), pending()).await;
    assert_eq!(exit, Exit::Exited { code: 0 });
    for name in ["hidden", "plain"] {
        let pid: u32 = scratch.read(name).trim().parse().unwrap();
        assert!(!Identity::of(pid).is_ok_and(|one| one.is_alive()), "{name} survived");
    }
    assert!(scratch.record().leftovers >= 2);
}

#[tokio::test]
async fn the_shim_keeps_the_total_limit_by_itself() {
    let scratch = Scratch::new();
    let script = format!("{HIDE} sleep 3600");
    let limit = Some(Duration::from_millis(200));
    let launch = Launch { limit, grace: Duration::from_millis(20), ..scratch.shell(&script) };
    drop(supervisor().launch(&launch).await.unwrap());
    eventually("the record", || scratch.path("run/exit.json").exists()).await;
    assert_eq!(scratch.record().exit, Exit::TimedOut { limit: Limit::Total });
}

#[tokio::test]
async fn run_stops_the_tree_when_it_is_cancelled() {
    let scratch = Scratch::new();
    let up = scratch.path("up");
    let cancel = async {
        eventually("the check is up", || up.exists()).await;
        "shutdown".to_owned()
    };
    let exit = supervisor().run(&scratch.shell("echo > up; exec sleep 3600"), cancel).await;
    assert_eq!(exit, Exit::Stopped { why: "shutdown".into() });
}

#[tokio::test]
async fn the_next_engine_adopts_what_a_killed_one_launched() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.run_dir()).unwrap();
    let engine = Engine::start(
        Command::new(SHIM_EXE)
            .args(["launch-and-hang".as_ref(), scratch.run_dir().as_os_str(), scratch.run_id.as_ref()])
            .args(["sh", "-c", "while ! [ -e go ]; do sleep 0.01; done; echo done; exit 5"]),
    );
    eventually("the launch", || scratch.path("run/launched").exists()).await;
    drop(engine);
    let shim = adopted(&scratch.run_dir()).await;
    assert!(shim.agent_pid().is_some());
    fs::write(scratch.path("run/go"), "").unwrap();
    assert_eq!(shim.wait().await, Exit::Exited { code: 5 });
    assert_eq!(scratch.read("run/stdout"), "done\n");
    assert!(matches!(find(&scratch.run_dir()).unwrap(), Found::Ended(Exit::Exited { code: 5 })));
}

#[tokio::test]
async fn an_adopted_tree_can_be_stopped() {
    let scratch = Scratch::new();
    drop(supervisor().launch(&scratch.shell("exec sleep 3600")).await.unwrap());
    let shim = adopted(&scratch.run_dir()).await;
    shim.stop(&StopRequest::Asked("drain".into())).unwrap();
    assert_eq!(shim.wait().await, Exit::Stopped { why: "drain".into() });
    shim.stop(&StopRequest::Asked("again".into())).unwrap();
    assert_eq!(
        shim.wait().await,
        Exit::Stopped { why: "drain".into() },
        "one that has ended stays as it ended"
    );
}

#[tokio::test]
async fn a_killed_shim_is_lost_and_the_sweep_removes_its_agent() {
    let scratch = Scratch::new();
    let script = "(setsid sh -c 'echo $$ > tool; exec sleep 3600' &) ; exec sleep 3600";
    let shim = supervisor().launch(&scratch.shell(script)).await.unwrap();
    let agent = Identity::of(shim.agent_pid().unwrap()).unwrap();
    let tool = scratch.process("tool").await;
    kill(shim.identity().pid, "-KILL");
    assert_eq!(shim.wait().await, Exit::Lost);
    let Found::Lost { run_id, agent: recorded, .. } = find(&scratch.run_dir()).unwrap() else {
        panic!("there is no record, so it must be lost")
    };
    assert_eq!((run_id.as_str(), recorded.as_ref()), (scratch.run_id.as_str(), Some(&agent)));
    assert!(agent.is_alive() && tool.is_alive(), "this is the shim's weak spot");
    assert_eq!(sweep(&run_id), 2);
    assert!(!agent.is_alive() && !tool.is_alive());
    assert_eq!(sweep(&run_id), 0);
}

#[tokio::test]
async fn a_sweep_leaves_other_runs_and_living_shims_alone() {
    let (one, other) = (Scratch::new(), Scratch::new());
    let shim = supervisor().launch(&one.shell("exec sleep 3600")).await.unwrap();
    let neighbour = Launch { run_id: format!("{}-longer", one.run_id), ..other.shell("exec sleep 3600") };
    let neighbour = supervisor().launch(&neighbour).await.unwrap();
    assert_eq!(sweep(&one.run_id), 1);
    assert_eq!(shim.wait().await, Exit::Signalled { signal: 9 }, "the shim lived to tell");
    assert!(neighbour.identity().is_alive());
    neighbour.kill_now(&StopRequest::Asked("end of test".into())).unwrap();
    assert_eq!(neighbour.wait().await, Exit::Stopped { why: "end of test".into() });
}

#[tokio::test]
async fn the_environment_is_exactly_what_was_given_and_secrets_are_nowhere_else() {
    let scratch = Scratch::new();
    let secret = "s3cr3t-b7c1e0";
    let mut launch = scratch.launch(&["/usr/bin/env"]);
    launch.env = vec![("API_KEY".into(), secret.into()), ("EMPTY".into(), "".into())];
    assert_eq!(supervisor().run(&launch, pending()).await, Exit::Exited { code: 0 });
    let mut seen: Vec<_> = scratch.read("stdout").lines().map(str::to_owned).collect();
    seen.sort();
    assert_eq!(
        seen,
        [format!("API_KEY={secret}"), "EMPTY=".into(), format!("REGATTA_RUN_ID={}", scratch.run_id)]
    );

    let scratch = Scratch::new();
    let mut launch = scratch.launch(&["/bin/sleep", "3600"]);
    launch.env = vec![("API_KEY".into(), secret.into())];
    assert!(!format!("{launch:?}").contains(secret));
    let shim = supervisor().launch(&launch).await.unwrap();
    let cmdline = fs::read(format!("/proc/{}/cmdline", shim.identity().pid)).unwrap();
    assert!(!String::from_utf8_lossy(&cmdline).contains(secret));
    shim.stop(&StopRequest::Asked("end of test".into())).unwrap();
    shim.wait().await;
    for entry in fs::read_dir(scratch.run_dir()).unwrap() {
        let path = entry.unwrap().path();
        assert!(!fs::read_to_string(&path).unwrap().contains(secret), "{}", path.display());
    }
}

#[tokio::test]
async fn a_run_directory_has_one_shim_once() {
    let scratch = Scratch::new();
    let shim =
        supervisor().launch(&scratch.shell("while ! [ -e go ]; do sleep 0.01; done; exit 3")).await.unwrap();
    let refused = supervisor().launch(&scratch.shell("echo > second")).await.unwrap_err();
    assert!(refused.to_string().contains("another shim holds"), "{refused}");
    fs::write(scratch.path("go"), "").unwrap();
    assert_eq!(shim.wait().await, Exit::Exited { code: 3 });
    let refused = supervisor().launch(&scratch.shell("echo > second")).await.unwrap_err();
    assert!(refused.to_string().contains("used before"), "{refused}");
    assert!(!scratch.path("second").exists());
    assert!(matches!(find(&scratch.run_dir()).unwrap(), Found::Ended(Exit::Exited { code: 3 })));
}

#[tokio::test]
async fn a_shim_whose_launcher_is_gone_starts_nothing() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.run_dir()).unwrap();
    let run_dir = scratch.run_dir().display().to_string();
    let out = scratch.path("stdout").display().to_string();
    // This test is its parent, and pid 1 is who it is told to look for.
    let status = Command::new(SHIM_EXE)
        .args(["shim", "--run-dir", &run_dir, "--cwd", "/", "--stdout", &out, "--stderr", &out])
        .args(["--run-id", &scratch.run_id, "--grace-ms", "0", "--launcher", "1", "--", "echo", "ran"])
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(!status.success());
    assert!(!scratch.path("stdout").exists());
    assert!(matches!(find(&scratch.run_dir()).unwrap(), Found::Ended(Exit::NeverStarted { .. })));
}

#[tokio::test]
async fn a_flood_of_output_goes_straight_to_the_file() {
    let scratch = Scratch::new();
    let script = "i=0; while [ $i -lt 64 ]; do head -c 65536 /dev/zero; i=$((i+1)); done";
    assert_eq!(supervisor().run(&scratch.shell(script), pending()).await, Exit::Exited { code: 0 });
    assert_eq!(fs::metadata(scratch.path("stdout")).unwrap().len(), 64 * 65536);
}

#[tokio::test]
async fn a_file_is_delivered_as_standard_input() {
    let scratch = Scratch::new();
    let prompt = "-- do this\n".repeat(20_000);
    fs::write(scratch.path("prompt"), &prompt).unwrap();
    let launch = Launch { stdin: Stdin::File(scratch.path("prompt")), ..scratch.launch(&["cat"]) };
    assert_eq!(supervisor().run(&launch, pending()).await, Exit::Exited { code: 0 });
    assert_eq!(scratch.read("stdout"), prompt);
}

#[tokio::test]
async fn without_a_file_standard_input_is_at_its_end() {
    let scratch = Scratch::new();
    assert_eq!(supervisor().run(&scratch.launch(&["cat"]), pending()).await, Exit::Exited { code: 0 });
}

#[tokio::test]
async fn an_agent_can_be_interrupted_even_if_the_engine_ignores_interrupts() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.run_dir()).unwrap();
    let script = format!("trap '' INT HUP; exec {SHIM_EXE} launch-and-hang \"$@\"");
    let _engine = Engine::start(Command::new("sh").args(["-c", &script, "sh"]).args([
        scratch.run_dir().as_os_str(),
        scratch.run_id.as_ref(),
        "sleep".as_ref(),
        "3600".as_ref(),
    ]));
    eventually("the launch", || scratch.path("run/launched").exists()).await;
    let shim = adopted(&scratch.run_dir()).await;
    shim.stop(&StopRequest::Asked("the operator".into())).unwrap();
    shim.wait().await;
    assert_eq!(scratch.record().agent, Some(Exit::Signalled { signal: 2 }));
}

#[tokio::test]
async fn fifty_trees_at_once_each_get_their_own_exit() {
    let scratches: Vec<_> = (0..50).map(|_| Scratch::new()).collect();
    let mut runs = tokio::task::JoinSet::new();
    for (code, scratch) in (0..).zip(&scratches) {
        let launch = scratch.shell(&format!("(sleep 3600 &); exit {code}"));
        runs.spawn(async move { (code, supervisor().run(&launch, pending()).await) });
    }
    while let Some(run) = runs.join_next().await {
        let (code, exit) = run.unwrap();
        assert_eq!(exit, Exit::Exited { code });
    }
}
