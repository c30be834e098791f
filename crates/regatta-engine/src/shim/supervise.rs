//! **The tree is empty when the kernel says that nothing is left to wait for.** As sub-reaper the shim is an ancestor
//! of everything its agent ever started, even if it forked, detached or changed its session; so `ECHILD` is the proof,
//! and no list can be.
//!
//! The ladder: list all processes, SIGINT to the agent's group (agents clean up their tools on SIGINT, not on SIGTERM),
//! grace, then SIGSTOP and SIGKILL to all until the proof is there.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use regatta_core::exit::{Exit, Limit};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process_group, wait};

use super::args::Args;
use super::door::{Door, LAST_REQUESTS};
use super::signals::Signals;
use super::workers::Workers;
use crate::confine::start::Watch;
use crate::lease::Leased;
use crate::process::StopRequest;
use crate::process::identity::Stat;
use crate::process::record;
use crate::process::tree::{self, Member, Sent};

/// How long to wait for processes that we may not signal.
const FORBIDDEN_PATIENCE: Duration = Duration::from_secs(2);
/// How long the processes of a sandbox may take to end after its program.
const SANDBOX_END: Duration = Duration::from_millis(10);

/// The longest gentle end of a tree whose lease is over.
const LEASE_GRACE: Duration = Duration::from_secs(2);

/// How the tree ended.
pub(super) struct Ending {
    pub(super) exit: Exit,
    pub(super) agent: Option<Exit>,
    pub(super) leftovers: usize,
    pub(super) spared: usize,
}

impl Ending {
    pub(super) fn without_agent(exit: Exit) -> Self {
        Self { exit, agent: None, leftovers: 0, spared: 0 }
    }
}

/// The agent and everything below it.
pub(super) struct Tree<'a> {
    signals: &'a Signals,
    run_id: &'a str,
    agent: u32,
    /// The agent's exit, once it was reaped or, if it is confined, reported.
    status: Option<Exit>,
    confined: Option<Inside>,
    killed: HashSet<Member>,
    spared: usize,
    /// The processes that answer its requests: below us, and no part of it.
    workers: Arc<Workers>,
    /// Its way to the store.
    pub(super) door: Option<Door>,
}

/// A tree inside a pid namespace: the recorded agent is the process that started the namespace.
pub(super) struct Inside {
    /// Reports the program's end.
    pub(super) watch: Watch,
    /// The first process of the namespace, and the program. Like the agent they do not count as left over.
    pub(super) own: Vec<u32>,
    /// No other program can have been asked to start a process for it: none can be outside of the namespace.
    pub(super) is_sealed: bool,
}

/// What the kernel says about the processes below us.
enum Left {
    Nobody,
    /// Some of the tree.
    Some,
    /// Workers, and perhaps some of the tree.
    Unsure,
}

/// Watches the agent to its end, ends it when asked or when its time is over, and then ends what it left.
pub(super) fn until_ended(args: &Args, tree: &mut Tree<'_>) -> Ending {
    let reason = watch(args, tree);
    let (exit, grace) = match reason {
        None => (None, None),
        Some((exit, grace)) => (Some(exit), grace),
    };
    let known = if exit.is_some() { tree.everybody() } else { Vec::new() };
    if let Some(grace) = grace {
        tree.interrupt(grace);
    } else if exit.is_none() {
        tree.hear_out();
        tree.let_sandbox_end();
    }
    tree.kill_with(known);
    let agent = tree.status.take();
    let leftovers = tree.killed.iter().filter(|member| !tree.is_own(member.pid)).count();
    // An agent that was never reaped is one that we may not signal: it lives, and how it ends is unknown.
    let exit = exit.or_else(|| agent.clone()).unwrap_or(Exit::Lost);
    Ending { exit, agent, leftovers, spared: tree.spared }
}

/// Sleeps until the agent has ended by itself (`None`) or is to be ended: why, and the time for a gentle end.
fn watch(args: &Args, tree: &mut Tree<'_>) -> Option<(Exit, Option<Duration>)> {
    let lease = Leased::of(&args.run_dir);
    let deadline = args.limit.and_then(|limit| Instant::now().checked_add(limit));
    // Its end may have been signalled while the shim waited for its start.
    tree.reap_ended();
    if tree.status.is_some() {
        return None;
    }
    loop {
        let mut left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
        if let Some(lease) = &lease {
            let Some(until_look) = lease.left() else {
                return Some((lease_over(), Some(args.grace.min(LEASE_GRACE))));
            };
            left = Some(left.map_or(until_look, |left| left.min(until_look)));
        }
        let requests =
            tree.signals.wait_also(left, tree.confined.as_ref().and_then(|inside| inside.watch.fd()));
        // An agent that ended before its end was requested has ended by itself.
        tree.reap_ended();
        if tree.status.is_some() {
            return None;
        }
        if requests.any() {
            return Some((requested(&args.run_dir), (!requests.urgent()).then_some(args.grace)));
        }
        if deadline.is_some_and(|at| at <= Instant::now()) {
            return Some((Exit::TimedOut { limit: Limit::Total }, Some(args.grace)));
        }
    }
}

/// The end of a tree whose engine could not renew its session in time: another machine may start its task.
pub(super) fn lease_over() -> Exit {
    Exit::Stopped { why: "the lease of its engine ran out".into() }
}

/// The reason that the engine left for its signal.
pub(super) fn requested(run_dir: &Path) -> Exit {
    match record::load::<StopRequest>(run_dir, record::STOP) {
        Ok(Some(request)) => request.into(),
        // The machine is shutting down, or a user ran `kill`.
        Ok(None) => Exit::Stopped { why: "a signal to the shim from outside Regatta".into() },
        Err(error) => Exit::Stopped { why: format!("the reason cannot be read: {error}") },
    }
}

impl<'a> Tree<'a> {
    pub(super) fn new(signals: &'a Signals, agent: u32, run_id: &'a str, workers: Arc<Workers>) -> Self {
        let (status, confined, killed, spared) = (None, None, HashSet::new(), 0);
        Self { signals, run_id, agent, status, confined, killed, spared, workers, door: None }
    }

    /// The program runs in a pid namespace of its own.
    pub(super) fn is_inside(&mut self, inside: Inside) {
        self.confined = Some(inside);
    }

    fn is_own(&self, pid: u32) -> bool {
        pid == self.agent || self.confined.as_ref().is_some_and(|inside| inside.own.contains(&pid))
    }

    /// Takes note of the program's end as it was reported from inside.
    fn read_report(&mut self) {
        if self.status.is_none()
            && let Some(status) = self.confined.as_mut().and_then(|inside| inside.watch.ended())
        {
            self.status = Some(told_raw(status));
        }
    }

    /// Reaps every process that has ended. False once nothing is left below us, alive or dead, or nothing but workers.
    fn reap(&mut self) -> bool {
        match self.reap_ended() {
            Left::Nobody => false,
            Left::Some => true,
            // With workers there is no proof yet, only a list; the proof follows when they have ended.
            Left::Unsure => !self.below().is_empty(),
        }
    }

    /// Reaps every process that has ended, without looking for others: reading `/proc` while they end is expensive.
    fn reap_ended(&mut self) -> Left {
        self.read_report();
        let workers = self.workers.clone();
        let mut workers = workers.hold();
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => {
                    let pid = pid.as_raw_nonzero().get().unsigned_abs();
                    if pid == self.agent {
                        // What it reported last, if it is confined; its own end otherwise.
                        self.read_report();
                        self.status.get_or_insert_with(|| told(status));
                    } else {
                        workers.reaped(pid);
                    }
                }
                Ok(None) if workers.is_empty() => return Left::Some,
                Ok(None) => return Left::Unsure,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return Left::Nobody,
            }
        }
    }

    /// Every live process of the tree that is below us.
    fn below(&self) -> Vec<Member> {
        tree::descendants_but(std::process::id(), self.workers.hold().pids())
    }

    fn everybody(&self) -> Vec<Member> {
        let mut everybody = self.below();
        everybody.extend(self.elsewhere());
        everybody
    }

    /// Processes that carry the marker, wherever they are: jobs given to `at` or to a service manager are not below us.
    fn elsewhere(&self) -> Vec<Member> {
        let is_sealed = self.confined.as_ref().is_some_and(|inside| inside.is_sealed);
        if is_sealed { Vec::new() } else { tree::marked(self.run_id) }
    }

    /// Before what the agent left is ended: requests that are under way are answered.
    fn hear_out(&mut self) {
        let begun = Instant::now();
        if let Some(door) = &self.door {
            door.ring();
        }
        while let Some(door) = &self.door
            && begun.elapsed() < LAST_REQUESTS
        {
            let is_reading = door.is_reading();
            let (all, long) = self.workers.count();
            if !is_reading && all == long {
                return;
            }
            // A worker's end wakes us; a client that goes away does not.
            if self.signals.wait(Some(Duration::from_millis(20))).any() {
                return;
            }
            self.reap_ended();
        }
    }

    /// A program that leaves nothing behind is followed by the processes of its sandbox at once: waiting for them is
    /// cheaper than looking for processes to end.
    fn let_sandbox_end(&mut self) {
        let begun = Instant::now();
        while self.confined.is_some() && self.reap() {
            let left = SANDBOX_END.saturating_sub(begun.elapsed());
            if left.is_zero() || self.signals.wait(Some(left)).any() {
                return;
            }
        }
    }

    /// Closes the door when the tree has ended: no request can come any more, and those that came are carried out.
    fn close_door(&mut self) {
        let Some(mut door) = self.door.take() else { return };
        door.close();
        let begun = Instant::now();
        loop {
            self.reap_ended();
            if self.workers.hold().is_empty() {
                break;
            }
            if begun.elapsed() >= LAST_REQUESTS {
                self.workers.kill();
            }
            let left = LAST_REQUESTS.saturating_sub(begun.elapsed());
            self.signals.wait(Some(left.clamp(Duration::from_millis(1), Duration::from_millis(100))));
        }
        door.end();
    }

    /// The gentle step: returns when the tree is empty, the grace is over, or the end is requested again.
    fn interrupt(&mut self, grace: Duration) {
        // Until it is reaped, the agent's pid, and so the group's, belongs to no other process.
        if self.status.is_none()
            && let Some(group) = i32::try_from(self.agent).ok().and_then(Pid::from_raw)
        {
            let _ = kill_process_group(group, Signal::INT);
        }
        let started = Instant::now();
        while self.reap() {
            let left = grace.saturating_sub(started.elapsed());
            if left.is_zero() || self.signals.wait(Some(left)).any() {
                return;
            }
        }
    }

    /// The hard step, for all processes.
    pub(super) fn kill(&mut self) {
        self.kill_with(Vec::new());
    }

    /// The hard step, also for processes seen before the gentle one.
    fn kill_with(&mut self, known: Vec<Member>) {
        self.end_tree(known);
        if self.door.is_some() {
            self.close_door();
            // Without workers the kernel says whether anything is left.
            if self.reap() {
                self.end_tree(Vec::new());
            }
        }
    }

    fn end_tree(&mut self, known: Vec<Member>) {
        let mut victims: HashSet<Member> = known.into_iter().collect();
        let mut pause = Duration::from_millis(1);
        let mut only_forbidden_since = None;
        loop {
            let some_below = self.reap();
            if !some_below {
                victims.extend(self.elsewhere());
            }
            victims.extend(self.below());
            let forbidden = self.strike(&mut victims);
            if !some_below && victims.is_empty() {
                return;
            }
            if forbidden > 0 && forbidden == victims.len() {
                let since = *only_forbidden_since.get_or_insert_with(Instant::now);
                if since.elapsed() >= FORBIDDEN_PATIENCE {
                    self.spared = forbidden;
                    return;
                }
            } else {
                only_forbidden_since = None;
            }
            // A child's end wakes us; the timer is for processes that are not our children yet, and it slows down for
            // one that hangs in the kernel. Requests for the end are already being carried out.
            self.signals.wait(Some(pause));
            pause = (pause * 2).min(Duration::from_millis(250));
        }
    }

    /// Stops all, so that none forks between two signals, then kills. Drops ended processes from the list, and returns
    /// how many cannot be signalled at all.
    fn strike(&mut self, victims: &mut HashSet<Member>) -> usize {
        // Each round catches processes forked before their parent stopped. The bound is for one that we may not signal
        // and that keeps forking.
        for _ in 0..16 {
            for member in victims.iter() {
                member.signal(Signal::STOP);
            }
            let before = victims.len();
            victims.extend(self.below());
            if victims.len() == before {
                break;
            }
        }
        // The processes around a confined program come last: their end is the end of all below, which then cannot be
        // counted any more.
        let mut order: Vec<Member> = victims.iter().copied().collect();
        order.sort_by_key(|member| self.is_own(member.pid));
        let mut forbidden = 0;
        for member in order {
            match member.signal(Signal::KILL) {
                Sent::Gone => _ = victims.remove(&member),
                Sent::Delivered => _ = self.killed.insert(member),
                Sent::Forbidden => forbidden += 1,
            }
        }
        forbidden
    }
}

fn told(status: WaitStatus) -> Exit {
    told_raw(status.as_raw())
}

fn told_raw(status: i32) -> Exit {
    if libc::WIFSIGNALED(status) {
        return Exit::Signalled { signal: libc::WTERMSIG(status) };
    }
    Exit::Exited { code: if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { -1 } }
}

/// Processor time of all processes reaped below us.
pub(super) fn cpu_seconds() -> f64 {
    let ticks = Stat::load(std::process::id()).map_or(0, |stat| stat.reaped_ticks);
    ticks as f64 / rustix::param::clock_ticks_per_second() as f64
}
