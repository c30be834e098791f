//! One store into another.
//!
//! Invariant: from the first line to the comparison nothing else writes to either store, unless the source stays in use,
//! and then a change of it is found by the comparison. A copy that was cut off continues where it stopped; a source that
//! has changed since is copied from its beginning.

use super::{Kind, Line, Mark, Place, Sums, Transfer, check, is_empty, of, sums};
use crate::{Result, Store, StoreError};

/// What was copied.
#[derive(Clone, Debug)]
pub struct Copied {
    /// The lines of both stores.
    pub sums: Sums,
    /// Whether it continued an earlier copy.
    pub resumed: bool,
}

/// Refuses a copy before its target is opened, and perhaps created: the source is in use, or has moved elsewhere.
pub async fn refuse_copy(from: &dyn Store, has_target: bool, keep: bool) -> Result<()> {
    match of(from)?.mark().await? {
        None if keep => Ok(()),
        None => refuse_engines(from).await,
        Some(Mark::Moving { .. }) if !keep => Ok(()),
        // Perhaps only the last step is missing.
        Some(Mark::Moved { .. }) if has_target => Ok(()),
        Some(mark) => Err(mark.refusal(&of(from)?.address())),
    }
}

/// Copies everything in `from` to `to`, compares both, and marks `from` as moved unless `keep` is set. `progress` hears
/// how many lines of a kind are there.
pub async fn copy(
    from: &dyn Store,
    to: &dyn Store,
    keep: bool,
    progress: &(dyn Fn(Kind, u64) + Send + Sync),
) -> Result<Copied> {
    let (source, target) = (of(from)?, of(to)?);
    let (from_address, to_address) = (source.address(), target.address());
    if from_address == to_address {
        return Err(StoreError::Invalid(format!("{from_address} cannot be copied to itself")));
    }
    let resumed = prepare(target, &from_address).await?;
    let sealed = match source.mark().await? {
        None if keep => None,
        None => {
            refuse_engines(from).await?;
            let moving = Mark::Moving { to: to_address.clone() };
            source.set_mark(None, Some(&moving)).await?;
            // One may have started before the mark.
            if let Err(error) = refuse_engines(from).await {
                source.set_mark(Some(&moving), None).await?;
                return Err(error);
            }
            Some(moving)
        }
        Some(moving @ Mark::Moving { .. }) if !keep => {
            let now = Mark::Moving { to: to_address.clone() };
            source.set_mark(Some(&moving), Some(&now)).await?;
            Some(now)
        }
        // Only the last step is missing.
        Some(Mark::Moved { to }) if to == to_address && resumed => None,
        Some(mark) => return Err(mark.refusal(&from_address)),
    };
    let copied = fill_and_check(source, target, &from_address, resumed, progress).await;
    let sums = match (copied, &sealed) {
        (Ok(sums), _) => sums,
        (Err(error), None) => return Err(error),
        (Err(error), Some(moving)) => {
            // Nothing has moved: the source can be used again.
            source.set_mark(Some(moving), None).await?;
            return Err(error);
        }
    };
    // The source first: at no moment can both be worked on.
    if let Some(moving) = &sealed {
        source.set_mark(Some(moving), Some(&Mark::Moved { to: to_address })).await?;
    }
    finish(target).await?;
    Ok(Copied { sums, resumed })
}

/// Whether the target is an unfinished copy of this source; if it is empty, it becomes one.
pub(super) async fn prepare(target: &dyn Transfer, from: &str) -> Result<bool> {
    match target.mark().await? {
        Some(Mark::Copying { from: other, .. }) if other == from => Ok(true),
        Some(mark) => Err(mark.refusal(&target.address())),
        None if is_empty(target).await? => {
            let mark = Mark::Copying { from: from.to_owned(), kind: Place::START.kind, done: 0 };
            target.set_mark(None, Some(&mark)).await?;
            Ok(false)
        }
        None => Err(StoreError::Refused(format!(
            "{} is not empty; name a store that does not exist yet",
            target.address()
        ))),
    }
}

/// The copy is complete.
pub(super) async fn finish(target: &dyn Transfer) -> Result<()> {
    let mark = target.mark().await?;
    target.set_mark(mark.as_ref(), None).await
}

async fn refuse_engines(from: &dyn Store) -> Result<()> {
    let open = from.sessions().await?;
    let engines = open.iter().filter(|session| !session.node.is_member());
    let names: Vec<String> =
        engines.map(|session| format!("{} on {}", session.node.what, session.node.node)).collect();
    if names.is_empty() {
        return Ok(());
    }
    Err(StoreError::Refused(format!(
        "{} is in use: {}; stop the daemon when its tasks have ended, with `regatta daemon stop --drain`, or let the run \
         end; `regatta reclaim` ends the sessions of processes that are gone",
        from.describe(),
        names.join(", ")
    )))
}

async fn fill_and_check(
    source: &dyn Transfer,
    target: &dyn Transfer,
    from: &str,
    resumed: bool,
    progress: &(dyn Fn(Kind, u64) + Send + Sync),
) -> Result<Sums> {
    let sums = fill_and_compare(source, target, from, resumed, progress).await?;
    let checked = check(target).await?;
    match checked.violations.first() {
        None => Ok(sums),
        Some(first) => Err(StoreError::Refused(format!(
            "{from} is damaged, and stays as it is: {} violations, first: {}: {}; `regatta store check` lists them",
            checked.count, first.record, first.problem
        ))),
    }
}

async fn fill_and_compare(
    source: &dyn Transfer,
    target: &dyn Transfer,
    from: &str,
    resumed: bool,
    progress: &(dyn Fn(Kind, u64) + Send + Sync),
) -> Result<Sums> {
    let is_filled = match fill(source, target, from, progress).await {
        // Its lines do not fit those that an earlier copy has left.
        Err(StoreError::Invalid(_)) if resumed => false,
        filled => filled.map(|()| true)?,
    };
    if is_filled {
        match compare(source, target).await {
            Err(StoreError::Conflict(_)) if resumed => {}
            compared => return compared,
        }
    }
    // The source was used between the two copies.
    restart(target, from).await?;
    fill(source, target, from, progress).await?;
    compare(source, target).await
}

/// Empties an unfinished copy, which then is one of `from`.
pub(super) async fn restart(target: &dyn Transfer, from: &str) -> Result<()> {
    let before @ Some(Mark::Copying { .. }) = target.mark().await? else {
        return Err(no_copy(target));
    };
    // The mark first: from then on no other process adds anything, or takes it for complete.
    let mark = Mark::Copying { from: from.to_owned(), kind: Place::START.kind, done: 0 };
    target.set_mark(before.as_ref(), Some(&mark)).await?;
    target.clear().await
}

/// Empties an unfinished copy, so that anything can be done with the store.
pub(super) async fn abandon(target: &dyn Transfer, from: &str) -> Result<()> {
    restart(target, from).await?;
    finish(target).await
}

fn no_copy(target: &dyn Transfer) -> StoreError {
    StoreError::Conflict(format!("{} is no longer a copy in the making", target.address()))
}

/// Copies what is missing.
async fn fill(
    source: &dyn Transfer,
    target: &dyn Transfer,
    from: &str,
    progress: &(dyn Fn(Kind, u64) + Send + Sync),
) -> Result<()> {
    let mut filling = Filling::new(target, from).await?;
    let mut pages = source.export(filling.place()).await?;
    while let Some(page) = pages.recv().await {
        filling.add(page?, progress).await?;
    }
    Ok(())
}

/// An unfinished copy that is being continued.
pub(super) struct Filling<'a> {
    target: &'a dyn Transfer,
    from: &'a str,
    mark: Mark,
    place: Place,
    #[cfg(debug_assertions)]
    pages: u64,
}

impl<'a> Filling<'a> {
    pub(super) async fn new(target: &'a dyn Transfer, from: &'a str) -> Result<Self> {
        match target.mark().await? {
            Some(mark @ Mark::Copying { kind, done, .. }) => Ok(Self {
                target,
                from,
                mark,
                place: Place { kind, done },
                #[cfg(debug_assertions)]
                pages: 0,
            }),
            _ => Err(no_copy(target)),
        }
    }

    /// How far it is.
    pub(super) fn place(&self) -> Place {
        self.place
    }

    /// Adds lines, of one kind or of several that follow each other.
    pub(super) async fn add(
        &mut self,
        mut lines: Vec<Line>,
        progress: &(dyn Fn(Kind, u64) + Send + Sync),
    ) -> Result<()> {
        while let Some(kind) = lines.first().map(Line::kind) {
            let next = lines.iter().position(|line| line.kind() != kind).unwrap_or(lines.len());
            let rest = lines.split_off(next);
            let before = if self.place.kind == kind { self.place.done } else { 0 };
            let done = before + u64::try_from(lines.len()).unwrap_or(u64::MAX);
            let after = Mark::Copying { from: self.from.to_owned(), kind, done };
            self.target.import(lines, &self.mark, &after).await?;
            (self.mark, self.place) = (after, Place { kind, done });
            progress(kind, done);
            self.die_if_asked();
            lines = rest;
        }
        Ok(())
    }

    /// In debug builds `REGATTA_TEST_COPY_DIES=N` kills the process after N pages.
    fn die_if_asked(&mut self) {
        #[cfg(debug_assertions)]
        {
            self.pages += 1;
            let wanted = std::env::var("REGATTA_TEST_COPY_DIES").ok();
            if wanted.is_some_and(|wanted| wanted == self.pages.to_string()) {
                let own = rustix::process::getpid();
                let _killed = rustix::process::kill_process(own, rustix::process::Signal::KILL);
            }
        }
    }
}

/// The lines of both stores, if they are the same; otherwise [`StoreError::Conflict`].
async fn compare(source: &dyn Transfer, target: &dyn Transfer) -> Result<Sums> {
    let (there, here) = (sums(source).await?, sums(target).await?);
    for kind in Kind::ALL {
        let (one, other) = (there.get(&kind), here.get(&kind));
        if one != other {
            let count = |sum: Option<&super::Sum>| sum.map_or(0, |sum| sum.count);
            return Err(StoreError::Conflict(format!(
                "the copy differs from {} in its records of kind {kind} ({} there, {} here); the source was changed \
                 meanwhile: run the same command again",
                source.address(),
                count(one),
                count(other)
            )));
        }
    }
    Ok(there)
}

/// Lets a source be used again whose move was not finished, and empties a target whose copy was not finished.
pub async fn undo(from: &dyn Store) -> Result<()> {
    let source = of(from)?;
    match source.mark().await? {
        Some(moving @ Mark::Moving { .. }) => source.set_mark(Some(&moving), None).await,
        // The source may be marked as moved: this may be all that can be used.
        Some(Mark::Copying { from, kind: Kind::Counters, .. }) if !super::file::is_dump(&from) => {
            Err(StoreError::Refused(format!(
                "{} has every record of {from}, which may have been marked as moved; finish the copy by running the same \
                 command again",
                source.address()
            )))
        }
        Some(Mark::Copying { from, .. }) => abandon(source, &from).await,
        Some(mark) => Err(mark.refusal(&source.address())),
        None => Err(StoreError::Refused(format!(
            "{} is not being moved; there is nothing to undo",
            source.address()
        ))),
    }
}
