//! Mistakes in `regatta.yaml`. Cases are in `cases/config.txt`: a sentence, the file, `>>>>`, the expected messages.
//!
//! After an intended change, `REGATTA_ACCEPT=1 cargo test -p regatta-core` writes the new texts.

use proptest::prelude::*;

use super::*;

#[test]
fn mistakes_in_the_configuration_are_told_with_their_place() {
    let path = format!("{}/src/config/tests/cases/config.txt", env!("CARGO_MANIFEST_DIR"));
    let cases = std::fs::read_to_string(&path).unwrap();
    let mut found = Vec::new();
    for case in cases.trim_end().split("\n=====\n") {
        let (sentence, rest) = case.split_once('\n').unwrap_or((case, ""));
        let input = rest.split(">>>>").next().unwrap_or_default().trim_end_matches('\n').to_owned() + "\n";
        let told = told(&parse("regatta.yaml", &input).1);
        found.push(format!("{sentence}\n{input}>>>>\n{told}").trim_end().to_owned());
    }
    let found = found.join("\n=====\n") + "\n";
    if std::env::var_os("REGATTA_ACCEPT").is_some() {
        std::fs::write(&path, &found).unwrap();
    }
    for (expected, found) in cases.split("\n=====\n").zip(found.split("\n=====\n")) {
        assert_eq!(found.trim_end(), expected.trim_end());
    }
    assert_eq!(found, cases, "the cases differ in their number or their white space");
}

/// The file of the reference, with a value for every key.
const FULL: &str = "version: 1\ntarget: main\nagents:\n  claude: { kind: claude, model: sonnet, args: [] }\n  sh: { kind: command, argv: [\"sh\"] }\ndefaults: { max_attempts: 3, timeout: 90m, verdict_adapter: chain }\nlane: { include: [.env], setup: \"npm ci\" }\nland: { auto: true, strategy: rebase, parallel: 4 }\nlimits: { groups: { db: 1 }, budget_usd: 50 }\nprofiles: [ { name: m, env: { A: b } } ]\nnotify: [ { on: [landed], webhook: \"https://x\" } ]\n";

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_configuration_is_read_without_panic(at in 0..FULL.len(), n_cut in 0..8usize, insert in "[\\PC\n\t:\\[\\]{}&*\"'-]{0,6}") {
        let end = (at + n_cut).min(FULL.len());
        let text = format!("{}{insert}{}", &FULL[..at], &FULL[end..]);
        let (config, diagnostics) = parse("regatta.yaml", &text);
        let lines: Vec<String> = normalised(&text).split('\n').map(str::to_owned).collect();
        for diagnostic in &diagnostics {
            let width = lines[diagnostic.line - 1].chars().count();
            prop_assert!((1..=width + 1).contains(&diagnostic.column), "{diagnostic:?} in {text:?}");
        }
        prop_assert!(config.max_workers >= 1 && config.defaults.max_attempts >= 1);
    }
}
