//! The shim as a program of its own, for this crate's tests; and an engine that launches and hangs, to be killed.

use std::ffi::OsString;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    match args.next().and_then(|name| name.into_string().ok()).as_deref() {
        Some("shim") => ExitCode::from(u8::try_from(regatta_engine::shim::main(args)).unwrap_or(1)),
        Some("launch-and-hang") => launch_and_hang(args.collect()),
        _ => ExitCode::from(2),
    }
}

/// `launch-and-hang RUN_DIR RUN_ID COMMAND…`: an engine whose launch was acknowledged and which then does nothing.
fn launch_and_hang(mut args: Vec<OsString>) -> ExitCode {
    use regatta_engine::process::{Launch, Stdin, Supervisor};
    let argv = args.split_off(2);
    let run_dir = std::path::PathBuf::from(&args[0]);
    let launch = Launch {
        cwd: run_dir.clone(),
        stdout: run_dir.join("stdout"),
        stderr: run_dir.join("stderr"),
        run_dir,
        argv,
        env: vec![("PATH".into(), "/usr/bin:/bin".into())],
        secrets: Vec::new(),
        stdin: Stdin::Null,
        run_id: args[1].clone().into_string().expect("a UTF-8 run id"),
        limit: None,
        grace: std::time::Duration::from_secs(5),
        log_limit: None,
        hold: None,
        confine: None,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let shim_exe = std::env::current_exe().expect("our own path");
    let shim = runtime.block_on(Supervisor::new(shim_exe).launch(&launch)).expect("a launch");
    std::fs::write(launch.run_dir.join("launched"), shim.identity().pid.to_string()).expect("a note");
    loop {
        std::thread::park();
    }
}
