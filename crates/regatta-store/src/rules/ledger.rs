//! What a store over a network does for the rules: it reads records, and commits plans if nothing has changed.

use std::time::Duration;

use async_trait::async_trait;

use super::plan::Plan;
use super::record::{Key, Seen, Want};
use super::view::Known;
use super::{Call, Run};
use crate::{Result, StoreError};

/// How often a call is tried that others overtake.
const TRIES: u32 = 20;

/// After this many tries a caller makes the others wait, where the store can.
const PATIENCE: u32 = 5;

/// The longest pause before the second try, so that callers who overtake each other come apart. It doubles with each
/// further try up to [`LONGEST`]: the more callers there are and the slower the store is, the further apart they come.
const JITTER: Duration = Duration::from_millis(20);
const LONGEST: Duration = Duration::from_millis(640);

/// Records with versions.
#[async_trait]
pub(crate) trait Ledger: Send + Sync {
    /// Reads all of it, in one exchange where that is possible. The answer need not be of one moment: the commit
    /// compares every version.
    async fn read(&self, wants: &[Want]) -> Result<Vec<Seen>>;

    /// Writes all of the plan, if every record that it checks or writes still has the version that was read.
    async fn commit(&self, plan: &Plan) -> Result<Committed>;

    /// The same records for one caller alone: nobody else commits until the returned ledger has committed a plan or is
    /// dropped. `None` if the store cannot do this.
    async fn alone(&self) -> Result<Option<Box<dyn Ledger + '_>>> {
        Ok(None)
    }
}

/// What became of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Committed {
    /// It is written.
    Done,
    /// Nothing is written: this record has changed.
    Stale(Key),
}

/// Reads, plans and commits; reads again where another caller was faster. Callers that come one after the other could
/// overtake the same one every time, so it makes them wait after some tries.
pub(crate) async fn carry_out<T>(ledger: &dyn Ledger, call: &Call<'_, T>) -> Result<T> {
    let (mut pause, mut n) = (JITTER, 0);
    loop {
        n += 1;
        let alone = if n == PATIENCE { ledger.alone().await? } else { None };
        let (plan, answer) = plan(alone.as_deref().unwrap_or(ledger), call).await?;
        if plan.writes.is_empty() && plan.events.is_empty() {
            return Ok(answer);
        }
        match alone.as_deref().unwrap_or(ledger).commit(&plan).await? {
            Committed::Done => return Ok(answer),
            Committed::Stale(key) if n == TRIES => {
                let why = format!("others were faster {TRIES} times in a row, last: {key:?}");
                return Err(StoreError::Unavailable(why));
            }
            Committed::Stale(_) => {}
        }
        drop(alone);
        tokio::time::sleep(pause.mul_f64(a_fraction())).await;
        pause = LONGEST.min(pause * 2);
    }
}

/// Reads what the call's rule needs, in as many rounds as it asks for, and returns its plan and its answer.
pub(crate) async fn plan<T>(ledger: &dyn Ledger, call: &Call<'_, T>) -> Result<(Plan, T)> {
    let mut known = Known::default();
    let mut wants = call.wants();
    loop {
        let seen = ledger.read(&wants).await?;
        known.answer(wants, seen);
        match call.run_on(known)? {
            Run::Planned(plan, answer) => return Ok((plan, answer)),
            Run::Halted(read, more) => (known, wants) = (read, more),
        }
    }
}

/// A random number from 0 to 1.
pub(crate) fn a_fraction() -> f64 {
    let mut byte = [0u8];
    // Without randomness the pause is short, which is no harm.
    let _same_pause = getrandom::fill(&mut byte);
    f64::from(byte[0]) / f64::from(u8::MAX)
}
