//! The shim as a program of its own, for this crate's tests; an engine that launches and hangs, to be killed; one that
//! launches from a file, as any user; and what is tried from inside a sandbox.

mod tries;

use std::ffi::OsString;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    match args.next().and_then(|name| name.into_string().ok()).as_deref() {
        Some("shim") => ExitCode::from(u8::try_from(regatta_engine::shim::main(args)).unwrap_or(1)),
        Some("confine") => ExitCode::from(u8::try_from(regatta_engine::confine::main(args)).unwrap_or(1)),
        Some("try") => tries::main(&args.filter_map(|arg| arg.into_string().ok()).collect::<Vec<_>>()),
        Some("launch-file") => launch_file(args.next().as_deref()),
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
        door: None,
        proxy: None,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let shim_exe = std::env::current_exe().expect("our own path");
    let shim = runtime.block_on(Supervisor::new(shim_exe).launch(&launch)).expect("a launch");
    std::fs::write(launch.run_dir.join("launched"), shim.identity().pid.to_string()).expect("a note");
    loop {
        std::thread::park();
    }
}

/// `launch-file FILE`: launches what the file says and waits for its end. Prints what was applied, once it runs.
fn launch_file(file: Option<&std::ffi::OsStr>) -> ExitCode {
    use regatta_engine::process::{Launch, Stdin, Supervisor};
    use std::io::Write;
    let file = std::path::PathBuf::from(file.expect("a file"));
    let text = std::fs::read(&file).expect("a readable file");
    let said: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
    let strings =
        |name: &str| -> Vec<String> { serde_json::from_value(said[name].clone()).expect("strings") };
    let path = |name: &str| said[name].as_str().map(std::path::PathBuf::from);
    let run_dir = path("run_dir").expect("a run directory");
    let launch = Launch {
        argv: strings("argv").into_iter().map(OsString::from).collect(),
        cwd: path("cwd").expect("a directory"),
        env: strings("env")
            .iter()
            .filter_map(|entry| entry.split_once('=').map(|(name, value)| (name.into(), value.into())))
            .collect(),
        secrets: said["secret"].as_str().map(|value| ("SECRET".into(), value.into())).into_iter().collect(),
        stdin: path("stdin").map_or(Stdin::Null, Stdin::File),
        stdout: run_dir.join("stdout"),
        stderr: run_dir.join("stderr"),
        run_id: said["run_id"].as_str().expect("a run id").to_owned(),
        limit: None,
        grace: std::time::Duration::from_secs(20),
        log_limit: None,
        hold: path("hold"),
        confine: serde_json::from_value(said["confine"].clone()).expect("a confinement"),
        door: None,
        proxy: None,
        run_dir,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let shim = Supervisor::new(std::env::current_exe().expect("our own path")).launch(&launch).await;
        let shim = shim.expect("a launch");
        let line = serde_json::json!({
            "shim": shim.identity().pid, "agent": shim.agent_pid(), "confined": shim.confined(),
        });
        let _ = writeln!(std::io::stdout(), "{line}");
        let exit = shim.wait().await;
        let _ = writeln!(std::io::stdout(), "{}", serde_json::to_string(&exit).expect("plain data"));
    });
    ExitCode::SUCCESS
}
