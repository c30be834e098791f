//! What of an agent's output is recorded: all of it but its secrets, whoever dies.

use std::fs;
use std::future::pending;
use std::process::Command;

use regatta_core::exit::Exit;
use regatta_engine::process::{Launch, find};

use super::{Engine, SHIM_EXE, Scratch, adopted, eventually, supervisor};

const SECRET: &str = "hunter2-hunter2";

fn with_secrets(launch: Launch) -> Launch {
    let mut launch = launch;
    launch.env.push(("MY_TOKEN".into(), SECRET.into()));
    launch.secrets = vec![("OTHER_KEY".into(), "open \"sesame\"\\now".into())];
    launch
}

#[tokio::test]
async fn secrets_split_over_writes_and_streams_are_not_recorded() {
    let scratch = Scratch::new();
    // `cat` of a pipe writes what it reads, so each part is a write of its own, with a pause of any length between.
    let script = r#"mkfifo pipe
        printf 'a hunter2-'
        while ! [ -e go ]; do sleep 0.01; done
        printf 'hunter2 b\n{"x":"open \\"sesame\\"\\\\now","n":1}\nhunter2-hun\n'
        printf 'open "sesame"\\now' >&2
        exit 3"#;
    let shim = supervisor().launch(&with_secrets(scratch.shell(script))).await.unwrap();
    eventually("what is decided", || scratch.read("stdout") == "a ").await;
    fs::write(scratch.path("go"), "").unwrap();
    assert_eq!(shim.wait().await, Exit::Exited { code: 3 });
    assert_eq!(
        scratch.read("stdout"),
        "a [redacted:MY_TOKEN] b\n{\"x\":\"[redacted:OTHER_KEY]\",\"n\":1}\nhunter2-hun\n"
    );
    assert_eq!(scratch.read("stderr"), "[redacted:OTHER_KEY]");
    assert_eq!(scratch.read("run/shim.log"), "");
    for entry in fs::read_dir(scratch.run_dir()).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        assert!(!text.contains(SECRET) && !text.contains("sesame"), "{text}");
    }
}

#[tokio::test]
async fn half_a_line_is_recorded_at_once() {
    let scratch = Scratch::new();
    let script = "printf 'working on it...'; printf 'and here' >&2; exec sleep 3600";
    let shim = supervisor().launch(&with_secrets(scratch.shell(script))).await.unwrap();
    eventually("half a line", || scratch.read("stdout") == "working on it...").await;
    // An `e` is nothing, but `here` could go on to nothing either.
    eventually("the other stream", || scratch.read("stderr") == "and here").await;
    shim.kill_now(&regatta_engine::process::StopRequest::Asked("end of test".into())).unwrap();
    shim.wait().await;
}

#[tokio::test]
async fn two_streams_into_one_file_keep_their_order() {
    let scratch = Scratch::new();
    let mut launch =
        with_secrets(scratch.shell("for i in 1 2 3; do echo out $i; echo err $i $MY_TOKEN >&2; done"));
    launch.stderr.clone_from(&launch.stdout);
    assert_eq!(supervisor().run(&launch, pending()).await, Exit::Exited { code: 0 });
    let lines: Vec<String> =
        (1..=3).flat_map(|i| [format!("out {i}"), format!("err {i} [redacted:MY_TOKEN]")]).collect();
    assert_eq!(scratch.read("stdout").lines().collect::<Vec<_>>(), lines);
}

#[tokio::test]
async fn all_that_was_written_is_recorded_before_the_end_is() {
    let scratch = Scratch::new();
    // The last words of one who is killed while its pipe is full, and of a daemon it left.
    let script = "(setsid sh -c 'echo daemon; echo > spoke; exec sleep 3600' &)
        while ! [ -e spoke ]; do sleep 0.01; done
        head -c 3000000 /dev/zero | tr '\\0' x; printf '\\nlast words'";
    assert_eq!(
        supervisor().run(&with_secrets(scratch.shell(script)), pending()).await,
        Exit::Exited { code: 0 }
    );
    let text = scratch.read("stdout");
    assert!(text.starts_with("daemon\nx") && text.ends_with("x\nlast words"), "{}", text.len());
    assert_eq!(text.len(), "daemon\n".len() + 3_000_000 + "\nlast words".len());
}

#[tokio::test]
async fn recording_goes_on_without_the_engine() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.run_dir()).unwrap();
    let engine = Engine::start(
        Command::new(SHIM_EXE)
            .args(["launch-and-hang".as_ref(), scratch.run_dir().as_os_str(), scratch.run_id.as_ref()])
            .args([
                "sh",
                "-c",
                "while ! [ -e go ]; do sleep 0.01; done; echo ghp_0123456789012345678901234567890123456789",
            ]),
    );
    eventually("the launch", || scratch.path("run/launched").exists()).await;
    drop(engine);
    let shim = adopted(&scratch.run_dir()).await;
    fs::write(scratch.path("run/go"), "").unwrap();
    assert_eq!(shim.wait().await, Exit::Exited { code: 0 });
    assert_eq!(scratch.read("run/stdout"), "[redacted:github-token]\n");
}

#[tokio::test]
async fn somebody_from_outside_who_has_the_pipe_open_holds_nothing_up() {
    let scratch = Scratch::new();
    // Not below the shim and without its marker, as one that may not be signalled: it has the agent's own stdout.
    let shim = supervisor()
        .launch(&with_secrets(
            scratch.shell("echo said; echo $$ > pid; while ! [ -e go ]; do sleep 0.01; done"),
        ))
        .await
        .unwrap();
    let agent = scratch.process("pid").await;
    let pipe = fs::OpenOptions::new().write(true).open(format!("/proc/{}/fd/1", agent.pid)).unwrap();
    fs::write(scratch.path("go"), "").unwrap();
    assert_eq!(shim.wait().await, Exit::Exited { code: 0 });
    assert_eq!(scratch.read("stdout"), "said\n");
    assert!(find(&scratch.run_dir()).is_ok());
    drop(pipe);
}
