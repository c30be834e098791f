//! Where to start in a log of which only the end is wanted.

use std::fs::File;
use std::io;
use std::path::Path;

use regatta_engine::process::read_past_holes;

const CHUNK: usize = 64 * 1024;

/// How far back to start in a log if only its last lines are wanted. An agent's line may become no line, one or many on
/// screen, and some can be understood only after earlier ones.
pub(super) struct Back {
    file: File,
    size: u64,
    window: u64,
}

impl Back {
    /// How many bytes the first try reads.
    const FIRST: u64 = 4 << 20;

    pub(super) fn new(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let size = file.metadata()?.len();
        Ok(Self { file, size, window: Self::FIRST })
    }

    /// Reads more with the next try.
    pub(super) fn further(&mut self) {
        self.window = self.window.saturating_mul(8);
    }

    /// The start of the first whole line to read.
    pub(super) fn begin(&self) -> io::Result<u64> {
        let mut at = self.size.saturating_sub(self.window);
        if at == 0 {
            return Ok(0);
        }
        let mut chunk = vec![0; CHUNK];
        loop {
            let (from, n) = read_past_holes(&self.file, &mut chunk, at)?;
            at = from;
            if n == 0 {
                return Ok(0);
            }
            if let Some(feed) = chunk[..n].iter().position(|byte| *byte == b'\n') {
                return Ok(at + feed as u64 + 1);
            }
            at += n as u64;
        }
    }
}
