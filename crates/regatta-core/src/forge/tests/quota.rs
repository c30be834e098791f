use std::time::Duration;

use crate::forge::quota::{Awaited, Left, Purpose, Quota, Told, look_every};
use crate::time::Timestamp;

const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

fn after(seconds: u64) -> Timestamp {
    NOW.plus(Duration::from_secs(seconds))
}

fn left(remaining: u64) -> Option<Left> {
    Some(Left { limit: 5000, remaining, reset: after(1800) })
}

fn told(remaining: u64) -> Told {
    Told { bucket: Some("core".into()), left: left(remaining), ..Told::default() }
}

#[test]
fn the_users_share_is_left_to_the_user() {
    let mut quota = Quota::default();
    assert_eq!(quota.may(Purpose::Look, "core", 0.4, NOW), Ok(()));
    quota.told(&told(2000), NOW);
    assert_eq!(quota.may(Purpose::Look, "core", 0.4, NOW), Ok(()));
    quota.told(&told(1999), NOW);
    assert_eq!(quota.may(Purpose::Look, "core", 0.4, NOW), Err(after(1800)));
    assert_eq!(quota.may(Purpose::Asked, "core", 0.4, NOW), Ok(()));
    assert_eq!(quota.may(Purpose::Write, "core", 0.4, NOW), Ok(()));
    assert_eq!(quota.may(Purpose::Look, "graphql", 0.4, NOW), Ok(()), "another kind of requests");
    assert_eq!(quota.may(Purpose::Look, "core", 0.4, after(1800)), Ok(()), "the next hour");
    quota.told(&told(0), NOW);
    assert_eq!(quota.may(Purpose::Asked, "core", 0.4, NOW), Err(after(1800)));
}

#[test]
fn pauses_are_as_long_as_the_forge_says_and_double() {
    let mut quota = Quota::default();
    let secondary =
        |wait: u64| Told { limited: true, retry_after: Some(Duration::from_secs(wait)), ..told(4000) };
    let mut pauses = Vec::new();
    for _ in 0..6 {
        quota.told(&secondary(7), NOW);
        pauses.push(quota.paused_until().unwrap().since(NOW).as_secs());
    }
    assert_eq!(pauses, [60, 120, 240, 480, 900, 900]);
    assert_eq!(quota.may(Purpose::Asked, "graphql", 0.4, NOW), Err(after(900)), "the whole host pauses");
    quota.told(&told(4000), NOW);
    assert_eq!(quota.may(Purpose::Asked, "core", 0.4, NOW), Ok(()));
    quota.told(&secondary(300), NOW);
    assert_eq!(quota.paused_until(), Some(after(300)));
    let mut quota = Quota::default();
    quota.told(&Told { limited: true, ..told(0) }, NOW);
    assert_eq!(quota.paused_until(), Some(after(1800)), "until the next hour");
}

#[test]
fn a_forge_that_is_away_is_asked_less_and_less_often() {
    let mut quota = Quota::default();
    let mut pauses = Vec::new();
    for _ in 0..5 {
        quota.told(&Told { away: true, ..Told::default() }, NOW);
        pauses.push(quota.paused_until().unwrap().since(NOW).as_secs());
    }
    assert_eq!((pauses, quota.silences()), (vec![5, 15, 60, 300, 300], 5));
    quota.told(&told(4000), NOW);
    assert_eq!((quota.silences(), quota.paused_until()), (0, None));
}

#[test]
fn writes_are_a_second_apart() {
    let mut quota = Quota::default();
    quota.begins(Purpose::Write, NOW);
    assert_eq!(quota.may(Purpose::Write, "core", 0.4, NOW.plus(Duration::from_millis(400))), Err(after(1)));
    assert_eq!(quota.may(Purpose::Look, "core", 0.4, NOW), Ok(()));
    assert_eq!(quota.may(Purpose::Write, "core", 0.4, after(1)), Ok(()));
    let before = Timestamp::from_millis(NOW.millis() - 3_600_000);
    assert_eq!(quota.may(Purpose::Write, "core", 0.4, before), Ok(()), "the clock was set back");
}

#[test]
fn looks_are_as_far_apart_as_what_is_awaited_allows() {
    let every = Duration::from_secs(60);
    let one = |pushed: u64, person: Option<u64>| Awaited {
        pushed_at: after(pushed),
        only_person_since: person.map(after),
    };
    for (awaited, now, seconds) in [
        (vec![], 0, None),
        (vec![one(0, None)], 60, Some(30)),
        (vec![one(0, None)], 600, Some(60)),
        (vec![one(0, Some(0))], 3599, Some(60)),
        (vec![one(0, Some(0))], 3600, Some(300)),
        (vec![one(0, Some(0)), one(3590, None)], 3600, Some(30)),
    ] {
        let found = look_every(&awaited, every, after(now)).map(|pause| pause.as_secs());
        assert_eq!(found, seconds, "{awaited:?} after {now} s");
    }
}

#[test]
fn what_is_known_survives_a_restart() {
    let mut quota = Quota::default();
    quota.told(&Told { limited: true, ..told(0) }, NOW);
    let read: Quota = serde_json::from_str(&serde_json::to_string(&quota).unwrap()).unwrap();
    assert_eq!(read, quota);
}
