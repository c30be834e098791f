//! A task's way through the train, phase by phase, derived from its events.

use serde::Serialize;

use super::LandStep;
use crate::event::{Event, EventBody};
use crate::time::{Timestamp, counted};

/// One phase of a landing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Phase {
    /// `queued`, `gate`, `waiting`, `moving`, `proposing`, `proposed`, `merging`, or the end: `landed`, `already-in`, `bounced`, `blocked`, `cancelled`.
    pub phase: &'static str,
    /// The attempt that made the work.
    pub attempt: Option<u32>,
    /// When it began.
    pub at: Timestamp,
    /// How long it took; for an end, since the work was approved. `None` while the phase lasts.
    pub millis: Option<u64>,
    /// `passed`, `flaky`, `failed`, a commit, or a reason.
    pub outcome: String,
    /// A description in words.
    pub detail: String,
}

/// The phases in a task's events, in order.
pub fn history(events: &[Event]) -> Vec<Phase> {
    let mut phases: Vec<Phase> = Vec::new();
    // The open phase: it ends where the next one begins.
    let mut open: Option<usize> = None;
    let mut approved: Option<Timestamp> = None;
    for event in events {
        let begin = |phase: &'static str, outcome: String, detail: String| Phase {
            phase,
            attempt: event.attempt,
            at: event.at,
            millis: None,
            outcome,
            detail,
        };
        let mut close = |phases: &mut Vec<Phase>| {
            if let Some(at) = open.take() {
                let phase: &mut Phase = &mut phases[at];
                phase.millis = Some(between(phase.at, event.at));
            }
        };
        match &event.body {
            EventBody::Approved { head } => {
                close(&mut phases);
                approved = Some(event.at);
                phases.push(begin("queued", String::new(), format!("work {}", head.short())));
                open = Some(phases.len() - 1);
            }
            EventBody::Landing { landing, .. } => match landing {
                LandStep::Intend { .. } => close(&mut phases),
                LandStep::Tested { candidate, cars, outcome, millis, note } => {
                    close(&mut phases);
                    let others = cars.len().saturating_sub(1);
                    let with = if others > 0 {
                        format!(" with {}", counted(others, "other"))
                    } else {
                        String::new()
                    };
                    let detail = format!("{}{with}: {note}", candidate.short());
                    let mut phase = begin("gate", outcome.as_str().to_owned(), detail);
                    phase.at =
                        Timestamp::from_millis(event.at.millis() - i64::try_from(*millis).unwrap_or(0));
                    phase.millis = Some(*millis);
                    phases.push(phase);
                }
                LandStep::Wait { why, .. } => {
                    close(&mut phases);
                    phases.push(begin("waiting", String::new(), why.clone()));
                    open = Some(phases.len() - 1);
                }
                LandStep::Gate { candidate, note } => {
                    close(&mut phases);
                    phases.push(begin("moving", candidate.short().to_owned(), note.clone()));
                    open = Some(phases.len() - 1);
                }
                LandStep::Propose { head, branch } => {
                    close(&mut phases);
                    phases.push(begin("proposing", head.short().to_owned(), format!("pushes {branch}")));
                    open = Some(phases.len() - 1);
                }
                LandStep::Proposed { number, url, .. } => {
                    close(&mut phases);
                    phases.push(begin("proposed", format!("#{number}"), url.clone()));
                    open = Some(phases.len() - 1);
                }
                LandStep::Merge { head, method } => {
                    close(&mut phases);
                    let detail = format!("{} by {}", head.short(), method.as_str());
                    phases.push(begin("merging", head.short().to_owned(), detail));
                    open = Some(phases.len() - 1);
                }
                LandStep::Merged { commit, number, tested } => {
                    close(&mut phases);
                    let detail = format!("#{number}, {}", merged_how(*tested));
                    phases.push(end("landed", event, approved.take(), commit.short().to_owned(), detail));
                }
                LandStep::Landed { commit } => {
                    close(&mut phases);
                    phases.push(end(
                        "landed",
                        event,
                        approved.take(),
                        commit.short().to_owned(),
                        String::new(),
                    ));
                }
                LandStep::AlreadyIn { commit } => {
                    close(&mut phases);
                    phases.push(end(
                        "already-in",
                        event,
                        approved.take(),
                        commit.short().to_owned(),
                        String::new(),
                    ));
                }
                LandStep::Bounce { detail, .. } => {
                    close(&mut phases);
                    phases.push(end(
                        "bounced",
                        event,
                        approved.take(),
                        "conflict".to_owned(),
                        detail.clone(),
                    ));
                }
                LandStep::Reject { reason, detail, .. } => {
                    close(&mut phases);
                    phases.push(end("blocked", event, approved.take(), reason.to_string(), detail.clone()));
                }
            },
            EventBody::Cancelled { by } if approved.is_some() => {
                close(&mut phases);
                phases.push(end("cancelled", event, approved.take(), format!("by {by}"), String::new()));
            }
            _ => {}
        }
    }
    phases
}

/// What is known about the tree that a pull request brought to the target.
pub fn merged_how(tested: bool) -> &'static str {
    if tested { "tested here" } else { "merged untested here" }
}

fn end(
    phase: &'static str,
    event: &Event,
    approved: Option<Timestamp>,
    outcome: String,
    detail: String,
) -> Phase {
    let millis = approved.map(|since| between(since, event.at));
    Phase { phase, attempt: event.attempt, at: event.at, millis, outcome, detail }
}

fn between(from: Timestamp, to: Timestamp) -> u64 {
    u64::try_from(to.since(from).as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oid::Oid;
    use crate::train::{GateOutcome, HeldBy, Intent};

    #[test]
    fn every_phase_has_its_time_and_its_outcome() {
        let mut seq = 0;
        let mut event = |millis: i64, body: EventBody| {
            seq += 1;
            Event { seq, at: Timestamp::from_millis(millis), task: None, attempt: Some(1), body }
        };
        let mut landing = |millis, landing| event(millis, EventBody::Landing { landing, target: None });
        let intent = Intent { onto: Some(Oid::sample("m")), at: Timestamp::from_millis(0) };
        let tested = |outcome, millis| LandStep::Tested {
            candidate: Oid::sample("c"),
            cars: Vec::new(),
            outcome,
            millis,
            note: "ok".into(),
        };
        let steps = [
            landing(1_500, LandStep::Intend { intent: intent.clone() }),
            landing(3_500, tested(GateOutcome::Flaky, 2_000)),
            landing(3_600, LandStep::Wait { why: "dirty".into(), held_by: HeldBy::Changes }),
            landing(5_600, LandStep::Intend { intent }),
            landing(5_600, LandStep::Gate { candidate: Oid::sample("c"), note: "ok".into() }),
            landing(5_650, LandStep::Landed { commit: Oid::sample("c") }),
        ];
        let mut events = vec![event(1_000, EventBody::Approved { head: Oid::sample("h") })];
        events.extend(steps);
        let told: Vec<(&str, Option<u64>, String)> =
            history(&events).into_iter().map(|phase| (phase.phase, phase.millis, phase.outcome)).collect();
        let expected = [
            ("queued", Some(500), ""),
            ("gate", Some(2_000), "flaky"),
            ("waiting", Some(2_000), ""),
            ("moving", Some(50), "630000000000"),
            ("landed", Some(4_650), "630000000000"),
        ];
        assert_eq!(told, expected.map(|(phase, millis, outcome)| (phase, millis, outcome.to_owned())));
    }
}
