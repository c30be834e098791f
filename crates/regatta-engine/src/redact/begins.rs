//! Where a secret could begin. Most text is skipped by one look at each pair of bytes.

use std::fmt;

use super::shapes::SHAPES;
use super::value::Value;

/// The pairs of bytes with which some value or shape begins. All are longer than two bytes.
#[derive(Clone)]
pub(super) struct Begins {
    /// One bit for each pair.
    pairs: Box<[u64; 1024]>,
    /// The first bytes of those pairs.
    first: [bool; 256],
}

impl Begins {
    pub(super) fn with(values: &[Value]) -> Self {
        let mut begins = Self { pairs: Box::new([0; 1024]), first: [false; 256] };
        for value in values {
            begins.add(value.bytes[0], value.bytes[1]);
        }
        for shape in &SHAPES {
            let [first, second, ..] = shape.prefix.as_bytes() else { continue };
            begins.add(*first, *second);
            if shape.keep_prefix {
                for first in [first.to_ascii_lowercase(), first.to_ascii_uppercase()] {
                    begins.add(first, second.to_ascii_lowercase());
                    begins.add(first, second.to_ascii_uppercase());
                }
            }
        }
        begins
    }

    fn add(&mut self, first: u8, second: u8) {
        let (word, bit) = place(first, second);
        self.pairs[word] |= bit;
        self.first[usize::from(first)] = true;
    }

    /// The first place from `at` on where something could begin; the end where there is none.
    pub(super) fn next_in(&self, data: &[u8], at: usize) -> usize {
        let rest = &data[at..];
        let found = rest.windows(2).position(|pair| {
            let (word, bit) = place(pair[0], pair[1]);
            self.pairs[word] & bit != 0
        });
        match (found, rest) {
            (Some(found), _) => at + found,
            // What follows the last byte is not known.
            (None, [.., last]) if self.first[usize::from(*last)] => data.len() - 1,
            _ => data.len(),
        }
    }
}

fn place(first: u8, second: u8) -> (usize, u64) {
    let pair = usize::from(first) << 8 | usize::from(second);
    (pair >> 6, 1 << (pair & 63))
}

impl fmt::Debug for Begins {
    /// Nothing of what secrets begin with.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Begins")
    }
}
