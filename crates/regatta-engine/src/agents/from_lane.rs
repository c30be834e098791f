//! Makes file names relative to the lane, whatever the agent prints.

use regatta_core::exit::Exit;
use regatta_core::time::Timestamp;

use super::decoder::{Decoder, Ending};
use super::event::AgentEvent;
use super::json::seen_from;

/// A decoder, and the lane of its agent.
pub(super) struct FromLane {
    inner: Box<dyn Decoder>,
    lane: String,
    /// The lane with a trailing slash: the prefix of paths in commands.
    prefix: String,
}

impl FromLane {
    pub(super) fn new(inner: Box<dyn Decoder>, lane: &str) -> Self {
        Self { inner, lane: lane.to_owned(), prefix: format!("{}/", lane.trim_end_matches('/')) }
    }
}

impl Decoder for FromLane {
    fn line(&mut self, line: &[u8]) -> Vec<AgentEvent> {
        let mut events = self.inner.line(line);
        for event in &mut events {
            match event {
                AgentEvent::File { path, .. } => *path = seen_from(path, Some(&self.lane)).to_owned(),
                AgentEvent::ToolStarted { summary, .. } if summary.contains(&self.prefix) => {
                    *summary = summary.replace(&self.prefix, "");
                }
                _ => {}
            }
        }
        events
    }

    fn stderr(&mut self, line: &[u8]) -> Vec<AgentEvent> {
        self.inner.stderr(line)
    }

    fn end(&mut self, exit: &Exit, stderr_tail: &str, now: Timestamp) -> Ending {
        self.inner.end(exit, stderr_tail, now)
    }

    fn open_tools(&self) -> usize {
        self.inner.open_tools()
    }

    fn waits_for_background(&self) -> bool {
        self.inner.waits_for_background()
    }

    fn lives_in(&mut self, zone: &str) {
        self.inner.lives_in(zone);
    }

    fn retries_in_vain(&self) -> bool {
        self.inner.retries_in_vain()
    }
}
