//! Text that others wrote, made fit to be shown: without secrets, and without anything a terminal would obey.

use regatta_core::config::Config;
pub(crate) use regatta_core::plain::{clean, clean_line};
use regatta_core::time::Timestamp;
use regatta_engine::context::config_secrets;
use regatta_engine::redact::Redactor;

/// Takes out the secrets of this environment and of the configured agents.
pub(crate) fn redactor(config: &Config) -> Redactor {
    let inherited = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    Redactor::new(inherited.chain(config_secrets(config)).collect::<Vec<_>>())
}

/// The same, for what somebody writes who works in this directory: its `.env` files count too.
pub(crate) fn redactor_here(config: &Config) -> Redactor {
    let inherited = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let here = std::env::current_dir().unwrap_or_default();
    Redactor::for_worker(inherited.chain(config_secrets(config)).collect::<Vec<_>>(), [here.as_path()])
}

/// How long ago, in one short word: `now`, `12s`, `3m`, `2h`, `5d`.
pub(crate) fn ago(at: Timestamp, now: Timestamp) -> String {
    let seconds = now.since(at).as_secs();
    match seconds {
        0 => "now".to_owned(),
        1..60 => format!("{seconds}s ago"),
        60..3600 => format!("{}m ago", seconds / 60),
        3600..86_400 => format!("{}h ago", seconds / 3600),
        _ => format!("{}d ago", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_is_one_short_word() {
        let ages: Vec<String> = [0, 59, 60, 7200, 200_000]
            .iter()
            .map(|s| ago(Timestamp::from_millis(0), Timestamp::from_millis(s * 1000)))
            .collect();
        assert_eq!(ages, ["now", "59s ago", "1m ago", "2h ago", "2d ago"]);
    }
}
