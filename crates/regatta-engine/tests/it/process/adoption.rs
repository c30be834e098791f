//! Who survives whom: engines, shims and agents that die at the wrong moment.

use std::fs;
use std::process::Command;

use regatta_core::exit::Exit;
use regatta_engine::process::{FoundRun, Identity, Launch, StopRequest, find, sweep};

use super::{Engine, SHIM_EXE, Scratch, adopted, eventually, kill, supervisor};

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
    assert!(matches!(find(&scratch.run_dir()).unwrap(), FoundRun::Ended(Exit::Exited { code: 5 })));
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
    let FoundRun::Lost { run_id, agent: recorded, .. } = find(&scratch.run_dir()).unwrap() else {
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
