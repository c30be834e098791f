//! How trees end by themselves, and what they leave: nothing.

use std::fs;
use std::future::pending;
use std::os::unix::fs::PermissionsExt;

use regatta_core::exit::Exit;
use regatta_engine::process::{FoundRun, Identity, Launch, find};

use super::{HIDE, Scratch, supervisor};

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
    let Exit::NeverStarted { error, .. } = shim.wait().await else { panic!("it cannot have started") };
    assert!(error.contains("no-such-agent"), "{error}");
    assert!(matches!(find(&scratch.run_dir()).unwrap(), FoundRun::Ended(Exit::NeverStarted { .. })));
}

#[tokio::test]
async fn a_missing_working_directory_is_named() {
    let scratch = Scratch::new();
    let launch = Launch { cwd: scratch.path("nowhere"), ..scratch.launch(&["true"]) };
    let Exit::NeverStarted { error, .. } = supervisor().run(&launch, pending()).await else { panic!() };
    assert!(error.contains("nowhere"), "{error}");
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
