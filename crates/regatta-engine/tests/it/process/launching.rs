//! What an agent is given, and what it takes for a launch to be one.

use std::fs::{self, File};
use std::future::{Future, pending};
use std::process::{Command, Stdio};
use std::task::Poll;

use regatta_core::exit::Exit;
use regatta_engine::process::{FoundRun, Launch, LaunchError, Stdin, StopRequest, Supervisor, find};

use super::{SHIM_EXE, Scratch, eventually, supervisor};

#[tokio::test]
async fn a_missing_shim_is_a_launch_error() {
    let scratch = Scratch::new();
    let error = Supervisor::new("/no/such/regatta").launch(&scratch.shell("true")).await.unwrap_err();
    assert!(matches!(error, LaunchError::Spawn { .. }), "{error}");
    assert!(matches!(find(&scratch.run_dir()).unwrap(), FoundRun::NeverStarted));
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
    eventually("the shim is there", || matches!(find(&scratch.run_dir()), Ok(FoundRun::Alive(_)))).await;
    drop(starting);
    drop(File::options().write(true).open(&fifo).unwrap());
    eventually("the record", || scratch.path("run/exit.json").exists()).await;
    let record = scratch.record();
    assert!(matches!(record.exit, Exit::Stopped { .. }), "{record:?}");
    assert_eq!(record.agent, None);
    assert!(!scratch.path("ran").exists());
}

#[tokio::test]
async fn the_environment_is_what_was_given_and_where_it_is_and_secrets_are_nowhere_else() {
    let scratch = Scratch::new();
    let secret = "s3cr3t-b7c1e0";
    let script = format!("env; test \"$API_KEY\" = {secret}");
    let mut launch = scratch.launch(&["/bin/sh", "-c", &script]);
    launch.env = vec![("API_KEY".into(), secret.into()), ("EMPTY".into(), "".into())];
    assert_eq!(supervisor().run(&launch, pending()).await, Exit::Exited { code: 0 });
    let mut seen: Vec<_> = scratch.read("stdout").lines().map(str::to_owned).collect();
    seen.sort();
    assert_eq!(
        seen,
        [
            "API_KEY=[redacted:API_KEY]".into(),
            "EMPTY=".into(),
            format!("PWD={}", launch.cwd.display()),
            format!("REGATTA_RUN_ID={}", scratch.run_id),
        ]
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
    assert!(matches!(find(&scratch.run_dir()).unwrap(), FoundRun::Ended(Exit::Exited { code: 3 })));
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
    assert!(matches!(find(&scratch.run_dir()).unwrap(), FoundRun::NeverStarted), "nobody's failure");
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
