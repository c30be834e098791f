//! A task's title: one line for display.

use crate::plain;

/// Longest generated title, in characters.
const LONGEST_TITLE_CHARS: usize = 72;

/// The title: as given, else the prompt's first heading, else its first line.
pub(super) fn title(given: Option<&str>, prompt: &str) -> String {
    let given = given.map(plain::words).filter(|title| !title.is_empty());
    given.unwrap_or_else(|| {
        let line = heading(prompt).or_else(|| prompt.lines().find(|line| !line.trim().is_empty()));
        cut(&plain::words(line.unwrap_or_default()))
    })
}

/// The text of the first Markdown heading outside a fenced block.
fn heading(prompt: &str) -> Option<&str> {
    let mut fenced = false;
    for line in prompt.lines() {
        let line = line.trim();
        if line.starts_with("```") || line.starts_with("~~~") {
            fenced = !fenced;
        }
        let text = line.trim_start_matches('#');
        let level = line.len() - text.len();
        if !fenced && (1..=6).contains(&level) && text.starts_with(' ') {
            let text = text.trim().trim_end_matches('#').trim_end();
            if !text.is_empty() {
                return Some(text);
            }
        }
    }
    None
}

fn cut(text: &str) -> String {
    if text.chars().count() <= LONGEST_TITLE_CHARS {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(LONGEST_TITLE_CHARS - 1).collect();
    short.truncate(short.trim_end().len());
    short.push('…');
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_what_was_given_or_the_first_heading_or_the_first_line() {
        let check = |given: Option<&str>, prompt: &str, expected: &str| {
            assert_eq!(title(given, prompt), expected, "{given:?} {prompt:?}");
        };
        check(Some("Given"), "# Heading", "Given");
        check(Some("  two\n lines "), "x", "two lines");
        check(Some(" "), "# Heading", "Heading");
        check(None, "intro\n\n## Heading ##\ntext", "Heading");
        check(None, "```\n# not this\n```\n# this", "this");
        check(None, "#hashtag first\nsecond", "#hashtag first");
        check(None, "\n\n  first line  \nsecond", "first line");
        check(None, "a\u{1b}[31mred", "a [31mred");
        check(None, "", "");
        let long = "é".repeat(100);
        assert_eq!(title(None, &long).chars().count(), 72);
        assert!(title(None, &long).ends_with('…'));
    }
}
