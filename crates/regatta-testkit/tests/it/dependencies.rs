//! `deny.toml` is what `cargo deny` reads. Its rules about licences and sources hold here too, without that program.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The quoted lines of the list `allow` in `deny.toml`.
fn allowed() -> BTreeSet<String> {
    let text = fs::read_to_string(root().join("deny.toml")).unwrap();
    let list = text.split_once("allow = [").expect("a list of licences").1;
    let list = list.split_once(']').expect("its end").0;
    list.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Whether a licence expression can be met with the allowed licences.
fn is_met(expression: &str, allowed: &BTreeSet<String>) -> bool {
    // Older crates write `MIT/Apache-2.0` for OR.
    let expression = expression.replace('/', " OR ");
    let all_of = |part: &str| part.split(" AND ").all(|name| allowed.contains(name.trim()));
    // In the expressions of our dependencies, parentheses only stand around alternatives of an AND.
    let parts: Vec<&str> = if expression.contains('(') {
        expression.split(" AND ").map(|part| part.trim_matches(['(', ')'])).collect()
    } else {
        vec![&expression]
    };
    parts.into_iter().all(|part| part.split(" OR ").any(all_of))
}

#[test]
fn every_dependency_has_a_welcome_licence_and_comes_from_the_registry() {
    let metadata = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--locked", "--offline"])
        .arg("--filter-platform=x86_64-unknown-linux-gnu")
        .current_dir(root())
        .output()
        .unwrap();
    assert!(metadata.status.success(), "{}", String::from_utf8_lossy(&metadata.stderr));
    let metadata: Value = serde_json::from_slice(&metadata.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    assert!(packages.len() > 100, "the dependencies were not found");
    let allowed = allowed();
    for package in packages {
        let name = package["name"].as_str().unwrap();
        let licence = package["license"].as_str().unwrap_or("none");
        assert!(is_met(licence, &allowed), "{name} has the licence {licence}: not in deny.toml");
        let source = package["source"].as_str();
        assert!(source.is_none_or(|source| source == REGISTRY), "{name} comes from {source:?}");
    }
}

#[test]
fn a_licence_expression_is_met_by_one_alternative_and_by_every_part() {
    let allowed = ["MIT", "ISC"].map(str::to_owned).into();
    for (expression, met) in [
        ("MIT", true),
        ("GPL-3.0-only", false),
        ("GPL-3.0-only OR MIT", true),
        ("MIT/Apache-2.0", true),
        ("MIT AND ISC", true),
        ("MIT AND GPL-3.0-only", false),
        ("(MIT OR Apache-2.0) AND ISC", true),
        ("(MIT OR Apache-2.0) AND GPL-3.0-only", false),
    ] {
        assert_eq!(is_met(expression, &allowed), met, "{expression}");
    }
}
