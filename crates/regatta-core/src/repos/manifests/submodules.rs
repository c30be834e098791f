//! `.gitmodules`: the addresses of submodules.

use super::{Manifest, Target};

pub(super) fn read(text: &str, manifest: &mut Manifest) {
    let mut in_submodule = false;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.starts_with('[') {
            in_submodule = line.to_ascii_lowercase().starts_with("[submodule");
            continue;
        }
        let Some((key, value)) = line.split_once('=') else { continue };
        let value = value.trim().trim_matches('"');
        if in_submodule && key.trim().eq_ignore_ascii_case("url") && !value.is_empty() {
            manifest.refer(index + 1, Target::Git(value.to_owned()));
        }
    }
}

/// The paths of the submodules, from the root.
pub fn paths(text: &str) -> Vec<String> {
    let keys = text.lines().filter_map(|line| line.trim().split_once('='));
    let paths = keys.filter(|(key, _)| key.trim().eq_ignore_ascii_case("path"));
    paths
        .map(|(_, value)| value.trim().trim_matches('"').to_owned())
        .filter(|path| !path.is_empty())
        .collect()
}
