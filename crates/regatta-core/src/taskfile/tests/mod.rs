use super::*;

mod diagnostics;
mod fuzz;
mod seeds;
mod specs;

/// Loads one file with the built-in configuration.
fn loaded(name: &str, text: &str) -> Loaded {
    let config = Config::default();
    load(&[Source::new(name, text)], &LoadSettings::new(&config))
}

/// The only task of a file that has no mistake.
fn only_task(name: &str, text: &str) -> TaskSpec {
    let mut loaded = loaded(name, text);
    assert_eq!(told(&loaded), "");
    assert_eq!(loaded.tasks.len(), 1);
    loaded.tasks.remove(0)
}

fn told(loaded: &Loaded) -> String {
    loaded.diagnostics.iter().map(|diagnostic| format!("{diagnostic}\n")).collect()
}
