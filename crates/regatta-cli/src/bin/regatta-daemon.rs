//! `regatta-daemon`: the same as `regatta daemon`, under the name that rookery's users know.

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let beside = std::env::current_exe().ok().map(|own| own.with_file_name("regatta"));
    let regatta = beside.filter(|path| path.exists()).unwrap_or_else(|| "regatta".into());
    // `exec` keeps the process id, so a supervisor sees the daemon itself.
    let error = Command::new(&regatta).arg("daemon").args(std::env::args_os().skip(1)).exec();
    use std::io::Write;
    let _ = writeln!(
        std::io::stderr(),
        "error: starting {}: {error}\nhint: install `regatta` beside it",
        regatta.display()
    );
    ExitCode::from(3)
}
