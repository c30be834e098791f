use proptest::prelude::*;

use super::*;

fn id(name: &str) -> TaskId {
    TaskId::parse(name).unwrap()
}

/// `+path` is added, `-path` deleted, anything else changed.
fn touched(touched: &[&str]) -> Touched {
    let touched = touched.iter().map(|path| match path.split_at(1) {
        ("+", path) => (path.to_owned(), Touch::Added),
        ("-", path) => (path.to_owned(), Touch::Deleted),
        _ => ((*path).to_owned(), Touch::Changed),
    });
    touched.collect()
}

fn heads(all: &[Touched]) -> Vec<Head<'_>> {
    all.iter().map(|touched| Head { touched, writes: &[] }).collect()
}

#[test]
fn who_meets_and_how() {
    let check = |a: &[&str], b: &[&str], expected: Option<Meeting>| {
        let there = meetings(&heads(&[touched(a), touched(b)]));
        let back = meetings(&heads(&[touched(b), touched(a)]));
        assert_eq!(there, back, "{a:?} and {b:?}");
        let expected: Vec<_> = expected.into_iter().map(|meeting| ((0, 1), meeting)).collect();
        assert_eq!(there, expected, "{a:?} and {b:?}");
    };
    let shared =
        |files: &[&str]| Some(Meeting::Shared(files.iter().map(|file| (*file).to_owned()).collect()));
    check(&["a.rs"], &["b.rs"], None);
    check(&["b.rs", "a.rs"], &["a.rs", "c.rs", "b.rs"], shared(&["a.rs", "b.rs"]));
    check(&["-a.rs"], &["a.rs"], shared(&["a.rs"]));
    // Renamed here, changed there: the old name is on both sides.
    check(&["-old.rs", "+new.rs"], &["old.rs"], shared(&["old.rs"]));
    // One side has a file where the other has a directory.
    check(&["+lib"], &["+lib/x.rs"], Some(Meeting::Near));
    check(&["lib"], &["+lib/deep/x.rs"], Some(Meeting::Near));
    check(&["+lib"], &["+library/x.rs"], None);
    // One side moved the directory, and the other adds to it.
    check(&["-src/a.rs", "+core/a.rs"], &["+src/b.rs"], Some(Meeting::Near));
    check(&["-src/deep/a.rs", "+core/a.rs"], &["+src/new/b.rs"], Some(Meeting::Near));
    // Deletions alone rename nothing, the root is never renamed, and a change to an existing file moves along.
    check(&["-src/a.rs"], &["+src/b.rs"], None);
    check(&["-a.rs", "+c.rs"], &["+b.rs"], None);
    check(&["-src/a.rs", "+core/a.rs"], &["src/b.rs"], None);
}

#[test]
fn what_one_declares_and_another_touches_is_told_without_a_merge() {
    let writes = ["src/auth/", "docs/*.md"].map(|place| WritePath::parse(place).unwrap());
    let (nothing, something) = (touched(&[]), touched(&["src/auth/x.rs", "docs/a.md", "c"]));
    let heads = [Head { touched: &nothing, writes: &writes }, Head { touched: &something, writes: &[] }];
    let expected = vec!["docs/a.md".to_owned(), "src/auth/x.rs".to_owned()];
    assert_eq!(meetings(&heads), [((0, 1), Meeting::Declared(expected.clone()))]);
    let finding =
        Finding::of(&id("b"), Other::Task(id("a")), Meeting::Declared(expected.clone()), None).unwrap();
    assert_eq!((finding.task.as_str(), finding.kind, finding.files), ("a", Kind::Overlap, expected));
}

#[test]
fn a_near_meeting_is_worth_telling_only_if_it_conflicts() {
    let with = || Other::Target("main".into());
    let of = |meeting, outcome| Finding::of(&id("a"), with(), meeting, outcome).map(|finding| finding.kind);
    let files = || vec!["f".to_owned()];
    assert_eq!(of(Meeting::Near, None), None);
    assert_eq!(of(Meeting::Near, Some(Outcome::Clean)), None);
    assert_eq!(of(Meeting::Near, Some(Outcome::conflict(files()))), Some(Kind::Conflict));
    assert_eq!(of(Meeting::Shared(files()), None), Some(Kind::Overlap));
    assert_eq!(of(Meeting::Shared(files()), Some(Outcome::Clean)), Some(Kind::Merges));
    let many = (0..200).map(|n| format!("{n:03}")).collect();
    let finding = Finding::of(&id("a"), with(), Meeting::Shared(many), None).unwrap();
    assert_eq!((finding.files.len(), finding.n_files), (MOST_FILES, 200));
}

#[test]
fn the_worst_comes_first_and_both_sides_find_it() {
    let made = |a: &str, b: &str, outcome| {
        Finding::of(&id(a), Other::Task(id(b)), Meeting::Shared(vec!["f".into()]), outcome).unwrap()
    };
    let mut findings = vec![
        made("a", "b", Some(Outcome::Clean)),
        made("d", "c", Some(Outcome::conflict(vec!["f".into()]))),
        made("a", "c", None),
        Finding::of(&id("z"), Other::Target("main".into()), Meeting::Near, Some(Outcome::conflict(vec![])))
            .unwrap(),
    ];
    sort(&mut findings);
    let order: Vec<String> = findings.iter().map(|f| format!("{} {}", f.task, f.with)).collect();
    assert_eq!(order, ["z main", "c d", "a c", "a b"]);
    assert_eq!(findings[1].other(&id("d")), Some(Other::Task(id("c"))));
    assert_eq!(findings[1].other(&id("c")), Some(Other::Task(id("d"))));
    assert_eq!(findings[1].other(&id("a")), None);
    assert_eq!(conflicts(&findings), [(id("c"), id("d"))].into());
}

#[test]
fn what_is_stored_reads_back() {
    let finding =
        Finding::of(&id("a"), Other::Target("main".into()), Meeting::Shared(vec!["ü x".into()]), None)
            .unwrap();
    let json = serde_json::to_string(&finding).unwrap();
    assert_eq!(json, r#"{"task":"a","with":{"target":"main"},"kind":"overlap","files":["ü x"],"n_files":1}"#);
    assert_eq!(serde_json::from_str::<Finding>(&json).unwrap(), finding);
}

fn place(task: &str, priority: i32, deps: &[&str]) -> CarPlace {
    CarPlace { task: id(task), priority, deps: deps.iter().map(|dep| id(dep)).collect() }
}

#[test]
fn cars_that_conflict_are_moved_apart() {
    let check = |cars: &[CarPlace], pairs: &[(&str, &str)], expected: &str| {
        let conflicts = pairs.iter().map(|(a, b)| (id(a), id(b))).collect();
        let order = spread(cars, &conflicts);
        let names: Vec<&str> = order.iter().map(|n| cars[*n].task.as_str()).collect();
        assert_eq!(names.join(" "), expected);
    };
    let four = [place("a", 0, &[]), place("b", 0, &[]), place("c", 0, &[]), place("d", 0, &[])];
    check(&four, &[], "a b c d");
    check(&four, &[("a", "b")], "a c d b");
    check(&four, &[("b", "a"), ("c", "d")], "a c b d");
    check(&four, &[("a", "b"), ("a", "c"), ("a", "d")], "a b c d");
    // Priority comes first, and so do dependencies.
    let high = [place("a", 5, &[]), place("b", 5, &[]), place("c", 0, &[])];
    check(&high, &[("a", "b")], "a b c");
    let chain = [place("a", 0, &[]), place("b", 0, &[]), place("c", 0, &["b"])];
    check(&chain, &[("a", "b")], "a b c");
    let raised = [place("c", 9, &["b"]), place("a", 0, &[]), place("b", 0, &[])];
    check(&raised, &[], "a b c");
    // A dependency outside the list has landed or is irrelevant.
    check(&[place("a", 0, &["gone"])], &[("a", "gone")], "a");
}

fn any_work() -> impl Strategy<Value = Vec<Touched>> {
    let name = prop::sample::select(vec!["a", "b", "d"]);
    let path = prop::collection::vec(name, 1..4).prop_map(|parts| parts.join("/"));
    let touch = prop::sample::select(vec![Touch::Added, Touch::Changed, Touch::Deleted]);
    prop::collection::vec(prop::collection::btree_map(path, touch, 0..5), 0..6)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn meetings_are_those_that_comparing_every_pair_finds(work in any_work()) {
        let heads = heads(&work);
        let found: BTreeMap<(usize, usize), Meeting> = meetings(&heads).into_iter().collect();
        for a in 0..heads.len() {
            for b in a + 1..heads.len() {
                let both: Vec<String> =
                    heads[a].touched.keys().filter(|path| heads[b].touched.contains_key(*path)).cloned().collect();
                let alone = meetings(&[heads[a], heads[b]]);
                let alone = alone.into_iter().next().map(|(_, meeting)| meeting);
                prop_assert_eq!(found.get(&(a, b)), alone.as_ref(), "others change nothing between two");
                match found.get(&(a, b)) {
                    Some(Meeting::Shared(files)) => prop_assert_eq!(files, &both),
                    _ => prop_assert!(both.is_empty()),
                }
            }
        }
    }

    #[test]
    fn an_order_is_a_permutation_that_keeps_dependencies_and_priorities(
        priorities in prop::collection::vec(0i32..3, 1..9),
        edges in prop::collection::vec((0usize..9, 0usize..9), 0..6),
        pairs in prop::collection::vec((0usize..9, 0usize..9), 0..12),
    ) {
        let n = priorities.len();
        let name = |n: usize| id(&format!("t{n}"));
        let mut cars: Vec<CarPlace> = priorities
            .iter()
            .enumerate()
            .map(|(at, priority)| CarPlace { task: name(at), priority: *priority, deps: Vec::new() })
            .collect();
        for (from, to) in edges.into_iter().filter(|(from, to)| from < to && *to < n) {
            cars[to].deps.push(name(from));
        }
        cars.sort_by_key(|car| -car.priority);
        let conflicts = pairs.into_iter().map(|(a, b)| (name(a), name(b))).collect();
        let order = spread(&cars, &conflicts);
        let mut sorted = order.clone();
        sorted.sort_unstable();
        prop_assert_eq!(sorted, (0..n).collect::<Vec<_>>());
        let at = |task: &TaskId| order.iter().position(|n| cars[*n].task == *task);
        for (place, n) in order.iter().enumerate() {
            for dep in &cars[*n].deps {
                prop_assert!(at(dep) < Some(place), "{} stands before {dep}", cars[*n].task);
            }
        }
        if cars.iter().all(|car| car.deps.is_empty()) {
            let kept: Vec<i32> = order.iter().map(|n| cars[*n].priority).collect();
            prop_assert!(kept.is_sorted_by(|a, b| a >= b), "{kept:?}");
        }
        if cars.iter().all(|car| car.deps.is_empty()) && conflicts.is_empty() {
            prop_assert_eq!(order, (0..n).collect::<Vec<_>>());
        }
    }
}

#[test]
fn what_would_conflict_with_work_under_way_starts_after_others_of_its_priority() {
    let id = |name: &str| TaskId::parse(name).unwrap();
    let specs: Vec<crate::spec::TaskSpec> = [("urgent", 1), ("a", 0), ("b", 0), ("c", 0)]
        .map(|(name, priority)| crate::spec::TaskSpec {
            priority,
            ..crate::spec::TaskSpec::plain(id(name), "sh", "true")
        })
        .into();
    let order = |at_work: &[&str], conflicts: &[(&str, &str)]| -> Vec<String> {
        let at_work = at_work.iter().map(|name| id(name)).collect();
        let conflicts = conflicts.iter().map(|(a, b)| (id(a), id(b))).collect();
        yielding(specs.iter().collect(), &at_work, &conflicts)
            .iter()
            .map(|spec| spec.id.to_string())
            .collect()
    };
    assert_eq!(order(&[], &[("a", "x")]), ["urgent", "a", "b", "c"]);
    assert_eq!(order(&["x"], &[("a", "x")]), ["urgent", "b", "c", "a"]);
    assert_eq!(order(&["a"], &[("a", "b"), ("b", "c")]), ["urgent", "a", "c", "b"]);
    assert_eq!(order(&["x"], &[("urgent", "x")]), ["urgent", "a", "b", "c"], "a priority is a priority");
}
