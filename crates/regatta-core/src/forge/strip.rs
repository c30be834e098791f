//! Text from a forge without what people cannot see there.
//!
//! Invariant: [`strip`] is total, its result is at most as long as it says, and a second pass removes nothing.

mod html;
mod invisible;

use crate::time::counted;

pub use invisible::is_invisible;

/// Longest text of one issue, review or comment that an agent gets.
pub const LONGEST: usize = 64 * 1024;

/// A text without its hidden parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stripped {
    /// What people see.
    pub text: String,
    /// What was removed.
    pub removed: Hidden,
}

/// How much of a text people cannot see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hidden {
    /// HTML comments.
    pub comments: usize,
    /// Attributes of HTML tags, descriptions of images and targets that lead nowhere.
    pub markup: usize,
    /// Characters without a shape, and marks that change the writing direction.
    pub invisible: usize,
    /// Control characters and terminal sequences.
    pub controls: usize,
    /// Bytes beyond the limit.
    pub cut: usize,
}

impl Hidden {
    /// Whether nothing was removed.
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// What was removed, for people; empty if nothing was.
    pub fn summary(&self) -> String {
        let rows = [
            (self.comments, "hidden comment"),
            (self.markup, "hidden part of markup"),
            (self.invisible, "invisible character"),
            (self.controls, "control character"),
            (self.cut, "byte beyond the limit"),
        ];
        let named = |(n, thing): (usize, &str)| match thing {
            "hidden part of markup" if n != 1 => format!("{n} hidden parts of markup"),
            "byte beyond the limit" if n != 1 => format!("{n} bytes beyond the limit"),
            _ => counted(n, thing),
        };
        rows.into_iter().filter(|(n, _)| *n > 0).map(named).collect::<Vec<_>>().join(", ")
    }
}

/// Removes what people cannot see: HTML comments, attributes of tags, descriptions of images, invisible characters,
/// control characters; and what is beyond `most` bytes. What is written in a block of code stays as it is.
pub fn strip(text: &str, most: usize) -> Stripped {
    let mut removed = Hidden::default();
    // More than this is cut in any case, and a reader of markup must not take long.
    let bounded = before(text, most.saturating_mul(4));
    let mut text = invisible::without(bounded, &mut removed);
    // A removal can join what is left to another hidden part.
    loop {
        let next = html::without(&text, &mut removed);
        if next == text {
            break;
        }
        text = next;
    }
    let kept = before(&text, most).to_owned();
    removed.cut = text.len() - kept.len();
    Stripped { text: kept, removed }
}

/// The beginning of a text, at most `most` bytes, cut between characters.
pub(crate) fn before(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}
