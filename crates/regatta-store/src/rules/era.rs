//! The era: the upper part of every fence and term.
//!
//! A store that lost what it had acknowledged would give out fences and terms a second time. Each accepted loss begins an
//! era, and what is given from then on is higher than everything before, even what the store has forgotten. The era is
//! kept as the term of a role that no session can hold.

use super::record::{Holding, Kept, Key, Want};
use super::{Call, Draft, Rule};

/// The role whose term is the era. No other role has such a name.
const ERA: &str = "#era";

/// Fences and terms have this many lower bits for the numbers within an era.
const BITS: u32 = 32;

/// The record of the era.
pub(crate) fn key() -> Key {
    Key::Role(ERA.to_owned())
}

/// What a fence or a term grows from: at least the beginning of the era.
pub(crate) fn above(draft: &mut Draft<'_>, last: u64) -> Rule<u64> {
    let era = draft.get::<Holding>(&key())?.map_or(0, |era| era.term);
    Ok(last.max(era << BITS) + 1)
}

/// Begins the next era.
pub(crate) fn raise() -> Call<'static, u64> {
    Call::timeless(
        || vec![Want::Record(key())],
        |draft| {
            let era = draft.get::<Holding>(&key())?.map_or(0, |era| era.term) + 1;
            draft.put(key(), Holding { session: None, term: era }.record())?;
            Ok(era)
        },
    )
}
