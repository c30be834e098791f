//! Lines and columns of places in a text.

use crate::diagnostic::Pos;

/// The beginnings of all lines of a text.
pub(super) struct Lines<'t> {
    text: &'t str,
    starts: Vec<usize>,
}

impl<'t> Lines<'t> {
    pub(super) fn of(text: &'t str) -> Self {
        let after = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        Self { text, starts: std::iter::once(0).chain(after).collect() }
    }

    /// The line of a byte, counted from 1.
    pub(super) fn line(&self, at: usize) -> usize {
        self.starts.partition_point(|start| *start <= at)
    }

    /// The line and the character of a byte.
    pub(super) fn pos(&self, at: usize) -> Pos {
        let line = self.line(at);
        let start = self.starts[line - 1];
        let before = self.text.get(start..at.min(self.text.len())).unwrap_or_default();
        Pos { line, column: before.chars().count() + 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_from_one_in_characters() {
        let text = "ab\nçd\n";
        let lines = Lines::of(text);
        let pos = |at| {
            let Pos { line, column } = lines.pos(at);
            (line, column)
        };
        assert_eq!(
            [pos(0), pos(2), pos(3), pos(5), pos(7), pos(99)],
            [(1, 1), (1, 3), (2, 1), (2, 2), (3, 1), (3, 1)]
        );
    }
}
