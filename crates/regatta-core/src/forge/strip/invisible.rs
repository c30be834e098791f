//! Characters that have no shape, and controls.

use super::Hidden;
use crate::plain::turns_writing;

/// Whether people see nothing of this character.
pub fn is_invisible(c: char) -> bool {
    turns_writing(c)
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200d}' | '\u{2028}' | '\u{2029}'
            | '\u{2060}'..='\u{2065}' | '\u{206a}'..='\u{206f}' | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffc}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}' | '\u{f0000}'..='\u{10ffff}')
}

/// The text without them. Line endings become line feeds.
pub(super) fn without(text: &str, removed: &mut Hidden) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\n' | '\t' => kept.push(c),
            '\r' => {
                if rest.peek() != Some(&'\n') {
                    kept.push('\n');
                }
            }
            '\u{1b}' | '\u{9b}' | '\u{9d}' | '\u{90}' => {
                removed.controls += 1;
                skip_sequence(c, &mut rest);
            }
            c if c.is_control() => removed.controls += 1,
            c if is_invisible(c) => removed.invisible += 1,
            c => kept.push(c),
        }
    }
    kept
}

/// Skips the rest of a terminal sequence. One without an end is only its first character, so that no text is lost.
fn skip_sequence(first: char, rest: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    let kind = match first {
        '\u{9b}' => Some('['),
        '\u{9d}' | '\u{90}' => Some(']'),
        _ => rest.peek().copied().filter(|c| matches!(c, '[' | ']' | 'P' | '_' | '^' | '(' | ')')),
    };
    let mut ahead = rest.clone();
    if first == '\u{1b}' && kind.is_some() {
        ahead.next();
    }
    let ended = match kind {
        Some('[') => ahead
            .by_ref()
            .take(64)
            .find(|c| !matches!(c, '0'..='?' | ' '..='/'))
            .is_some_and(|c| matches!(c, '@'..='~')),
        Some('(' | ')') => ahead.next().is_some(),
        Some(_) => ends_string(&mut ahead),
        None => false,
    };
    if ended {
        *rest = ahead;
    }
}

/// Whether a string sequence ends soon: by BEL, or by ESC and a backslash.
fn ends_string(ahead: &mut std::iter::Peekable<std::str::Chars<'_>>) -> bool {
    for _ in 0..4096 {
        match ahead.next() {
            Some('\u{7}' | '\u{9c}') => return true,
            Some('\u{1b}') => return ahead.next() == Some('\\'),
            Some('\n') | None => return false,
            Some(_) => {}
        }
    }
    false
}
