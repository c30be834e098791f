//! Executes a script and prints what it does in the normal form.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::sleep;
use std::time::{Duration, SystemTime};

use regatta_core::time::Timestamp;

use super::hands;
use super::script::Step;
use crate::agents::event::{AgentEvent, MAX_TEXT, clip, one_line};

/// The agent's process: its identity, and what it has used so far.
#[derive(Debug)]
pub(super) struct Agent {
    task: String,
    attempt: u32,
    tools: u32,
    turns: u32,
    cost_usd: f64,
    tokens_in: u64,
    tokens_out: u64,
    /// Its final answer: its last message, and a verdict in JSON if the script asks for one.
    said: String,
    verdict: Option<String>,
}

/// The script ends before its last line: exit with this status. The result was printed.
struct Stop(i32);

impl Agent {
    pub(super) fn from_environment() -> Self {
        let var = |name| std::env::var(name).ok();
        Self {
            task: var("REGATTA_TASK").unwrap_or_else(|| "task".to_owned()),
            attempt: var("REGATTA_ATTEMPT").and_then(|n| n.parse().ok()).unwrap_or(1),
            tools: 0,
            turns: 0,
            cost_usd: 0.0,
            tokens_in: 0,
            tokens_out: 0,
            said: String::new(),
            verdict: None,
        }
    }

    /// Executes the script and returns the exit status.
    pub(super) fn follow(&mut self, steps: &[Step]) -> i32 {
        emit(&AgentEvent::Started { session: None, model: Some("sim".to_owned()) });
        for step in steps {
            self.turns += 1;
            if let Err(Stop(status)) = self.step(step) {
                return status;
            }
        }
        self.result(true);
        0
    }

    /// Ends the run with an error and its status.
    pub(super) fn give_up(&mut self, kind: &str, message: &str, status: i32) -> i32 {
        emit(&AgentEvent::Error { kind: kind.to_owned(), message: message.to_owned() });
        message.clone_into(&mut self.said);
        self.result(false);
        status
    }

    fn step(&mut self, step: &Step) -> Result<(), Stop> {
        match step {
            Step::Say(text) => self.say(text),
            Step::Think(millis) => sleep(Duration::from_millis(*millis)),
            Step::Write { path, text } => self.must("Write", path, || hands::write(path, text))?,
            Step::Append { path, text } => self.must("Write", path, || hands::append(path, text))?,
            Step::Edit { path, old, new } => self.must("Edit", path, || hands::edit(path, old, new))?,
            Step::Delete(path) => self.must("Delete", path, || hands::delete(path))?,
            Step::Commit(message) => self.must("Commit", message, || hands::commit(message).map(drop))?,
            Step::Run(argv) => {
                self.may("Bash", &argv.join(" "), || hands::run(&argv[0], &argv[1..]));
            }
            Step::Tool { name, summary } => self.may(name, summary, || Ok(String::new())),
            Step::Cost(usd) => {
                self.cost_usd += usd;
                self.usage();
            }
            Step::Tokens(read, written) => {
                self.tokens_in = self.tokens_in.saturating_add(*read);
                self.tokens_out = self.tokens_out.saturating_add(*written);
                self.usage();
            }
            Step::Report { verdict, summary } => self.report(verdict, summary),
            Step::Lie => self.report("pass", "everything is done"),
            Step::Progress(label) => {
                self.may("Bash", "regatta progress", || hands::regatta(&["progress", "--", label]));
            }
            Step::Stuck(why) => self.may("Bash", "regatta stuck", || hands::regatta(&["stuck", "--", why])),
            Step::Marker { verdict, summary } => {
                let (path, text) = marker(&self.task, verdict, summary);
                self.must("Write", &path, || hands::write(&path, &text))?;
            }
            Step::JsonResult { verdict, summary } => {
                self.verdict =
                    Some(serde_json::json!({ "verdict": verdict, "summary": summary }).to_string());
            }
            Step::FailUntil(n) if self.attempt < *n => {
                let why = format!("this is attempt {}; the script expects {n}", self.attempt);
                return Err(Stop(self.give_up("work", &why, 1)));
            }
            Step::LimitUntil(seconds) => return Err(self.limit(*seconds)),
            Step::LimitOnce(seconds) if self.attempt < 2 => return Err(self.limit(*seconds)),
            Step::FailUntil(_) | Step::LimitOnce(_) => {}
            Step::Exit(status) => {
                self.result(*status == 0);
                return Err(Stop(*status));
            }
            Step::Crash => std::process::abort(),
            Step::Hang => loop {
                sleep(Duration::from_secs(3600));
            },
            Step::IgnoreTerm => ignore_term(),
            Step::SpawnOrphan(seconds) => {
                self.must("Bash", "leave a process behind", || hands::spawn_orphan(*seconds).map(drop))?;
            }
            Step::Flood(bytes) => flood(*bytes),
        }
        Ok(())
    }

    fn say(&mut self, text: &str) {
        text.clone_into(&mut self.said);
        emit(&AgentEvent::Text { text: text.to_owned() });
    }

    fn report(&mut self, verdict: &str, summary: &str) {
        let args = ["done".to_owned(), format!("--verdict={verdict}"), format!("--summary={summary}")];
        self.may("Bash", &format!("regatta done --verdict {verdict}"), || {
            hands::regatta(&[&args[0], &args[1], &args[2]])
        });
    }

    /// A tool whose failure fails the agent.
    fn must(&mut self, name: &str, what: &str, act: impl FnOnce() -> Result<(), String>) -> Result<(), Stop> {
        self.tool(name, what, act).map_err(|why| Stop(self.give_up("tool", &why, 1)))
    }

    /// A tool whose failure the agent ignores, as agents do.
    fn may(&mut self, name: &str, what: &str, act: impl FnOnce() -> Result<String, String>) {
        let words = match self.tool(name, what, act) {
            Ok(words) | Err(words) => words,
        };
        if !words.is_empty() {
            emit(&AgentEvent::Text { text: clip(&words, MAX_TEXT) });
        }
    }

    fn tool<T>(
        &mut self,
        name: &str,
        what: &str,
        act: impl FnOnce() -> Result<T, String>,
    ) -> Result<T, String> {
        self.tools += 1;
        let id = format!("sim-{}", self.tools);
        let (name, summary) = (name.to_owned(), one_line(what));
        emit(&AgentEvent::tool(&id, name, summary));
        let outcome = act();
        emit(&AgentEvent::ended(id, outcome.is_err()));
        outcome
    }

    fn limit(&mut self, seconds: u64) -> Stop {
        let resets_at = Some(now().plus(Duration::from_secs(seconds)));
        emit(&AgentEvent::Limit { status: "rejected".to_owned(), resets_at, kind: "sim".to_owned() });
        Stop(self.give_up("rate_limit", &format!("simulated limit, resets in {seconds} s"), 1))
    }

    fn usage(&self) {
        emit(&AgentEvent::Usage {
            tokens_in: self.tokens_in,
            tokens_out: self.tokens_out,
            cached: 0,
            cost_usd: Some(self.cost_usd),
        });
    }

    fn result(&mut self, ok: bool) {
        let mut text = std::mem::take(&mut self.said);
        if let Some(verdict) = &self.verdict {
            text = if text.is_empty() { verdict.clone() } else { format!("{text}\n{verdict}") };
        }
        emit(&AgentEvent::Result {
            ok,
            text,
            turns: Some(self.turns),
            cost_usd: Some(self.cost_usd),
            tokens_in: self.tokens_in,
            tokens_out: self.tokens_out,
            cached: 0,
            denials: Vec::new(),
        });
        if let Some(verdict) = self.verdict.take() {
            print(verdict.as_bytes());
        }
    }
}

/// A marker file in rookery's format: its name and its text.
fn marker(task: &str, verdict: &str, summary: &str) -> (String, String) {
    let text = format!("# {task}\n\nVerdict: {verdict}\n\nSummary: {summary}\n");
    (format!("PARCEL_DONE-{task}.md"), text)
}

fn flood(bytes: u64) {
    const CHUNK: u64 = 4096;
    let mut left = bytes;
    while left > 0 {
        let length = left.min(CHUNK);
        let text = "x".repeat(usize::try_from(length).unwrap_or_default());
        emit(&AgentEvent::Text { text });
        left -= length;
    }
}

/// Installing a handler whose flag is never read amounts to ignoring the signal.
fn ignore_term() {
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT, signal_hook::consts::SIGHUP] {
        if let Err(error) = signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false))) {
            emit(&AgentEvent::Error { kind: "signal".to_owned(), message: error.to_string() });
        }
    }
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

fn emit(event: &AgentEvent) {
    print(&serde_json::to_vec(event).expect("an event is plain data"));
}

/// Prints one line to stdout. A closed pipe is no reason to stop: the engine may be restarting.
fn print(line: &[u8]) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(line).and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush());
}
