//! Opens the database file.
//!
//! Invariant: every writing connection uses write-ahead logging and `synchronous=FULL`, so that a returned commit
//! survives a power cut; and only the owner can read the file from its first byte on. No code here opens and closes the
//! database file itself once SQLite may have it open in this process: closing any descriptor of a file drops all POSIX
//! locks of the process on it.

use std::fs::{self, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::migrate;
use crate::model::random_hex;
use crate::{Result, StoreError};

/// The first SQLite without the bug that could corrupt a database when its log is reset.
const OLDEST_SQLITE: i32 = 3_051_003;

/// How long to wait for another process's transaction before returning [`StoreError::Busy`].
const BUSY: Duration = Duration::from_secs(10);

/// Whether a store with a mark may be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Marks {
    Refused,
    /// To move it, or to continue a copy.
    Accepted,
}

/// Creates what is missing, updates the schema, and returns the writing connection.
pub(super) fn writer(path: &Path, marks: Marks) -> Result<Connection> {
    let linked = rusqlite::version_number();
    if linked < OLDEST_SQLITE {
        return Err(StoreError::Corrupt(format!(
            "this program was linked with SQLite {}, which can corrupt its file; 3.51.3 or newer is needed",
            rusqlite::version()
        )));
    }
    create(path).map_err(|error| {
        StoreError::Unavailable(format!("cannot create the store {}: {error}", path.display()))
    })?;
    let mut db = connect(path)?;
    migrate::refuse_foreign(&db, path)?;
    if marks == Marks::Refused {
        migrate::refuse_marked(&db, path)?;
    }
    enter_wal(&db)?;
    db.pragma_update(None, "synchronous", "FULL")?;
    migrate::up(&mut db, path)?;
    Ok(db)
}

/// A read-only connection. [`writer`] must have opened the file before.
pub(super) fn reader(path: &Path) -> Result<Connection> {
    let db = connect(path)?;
    db.pragma_update(None, "query_only", true)?;
    Ok(db)
}

fn connect(path: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(path, flags)
        .map_err(|error| StoreError::Invalid(format!("cannot open the store {}: {error}", path.display())))?;
    db.busy_timeout(BUSY)?;
    db.set_prepared_statement_cache_capacity(128);
    // Query plans do not depend on bound values, so a statement is planned only once.
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(db)
}

/// Creates an empty file with mode 0600 if there is none. It appears under its name only after it was closed.
fn create(path: &Path) -> std::io::Result<()> {
    if path.try_exists()? {
        return Ok(());
    }
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        fs::create_dir_all(parent)?;
    }
    let mut aside = path.as_os_str().to_owned();
    aside.push(format!(".new-{}", random_hex()));
    let aside = PathBuf::from(aside);
    drop(OpenOptions::new().write(true).create_new(true).mode(0o600).open(&aside)?);
    let linked = fs::hard_link(&aside, path);
    fs::remove_file(&aside)?;
    match linked {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        linked => linked,
    }
}

/// Switching needs exclusive access to the file and does not wait for it, so it is retried.
fn enter_wal(db: &Connection) -> Result<()> {
    let deadline = Instant::now() + BUSY;
    loop {
        let mode: rusqlite::Result<String> = db
            .pragma_query_value(None, "journal_mode", |row| row.get(0))
            .and_then(|mode: String| match mode.as_str() {
                "wal" => Ok(mode),
                _ => db.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0)),
            });
        match mode.map_err(StoreError::from) {
            Ok(mode) if mode == "wal" => return Ok(()),
            Ok(mode) => {
                return Err(StoreError::Invalid(format!(
                    "the store's file system does not allow write-ahead logging (journal mode is {mode}); \
                     put it on a local disk"
                )));
            }
            Err(StoreError::Busy(_) | StoreError::Unavailable(_)) if Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(error) => return Err(error),
        }
    }
}
