//! The witness: a file outside of all machines to which every agent appends its signs of life, with the kernel's time.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use regatta_testkit::history::Agent;

use crate::scene::{Fleet, shown};

/// How often an agent gives a sign of life, in seconds.
const BEAT: &str = "0.1";

/// The kernel's time since its start, in milliseconds: the same for all machines of a fleet.
pub(crate) fn now() -> u64 {
    let text = fs::read_to_string("/proc/uptime").expect("there is /proc");
    millis(text.split(' ').next().unwrap_or_default())
}

fn millis(seconds: &str) -> u64 {
    (seconds.parse::<f64>().expect("seconds since boot") * 1000.0) as u64
}

/// The script of an agent that works for `beats` tenths of a second under the eyes of the witness, and then does `work`.
pub(crate) fn seen(fleet: &Fleet, beats: impl std::fmt::Display, work: &str) -> String {
    let file = fleet.outside("witness");
    format!(
        "sign() {{ read -r up _ </proc/uptime; echo \"$REGATTA_TASK $REGATTA_ATTEMPT $FLEET_NODE $$ $up\" >>'{}'; }}\n\
         sign; i=0; while [ $i -lt {beats} ]; do sleep {BEAT}; sign; i=$((i+1)); done\n{work}\nsign",
        shown(&file)
    )
}

/// Every agent that was seen so far, by its first sign.
pub(crate) fn agents(fleet: &Fleet) -> Vec<Agent> {
    read(&fleet.outside("witness"))
}

fn read(file: &Path) -> Vec<Agent> {
    let text = fs::read_to_string(file).unwrap_or_default();
    // The last line may be incomplete if its agent was just killed.
    let complete = &text[..text.rfind('\n').map_or(0, |end| end + 1)];
    let mut agents: BTreeMap<String, Agent> = BTreeMap::new();
    for line in complete.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [task, attempt, node, pid, up] = words[..] else { panic!("a line of the witness: {line:?}") };
        let at = millis(up);
        let new = || Agent {
            task: task.into(),
            attempt: attempt.parse().expect("a number"),
            node: node.into(),
            from: at,
            to: at,
            ..Agent::default()
        };
        let agent = agents.entry([task, attempt, pid].join(" ")).or_insert_with(new);
        agent.to = agent.to.max(at);
    }
    let mut agents: Vec<Agent> = agents.into_values().collect();
    agents.sort_by_key(|agent| agent.from);
    agents
}

/// The agent of an attempt, if it was seen.
pub(crate) fn agent(fleet: &Fleet, task: &str, attempt: u32) -> Option<Agent> {
    agents(fleet).into_iter().find(|agent| agent.task == task && agent.attempt == attempt)
}
