//! What a live agent is doing, read from the end of its log.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use regatta_core::config::AgentKind;
use regatta_core::plain::clean_line;
use regatta_engine::agents::{self, AgentEvent};
use regatta_engine::redact::Redactor;

/// How many bytes at the end of a log are read.
const GLANCE: u64 = 16 * 1024;

/// The last activity of an agent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Activity {
    /// Its last tool or its last words, on one line.
    pub doing: Option<String>,
    /// What this attempt has cost so far, if the agent reports it.
    pub usd: Option<f64>,
}

/// Reads the end of a log; empty if there is none.
pub fn glance(log: &Path, kind: AgentKind, redactor: &Redactor) -> Activity {
    let mut activity = Activity::default();
    let Ok(file) = File::open(log) else { return activity };
    let size = file.metadata().map_or(0, |data| data.len());
    let begin = size.saturating_sub(GLANCE);
    let mut bytes = vec![0; usize::try_from(size - begin).unwrap_or(0)];
    let Ok(n) = file.read_at(&mut bytes, begin) else { return activity };
    let whole = bytes[..n].split_inclusive(|byte| *byte == b'\n').skip(usize::from(begin > 0));
    let mut decoder = agents::decoder(kind);
    for line in whole.filter_map(|line| line.strip_suffix(b"\n")) {
        for event in decoder.line(line) {
            hear(&mut activity, &event);
        }
    }
    activity.doing = activity.doing.map(|doing| clean_line(&redactor.redact(&doing)));
    activity
}

fn hear(activity: &mut Activity, event: &AgentEvent) {
    match event {
        AgentEvent::ToolStarted { name, summary, .. } => activity.doing = Some(format!("{name} {summary}")),
        AgentEvent::Text { text } => {
            if let Some(line) = text.lines().rev().find(|line| !line.trim().is_empty()) {
                activity.doing = Some(line.trim().to_owned());
            }
        }
        AgentEvent::Retrying { kind, .. } => activity.doing = Some(format!("waiting for the API: {kind}")),
        AgentEvent::Usage { cost_usd, .. } => activity.usd = cost_usd.or(activity.usd),
        _ => {}
    }
}
