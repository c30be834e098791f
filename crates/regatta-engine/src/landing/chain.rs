//! Candidates on top of each other: the target with one car after another.
//!
//! Invariant: a car's commit is a pure function of what is below it, of its request and of the moment it was first
//! intended. So the same cars on the same tip produce the same commits, in every list and after a crash.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use regatta_core::commit_message::{WITH, pins};
use regatta_core::id::TaskId;
use regatta_core::plain;
use regatta_core::time::Timestamp;
use regatta_core::train::{Car, CarStep};

use super::candidate::{self, Candidate, CandidateRequest, Survey};
use crate::git::{GitError, Oid, Work};
use crate::siblings::Pins;

/// One car's approval: the task may be approved again with other work, or with the same work once more.
pub(super) type Approval = (TaskId, u64);

pub(super) fn approval(car: &Car) -> Approval {
    (car.task.clone(), car.seq)
}

/// Maximum number of remembered links, after which all are dropped: a train that never empties must not grow.
const MAX_LINKS: usize = 20_000;

/// What has been built, so that no list is built twice.
#[derive(Debug, Default)]
pub(super) struct Chains {
    surveys: HashMap<Approval, Arc<Survey>>,
    links: HashMap<(Oid, Approval), Link>,
    dates: HashMap<Approval, Timestamp>,
}

/// One car on one commit.
#[derive(Clone, Debug)]
enum Link {
    On { commit: Oid, tree: Oid },
    Nothing,
    Conflict(Vec<PathBuf>),
}

/// Cars on a tip, without those that conflict with the cars before them.
#[derive(Clone, Debug)]
pub(super) struct Chain {
    /// The tip.
    pub(super) base: Oid,
    /// The cars, by their position in the train, and the commit of each.
    pub(super) links: Vec<(usize, Oid)>,
    /// The tree of the last commit.
    pub(super) tree: Oid,
    /// Cars that the tip itself refuses.
    pub(super) refused: Vec<(usize, Refusal)>,
    /// The commits of other repositories that are beside it when it is tested.
    pub(super) with: Pins,
}

impl Chain {
    /// The commit that would land.
    pub(super) fn commit(&self) -> &Oid {
        self.links.last().map_or(&self.base, |(_, commit)| commit)
    }
}

/// Why a car cannot be put on this tip, whatever the other cars.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    AlreadyIn,
    Conflict(Vec<PathBuf>),
}

impl Chains {
    /// The committer date of a car's commits: when it was first intended.
    pub(super) fn date(&mut self, car: &Car, now: Timestamp) -> Timestamp {
        match &car.step {
            CarStep::Intended { intent } | CarStep::Gated { intent, .. } => intent.at,
            CarStep::Queued
            | CarStep::Proposing { .. }
            | CarStep::Proposed { .. }
            | CarStep::Merging { .. } => *self.dates.entry(approval(car)).or_insert(now),
        }
    }

    /// Drops what was built: some of it may be gone. The dates are kept, so that rebuilding gives the same commits.
    pub(super) fn forget(&mut self) {
        self.links.clear();
        self.surveys.clear();
    }

    /// Puts the listed cars on `tip`, in this order; `needs` lists for each car of the train the cars it builds on.
    pub(super) fn build(
        &mut self,
        work: &Work,
        tip: &Oid,
        cars: &[Car],
        list: &[usize],
        needs: &[Vec<usize>],
        now: Timestamp,
    ) -> Result<Chain, GitError> {
        let mut chain = Chain {
            base: tip.clone(),
            links: Vec::new(),
            tree: work.tree_of(tip)?,
            refused: Vec::new(),
            with: Pins::new(),
        };
        for &n in list {
            let needs = needs.get(n).map_or(&[][..], Vec::as_slice);
            if !needs.iter().all(|need| chain.links.iter().any(|(there, _)| there == need)) {
                // A car it builds on is missing: the result would say nothing about this car.
                continue;
            }
            let below = chain.commit().clone();
            match self.link(work, &below, &cars[n], now)? {
                Link::On { commit, tree } => {
                    chain.links.push((n, commit));
                    chain.tree = tree;
                    continue;
                }
                Link::Nothing if below == *tip => chain.refused.push((n, Refusal::AlreadyIn)),
                Link::Conflict(paths) if below == *tip => chain.refused.push((n, Refusal::Conflict(paths))),
                // It does not go with the cars before it. Does the tip take it with only those it builds on?
                Link::Nothing | Link::Conflict(_) => {
                    let Some(ground) = self.stack(work, tip, cars, needs, now)? else { continue };
                    match self.link(work, &ground, &cars[n], now)? {
                        Link::Nothing if ground == *tip => chain.refused.push((n, Refusal::AlreadyIn)),
                        Link::Conflict(paths) => chain.refused.push((n, Refusal::Conflict(paths))),
                        Link::Nothing | Link::On { .. } => {}
                    }
                }
            }
        }
        Ok(chain)
    }

    /// These cars on `tip`; `None` if one of them conflicts with the others.
    fn stack(
        &mut self,
        work: &Work,
        tip: &Oid,
        cars: &[Car],
        list: &[usize],
        now: Timestamp,
    ) -> Result<Option<Oid>, GitError> {
        let mut below = tip.clone();
        for &n in list {
            match self.link(work, &below, &cars[n], now)? {
                Link::On { commit, .. } => below = commit,
                Link::Nothing => {}
                Link::Conflict(_) => return Ok(None),
            }
        }
        Ok(Some(below))
    }

    fn link(&mut self, work: &Work, below: &Oid, car: &Car, now: Timestamp) -> Result<Link, GitError> {
        let key = (below.clone(), approval(car));
        if let Some(link) = self.links.get(&key) {
            return Ok(link.clone());
        }
        if self.links.len() >= MAX_LINKS {
            self.links.clear();
            self.surveys.clear();
        }
        let (base, head) = (car.request.base.clone(), car.request.head.clone());
        let survey = match self.surveys.get(&key.1) {
            Some(survey) => survey.clone(),
            None => Arc::new(candidate::survey(work, &base, &head)?),
        };
        self.surveys.insert(key.1.clone(), survey.clone());
        let request = CandidateRequest {
            strategy: car.request.strategy,
            target_tip: below.clone(),
            base,
            head,
            message: car.request.message.clone(),
            identity: work.identity(),
            at: self.date(car, now),
            trailers: trailers(car),
        };
        let link = match candidate::build_from(work, &request, &survey)? {
            Candidate::Clean { commit, tree, .. } => Link::On { commit, tree },
            Candidate::AlreadyIn | Candidate::Empty => Link::Nothing,
            Candidate::Conflict { paths, .. } => Link::Conflict(paths),
        };
        self.links.insert(key, link.clone());
        Ok(link)
    }
}

fn trailers(car: &Car) -> Vec<(String, String)> {
    let mut trailers = vec![
        ("Regatta-Task".to_owned(), car.task.to_string()),
        ("Regatta-Attempt".to_owned(), car.attempt.to_string()),
    ];
    if let Some(verdict) = car.request.verdict {
        trailers.push(("Regatta-Verdict".to_owned(), verdict.to_string()));
    }
    if let Some(name) = &car.request.accepted_by {
        trailers.push(("Regatta-Accepted-By".to_owned(), plain::spaced(name)));
    }
    trailers.extend(pins(&car.request.siblings).map(|pin| (WITH.to_owned(), pin)));
    trailers
}
