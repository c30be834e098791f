//! Retries what git or the machine refused after an agent has ended: the agent is not started again for it.

use std::time::{Duration, Instant};

use super::{Worker, WorkerError};

/// Maximum number of tries to settle.
const TRIES: u32 = 8;
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// No new try starts after this: by then a remaining lock has been waited for long enough.
const LONGEST_SETTLING: Duration = Duration::from_secs(30);

/// How often one step of a worker has been tried.
pub(super) struct Patience {
    tries: u32,
    pause: Duration,
    since: Instant,
}

impl Patience {
    pub(super) fn new() -> Self {
        Self { tries: 1, pause: FIRST_PAUSE, since: Instant::now() }
    }

    /// Whether to try again, after a pause. Stopping the worker ends the pause.
    pub(super) async fn allows(&mut self, worker: &Worker, error: &WorkerError) -> bool {
        if self.tries >= TRIES || self.since.elapsed() > LONGEST_SETTLING || !worker.may_pass(error) {
            return false;
        }
        let mut stop = worker.stop.clone();
        if stop.borrow().is_some() && self.tries > 1 {
            return false;
        }
        self.tries += 1;
        tokio::select! {
            () = tokio::time::sleep(self.pause) => {}
            _ = stop.wait_for(Option::is_some) => {}
        }
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        true
    }
}

impl Worker {
    /// Whether the same step may work in a moment: git was killed, the machine is to blame, or a `git gc` removed an
    /// object that no ref reached yet.
    pub(super) fn may_pass(&self, error: &WorkerError) -> bool {
        match error {
            WorkerError::Git(error) => {
                error.is_environment() || (error.is_lost_object() && self.gc.was_at_work())
            }
            WorkerError::Io { .. } => true,
            _ => false,
        }
    }
}
