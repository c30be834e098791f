//! One connection to the server.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::Poll;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_postgres::types::ToSql;
use tokio_postgres::{AsyncMessage, Client, Error, Row, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::address::Address;
use super::wire::{Param, get, get_text};
use crate::{Result, StoreError};

/// The oldest server that is known to work.
const OLDEST: i64 = 130_000;

/// The limits of every connection, and how its plans are made: tables without statistics must not be read whole for
/// one row.
const SETTINGS: &str = "set statement_timeout = '10s'; set lock_timeout = '5s'; \
    set idle_in_transaction_session_timeout = '5s'; set client_encoding = 'UTF8'; set jit = off; \
    set enable_seqscan = off; set enable_hashjoin = off; set enable_mergejoin = off";

/// A statement and its values.
pub(super) struct Query {
    pub(super) sql: String,
    pub(super) values: Vec<Param>,
}

/// The answer to one statement of several.
type Answer = std::result::Result<Vec<Row>, Error>;

/// A connection. Ends at once when it is dropped.
pub(super) struct Connection {
    client: Client,
    driver: JoinHandle<()>,
    statements: Mutex<HashMap<String, Statement>>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Connection {
    /// Connects. What the server announces is sent to `announced`.
    pub(super) async fn open(
        address: &Address,
        tls: &MakeRustlsConnect,
        announced: Option<mpsc::UnboundedSender<String>>,
    ) -> Result<Self> {
        let away = |error: Error| match StoreError::from(error) {
            StoreError::Unavailable(why) => StoreError::Unavailable(format!("{}: {why}", address.shown())),
            other => other,
        };
        let (client, mut wire) = if address.is_plain() {
            let (client, wire) = address.config.connect(tokio_postgres::NoTls).await.map_err(away)?;
            (client, Wire::Plain(Box::new(wire)))
        } else {
            let (client, wire) = address.config.connect(tls.clone()).await.map_err(away)?;
            (client, Wire::Tls(Box::new(wire)))
        };
        let driver = tokio::spawn(async move {
            while let Some(Ok(message)) = poll_fn(|context| wire.poll(context)).await {
                if let (AsyncMessage::Notification(notification), Some(announced)) = (message, &announced) {
                    // A listener that is gone needs no announcement.
                    let _gone = announced.send(notification.payload().to_owned());
                }
            }
        });
        let connection = Self { client, driver, statements: Mutex::default() };
        connection.examine(address).await?;
        let schema = &address.schema;
        connection.batch(&format!("{SETTINGS}; set search_path = {schema}")).await?;
        Ok(connection)
    }

    /// Refuses a server that would lose what it acknowledged, or that this program does not know.
    async fn examine(&self, address: &Address) -> Result<()> {
        let rows = self
            .client
            .query(
                "select current_setting('server_version_num')::bigint, pg_is_in_recovery(), \
                 current_setting('fsync'), current_setting('synchronous_commit'), \
                 current_setting('server_encoding')",
                &[],
            )
            .await?;
        let Some(row) = rows.first() else {
            return Err(StoreError::Unavailable("PostgreSQL does not describe itself".into()));
        };
        let shown = address.shown();
        let version: i64 = get(row, 0)?;
        let refused = |why: &str| Err(StoreError::Invalid(format!("the store {shown} {why}")));
        if version < OLDEST {
            return refused(&format!("is PostgreSQL {}; 13 or newer is needed", version / 10_000));
        }
        if get(row, 1)? {
            return Err(StoreError::Unavailable(format!(
                "{shown} is a standby, which takes no writes; name the primary server"
            )));
        }
        if get_text(row, 2)? == "off" {
            return refused("has fsync=off and would lose data in a crash; turn it on");
        }
        if get_text(row, 3)? == "off" {
            return refused("has synchronous_commit=off and would lose acknowledged writes; turn it on");
        }
        let encoding = get_text(row, 4)?;
        if encoding != "UTF8" {
            return refused(&format!("has the encoding {encoding}; create a database with UTF8"));
        }
        Ok(())
    }

    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Statements without values.
    pub(super) async fn batch(&self, sql: &str) -> Result<()> {
        Ok(self.client.batch_execute(sql).await?)
    }

    /// The rows of a query.
    pub(super) async fn rows(&self, sql: &str, values: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>> {
        let statement = self.prepared(sql).await?;
        Ok(self.client.query(&statement, values).await?)
    }

    /// The rows of a query as they arrive.
    pub(super) async fn stream(&self, query: &Query) -> Result<tokio_postgres::RowStream> {
        let statement = self.prepared(&query.sql).await?;
        let values = query.values.iter().map(|value| &**value as &(dyn ToSql + Sync));
        Ok(self.client.query_raw(&statement, values.collect::<Vec<_>>()).await?)
    }

    /// The rows of a query with values of its own.
    pub(super) async fn answer(&self, query: &Query) -> Result<Vec<Row>> {
        let statement = self.prepared(&query.sql).await?;
        Ok(self.query(&statement, &query.values).await?)
    }

    /// The rows of several queries, all of one moment, in one exchange.
    pub(super) async fn answers(&self, queries: &[Query]) -> Result<Vec<Vec<Row>>> {
        if let [query] = queries {
            return Ok(vec![self.answer(query).await?]);
        }
        let begin = "begin isolation level repeatable read, read only";
        let (answers, ended) = self.exchange(begin, queries, "commit", None).await?;
        let answers = answers.into_iter().collect::<std::result::Result<Vec<_>, _>>();
        if answers.is_err() {
            return Ok(answers?);
        }
        ended?;
        Ok(answers?)
    }

    /// Sends everything at once. Returns the answers to the queries, and to `end`; `afterwards` is not waited for.
    pub(super) async fn exchange(
        &self,
        begin: &str,
        queries: &[Query],
        end: &str,
        afterwards: Option<&str>,
    ) -> Result<(Vec<Answer>, std::result::Result<(), Error>)> {
        let mut statements = Vec::with_capacity(queries.len());
        for query in queries {
            statements.push(self.prepared(&query.sql).await?);
        }
        let mut answers: Vec<Option<Answer>> = Vec::new();
        answers.resize_with(queries.len(), || None);
        let mut begun = std::pin::pin!(self.client.batch_execute(begin));
        let mut begun_answer = None;
        let mut asked: Vec<Pin<Box<dyn Future<Output = _> + Send + '_>>> = Vec::new();
        for (statement, query) in statements.iter().zip(queries) {
            asked.push(Box::pin(self.query(statement, &query.values)));
        }
        let mut ended = std::pin::pin!(self.client.batch_execute(end));
        let mut last = std::pin::pin!(async {
            if let Some(sql) = afterwards {
                let _not_waited_for = self.client.batch_execute(sql).await;
            }
        });
        let (mut is_last_over, mut ended_answer) = (false, None);
        // Each is sent when it is polled first, so the order here is the order on the wire.
        let ended = poll_fn(|context| {
            if begun_answer.is_none()
                && let Poll::Ready(answer) = begun.as_mut().poll(context)
            {
                begun_answer = Some(answer);
            }
            for (future, answer) in asked.iter_mut().zip(&mut answers) {
                if answer.is_none()
                    && let Poll::Ready(ready) = future.as_mut().poll(context)
                {
                    *answer = Some(ready);
                }
            }
            if ended_answer.is_none()
                && let Poll::Ready(answer) = ended.as_mut().poll(context)
            {
                ended_answer = Some(answer);
            }
            if !is_last_over {
                is_last_over = last.as_mut().poll(context).is_ready();
            }
            if begun_answer.is_none() || answers.iter().any(Option::is_none) {
                return Poll::Pending;
            }
            ended_answer.take().map_or(Poll::Pending, Poll::Ready)
        })
        .await;
        if let Some(Err(error)) = begun_answer {
            return Err(error.into());
        }
        let unanswered = || StoreError::Unavailable("PostgreSQL left a statement unanswered".into());
        let answers: Option<Vec<_>> = answers.into_iter().collect();
        Ok((answers.ok_or_else(unanswered)?, ended))
    }

    async fn query(&self, statement: &Statement, values: &[Param]) -> std::result::Result<Vec<Row>, Error> {
        let values: Vec<&(dyn ToSql + Sync)> =
            values.iter().map(|value| &**value as &(dyn ToSql + Sync)).collect();
        self.client.query(statement, &values).await
    }

    /// The statement, prepared once for this connection.
    async fn prepared(&self, sql: &str) -> Result<Statement> {
        let known = self.statements.lock().unwrap_or_else(PoisonError::into_inner).get(sql).cloned();
        if let Some(statement) = known {
            return Ok(statement);
        }
        let statement = self.client.prepare(sql).await?;
        let mut statements = self.statements.lock().unwrap_or_else(PoisonError::into_inner);
        statements.insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }
}

type Plain = tokio_postgres::Connection<tokio_postgres::Socket, tokio_postgres::tls::NoTlsStream>;
type Tls = tokio_postgres::Connection<
    tokio_postgres::Socket,
    <MakeRustlsConnect as tokio_postgres::tls::MakeTlsConnect<tokio_postgres::Socket>>::Stream,
>;

/// The connection's end of the work, which has to be polled.
enum Wire {
    Plain(Box<Plain>),
    Tls(Box<Tls>),
}

impl Wire {
    fn poll(
        &mut self,
        context: &mut std::task::Context<'_>,
    ) -> Poll<Option<std::result::Result<AsyncMessage, Error>>> {
        match self {
            Wire::Plain(wire) => wire.poll_message(context),
            Wire::Tls(wire) => wire.poll_message(context),
        }
    }
}
