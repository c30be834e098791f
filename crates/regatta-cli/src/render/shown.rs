//! Text that others wrote, made fit to be shown: without secrets, and without anything a terminal would obey.

pub(crate) use regatta_core::plain::{clean, clean_line};
use regatta_core::time::Timestamp;
pub(crate) use regatta_ops::secrets::redactor;

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
