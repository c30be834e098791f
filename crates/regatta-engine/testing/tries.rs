//! What the tests of the sandbox try from inside, without a shell's help. Each prints one line.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

/// `try WHAT ARGUMENTS…`
pub(crate) fn main(args: &[String]) -> ExitCode {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let said = match args.as_slice() {
        ["syscall", numbers @ ..] => syscall(numbers),
        ["connect", path] => told(UnixStream::connect(path)),
        ["send", path] => told(UnixDatagram::unbound().and_then(|socket| socket.send_to(b"x", path))),
        ["pair"] => told(UnixStream::pair()),
        ["listen", path] => told(UnixListener::bind(path)),
        ["tcp", address] => {
            told(TcpStream::connect_timeout(&address.parse().expect("an address"), Duration::from_secs(10)))
        }
        ["serve"] => told(TcpListener::bind("127.0.0.1:0")),
        ["forks", most] => forks(most.parse().expect("a number")),
        _ => return ExitCode::from(2),
    };
    let _ = writeln!(std::io::stdout(), "{said}");
    ExitCode::SUCCESS
}

fn told<T>(result: std::io::Result<T>) -> String {
    match result {
        Ok(_) => "ok".into(),
        Err(error) => error.raw_os_error().map_or_else(|| error.to_string(), |number| number.to_string()),
    }
}

/// `ok`, or the number of the error.
#[expect(unsafe_code, reason = "a system call by its number")]
fn syscall(numbers: &[&str]) -> String {
    let mut values = [0_i64; 7];
    for (value, text) in values.iter_mut().zip(numbers) {
        *value = text.parse().expect("a number");
    }
    let [number, a, b, c, d, e, f] = values;
    // SAFETY: the tests pass numbers that are no addresses, or null.
    let result = unsafe { libc::syscall(number, a, b, c, d, e, f) };
    if result < 0 { told(Err::<(), _>(std::io::Error::last_os_error())) } else { "ok".into() }
}

/// How many processes can be alive at once, up to `most`.
fn forks(most: usize) -> String {
    let sleep = || Command::new("sleep").arg("600").stdin(Stdio::null()).stdout(Stdio::null()).spawn();
    let mut alive = Vec::new();
    while alive.len() < most
        && let Ok(child) = sleep()
    {
        alive.push(child);
    }
    let number = alive.len();
    for mut child in alive {
        let _ = child.kill();
        let _ = child.wait();
    }
    number.to_string()
}
