//! Which programs may use a store together.
//!
//! A program has a number, which grows when what is stored changes. A session names the number of its program. A
//! migration names the oldest program that can still use the store afterwards, in its first line:
//! `-- oldest program: N`; without such a line it only adds, and every program can. So programs of neighbouring versions
//! use one store at the same time, and a migration that shuts older ones out is refused while one of them is at work.

use std::borrow::Cow;

use crate::{NodeInfo, Result, StoreError};

/// The number of this program.
pub const PROGRAM: u32 = 1;

/// The number of this program; debug builds let tests choose another.
pub fn program() -> u32 {
    #[cfg(debug_assertions)]
    if let Some(number) = std::env::var("REGATTA_TEST_PROGRAM").ok().and_then(|text| text.parse().ok()) {
        return number;
    }
    PROGRAM
}

/// The migrations of this program: `released`, and in debug builds one that a test adds.
pub(crate) fn migrations(released: &[&'static str]) -> Result<Vec<Cow<'static, str>>> {
    #[allow(unused_mut, reason = "only debug builds add one")]
    let mut all: Vec<Cow<'static, str>> = released.iter().map(|text| Cow::Borrowed(*text)).collect();
    #[cfg(debug_assertions)]
    if let Some(path) = std::env::var_os("REGATTA_TEST_MIGRATION").filter(|path| !path.is_empty()) {
        let text = std::fs::read_to_string(path)
            .map_err(|error| StoreError::Invalid(format!("REGATTA_TEST_MIGRATION: {error}")))?;
        all.push(text.into());
    }
    Ok(all)
}

/// The oldest program that can use the store after a migration.
pub(crate) fn oldest_of(migration: &str) -> u32 {
    let first = migration.lines().next().and_then(|line| line.strip_prefix("-- oldest program: "));
    first.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
}

/// The oldest program that can use the store after all of these.
pub(crate) fn oldest_of_all(migrations: &[Cow<'static, str>]) -> u32 {
    migrations.iter().map(|migration| oldest_of(migration)).max().unwrap_or(0)
}

/// Refuses a migration that would shut out a program that is at work.
pub(crate) fn require_new_enough(open: &[NodeInfo], oldest: u32) -> Result<()> {
    let mut older: Vec<String> = open
        .iter()
        .filter(|node| node.program.unwrap_or(0) < oldest)
        .map(|node| format!("{} ({})", node.node, node.what))
        .collect();
    older.sort();
    older.dedup();
    if older.is_empty() {
        return Ok(());
    }
    Err(StoreError::Refused(format!(
        "this version of Regatta has to change the store so that older versions can no longer use it, and these are at \
         work: {}; stop them, upgrade Regatta on these machines, and run this again",
        older.join(", ")
    )))
}

/// Refuses a store that only newer programs can use.
pub(crate) fn require_allowed(store: &str, schema: usize, oldest: u32) -> Result<()> {
    let own = program();
    if oldest <= own {
        return Ok(());
    }
    let machine = rustix::system::uname();
    Err(StoreError::Corrupt(format!(
        "{store} was written by a newer Regatta (schema {schema}, for program {oldest} or newer, this is program {own}; \
         upgrade Regatta on {})",
        machine.nodename().to_string_lossy()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_migration_names_the_oldest_program_that_survives_it() {
        assert_eq!(oldest_of("-- oldest program: 3\ncreate table x(y);"), 3);
        assert_eq!(oldest_of("-- Version 1.\n-- oldest program: 3\n"), 0);
        assert_eq!(oldest_of_all(&["-- oldest program: 3".into(), "-- adds".into()]), 3);
    }
}
