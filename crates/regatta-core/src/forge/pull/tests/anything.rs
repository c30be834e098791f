//! What holds for all facts.

use proptest::prelude::{ProptestConfig, any, prop_assert, prop_assert_eq, prop_compose, proptest};
use proptest::sample::select;
use proptest::strategy::Strategy as _;

use super::*;

fn states() -> impl proptest::strategy::Strategy<Value = CheckState> {
    select(vec![
        CheckState::Expected,
        CheckState::Running,
        CheckState::Passed,
        CheckState::Failed,
        CheckState::TimedOut,
        CheckState::Cancelled,
        CheckState::ActionRequired,
        CheckState::StartupFailure,
        CheckState::Stale,
        CheckState::Billing,
        CheckState::Unknown,
    ])
}

fn reviews() -> impl proptest::strategy::Strategy<Value = Vec<Review>> {
    let one = (
        select(vec!["ann", "bob", "octo", "app"]),
        select(Permission::NAMES.map(|(_, permission)| permission).to_vec()),
        select(vec![
            ReviewState::Approved,
            ReviewState::ChangesRequested,
            ReviewState::Commented,
            ReviewState::Dismissed,
            ReviewState::Pending,
        ]),
        select(vec!["head", "old"]),
    )
        .prop_map(|(login, permission, state, commit)| {
            let mut review = review(login, permission, state, commit);
            review.author.bot = login == "app";
            review
        });
    proptest::collection::vec(one, 0..4)
}

prop_compose! {
    fn facts()(
        ends in select(vec![PullState::Open, PullState::Open, PullState::Open, PullState::Closed, PullState::Merged { commit: None }]),
        checks in proptest::collection::vec((select(vec!["a", "b"]), states(), any::<bool>()), 0..4),
        complete in any::<bool>(),
        reviews in reviews(),
        mergeable in select(vec![Mergeable::Yes, Mergeable::Yes, Mergeable::No, Mergeable::Unknown]),
        flags in (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>()),
        heads in (select(vec!["head", "head", "other"]), select(vec!["main", "main", "release"])),
        queue in select(vec![Queue::Absent, Queue::Absent, Queue::Outside { removed: None }, Queue::Inside { position: None }]),
        methods in proptest::sample::subsequence(vec![Strategy::Rebase, Strategy::Squash, Strategy::Merge], 0..=3),
    ) -> PullFacts {
        PullFacts {
            state: ends,
            checks: checks.into_iter().map(|(name, state, required)| check(name, state, required)).collect(),
            checks_complete: complete,
            reviews,
            mergeable,
            draft: flags.0,
            behind: flags.1,
            strict: flags.2,
            review_required: flags.3,
            base: heads.1.into(),
            head: Head { commit: Oid::sample(heads.0), ..ready().head },
            queue,
            methods,
            ..ready()
        }
    }
}

prop_compose! {
    fn policies()(
        merge in select(MergeWhen::NAMES.map(|(_, when)| when).to_vec()),
        checks in select(ChecksPolicy::NAMES.map(|(_, checks)| checks).to_vec()),
        flags in (any::<bool>(), any::<bool>(), any::<bool>()),
        method in select(Strategy::NAMES.map(|(_, method)| method).to_vec()),
    ) -> Policy {
        let feedback = if flags.2 { Feeds::ALL } else { Feeds::NOTHING };
        Policy { merge, checks, tested: flags.0, draft: flags.1, feedback, method, bots: vec!["app".into()], ..policy() }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_merged_that_checks_and_reviews_do_not_allow(facts in facts(), policy in policies(), seconds in 0..2000u64) {
        let next = next_at(&facts, &policy, seconds, &[]);
        // Total, and every step has words for people.
        let line = line(&facts, &next);
        prop_assert!(line.starts_with("#12") && !line.ends_with(' '), "{line:?}");
        let _ = column(&next);
        if !matches!(next, Next::Merge { .. } | Next::Enqueue) {
            return Ok(());
        }
        prop_assert_eq!(&facts.state, &PullState::Open);
        prop_assert_eq!(&facts.head.commit, &Oid::sample("head"));
        prop_assert_eq!(facts.base.as_str(), "main");
        prop_assert!(!facts.draft && facts.mergeable == Mergeable::Yes && policy.merge != MergeWhen::Never);
        prop_assert!(facts.checks_complete && !facts.review_required);
        let required = facts.checks.iter().filter(|check| check.required);
        prop_assert!(required.clone().all(|check| check.state == CheckState::Passed), "{:?}", facts.checks);
        if policy.checks == ChecksPolicy::All || (policy.checks == ChecksPolicy::Required && required.count() == 0) {
            prop_assert!(facts.checks.iter().all(|check| check.state == CheckState::Passed));
            prop_assert!(!facts.checks.is_empty() || policy.tested, "no checks are no pass");
        }
        let last = |login: &str| facts.reviews.iter().rev().find(|review| {
            review.author.login == login && !matches!(review.state, ReviewState::Commented | ReviewState::Pending)
        });
        let trusted = |review: &&Review| review.author.permission >= Some(Permission::Write) || review.author.bot;
        for login in ["ann", "bob", "app"] {
            let against = last(login).filter(trusted).is_some_and(|review| review.state == ReviewState::ChangesRequested);
            prop_assert!(!against, "{login} asks for changes");
        }
        if policy.merge == MergeWhen::Approved {
            let approves = |login: &str| last(login).filter(trusted).is_some_and(|review| {
                review.state == ReviewState::Approved && review.commit == Some(Oid::sample("head"))
            });
            prop_assert!(approves("ann") || approves("bob"), "{:?}", facts.reviews);
        }
    }
}
