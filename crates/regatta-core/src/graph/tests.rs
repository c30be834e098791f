use proptest::prelude::*;

use super::*;
use crate::config::Config;
use crate::taskfile::{LoadSettings, Source, load};

fn id(text: &str) -> TaskId {
    TaskId::parse(text).unwrap()
}

/// Tasks from lines such as `a: b c` (a needs b and c), with further keys after a `;`.
fn tasks(lines: &str) -> Vec<TaskSpec> {
    let config = Config::default();
    let line = |line: &str| {
        let (task, keys) = line.split_once(';').unwrap_or((line, ""));
        let (name, deps) = task.split_once(':').unwrap_or((task, ""));
        let deps = deps.split_whitespace().map(id).collect();
        let text = format!("---\nid: {}\n{}\n---\nx", name.trim(), keys.replace(';', "\n"));
        let mut task = load(&[Source::new("x.md", &text)], &LoadSettings::new(&config)).tasks.remove(0);
        task.deps = deps;
        task
    };
    lines.lines().map(str::trim).filter(|text| !text.is_empty()).map(line).collect()
}

fn shown(ids: &[TaskId]) -> String {
    ids.iter().map(TaskId::as_str).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_circle_is_found_and_begins_with_its_first_task() {
    let check = |lines: &str, expected: Option<&str>| {
        assert_eq!(cycle(&tasks(lines)).map(|ids| shown(&ids)).as_deref(), expected, "{lines}");
    };
    check("", None);
    check("a\nb: a\nc: a b", None);
    check("a: a", Some("a a"));
    check("a: b\nb: a", Some("a b a"));
    check("x: b\na: c\nb: a\nc: b", Some("a c b a"));
    check("a: elsewhere", None);
}

#[test]
fn stages_honour_dependencies_writes_groups_and_priority() {
    let check = |lines: &str, limits: &[(&str, u32)], expected: &[&str]| {
        let limits = limits.iter().map(|(group, limit)| ((*group).to_owned(), *limit)).collect();
        let found: Vec<String> = stages(&tasks(lines), &limits).iter().map(|stage| shown(stage)).collect();
        assert_eq!(found, expected, "{lines}");
    };
    check("", &[], &[]);
    check("a\nb\nc: a\nd: c b", &[], &["a b", "c", "d"]);
    check("a\nb;priority: 5\nc: a", &[], &["b a", "c"]);
    check("a;writes: src\nb;writes: src/x.rs\nc;writes: docs", &[], &["a c", "b"]);
    check(
        "a;concurrency_group: g\nb;concurrency_group: g\nc;concurrency_group: g",
        &[("g", 2)],
        &["a b", "c"],
    );
    check("a;concurrency_group: g\nb;concurrency_group: g", &[], &["a", "b"]);
    check("a: stored\nb: a", &[], &["a", "b"]);
    check("a: b\nb: a\nc", &[], &["c"]);
}

#[test]
fn the_drawing_has_every_task_once_with_its_further_dependencies() {
    let lines = "schema\nauth: schema\noauth: auth docs\ndocs: schema\ntests: auth\nalone\nnext: stored\n";
    let expected = "\
schema
├─ auth
│  ├─ oauth (also after docs)
│  └─ tests
└─ docs
alone
next (after stored)
";
    assert_eq!(render(&tasks(lines), ToString::to_string), expected);
}

#[test]
fn the_drawing_takes_any_label_and_any_shape() {
    let drawn = render(&tasks("a\nb: a\nc: b"), |id| format!("{id} — läuft\n⏳"));
    assert_eq!(drawn, "a — läuft ⏳\n└─ b — läuft ⏳\n   └─ c — läuft ⏳\n");
    assert_eq!(render(&tasks("a: b\nb: a"), ToString::to_string), "a (after b)\n└─ b\n");
    assert_eq!(render(&[], ToString::to_string), "");
}

#[test]
fn a_dependency_among_strangers_is_still_noted() {
    assert_eq!(render(&tasks("a\nb: stored a"), ToString::to_string), "a\n└─ b (also after stored)\n");
}

#[test]
fn a_long_chain_does_not_exhaust_the_stack() {
    let mut chain = tasks("t");
    let first = chain.remove(0);
    let chain: Vec<TaskSpec> = (0..500)
        .map(|n| {
            let deps = if n == 0 { vec![] } else { vec![id(&format!("t{}", n - 1))] };
            TaskSpec { id: id(&format!("t{n}")), deps, ..first.clone() }
        })
        .collect();
    assert_eq!(render(&chain, ToString::to_string).lines().count(), 500);
    assert!(cycle(&chain).is_none());
    assert_eq!(stages(&chain, &BTreeMap::new()).len(), 500);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_graph_is_drawn_whole_and_staged_in_order(edges in prop::collection::vec((0..12usize, 0..12usize), 0..40)) {
        let first = tasks("t").remove(0);
        let all: Vec<TaskSpec> = (0..12)
            .map(|n| {
                let mut deps: Vec<TaskId> = edges.iter().filter(|(from, _)| *from == n).map(|(_, to)| id(&format!("t{to}"))).collect();
                deps.dedup();
                TaskSpec { id: id(&format!("t{n}")), deps, ..first.clone() }
            })
            .collect();
        prop_assert_eq!(render(&all, ToString::to_string).lines().count(), 12);
        let stages = stages(&all, &BTreeMap::new());
        let order: Vec<&TaskId> = stages.iter().flatten().collect();
        prop_assert_eq!(cycle(&all).is_none(), order.len() == 12);
        for task in &all {
            let Some(own) = order.iter().position(|id| **id == task.id) else { continue };
            for dep in &task.deps {
                prop_assert!(order.iter().position(|id| *id == dep).is_some_and(|at| at < own));
            }
        }
        if let Some(circle) = cycle(&all) {
            for pair in circle.windows(2) {
                let task = all.iter().find(|task| task.id == pair[0]).unwrap();
                prop_assert!(task.deps.contains(&pair[1]));
            }
        }
    }
}
