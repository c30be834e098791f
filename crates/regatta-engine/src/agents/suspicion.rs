//! Detects signs that a running agent may need a user: takes its output and the time, returns suspicions.
//!
//! Invariant: nothing here stops an agent. A suspicion is raised at most once per sign and attempt, by positive signs
//! only, and taken back when the agent visibly continues. Time is passed in, as a span since the watch began.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use regatta_core::config::{AgentKind, WatchSettings};
use regatta_core::suspicion::Sign;
use regatta_core::time::human;

use super::event::{AgentEvent, clip, one_line};
use super::prompts::prompt;

/// Maximum number of tracked calls.
const MAX_OPEN: usize = 256;
/// How long a question must stay unanswered to count.
const UNANSWERED: Duration = Duration::from_secs(10);
/// Longest quoted evidence, in bytes.
const MAX_QUOTE: usize = 160;
/// Tools that wait for something: for them, repeated answers are normal.
const PATIENT: [&str; 6] = ["bashoutput", "taskoutput", "taskget", "tasklist", "monitor", "sleep"];

/// A change to report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// A suspicion was raised.
    Suspected {
        /// The sign.
        sign: Sign,
        /// A sentence about what was observed.
        why: String,
    },
    /// A suspicion is over.
    WentOn {
        /// The sign.
        sign: Sign,
    },
}

/// Watches one attempt. Bounded, whatever the agent prints.
#[derive(Debug)]
pub struct Suspicions {
    rules: WatchSettings,
    kind: AgentKind,
    /// True if no file is expected to change.
    read_only: bool,
    /// True while a suspicion holds; once raised, a sign stays in the map.
    raised: BTreeMap<Sign, bool>,
    /// When output was last seen, or is expected at the earliest.
    last: Duration,
    /// When to check next for an unfinished line that asks for something. Less and less often during a long silence.
    glance: Duration,
    open: BTreeMap<String, Call>,
    same: Option<Same>,
    refused: BTreeSet<String>,
    n_refused: u32,
    refused_hosts: Vec<String>,
    turns: u32,
    question: Option<String>,
    /// The length of the unfinished line on each stream at the last check.
    unfinished: [usize; 2],
}

#[derive(Debug)]
struct Call {
    name: String,
    summary: String,
    input: Option<u64>,
    sub: bool,
    since: Duration,
}

/// The last call, and how often it got the same answer.
#[derive(Debug, PartialEq)]
struct Same {
    name: String,
    input: u64,
    answer: u64,
    times: u32,
}

impl Suspicions {
    /// Starts to watch, at time zero. `open` are the signs that already hold according to the records.
    pub fn new(
        rules: &WatchSettings,
        kind: AgentKind,
        read_only: bool,
        open: impl IntoIterator<Item = Sign>,
    ) -> Self {
        Self {
            rules: rules.clone(),
            kind,
            read_only,
            raised: open.into_iter().map(|sign| (sign, true)).collect(),
            last: Duration::ZERO,
            glance: Duration::ZERO,
            open: BTreeMap::new(),
            same: None,
            refused: BTreeSet::new(),
            n_refused: 0,
            refused_hosts: Vec::new(),
            turns: 0,
            question: None,
            unfinished: [0; 2],
        }
    }

    /// Takes in the events of one line of output.
    pub fn heard(&mut self, events: &[AgentEvent], now: Duration) -> Vec<News> {
        let mut news = self.output(now);
        for event in events {
            self.event(event, now, &mut news);
        }
        news
    }

    /// Takes in output from before the watch: nothing in it is reported.
    pub fn recall(&mut self, events: &[AgentEvent]) {
        let raised = self.raised.clone();
        self.heard(events, Duration::ZERO);
        self.raised = raised;
    }

    /// One line of stderr.
    pub fn stderr(&mut self, line: &[u8], now: Duration) -> Vec<News> {
        let news = self.output(now);
        self.ask(&String::from_utf8_lossy(&line[..line.len().min(4096)]));
        news
    }

    /// Takes in that a file changed without a tool reporting it.
    pub fn files_changed(&mut self) -> Vec<News> {
        let mut news = Vec::new();
        self.changed(&mut news);
        news
    }

    /// Withdraws a suspicion that proved wrong before it was reported.
    pub fn withdraw(&mut self, sign: Sign) {
        self.raised.remove(&sign);
    }

    /// Checks what follows from the time alone. `unfinished` holds the unfinished lines on stdout and stderr.
    pub fn look(&mut self, now: Duration, tool_is_open: bool, unfinished: [&[u8]; 2]) -> Vec<News> {
        let mut news = Vec::new();
        let lengths = unfinished.map(<[u8]>::len);
        if lengths != self.unfinished && lengths != [0, 0] {
            news = self.output(now);
            for piece in unfinished {
                self.ask(&String::from_utf8_lossy(&piece[piece.len().saturating_sub(4096)..]));
            }
        }
        self.unfinished = lengths;
        let quiet = now.saturating_sub(self.last);
        if now >= self.glance {
            self.glance = now + quiet.clamp(self.patience(), self.patience() * 30);
        }
        if let Some(question) = self.question.clone().filter(|_| quiet >= self.patience()) {
            self.raise(Sign::Prompt, || question, &mut news);
        }
        let silence = self.rules.silence.filter(|span| !tool_is_open && quiet >= *span);
        if let Some(span) = silence.filter(|_| !self.stands_at_a_prompt()) {
            let why = || format!("no output for {} while no tool is running", human(span));
            self.raise(Sign::Silence, why, &mut news);
        }
        if let Some(limit) = self.rules.tool {
            let oldest = self.open.values().min_by_key(|call| call.since);
            let found = match oldest {
                Some(call) => {
                    let what = format!("{} {}", call.name, call.summary);
                    (now.saturating_sub(call.since) >= limit).then(|| quote(what.trim_end()))
                }
                None => (tool_is_open && quiet >= limit).then(|| "a tool".to_owned()),
            };
            if let Some(what) = found {
                self.raise(
                    Sign::LongTool,
                    || format!("{what} has been running for {}", human(limit)),
                    &mut news,
                );
            }
        }
        news
    }

    /// When the next check could find something; `None` if never.
    pub fn next_look(&self, tool_is_open: bool) -> Option<Duration> {
        if !self.rules.enabled {
            return None;
        }
        let mut times = Vec::new();
        let is_new = |sign| !self.raised.contains_key(&sign);
        if is_new(Sign::Prompt) {
            times.push(self.glance.max(self.last + self.patience()));
        }
        if !tool_is_open && is_new(Sign::Silence) && !self.stands_at_a_prompt() {
            times.extend(self.rules.silence.map(|span| self.last + span));
        }
        if tool_is_open && is_new(Sign::LongTool) {
            let since = self.open.values().map(|call| call.since).min().unwrap_or(self.last);
            times.extend(self.rules.tool.map(|span| since + span));
        }
        times.into_iter().min()
    }

    /// True if the agent waits at a prompt, which explains its silence.
    fn stands_at_a_prompt(&self) -> bool {
        self.raised.get(&Sign::Prompt) == Some(&true)
    }

    fn patience(&self) -> Duration {
        self.rules.silence.map_or(UNANSWERED, |span| span.min(UNANSWERED))
    }

    /// Some output was seen.
    fn output(&mut self, now: Duration) -> Vec<News> {
        let mut news = Vec::new();
        self.last = self.last.max(now);
        self.glance = self.last + self.patience();
        self.question = None;
        self.over(Sign::Silence, &mut news);
        self.over(Sign::Prompt, &mut news);
        news
    }

    fn event(&mut self, event: &AgentEvent, now: Duration, news: &mut Vec<News>) {
        match event {
            AgentEvent::ToolStarted { id, name, summary, sub, input } => {
                if !sub && self.open.values().all(|call| call.sub) {
                    self.turn(news);
                }
                if self.open.len() < MAX_OPEN {
                    let (name, summary) = (name.clone(), summary.clone());
                    let call = Call { name, summary, input: *input, sub: *sub, since: now };
                    self.open.insert(id.clone(), call);
                }
            }
            AgentEvent::ToolEnded { id, failed, answer, .. } => {
                let Some(call) = self.open.remove(id) else { return };
                self.over(Sign::LongTool, news);
                if !failed && self.refused.contains(&call.name) {
                    self.over(Sign::Denials, news);
                }
                self.answered(&call, *answer, news);
            }
            AgentEvent::File { .. } => self.changed(news),
            AgentEvent::Denied { tool } => {
                self.n_refused = self.n_refused.saturating_add(1);
                if self.refused.len() < MAX_OPEN {
                    self.refused.insert(tool.clone());
                }
                if self.rules.denials > 0 && self.n_refused >= self.rules.denials {
                    let tools = self.refused.iter().take(5).cloned().collect::<Vec<_>>().join(", ");
                    let n = self.n_refused;
                    let why = || format!("its permission rules refused {n} calls ({tools})");
                    self.raise(Sign::Denials, why, news);
                }
            }
            // The agent announces how long it will be silent.
            AgentEvent::Retrying { delay_ms, .. } => {
                self.last = self.last.max(now + Duration::from_millis(*delay_ms).min(UNANSWERED * 360));
            }
            AgentEvent::Result { .. } => {
                self.open.clear();
                self.over(Sign::LongTool, news);
            }
            AgentEvent::Error { message, .. } => self.ask(message),
            AgentEvent::Unknown { line } => self.ask(line),
            // A model's message may contain any question; a plain program's question is its own.
            AgentEvent::Text { text } if self.kind == AgentKind::Command => self.ask(text),
            AgentEvent::Text { .. } | AgentEvent::Started { .. } => {}
            AgentEvent::Usage { .. } | AgentEvent::Limit { .. } => {}
        }
    }

    /// The sandbox refused a host for the first time.
    pub(crate) fn host_refused(&mut self, host: &str) -> Vec<News> {
        let mut news = Vec::new();
        if self.refused_hosts.len() < MAX_OPEN {
            self.refused_hosts.push(host.to_owned());
        }
        let n = self.refused_hosts.len();
        if self.rules.denials > 0 && n >= self.rules.denials as usize {
            let hosts = self.refused_hosts.iter().take(5).cloned().collect::<Vec<_>>().join(", ");
            self.raise(Sign::Denials, || format!("the sandbox refused {n} hosts ({hosts})"), &mut news);
        }
        news
    }

    fn turn(&mut self, news: &mut Vec<News>) {
        self.turns = self.turns.saturating_add(1);
        let limit = self.rules.turns_without_change;
        if !self.read_only && limit > 0 && self.turns > limit {
            self.raise(Sign::NoChange, || format!("{limit} turns in a row changed no file"), news);
        }
    }

    /// A call got its answer.
    fn answered(&mut self, call: &Call, answer: Option<u64>, news: &mut Vec<News>) {
        // A call without a summary manages a list or reads the time.
        if call.sub || call.summary.is_empty() || PATIENT.contains(&call.name.to_ascii_lowercase().as_str()) {
            return;
        }
        let (Some(input), Some(answer)) = (call.input, answer) else {
            self.same = None;
            return;
        };
        let before = self.same.take().filter(|same| {
            (same.name.as_str(), same.input, same.answer) == (call.name.as_str(), input, answer)
        });
        let times = before.map_or(0, |same| same.times).saturating_add(1);
        if times == 1 {
            self.over(Sign::SameCommand, news);
        }
        self.same = Some(Same { name: call.name.clone(), input, answer, times });
        if self.rules.same_command > 0 && times >= self.rules.same_command {
            let what = quote(&format!("{} {}", call.name, call.summary));
            let why = || format!("{what} was called {times} times in a row, with the same answer each time");
            self.raise(Sign::SameCommand, why, news);
        }
    }

    fn changed(&mut self, news: &mut Vec<News>) {
        self.turns = 0;
        self.same = None;
        for sign in [Sign::NoChange, Sign::SameCommand, Sign::Denials] {
            self.over(sign, news);
        }
    }

    /// Remembers a line that looks like a question until more output comes.
    fn ask(&mut self, text: &str) {
        let line = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
        if let Some(what) = prompt(self.kind, line) {
            self.question = Some(format!("it {what}: {}", quote(line)));
        }
    }

    fn raise(&mut self, sign: Sign, why: impl FnOnce() -> String, news: &mut Vec<News>) {
        if self.rules.enabled && !self.raised.contains_key(&sign) {
            self.raised.insert(sign, true);
            news.push(News::Suspected { sign, why: why() });
        }
    }

    fn over(&mut self, sign: Sign, news: &mut Vec<News>) {
        if let Some(holds) = self.raised.get_mut(&sign).filter(|holds| **holds) {
            *holds = false;
            news.push(News::WentOn { sign });
        }
    }
}

fn quote(text: &str) -> String {
    format!("`{}`", clip(&one_line(text), MAX_QUOTE))
}
