//! Reads messages and inboxes.

use regatta_core::crew::MemberName;
use tokio_postgres::Row;

use super::connection::Connection;
use super::members::parse;
use super::rows::{maybe_time, time};
use super::wire::{self, get, get_text, get_u64};
use crate::crew::{InboxQuery, Message};
use crate::rules::record::StoredMessage;
use crate::stored::from_json;
use crate::{RequestId, Result};

/// The columns that [`stored`] expects, of the alias `r`.
pub(super) const COLUMNS: &str = "r.request, r.at, r.author, r.kind, r.reply_to, r.body";

pub(super) fn stored(row: &Row, at: usize) -> Result<StoredMessage> {
    Ok(StoredMessage {
        request: RequestId(get_text(row, at)?),
        at: time(row, at + 1)?,
        author: parse(&get_text(row, at + 2)?)?,
        kind: from_json("a message's kind", &get_text(row, at + 3)?)?,
        reply_to: get::<Option<i64>>(row, at + 4)?.map(i64::cast_unsigned),
        text: get_text(row, at + 5)?,
    })
}

pub(super) async fn inbox(db: &Connection, name: &MemberName, wanted: &InboxQuery) -> Result<Vec<Message>> {
    let limit = if wanted.limit == 0 { i64::MAX } else { wire::stored(wanted.limit) };
    let sql = format!(
        "select r.seq, d.name, d.read_at, {COLUMNS} from delivery d join message r on r.seq = d.message \
         where d.folded = $1 and d.message > $2 and d.dismissed_at is null \
         and (not $3::boolean or d.read_at is null) order by d.message limit $4"
    );
    let rows = db.rows(&sql, &[&name.folded(), &wanted.after.cast_signed(), &wanted.unread, &limit]).await?;
    rows.iter().map(message).collect()
}

pub(super) async fn correspondence(db: &Connection, after: u64, limit: usize) -> Result<Vec<Message>> {
    let sql = format!(
        "select r.seq, d.name, d.read_at, {COLUMNS} from \
         (select * from message where seq > $1 order by seq desc limit $2) r \
         join delivery d on d.message = r.seq order by r.seq, d.folded"
    );
    let rows = db.rows(&sql, &[&after.cast_signed(), &wire::stored(limit)]).await?;
    rows.iter().map(message).collect()
}

fn message(row: &Row) -> Result<Message> {
    let stored = stored(row, 3)?;
    Ok(Message {
        id: get_u64(row, 0)?,
        at: stored.at,
        from: stored.author,
        to: parse(&get_text(row, 1)?)?,
        kind: stored.kind,
        text: stored.text,
        reply_to: stored.reply_to,
        read_at: maybe_time(row, 2)?,
    })
}
