//! Named places at which a test can make this process die as by `kill -9`: no destructor runs.
//!
//! `REGATTA_FAILPOINT=name` dies the first time the place is reached, `name:3` the third time. `panic@name` panics
//! there instead, which ends only the worker that reaches it. `REGATTA_PAUSEPOINT=name:PATH` pauses there instead: it
//! writes a line into the pipe `PATH.arrive` and reads one from `PATH.leave`, each time the place is reached. Debug
//! builds only.

use std::sync::atomic::{AtomicU32, Ordering};

/// The places on the way of a pull request; [`ALL`] has the others.
pub const PULLS: &[&str] = &[
    "pr-intended",
    "pr-pushed",
    "pr-opened",
    "pr-recorded",
    "fed",
    "merge-intended",
    "merged-there",
    "merge-fetched",
    "branch-deleted",
    "commented",
];

/// All places, so that a harness can try each.
pub const ALL: &[&str] = &[
    "enqueued",
    "claimed",
    "lane-registered",
    "lane-made",
    "shim-started",
    "started",
    "exited",
    "salvaged",
    "committed",
    "checked",
    "kept",
    "settled",
    "intended",
    "tested",
    "gated",
    "pushed",
    "checkout-locked",
    "checkout-behind",
    "index-moved",
    "files-moved",
    "ref-moved",
    "landed",
    "lane-saved",
    "lane-set-aside",
    "lane-retired",
    "pool-entered",
    "pool-left",
    "pool-reset",
];

/// Places that only a chain reaches.
pub const IN_CHAINS: &[&str] = &["chain-decided", "chain-acted"];

/// Places where a test only pauses.
const PAUSES: &[&str] = &["boxes-listed"];

static REACHED: AtomicU32 = AtomicU32::new(0);

/// Dies here if a test asked for it.
pub fn reach(name: &str) {
    let is_listed = [ALL, IN_CHAINS, PULLS, PAUSES].iter().any(|places| places.contains(&name));
    debug_assert!(is_listed, "failpoint {name} is not listed");
    if !cfg!(debug_assertions) {
        return;
    }
    pause(name);
    let Ok(wanted) = std::env::var("REGATTA_FAILPOINT") else { return };
    let (is_defect, wanted) = match wanted.strip_prefix("panic@") {
        Some(wanted) => (true, wanted.to_owned()),
        None => (false, wanted),
    };
    let (wanted, times) = match wanted.split_once(':') {
        Some((wanted, times)) => (wanted.to_owned(), times.parse().unwrap_or(1)),
        None => (wanted, 1),
    };
    if wanted == name && REACHED.fetch_add(1, Ordering::SeqCst) + 1 == times {
        assert!(!is_defect, "a test wanted this defect");
        let me = rustix::process::getpid();
        let _ = rustix::process::kill_process(me, rustix::process::Signal::KILL);
        // The signal is on its way; nothing more may happen.
        loop {
            std::thread::park();
        }
    }
}

fn pause(name: &str) {
    let Ok(wanted) = std::env::var("REGATTA_PAUSEPOINT") else { return };
    let Some(path) = wanted.strip_prefix(name).and_then(|rest| rest.strip_prefix(':')) else { return };
    let _ = std::fs::write(format!("{path}.arrive"), "here\n");
    let _ = std::fs::read(format!("{path}.leave"));
}
