//! Profiles: whose turn it is, and their limits.

use regatta_core::profiles::Cooling;

use super::record::{Account, Counter, Kept, Key, Number, SetKey, Want};
use super::{Call, Draft, Rule};
use crate::AccountKey;
use crate::stored::bounded;

/// Records a use of an account.
pub(crate) fn take_turn(key: &AccountKey) -> Call<'_, ()> {
    let counter = Key::Counter(Counter::Turns);
    let wants = move || {
        let mut wants = wants_of(key);
        wants.push(Want::Record(Key::Counter(Counter::Turns)));
        wants
    };
    Call::timeless(wants, move |draft| {
        let turn = draft.get::<Number>(&counter)?.map_or(0, |last| last.0) + 1;
        draft.put(counter.clone(), Number(turn).record())?;
        let account = account(draft, key)?;
        draft.put(Key::Account(key.clone()), Account { turn, ..account }.record())
    })
}

/// Records that an account reached a limit.
pub(crate) fn cool<'a>(key: &'a AccountKey, cooling: &'a Cooling) -> Call<'a, ()> {
    Call::timeless(
        move || wants_of(key),
        move |draft| {
            let body = bounded("a profile's limit", cooling)?;
            let mut account = account(draft, key)?;
            account.coolings.retain(|(limit, _)| *limit != cooling.limit);
            account.coolings.push((cooling.limit.clone(), body));
            draft.put(Key::Account(key.clone()), account.record())
        },
    )
}

/// Removes all limits of a profile.
pub(crate) fn warm(profile: &str) -> Call<'_, ()> {
    let set = SetKey::AccountsOf(profile.to_owned());
    let wants = vec![Want::Set(set.clone()), Want::Record(set.guard())];
    Call::timeless(
        move || wants.clone(),
        move |draft| {
            for key in draft.members(&set)? {
                if draft.get::<Account>(&key)?.is_some_and(|account| !account.coolings.is_empty()) {
                    draft.edit::<Account>(&key)?.coolings.clear();
                }
            }
            Ok(())
        },
    )
}

fn wants_of(key: &AccountKey) -> Vec<Want> {
    vec![Want::Record(Key::Account(key.clone())), Want::Record(Key::Profile(key.profile.clone()))]
}

/// The account as it is; a new one joins its profile.
fn account(draft: &mut Draft<'_>, key: &AccountKey) -> Rule<Account> {
    match draft.get::<Account>(&Key::Account(key.clone()))? {
        Some(account) => Ok((*account).clone()),
        None => {
            draft.guard(Key::Profile(key.profile.clone()))?;
            Ok(Account::default())
        }
    }
}
