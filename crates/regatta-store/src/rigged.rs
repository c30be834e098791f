//! A store rigged for tests of the real program, by variables that only debug builds read.
//!
//! `REGATTA_TEST_CALLS=PATH`: each call appends a line with the process id and its name to that file.
//! `REGATTA_TEST_STORE_AWAY=PATH`: while that file exists, the store is unreachable.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

use crate::around::Layer;
use crate::{Result, Store, StoreError};

/// A store whose calls are recorded, and which can be away.
pub struct Rigged<S> {
    inner: S,
    record: Option<File>,
    away: Option<PathBuf>,
}

impl<S: Store> Rigged<S> {
    /// As the variables say; the store itself if they say nothing.
    pub fn by_variables(inner: S) -> Result<std::result::Result<Self, S>> {
        let (calls, away) =
            (std::env::var_os("REGATTA_TEST_CALLS"), std::env::var_os("REGATTA_TEST_STORE_AWAY"));
        if calls.is_none() && away.is_none() {
            return Ok(Err(inner));
        }
        let record = calls.map(|path| File::options().create(true).append(true).open(path)).transpose();
        let record = record.map_err(|error| StoreError::Invalid(format!("REGATTA_TEST_CALLS: {error}")))?;
        Ok(Ok(Self { inner, record, away: away.map(PathBuf::from) }))
    }
}

impl<S: Store> Layer for Rigged<S> {
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
        if let Some(mut record) = self.record.as_ref() {
            // One write per line: lines of several processes do not mix.
            let _uncounted = record.write_all(format!("{} {name}\n", std::process::id()).as_bytes());
        }
        if self.away.as_ref().is_some_and(|path| path.exists()) {
            return Err(StoreError::Unavailable("a test took it away".into()));
        }
        call().await
    }
}
