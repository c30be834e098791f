//! Times that tasks wait for. Setting the wall clock back must not turn a pause of a minute into one of an hour.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use regatta_core::id::TaskId;
use regatta_core::time::Timestamp;

/// Pauses up to this length are also measured by a monotonic clock. A longer wait uses the wall clock only: until
/// tomorrow at seven means exactly that.
const COUNTED: Duration = Duration::from_secs(31 * 60);

/// For each waiting task: its due time, and the same by a clock that cannot be set.
#[derive(Default)]
pub(crate) struct Alarms {
    seen: HashMap<TaskId, (Timestamp, Instant)>,
}

impl Alarms {
    /// Whether this alarm was set before.
    pub(crate) fn knows(&self, task: &TaskId, due: Timestamp) -> bool {
        self.seen.get(task).is_some_and(|(same, _)| *same == due)
    }

    /// How long `task` still has to wait for `due`, by whichever clock gets there first: `now`, or `tick`. The first
    /// time, `pause` is the length of the wait when it was recorded.
    pub(crate) fn left(
        &mut self,
        task: &TaskId,
        due: Timestamp,
        pause: Duration,
        now: Timestamp,
        tick: Instant,
    ) -> Duration {
        let dated = due.since(now);
        let counted = match self.seen.get(task) {
            Some((same, at)) if *same == due => Some(*at),
            _ if pause <= COUNTED => {
                let at = tick + pause.min(dated);
                self.seen.insert(task.clone(), (due, at));
                Some(at)
            }
            _ => None,
        };
        counted.map_or(dated, |at| dated.min(at.saturating_duration_since(tick)))
    }

    /// Drops the alarms of all other tasks.
    pub(crate) fn keep(&mut self, waiting: &[(TaskId, Timestamp)]) {
        if self.seen.len() > waiting.len() {
            self.seen.retain(|task, (due, _)| waiting.iter().any(|(other, at)| other == task && at == due));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_set_back_makes_nobody_wait_longer() {
        let mut alarms = Alarms::default();
        let task = TaskId::parse("a").unwrap();
        let at = |seconds: i64| Timestamp::from_millis(1_000_000_000 + seconds * 1000);
        let begun = Instant::now();
        let mut left = |due: i64, pause: u64, now: i64, tick: u64| {
            let tick = begun + Duration::from_secs(tick);
            alarms.left(&task, at(due), Duration::from_secs(pause), at(now), tick).as_secs()
        };
        assert_eq!(left(60, 60, 0, 0), 60);
        // An hour back: fifty seconds are left, not an hour.
        assert_eq!(left(60, 60, 10 - 3600, 10), 50);
        // Forward: the time has come.
        assert_eq!(left(60, 60, 3600, 10), 0);
        // Another pause is another alarm.
        assert_eq!(left(120, 120, 10, 10), 110);
        // First seen when the clock had already been set back.
        assert_eq!(left(180, 60, 120 - 3600, 20), 60);
        // A long wait uses the wall clock.
        assert_eq!(left(24 * 3600, 24 * 3600, 0, 10), 24 * 3600);
        assert_eq!(left(24 * 3600, 24 * 3600, -3600, 10), 25 * 3600);
        alarms.keep(&[]);
        assert!(alarms.seen.is_empty());
    }
}
