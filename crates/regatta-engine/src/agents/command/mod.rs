//! Any program: it gets the prompt on stdin, and its exit code is the answer.

use std::path::Path;

use regatta_core::exit::Exit;
use regatta_core::time::Timestamp;

use super::decoder::{AgentEnd, Decoder, Ending, never_started, short_of_resources};
use super::event::{AgentEvent, MAX_TEXT, clip, one_line, tail};
use super::launch::{
    AgentProfile, Brief, FOLLOW_UP_VAR, GUIDANCE_VAR, Invocation, program, prompt_as_code,
    prompt_with_guidance,
};

/// Programs that execute stdin. Guidance quotes test output and agents' messages: it must never reach them on stdin.
const INTERPRETERS: [&str; 14] = [
    "sh", "bash", "dash", "zsh", "ksh", "fish", "ash", "busybox", "python", "perl", "ruby", "node", "deno",
    "php",
];

/// Maximum length of the guidance in a variable; Linux allows 128 KiB for one.
const MAX_GUIDANCE: usize = 32 * 1024;

/// The argv as configured; the prompt exactly as written. On a retry the guidance follows the prompt, unless some part
/// of the argv is an interpreter that would execute it; it is in `REGATTA_GUIDANCE` in either case. A follow-up follows
/// the prompt in every case, and is in `REGATTA_FOLLOW_UP`.
pub(super) fn invocation(profile: &AgentProfile, brief: &Brief<'_>) -> Invocation {
    let mut argv = program(profile, brief, "sh");
    argv.extend(profile.args.iter().map(Into::into));
    let runs_stdin = argv.iter().any(|arg| is_interpreter(Path::new(arg)));
    let stdin = if runs_stdin { prompt_as_code(brief) } else { prompt_with_guidance(brief) };
    let told = [(GUIDANCE_VAR, brief.guidance), (FOLLOW_UP_VAR, brief.follow_up)];
    let told = told.map(|(name, text)| (name, text.map(|text| clip(&text.replace('\0', ""), MAX_GUIDANCE))));
    let defaults: Vec<_> = told.iter().filter_map(|(name, text)| Some((*name, text.as_deref()?))).collect();
    Invocation::new(profile, argv, stdin, &defaults)
}

fn is_interpreter(program: &Path) -> bool {
    let name = program.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    INTERPRETERS.contains(&name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.'))
}

/// Decodes plain text, line by line.
#[derive(Debug, Default)]
pub struct PlainDecoder {
    /// The end of the output, to be searched for a verdict.
    said: String,
}

impl Decoder for PlainDecoder {
    fn line(&mut self, line: &[u8]) -> Vec<AgentEvent> {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let text = clip(&String::from_utf8_lossy(&line[..line.len().min(MAX_TEXT)]), MAX_TEXT);
        self.said.push_str(&text);
        self.said.push('\n');
        if self.said.len() > 2 * MAX_TEXT {
            self.said = tail(&self.said, MAX_TEXT).to_owned();
        }
        vec![AgentEvent::Text { text }]
    }

    fn end(&mut self, exit: &Exit, stderr_tail: &str, _now: Timestamp) -> Ending {
        let said = tail(self.said.trim_end(), MAX_TEXT);
        Ending {
            end: judge(exit, stderr_tail, said),
            session: None,
            model: None,
            cost_usd: None,
            tokens_in: 0,
            tokens_out: 0,
            cached: 0,
            turns: None,
            result_text: (!said.is_empty()).then(|| said.to_owned()),
            denials: Vec::new(),
            sandbox: None,
            doubts: Vec::new(),
        }
    }

    fn open_tools(&self) -> usize {
        0
    }
}

fn judge(exit: &Exit, stderr: &str, said: &str) -> AgentEnd {
    const HINT: &str = "check `argv` of this agent in regatta.yaml and that the program is on PATH";
    let last_words = || {
        let words = stderr.lines().rev().chain(said.lines().rev()).find(|line| !line.trim().is_empty());
        words.map(|line| format!(": {}", one_line(line))).unwrap_or_default()
    };
    match exit {
        Exit::Exited { code: 0 } => AgentEnd::Success,
        Exit::Exited { code: 126 | 127 } if !short_of_resources(stderr) => AgentEnd::Permanent {
            message: format!("{exit}, command not found or not executable{}", last_words()),
            hint: HINT.to_owned(),
        },
        Exit::Exited { .. } | Exit::Signalled { .. } => {
            AgentEnd::Failed { message: format!("{exit}{}", last_words()) }
        }
        Exit::TimedOut { .. } => AgentEnd::Failed { message: exit.to_string() },
        Exit::NeverStarted { error, by_sandbox } => never_started(error, *by_sandbox, HINT),
        Exit::Stopped { .. } | Exit::Lost => AgentEnd::Interrupted { message: exit.to_string() },
    }
}
