//! What is done next: every rule as a row, and what holds for all facts.

mod anything;
mod rows;
mod shown;

use std::collections::BTreeSet;
use std::time::Duration;

use super::*;
use crate::forge::{NodeId, Permission, PullNumber, Slug};
use crate::oid::Oid;
use crate::time::Timestamp;
use crate::train::Strategy;

const PUSHED: Timestamp = Timestamp::from_millis(1_800_000_000_000);

fn id(text: &str) -> NodeId {
    NodeId::parse(text).unwrap()
}

fn after(seconds: u64) -> Timestamp {
    PUSHED.plus(Duration::from_secs(seconds))
}

fn person(login: &str, permission: Permission) -> Author {
    Author { login: login.into(), bot: false, permission: Some(permission) }
}

fn check(name: &str, state: CheckState, required: bool) -> Check {
    Check {
        name: name.into(),
        state,
        required,
        app: Some("github-actions".into()),
        id: Some(7),
        run: Some(8),
        url: None,
        summary: String::new(),
        ended_at: state.has_ended().then_some(PUSHED),
    }
}

fn review(login: &str, permission: Permission, state: ReviewState, commit: &str) -> Review {
    Review {
        id: id(&format!("PRR_{login}_{state:?}")),
        author: person(login, permission),
        state,
        commit: Some(Oid::sample(commit)),
        body: String::new(),
        at: PUSHED,
        minimized: false,
    }
}

/// A pull request that is ready: one required check passed, and ann approved its head.
fn ready() -> PullFacts {
    PullFacts {
        id: id("PR_12"),
        number: PullNumber(12),
        url: "https://github.com/acme/shop/pull/12".into(),
        title: "Log in".into(),
        state: PullState::Open,
        base: "main".into(),
        head: Head {
            repo: Some(Slug::parse("acme/shop").unwrap()),
            branch: "regatta/a".into(),
            commit: Oid::sample("head"),
        },
        author: "octo".into(),
        draft: false,
        mergeable: Mergeable::Yes,
        can_be_rebased: Some(true),
        behind: false,
        strict: false,
        checks: vec![check("test", CheckState::Passed, true)],
        checks_complete: true,
        reviews: vec![review("ann", Permission::Write, ReviewState::Approved, "head")],
        review_required: false,
        requested: Vec::new(),
        threads: Vec::new(),
        comments: Vec::new(),
        queue: Queue::Absent,
        methods: vec![Strategy::Rebase, Strategy::Squash, Strategy::Merge],
        updated_at: PUSHED,
    }
}

fn policy() -> Policy {
    Policy {
        merge: MergeWhen::Approved,
        checks: ChecksPolicy::Required,
        checks_within: Duration::from_secs(600),
        method: Strategy::Rebase,
        draft: false,
        trust: Permission::Write,
        bots: Vec::new(),
        viewer: "octo".into(),
        feedback: Feeds::ALL,
        tested: false,
    }
}

fn expected() -> Expected {
    Expected { head: Oid::sample("head"), base: "main".into() }
}

fn next_at(facts: &PullFacts, policy: &Policy, seconds: u64, heard: &[&str]) -> Next {
    let heard: BTreeSet<String> = heard.iter().map(|key| (*key).to_owned()).collect();
    let seen = Seen { now: after(seconds), pushed_at: PUSHED, unknown_looks: 0, heard: &heard };
    next(facts, policy, &expected(), &seen)
}
