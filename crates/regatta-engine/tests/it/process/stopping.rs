//! How trees are ended.

use std::fs;
use std::process::Command;
use std::time::Duration;

use regatta_core::exit::{Exit, Limit};
use regatta_engine::process::{Identity, Launch, StopRequest, sweep};

use super::{Engine, HIDE, SHIM_EXE, Scratch, adopted, eventually, kill, supervisor};

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
