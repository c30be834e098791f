//! Reads members and the holders of roles.

use std::time::Duration;

use regatta_core::crew::MemberName;
use tokio_postgres::Row;

use super::connection::Connection;
use super::rows::{parse_id, time};
use super::wire::{get, get_text, get_texts, get_u64};
use crate::crew::Member;
use crate::rules::record::Registered;
use crate::stored::{from_json, unreadable};
use crate::{Lander, Result, SessionId};

/// The columns that [`registered`] expects, of the alias `r`.
pub(super) const COLUMNS: &str = "r.name, r.role, r.session, r.lease_ms, r.since";

pub(super) fn parse(name: &str) -> Result<MemberName> {
    MemberName::parse(name).map_err(|error| unreadable(&format!("the name {name:?}"), error))
}

pub(super) fn registered(row: &Row, at: usize) -> Result<Registered> {
    let role = get_text(row, at + 1)?;
    Ok(Registered {
        name: parse(&get_text(row, at)?)?,
        role: role.parse().map_err(|error| unreadable(&format!("the role {role:?}"), error))?,
        session: SessionId(get_text(row, at + 2)?),
        lease_ms: get(row, at + 3)?,
        since: time(row, at + 4)?,
    })
}

pub(super) async fn members(db: &Connection) -> Result<Vec<Member>> {
    let sql = format!(
        "select {COLUMNS}, s.node, s.beat, s.ended is null, \
         array(select t.id from task t where t.session = r.session order by t.seq) \
         from member r join session s on s.id = r.session order by r.folded"
    );
    let mut members = Vec::new();
    for row in &db.rows(&sql, &[]).await? {
        let member = registered(row, 0)?;
        members.push(Member {
            name: member.name,
            role: member.role,
            session: member.session,
            lease: member.lease_ms.map(|millis| Duration::from_millis(millis.cast_unsigned())),
            since: member.since,
            node: from_json("a member's node", &get_text(row, 5)?)?,
            beat: get_u64(row, 6)?,
            is_there: get(row, 7)?,
            tasks: get_texts(row, 8)?.iter().map(|id| parse_id(id)).collect::<Result<_>>()?,
        });
    }
    Ok(members)
}

pub(super) async fn holder(db: &Connection, role: &str) -> Result<Option<Lander>> {
    let rows = db
        .rows(
            "select r.session, r.term from role r join session s on s.id = r.session \
             where r.role = $1 and s.ended is null",
            &[&role],
        )
        .await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let session = SessionId(get_text(row, 0)?);
    Ok(Some(Lander { role: role.to_owned(), session, term: get_u64(row, 1)? }))
}
