//! Whole stores: copied to another place, checked, dumped, loaded, migrated.

use std::fs::File;
use std::io::{BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use regatta_store::postgres::PostgresStore;
use regatta_store::sqlite::SqliteStore;
use regatta_store::transfer::{self, Kind, Transfer};
use regatta_store::zookeeper::ZookeeperStore;
use regatta_store::{Existing, Missing, Store, StoreError};

use crate::documents::{
    LossAcceptedDocument, RecordsDocument, StoreCheckDocument, StoreCopiedDocument, StoreLoadedDocument,
    StoreMigratedDocument, ViolationDocument,
};
use crate::project::{Project, ProjectOptions, expand_home, no_project};
use crate::refusal::{Refusal, RefusalKind};

/// Hears how many records of a kind were written.
pub type Progress<'a> = &'a (dyn Fn(Kind, u64) + Send + Sync);

/// Copies everything in one store to another, which must be empty or an unfinished copy of the same, and marks the first
/// as moved unless `keep` is set.
pub async fn copy(
    options: &ProjectOptions,
    from: &str,
    to: &str,
    keep: bool,
    progress: Progress<'_>,
) -> Result<StoreCopiedDocument, Refusal> {
    let from = source(options, from).await?;
    // Before the target is opened: that may create it.
    transfer::refuse_copy(from.as_ref(), exists(options, to).await?, keep).await.map_err(refused)?;
    let to = target(options, to).await?;
    let copied = transfer::copy(from.as_ref(), to.as_ref(), keep, progress).await.map_err(refused)?;
    Ok(StoreCopiedDocument {
        from: movable(&from)?.address(),
        to: movable(&to)?.address(),
        resumed: copied.resumed,
        moved: !keep,
        records: RecordsDocument::of(&copied.sums),
    })
}

/// Lets a store be used again whose move was not finished. Returns its address.
pub async fn undo_copy(options: &ProjectOptions, from: &str) -> Result<String, Refusal> {
    let from = source(options, from).await?;
    transfer::undo(from.as_ref()).await.map_err(refused)?;
    Ok(movable(&from)?.address())
}

impl Project {
    /// Verifies everything in the store.
    pub async fn check_store(&self) -> Result<StoreCheckDocument, Refusal> {
        let store = self.whole_store().await?;
        let checked = transfer::check(movable(&store)?).await.map_err(refused)?;
        let violations = checked.violations.into_iter();
        Ok(StoreCheckDocument {
            store: store.describe(),
            ok: checked.count == 0,
            count: checked.count,
            violations: violations
                .map(|found| ViolationDocument { record: found.record, problem: found.problem })
                .collect(),
            records: RecordsDocument::of(&checked.sums),
        })
    }

    /// Writes everything in the store to `out`.
    pub async fn dump_store(&self, out: &mut (dyn Write + Send)) -> Result<Vec<RecordsDocument>, Refusal> {
        let store = self.whole_store().await?;
        let dumped = transfer::dump(store.as_ref(), out).await.map_err(refused)?;
        Ok(RecordsDocument::of(&dumped.sums))
    }

    /// Fills the store, which must be empty, from a dump.
    pub async fn load_store(
        &self,
        file: &Path,
        progress: Progress<'_>,
    ) -> Result<StoreLoadedDocument, Refusal> {
        let opened = File::open(file).map_err(|error| Refusal::io("reading", file, &error))?;
        if !opened.metadata().is_ok_and(|meta| meta.is_file()) {
            return Err(Refusal::usage(format!("{} is not a file", file.display()))
                .hinted("save the dump in a file first: it is read twice"));
        }
        drop(opened);
        if self.store_url.starts_with("sqlite:") {
            self.make_state_dir()?;
        }
        let store = regatta_store::open_marked(&self.store_url).await.map_err(refused)?;
        let open = || File::open(file).map(|file| BufReader::with_capacity(1 << 20, file));
        let loaded = transfer::load(store.as_ref(), &open, progress).await.map_err(|error| match error {
            StoreError::Invalid(why) => Refusal::usage(format!("{}: {why}", file.display()))
                .hinted("nothing was changed; use a complete file that `regatta store dump` has written"),
            error => refused(error),
        })?;
        Ok(StoreLoadedDocument {
            file: file.display().to_string(),
            store: store.describe(),
            records: RecordsDocument::of(&loaded.sums),
        })
    }

    /// Brings the schema of the store to this program's version.
    pub async fn migrate_store(&self) -> Result<StoreMigratedDocument, Refusal> {
        let (before, _) = self.store_versions().await?;
        let store = self.create_store().await?;
        let (version, _) = self.store_versions().await?;
        Ok(StoreMigratedDocument { store: store.describe(), before, version })
    }

    /// The SQL that an administrator runs instead.
    pub async fn migration_script(&self) -> Result<String, Refusal> {
        if self.store_url.starts_with("sqlite:") {
            return Err(Refusal::usage("there is no SQL to print for a SQLite store").hinted(
                "`regatta store migrate` migrates it; name a PostgreSQL store with --store to print its SQL",
            ));
        }
        if self.is_in_zookeeper() {
            return Err(Refusal::usage("there is no SQL to print for a store in ZooKeeper").hinted(
                "`regatta store migrate` brings its layout to this version; name a PostgreSQL store with --store to \
                 print its SQL",
            ));
        }
        PostgresStore::migration_script(&self.store_url).await.map_err(refused)
    }

    /// Declares everything from before a loss as invalid; refuses that while sessions are open, unless `anyway`.
    pub async fn accept_loss(&self, anyway: bool) -> Result<LossAcceptedDocument, Refusal> {
        let store = self.whole_store().await?;
        let open = store.sessions().await?;
        if !open.is_empty() && !anyway {
            let named = open.iter().map(|session| format!("{} on {}", session.node.what, session.node.node));
            let named = named.collect::<Vec<_>>().join(", ");
            return Err(Refusal::refused(format!("sessions are open: {named}")).hinted(
                "stop their machines, then repeat it with --yes, which ends the sessions of those that crashed",
            ));
        }
        let now = regatta_engine::clock::now();
        let (era, ended) = transfer::accept_loss(store.as_ref(), now).await.map_err(refused)?;
        let ended = ended.iter().map(|session| format!("{} on {}", session.node.what, session.node.node));
        Ok(LossAcceptedDocument { store: store.describe(), era, ended: ended.collect() })
    }

    fn is_in_zookeeper(&self) -> bool {
        ["zookeeper://", "zk://"].iter().any(|scheme| self.store_url.starts_with(scheme))
    }

    async fn store_versions(&self) -> Result<(usize, usize), Refusal> {
        let versions = match self.store_url.strip_prefix("sqlite:") {
            Some(path) => SqliteStore::versions(path),
            None if self.is_in_zookeeper() => ZookeeperStore::versions(&self.store_url).await,
            None => PostgresStore::versions(&self.store_url).await,
        };
        versions.map_err(refused)
    }

    /// The store, even if it is marked.
    async fn whole_store(&self) -> Result<Arc<dyn Store>, Refusal> {
        if !self.has_store() {
            return Err(Refusal::not_found(format!("there is no store at {} yet", self.store_url))
                .hinted("`regatta run PLAN` and `regatta init` create one"));
        }
        existing(&self.store_url).await?.map_err(no_project)
    }
}

/// The store at an address, even if it is marked.
async fn existing(url: &str) -> Result<Result<Arc<dyn Store>, Missing>, Refusal> {
    match regatta_store::open_existing(url, true).await.map_err(refused)? {
        Existing::Store(store) => Ok(Ok(store)),
        Existing::Missing(missing) => Ok(Err(missing)),
    }
}

/// Whether there is a store at an address.
async fn exists(options: &ProjectOptions, address: &str) -> Result<bool, Refusal> {
    match resolved(options, address)? {
        Address::File(path) => Ok(path.try_exists().unwrap_or(true)),
        Address::Url(url) => Ok(existing(&url).await?.is_ok()),
    }
}

fn movable(store: &Arc<dyn Store>) -> Result<&dyn Transfer, Refusal> {
    transfer::of(store.as_ref()).map_err(refused)
}

/// A store that must exist.
async fn source(options: &ProjectOptions, address: &str) -> Result<Arc<dyn Store>, Refusal> {
    let address = resolved(options, address)?;
    if let Address::File(path) = &address
        && !path.try_exists().unwrap_or(true)
    {
        return Err(Refusal::not_found(format!("there is no store at {}", path.display())).hinted(
            "name an existing store: sqlite:PATH, postgres://USER@HOST/DATABASE or zookeeper://HOST/CHROOT",
        ));
    }
    existing(&address.url()).await?.map_err(no_project)
}

/// A store that may have to be created.
async fn target(options: &ProjectOptions, address: &str) -> Result<Arc<dyn Store>, Refusal> {
    let address = resolved(options, address)?;
    if let (Address::File(path), Ok(project)) = (&address, Project::look(options))
        && path.starts_with(&project.repo.state_dir)
    {
        project.make_state_dir()?;
    }
    regatta_store::open_marked(&address.url()).await.map_err(refused)
}

enum Address {
    File(PathBuf),
    Url(String),
}

impl Address {
    fn url(&self) -> String {
        match self {
            Address::File(path) => format!("sqlite:{}", path.display()),
            Address::Url(url) => url.clone(),
        }
    }
}

/// An address as the user writes it: a path from here, or `sqlite` for the store in the project's own directory.
fn resolved(options: &ProjectOptions, text: &str) -> Result<Address, Refusal> {
    if text == "sqlite" {
        let project = Project::look(options)?;
        return Ok(Address::File(project.repo.state_dir.join("regatta.db")));
    }
    if text.contains("://") {
        return Ok(Address::Url(text.to_owned()));
    }
    let path = text.strip_prefix("sqlite:").unwrap_or(text);
    if path.is_empty() {
        return Err(Refusal::usage(format!("{text:?} names no file"))
            .hinted("name a store: sqlite:PATH, postgres://USER@HOST/DATABASE or zookeeper://HOST/CHROOT"));
    }
    let path = std::path::absolute(expand_home(path));
    path.map(Address::File).map_err(|error| Refusal::io("finding", Path::new(text), &error))
}

/// An error of the store, whose next step comes after its first semicolon.
pub(crate) fn refused(error: StoreError) -> Refusal {
    match &error {
        StoreError::Refused(why) | StoreError::Conflict(why) => match why.split_once("; ") {
            Some((why, step)) => Refusal::new(RefusalKind::Refused, why).hinted(step),
            None => error.into(),
        },
        _ => error.into(),
    }
}
