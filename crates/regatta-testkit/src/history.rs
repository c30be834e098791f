//! The history of several machines on one store, and what must be true of it whatever went wrong: pure checks K1 to
//! K12, each with a sentence for its violation.
//!
//! A history is what was observed from outside: the answers clients got, the event log as readers saw it, what a
//! witness outside all machines saw of agents, and the refs of the hub. All times are milliseconds of one kernel's
//! clock, so agents of different nodes can be compared.

use std::collections::{BTreeMap, BTreeSet};

use regatta_core::event::{Event, EventBody};
use regatta_core::train::LandStep;
use regatta_core::writes::WritePath;

/// What was observed.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// The event log, as each reader saw it; the first is complete.
    pub readers: Vec<Vec<Event>>,
    /// The writes that clients asked for.
    pub calls: Vec<Call>,
    /// How often each write is in the store at the end, by [`Call::what`].
    pub stored: BTreeMap<String, usize>,
    /// Every agent that was seen.
    pub agents: Vec<Agent>,
    /// The caps in force.
    pub caps: Caps,
    /// The hub.
    pub hub: Hub,
    /// The trees that passed a gate.
    pub gates: BTreeSet<String>,
    /// The lines that agents wrote into their lanes before they reported a result.
    pub written: Vec<String>,
    /// The lines that are found at the hub, and in lanes of live nodes.
    pub found: BTreeSet<String>,
    /// The tasks at the end.
    pub tasks: Vec<Task>,
    /// The sessions that are open at the end.
    pub sessions: BTreeSet<String>,
    /// The notifications that were wanted.
    pub wanted: BTreeSet<String>,
    /// The notifications that were delivered, and when.
    pub told: Vec<(String, u64)>,
    /// When a process died that may have been delivering notifications.
    pub deaths: Vec<u64>,
}

/// A write that a client asked for.
#[derive(Clone, Debug)]
pub struct Call {
    /// What it writes, such as `enqueue a`; no other call writes the same.
    pub what: String,
    /// The answer.
    pub answer: Answer,
}

/// The answer to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It was acknowledged.
    Ok,
    /// It was refused.
    Failed,
    /// There was none, or the client died.
    Unknown,
}

/// An agent's process as the witness saw it.
#[derive(Clone, Debug, Default)]
pub struct Agent {
    /// Its task.
    pub task: String,
    /// Its attempt.
    pub attempt: u32,
    /// The node it ran on.
    pub node: String,
    /// Its first sign of life.
    pub from: u64,
    /// Its last sign of life.
    pub to: u64,
    /// The groups of its task.
    pub groups: Vec<String>,
    /// The declared writes of its task.
    pub writes: Vec<String>,
}

/// The most agents at one time.
#[derive(Clone, Debug, Default)]
pub struct Caps {
    /// By group.
    pub groups: BTreeMap<String, usize>,
    /// On each node.
    pub node: Option<usize>,
    /// On all nodes.
    pub total: Option<usize>,
}

/// What the hub remembers.
#[derive(Clone, Debug, Default)]
pub struct Hub {
    /// The moves of the target: the commit before, and after.
    pub moves: Vec<(String, String)>,
    /// Every value of the fence.
    pub fences: Vec<Fence>,
    /// The commits of the target, newest first.
    pub commits: Vec<Commit>,
}

/// A value of the fence.
#[derive(Clone, Debug, Default)]
pub struct Fence {
    /// The lander's term.
    pub term: u64,
    /// The lander's session.
    pub session: String,
    /// What was landed with it.
    pub candidate: Option<String>,
}

/// A commit of the target.
#[derive(Clone, Debug, Default)]
pub struct Commit {
    /// Its id.
    pub oid: String,
    /// Its content.
    pub tree: String,
    /// The task and the attempt in its trailers, if a landing made it.
    pub of: Option<(String, u32)>,
}

/// A task at the end.
#[derive(Clone, Debug, Default)]
pub struct Task {
    /// Its id.
    pub id: String,
    /// Its state.
    pub state: String,
    /// The tasks it depends on.
    pub deps: Vec<String>,
    /// The session that holds it.
    pub session: Option<String>,
    /// The fence of its last claim.
    pub fence: u64,
}

impl History {
    /// Everything that is wrong, with the name of the check.
    pub fn violations(&self) -> Vec<String> {
        type Check = fn(&History) -> Vec<String>;
        let checks: [(&str, Check); 12] = [
            ("K1", History::claims),
            ("K2", History::one_agent),
            ("K3", History::late_writes),
            ("K4", History::acknowledged),
            ("K5", History::landings),
            ("K6", History::one_line),
            ("K7", History::tested),
            ("K8", History::caps),
            ("K9", History::lost),
            ("K10", History::ends),
            ("K11", History::order),
            ("K12", History::notified),
        ];
        let named = |(name, check): (&str, Check)| {
            check(self).into_iter().map(move |wrong| format!("{name}: {wrong}")).collect::<Vec<_>>()
        };
        checks.into_iter().flat_map(named).collect()
    }

    fn events(&self) -> &[Event] {
        self.readers.first().map_or(&[], Vec::as_slice)
    }

    /// The events of each task, in order.
    fn by_task(&self) -> BTreeMap<String, Vec<&Event>> {
        let mut tasks: BTreeMap<String, Vec<&Event>> = BTreeMap::new();
        for event in self.events() {
            if let Some(task) = &event.task {
                tasks.entry(task.to_string()).or_default().push(event);
            }
        }
        tasks
    }

    /// K1: attempts of a task grow, its claims never overlap, and its fence has grown with each of them.
    pub fn claims(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for (task, events) in self.by_task() {
            let (mut held, mut last, mut claims) = (None, 0, 0);
            for event in events {
                match &event.body {
                    EventBody::Claimed { node } => {
                        let attempt = event.attempt.unwrap_or_default();
                        if let Some(holder) = held.replace(node.clone()) {
                            wrong.push(format!(
                                "{task} was claimed by {node} (event {}) while {holder} held it",
                                event.seq
                            ));
                        }
                        if attempt <= last {
                            wrong.push(format!("attempt {attempt} of {task} came after attempt {last}"));
                        }
                        last = last.max(attempt);
                        claims += 1;
                    }
                    body if ends_claim(body) => held = None,
                    _ => {}
                }
            }
            let end = self.tasks.iter().find(|end| end.id == task);
            if let Some(end) = end.filter(|end| end.fence < claims) {
                wrong.push(format!("{task} was claimed {claims} times and its fence is {}", end.fence));
            }
        }
        wrong
    }

    /// K2: no two agents of one task are alive at once.
    pub fn one_agent(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for (n, one) in self.agents.iter().enumerate() {
            for other in &self.agents[n + 1..] {
                if one.task == other.task && one.overlaps(other) {
                    wrong.push(format!("two agents of one task: {} and {}", one.shown(), other.shown()));
                }
            }
        }
        wrong
    }

    /// K3: nothing is accepted of an attempt once a later one was given out.
    pub fn late_writes(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for (task, events) in self.by_task() {
            let mut current = 0;
            for event in events {
                let attempt = event.attempt.unwrap_or(current);
                if matches!(event.body, EventBody::Claimed { .. }) {
                    current = current.max(attempt);
                } else if attempt < current && is_by_holder(&event.body) {
                    wrong.push(format!(
                        "event {} of {task} is of attempt {attempt}, after attempt {current} was claimed: {:?}",
                        event.seq, event.body
                    ));
                }
            }
        }
        wrong
    }

    /// K4: what was acknowledged is there once, what was refused is not, and of the rest nothing is there twice.
    pub fn acknowledged(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for call in &self.calls {
            let times = self.stored.get(&call.what).copied().unwrap_or(0);
            let is_right = match call.answer {
                Answer::Ok => times == 1,
                Answer::Failed => times == 0,
                Answer::Unknown => times <= 1,
            };
            if !is_right {
                wrong.push(format!(
                    "{}: the answer was {:?}, and it is there {times} times",
                    call.what, call.answer
                ));
            }
        }
        let asked: BTreeSet<&String> = self.calls.iter().map(|call| &call.what).collect();
        let unasked = self.stored.keys().filter(|what| !asked.contains(what));
        wrong.extend(unasked.map(|what| format!("{what} is there, and no client asked for it")));
        wrong
    }

    /// The landings in the log: task, attempt, commit; `None` as commit for one that found its work there already.
    fn landed(&self) -> Vec<(String, u32, Option<String>)> {
        let landing = |event: &Event| {
            let EventBody::Landing { landing, .. } = &event.body else { return None };
            let commit = match landing {
                LandStep::Landed { commit } | LandStep::Merged { commit, .. } => Some(commit.to_string()),
                LandStep::AlreadyIn { .. } => None,
                _ => return None,
            };
            Some((event.task.as_ref()?.to_string(), event.attempt.unwrap_or_default(), commit))
        };
        self.events().iter().filter_map(landing).collect()
    }

    /// K5: an attempt lands at most once, and the log and the target say the same.
    pub fn landings(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut on_target: BTreeMap<&(String, u32), Vec<&str>> = BTreeMap::new();
        for commit in &self.hub.commits {
            if let Some(of) = &commit.of {
                on_target.entry(of).or_default().push(&commit.oid);
            }
        }
        for ((task, attempt), commits) in on_target.iter().filter(|(_, commits)| commits.len() > 1) {
            wrong.push(format!("attempt {attempt} of {task} is on the target {} times", commits.len()));
        }
        let mut said: BTreeMap<(String, u32), Option<String>> = BTreeMap::new();
        for (task, attempt, commit) in self.landed() {
            if let Some(commit) = &commit
                && !self.hub.commits.iter().any(|there| there.oid == *commit)
            {
                wrong.push(format!("{task} landed as {commit}, which is not on the target"));
            }
            if said.insert((task.clone(), attempt), commit).is_some() {
                wrong.push(format!("attempt {attempt} of {task} landed twice"));
            }
        }
        // A later attempt may have continued from the commits of an earlier one.
        let is_said = |task: &str, n: u32| said.keys().any(|(other, last)| other == task && *last >= n);
        let unsaid = on_target.keys().filter(|(task, n)| !is_said(task, *n));
        wrong.extend(
            unsaid.map(|(task, n)| format!("attempt {n} of {task} is on the target without an event")),
        );
        wrong
    }

    /// K6: the target moves in one line, each move under the fence of its lander, whose terms never go back.
    pub fn one_line(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for pair in self.hub.moves.windows(2) {
            if pair[0].1 != pair[1].0 {
                wrong.push(format!("the target was at {} and moved from {}", pair[0].1, pair[1].0));
            }
        }
        let mut sessions: BTreeMap<u64, &str> = BTreeMap::new();
        let mut term = 0;
        for fence in &self.hub.fences {
            if fence.term < term {
                wrong.push(format!("the fence went from term {term} back to {}", fence.term));
            }
            term = fence.term;
            let session = *sessions.entry(fence.term).or_insert(&fence.session);
            if session != fence.session {
                wrong.push(format!("term {} belongs to {session} and to {}", fence.term, fence.session));
            }
        }
        let candidates: Vec<&String> =
            self.hub.fences.iter().filter_map(|fence| fence.candidate.as_ref()).collect();
        // The first move made the branch.
        let moved: Vec<&String> = self.hub.moves.iter().skip(1).map(|(_, new)| new).collect();
        if candidates != moved {
            wrong.push(format!("the target moved to {moved:?} and the fence says {candidates:?}"));
        }
        wrong
    }

    /// K7: what a move of the target published had passed the gate.
    pub fn tested(&self) -> Vec<String> {
        let moved = self.hub.moves.iter().skip(1).map(|(_, new)| new);
        let tree = |oid: &String| {
            self.hub.commits.iter().find(|commit| commit.oid == *oid).map(|commit| &commit.tree)
        };
        let untested = moved.filter(|oid| tree(oid).is_none_or(|tree| !self.gates.contains(tree)));
        untested.map(|oid| format!("{oid} is on the target and passed no gate")).collect()
    }

    /// K8: at no moment more agents than a cap allows, and no two with overlapping writes.
    pub fn caps(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for agent in &self.agents {
            // The most are alive at the start of one of them.
            let is_alive =
                |other: &&Agent| std::ptr::eq(*other, agent) || (other.from..other.to).contains(&agent.from);
            let alive: Vec<&Agent> = self.agents.iter().filter(is_alive).collect();
            let mut compare = |what: String, most: usize, at_once: Vec<&&Agent>| {
                if at_once.len() > most {
                    let shown: Vec<String> = at_once.iter().map(|agent| agent.shown()).collect();
                    wrong.push(format!("{what} allows {most} agents at once: {}", shown.join(", ")));
                }
            };
            for (group, most) in &self.caps.groups {
                compare(
                    format!("the group {group}"),
                    *most,
                    alive.iter().filter(|one| one.groups.contains(group)).collect(),
                );
            }
            if let Some(most) = self.caps.node {
                let here = alive.iter().filter(|one| one.node == agent.node).collect();
                compare(format!("the node {}", agent.node), most, here);
            }
            if let Some(most) = self.caps.total {
                compare("the total".into(), most, alive.iter().collect());
            }
        }
        for (n, one) in self.agents.iter().enumerate() {
            for other in self.agents[n + 1..].iter().filter(|other| other.task != one.task) {
                if one.overlaps(other) && one.writes_like(other) {
                    wrong.push(format!("overlapping writes at once: {} and {}", one.shown(), other.shown()));
                }
            }
        }
        wrong.sort();
        wrong.dedup();
        wrong
    }

    /// K9: every line that an agent reported is at the hub or in a lane of a live node.
    pub fn lost(&self) -> Vec<String> {
        let missing = self.written.iter().filter(|line| !self.found.contains(*line));
        missing.map(|line| format!("lost: the line {line}")).collect()
    }

    /// K10: every task ends as its dependencies allow, and no session that is gone holds one.
    pub fn ends(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        let states: BTreeMap<&str, &str> =
            self.tasks.iter().map(|task| (task.id.as_str(), task.state.as_str())).collect();
        for task in &self.tasks {
            let ran = matches!(
                task.state.as_str(),
                "done" | "landed" | "landing" | "running" | "judging" | "claimed"
            );
            for dep in &task.deps {
                let state = states.get(dep.as_str()).copied().unwrap_or("unknown");
                // A task that succeeded may be at work again, on a follow-up.
                let failed = matches!(state, "failed" | "cancelled" | "skipped" | "blocked" | "unknown");
                if ran && failed {
                    wrong.push(format!("{} is {}, and its dependency {dep} is {state}", task.id, task.state));
                }
            }
            if task.state == "skipped"
                && task.deps.iter().all(|dep| matches!(states.get(dep.as_str()), Some(&("done" | "landed"))))
            {
                wrong.push(format!("{} is skipped, and all its dependencies succeeded", task.id));
            }
            if let Some(session) = task.session.as_ref().filter(|session| !self.sessions.contains(*session)) {
                wrong.push(format!("{} is {} and held by {session}, which is gone", task.id, task.state));
            }
        }
        wrong
    }

    /// K11: events are numbered without gaps, and every reader saw the same.
    pub fn order(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for (n, (event, seq)) in self.events().iter().zip(1..).enumerate() {
            if event.seq != seq {
                wrong.push(format!("event {} comes as number {}", event.seq, n + 1));
                break;
            }
        }
        for (n, reader) in self.readers.iter().enumerate().skip(1) {
            let differs = reader.iter().zip(self.events()).find(|(mine, first)| mine != first);
            if let Some((mine, first)) = differs {
                wrong.push(format!("reader {n} saw event {} where event {} was", mine.seq, first.seq));
            } else if reader.len() > self.events().len() {
                wrong.push(format!("reader {n} saw events that are gone"));
            }
        }
        wrong
    }

    /// K12: every wanted notification came, and came again only after a process died that may have sent it.
    pub fn notified(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for what in &self.wanted {
            let times: Vec<u64> =
                self.told.iter().filter(|(told, _)| told == what).map(|(_, at)| *at).collect();
            if times.is_empty() {
                wrong.push(format!("{what} was never notified"));
            }
            for pair in times.windows(2) {
                if !self
                    .deaths
                    .iter()
                    .any(|death| (pair[0].saturating_sub(SENDING)..=pair[1]).contains(death))
                {
                    wrong.push(format!("{what} was notified at {} and again at {}", pair[0], pair[1]));
                }
            }
        }
        let unwanted = self.told.iter().filter(|(told, _)| !self.wanted.contains(told));
        wrong.extend(unwanted.map(|(told, _)| format!("{told} was notified, and did not happen")));
        wrong
    }
}

/// How long a notification may be under way, in milliseconds: its sender may die before it arrives.
const SENDING: u64 = 1000;

impl Agent {
    fn overlaps(&self, other: &Self) -> bool {
        self.from < other.to && other.from < self.to
    }

    fn writes_like(&self, other: &Self) -> bool {
        let parse = |paths: &[String]| -> Vec<WritePath> {
            paths.iter().map(|path| WritePath::parse(path).expect("a valid path")).collect()
        };
        let (ours, theirs) = (parse(&self.writes), parse(&other.writes));
        ours.iter().any(|path| theirs.iter().any(|other| path.overlaps(other)))
    }

    fn shown(&self) -> String {
        format!("{}.{} on {} from {} to {}", self.task, self.attempt, self.node, self.from, self.to)
    }
}

/// Whether a task is no longer claimed after this.
fn ends_claim(body: &EventBody) -> bool {
    matches!(
        body,
        EventBody::Retrying { .. }
            | EventBody::Released { .. }
            | EventBody::Parked { .. }
            | EventBody::Approved { .. }
            | EventBody::Done { .. }
            | EventBody::Failed { .. }
            | EventBody::Blocked { .. }
            | EventBody::Cancelled { .. }
            | EventBody::FollowingUp { .. }
            | EventBody::Stands { .. }
    )
}

/// Whether only the holder of a claim, or its agent, can cause this.
fn is_by_holder(body: &EventBody) -> bool {
    matches!(
        body,
        EventBody::LaneReady { .. }
            | EventBody::Started { .. }
            | EventBody::Exited { .. }
            | EventBody::Progressed { .. }
            | EventBody::Reported { .. }
            | EventBody::Stuck { .. }
            | EventBody::Judged { .. }
            | EventBody::Retrying { .. }
            | EventBody::Approved { .. }
            | EventBody::Done { .. }
    )
}

#[cfg(test)]
mod tests;
