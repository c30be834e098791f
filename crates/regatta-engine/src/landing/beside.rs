//! Which commits of the repositories that this one builds on are beside a candidate when it is tested.
//!
//! Those that its cars were made with, so that no other change to those repositories makes a car fail. A commit is
//! raised only where it would say nothing: a dependency has landed since, the target was tested with a newer one, or
//! somebody else moved the target.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

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
        let newest = ctx.blocking(|ctx| ctx.newest_pins()).await?;
        let mut landed = Vec::new();
        for car in cars {
            landed.push(landed_elsewhere(ctx, car, &newest).await?);
        }
        let (cars, tip) = (cars.to_vec(), tip.cloned());
        let found = ctx.blocking(move |ctx| {
            let tested = target::tested_with(&ctx.repository.state_dir, &ctx.repository.target);
            let tested = tested.filter(|(at, _)| Some(at) == tip.as_ref()).map(|(_, with)| with);
            let mut own = Vec::new();
            for (car, landed) in cars.iter().zip(&landed) {
                let ground = match &tested {
                    Some(with) => with.clone(),
                    None if tip.as_ref() == Some(&car.request.base) => Pins::new(),
                    None => newest.clone(),
                };
                own.push(raised(ctx, &car.request.siblings, landed, &ground, &newest)?);
            }
            let within = within(ctx, &own)?;
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

/// What the dependencies of a car landed in repositories whose commit beside it is not part of their target: only such
/// a commit can lack it.
async fn landed_elsewhere(
    ctx: &Arc<Context>,
    car: &Car,
    newest: &Pins,
) -> Result<LandedElsewhere, LandError> {
    let (pins, newest) = (car.request.siblings.clone(), newest.clone());
    let apart = ctx.blocking(move |ctx| {
        let mut apart = BTreeSet::new();
        for (name, pin) in pins {
            let (Ok(yard), Some(tip)) = (ctx.of(Some(&name)), newest.get(&name)) else { continue };
            let work = &yard.repository.work;
            if pin != *tip && work.has_commit(&pin)? && !work.is_ancestor(&pin, tip)? {
                apart.insert(name);
            }
        }
        Ok::<_, GitError>(apart)
    });
    let apart = apart.await?;
    let mut landed = LandedElsewhere::new();
    if apart.is_empty() {
        return Ok(landed);
    }
    let store = ctx.services.store.as_ref();
    let own = Records::load(store, [&car.task]).await?;
    let Some(own) = own.get(&car.task) else { return Ok(landed) };
    let dependencies = Records::load(store, &own.spec.deps).await?;
    for record in own.spec.deps.iter().filter_map(|dependency| dependencies.get(dependency)) {
        let repo = record.spec.repo.as_ref().or(ctx.home_name());
        if let (Some(repo), Some(TaskState::Landed { commit, .. })) = (repo, record.met())
            && apart.contains(repo)
        {
            landed.entry(repo.clone()).or_default().push(commit.clone());
        }
    }
    Ok(landed)
}

/// The commits that a car was made with, raised to those that the ground was tested with, and to the newest ones where
/// a dependency has landed since or the commit is not here.
fn raised(
    ctx: &Context,
    made_with: &Pins,
    landed: &LandedElsewhere,
    ground: &Pins,
    newest: &Pins,
) -> Result<Pins, GitError> {
    let mut pins = Pins::new();
    for (name, tip) in newest {
        let Ok(yard) = ctx.of(Some(name)) else { continue };
        let work = &yard.repository.work;
        let mut pin = tip.clone();
        if let Some(made) = made_with.get(name)
            && made != tip
            && work.has_commit(made)?
        {
            let mut lacks = false;
            for commit in landed.get(name).into_iter().flatten() {
                lacks |= !work.has_commit(commit)? || !work.is_ancestor(commit, made)?;
            }
            if !lacks {
                pin = made.clone();
            }
        }
        if let Some(below) = ground.get(name)
            && *below != pin
            && (!work.has_commit(below)? || !work.is_ancestor(below, &pin)?)
        {
            let is_newer = work.has_commit(below)? && work.is_ancestor(&pin, below)?;
            pin = if is_newer { below.clone() } else { tip.clone() };
        }
        pins.insert(name.clone(), pin);
    }
    Ok(pins)
}

/// Which commits of these are part of which others.
fn within(ctx: &Context, rows: &[Pins]) -> Result<HashSet<(RepoName, Oid, Oid)>, GitError> {
    let mut by_name: BTreeMap<&RepoName, BTreeSet<&Oid>> = BTreeMap::new();
    for (name, pin) in rows.iter().flatten() {
        by_name.entry(name).or_default().insert(pin);
    }
    let mut found = HashSet::new();
    for (name, pins) in by_name.into_iter().filter(|(_, pins)| pins.len() > 1) {
        let Ok(yard) = ctx.of(Some(name)) else { continue };
        for (a, b) in pins.iter().flat_map(|a| pins.iter().map(move |b| (*a, *b))).filter(|(a, b)| a != b) {
            if yard.repository.work.is_ancestor(a, b)? {
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
