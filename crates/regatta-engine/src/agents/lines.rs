//! Splits chunks into lines, with a limit on the memory for one line.

/// Longest line passed on. Agents have been seen to print 1 MiB in one; the rest of a longer one is dropped.
pub const MAX_LINE: usize = 32 * 1024 * 1024;

/// Splits a byte stream into lines. A line beyond the limit is cut there, and its rest skipped.
#[derive(Debug)]
pub struct LineBuffer {
    held: Vec<u8>,
    max: usize,
}

impl Default for LineBuffer {
    fn default() -> Self {
        Self::with_max(MAX_LINE)
    }
}

impl LineBuffer {
    /// A buffer that holds at most `max` bytes.
    pub fn with_max(max: usize) -> Self {
        Self { held: Vec::new(), max }
    }

    /// Takes a chunk and calls `each` for every line that it completes.
    pub fn push(&mut self, chunk: &[u8], mut each: impl FnMut(&[u8])) {
        let mut rest = chunk;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let (line, after) = (&rest[..end], &rest[end + 1..]);
            if self.held.is_empty() {
                each(&line[..line.len().min(self.max)]);
            } else {
                self.hold(line);
                each(&self.held);
                self.held.clear();
                self.held.shrink_to(64 * 1024);
            }
            rest = after;
        }
        self.hold(rest);
    }

    /// The rest without a newline at the end of the stream, if any.
    pub fn finish(&mut self) -> Option<Vec<u8>> {
        (!self.held.is_empty()).then(|| std::mem::take(&mut self.held))
    }

    fn hold(&mut self, bytes: &[u8]) {
        let room = self.max.saturating_sub(self.held.len());
        self.held.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(chunks: &[&[u8]], max: usize) -> (Vec<String>, Option<Vec<u8>>) {
        let mut buffer = LineBuffer::with_max(max);
        let mut seen = Vec::new();
        for chunk in chunks {
            buffer.push(chunk, |line| seen.push(String::from_utf8_lossy(line).into_owned()));
        }
        (seen, buffer.finish())
    }

    #[test]
    fn lines_are_the_same_however_the_stream_is_cut() {
        let text = b"one\n\ntwo\nthree";
        for at in 0..text.len() {
            let (seen, left) = lines(&[&text[..at], &text[at..]], 100);
            assert_eq!(seen, ["one", "", "two"], "cut at {at}");
            assert_eq!(left.as_deref(), Some(&b"three"[..]));
        }
    }

    #[test]
    fn a_line_beyond_the_ceiling_is_cut_and_the_next_one_is_whole() {
        let (seen, left) = lines(&[b"abc", b"defgh", b"ijk\nnext\nabcdefgh\n"], 6);
        assert_eq!((seen, left), (vec!["abcdef".into(), "next".into(), "abcdef".into()], None));
    }
}
