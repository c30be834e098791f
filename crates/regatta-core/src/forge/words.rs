//! Text for a forge that must not act there.
//!
//! Agents write titles, summaries and commit messages. On a forge `@name` notifies a person, `fixes #12` closes an
//! issue, and `[skip ci]` turns checks off. [`harmless`] makes such words readable text, visibly and without invisible
//! characters.
//!
//! Invariant: nothing in the result mentions, refers, closes or steers, and a second pass changes nothing.

mod scan;

use super::slug::PullNumber;
use super::strip::{before, is_invisible};

/// Longest text of a pull request or comment. GitHub takes 65,536.
pub const LONGEST: usize = 60_000;
/// Longest title.
pub const LONGEST_TITLE: usize = 200;
/// Ends a text that was too long.
const SHORTENED: &str = "\n\n(shortened)";

/// A text of an agent for a forge, at most `most` bytes long.
pub fn harmless(text: &str, most: usize) -> String {
    let text = defused(text, most);
    if text.len() <= most {
        return text;
    }
    let room = most.saturating_sub(SHORTENED.len());
    format!("{}{SHORTENED}", whole_words(&text, room))
}

/// The same on one line, for titles.
pub fn harmless_line(text: &str, most: usize) -> String {
    let one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = one_line(&defused(&one_line(text), most));
    whole_words(&line, most).to_owned()
}

fn defused(text: &str, most: usize) -> String {
    // The rest is cut in any case.
    let bounded = before(text, most.saturating_mul(2)).replace("\r\n", "\n");
    let is_visible = |c: &char| matches!(c, '\n' | '\t') || !(c.is_control() || is_invisible(*c));
    let mut text: String = bounded.chars().filter(is_visible).collect();
    // What one rule leaves can be what another rule looks for.
    loop {
        let next = scan::defused(&text);
        if next == text {
            return text;
        }
        text = next;
    }
}

/// The beginning of a text, at most `most` bytes. It ends with a whole word: half of one could act.
fn whole_words(text: &str, most: usize) -> &str {
    if text.len() <= most {
        return text;
    }
    let cut = before(text, most);
    let is_whole = text[cut.len()..].starts_with(char::is_whitespace);
    let end = if is_whole { cut.len() } else { cut.rfind(char::is_whitespace).unwrap_or(0) };
    cut[..end].trim_end()
}

/// The one line by which a pull request closes its own issue.
pub fn closes(number: PullNumber) -> String {
    format!("Closes {number}")
}
