//! What a train has learnt: which content passed, which failed, and what that says about each car.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use regatta_core::time::Timestamp;
use regatta_core::train::Car;
use regatta_core::train::bets::{self, CarStanding, Known, Member, Plan, Record, Scene};
use tokio::sync::Notify;

use super::beside::Beside;
use super::chain::{Approval, Chain, Chains, Refusal, approval};
use super::fence::HeldFence;
use super::train::Hold;
use crate::git::{GitError, Oid, Work};
use crate::siblings::Pins;

/// Maximum number of green lists considered for landing.
const GREEN_LISTS: usize = 64;
/// Maximum number of remembered failures.
const MOST_RED: usize = 10_000;
/// Maximum number of remembered landings at a hub.
const MOST_LANDED: usize = 10_000;
/// The first pause after a problem with the train, and the longest.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// How long to wait when the tip itself fails its gate.
const RED_TIP: Duration = Duration::from_secs(60);

/// What one process remembers about its trains, from round to round.
#[derive(Debug, Default)]
pub(crate) struct TrainMemory {
    ledger: Mutex<Ledger>,
    /// Notified when a car has left the train, landed or not: tasks may be ready because of it.
    pub(crate) moved: Arc<Notify>,
    /// The fence at the hub, as this process left it.
    pub(super) fence: Mutex<Option<HeldFence>>,
    /// Since when the hub has not answered.
    hub_away: Mutex<Option<Instant>>,
    /// Commits that this process landed at a hub and has followed, or tried to.
    landed_here: Mutex<HashSet<Oid>>,
    /// Why the user's branch does not follow the hub.
    behind: Mutex<Option<String>>,
}

impl TrainMemory {
    /// The memory for the train of another repository: the same engine listens to it.
    pub(crate) fn beside(other: &Self) -> Self {
        Self { moved: other.moved.clone(), ..Self::default() }
    }

    /// The hub has not answered, since this time if it is known.
    pub(super) fn hub_is_away(&self, since: Option<Instant>) {
        lock(&self.hub_away).get_or_insert_with(|| since.unwrap_or_else(Instant::now));
    }

    /// The hub answered. Returns whether it had been away.
    pub(super) fn hub_is_back(&self) -> bool {
        lock(&self.hub_away).take().is_some()
    }

    /// For how long the hub has not answered.
    pub(super) fn hub_away_for(&self) -> Duration {
        lock(&self.hub_away).map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// This process landed these commits at a hub.
    pub(super) fn landed_here(&self, commits: impl IntoIterator<Item = Oid>) {
        let mut known = lock(&self.landed_here);
        if known.len() >= MOST_LANDED {
            known.clear();
        }
        known.extend(commits);
    }

    /// Whether this process landed the commit at a hub.
    pub(crate) fn has_landed(&self, commit: &Oid) -> bool {
        lock(&self.landed_here).contains(commit)
    }

    /// Records why the user's branch does not follow the hub, if it does not. Returns whether that is news.
    pub(super) fn set_behind(&self, why: Option<String>) -> bool {
        let mut behind = lock(&self.behind);
        let is_news = *behind != why;
        *behind = why;
        is_news
    }

    /// Whether the user's branch does not follow the hub.
    pub(crate) fn is_behind(&self) -> bool {
        lock(&self.behind).is_some()
    }

    pub(super) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        lock(&self.ledger)
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a gate sees: the files of a candidate, and those of the repositories beside it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Content {
    pub(super) tree: Oid,
    pub(super) with: Pins,
}

impl Content {
    pub(super) fn of(chain: &Chain) -> Self {
        Self { tree: chain.tree.clone(), with: chain.with.clone() }
    }
}

/// Content that failed.
#[derive(Clone, Debug)]
struct Red {
    detail: String,
    /// The approvals in it: a car that is approved again is tested again.
    cars: HashSet<u64>,
}

/// Why nothing is tried for a while.
#[derive(Clone, Debug)]
struct Pause {
    until: Instant,
    step: Duration,
    hold: Hold,
    /// Ends as soon as the target moves, or another car arrives: it may be the fix.
    only_for: Option<(Oid, HashSet<u64>)>,
}

#[derive(Debug, Default)]
pub(super) struct Ledger {
    pub(super) chains: Chains,
    green: HashSet<Content>,
    red: HashMap<Content, Red>,
    green_lists: Vec<Vec<Approval>>,
    standings: HashMap<Approval, CarStanding>,
    record: Record,
    numbers: u32,
    /// How long the last gate took.
    typical: Option<Duration>,
    /// The gate that the results are of, whatever is beside the candidates,
    gate: Option<String>,
    /// and the commits beside them for which this round has read the store's passes.
    read: HashSet<Pins>,
    pause: Option<Pause>,
    /// Cars that have waited for the user's checkout.
    waited: HashSet<Approval>,
    has_begun: bool,
}

/// A running test, as far as planning needs it.
#[derive(Clone, Debug)]
pub(super) struct UnderWay {
    pub(super) cars: Vec<u64>,
    pub(super) content: Content,
    pub(super) since: Instant,
}

/// The input of planning.
pub(super) struct Situation {
    pub(super) tip: Oid,
    pub(super) cars: Vec<Car>,
    /// For each car those before it that it builds on.
    pub(super) needs: Vec<Vec<usize>>,
    /// What is beside them when they are tested.
    pub(super) beside: Beside,
    pub(super) running: Vec<UnderWay>,
    pub(super) slots: usize,
    pub(super) has_gate: bool,
    pub(super) now: Timestamp,
}

/// What to do.
#[derive(Debug, Default)]
pub(super) struct Decision {
    /// Cars that the tip itself refuses. If there are any, nothing else is decided.
    pub(super) refused: Vec<(usize, Refusal)>,
    pub(super) land: Option<Chain>,
    /// The culprits, each with the message of its failed gate.
    pub(super) eject: Vec<(usize, String)>,
    pub(super) test: Vec<Chain>,
    /// The gate's message, if it fails on the tip itself.
    pub(super) tip_is_red: Option<String>,
}

impl Ledger {
    /// A round begins with this gate: the results of another one do not count.
    pub(super) fn begin(&mut self, gate: String) {
        if self.gate.as_ref() != Some(&gate) {
            *self = Self { chains: std::mem::take(&mut self.chains), ..Self::default() };
        }
        self.gate = Some(gate);
        self.read.clear();
    }

    /// Whether this round has read the passes with these commits beside the candidates.
    pub(super) fn has_read(&self, with: &Pins) -> bool {
        self.read.contains(with)
    }

    /// Takes in the passes that the store remembers.
    pub(super) fn load(&mut self, with: &Pins, passed: Vec<Oid>) {
        self.green.extend(passed.into_iter().map(|tree| Content { tree, with: with.clone() }));
        self.read.insert(with.clone());
    }

    /// Puts the listed cars on the tip.
    fn build(&mut self, work: &Work, situation: &Situation, list: &[usize]) -> Result<Chain, GitError> {
        let Situation { tip, cars, needs, beside, now, .. } = situation;
        let chain = self.chains.build(work, tip, cars, list, needs, *now)?;
        let with = beside.of(chain.links.iter().map(|(n, _)| *n));
        Ok(Chain { with, ..chain })
    }

    /// True for the first call only.
    pub(super) fn is_first_round(&mut self) -> bool {
        !std::mem::replace(&mut self.has_begun, true)
    }

    /// Decides what to do; builds the candidates whose content it has to know.
    pub(super) fn decide(&mut self, work: &Work, situation: &Situation) -> Result<Decision, GitError> {
        let Situation { cars, needs, running, slots, has_gate, .. } = situation;
        let members: Vec<Member> = cars
            .iter()
            .map(|car| Member { standing: self.standing(car, *has_gate), checked: car.request.checked })
            .collect();
        let place = |seq: &u64| cars.iter().position(|car| car.seq == *seq);
        let lists: Vec<Vec<usize>> =
            running.iter().map(|test| test.cars.iter().filter_map(place).collect()).collect();
        let green = self.green_on(work, situation)?;
        let typical = self.typical.map_or(Duration::MAX, |typical| typical * 3 / 2 + Duration::from_secs(1));
        let scene = Scene {
            members: &members,
            needs,
            running: &lists,
            green: &green,
            about_to_end: running.iter().any(|test| test.since.elapsed() < typical),
            slots: *slots,
            record: self.record,
        };
        let mut built: HashMap<Vec<usize>, Chain> = HashMap::new();
        let (mut trouble, mut refused) = (None, Vec::new());
        let plan: Plan = bets::plan(&scene, &mut |list| {
            if let Some(chain) = built.get(list) {
                return self.known(chain, list, cars, running, *has_gate);
            }
            match self.build(work, situation, list) {
                Ok(chain) => {
                    refused.extend(chain.refused.iter().cloned());
                    let known = self.known(&chain, list, cars, running, *has_gate);
                    built.insert(list.to_vec(), chain);
                    known
                }
                Err(error) => {
                    trouble.get_or_insert(error);
                    Known::Running
                }
            }
        });
        if let Some(error) = trouble {
            return Err(error);
        }
        if !refused.is_empty() {
            refused.sort_by_key(|(n, _)| *n);
            refused.dedup_by_key(|(n, _)| *n);
            return Ok(Decision { refused, ..Decision::default() });
        }
        let tip_is_red = plan.tip_is_red.then(|| self.said_of(&built, &[]));
        let with_needs =
            |n: usize| needs.get(n).into_iter().flatten().copied().chain([n]).collect::<Vec<_>>();
        let eject = plan.eject.iter().map(|n| (*n, self.said_of(&built, &with_needs(*n)))).collect();
        let mut chain = |list: &Vec<usize>| match built.remove(list) {
            Some(chain) => Ok(chain),
            None => self.build(work, situation, list),
        };
        Ok(Decision {
            refused,
            land: plan.land.as_ref().map(&mut chain).transpose()?,
            test: plan.test.iter().map(chain).collect::<Result<_, _>>()?,
            eject,
            tip_is_red,
        })
    }

    fn standing(&self, car: &Car, has_gate: bool) -> CarStanding {
        match self.standings.get(&approval(car)) {
            _ if !has_gate => CarStanding::Cleared,
            Some(standing) => *standing,
            None => CarStanding::Fresh,
        }
    }

    fn known(
        &self,
        chain: &Chain,
        list: &[usize],
        cars: &[Car],
        running: &[UnderWay],
        has_gate: bool,
    ) -> Known {
        let seqs = || chain.links.iter().map(|(n, _)| cars[*n].seq);
        let content = Content::of(chain);
        match self.red.get(&content) {
            // The tip refuses all of them: they leave before anything is tested.
            _ if chain.links.is_empty() && !list.is_empty() => Known::Running,
            _ if !has_gate || self.green.contains(&content) => Known::Green,
            Some(red) if seqs().all(|seq| red.cars.contains(&seq)) => Known::Red,
            _ if running.iter().any(|test| test.content == content) => Known::Running,
            _ => Known::Unknown,
        }
    }

    fn said_of(&self, built: &HashMap<Vec<usize>, Chain>, list: &[usize]) -> String {
        let red = built.get(list).and_then(|chain| self.red.get(&Content::of(chain)));
        red.map(|red| red.detail.clone()).unwrap_or_default()
    }

    /// Lists that passed on another tip, or behind cars that have landed since, and whose content on this tip passed.
    fn green_on(&mut self, work: &Work, situation: &Situation) -> Result<Vec<Vec<usize>>, GitError> {
        let Situation { cars, has_gate, .. } = situation;
        let mut found: Vec<Vec<usize>> = Vec::new();
        if !has_gate {
            return Ok(found);
        }
        for list in self.green_lists.clone() {
            let list: Vec<usize> = cars
                .iter()
                .enumerate()
                .filter(|(_, car)| list.contains(&approval(car)))
                .map(|(n, _)| n)
                .collect();
            if list.is_empty() || found.contains(&list) {
                continue;
            }
            let chain = self.build(work, situation, &list)?;
            if chain.links.len() == list.len() && self.green.contains(&Content::of(&chain)) {
                found.push(list);
            }
        }
        Ok(found)
    }

    /// Records that a gate passed or failed on this content. Returns a car that must be ejected at once.
    pub(super) fn learn(
        &mut self,
        chain: &Tested<'_>,
        failure: Option<&str>,
        cars: &[Car],
        running: &[Vec<u64>],
    ) -> Option<usize> {
        self.typical = Some(chain.took);
        let seqs: Vec<u64> = chain.cars.iter().map(|(_, seq)| *seq).collect();
        let list: Vec<usize> =
            seqs.iter().filter_map(|seq| cars.iter().position(|car| car.seq == *seq)).collect();
        match failure {
            None => {
                self.green.insert(chain.content.clone());
                self.red.remove(chain.content);
                if !chain.cars.is_empty() {
                    self.green_lists.push(chain.cars.to_vec());
                    let surplus = self.green_lists.len().saturating_sub(GREEN_LISTS);
                    self.green_lists.drain(..surplus);
                }
            }
            Some(detail) => {
                if self.red.len() >= MOST_RED {
                    self.red.clear();
                }
                let red = Red { detail: detail.to_owned(), cars: seqs.iter().copied().collect() };
                self.red.insert(chain.content.clone(), red);
                let below = Content { tree: chain.on.clone(), with: chain.content.with.clone() };
                if let ([only], true) = (&*list, chain.cars.len() == 1 && self.green.contains(&below)) {
                    return Some(*only);
                }
            }
        }
        if list.is_empty() || (failure.is_some() && list.len() < chain.cars.len()) {
            return None;
        }
        let mut standings: Vec<CarStanding> = cars.iter().map(|car| self.standing(car, true)).collect();
        let running: Vec<Vec<usize>> = running
            .iter()
            .map(|seqs| seqs.iter().filter_map(|seq| cars.iter().position(|car| car.seq == *seq)).collect())
            .collect();
        self.numbers += 1;
        bets::judge(&mut standings, &list, failure.is_none(), &running, self.numbers);
        for (car, standing) in cars.iter().zip(standings) {
            self.standings.insert(approval(car), standing);
        }
        None
    }

    /// Records that these cars wait for the user.
    pub(super) fn wait_for_user(&mut self, cars: &[Car]) {
        self.waited.extend(cars.iter().map(approval));
    }

    /// Whether one of them has waited for the user before.
    pub(super) fn has_waited(&self, cars: &[Car]) -> bool {
        cars.iter().any(|car| self.waited.contains(&approval(car)))
    }

    /// Records that a car left, landed or ejected.
    pub(super) fn left(&mut self, car: &Car, good: bool) {
        self.waited.remove(&approval(car));
        self.record.learn(car.request.checked, good);
        self.standings.remove(&approval(car));
    }

    /// How long a test may take before it is no longer waited for.
    pub(super) fn patience(&self) -> Option<Duration> {
        self.typical.map(|typical| typical * 3 / 2 + Duration::from_secs(1))
    }

    /// Something other than a car is wrong: nothing is tried for a while, longer each time.
    pub(super) fn pause(&mut self, hold: Hold) {
        self.pause_for(hold, FIRST_PAUSE, LONGEST_PAUSE, None);
    }

    /// The tip fails its own gate.
    pub(super) fn pause_for_tip(&mut self, tip: &Oid, tip_tree: &Oid, cars: &[Car], why: String) {
        let only_for = (tip.clone(), cars.iter().map(|car| car.seq).collect());
        self.pause_for(why.into(), RED_TIP, RED_TIP * 30, Some(only_for));
        self.red.retain(|content, _| content.tree != *tip_tree);
    }

    fn pause_for(
        &mut self,
        hold: Hold,
        first: Duration,
        longest: Duration,
        only_for: Option<(Oid, HashSet<u64>)>,
    ) {
        let step = match &self.pause {
            Some(pause) if pause.hold == hold => (pause.step * 2).min(longest),
            _ => first,
        };
        self.pause = Some(Pause { until: Instant::now() + step, step, hold, only_for });
    }

    /// Why nothing may be tried now.
    pub(super) fn paused(&self, tip: Option<&Oid>, cars: &[Car]) -> Option<Hold> {
        let pause = self.pause.as_ref().filter(|pause| pause.until > Instant::now())?;
        let still = pause
            .only_for
            .as_ref()
            .is_none_or(|(then, known)| tip == Some(then) && cars.iter().all(|car| known.contains(&car.seq)));
        still.then(|| pause.hold.clone())
    }

    /// Whether there is a problem that is no car's fault.
    pub(super) fn is_paused(&self) -> bool {
        self.pause.as_ref().is_some_and(|pause| pause.until > Instant::now())
    }

    /// Ends the pause.
    pub(super) fn go_on(&mut self) {
        self.pause = None;
    }
}

/// What was tested.
pub(super) struct Tested<'a> {
    pub(super) cars: &'a [Approval],
    /// The content.
    pub(super) content: &'a Content,
    /// The tree of its base.
    pub(super) on: &'a Oid,
    pub(super) took: Duration,
}
