//! Text that others wrote, made fit to be shown: without secrets, and without anything a terminal would obey.

use std::borrow::Cow;

use regatta_core::config::Config;
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

/// `text` without control characters; tabs and line feeds stay. Colours go, and marks that turn the direction of writing.
pub(crate) fn clean(text: &str) -> String {
    without_colours(text).chars().filter_map(visible).collect()
}

/// Takes `ESC [ 1 ; 31 m` and the like out: many programs print them, and they say nothing.
fn without_colours(text: &str) -> Cow<'_, str> {
    if !text.contains("\u{1b}[") {
        return Cow::Borrowed(text);
    }
    let mut rest = text;
    let mut clean = String::with_capacity(text.len());
    while let Some(at) = rest.find("\u{1b}[") {
        let (before, sequence) = rest.split_at(at);
        clean.push_str(before);
        let end = sequence[2..].find(|c: char| !c.is_ascii_digit() && c != ';').map(|end| end + 2);
        match end.filter(|end| sequence[*end..].starts_with('m')) {
            Some(end) => rest = &sequence[end + 1..],
            None => {
                clean.push_str(&sequence[..2]);
                rest = &sequence[2..];
            }
        }
    }
    clean.push_str(rest);
    Cow::Owned(clean)
}

/// The same on one line.
pub(crate) fn clean_line(text: &str) -> String {
    let text = without_colours(text);
    text.chars().filter_map(visible).map(|c| if matches!(c, '\n' | '\t') { ' ' } else { c }).collect()
}

fn visible(c: char) -> Option<char> {
    match c {
        '\n' | '\t' => Some(c),
        '\r' => None,
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' => None,
        // What is left of an escape sequence must not look like text of ours, so its place is marked.
        c if c.is_control() => Some('\u{fffd}'),
        c => Some(c),
    }
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
    fn nothing_that_a_terminal_obeys_is_left() {
        assert_eq!(clean("a\x1b[2Jb\tc\r\nd\u{9b}31m"), "a\u{fffd}[2Jb\tc\nd\u{fffd}31m");
        assert_eq!(clean("abc\u{202e}txt"), "abctxt");
        assert_eq!(clean("\x1b[1;31mError:\x1b[0m no\x1b[m \x1b[3"), "Error: no \u{fffd}[3");
        assert_eq!(clean_line("one\ntwo\tthree"), "one two three");
    }

    #[test]
    fn an_age_is_one_short_word() {
        let ages: Vec<String> = [0, 59, 60, 7200, 200_000]
            .iter()
            .map(|s| ago(Timestamp::from_millis(0), Timestamp::from_millis(s * 1000)))
            .collect();
        assert_eq!(ages, ["now", "59s ago", "1m ago", "2h ago", "2d ago"]);
    }
}
