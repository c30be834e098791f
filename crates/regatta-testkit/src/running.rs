//! A program that a test has started, and what it said when it ended.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::Instant;

use serde_json::Value;

use crate::daemon::DEADLINE;
use crate::shown::shown;

/// A program that has ended.
#[derive(Clone, Debug)]
pub struct Ran {
    /// Its exit code; 128 plus the signal if one ended it, as in shells.
    pub code: i32,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

/// A running program.
#[derive(Debug)]
pub struct Running {
    child: Child,
    lines: Receiver<String>,
    seen: Vec<String>,
    stderr: Option<JoinHandle<String>>,
}

impl Running {
    /// Starts a command and captures both streams.
    pub fn start(mut command: Command) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program can be started");
        let (send, lines) = channel();
        let mut stdout = BufReader::new(child.stdout.take().expect("piped above"));
        std::thread::spawn(move || {
            let mut line = Vec::new();
            while stdout.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
                if send.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                    return;
                }
                line.clear();
            }
        });
        let mut errors = child.stderr.take().expect("piped above");
        let stderr = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = errors.read_to_end(&mut bytes);
            String::from_utf8_lossy(&bytes).into_owned()
        });
        Self { child, lines, seen: Vec::new(), stderr: Some(stderr) }
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it prints a line that contains `part`.
    #[track_caller]
    pub fn wait_line(&mut self, part: &str) -> String {
        self.until(|line| line.contains(part))
    }

    /// Waits until it prints a matching line.
    #[track_caller]
    pub fn until(&mut self, wanted: impl Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + DEADLINE;
        loop {
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    let line = self.saw(line);
                    if wanted(&line) {
                        return line;
                    }
                }
                Err(why) => panic!("the line did not come ({why}): {:#?}", self.seen),
            }
        }
    }

    /// The next line it prints; `None` when it has ended.
    #[track_caller]
    pub fn next_line(&mut self) -> Option<String> {
        match self.lines.recv_timeout(DEADLINE) {
            Ok(line) => Some(self.saw(line)),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("silence after {:#?}", self.seen),
        }
    }

    fn saw(&mut self, line: String) -> String {
        let bare = line.strip_suffix('\n').unwrap_or(&line).to_owned();
        self.seen.push(line);
        bare
    }

    /// Sends a signal: `INT`, `KILL`, …
    pub fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([&format!("-{signal}"), &self.pid().to_string()]).status();
        assert!(sent.is_ok_and(|status| status.success()), "{signal} can be sent");
    }

    /// Ends it as a power cut would, and waits until it is gone.
    pub fn kill(mut self) -> Ran {
        let _ = self.child.kill();
        self.wait()
    }

    /// Waits until it ends. The result has all that it printed, including lines that were read before.
    #[track_caller]
    pub fn wait(mut self) -> Ran {
        let deadline = Instant::now() + 2 * DEADLINE;
        loop {
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => self.seen.push(line),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    let _ = self.child.kill();
                    panic!("it did not end: {:#?}", self.seen);
                }
            }
        }
        let status = self.child.wait().expect("it was started");
        let stderr = self.stderr.take().map(|thread| thread.join().unwrap_or_default()).unwrap_or_default();
        Ran { code: code(status), stdout: self.seen.concat(), stderr }
    }

    /// Waits until it ends. Returns the lines that were not read before, and the exit code.
    #[track_caller]
    pub fn rest(mut self) -> (Vec<String>, i32) {
        self.seen.clear();
        let ran = self.wait();
        (ran.stdout.lines().map(str::to_owned).collect(), ran.code)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Ran {
    /// Asserts the exit code.
    #[track_caller]
    pub fn exited(self, code: i32) -> Self {
        assert_eq!(self.code, code, "\n--- stdout\n{}\n--- stderr\n{}", self.stdout, self.stderr);
        self
    }

    /// All that a person sees of it, for a snapshot: both streams and a code other than 0, without what differs from
    /// run to run.
    pub fn shown(&self) -> String {
        let mut all = shown(&self.stdout);
        if !self.stderr.is_empty() {
            all += &format!("--- stderr\n{}", shown(&self.stderr));
        }
        if self.code != 0 {
            all += &format!("--- exit {}\n", self.code);
        }
        all
    }

    /// Standard output as one JSON document.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {}", self.stdout))
    }

    /// Standard output as one JSON document per line.
    #[track_caller]
    pub fn json_lines(&self) -> Vec<Value> {
        self.stdout.lines().map(|line| serde_json::from_str(line).expect("each line is an object")).collect()
    }

    /// Standard error as the object of a failed command.
    #[track_caller]
    pub fn error(&self) -> Value {
        serde_json::from_str(&self.stderr).unwrap_or_else(|error| panic!("{error}: {}", self.stderr))
    }
}

fn code(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt as _;
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default())
}
