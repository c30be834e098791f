use regatta_core::id::TaskId;
use regatta_core::oid::Oid;
use regatta_core::time::Timestamp;
use serde_json::json;

use super::*;

/// The event `seq` of attempt `n` of the task `a`.
fn event(seq: u64, n: u32, body: serde_json::Value) -> Event {
    Event {
        seq,
        at: Timestamp::from_millis(1),
        task: Some(TaskId::parse("a").unwrap()),
        attempt: Some(n),
        body: serde_json::from_value(body).unwrap(),
    }
}

fn claimed(seq: u64, n: u32) -> Event {
    event(seq, n, json!({"kind": "claimed", "node": format!("n{n}")}))
}

fn landed(seq: u64, n: u32, commit: &str) -> Event {
    let commit = Oid::sample(commit);
    event(seq, n, json!({"kind": "landing", "landing": {"kind": "landed", "commit": commit}}))
}

fn oid(name: &str) -> String {
    Oid::sample(name).to_string()
}

fn agent(task: &str, attempt: u32, from: u64, to: u64) -> Agent {
    Agent { task: task.into(), attempt, node: format!("n{attempt}"), from, to, ..Agent::default() }
}

fn call(what: &str, answer: Answer) -> Call {
    Call { what: what.into(), answer }
}

/// A task that was lost with its first node, and landed from a second one.
fn good() -> History {
    let log = vec![
        event(1, 0, json!({"kind": "enqueued", "queue": "main"})),
        claimed(2, 1),
        event(3, 1, json!({"kind": "started", "pid": 1})),
        event(4, 1, json!({"kind": "released", "why": "lost"})),
        claimed(5, 2),
        event(6, 2, json!({"kind": "started", "pid": 2})),
        event(7, 2, json!({"kind": "exited", "exit": {"kind": "exited", "code": 0}})),
        event(8, 2, json!({"kind": "approved", "head": Oid::sample("h")})),
        landed(9, 2, "c"),
    ];
    let fence = |term, candidate: Option<&str>| Fence {
        term,
        session: format!("s{term}"),
        candidate: candidate.map(oid),
    };
    History {
        readers: vec![log.clone(), log[..5].to_vec()],
        calls: vec![
            call("enqueue a", Answer::Ok),
            call("send b", Answer::Failed),
            call("send c", Answer::Unknown),
        ],
        stored: [("enqueue a".to_owned(), 1)].into(),
        agents: vec![
            Agent { groups: vec!["g".into()], writes: vec!["src/".into()], ..agent("a", 1, 0, 10) },
            Agent { groups: vec!["g".into()], writes: vec!["src/x".into()], ..agent("a", 2, 11, 20) },
        ],
        caps: Caps { groups: [("g".to_owned(), 1)].into(), node: Some(1), total: Some(1) },
        hub: Hub {
            moves: vec![("0".into(), oid("t")), (oid("t"), oid("c"))],
            fences: vec![fence(1, None), fence(2, None), fence(2, Some("c"))],
            commits: vec![
                Commit { oid: oid("c"), tree: "tree c".into(), of: Some(("a".into(), 2)) },
                Commit { oid: oid("t"), tree: "tree t".into(), of: None },
            ],
        },
        gates: ["tree c".to_owned()].into(),
        written: vec!["a.2.1".into()],
        found: ["a.2.1".to_owned()].into(),
        tasks: vec![
            Task { id: "a".into(), state: "landed".into(), fence: 2, ..Task::default() },
            Task { id: "b".into(), state: "done".into(), deps: vec!["a".into()], ..Task::default() },
        ],
        sessions: ["s2".to_owned()].into(),
        wanted: ["landed a".to_owned()].into(),
        told: vec![("landed a".into(), 100), ("landed a".into(), 200)],
        deaths: vec![150],
    }
}

/// Breaks a good history; exactly this check must find it.
#[track_caller]
fn breaks(check: &str, break_it: impl Fn(&mut History)) {
    let mut history = good();
    break_it(&mut history);
    let found = history.violations();
    assert!(!found.is_empty(), "nothing was found");
    assert!(found.iter().all(|wrong| wrong.starts_with(&format!("{check}: "))), "{found:#?}");
}

/// The log of all readers.
fn log(history: &mut History, change: impl Fn(&mut Vec<Event>)) {
    history.readers.truncate(1);
    change(&mut history.readers[0]);
    for (event, seq) in history.readers[0].iter_mut().zip(1..) {
        event.seq = seq;
    }
}

#[test]
fn a_good_history_is_good() {
    assert_eq!(good().violations(), [""; 0]);
}

#[test]
fn k1_a_claim_while_another_holds_the_task_is_found() {
    breaks("K1", |history| log(history, |log| drop(log.remove(3))));
    // The attempt before it comes again.
    let again = |log: &mut Vec<Event>| {
        log.truncate(4);
        log.push(claimed(5, 1));
    };
    breaks("K1", |history| {
        log(history, again);
        history.hub = Hub::default();
    });
    breaks("K1", |history| history.tasks[0].fence = 1);
}

#[test]
fn k2_two_agents_of_one_task_are_found() {
    breaks("K2", |history| {
        history.agents[0].to = 12;
        history.caps = Caps::default();
    });
}

#[test]
fn k3_a_write_of_a_replaced_holder_is_found() {
    breaks("K3", |history| {
        log(history, |log| log.insert(6, event(0, 1, json!({"kind": "progressed", "label": "still here"}))));
    });
}

fn is_there(history: &mut History, what: &str, times: usize) {
    history.stored.insert(what.into(), times);
}

#[test]
fn k4_lost_repeated_and_refused_writes_are_found() {
    breaks("K4", |history| history.stored.clear());
    breaks("K4", |history| is_there(history, "enqueue a", 2));
    breaks("K4", |history| is_there(history, "send b", 1));
    breaks("K4", |history| is_there(history, "send c", 2));
    breaks("K4", |history| is_there(history, "send d", 1));
}

#[test]
fn k5_a_landing_that_is_not_once_in_the_log_and_on_the_target_is_found() {
    // Twice on the target.
    breaks("K5", |history| {
        let twice = Commit { oid: oid("twice"), ..history.hub.commits[0].clone() };
        history.hub.commits.push(twice);
    });
    // Twice in the log.
    breaks("K5", |history| log(history, |log| log.push(landed(10, 2, "c"))));
    // Not in the log.
    breaks("K5", |history| log(history, |log| drop(log.pop())));
    // Not on the target.
    breaks("K5", |history| {
        log(history, |log| {
            log.pop();
            log.push(landed(9, 2, "elsewhere"));
        });
    });
}

#[test]
fn k6_a_target_or_a_fence_that_went_back_is_found() {
    breaks("K6", |history| history.hub.moves[1].0 = oid("older"));
    breaks("K6", |history| history.hub.fences[0].term = 3);
    breaks("K6", |history| history.hub.fences[1].session = "another".into());
    // A move without its fence.
    breaks("K6", |history| drop(history.hub.fences.pop()));
}

#[test]
fn k7_an_untested_commit_is_found() {
    breaks("K7", |history| history.gates.clear());
}

#[test]
fn k8_more_agents_than_a_cap_allows_are_found() {
    let beside = |history: &mut History| {
        history.agents.push(Agent { groups: vec!["g".into()], ..agent("b", 3, 5, 6) });
    };
    breaks("K8", |history| {
        beside(history);
        history.caps = Caps { groups: [("g".to_owned(), 1)].into(), ..Caps::default() };
    });
    breaks("K8", |history| {
        beside(history);
        history.caps = Caps { total: Some(1), ..Caps::default() };
    });
    breaks("K8", |history| {
        beside(history);
        history.agents[2].node = "n1".into();
        history.caps = Caps { node: Some(1), ..Caps::default() };
    });
    breaks("K8", |history| {
        beside(history);
        history.agents[2].writes = vec!["src/y".into()];
        history.caps = Caps::default();
    });
}

#[test]
fn k9_a_lost_line_is_found() {
    breaks("K9", |history| history.found.clear());
}

#[test]
fn k10_an_end_that_cannot_be_is_found() {
    breaks("K10", |history| history.tasks[0].state = "failed".into());
    breaks("K10", |history| history.tasks[1].state = "skipped".into());
    breaks("K10", |history| history.tasks[1].session = Some("gone".into()));
}

#[test]
fn k11_gaps_and_readers_that_differ_are_found() {
    breaks("K11", |history| {
        for reader in &mut history.readers {
            reader.iter_mut().for_each(|event| event.seq += u64::from(event.seq > 1));
        }
    });
    breaks("K11", |history| history.readers[1].swap(3, 4));
    breaks("K11", |history| {
        let mut more = history.readers[0].clone();
        more.push(event(10, 2, json!({"kind": "noted", "text": "lost"})));
        history.readers.push(more);
    });
}

#[test]
fn k12_a_missing_a_repeated_and_an_unwanted_notification_are_found() {
    breaks("K12", |history| history.told.clear());
    breaks("K12", |history| history.deaths.clear());
    breaks("K12", |history| history.told.push(("landed z".into(), 300)));
}
