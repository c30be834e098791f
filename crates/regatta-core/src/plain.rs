//! Text that others wrote (agents, tasks, messages, file names, commits), made safe to display.
//!
//! Invariant: what these functions return contains nothing that a terminal would execute, and what [`markdown`] returns
//! contains no active Markdown.

use std::borrow::Cow;

/// `text` without control characters, colours and marks that change the writing direction; tabs and line feeds stay.
pub fn clean(text: &str) -> String {
    without_colours(text).chars().filter_map(visible).collect()
}

/// The same on one line.
pub fn clean_line(text: &str) -> String {
    let text = without_colours(text);
    text.chars().filter_map(visible).map(|c| if matches!(c, '\n' | '\t') { ' ' } else { c }).collect()
}

/// `text` with a space in place of each control character: for text that others show, in which a mark would not help.
pub fn spaced(text: &str) -> String {
    text.replace(char::is_control, " ")
}

/// The words of `text` on one line, one space between them, without control characters.
pub fn words(text: &str) -> String {
    spaced(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Two clauses as one sentence: `first; second`, without the full stop of the first.
pub fn joined(first: &str, second: &str) -> String {
    let first = first.trim_end();
    let open = first.strip_suffix('.').filter(|rest| !rest.ends_with('.')).unwrap_or(first);
    format!("{open}; {second}")
}

/// How a character is displayed: as itself, not at all, or as a replacement mark.
pub fn visible(c: char) -> Option<char> {
    match c {
        '\n' | '\t' => Some(c),
        '\r' => None,
        c if turns_writing(c) => None,
        // The rest of an escape sequence must not look like Regatta's own text, so its place is marked.
        c if c.is_control() => Some('\u{fffd}'),
        c => Some(c),
    }
}

/// Marks that change the writing direction, and with it what a reader sees.
pub fn turns_writing(c: char) -> bool {
    matches!(
        c,
        '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    )
}

/// The last `most` lines of `text`, cleaned; empty if nothing is visible.
pub fn last_lines(text: &str, most: usize) -> Vec<String> {
    let text = clean(text);
    let lines: Vec<&str> = text.trim_end().lines().collect();
    let from = lines.len().saturating_sub(most);
    lines[from..].iter().map(|line| line.trim_end().to_owned()).collect()
}

/// `text` on one line, for Markdown: it starts no table, tag, image, link or code.
pub fn markdown(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in clean_line(text).chars() {
        match c {
            '<' => escaped.push_str("&lt;"),
            '\\' | '`' | '[' | ']' | '|' => escaped.extend(['\\', c]),
            c => escaped.push(c),
        }
    }
    // Bare addresses would become links.
    escaped.replace("://", "&#58;//").replace("www.", "www&#46;")
}

/// Lines as a code block that nothing in them can end.
pub fn fenced(lines: &[String]) -> String {
    let longest = |line: &String| line.split(|c| c != '~').map(str::len).max().unwrap_or(0);
    let fence = "~".repeat(lines.iter().map(longest).max().unwrap_or(0).max(2) + 1);
    format!("{fence}text\n{}\n{fence}\n", lines.join("\n"))
}

/// Removes `ESC [ 1 ; 31 m` and the like: many programs print them, and they carry no information.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_obeys_is_left() {
        assert_eq!(clean("a\x1b[2Jb\tc\r\nd\u{9b}31m"), "a\u{fffd}[2Jb\tc\nd\u{fffd}31m");
        assert_eq!(clean("abc\u{202e}txt"), "abctxt");
        assert_eq!(clean("\x1b[1;31mError:\x1b[0m no\x1b[m \x1b[3"), "Error: no \u{fffd}[3");
        assert_eq!(clean_line("one\ntwo\tthree"), "one two three");
        assert_eq!(clean_line("\x1b]0;evil\x07"), "\u{fffd}]0;evil\u{fffd}");
    }

    #[test]
    fn control_characters_become_spaces() {
        assert_eq!(spaced("a\x1b[2J\n b\u{9b}"), "a [2J  b ");
        assert_eq!(words(" a\n\tb \x07 c"), "a b c");
    }

    #[test]
    fn nothing_becomes_active_in_markdown() {
        let check = |text: &str, expected: &str| assert_eq!(markdown(text), expected, "{text}");
        check("<script>alert(1)</script>", "&lt;script>alert(1)&lt;/script>");
        check("![x](http://evil/x.png)", "!\\[x\\](http&#58;//evil/x.png)");
        check("\\[x](y)", "\\\\\\[x\\](y)");
        check("a | b\n# c", "a \\| b # c");
        check("see www.evil.com", "see www&#46;evil.com");
        check("`code`", "\\`code\\`");
    }

    #[test]
    fn a_block_ends_where_it_should() {
        assert_eq!(fenced(&["~~~~".into(), "<b>".into()]), "~~~~~text\n~~~~\n<b>\n~~~~~\n");
        assert_eq!(last_lines("a\nb\x07\nc\n\n", 2), ["b\u{fffd}", "c"]);
    }
}
