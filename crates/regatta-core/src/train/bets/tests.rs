use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

/// A train in simulated time. Content is the set of cars in it; a gate takes a little more than a second.
struct Simulation {
    bad: BTreeSet<usize>,
    /// Pairs that are good alone and bad together.
    feuds: Vec<(usize, usize)>,
    checked: bool,
    slots: usize,
    /// Cars by number, in order.
    queue: Vec<usize>,
    standings: Vec<CarStanding>,
    tip: Vec<usize>,
    results: BTreeMap<BTreeSet<usize>, bool>,
    running: Vec<Test>,
    record: Record,
    now: f64,
    gates: usize,
    ejected: BTreeSet<usize>,
    numbers: u32,
    /// All cars that a car builds on.
    needs: BTreeMap<usize, BTreeSet<usize>>,
    /// Cars whose needs were ejected.
    stranded: BTreeSet<usize>,
}

struct Test {
    on: Vec<usize>,
    cars: Vec<usize>,
    ends: f64,
}

impl Simulation {
    fn new(cars: usize, bad: impl IntoIterator<Item = usize>, slots: usize) -> Self {
        Self {
            bad: bad.into_iter().collect(),
            feuds: Vec::new(),
            checked: false,
            slots,
            queue: (0..cars).collect(),
            standings: vec![CarStanding::Fresh; cars],
            tip: Vec::new(),
            results: BTreeMap::new(),
            running: Vec::new(),
            record: Record::default(),
            now: 0.0,
            gates: 0,
            ejected: BTreeSet::new(),
            numbers: 0,
            needs: BTreeMap::new(),
            stranded: BTreeSet::new(),
        }
    }

    /// `car` builds on `on`, and on all that `on` builds on.
    fn build_on(&mut self, car: usize, on: usize) {
        let all: BTreeSet<usize> = self.needs.get(&on).into_iter().flatten().copied().chain([on]).collect();
        self.needs.entry(car).or_default().extend(all);
    }

    fn assert_closed(&self, cars: &[usize]) {
        for car in cars {
            for need in self.needs.get(car).into_iter().flatten() {
                assert!(self.tip.contains(need) || cars.contains(need), "{car} without {need}: {cars:?}");
            }
        }
    }

    fn is_green(&self, content: &BTreeSet<usize>) -> bool {
        content.is_disjoint(&self.bad)
            && !self.feuds.iter().any(|(a, b)| content.contains(a) && content.contains(b))
    }

    fn place(&self, car: usize) -> Option<usize> {
        self.queue.iter().position(|other| *other == car)
    }

    fn lists(&self) -> Vec<Vec<usize>> {
        let lists = self.running.iter().map(|test| test.cars.iter().filter_map(|car| self.place(*car)));
        lists.map(Iterator::collect).collect()
    }

    fn green_lists(&self) -> Vec<Vec<usize>> {
        let tip: BTreeSet<usize> = self.tip.iter().copied().collect();
        let green = self.results.iter().filter(|(content, green)| **green && content.is_superset(&tip));
        green
            .map(|(content, _)| {
                content.difference(&tip).filter_map(|car| self.place(*car)).collect::<Vec<_>>()
            })
            .map(|mut list| {
                list.sort_unstable();
                list
            })
            .filter(|list| !list.is_empty())
            .collect()
    }

    /// Plans and acts until nothing more can be started; returns whether there is something to wait for.
    fn act(&mut self) -> bool {
        loop {
            let checked = self.checked;
            let members: Vec<Member> =
                self.standings.iter().map(|standing| Member { standing: *standing, checked }).collect();
            let (running, green) = (self.lists(), self.green_lists());
            let needed = |car: &usize| -> Vec<usize> {
                let mut places: Vec<usize> =
                    self.needs.get(car).into_iter().flatten().filter_map(|need| self.place(*need)).collect();
                places.sort_unstable();
                places
            };
            let needs: Vec<Vec<usize>> = self.queue.iter().map(needed).collect();
            let scene = Scene {
                members: &members,
                needs: &needs,
                running: &running,
                green: &green,
                about_to_end: !running.is_empty(),
                slots: self.slots,
                record: self.record,
            };
            let plan = plan(&scene, &mut |list| {
                let content: BTreeSet<usize> =
                    self.tip.iter().copied().chain(list.iter().map(|n| self.queue[*n])).collect();
                let under_way = |test: &Test| {
                    test.on.iter().chain(&test.cars).copied().collect::<BTreeSet<_>>() == content
                };
                match self.results.get(&content) {
                    Some(true) => Known::Green,
                    Some(false) => Known::Red,
                    None if self.running.iter().any(under_way) => Known::Running,
                    None => Known::Unknown,
                }
            });
            assert!(plan.test.len() + running.len() <= self.slots, "{plan:?}");
            let moved = plan.land.is_some() || !plan.eject.is_empty();
            let started = !plan.test.is_empty();
            let tests: Vec<Vec<usize>> =
                plan.test.iter().map(|list| list.iter().map(|n| self.queue[*n]).collect()).collect();
            if let Some(list) = plan.land {
                let cars: Vec<usize> = list.iter().map(|n| self.queue[*n]).collect();
                let content: BTreeSet<usize> = self.tip.iter().chain(&cars).copied().collect();
                self.assert_closed(&cars);
                assert_eq!(self.results.get(&content), Some(&true), "only what was tested lands");
                for car in cars {
                    self.tip.push(car);
                    self.record.learn(self.checked, true);
                    self.remove(car);
                }
                continue;
            }
            for car in plan.eject.iter().map(|n| self.queue[*n]).collect::<Vec<_>>() {
                self.eject(car);
            }
            if moved {
                continue;
            }
            for cars in tests {
                self.assert_closed(&cars);
                self.gates += 1;
                let jitter = 0.01 * ((self.gates * 7919) % 5) as f64;
                self.running.push(Test { on: self.tip.clone(), cars, ends: self.now + 1.0 + jitter });
            }
            if !started {
                return !self.running.is_empty();
            }
        }
    }

    fn eject(&mut self, car: usize) {
        self.ejected.insert(car);
        self.record.learn(self.checked, false);
        self.remove(car);
        self.running.retain(|test| !test.cars.contains(&car));
        let stranded = |other: &&usize| self.needs.get(*other).is_some_and(|needs| needs.contains(&car));
        for other in self.queue.iter().filter(stranded).copied().collect::<Vec<_>>() {
            self.stranded.insert(other);
            self.remove(other);
            self.running.retain(|test| !test.cars.contains(&other));
        }
    }

    fn remove(&mut self, car: usize) {
        if let Some(at) = self.place(car) {
            self.queue.remove(at);
            self.standings.remove(at);
        }
    }

    /// Waits for the next test to end.
    fn hear(&mut self) {
        let next = self.running.iter().enumerate().min_by(|a, b| a.1.ends.total_cmp(&b.1.ends));
        let test = self.running.remove(next.expect("somebody runs").0);
        self.now = test.ends;
        let content: BTreeSet<usize> = test.on.iter().chain(&test.cars).copied().collect();
        let green = self.is_green(&content);
        self.results.insert(content, green);
        let list: Vec<usize> = test.cars.iter().filter_map(|car| self.place(*car)).collect();
        self.numbers += 1;
        let running = self.lists();
        let sound = self.results.get(&test.on.iter().copied().collect::<BTreeSet<_>>()) == Some(&true);
        if let ([_], false, true) = (&*test.cars, green, sound) {
            return self.eject(test.cars[0]);
        }
        if !list.is_empty() && (green || list.len() == test.cars.len()) {
            judge(&mut self.standings, &list, green, &running, self.numbers);
        }
    }

    fn run(&mut self) {
        while self.act() {
            self.hear();
            assert!(self.gates < 2000, "it never ends: {:?}", self.queue);
        }
        assert!(self.queue.is_empty(), "it stopped with {:?} {:?}", self.queue, self.standings);
    }
}

#[test]
fn a_batch_that_was_checked_lands_with_one_gate() {
    let mut train = Simulation::new(32, [], 8);
    train.checked = true;
    train.run();
    assert_eq!((train.gates, train.tip.len()), (1, 32));
}

#[test]
fn good_cars_land_in_one_gate_time_and_in_order() {
    let mut train = Simulation::new(32, [], 8);
    train.run();
    assert!(train.now < 1.1, "{}", train.now);
    assert_eq!(train.tip, (0..32).collect::<Vec<_>>());
}

#[test]
fn three_bad_of_thirty_two_cost_few_rounds() {
    let mut worst = 0.0_f64;
    for seed in 0..200_usize {
        let bad = [(seed * 7) % 32, (seed * 13 + 5) % 32, (seed * 29 + 17) % 32];
        let mut train = Simulation::new(32, bad, 8);
        train.run();
        assert_eq!(train.ejected, train.bad);
        worst = worst.max(train.now);
    }
    // Serially it would be 32.
    assert!(worst < 4.5, "{worst}");
}

#[test]
fn one_slot_finds_culprits_by_halving() {
    let mut train = Simulation::new(32, [19], 1);
    train.run();
    assert_eq!(train.ejected, BTreeSet::from([19]));
    assert!(train.gates < 14, "{}", train.gates);
}

#[test]
fn cars_that_come_one_by_one_do_not_wait_for_each_other() {
    let mut train = Simulation::new(1, [], 4);
    assert!(train.act());
    train.now = 0.5;
    train.queue.push(1);
    train.standings.push(CarStanding::Fresh);
    assert!(train.act());
    assert_eq!(train.running[1].cars, [0, 1], "tested on top of the first, which is still under test");
    train.hear();
    train.act();
    assert_eq!(train.tip, [0], "the first lands as soon as it passed");
    train.run();
    assert_eq!(train.tip, [0, 1]);
    assert_eq!(train.gates, 2);
}

#[test]
fn of_two_that_are_bad_together_the_earlier_lands() {
    let mut train = Simulation::new(12, [], 4);
    train.feuds.push((3, 9));
    train.run();
    assert_eq!(train.ejected.len(), 1);
    assert!(train.ejected.is_subset(&BTreeSet::from([3, 9])), "{:?}", train.ejected);
}

#[test]
fn nothing_is_judged_on_a_tip_that_is_red_itself() {
    let mut train = Simulation::new(4, [], 2);
    train.bad.insert(99);
    train.tip.push(99);
    while train.act() {
        train.hear();
        assert!(train.gates < 50);
    }
    assert_eq!((train.queue.len(), train.ejected.len()), (4, 0), "they wait for the tip to be mended");
}

#[test]
fn dependents_are_never_split_from_what_they_build_on() {
    for slots in [1, 2, 4, 8] {
        // A chain of ten, each on the one before, among bad cars.
        let mut train = Simulation::new(20, [1, 5, 11, 19], slots);
        for car in (2..20).step_by(2) {
            train.build_on(car, car - 2);
        }
        train.run();
        assert_eq!(train.ejected, train.bad);
        assert!(train.stranded.is_empty());
    }
    // A bad car in the middle takes only those behind it along.
    let mut train = Simulation::new(10, [4], 3);
    (1..8).for_each(|car| train.build_on(car, car - 1));
    train.run();
    assert_eq!(train.ejected, BTreeSet::from([4]));
    assert_eq!(train.stranded, BTreeSet::from([5, 6, 7]));
    assert_eq!(train.tip.iter().copied().collect::<BTreeSet<_>>(), BTreeSet::from([0, 1, 2, 3, 8, 9]));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn every_train_with_dependents_comes_to_its_end(
        cars in 1_usize..30,
        bad in proptest::collection::btree_set(0_usize..30, 0..6),
        deps in proptest::collection::btree_map(1_usize..30, 1_usize..6, 0..25),
        feuds in proptest::collection::vec((0_usize..30, 0_usize..30), 0..3),
        slots in 1_usize..8,
    ) {
        let mut train = Simulation::new(cars, bad.into_iter().filter(|car| *car < cars), slots);
        train.feuds = feuds.into_iter().filter(|(a, b)| a != b).collect();
        for (car, back) in deps {
            if car < cars && back <= car {
                train.build_on(car, car - back);
            }
        }
        train.run();
        let landed: BTreeSet<usize> = train.tip.iter().copied().collect();
        prop_assert!(landed.is_disjoint(&train.bad), "a bad car landed");
        for car in train.ejected.difference(&train.bad) {
            prop_assert!(train.feuds.iter().any(|(a, b)| a == car || b == car), "{car} was innocent");
        }
        for car in &train.stranded {
            prop_assert!(!train.needs[car].is_disjoint(&train.ejected), "{car} was not stranded");
        }
    }

    #[test]
    fn every_train_comes_to_its_end(
        cars in 1_usize..40,
        bad in proptest::collection::btree_set(0_usize..40, 0..8),
        feuds in proptest::collection::vec((0_usize..40, 0_usize..40), 0..4),
        slots in 1_usize..10,
        checked: bool,
    ) {
        let mut train = Simulation::new(cars, bad.into_iter().filter(|car| *car < cars), slots);
        train.feuds = feuds.into_iter().filter(|(a, b)| a != b).collect();
        train.checked = checked;
        train.run();
        prop_assert!(train.bad.is_subset(&train.ejected), "a bad car landed");
        let landed: BTreeSet<usize> = train.tip.iter().copied().collect();
        prop_assert!(train.is_green(&landed));
        // A car is ejected only for a reason: alone on the final tip it would be red, or it was part of a feud.
        for car in train.ejected.difference(&train.bad) {
            prop_assert!(train.feuds.iter().any(|(a, b)| a == car || b == car), "{car} was innocent");
        }
    }
}
