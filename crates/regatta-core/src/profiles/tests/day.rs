//! Simulated days of limits: accounts whose quotas are refilled on a schedule, tasks that use them up, busy minutes in
//! between, and accounts that are refused for good.

use proptest::prelude::*;

use super::*;

/// How long an agent works on one part of a task, in seconds.
const PART: i64 = 420;
/// How long a busy server asks every agent to wait.
const BUSY: i64 = 90;

/// An account with a quota of parts that is reset at every multiple of its period.
#[derive(Clone, Debug)]
struct Account {
    standing: AccountStanding,
    quota: u32,
    period: i64,
    /// The rest of the quota, and its period.
    left: u32,
    window: i64,
    /// The time from which its provider refuses it.
    refused_from: i64,
}

/// A task with a number of parts.
#[derive(Clone, Debug)]
struct Job {
    id: TaskId,
    parts: u32,
    /// Parts in its conversation; never fewer than were done.
    told: u32,
    done: u32,
    holder: Option<String>,
    /// When it acts next.
    wakes: i64,
    runs_with: Option<usize>,
    /// The account it waits for, and how often that had been used by then.
    waits_for: Option<(String, u64)>,
}

#[derive(Debug)]
struct World {
    accounts: Vec<Account>,
    jobs: Vec<Job>,
    workers: usize,
    /// Which parts end in a busy minute, repeated as a pattern.
    busy: Vec<bool>,
    n_parts: usize,
    now: i64,
}

impl World {
    fn running(&self) -> usize {
        self.jobs.iter().filter(|job| job.runs_with.is_some()).count()
    }

    /// Advances time until every task has all its parts. Returns the seconds this took.
    fn settle(&mut self) -> i64 {
        for _ in 0..100_000 {
            let open = self.jobs.iter().enumerate().filter(|(_, job)| job.done < job.parts);
            // A task that ends makes room for one that starts at the same moment.
            let next = open.min_by_key(|(at, job)| (job.wakes, job.runs_with.is_none(), *at));
            let Some((at, job)) = next.map(|(at, job)| (at, job.clone())) else { return self.now };
            assert!(job.wakes >= self.now, "time goes on");
            self.now = job.wakes;
            match job.runs_with {
                Some(account) => self.end(at, account),
                None if self.running() >= self.workers => {
                    let ends = self.jobs.iter().filter(|job| job.runs_with.is_some()).map(|job| job.wakes);
                    self.jobs[at].wakes = ends.min().expect("somebody is at work");
                    self.jobs[at].waits_for = None;
                }
                None => self.start(at),
            }
        }
        panic!("nothing moves any more: {self:#?}");
    }

    fn end(&mut self, at: usize, account: usize) {
        self.n_parts += 1;
        let is_busy = self.busy[self.n_parts % self.busy.len()];
        let job = &mut self.jobs[at];
        job.runs_with = None;
        job.holder = Some(self.accounts[account].standing.profile.clone());
        if is_busy {
            // A limit per minute: the same account is tried a little later, and it does not cool.
            job.wakes = self.now + BUSY;
        } else {
            job.done += 1;
            job.told += 1;
        }
    }

    fn start(&mut self, at: usize) {
        let standings: Vec<AccountStanding> =
            self.accounts.iter().map(|account| account.standing.clone()).collect();
        let job = self.jobs[at].clone();
        let now = super::at(self.now);
        match choose(&standings, &job.id, job.holder.as_deref(), now) {
            Choice::Unbound | Choice::SetAside { .. } => panic!("the first account is never refused"),
            Choice::Wait { profile, until, .. } => {
                let turn_of =
                    |name: &str| standings.iter().find(|one| one.profile == name).map(|one| one.turn);
                // A task that has waited is turned away again only if others were faster.
                let others = job.waits_for.as_ref().is_none_or(|(name, turn)| turn_of(name) > Some(*turn));
                assert!(until > now && others, "whoever has waited goes on: {job:?}");
                let first = standings.iter().filter_map(whole_at).min().expect("somebody is spent");
                assert!(
                    until >= first && until <= first.plus(Duration::from_secs(30)),
                    "{profile} {until} {first}"
                );
                let job = &mut self.jobs[at];
                job.wakes = until.millis().div_euclid(1000) + i64::from(until.millis() % 1000 != 0);
                job.waits_for = Some((profile.clone(), turn_of(&profile).unwrap_or(0)));
            }
            Choice::Use(profile) => {
                let chosen = self.accounts.iter().position(|account| account.standing.profile == profile);
                let chosen = chosen.expect("one of those there are");
                self.jobs[at].waits_for = None;
                self.request(at, chosen);
            }
        }
    }

    /// The agent's first request: accepted, or the account has reached a limit.
    fn request(&mut self, at: usize, chosen: usize) {
        let now = super::at(self.now);
        let turn = self.accounts.iter().map(|account| account.standing.turn).max().unwrap_or(0) + 1;
        let account = &mut self.accounts[chosen];
        let is_free = whole_at(&account.standing).is_some_and(|until| until <= now);
        assert!(is_free, "used while it cools: {account:?} at {}", self.now);
        account.standing.turn = turn;
        let window = self.now.div_euclid(account.period);
        if window > account.window {
            (account.window, account.left) = (window, account.quota);
        }
        let whole = super::at((window + 1) * account.period);
        let mut hit = |limit: &str, state| {
            account.standing.coolings.retain(|cooling| cooling.limit != limit);
            account.standing.coolings.push(Cooling { since: now, ..cooling(limit, state) });
        };
        if self.now >= account.refused_from {
            return hit("account", Limited::SetAside);
        }
        if account.left == 0 {
            return hit("five_hour", Limited::Spent { until: whole });
        }
        if account.left == 1 {
            hit("near five_hour", Limited::Strained { until: whole });
        }
        account.left -= 1;
        let job = &mut self.jobs[at];
        assert!(job.told == job.done, "its conversation has all it did");
        job.runs_with = Some(chosen);
        job.wakes = self.now + PART;
    }
}

/// When all quotas of an account are reset; `None` if it was set aside.
fn whole_at(standing: &AccountStanding) -> Option<Timestamp> {
    standing.coolings.iter().try_fold(at(0), |latest, cooling| match cooling.state {
        Limited::SetAside => None,
        Limited::Spent { until } => Some(latest.max(until)),
        Limited::Strained { .. } => Some(latest),
    })
}

fn account(n: usize, (quota, hours, refused_after): (u32, i64, Option<i64>)) -> Account {
    Account {
        standing: AccountStanding::fresh(&format!("account-{n}")),
        quota,
        period: hours * 3600 - 11,
        left: quota,
        window: 0,
        refused_from: refused_after.filter(|_| n > 0).map_or(i64::MAX, |hours| hours * 3600),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]
    #[test]
    fn days_of_limits_lose_nothing_and_use_no_account_while_it_cools(
        accounts in proptest::collection::vec((1u32..20, 1i64..8, proptest::option::of(0i64..30)), 1..5),
        tasks in proptest::collection::vec((1u32..8, 0i64..24 * 3600), 1..40),
        busy in proptest::collection::vec(proptest::bool::weighted(0.2), 17),
        workers in 1usize..12,
    ) {
        prop_assume!(busy.iter().any(|busy| !busy));
        let jobs = tasks.iter().enumerate().map(|(n, (parts, wakes))| Job {
            id: task(&format!("task-{n}")),
            parts: *parts,
            told: 0,
            done: 0,
            holder: None,
            wakes: *wakes,
            runs_with: None,
            waits_for: None,
        });
        let mut world = World {
            jobs: jobs.collect(),
            accounts: accounts.into_iter().enumerate().map(|(n, facts)| account(n, facts)).collect(),
            workers,
            busy,
            n_parts: 0,
            now: 0,
        };
        world.settle();
        prop_assert!(world.jobs.iter().all(|job| job.done == job.parts && job.told == job.parts));
    }
}

#[test]
fn three_accounts_do_in_a_day_what_one_would_take_days_for() {
    let spent = |n_accounts: usize| {
        let jobs = (0..30).map(|n| Job {
            id: task(&format!("task-{n}")),
            parts: 4,
            told: 0,
            done: 0,
            holder: None,
            wakes: 0,
            runs_with: None,
            waits_for: None,
        });
        let accounts = (0..n_accounts).map(|n| account(n, (12, 5, None))).collect();
        let mut world =
            World { accounts, jobs: jobs.collect(), workers: 8, busy: vec![false], n_parts: 0, now: 0 };
        world.settle() / 3600
    };
    assert_eq!((spent(1), spent(3)), (45, 15));
}
