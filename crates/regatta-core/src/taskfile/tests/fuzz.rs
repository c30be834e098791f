//! Whatever the text: no panic, positions inside the file, and no task without its id.

use proptest::prelude::*;

use super::*;

const VALID: [&str; 4] = [
    "---\nid: add-oauth\npriority: 5\ndeps: [a, b]\nagent: sh\nmax_attempts: 3\nauto_land: true\nverdict_adapter: chain\nwrites: [src/auth/]\nchecks: [\"cargo test\"]\ntimeout: 90m\nenv: {A: 1}\n---\n# Add\n\ntext\n",
    "---\nregatta: 1\nname: p\ndefaults: { max_retries: 1, agent: sh }\nconcurrency_limits: {db: 1}\ntasks:\n  - &x { id: a, prompt: \"echo hi > a.txt\", writes: [a.txt] }\n  - { <<: *x, id: b, depends_on: [a], concurrency_group: db }\n  - id: c\n    prompt: |\n      long\n      text\n    deps: a, b\n---\nNotes.\n",
    "---\npo_plan_version: \"0.1\"\nname: p\ncwd: \".\"\ntasks:\n  - id: a\n    agent: dev\n    read_only: false\n    writes: [x, y/z]\n    prompt: >\n      é\n  - id: b\n    agent: dev\n    read_only: true\n    depends_on: [a]\n---\n",
    "\u{feff}---\r\nid: \"ä\"\r\nfoo: [1, {a: b}]\r\n---\r\nbody\r\n",
];

fn check(text: &str) {
    let config = Config::default();
    let settings = LoadSettings { strict: true, repo_root: Some("/r"), ..LoadSettings::new(&config) };
    let sources = [Source::new("x.md", text), Source::new("dir/y.md", text).in_dir("dir")];
    let loaded = load(&sources, &settings);
    let lines: Vec<String> = crate::config::normalised(text).split('\n').map(str::to_owned).collect();
    for diagnostic in &loaded.diagnostics {
        let line = diagnostic.line.checked_sub(1).and_then(|n| lines.get(n));
        let width = line.unwrap_or_else(|| panic!("line of {diagnostic:?} in {text:?}")).chars().count();
        assert!((1..=width + 1).contains(&diagnostic.column), "column of {diagnostic:?} in {text:?}");
        let shown = diagnostic.to_string();
        assert!(shown.lines().count() <= 2, "one line and a hint: {shown:?}");
        assert!(!shown.contains(|c: char| c.is_control() && c != '\n'), "no control characters: {shown:?}");
    }
    let told_order: Vec<_> =
        loaded.diagnostics.iter().map(|d| (&d.file != "x.md", d.line, d.column)).collect();
    assert!(told_order.is_sorted(), "{told_order:?}");
    if !loaded.has_errors() {
        assert!(crate::graph::cycle(&loaded.tasks).is_none());
    }
    let _ = crate::graph::render(&loaded.tasks, ToString::to_string);
    let _ = crate::graph::stages(&loaded.tasks, &loaded.concurrency_limits);
}

/// One change somewhere in a text.
fn mutated(text: &str, at: usize, kind: u8, insert: &str) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    let at = at % (chars.len() + 1);
    match kind % 4 {
        0 => drop(chars.splice(at..at, insert.chars())),
        1 => drop(chars.splice(at..(at + insert.chars().count()).min(chars.len()), insert.chars())),
        2 => drop(chars.drain(at..(at + 5).min(chars.len()))),
        _ => chars.truncate(at),
    }
    chars.into_iter().collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_read_without_panic(text in "(---\n)?[\\PC\n\t\r\0]{0,200}(\n---\n)?[\\PC\n]{0,20}") {
        check(&text);
    }

    #[test]
    fn any_frontmatter_is_read_without_panic(yaml in "([a-z_]{1,8}: |- |[\\[\\]{},&*!|>'\"#%@?:<\n ]|id|deps|tasks|po_plan_version|é|[0-9]{1,3}|\t|\r){0,60}") {
        check(&format!("---\n{yaml}\n---\nbody\n"));
    }

    #[test]
    fn a_valid_file_with_changes_in_it_is_read_without_panic(
        which in 0..VALID.len(),
        changes in prop::collection::vec((any::<usize>(), any::<u8>(), "[\\PC\n\t:\\[\\]{}&*\"'-]{1,6}"), 1..4),
    ) {
        let text = changes.iter().fold(VALID[which].to_owned(), |text, (at, kind, insert)| mutated(&text, *at, *kind, insert));
        check(&text);
    }
}

#[test]
fn the_files_that_are_changed_are_valid() {
    for text in &VALID[1..3] {
        let loaded = loaded("x.md", text);
        assert_eq!(told(&loaded), "");
    }
}

#[test]
fn depth_and_length_are_bounded() {
    for text in [
        format!("---\n{}\n---\nx", "[".repeat(100_000)),
        format!("---\n{}a\n---\nx", "- ".repeat(50_000)),
        format!("---\n{}\n---\nx", (0..2000).map(|n| format!("{}a:\n", " ".repeat(n))).collect::<String>()),
        format!("---\n{}---\nx", (0..5_000).map(|n| format!("k{n}: 1\n")).collect::<String>()),
        format!("---\nid: {}\n---\nx", "x".repeat(1_000_000)),
        format!("---\nid: a\n---\n{}", "x".repeat(9 * 1024 * 1024)),
        {
            let chain: String =
                (0..1000).map(|n| format!("  - {{id: t{n}, prompt: x, deps: [t{}]}}\n", n + 1)).collect();
            format!("---\ntasks:\n{chain}  - {{id: t1000, prompt: x, deps: [t0]}}\n---\n")
        },
    ] {
        let config = Config::default();
        let loaded = load(&[Source::new("x.md", &text)], &LoadSettings::new(&config));
        assert!(loaded.has_errors(), "{}", &text[..40]);
    }
}

#[test]
fn aliases_cannot_nest_deeper_than_lists_can() {
    let lines: String = (1..80).map(|n| format!("k{n}: &a{n} [*a{}]\n", n - 1)).collect();
    let told = told(&loaded("x.md", &format!("---\nk0: &a0 [x]\n{lines}---\nx")));
    assert_eq!(told, "x.md:65:12: error: not valid YAML: more than 64 levels of nesting\n");
}
