//! The simulated agent: no model, no account, only a script in the prompt.
//!
//! It is a hidden command of the `regatta` binary and prints the normal form itself, one [`AgentEvent`] per line, so
//! everything behind the decoder treats it like the real agents. `regatta demo` and the tests run it; [`script`] lists
//! its instructions.

mod hands;
mod run;
pub mod script;

use std::ffi::OsString;
use std::io::Read;

use regatta_core::exit::Exit;
use regatta_core::failure::RateLimit;
use regatta_core::time::Timestamp;

use super::decoder::{AgentEnd, Decoder, Ending, never_started};
use super::event::AgentEvent;
use super::launch::{AgentProfile, Brief, FOLLOW_UP_VAR, Invocation, prompt_as_code};
use super::ledger::Ledger;

/// The hidden command's name.
pub const COMMAND: &str = "sim-agent";

/// Exit status for a script that cannot be parsed.
const BAD_SCRIPT: i32 = 64;

/// Guidance is left out: it quotes what went wrong, and a line of it could be an instruction.
pub(super) fn invocation(profile: &AgentProfile, brief: &Brief<'_>) -> Invocation {
    let mut argv: Vec<OsString> = match profile.argv.as_slice() {
        [] => vec![brief.regatta.into(), COMMAND.into()],
        argv => argv.iter().map(Into::into).collect(),
    };
    argv.extend(profile.args.iter().map(Into::into));
    let follow_up: Vec<_> = brief
        .follow_up
        .filter(|text| !text.contains('\0'))
        .map(|text| (FOLLOW_UP_VAR, text))
        .into_iter()
        .collect();
    Invocation::new(profile, argv, prompt_as_code(brief), &follow_up)
}

/// Runs as the agent: reads the prompt from stdin, follows it, returns the exit status.
pub fn main(_args: &[OsString]) -> i32 {
    let mut prompt = Vec::new();
    if std::io::stdin().lock().read_to_end(&mut prompt).is_err() {
        return BAD_SCRIPT;
    }
    let mut agent = run::Agent::from_environment();
    match script::parse(&String::from_utf8_lossy(&prompt)) {
        Ok(steps) => agent.follow(&steps),
        Err(error) => agent.give_up("script", &error.to_string(), BAD_SCRIPT),
    }
}

/// Decodes the simulated agent's output.
#[derive(Debug, Default)]
pub struct SimDecoder {
    ledger: Ledger,
}

impl Decoder for SimDecoder {
    fn line(&mut self, line: &[u8]) -> Vec<AgentEvent> {
        if line.trim_ascii().is_empty() {
            return Vec::new();
        }
        let event = serde_json::from_slice(line).unwrap_or_else(|_| AgentEvent::unknown(line));
        let mut events = vec![event];
        self.ledger.note_all(&mut events, 0);
        events
    }

    fn end(&mut self, exit: &Exit, stderr_tail: &str, _now: Timestamp) -> Ending {
        let end = self.judge(exit, stderr_tail);
        self.ledger.ending(end)
    }

    fn open_tools(&self) -> usize {
        self.ledger.open_tools()
    }
}

impl SimDecoder {
    fn judge(&self, exit: &Exit, stderr: &str) -> AgentEnd {
        const HINT: &str = "correct the script in the task's prompt, then `regatta retry`";
        match (&self.ledger.result, &self.ledger.error, exit) {
            (_, _, Exit::NeverStarted { error, by_sandbox }) => {
                never_started(error, *by_sandbox, "reinstall regatta")
            }
            (Some((true, _)), _, _) => AgentEnd::Success,
            (Some((false, text)), Some((kind, _)), _) if kind == "rate_limit" => {
                let (until, limit) = (self.ledger.rejected.flatten(), RateLimit::Quota);
                AgentEnd::RateLimited { until, limit, message: text.clone() }
            }
            (Some((false, text)), Some((kind, _)), _) if kind == "script" => {
                AgentEnd::Permanent { message: text.clone(), hint: HINT.to_owned() }
            }
            (Some((false, text)), _, _) if text.is_empty() => AgentEnd::Failed { message: exit.to_string() },
            (Some((false, text)), _, _) => AgentEnd::Failed { message: text.clone() },
            (None, _, Exit::TimedOut { .. }) => AgentEnd::Failed { message: exit.to_string() },
            (None, _, Exit::Exited { code: 2 | 126 | 127 }) => {
                let message = format!("{exit}: {}", stderr.trim());
                AgentEnd::Permanent { message, hint: "check `argv` of this agent in regatta.yaml".to_owned() }
            }
            (None, _, _) => {
                AgentEnd::Interrupted { message: format!("{exit}, and the agent had not finished") }
            }
        }
    }
}
