//! Whose commands these are: a person's, or an agent's.

/// Whether the environment is that of an attempt.
pub(crate) fn claims_attempt() -> bool {
    ["REGATTA_TASK", "REGATTA_TOKEN"]
        .iter()
        .all(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()))
}
