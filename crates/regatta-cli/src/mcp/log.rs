//! The end of a task's transcript, as a text of bounded size.

use std::collections::VecDeque;

use regatta_engine::agents::{self, AgentProfile, Kind};
use regatta_engine::process::Tail;
use regatta_engine::transcript::{Entry, Transcript};
use regatta_store::Store;

use crate::error::CliError;
use crate::project::{Project, find_task};
use crate::render::shown::redactor;
use crate::render::transcript::Layout;
use crate::ui::Ui;

/// Lines up to so many bytes in all; older ones give way.
struct Kept {
    lines: VecDeque<String>,
    bytes: usize,
    most: usize,
    left_out: bool,
}

impl Kept {
    fn push(&mut self, line: String) {
        self.bytes += line.len() + 1;
        self.lines.push_back(line);
        while self.bytes > self.most
            && let Some(gone) = self.lines.pop_front()
        {
            self.bytes -= gone.len() + 1;
            self.left_out = true;
        }
    }
}

/// What the agent of the last attempt said and did, without secrets.
pub(super) async fn end_of(
    project: &Project,
    store: &dyn Store,
    task: &str,
    most: usize,
) -> Result<String, CliError> {
    let task = find_task(store, task).await?;
    let id = &task.spec.id;
    let attempts = store.attempts(id).await?;
    let Some((attempt, path)) = attempts.iter().rev().find_map(|attempt| {
        let usual =
            project.repo.state_dir.join("logs").join(id.as_str()).join(format!("{}.jsonl", attempt.n));
        let path = attempt.log.clone().unwrap_or(usual);
        path.exists().then_some((attempt, path))
    }) else {
        return Err(CliError::not_found(format!("{id} has no log yet"))
            .hinted(format!("`regatta status {id}` shows what it waits for")));
    };
    let kind = project.config.agents.get(&attempt.agent);
    let kind = kind.map_or(Kind::Command, |agent| AgentProfile::of(&attempt.agent, agent).kind);
    let (ui, redactor) = (Ui::plain(), redactor(&project.config));
    let layout = Layout::new(&ui, &redactor, None);
    let mut decoder = agents::decoder_in(kind, attempt.lane.as_deref());
    let mut transcript = Transcript::new(kind == Kind::Command);
    let mut kept = Kept { lines: VecDeque::new(), bytes: 0, most, left_out: false };
    let mut show = |entries: Vec<Entry>| {
        entries.iter().flat_map(|entry| layout.lines(entry)).for_each(|line| kept.push(line));
    };
    let failed = |error: std::io::Error| CliError::io("reading", &path, &error);
    let mut tail = Tail::open(&path, 0).map_err(failed)?;
    loop {
        let lines = tail.ready_lines().map_err(failed)?;
        if lines.is_empty() {
            break;
        }
        for event in lines.iter().flat_map(|line| decoder.line(&line.bytes)) {
            show(transcript.event(&event, None));
        }
    }
    show(transcript.finish());
    let mut text = format!("{id}, attempt {}, {}\n", attempt.n, attempt.agent);
    if kept.left_out {
        text.push_str(&format!("[… the beginning is left out: `regatta logs {id}` has all of it]\n"));
    }
    text.extend(kept.lines.into_iter().map(|line| line + "\n"));
    Ok(text)
}
