//! Counts repetitions instead of showing them.

use super::entry::{Entry, Tone};

/// Holds back what repeats the entry before, or the call before with its end.
#[derive(Debug, Default)]
pub(super) struct Fold {
    /// What was shown last: an entry, and its end if it is a call.
    last: Option<(Entry, Option<Entry>)>,
    times: u32,
    /// A call that begins like the last one; whether it ends like it is not known yet.
    held: Option<Entry>,
}

impl Fold {
    /// Shows `entry`, or counts it. `closes` marks the end of a call.
    pub(super) fn put(&mut self, entry: Entry, closes: bool, shown: &mut Vec<Entry>) {
        if let Some(held) = self.held.take() {
            let end = self.last.as_ref().and_then(|(_, end)| end.as_ref());
            if closes && end.is_some_and(|end| end.is_like(&entry)) {
                self.times += 1;
                return;
            }
            self.show(held, shown);
        }
        match &mut self.last {
            Some((begin, end)) if !closes && begin.is_like(&entry) => match end {
                None => self.times += 1,
                Some(_) => self.held = Some(entry),
            },
            Some((_, end @ None)) if closes && self.times == 1 => {
                *end = Some(entry.clone());
                shown.push(entry);
            }
            _ => self.show(entry, shown),
        }
    }

    /// Adds how often the last entry was repeated, and what is held back.
    pub(super) fn flush(&mut self, shown: &mut Vec<Entry>) {
        if self.times > 1 {
            let (indent, times) = (self.last.as_ref().map_or(0, |(entry, _)| entry.indent), self.times);
            let told = Entry::line("↻", Tone::Dim, format!("×{times}, the same each time"));
            shown.push(Entry { indent: indent + 1, ..told });
        }
        self.last = None;
        self.times = 0;
        shown.extend(self.held.take());
    }

    fn show(&mut self, entry: Entry, shown: &mut Vec<Entry>) {
        self.flush(shown);
        shown.push(entry.clone());
        self.last = Some((entry, None));
        self.times = 1;
    }
}
