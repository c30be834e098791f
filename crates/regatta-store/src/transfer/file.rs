//! A store as a file: a header, the lines, and an end that says how many there are and what their hashes are.

use std::io::{BufRead, Write};

use serde_json::{Map, Value, json};

use super::copy::{Filling, abandon, finish, prepare, restart};
use super::{Kind, Line, Mark, Place, Summing, Sums, Transfer, of, sums};
use crate::program::program;
use crate::{Result, Store, StoreError};

/// The version of the format.
const FORMAT: u64 = 1;

/// Lines that are imported at once.
const PAGE: usize = 500;

/// The longest line that is read: a spec has at most 900 KiB, and its escapes take some more.
const LONGEST: u64 = 16 << 20;

/// How the mark of an unfinished copy begins that comes from a dump.
const DUMP: &str = "a dump with SHA-256 ";

/// What was written or read.
#[derive(Clone, Debug)]
pub struct Dumped {
    /// The lines.
    pub sums: Sums,
}

/// Writes the whole store, as of one moment. Others may write to it meanwhile.
pub async fn dump(store: &dyn Store, out: &mut (dyn Write + Send)) -> Result<Dumped> {
    let source = of(store)?;
    let failed = |error: std::io::Error| StoreError::Unavailable(format!("cannot write the dump: {error}"));
    let header =
        json!({"regatta": "store", "format": FORMAT, "program": program(), "from": source.address()});
    writeln!(out, "{header}").map_err(failed)?;
    let mut summing = Summing::default();
    let mut pages = source.export(Place::START).await?;
    while let Some(page) = pages.recv().await {
        for line in page? {
            let text = line.to_string();
            writeln!(out, "{text}").map_err(failed)?;
            summing.add_text(line.kind(), &text);
        }
    }
    let sums = summing.sums();
    writeln!(out, "{}", json!({"end": by_name(&sums)})).map_err(failed)?;
    out.flush().map_err(failed)?;
    Ok(Dumped { sums })
}

fn by_name(sums: &Sums) -> Value {
    let sums = sums
        .iter()
        .map(|(kind, sum)| (kind.name().to_owned(), json!({"count": sum.count, "sha256": sum.sha256})));
    Value::Object(sums.collect())
}

/// Fills an empty store from a dump. `open` opens the dump from its beginning; it is read as a whole before anything is
/// changed, and then again.
pub async fn load<R: BufRead + Send>(
    store: &dyn Store,
    open: &(dyn Fn() -> std::io::Result<R> + Send + Sync),
    progress: &(dyn Fn(Kind, u64) + Send + Sync),
) -> Result<Dumped> {
    let target = of(store)?;
    let opened = || open().map_err(|error| invalid(0, &format!("it cannot be opened: {error}")));
    let (expected, digest) = read(opened()?)?;
    let from = format!("{DUMP}{digest}");
    match target.mark().await? {
        // A dump has no places to continue from, and reading it again is quick. Of another dump nothing is needed.
        Some(Mark::Copying { from: other, .. }) if is_dump(&other) => restart(target, &from).await?,
        _ => drop(prepare(target, &from).await?),
    }
    let filled = match opened() {
        Ok(dump) => fill(target, &from, dump, &expected, progress).await,
        Err(error) => Err(error),
    };
    match filled {
        // The dump does not fit together, and never will.
        Err(error @ StoreError::Invalid(_)) => {
            abandon(target, &from).await?;
            return Err(error);
        }
        filled => filled?,
    }
    finish(target).await?;
    Ok(Dumped { sums: expected })
}

/// Whether an unfinished copy of this is that of a dump.
pub(super) fn is_dump(from: &str) -> bool {
    from.starts_with(DUMP)
}

async fn fill(
    target: &dyn Transfer,
    from: &str,
    dump: impl BufRead + Send,
    expected: &Sums,
    progress: &(dyn Fn(Kind, u64) + Send + Sync),
) -> Result<()> {
    let mut filling = Filling::new(target, from).await?;
    let mut reader = Reader::new(dump)?;
    let mut page = Vec::new();
    loop {
        let line = reader.next()?;
        let is_last = line.is_none();
        page.extend(line);
        if page.len() >= PAGE || is_last {
            filling.add(std::mem::take(&mut page), progress).await?;
        }
        if is_last {
            break;
        }
    }
    if sums(target).await? != *expected {
        return Err(invalid(0, "the file was changed while it was read; run the same command again"));
    }
    Ok(())
}

/// Reads a dump to its end: its sums, and the hash of all of it.
fn read(dump: impl BufRead) -> Result<(Sums, String)> {
    use sha2::Digest as _;
    let mut reader = Reader::new(dump)?;
    let mut hash = sha2::Sha256::new();
    while let Some(line) = reader.next()? {
        hash.update(line.to_string().as_bytes());
    }
    Ok((reader.sums, regatta_core::hex::hex(&hash.finalize())))
}

/// The lines of a dump, verified as far as they were read.
struct Reader<R> {
    dump: R,
    /// The number of the last line that was read.
    at: u64,
    last: Option<Kind>,
    summing: Option<Summing>,
    /// Set at the end.
    sums: Sums,
}

impl<R: BufRead> Reader<R> {
    fn new(dump: R) -> Result<Self> {
        let mut reader =
            Self { dump, at: 0, last: None, summing: Some(Summing::default()), sums: Sums::new() };
        let header = reader.fields()?.ok_or_else(|| invalid(1, "the file is empty"))?;
        if header.get("regatta").and_then(Value::as_str) != Some("store") {
            return Err(invalid(1, "this is not the beginning of a dump by `regatta store dump`"));
        }
        if header.get("format").and_then(Value::as_u64) != Some(FORMAT) {
            let found = header.get("format").cloned().unwrap_or(Value::Null);
            return Err(invalid(
                1,
                &format!(
                    "the format is {found}, and this version reads {FORMAT}; use the version that wrote it"
                ),
            ));
        }
        Ok(reader)
    }

    /// The text of the next line; `None` at the end of the file.
    fn text(&mut self) -> Result<Option<String>> {
        let mut bytes = Vec::new();
        self.at += 1;
        let read = std::io::Read::take(&mut self.dump, LONGEST).read_until(b'\n', &mut bytes);
        read.map_err(|error| invalid(self.at, &format!("it cannot be read: {error}")))?;
        match bytes.pop() {
            None => Ok(None),
            Some(b'\n') => {
                let text = String::from_utf8(bytes).map_err(|_| invalid(self.at, "it is not UTF-8"))?;
                Ok(Some(text))
            }
            Some(_) if bytes.len() as u64 >= LONGEST - 1 => {
                Err(invalid(self.at, "it is too long for a record"))
            }
            Some(_) => Err(invalid(self.at, "the file ends in the middle of this line")),
        }
    }

    fn fields(&mut self) -> Result<Option<Map<String, Value>>> {
        let Some(text) = self.text()? else { return Ok(None) };
        let fields = serde_json::from_str(&text);
        fields.map(Some).map_err(|error| invalid(self.at, &format!("it is not a JSON object: {error}")))
    }

    /// The next line; `None` at the end, after which the sums are known and right.
    fn next(&mut self) -> Result<Option<Line>> {
        let Some(mut fields) = self.fields()? else {
            return Err(invalid(self.at, "the file ends before the end of the dump"));
        };
        if let Some(end) = fields.remove("end") {
            let sums = self.summing.take().unwrap_or_default().sums();
            if by_name(&sums) != end {
                return Err(invalid(
                    self.at,
                    "the lines before it are not those that the dump had: some were changed, lost or added",
                ));
            }
            if self.text()?.is_some() {
                return Err(invalid(self.at, "something follows the end of the dump"));
            }
            self.sums = sums;
            return Ok(None);
        }
        let line = Line::from_fields(fields).map_err(|why| invalid(self.at, &why))?;
        if self.last.is_some_and(|last| last > line.kind()) {
            return Err(invalid(
                self.at,
                &format!("a {} cannot come after a {}", line.kind(), self.last.unwrap_or(Kind::Session)),
            ));
        }
        self.last = Some(line.kind());
        if let Some(summing) = &mut self.summing {
            summing.add(&line);
        }
        Ok(Some(line))
    }
}

fn invalid(line: u64, why: &str) -> StoreError {
    StoreError::Invalid(if line == 0 { why.to_owned() } else { format!("line {line}: {why}") })
}
