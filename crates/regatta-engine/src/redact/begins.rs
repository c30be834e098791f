//! Where a secret could begin. Nearly all text is skipped with one table lookup per position.

use std::fmt;

use super::shapes::SHAPES;
use super::value::Value;

/// The first three bytes of every value and shape. All are at least as long.
#[derive(Clone)]
pub(super) struct Begins {
    /// One bit for each hash of three bytes; there are few collisions.
    threes: Box<[u64; 1024]>,
    /// The first of those bytes.
    first: [bool; 256],
}

impl Begins {
    pub(super) fn with(values: &[Value]) -> Self {
        let mut begins = Self { threes: Box::new([0; 1024]), first: [false; 256] };
        for value in values {
            begins.add([value.bytes[0], value.bytes[1], value.bytes[2]]);
        }
        for shape in &SHAPES {
            let [a, b, c, ..] = *shape.prefix.as_bytes() else { continue };
            let cases = |byte: u8| {
                if shape.keep_prefix {
                    [byte.to_ascii_lowercase(), byte.to_ascii_uppercase()]
                } else {
                    [byte, byte]
                }
            };
            for first in cases(a) {
                for second in cases(b) {
                    for third in cases(c) {
                        begins.add([first, second, third]);
                    }
                }
            }
        }
        for sign in super::address::SIGNS {
            let [a, b, c, ..] = *sign.as_bytes() else { continue };
            begins.add([a, b, c]);
        }
        begins
    }

    fn add(&mut self, bytes: [u8; 3]) {
        let (word, bit) = place(bytes);
        self.threes[word] |= bit;
        self.first[usize::from(bytes[0])] = true;
    }

    /// The first position from `at` on where something could begin; the end if there is none.
    pub(super) fn next_in(&self, data: &[u8], at: usize) -> usize {
        let rest = &data[at..];
        let found = rest.windows(3).position(|three| {
            let (word, bit) = place([three[0], three[1], three[2]]);
            self.threes[word] & bit != 0
        });
        // What follows the last two is not known.
        let last =
            || (rest.len().saturating_sub(2)..rest.len()).find(|&at| self.first[usize::from(rest[at])]);
        at + found.or_else(last).unwrap_or(rest.len())
    }
}

fn place(bytes: [u8; 3]) -> (usize, u64) {
    let [a, b, c] = bytes.map(u32::from);
    let number = (a | b << 8 | c << 16).wrapping_mul(0x9e37_79b1) >> 16;
    ((number >> 6) as usize, 1 << (number & 63))
}

impl fmt::Debug for Begins {
    /// Shows nothing of what secrets begin with.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Begins")
    }
}
