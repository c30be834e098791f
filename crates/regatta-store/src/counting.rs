//! Records which calls reach a store: `REGATTA_TEST_CALLS=PATH` makes a debug build append a line with its process id
//! and the name of the call to that file, for each call.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use crate::around::Layer;
use crate::{Result, Store};

/// A store whose calls are recorded.
pub struct Counting<S> {
    inner: S,
    record: File,
}

impl<S: Store> Counting<S> {
    /// Appends to the file at `path`.
    pub fn new(inner: S, path: &Path) -> std::io::Result<Self> {
        Ok(Self { inner, record: File::options().create(true).append(true).open(path)? })
    }
}

impl<S: Store> Layer for Counting<S> {
    type Inner = S;

    fn inner(&self) -> &S {
        &self.inner
    }

    async fn pass<T, F, Fut>(&self, name: &'static str, call: F) -> Result<T>
    where
        T: Send,
        F: Fn() -> Fut + Send + Sync,
        Fut: Future<Output = Result<T>> + Send,
    {
        let line = format!("{} {name}\n", std::process::id());
        // One write per line: lines of several processes do not mix.
        let _uncounted = (&self.record).write_all(line.as_bytes());
        call().await
    }
}
