//! Which candidates to test next, which to land, which car is the culprit.
//!
//! A *bet* is a list of cars put on the target's tip in order; its last commit is what a gate tests. The first bet is
//! the largest batch that the known facts support; if that is doubtful, smaller ones run beside it. A red batch is
//! split, a green one lands. Every round of tests lands a car, names a culprit, or halves a doubt, so a train always
//! finishes.
//!
//! Invariants: only a list known to be green lands; a car is never tested or landed without the cars it builds on; a
//! car is ejected only if it is red alone on a sound tip, or red on nothing but the green cars it builds on; cars that
//! wait for a test never keep others from being tested while slots are free.

/// What earlier tests say about a car.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CarStanding {
    /// Nothing yet.
    #[default]
    Fresh,
    /// It was in a list that was green.
    Cleared,
    /// It was in a red list with this number; the culprit is among the cars with the same number.
    Suspect(u32),
}

/// What is known about a list of cars on the tip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// Never tested.
    Unknown,
    /// A test is running.
    Running,
    /// Exactly this content passed.
    Green,
    /// Exactly this content failed.
    Red,
}

/// A car as the planner sees it. Its position in the slice is its position in the train.
#[derive(Clone, Copy, Debug, Default)]
pub struct Member {
    /// What earlier tests say about it.
    pub standing: CarStanding,
    /// Whether its own checks passed in its lane.
    pub checked: bool,
}

/// How often cars turn out bad, learnt over time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Record {
    /// The number of landed cars, with and without checks of their own.
    pub good: [u32; 2],
    /// The number of ejected cars, likewise.
    pub bad: [u32; 2],
}

impl Record {
    /// Adds one more car whose result is known.
    pub fn learn(&mut self, checked: bool, good: bool) {
        let side = usize::from(checked);
        if good { self.good[side] += 1 } else { self.bad[side] += 1 }
    }

    /// The expected share of bad cars: initially one in twenty, one in two hundred with checks.
    fn bad_share(&self, checked: bool) -> f64 {
        let side = usize::from(checked);
        let (bad, all) = if checked { (0.25, 50.0) } else { (1.0, 20.0) };
        (bad + f64::from(self.bad[side])) / (all + f64::from(self.bad[side] + self.good[side]))
    }
}

/// A batch is at most as large as is green with this chance, and nothing runs beside one that is safer.
const DARE: f64 = 0.15;
const SAFE: f64 = 0.8;
/// Pieces of a doubtful batch are at most as large as is green with this chance.
const PIECE: f64 = 0.5;

/// What to do now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Land this list: it is green.
    pub land: Option<Vec<usize>>,
    /// Eject these: they are red alone on a sound tip.
    pub eject: Vec<usize>,
    /// Test these lists, the most wanted first. The empty list is the tip itself.
    pub test: Vec<Vec<usize>>,
    /// The tip itself is red: no car can be judged on it.
    pub tip_is_red: bool,
}

/// The planner's input.
pub struct Scene<'a> {
    /// The cars, in the order of the train.
    pub members: &'a [Member],
    /// For each car the cars before it that it builds on, and those that these build on, in order. May be shorter if
    /// the remaining cars build on none.
    pub needs: &'a [Vec<usize>],
    /// Lists under test, of present cars, on any tip.
    pub running: &'a [Vec<usize>],
    /// Lists known to be green on this tip.
    pub green: &'a [Vec<usize>],
    /// True if one of the running tests has not yet taken longer than usual.
    pub about_to_end: bool,
    /// Maximum number of tests at once.
    pub slots: usize,
    /// What was learnt so far.
    pub record: Record,
}

/// Decides what to do. `known` looks up a list on the current tip; it may be called repeatedly for the same one.
pub fn plan(scene: &Scene<'_>, known: &mut dyn FnMut(&[usize]) -> Known) -> Plan {
    let mut plan = Plan::default();
    if scene.members.is_empty() {
        return plan;
    }
    let main = main_batch(scene);
    let main_known = if main.is_empty() { Known::Red } else { known(&main) };
    if main_known == Known::Green && !scene.running.iter().any(|list| is_earlier(list, &main)) {
        plan.land = Some(main);
        return plan;
    }
    plan.land = landable(scene);
    if plan.land.is_some() {
        return plan;
    }
    let mut free = scene.slots.saturating_sub(scene.running.len());
    if scene.about_to_end && (0..scene.members.len()).any(|n| is_suspect(scene, n)) {
        // The running tests decide how to continue: a piece started now would make all of them wait.
        free = 0;
    }
    let mut want = |list: Vec<usize>, test: &mut Vec<Vec<usize>>| {
        if free > 0 && !test.contains(&list) {
            free -= 1;
            test.push(list);
        }
    };
    let mut groups = groups(scene);
    if main_known == Known::Red && !main.is_empty() {
        // Known by its content, from when the cars before it were still candidates.
        groups.push(main.clone());
    }
    if main_known == Known::Unknown {
        want(main.clone(), &mut plan.test);
    }
    if !groups.is_empty() {
        match known(&[]) {
            Known::Red => {
                plan.tip_is_red = true;
                plan.test.retain(|list| *list == main);
                return plan;
            }
            Known::Unknown => want(Vec::new(), &mut plan.test),
            Known::Running | Known::Green => {}
        }
    }
    let sound = known(&[]) == Known::Green;
    let left = scene.slots.saturating_sub(scene.running.len() + plan.test.len());
    for piece in split(scene, &groups, left) {
        let list = closed(scene, &piece);
        match known(&list) {
            Known::Red if sound && (piece.len() == 1 || list.len() > piece.len()) => {
                match culprit(scene, &list, known) {
                    Blame::On(n) if !plan.eject.contains(&n) => plan.eject.push(n),
                    Blame::Unclear(list) => want(list, &mut plan.test),
                    Blame::On(_) | Blame::Nobody => {}
                }
            }
            Known::Unknown => want(list, &mut plan.test),
            _ => {}
        }
    }
    if main_known != Known::Red && !main.is_empty() {
        for piece in hedges(scene, &main, &plan.test) {
            if known(&piece) == Known::Unknown {
                want(piece, &mut plan.test);
            }
        }
    }
    plan
}

/// Updates the standings of the cars in a tested list. `running` are the other running tests; `number` is an unused
/// one.
pub fn judge(
    standings: &mut [CarStanding],
    list: &[usize],
    green: bool,
    running: &[Vec<usize>],
    number: u32,
) {
    if green {
        list.iter().for_each(|&n| standings[n] = CarStanding::Cleared);
        return;
    }
    let was: Vec<CarStanding> = list.iter().map(|&n| standings[n]).collect();
    let one_group =
        was.iter().all(|standing| matches!(standing, CarStanding::Suspect(_)) && *standing == was[0]);
    let is_whole = |group: &CarStanding| {
        matches!(group, CarStanding::Suspect(_))
            && !standings.iter().enumerate().any(|(n, standing)| standing == group && !list.contains(&n))
    };
    if !one_group && was.iter().any(is_whole) {
        // This list contains a whole red list: its being red is no news.
        return;
    }
    let all_cleared = was.iter().all(|standing| *standing == CarStanding::Cleared);
    for &n in list {
        if all_cleared || standings[n] != CarStanding::Cleared {
            standings[n] = CarStanding::Suspect(number);
        }
    }
    // A culprit is among these, so nothing incriminates the other cars of their former list.
    for (n, standing) in standings.iter_mut().enumerate() {
        let same = matches!(standing, CarStanding::Suspect(_)) && was.contains(standing);
        if same && !list.contains(&n) && !running.iter().any(|list| list.contains(&n)) {
            *standing = CarStanding::Fresh;
        }
    }
}

/// The cars that a car builds on.
fn needs<'a>(scene: &Scene<'a>, n: usize) -> &'a [usize] {
    scene.needs.get(n).map_or(&[], Vec::as_slice)
}

/// The list with all cars that its cars build on.
fn closed(scene: &Scene<'_>, list: &[usize]) -> Vec<usize> {
    let mut all: Vec<usize> = list.iter().flat_map(|&n| needs(scene, n).iter().copied().chain([n])).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Which car is to blame for a red list.
enum Blame {
    On(usize),
    /// This list has to be tested first.
    Unclear(Vec<usize>),
    /// Undecided: running tests will decide.
    Nobody,
}

/// Searches a red list for its culprit, from cars that others build on to cars that build on others.
fn culprit(scene: &Scene<'_>, list: &[usize], known: &mut dyn FnMut(&[usize]) -> Known) -> Blame {
    for &n in list {
        let with = closed(scene, &[n]);
        match known(&with) {
            Known::Green => continue,
            Known::Running => return Blame::Nobody,
            Known::Unknown => return Blame::Unclear(with),
            Known::Red => {}
        }
        // Everything it builds on is green by itself, so it must be tested together with it.
        let without = &with[..with.len() - 1];
        return if without.is_empty() || known(without) == Known::Green {
            Blame::On(n)
        } else if known(without) == Known::Unknown {
            Blame::Unclear(without.to_vec())
        } else {
            Blame::Nobody
        };
    }
    Blame::Nobody
}

fn is_suspect(scene: &Scene<'_>, n: usize) -> bool {
    matches!(scene.members[n].standing, CarStanding::Suspect(_))
}

/// The estimated chance that a car is good.
fn chance(scene: &Scene<'_>, n: usize) -> f64 {
    let member = &scene.members[n];
    match member.standing {
        CarStanding::Cleared => 1.0,
        _ => 1.0 - scene.record.bad_share(member.checked),
    }
}

/// The largest batch of unsuspected cars that is likely enough to be green.
fn main_batch(scene: &Scene<'_>) -> Vec<usize> {
    let mut all_good = 1.0;
    let mut batch = Vec::new();
    for n in (0..scene.members.len()).filter(|n| !is_suspect(scene, *n)) {
        if !needs(scene, n).iter().all(|need| batch.contains(need)) {
            continue;
        }
        all_good *= chance(scene, n);
        if all_good < DARE && !batch.is_empty() {
            break;
        }
        batch.push(n);
    }
    batch
}

/// Whether `list` begins before `other` does, and `other` does not merely continue it.
fn is_earlier(list: &[usize], other: &[usize]) -> bool {
    !list.is_empty() && !other.starts_with(list) && list.first() < other.first()
}

/// The green list to land now: none while a test is about to end that could land more cars or earlier ones.
fn landable(scene: &Scene<'_>) -> Option<Vec<usize>> {
    let in_the_way = |green: &[usize], list: &[usize]| {
        let contains = green.iter().all(|n| list.contains(n));
        let larger = scene.about_to_end && list.len() > green.len();
        !list.starts_with(green) && (contains || larger || is_earlier(list, green))
    };
    let is_closed = |green: &[usize]| closed(scene, green).len() == green.len();
    let ready = |green: &&Vec<usize>| {
        !green.is_empty() && is_closed(green) && !scene.running.iter().any(|list| in_the_way(green, list))
    };
    scene.green.iter().filter(ready).max_by_key(|green| (green.len(), std::cmp::Reverse(green[0]))).cloned()
}

/// Suspects that no running test is about to decide, grouped by the red list they were in.
fn groups(scene: &Scene<'_>) -> Vec<Vec<usize>> {
    let mut found: Vec<(u32, Vec<usize>)> = Vec::new();
    for (n, member) in scene.members.iter().enumerate() {
        let CarStanding::Suspect(group) = member.standing else { continue };
        if scene.running.iter().any(|list| list.contains(&n)) {
            continue;
        }
        match found.iter_mut().find(|(known, _)| *known == group) {
            Some((_, members)) => members.push(n),
            None => found.push((group, vec![n])),
        }
    }
    found.into_iter().map(|(_, members)| members).collect()
}

/// Cuts every group of suspects into at least two pieces, more while there are slots.
fn split(scene: &Scene<'_>, groups: &[Vec<usize>], slots: usize) -> Vec<Vec<usize>> {
    let suspects: usize = groups.iter().map(Vec::len).sum();
    let mut pieces = Vec::new();
    for group in groups {
        let share = (slots * group.len()).div_ceil(suspects.max(1));
        let cuts = share.max(2).min(group.len());
        pieces.extend(cut(group, group.len().div_ceil(cuts).min(piece_size(scene, group)).max(1)));
    }
    pieces
}

fn cut(list: &[usize], size: usize) -> impl Iterator<Item = Vec<usize>> {
    list.chunks(size).map(<[usize]>::to_vec)
}

/// How many of these are still likely to be green together.
fn piece_size(scene: &Scene<'_>, list: &[usize]) -> usize {
    let mut all_good = 1.0;
    list.iter()
        .take_while(|n| {
            all_good *= chance(scene, **n);
            all_good >= PIECE
        })
        .count()
        .max(1)
}

/// Smaller lists beside a doubtful batch: if it is red, they show at once which part is not to blame.
fn hedges(scene: &Scene<'_>, main: &[usize], wanted: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let all_good: f64 = main.iter().map(|n| chance(scene, *n)).product();
    let covered = |n: usize| {
        scene.running.iter().chain(wanted).any(|list| list.contains(&n) && !list.starts_with(main))
    };
    let doubtful: Vec<usize> = (0..scene.members.len())
        .filter(|&n| scene.members[n].standing == CarStanding::Fresh && !covered(n))
        .collect();
    let slots = scene.slots.saturating_sub(scene.running.len() + wanted.len());
    if all_good >= SAFE || doubtful.len() < 2 || slots == 0 {
        return Vec::new();
    }
    let size = doubtful.len().div_ceil(slots).min(piece_size(scene, &doubtful)).max(1);
    let mut pieces: Vec<Vec<usize>> = cut(&doubtful, size).map(|piece| closed(scene, &piece)).collect();
    pieces.dedup();
    pieces.truncate(slots);
    pieces
}

#[cfg(test)]
mod tests;
