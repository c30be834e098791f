//! Text that fits: widths are counted in terminal columns, not in characters.

use regatta_core::plain::{spaced, turns_writing};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// `text` on one line, at most `width` columns, without control characters.
pub(crate) fn fit(text: &str, width: usize) -> String {
    let clean = spaced(&text.replace(turns_writing, ""));
    if clean.width() <= width {
        return clean;
    }
    let mut fitted = String::new();
    let mut used = 0;
    for c in clean.chars() {
        let wide = c.width().unwrap_or(0);
        if used + wide + 1 > width {
            break;
        }
        used += wide;
        fitted.push(c);
    }
    fitted.push('…');
    fitted
}

/// One line of text as lines of at most `width` columns, broken between words if possible. Its indentation applies to
/// all of them.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let text = text.trim_end();
    if text.width() <= width {
        return vec![text.to_owned()];
    }
    let indent: String = text.chars().take_while(|c| *c == ' ').take(width / 2).collect();
    let room = width - indent.len();
    let mut lines = Vec::new();
    let (mut line, mut used) = (String::new(), 0);
    for word in text.trim_start().split(' ') {
        if used > 0 && used + 1 + word.width() > room {
            lines.push(std::mem::take(&mut line));
            used = 0;
        } else if used > 0 {
            line.push(' ');
            used += 1;
        }
        for c in word.chars() {
            let wide = c.width().unwrap_or(0);
            if used + wide > room {
                lines.push(std::mem::take(&mut line));
                used = 0;
            }
            line.push(c);
            used += wide;
        }
    }
    lines.push(line);
    lines.iter().map(|line| format!("{indent}{}", line.trim_end())).collect()
}

/// `text` fitted and padded to exactly `width` columns.
pub(crate) fn pad(text: &str, width: usize) -> String {
    let mut fitted = fit(text, width);
    let missing = width.saturating_sub(fitted.width());
    fitted.extend(std::iter::repeat_n(' ', missing));
    fitted
}

/// A table with aligned columns; the last column is not padded.
pub(crate) fn table<R: AsRef<[String]>>(header: &[&str], rows: &[R]) -> String {
    let columns = header.len();
    let mut widths: Vec<usize> = header.iter().map(|text| text.width()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row.as_ref()) {
            *width = (*width).max(cell.width());
        }
    }
    let mut text = String::new();
    let mut line = |cells: &mut dyn Iterator<Item = &str>| {
        for (n, cell) in cells.take(columns).enumerate() {
            if n + 1 == columns {
                text.push_str(cell);
            } else if cell.contains(char::is_control) {
                text.push_str(&pad(cell, widths[n]));
                text.push_str("  ");
            } else {
                text.push_str(cell);
                text.extend(std::iter::repeat_n(' ', widths[n].saturating_sub(cell.width()) + 2));
            }
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    };
    line(&mut header.iter().copied());
    for row in rows {
        line(&mut row.as_ref().iter().map(String::as_str));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_by_columns_and_cannot_move_the_cursor() {
        assert_eq!(fit("short", 10), "short");
        assert_eq!(fit("a much longer line", 8), "a much …");
        assert_eq!(fit("日本語のタスク", 7), "日本語…");
        assert_eq!(fit("evil\x1b[2Jtext\n", 40), "evil [2Jtext ");
        assert_eq!(pad("日本", 6), "日本  ");
    }

    #[test]
    fn text_is_broken_between_words_and_only_there_where_it_can_be() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("  - an item of a list", 12), ["  - an item", "  of a list"]);
        assert_eq!(wrap("https://example.org/long", 10), ["https://ex", "ample.org/", "long"]);
        assert_eq!(wrap("日本語のタスク", 5), ["日本", "語の", "タス", "ク"]);
        assert_eq!(wrap("", 5), [""]);
    }

    #[test]
    fn columns_of_a_table_line_up() {
        let rows = [["a".to_owned(), "x y".to_owned()], ["longer".to_owned(), String::new()]];
        assert_eq!(table(&["ID", "WHY"], &rows), "ID      WHY\na       x y\nlonger\n");
    }
}
