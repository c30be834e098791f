//! Small file helpers used by several modules.

use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

/// The last `len` bytes of a file as text; empty if it cannot be read.
pub(crate) fn end_of(path: &Path, len: u64) -> String {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = std::fs::File::open(path)?;
        let size = file.metadata()?.len();
        file.seek(SeekFrom::Start(size.saturating_sub(len)))?;
        let mut bytes = Vec::new();
        file.take(len).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    String::from_utf8_lossy(&read().unwrap_or_default()).into_owned()
}
