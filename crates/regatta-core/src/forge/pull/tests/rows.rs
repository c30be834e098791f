//! Every rule as a row.

use super::*;

/// A row: what differs from a pull request that is ready, and what follows.
struct Row {
    what: &'static str,
    facts: PullFacts,
    policy: Policy,
    seconds: u64,
    heard: Vec<String>,
    next: Next,
}

fn row(what: &'static str, change: impl FnOnce(&mut PullFacts, &mut Policy), next: Next) -> Row {
    let (mut facts, mut policy) = (ready(), policy());
    change(&mut facts, &mut policy);
    Row { what, facts, policy, seconds: 60, heard: Vec::new(), next }
}

impl Row {
    fn after(mut self, seconds: u64) -> Self {
        self.seconds = seconds;
        self
    }

    fn heard(mut self, key: &str) -> Self {
        self.heard.push(key.to_owned());
        self
    }
}

fn wait(on: WaitFor) -> Next {
    Next::Wait { on }
}

fn head() -> Oid {
    Oid::sample("head")
}

fn ci_key() -> String {
    let mut facts = ready();
    facts.checks = vec![check("test", CheckState::Failed, true)];
    match next_at(&facts, &policy(), 60, &[]) {
        Next::CiFailed { key, .. } => key,
        other => panic!("{other:?}"),
    }
}

/// A queue that the pull request left after `seconds`.
fn left_queue(seconds: u64) -> Queue {
    let removed = Removed { id: id("E_1"), reason: "failed_checks".into(), at: after(seconds) };
    Queue::Outside { removed: Some(removed) }
}

fn failed(name: &str) -> Check {
    check(name, CheckState::Failed, true)
}

fn attention(state: CheckState) -> Next {
    wait(WaitFor::Attention { check: "test".into(), why: state.trouble().unwrap().into() })
}

fn ends() -> Vec<Row> {
    vec![
        row("ready", |_, _| {}, Next::Merge { method: Strategy::Rebase }),
        row(
            "merged, whatever else",
            |facts, _| {
                facts.state = PullState::Merged { commit: Some(Oid::sample("merge")) };
                facts.base = "other".into();
                facts.checks.clear();
            },
            Next::Landed { commit: Some(Oid::sample("merge")) },
        ),
        row("closed is not merged", |facts, _| facts.state = PullState::Closed, Next::Declined),
        row(
            "another base",
            |facts, _| facts.base = "release".into(),
            Next::Retargeted { base: "release".into() },
        ),
        row(
            "another head",
            |facts, _| facts.head.commit = Oid::sample("theirs"),
            Next::HeadMoved { to: Oid::sample("theirs") },
        ),
        row("a person's draft", |facts, _| facts.draft = true, wait(WaitFor::Draft)),
        row(
            "our own draft has its checks looked at",
            |facts, policy| {
                (facts.draft, policy.draft) = (true, true);
                facts.checks = vec![check("test", CheckState::Running, true)];
            },
            wait(WaitFor::Checks { passed: 0, of: 1 }),
        ),
        row(
            "our own draft is not merged",
            |facts, policy| (facts.draft, policy.draft) = (true, true),
            wait(WaitFor::Draft),
        ),
        row(
            "a conflict",
            |facts, _| facts.mergeable = Mergeable::No,
            Next::Conflict { key: format!("conflict:{}", head()) },
        ),
        row(
            "a conflict that was sent",
            |facts, _| facts.mergeable = Mergeable::No,
            wait(WaitFor::ConflictStands),
        )
        .heard(&format!("conflict:{}", head())),
        row(
            "a conflict that nobody wants to hear of",
            |facts, policy| {
                facts.mergeable = Mergeable::No;
                policy.feedback.conflicts = false;
            },
            wait(WaitFor::ConflictStands),
        ),
        row(
            "mergeability unknown",
            |facts, _| facts.mergeable = Mergeable::Unknown,
            Next::LookAgain { after: Duration::from_secs(5) },
        ),
    ]
}

fn checks() -> Vec<Row> {
    let ci = |names: &[&str], key: String| Next::CiFailed {
        checks: names.iter().map(|name| failed(name)).collect(),
        key,
    };
    let mut late = failed("test");
    late.ended_at = Some(after(100));
    vec![
        row("a required check failed", |facts, _| facts.checks = vec![failed("test")], ci(&["test"], ci_key())),
        row(
            "a failed check that was sent",
            |facts, _| facts.checks = vec![failed("test")],
            wait(WaitFor::FailedChecks { names: vec!["test".into()] }),
        )
        .heard(&ci_key()),
        row(
            "a failed check while others run",
            |facts, _| facts.checks = vec![late.clone(), check("lint", CheckState::Running, true)],
            wait(WaitFor::Checks { passed: 0, of: 2 }),
        )
        .after(110),
        row(
            "others run for a quarter of an hour",
            |facts, _| facts.checks = vec![failed("test"), check("lint", CheckState::Running, true)],
            ci(&["test"], ci_key()),
        )
        .after(901),
        row(
            "a failed check that is not required",
            |facts, _| facts.checks.push(check("bench", CheckState::Failed, false)),
            Next::Merge { method: Strategy::Rebase },
        ),
        row(
            "the same where all count",
            |facts, policy| {
                facts.checks.push(check("bench", CheckState::Running, false));
                policy.checks = ChecksPolicy::All;
            },
            wait(WaitFor::Checks { passed: 1, of: 2 }),
        ),
        row("timed out", |facts, _| facts.checks[0].state = CheckState::TimedOut, {
            let mut check = check("test", CheckState::TimedOut, true);
            check.ended_at = Some(PUSHED);
            Next::CiFailed { checks: vec![check], key: ci_key() }
        }),
        row(
            "a failure cancels the rest",
            |facts, _| facts.checks = vec![failed("test"), check("lint", CheckState::Cancelled, true)],
            ci(&["test"], ci_key()),
        ),
        row(
            "a required check that runs",
            |facts, _| facts.checks = vec![check("test", CheckState::Running, true)],
            wait(WaitFor::Checks { passed: 0, of: 1 }),
        ),
        row(
            "a required check that never came",
            |facts, _| facts.checks = vec![check("test", CheckState::Expected, true)],
            wait(WaitFor::MissingChecks { names: vec!["test".into()], overdue: false }),
        ),
        row(
            "and is overdue",
            |facts, _| facts.checks = vec![check("test", CheckState::Expected, true)],
            wait(WaitFor::MissingChecks { names: vec!["test".into()], overdue: true }),
        )
        .after(600),
        row(
            "a green bot does not stand for a required check",
            |facts, _| {
                facts.checks =
                    vec![check("bot", CheckState::Passed, false), check("test", CheckState::Expected, true)];
            },
            wait(WaitFor::MissingChecks { names: vec!["test".into()], overdue: false }),
        ),
        row(
            "no checks yet",
            |facts, _| facts.checks.clear(),
            wait(WaitFor::FirstCheck { until: after(600) }),
        ),
        row("no checks at all", |facts, _| facts.checks.clear(), Next::Blocked {
            reason: "no checks ran for #12: set `land.pr.checks: none` or `land.test_command`, or merge it by hand"
                .into(),
        })
        .after(600),
        row(
            "no checks, and the head was tested here",
            |facts, policy| {
                facts.checks.clear();
                policy.tested = true;
            },
            Next::Merge { method: Strategy::Rebase },
        )
        .after(600),
        row(
            "no checks where none count",
            |facts, policy| {
                facts.checks.clear();
                policy.checks = ChecksPolicy::None;
            },
            Next::Merge { method: Strategy::Rebase },
        ),
        row(
            "none required, and one that runs",
            |facts, _| facts.checks = vec![check("test", CheckState::Running, false)],
            wait(WaitFor::Checks { passed: 0, of: 1 }),
        ),
        row(
            "none required, and one that failed",
            |facts, _| facts.checks = vec![check("test", CheckState::Failed, false)],
            Next::CiFailed { checks: vec![check("test", CheckState::Failed, false)], key: ci_key() },
        ),
        row(
            "a list that is not whole",
            |facts, _| facts.checks_complete = false,
            wait(WaitFor::Checks { passed: 1, of: 1 }),
        ),
    ]
}

fn nobodys_fault() -> Vec<Row> {
    let states = [
        CheckState::ActionRequired,
        CheckState::StartupFailure,
        CheckState::Stale,
        CheckState::Cancelled,
        CheckState::Billing,
        CheckState::Unknown,
    ];
    let one = |state: CheckState| {
        row("nobody's fault", move |facts, _| facts.checks[0].state = state, attention(state))
    };
    states.into_iter().map(one).collect()
}

fn reviews() -> Vec<Row> {
    let against = review("bob", Permission::Write, ReviewState::ChangesRequested, "head");
    let by_bob = || vec!["bob".to_owned()];
    let wanted = || wait(WaitFor::Review { by: Vec::new() });
    vec![
        row(
            "changes requested",
            |facts, _| facts.reviews.push(against.clone()),
            Next::Feedback { by: by_bob() },
        ),
        row(
            "changes requested and sent",
            |facts, _| facts.reviews.push(against.clone()),
            wait(WaitFor::Changes { by: by_bob() }),
        )
        .heard(against.id.as_str()),
        row(
            "changes requested by somebody who may not write",
            |facts, _| {
                facts.reviews.push(review("eve", Permission::Read, ReviewState::ChangesRequested, "head"));
            },
            Next::Merge { method: Strategy::Rebase },
        ),
        row(
            "taken back by an approval",
            |facts, _| {
                facts.reviews.push(against.clone());
                facts.reviews.push(review("bob", Permission::Write, ReviewState::Approved, "head"));
            },
            Next::Merge { method: Strategy::Rebase },
        ),
        row(
            "a comment takes nothing back",
            |facts, _| {
                facts.reviews.push(against.clone());
                facts.reviews.push(review("bob", Permission::Write, ReviewState::Commented, "head"));
            },
            Next::Feedback { by: by_bob() },
        ),
        row("dismissed", |facts, _| facts.reviews[0].state = ReviewState::Dismissed, wanted()),
        row("no review", |facts, _| facts.reviews.clear(), wanted()),
        row(
            "no review, ann was asked",
            |facts, _| {
                facts.reviews.clear();
                facts.requested = vec!["ann".into()];
            },
            wait(WaitFor::Review { by: vec!["ann".into()] }),
        ),
        row(
            "an approval of an older head",
            |facts, _| facts.reviews[0].commit = Some(Oid::sample("old")),
            wanted(),
        ),
        row(
            "an approval without trust",
            |facts, _| facts.reviews[0].author.permission = Some(Permission::Triage),
            wanted(),
        ),
        row(
            "an approval by nobody knows whom",
            |facts, _| facts.reviews[0].author.permission = None,
            wanted(),
        ),
        row("our own approval", |facts, _| facts.reviews[0].author.login = "Octo".into(), wanted()),
        row(
            "an app's approval, even of one that is listened to",
            |facts, policy| {
                facts.reviews[0].author.bot = true;
                policy.bots = vec!["ann".into()];
            },
            wanted(),
        ),
        row("a rule wants more", |facts, _| facts.review_required = true, wanted()),
        row(
            "a rule wants one where checks suffice",
            |facts, policy| {
                facts.reviews.clear();
                facts.review_required = true;
                policy.merge = MergeWhen::Green;
            },
            wanted(),
        ),
        row(
            "checks suffice",
            |facts, policy| {
                facts.reviews.clear();
                policy.merge = MergeWhen::Green;
            },
            Next::Merge { method: Strategy::Rebase },
        ),
    ]
}

fn merges() -> Vec<Row> {
    let never = |_: &mut PullFacts, policy: &mut Policy| policy.merge = MergeWhen::Never;
    vec![
        row("a person merges", never, wait(WaitFor::Person)),
        row(
            "behind, and it must not be",
            |facts, _| (facts.behind, facts.strict) = (true, true),
            Next::UpdateBranch,
        ),
        row(
            "behind, and it may be",
            |facts, _| facts.behind = true,
            Next::Merge { method: Strategy::Rebase },
        ),
        row("a queue", |facts, _| facts.queue = Queue::Outside { removed: None }, Next::Enqueue),
        row(
            "a queue, and a person merges",
            |facts, policy| {
                facts.queue = Queue::Outside { removed: None };
                policy.merge = MergeWhen::Never;
            },
            wait(WaitFor::Person),
        ),
        row(
            "in the queue",
            |facts, _| facts.queue = Queue::Inside { position: Some(2) },
            wait(WaitFor::Queue { position: Some(2) }),
        ),
        row(
            "out of the queue again",
            |facts, _| facts.queue = left_queue(30),
            Next::QueueRefused { reason: "failed_checks".into(), key: "queue:E_1".into() },
        ),
        row(
            "out of the queue, which was sent",
            |facts, _| facts.queue = left_queue(30),
            wait(WaitFor::Refused { reason: "failed_checks".into() }),
        )
        .heard("queue:E_1"),
        row(
            "a push after it left the queue",
            |facts, _| {
                let removed = Removed {
                    id: id("E_1"),
                    reason: "x".into(),
                    at: Timestamp::from_millis(PUSHED.millis() - 1),
                };
                facts.queue = Queue::Outside { removed: Some(removed) };
            },
            Next::Enqueue,
        ),
        row(
            "it cannot be rebased",
            |facts, _| facts.can_be_rebased = Some(false),
            Next::Merge { method: Strategy::Squash },
        ),
        row(
            "neither rebased nor squashed",
            |facts, _| {
                facts.can_be_rebased = Some(false);
                facts.methods = vec![Strategy::Rebase, Strategy::Merge];
            },
            Next::Blocked {
                reason: "#12 cannot be rebased, and its repository does not allow squash: merge it by hand"
                    .into(),
            },
        ),
        row(
            "another way is allowed",
            |facts, _| facts.methods = vec![Strategy::Squash],
            Next::Blocked {
                reason: "the repository of #12 allows squash only: change `land.strategy`".into(),
            },
        ),
        row(
            "squash as the user wants",
            |facts, policy| {
                facts.can_be_rebased = Some(false);
                policy.method = Strategy::Squash;
            },
            Next::Merge { method: Strategy::Squash },
        ),
    ]
}

#[test]
fn the_first_rule_that_fits_decides() {
    let rows = ends().into_iter().chain(checks()).chain(nobodys_fault()).chain(reviews()).chain(merges());
    for row in rows {
        let heard: Vec<&str> = row.heard.iter().map(String::as_str).collect();
        let next = next_at(&row.facts, &row.policy, row.seconds, &heard);
        assert_eq!(next, row.next, "{}", row.what);
    }
}

#[test]
fn looks_at_unknown_mergeability_are_further_and_further_apart() {
    let mut facts = ready();
    facts.mergeable = Mergeable::Unknown;
    let heard = BTreeSet::new();
    let pauses: Vec<u64> = (0..5)
        .map(|unknown_looks| {
            let seen = Seen { now: PUSHED, pushed_at: PUSHED, unknown_looks, heard: &heard };
            match next(&facts, &policy(), &expected(), &seen) {
                Next::LookAgain { after } => after.as_secs(),
                other => panic!("{other:?}"),
            }
        })
        .collect();
    assert_eq!(pauses, [5, 15, 60, 60, 60]);
}
