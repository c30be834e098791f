//! The operations of a transaction: how long they are, and how those of a long plan are written down.

use zookeeper_client::{Acls, Client, CreateMode, Error, MultiWriteError, MultiWriteResult};

use super::failure::failed;
use crate::{Result, StoreError};

/// The longest request that is sent. The server closes the connection on one of 1,048,576 bytes.
pub(super) const LONGEST: usize = 900_000;

/// Any version.
pub(super) const ANY: i32 = -1;

/// One operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Op {
    pub(super) kind: Kind,
    pub(super) path: String,
    pub(super) data: String,
    /// The version that the node must have, or [`ANY`].
    pub(super) version: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Check,
    Create,
    /// Creates a node whose name ends with the next number of its directory.
    Append,
    Set,
    Delete,
}

impl Op {
    fn new(kind: Kind, path: String, data: String, version: i32) -> Self {
        Self { kind, path, data, version }
    }

    pub(super) fn check(path: impl Into<String>, version: i32) -> Self {
        Self::new(Kind::Check, path.into(), String::new(), version)
    }

    pub(super) fn create(path: impl Into<String>, data: impl Into<String>) -> Self {
        Self::new(Kind::Create, path.into(), data.into(), ANY)
    }

    pub(super) fn append(prefix: impl Into<String>, data: impl Into<String>) -> Self {
        Self::new(Kind::Append, prefix.into(), data.into(), ANY)
    }

    pub(super) fn set(path: impl Into<String>, data: impl Into<String>, version: i32) -> Self {
        Self::new(Kind::Set, path.into(), data.into(), version)
    }

    pub(super) fn delete(path: impl Into<String>, version: i32) -> Self {
        Self::new(Kind::Delete, path.into(), String::new(), version)
    }

    /// How much of a request it takes: its header, its lengths and its list of permissions included.
    pub(super) fn size(&self, chroot: &str) -> usize {
        chroot.len() + self.path.len() + self.data.len() + 80
    }

    fn letter(&self) -> char {
        match self.kind {
            Kind::Check => 'k',
            Kind::Create => 'c',
            Kind::Append => 'a',
            Kind::Set => 's',
            Kind::Delete => 'd',
        }
    }
}

/// Operations as text.
pub(super) fn written(ops: &[Op]) -> String {
    let mut text = String::new();
    for op in ops {
        text.push_str(&format!("{} {} {} {}\n", op.letter(), op.path.len(), op.data.len(), op.version));
        text.push_str(&op.path);
        text.push_str(&op.data);
    }
    text
}

/// The operations of a text.
pub(super) fn read(text: &str) -> Result<Vec<Op>> {
    let mut ops = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let op = next(&mut rest);
        ops.push(op.ok_or_else(|| StoreError::Corrupt("a part of a long plan cannot be read back".into()))?);
    }
    Ok(ops)
}

fn next(rest: &mut &str) -> Option<Op> {
    let (header, body) = rest.split_once('\n')?;
    let mut fields = header.split(' ');
    let kind = match fields.next()? {
        "k" => Kind::Check,
        "c" => Kind::Create,
        "a" => Kind::Append,
        "s" => Kind::Set,
        "d" => Kind::Delete,
        _ => return None,
    };
    let (path, data): (usize, usize) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    let version = fields.next()?.parse().ok()?;
    let op = Op::new(kind, body.get(..path)?.into(), body.get(path..path + data)?.into(), version);
    *rest = body.get(path + data..)?;
    Some(op)
}

/// What became of a transaction.
#[derive(Debug)]
pub(super) enum Outcome {
    Done,
    /// Nothing is written: this operation could not be carried out.
    Failed(usize, Error),
}

/// Who may read and write the nodes: the user that creates them, or everybody where nobody is authenticated.
pub(super) fn acls(is_authenticated: bool) -> Acls<'static> {
    if is_authenticated { Acls::creator_all() } else { Acls::anyone_all() }
}

/// Carries out all of it or nothing.
pub(super) async fn carry_out(client: &Client, acls: Acls<'static>, ops: &[Op]) -> Result<Outcome> {
    Ok(send(client, acls, ops)?.await?.0)
}

/// Sends a transaction. Those that are sent one after the other are carried out in this order. The answer also says when
/// it was done, in milliseconds by the ensemble's clock, if the server tells.
pub(super) fn send<'a>(
    client: &'a Client,
    acls: Acls<'static>,
    ops: &[Op],
) -> Result<impl Future<Output = Result<(Outcome, Option<i64>)>> + Send + use<'a>> {
    let size: usize = ops.iter().map(|op| op.size(client.path())).sum();
    if size > LONGEST {
        return Err(StoreError::Invalid(format!(
            "the request takes {} KiB, more than the {} KiB that ZooKeeper accepts; make it in parts",
            size.div_ceil(1024),
            LONGEST / 1024
        )));
    }
    let (create, append) =
        (CreateMode::Persistent.with_acls(acls), CreateMode::PersistentSequential.with_acls(acls));
    let mut multi = client.new_multi_writer();
    for op in ops {
        let version = (op.version != ANY).then_some(op.version);
        let added = match op.kind {
            Kind::Check => multi.add_check_version(&op.path, op.version),
            Kind::Create => multi.add_create(&op.path, op.data.as_bytes(), &create),
            Kind::Append => multi.add_create(&op.path, op.data.as_bytes(), &append),
            Kind::Set => multi.add_set_data(&op.path, op.data.as_bytes(), version),
            Kind::Delete => multi.add_delete(&op.path, version),
        };
        added.map_err(failed)?;
    }
    let answer = multi.commit();
    Ok(async move {
        match answer.await {
            Ok(results) => {
                let times = results.iter().filter_map(|result| match result {
                    MultiWriteResult::SetData { stat } | MultiWriteResult::Create { stat, .. } => {
                        Some(stat.mtime)
                    }
                    _ => None,
                });
                // Some servers leave out the times of what was created.
                Ok((Outcome::Done, times.into_iter().find(|millis| *millis > 0)))
            }
            Err(MultiWriteError::OperationFailed { index, source }) => {
                Ok((Outcome::Failed(index, source), None))
            }
            Err(MultiWriteError::RequestFailed { source }) => Err(failed(source)),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::{ANY, Op, read, written};

    #[test]
    fn operations_come_back_as_they_were_written() {
        let ops = [
            Op::check("/gate", 3),
            Op::create("/t/a", "{\"x\":\"a\\nb ü\"}"),
            Op::append("/events/e-", "\n\n"),
            Op::set("/starts", "", ANY),
            Op::delete("/q/main/ready/x", ANY),
        ];
        assert_eq!(read(&written(&ops)).unwrap(), ops);
        assert!(read("c 3 1 0\n/t").is_err());
        assert!(read("what").is_err());
    }
}
