//! Which commits of the repositories that this one builds on are beside a candidate when it is tested.
//!
//! Those that its cars were made with, so that no other change to those repositories makes a car fail. A commit is
//! raised only where it would say nothing: a dependency has landed since, the target was tested with a newer one, or it
//! was moved by other means than a landing.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use regatta_core::id::TaskId;
use regatta_core::repos::RepoName;
use regatta_core::state::TaskState;
use regatta_core::train::Car;

use super::target;
use super::train::LandError;
use crate::context::Context;
use crate::git::{GitError, Oid};
use crate::records::Records;
use crate::siblings::Pins;

/// The commits beside each car of a train. Empty if the repository builds on no other, or has no gate.
#[derive(Clone, Debug, Default)]
pub(super) struct Beside {
    /// For each car, by its position in the train.
    own: Vec<Pins>,
    /// The tips of the other repositories' targets.
    newest: Pins,
    /// Pairs of commits among `own`: the second contains the first.
    within: HashSet<(RepoName, Oid, Oid)>,
}

/// Commits that the dependencies of a task landed in other repositories.
type LandedElsewhere = BTreeMap<RepoName, Vec<Oid>>;

impl Beside {
    /// The commits for cars that are put on `tip`.
    pub(super) async fn load(ctx: &Arc<Context>, cars: &[Car], tip: Option<&Oid>) -> Result<Self, LandError> {
        if ctx.settings.config.land.test_command.is_none() || ctx.builds_on().is_empty() {
            return Ok(Self::default());
        }
        let made_with: BTreeSet<Pins> = cars.iter().map(|car| car.request.siblings.clone()).collect();
        let (newest, apart) = ctx
            .blocking(move |ctx| {
                let newest = ctx.newest_pins()?;
                let apart = apart(&mut History::of(ctx), &made_with, &newest)?;
                Ok::<_, GitError>((newest, apart))
            })
            .await?;
        let landed = landed_elsewhere(ctx, cars, &apart).await?;
        let (cars, tip) = (cars.to_vec(), tip.cloned());
        let found = ctx.blocking(move |ctx| {
            let tested = target::tested_with(&ctx.repository.state_dir, &ctx.repository.target);
            let tested = tested.filter(|(at, _)| Some(at) == tip.as_ref()).map(|(_, with)| with);
            let mut history = History::of(ctx);
            let (none, mut own) = (LandedElsewhere::new(), Vec::new());
            for car in &cars {
                let ground = match &tested {
                    Some(with) => with.clone(),
                    None if tip.as_ref() == Some(&car.request.base) => Pins::new(),
                    None => newest.clone(),
                };
                let landed = landed.get(&car.task).unwrap_or(&none);
                own.push(raised(&mut history, &car.request.siblings, landed, &ground, &newest)?);
            }
            let within = within(&mut history, &own)?;
            Ok::<_, GitError>(Self { own, newest, within })
        });
        Ok(found.await?)
    }

    /// The commits beside one car on `tip`.
    pub(super) async fn one(ctx: &Arc<Context>, car: &Car, tip: Option<&Oid>) -> Result<Pins, LandError> {
        Ok(Self::load(ctx, std::slice::from_ref(car), tip).await?.of([0]))
    }

    /// The commits beside these cars together: of each repository the commit that contains those of all of them. For
    /// no car, so for the target itself, those of the whole train.
    pub(super) fn of(&self, cars: impl IntoIterator<Item = usize>) -> Pins {
        let mut listed = cars.into_iter().filter_map(|n| self.own.get(n)).peekable();
        let rows: Vec<&Pins> =
            if listed.peek().is_some() { listed.collect() } else { self.own.iter().collect() };
        let Some((first, rest)) = rows.split_first() else { return self.newest.clone() };
        let mut pins = (*first).clone();
        for row in rest {
            for (name, pin) in *row {
                let joined = match pins.get(name) {
                    Some(before) => self.join(name, before, pin),
                    None => pin.clone(),
                };
                pins.insert(name.clone(), joined);
            }
        }
        pins
    }

    /// The one that contains the other; the tip if neither does.
    fn join(&self, name: &RepoName, a: &Oid, b: &Oid) -> Oid {
        let is_within = |a: &Oid, b: &Oid| self.within.contains(&(name.clone(), a.clone(), b.clone()));
        if a == b || is_within(b, a) {
            return a.clone();
        }
        if is_within(a, b) {
            return b.clone();
        }
        self.newest.get(name).unwrap_or(b).clone()
    }

    /// The commits that candidates of this train are likely to have beside them: for each car alone, and for all.
    pub(super) fn likely(&self) -> BTreeSet<Pins> {
        (0..self.own.len()).map(|n| self.of([n])).chain([self.of([])]).collect()
    }
}

/// What is in which commit of the other repositories, asked once.
struct History<'a> {
    ctx: &'a Context,
    known: HashMap<(RepoName, Oid, Oid), bool>,
}

impl<'a> History<'a> {
    fn of(ctx: &'a Context) -> Self {
        Self { ctx, known: HashMap::new() }
    }

    /// Whether the repository has both commits, and the second contains the first.
    fn is_in(&mut self, name: &RepoName, commit: &Oid, other: &Oid) -> Result<bool, GitError> {
        let key = (name.clone(), commit.clone(), other.clone());
        if let Some(known) = self.known.get(&key) {
            return Ok(*known);
        }
        let Ok(yard) = self.ctx.of(Some(name)) else { return Ok(false) };
        let work = &yard.repository.work;
        let is_in = work.has_commit(commit)?
            && (commit == other || (work.has_commit(other)? && work.is_ancestor(commit, other)?));
        self.known.insert(key, is_in);
        Ok(is_in)
    }

    fn has(&mut self, name: &RepoName, commit: &Oid) -> Result<bool, GitError> {
        self.is_in(name, commit, commit)
    }
}

/// Commits that are not part of their repository's target.
fn apart(
    history: &mut History<'_>,
    made_with: &BTreeSet<Pins>,
    newest: &Pins,
) -> Result<BTreeSet<(RepoName, Oid)>, GitError> {
    let mut apart = BTreeSet::new();
    for (name, pin) in made_with.iter().flatten() {
        if let Some(tip) = newest.get(name)
            && pin != tip
            && !history.is_in(name, pin, tip)?
        {
            apart.insert((name.clone(), pin.clone()));
        }
    }
    Ok(apart)
}

/// What the dependencies of cars landed in repositories whose commit beside them is not part of the target: only such a
/// commit can lack it.
async fn landed_elsewhere(
    ctx: &Context,
    cars: &[Car],
    apart: &BTreeSet<(RepoName, Oid)>,
) -> Result<BTreeMap<TaskId, LandedElsewhere>, LandError> {
    let is_apart = |(name, pin): (&RepoName, &Oid)| apart.contains(&(name.clone(), pin.clone()));
    let concerned = cars.iter().filter(|car| car.request.siblings.iter().any(is_apart)).map(|car| &car.task);
    let concerned: Vec<&TaskId> = concerned.collect();
    let store = ctx.services.store.as_ref();
    let records = Records::load(store, concerned.iter().copied()).await?;
    let deps = concerned.iter().filter_map(|task| records.get(task)).flat_map(|record| &record.spec.deps);
    let dependencies = Records::load(store, deps).await?;
    let mut found: BTreeMap<TaskId, LandedElsewhere> = BTreeMap::new();
    for (task, own) in concerned.iter().filter_map(|task| Some((*task, records.get(task)?))) {
        for record in own.spec.deps.iter().filter_map(|dependency| dependencies.get(dependency)) {
            let repo = record.spec.repo.as_ref().or(ctx.home_name());
            if let (Some(repo), Some(TaskState::Landed { commit, .. })) = (repo, record.met()) {
                let landed = found.entry(task.clone()).or_default();
                landed.entry(repo.clone()).or_default().push(commit.clone());
            }
        }
    }
    Ok(found)
}

/// The commits that a car was made with, raised to those that the ground was tested with, and to the newest ones where
/// a dependency has landed since or the commit is not here.
fn raised(
    history: &mut History<'_>,
    made_with: &Pins,
    landed: &LandedElsewhere,
    ground: &Pins,
    newest: &Pins,
) -> Result<Pins, GitError> {
    let mut pins = Pins::new();
    for (name, tip) in newest {
        let mut pin = tip;
        if let Some(made) = made_with.get(name)
            && history.has(name, made)?
        {
            let mut has_all = true;
            for commit in landed.get(name).into_iter().flatten() {
                has_all &= history.is_in(name, commit, made)?;
            }
            pin = if has_all { made } else { tip };
        }
        if let Some(below) = ground.get(name)
            && !history.is_in(name, below, pin)?
        {
            pin = if history.is_in(name, pin, below)? { below } else { tip };
        }
        pins.insert(name.clone(), pin.clone());
    }
    Ok(pins)
}

/// Which commits of these are part of which others.
fn within(history: &mut History<'_>, rows: &[Pins]) -> Result<HashSet<(RepoName, Oid, Oid)>, GitError> {
    let mut by_name: BTreeMap<&RepoName, BTreeSet<&Oid>> = BTreeMap::new();
    for (name, pin) in rows.iter().flatten() {
        by_name.entry(name).or_default().insert(pin);
    }
    let mut found = HashSet::new();
    for (name, pins) in by_name {
        for (a, b) in pins.iter().flat_map(|a| pins.iter().map(move |b| (*a, *b))).filter(|(a, b)| a != b) {
            if history.is_in(name, a, b)? {
                found.insert((name.clone(), a.clone(), b.clone()));
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pins(row: &[(&str, &str)]) -> Pins {
        row.iter().map(|(name, word)| (RepoName::parse(name).unwrap(), Oid::sample(word))).collect()
    }

    #[test]
    fn a_candidate_has_what_each_of_its_cars_was_made_with() {
        let beside = Beside {
            own: vec![
                pins(&[("lib", "one")]),
                pins(&[("lib", "two"), ("core", "c")]),
                pins(&[("lib", "side")]),
            ],
            newest: pins(&[("lib", "tip"), ("core", "c")]),
            within: HashSet::from([(
                RepoName::parse("lib").unwrap(),
                Oid::sample("one"),
                Oid::sample("two"),
            )]),
        };
        assert_eq!(beside.of([0]), pins(&[("lib", "one")]), "a car alone has its own");
        for both in [[0, 1], [1, 0]] {
            assert_eq!(beside.of(both), pins(&[("lib", "two"), ("core", "c")]), "the newer of two");
        }
        assert_eq!(beside.of([0, 2]), pins(&[("lib", "tip")]), "neither contains the other");
        assert_eq!(beside.of([]), pins(&[("lib", "tip"), ("core", "c")]), "the target itself");
        assert_eq!(Beside::default().of([0]), Pins::new());
    }
}
