//! The nodes that every store has, and the versions of their layout.
//!
//! Invariant: what a version adds and its number are written in one transaction, so that any number of processes may
//! start at once. A released version is never edited: a change becomes the next one. A version names what it adds, one
//! `create PATH` per line.

use std::borrow::Cow;

use zookeeper_client::{Client, Error};

use super::failure::failed;
use super::link::Link;
use super::ops::{self, Op, Outcome};
use super::paths::{OLDEST, SCHEMA};
use super::{bell, see, tasks};
use crate::program::{self, require_allowed, require_new_enough};
use crate::{NodeInfo, Result, StoreError};

/// What each version adds; the first is version 1.
const VERSIONS: &[&str] = &[include_str!("layout/0001.txt")];

/// Creates what is missing, and refuses what this version cannot use. A store with a mark keeps it.
pub(super) async fn up(link: &Link) -> Result<()> {
    let client = link.client().await?;
    let versions = program::migrations(VERSIONS)?;
    loop {
        let Some((found, node)) = version(&client, link).await? else {
            if !link.creates {
                return Err(StoreError::NotFound(link.address.shown()));
            }
            create(&client, link, &versions).await?;
            continue;
        };
        if found > versions.len() {
            require_allowed(&link.address.shown(), found, oldest(&client).await?.unwrap_or(0))?;
        }
        if found >= versions.len() {
            return link.sweep(&client).await;
        }
        migrate(&client, link, &versions, found, node).await?;
    }
}

/// The version of the layout, zero if there is none, and the one that this program knows.
pub(super) async fn versions(link: &Link) -> Result<(usize, usize)> {
    let client = link.client().await?;
    let found = version(&client, link).await?.map_or(0, |(found, _)| found);
    Ok((found, program::migrations(VERSIONS)?.len()))
}

/// The version of the layout, and of its node.
async fn version(client: &Client, link: &Link) -> Result<Option<(usize, i32)>> {
    let (text, stat) = match client.get_data(SCHEMA).await {
        Ok(found) => found,
        Err(Error::NoNode) => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let text = String::from_utf8_lossy(&text).into_owned();
    let found = text
        .parse()
        .map_err(|_| StoreError::Corrupt(format!("{} has a schema {text:?}", link.address.shown())))?;
    Ok(Some((found, stat.version)))
}

/// The oldest program that may use the store, if its node exists.
async fn oldest(client: &Client) -> Result<Option<u32>> {
    match client.get_data(OLDEST).await {
        // A number that cannot be read excludes this program.
        Ok((text, _)) => Ok(Some(String::from_utf8_lossy(&text).parse().unwrap_or(u32::MAX))),
        Err(Error::NoNode) => Ok(None),
        Err(error) => Err(failed(error)),
    }
}

/// What a version adds.
fn additions(version: &str) -> Result<Vec<Op>> {
    let lines = version.lines().filter(|line| !line.is_empty() && !line.starts_with("--"));
    let addition = |line: &str| match line.split_once(' ') {
        Some(("create", path)) if path.starts_with('/') => Ok(Op::create(path, "")),
        _ => Err(StoreError::Invalid(format!("a version of the store's layout says {line:?}"))),
    };
    lines.map(addition).collect()
}

async fn create(client: &Client, link: &Link, versions: &[Cow<'static, str>]) -> Result<()> {
    let others = client.list_children("/").await.map_err(failed)?;
    if !others.is_empty() && client.check_stat(SCHEMA).await.map_err(failed)?.is_none() {
        return Err(StoreError::Corrupt(format!(
            "{} has nodes of another program, such as {:?}; name a node of its own for the store",
            link.address.shown(),
            others.first().map_or("", String::as_str)
        )));
    }
    let mut all = vec![Op::create(SCHEMA, versions.len().to_string())];
    for version in versions {
        all.extend(additions(version)?);
    }
    all.push(Op::create(OLDEST, program::oldest_of_all(versions).to_string()));
    all.extend(bell::common_nodes().into_iter().map(|node| Op::create(node, "")));
    match ops::carry_out(client, link.acls(), &all).await? {
        // Or another process was faster.
        Outcome::Done | Outcome::Failed(0, Error::NodeExists) => Ok(()),
        Outcome::Failed(_, error) => Err(failed(error)),
    }
}

/// Adds what is missing since `found`, whose node has the version `node`.
async fn migrate(
    client: &Client,
    link: &Link,
    versions: &[Cow<'static, str>],
    found: usize,
    node: i32,
) -> Result<()> {
    let missing = &versions[found..];
    let needed = program::oldest_of_all(missing);
    if needed > 0 {
        require_new_enough(&open_nodes(link).await?, needed)?;
    }
    let mut all = vec![Op::set(SCHEMA, versions.len().to_string(), node)];
    all.push(match oldest(client).await? {
        Some(before) => Op::set(OLDEST, before.max(needed).to_string(), ops::ANY),
        None => Op::create(OLDEST, needed.to_string()),
    });
    for version in missing {
        all.extend(additions(version)?);
    }
    match ops::carry_out(client, link.acls(), &all).await? {
        // Or another process was faster.
        Outcome::Done | Outcome::Failed(0, Error::BadVersion) => Ok(()),
        Outcome::Failed(_, error) => Err(failed(error)),
    }
}

/// The processes that have a session.
async fn open_nodes(link: &Link) -> Result<Vec<NodeInfo>> {
    let sessions = see!(link, look => tasks::sessions(&look))?;
    Ok(sessions.into_iter().map(|session| session.node).collect())
}

#[cfg(test)]
mod tests {
    use super::{Op, additions};
    use crate::zookeeper::paths;

    #[test]
    fn the_layout_has_every_directory_that_records_need() {
        let all: Vec<Op> = super::VERSIONS.iter().flat_map(|version| additions(version).unwrap()).collect();
        for directory in paths::DIRECTORIES.into_iter().chain([paths::GATE]) {
            assert!(all.contains(&Op::create(directory, "")), "{directory}");
        }
        assert!(additions("create table x(y);").is_err());
    }
}
