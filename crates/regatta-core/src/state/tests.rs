use proptest::prelude::*;

use super::*;

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn any_change() -> impl Strategy<Value = Change> {
    prop_oneof![
        (1u32..5).prop_map(|attempt| Change::Claim { attempt }),
        Just(Change::Start { at: at(1) }),
        Just(Change::Exit { exit: Exit::Exited { code: 0 } }),
        Just(Change::Exit { exit: Exit::Lost }),
        prop_oneof![Just(None), Just(Some(at(9)))].prop_map(|not_before| Change::Retry { not_before }),
        Just(Change::Release),
        Just(Change::Approve { head: Oid::sample("h") }),
        Just(Change::Finish { head: None }),
        Just(Change::Fail { why: "w".into() }),
        Just(Change::Park { until: at(9), why: ParkReason::RateLimited, detail: String::new() }),
        Just(Change::Block { reason: BlockReason::Conflict, detail: String::new() }),
        Just(Change::Due),
        Just(Change::Wait { why: "dirty".into(), held_by: HeldBy::Changes }),
        Just(Change::Proceed),
        Just(Change::Land { commit: Oid::sample("c"), target: None }),
        Just(Change::Skip { dependency: TaskId::parse("d").unwrap(), was: Some(StateName::Failed) }),
        Just(Change::Rearm),
        Just(Change::Cancel { by: "me".into() }),
        Just(Change::Requeue),
        Just(Change::FollowUp),
        Just(Change::Stand { attempt: 1, commit: Oid::sample("c"), target: None }),
    ]
}

#[test]
fn the_ordinary_way_leads_from_pending_to_landed() {
    let steps = [
        Change::Claim { attempt: 1 },
        Change::Start { at: at(5) },
        Change::Exit { exit: Exit::Exited { code: 0 } },
        Change::Approve { head: Oid::sample("h") },
        Change::Wait { why: "your checkout has changes in a.txt".into(), held_by: HeldBy::Changes },
        Change::Land { commit: Oid::sample("c"), target: None },
    ];
    let mut state = TaskState::pending();
    for step in &steps {
        state = apply(&state, step).unwrap();
    }
    assert_eq!(state, TaskState::Landed { attempt: 1, commit: Oid::sample("c"), target: None });
}

#[test]
fn a_refusal_names_the_state_and_what_was_tried() {
    let landed = TaskState::Landed { attempt: 1, commit: Oid::sample("c"), target: None };
    let refused = apply(&landed, &Change::Cancel { by: "me".into() }).unwrap_err();
    assert_eq!(refused.to_string(), "a landed task cannot be cancelled");
    let held = TaskState::Pending { not_before: Some(at(5)) };
    let refused = apply(&held, &Change::Claim { attempt: 2 }).unwrap_err();
    assert_eq!(refused.to_string(), "a pending task cannot be claimed");
}

#[test]
fn states_survive_json_and_carry_their_name() {
    let state = TaskState::Blocked { reason: BlockReason::NeedsInput, detail: "which port?".into() };
    let json = serde_json::to_value(&state).unwrap();
    assert_eq!(json["state"], "blocked");
    assert_eq!(json["reason"], "needs-input");
    assert_eq!(serde_json::from_value::<TaskState>(json).unwrap(), state);
}

proptest! {
    #[test]
    fn whatever_happens_the_rules_of_a_tasks_life_hold(changes in proptest::collection::vec(any_change(), 0..60)) {
        let mut state = TaskState::pending();
        for change in &changes {
            let Ok(next) = apply(&state, change) else { continue };
            // A met or dead state is left only by an explicit request.
            if state.is_met() {
                prop_assert!(
                    matches!(change, Change::Requeue | Change::FollowUp),
                    "{state:?} left by {change:?}"
                );
            }
            if state.is_dead() {
                prop_assert!(
                    matches!(
                        change,
                        Change::Requeue | Change::FollowUp | Change::Rearm | Change::Cancel { .. }
                    ),
                    "{state:?} left by {change:?}"
                );
            }
            // Only the train lands; an earlier landing can become valid again after a follow-up.
            if matches!(next, TaskState::Landed { .. }) && !matches!(change, Change::Stand { .. }) {
                prop_assert!(matches!(state, TaskState::Landing { .. }), "landed from elsewhere");
            }
            // Nothing joins the train without a judgement.
            if matches!(next, TaskState::Landing { .. }) {
                prop_assert!(
                    matches!(state, TaskState::Judging { .. } | TaskState::Landing { .. }),
                    "joined the train unjudged"
                );
            }
            prop_assert!(StateName::ALL.contains(&next.kind()));
            state = next;
        }
    }
}
