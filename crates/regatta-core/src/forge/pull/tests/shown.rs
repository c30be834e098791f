//! Pull requests in one line.

use super::*;

fn shown(change: impl FnOnce(&mut PullFacts), next: &Next) -> String {
    let mut facts = ready();
    facts.checks = vec![
        check("test", CheckState::Passed, true),
        check("lint", CheckState::Running, true),
        check("doc", CheckState::Passed, true),
    ];
    change(&mut facts);
    format!("{}: {}", column(next).title(), line(&facts, next))
}

#[test]
fn a_line_says_what_is_awaited_and_from_whom() {
    let wait = |on: WaitFor| Next::Wait { on };
    let lines = [
        shown(|_| {}, &wait(WaitFor::Review { by: vec!["ann".into(), "acme/backend".into()] })),
        shown(|_| {}, &wait(WaitFor::Review { by: Vec::new() })),
        shown(|_| {}, &wait(WaitFor::Checks { passed: 2, of: 3 })),
        shown(|facts| facts.checks.clear(), &wait(WaitFor::FirstCheck { until: PUSHED })),
        shown(|_| {}, &wait(WaitFor::MissingChecks { names: vec!["e2e".into()], overdue: true })),
        shown(
            |_| {},
            &wait(WaitFor::Attention {
                check: "test".into(),
                why: CheckState::ActionRequired.trouble().unwrap().into(),
            }),
        ),
        shown(
            |facts| facts.checks[0].state = CheckState::Failed,
            &wait(WaitFor::FailedChecks { names: vec!["test".into()] }),
        ),
        shown(|_| {}, &wait(WaitFor::ConflictStands)),
        shown(|_| {}, &wait(WaitFor::Changes { by: vec!["bob".into()] })),
        shown(|_| {}, &wait(WaitFor::Queue { position: Some(2) })),
        shown(|_| {}, &wait(WaitFor::Person)),
        shown(|_| {}, &Next::UpdateBranch),
        shown(|facts| facts.state = PullState::Merged { commit: None }, &Next::Landed { commit: None }),
        shown(|facts| facts.state = PullState::Closed, &Next::Declined),
        shown(|_| {}, &Next::Retargeted { base: "x\u{1b}[31m\u{202e}y".into() }),
    ];
    insta::assert_snapshot!(lines.join("\n"), @"
    In review: #12 checks 2/3 · review wanted: ann, acme/backend
    In review: #12 checks 2/3 · review wanted
    In review: #12 checks 2/3
    In review: #12 no checks yet
    Needs you: #12 checks 2/3 · not reported: e2e
    Needs you: #12 checks 2/3 · test waits until a person lets it run
    Needs you: #12 checks 1/3, 1 failed · failed: test
    Needs you: #12 checks 2/3 · conflicts with main
    In review: #12 checks 2/3 · changes requested by bob
    Ready to merge: #12 checks 2/3 · place 2 in the queue
    Ready to merge: #12 checks 2/3 · ready to merge
    Ready to merge: #12 checks 2/3 · behind main
    Working: #12 merged
    Needs you: #12 closed
    Needs you: #12 checks 2/3 · its base is now xy
    ");
}
