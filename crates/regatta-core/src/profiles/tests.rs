mod day;

use super::*;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(seconds * 1000)
}

fn task(name: &str) -> TaskId {
    TaskId::parse(name).unwrap()
}

fn cooling(limit: &str, state: Limited) -> Cooling {
    Cooling { limit: limit.into(), state, why: format!("{limit} is over"), since: at(0) }
}

fn standing(profile: &str, turn: u64, states: &[Limited]) -> AccountStanding {
    let coolings = states.iter().enumerate().map(|(n, state)| cooling(&format!("limit {n}"), *state));
    AccountStanding { profile: profile.into(), turn, coolings: coolings.collect() }
}

const fn spent(until: i64) -> Limited {
    Limited::Spent { until: Timestamp::from_millis(until * 1000) }
}

const fn strained(until: i64) -> Limited {
    Limited::Strained { until: Timestamp::from_millis(until * 1000) }
}

#[test]
fn the_one_that_was_used_longest_ago_is_next_unless_it_cools_or_is_strained() {
    let chosen =
        |standings: &[AccountStanding], holder, now| match choose(standings, &task("t"), holder, at(now)) {
            Choice::Unbound => "unbound".to_owned(),
            Choice::Use(profile) => profile,
            Choice::Wait { profile, until, .. } => format!("{profile} from {}", until.seconds()),
            Choice::SetAside { profile, .. } => format!("{profile} is set aside"),
        };
    let free = [standing("a", 3, &[]), standing("b", 1, &[]), standing("c", 2, &[])];
    assert_eq!(chosen(&free, None, 0), "b");
    assert_eq!(chosen(&free, Some("c"), 0), "c");
    assert_eq!(chosen(&free, Some("gone"), 0), "b");
    assert_eq!(chosen(&[], None, 0), "unbound");
    let fresh = [standing("a", 0, &[]), standing("b", 0, &[])];
    assert_eq!(chosen(&fresh, None, 0), "a", "in the user's order");
    let near = [standing("a", 0, &[strained(100)]), standing("b", 9, &[])];
    assert_eq!(chosen(&near, None, 0), "b");
    assert_eq!(chosen(&near, Some("a"), 0), "a", "a conversation stays");
    assert_eq!(chosen(&near, None, 100), "a", "its quota is whole again");
    assert_eq!(chosen(&near[..1], None, 0), "a", "there is no other");
    let tired = [standing("a", 0, &[spent(100), spent(9000)]), standing("b", 0, &[spent(500)])];
    assert_eq!(chosen(&tired, Some("a"), 50), "b from 518", "half a minute at most after the end");
    assert_eq!(chosen(&tired, None, 499), "b from 518");
    assert_eq!(chosen(&tired, Some("a"), 530), "b");
    let aside = [standing("a", 0, &[Limited::SetAside, spent(9)]), standing("b", 0, &[spent(500)])];
    assert_eq!(chosen(&aside, None, 0), "b from 518");
    assert_eq!(chosen(&aside[..1], None, 999_999), "a is set aside");
}

#[test]
fn those_who_wait_for_one_moment_come_back_one_after_the_other() {
    let hour = Duration::from_secs(3600);
    let mut waits: Vec<u64> =
        (0..30).map(|n| spread(&task(&format!("task-{n}")), hour).as_millis() as u64).collect();
    assert!(waits.iter().all(|wait| *wait <= 30_000));
    waits.sort_unstable();
    let widest = waits.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
    assert!(waits[29] - waits[0] > 20_000 && widest < 8_000, "{waits:?}");
    assert_eq!(spread(&task("a"), hour), spread(&task("a"), hour));
    assert!(spread(&task("a"), Duration::from_secs(60)) <= Duration::from_secs(6));
}
