//! What today cost: the store's sums, plus what running agents report that the store does not have yet.

use regatta_core::time::Timestamp;
use regatta_engine::clock::{self, Day};
use regatta_store::{SpendBy, SpendQuery, Spending};

use super::feed::Feed;
use super::model::{Model, Row, Spent};
use regatta_ops::Refusal;

/// What was used today, in local time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Today {
    /// The first instant of the day.
    pub(super) begins: Option<Timestamp>,
    pub(super) all: Spending,
    pub(super) by_agent: Vec<Spending>,
    pub(super) by_model: Vec<Spending>,
    pub(super) by_task: Vec<Spending>,
}

impl Model {
    /// Everything that was used today.
    pub(super) fn spent_today(&self) -> Spending {
        let mut sum = self.today.all.clone();
        self.unrecorded().for_each(|(_, more)| add(&mut sum, &more));
        sum
    }

    /// The same by agent, and by task.
    pub(super) fn spent_by_agent(&self) -> Vec<Spending> {
        self.with_unrecorded(&self.today.by_agent, |row| row.agent.clone())
    }

    pub(super) fn spent_by_task(&self) -> Vec<Spending> {
        self.with_unrecorded(&self.today.by_task, |row| row.id.to_string())
    }

    fn with_unrecorded(&self, sums: &[Spending], key: impl Fn(&Row) -> String) -> Vec<Spending> {
        let mut sums = sums.to_vec();
        for (row, more) in self.unrecorded() {
            let key = key(row);
            match sums.iter_mut().find(|sum| sum.key == key) {
                Some(sum) => add(sum, &more),
                None => {
                    let mut sum = Spending { key, attempts: 1, ..Spending::default() };
                    add(&mut sum, &more);
                    sums.push(sum);
                }
            }
        }
        sums
    }

    /// What running agents have used beyond the store's sums.
    fn unrecorded(&self) -> impl Iterator<Item = (&Row, Spent)> {
        self.rows.values().filter_map(|row| {
            let heard = row.heard.as_ref()?;
            let is_summed = |spent: &&Spent| spent.n == heard.n && spent.at >= self.today.begins;
            let known = row.spent.iter().find(is_summed).cloned().unwrap_or_default();
            let more = Spent {
                usd: (heard.usd - known.usd).max(0.0),
                tokens_in: heard.tokens_in.saturating_sub(known.tokens_in),
                tokens_out: heard.tokens_out.saturating_sub(known.tokens_out),
                ..heard.clone()
            };
            Some((row, more))
        })
    }
}

fn add(sum: &mut Spending, more: &Spent) {
    sum.usd += more.usd;
    sum.tokens_in += more.tokens_in;
    sum.tokens_out += more.tokens_out;
}

impl Feed {
    /// Gets today's sums from the store.
    pub(super) async fn sum_up(&mut self) -> Result<(), Refusal> {
        let begins = Some(Day::of(clock::now()).begins);
        let query = |by| SpendQuery { by, since: begins, ..SpendQuery::default() };
        let mut all = self.store.spending(&query(SpendBy::All)).await?;
        self.model.today = Today {
            begins,
            all: all.pop().unwrap_or_default(),
            by_agent: self.store.spending(&query(SpendBy::Agent)).await?,
            by_model: self.store.spending(&query(SpendBy::Model)).await?,
            by_task: self.store.spending(&query(SpendBy::Task)).await?,
        };
        Ok(())
    }
}
