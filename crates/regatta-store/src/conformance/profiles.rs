//! Profiles: whose turn it is, and their limits.

use regatta_core::profiles::{Cooling, Limited};

use super::Fixture;
use super::node::{Node, at};
use crate::{AccountKey, AccountRecord};

fn key(profile: &str, agent: &str) -> AccountKey {
    AccountKey { profile: profile.into(), agent: agent.into() }
}

fn spent(limit: &str, until: i64) -> Cooling {
    let state = Limited::Spent { until: at(until) };
    Cooling { limit: limit.into(), state, why: format!("{limit} is spent"), since: at(1) }
}

async fn of(node: &Node, wanted: &AccountKey) -> AccountRecord {
    let found = node.store.accounts().await.unwrap().into_iter().find(|account| account.key == *wanted);
    found.expect("the account is known")
}

pub async fn whoever_was_used_last_has_the_highest_turn(fixture: &dyn Fixture) {
    let (one, two) = (Node::join(fixture, "a").await, Node::join(fixture, "b").await);
    assert_eq!(one.store.accounts().await.unwrap(), []);
    let (first, second) = (key("first", "claude"), key("second", "claude"));
    one.store.take_turn(&first).await.unwrap();
    two.store.take_turn(&second).await.unwrap();
    assert!(of(&one, &first).await.turn < of(&one, &second).await.turn);
    one.store.take_turn(&first).await.unwrap();
    assert!(of(&two, &second).await.turn < of(&two, &first).await.turn);
    // The same profile with another agent is another account.
    two.store.take_turn(&key("first", "codex")).await.unwrap();
    assert_eq!(two.store.accounts().await.unwrap().len(), 3);
}

pub async fn a_profile_cools_per_agent_and_limit_for_every_machine(fixture: &dyn Fixture) {
    let (one, two) = (Node::join(fixture, "a").await, Node::join(fixture, "b").await);
    let account = key("first", "claude");
    one.store.cool(&account, &spent("five_hour", 100)).await.unwrap();
    one.store.cool(&account, &spent("seven_day", 900)).await.unwrap();
    one.store.cool(&key("first", "codex"), &spent("quota", 50)).await.unwrap();
    assert_eq!(of(&two, &account).await.coolings, [spent("five_hour", 100), spent("seven_day", 900)]);
    assert_eq!(of(&two, &key("first", "codex")).await.coolings, [spent("quota", 50)]);
    // A newer record of a limit replaces the older one, even if it names an earlier time.
    two.store.cool(&account, &spent("seven_day", 800)).await.unwrap();
    two.store.cool(&account, &spent("seven_day", 800)).await.unwrap();
    assert_eq!(of(&one, &account).await.coolings, [spent("five_hour", 100), spent("seven_day", 800)]);
}

pub async fn a_profile_that_was_warmed_has_run_into_nothing(fixture: &dyn Fixture) {
    let (one, two) = (Node::join(fixture, "a").await, Node::join(fixture, "b").await);
    let account = key("first", "claude");
    one.store.take_turn(&account).await.unwrap();
    let turn = of(&one, &account).await.turn;
    let aside = Cooling { state: Limited::SetAside, ..spent("account", 0) };
    one.store.cool(&account, &aside).await.unwrap();
    one.store.cool(&key("second", "claude"), &aside).await.unwrap();
    assert_eq!(of(&two, &account).await.coolings, std::slice::from_ref(&aside));
    two.store.warm("first").await.unwrap();
    two.store.warm("first").await.unwrap();
    two.store.warm("nobody").await.unwrap();
    assert_eq!(of(&one, &account).await, AccountRecord { key: account, turn, coolings: Vec::new() });
    assert_eq!(of(&one, &key("second", "claude")).await.coolings, [aside]);
}
