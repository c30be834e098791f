use super::*;
use crate::diagnostic::Diagnostic;

mod diagnostics;
mod docs;
mod overrides;
mod repos;
mod rookery;
mod values;

fn told(diagnostics: &[Diagnostic]) -> String {
    diagnostics.iter().map(|diagnostic| format!("{diagnostic}\n")).collect()
}

/// The configuration of a text without mistakes.
fn config(text: &str) -> Config {
    let (config, diagnostics) = parse("regatta.yaml", text);
    assert_eq!(told(&diagnostics), "");
    config
}
