//! The commented `regatta.yaml` that `regatta init` writes.

use std::fmt::Write;

use super::config_keys::CONFIG_KEYS;
use super::keys::{Key, Kind};

/// The file: every key with its line of explanation, all but `version` commented out.
///
/// It parses as the defaults.
pub fn template() -> String {
    let mut text = String::from(
        "# How Regatta works in this repository. Every key is optional; a key that is commented out shows its default\n\
         # or an example. A flag wins over REGATTA_* in the environment, which wins over this file.\n",
    );
    for key in CONFIG_KEYS.iter() {
        text.push('\n');
        let children: Vec<&Key> = key.children().unwrap_or_default().into_iter().collect();
        if key.name == "version" {
            let _ = writeln!(text, "# {}\nversion: 1", key.doc);
        } else if key.children().is_some() {
            if children.is_empty() {
                text.pop();
                continue;
            }
            let _ = writeln!(text, "# {}\n# {}:", key.doc, key.name);
            // No example: an alias of another key, or a default that no value can express.
            for child in children.iter().filter(|key| !key.example.is_empty()) {
                let _ = writeln!(text, "#   {}: {}  # {}", child.name, example(child), child.doc);
            }
        } else {
            let _ = writeln!(text, "# {}\n# {}: {}", key.doc, key.name, example(key));
        }
    }
    text
}

/// A value that parses: the default if it is one, else a typical value of the type.
fn example(key: &Key) -> &'static str {
    match (key.kind, key.example) {
        (Kind::Texts | Kind::OneOrMore | Kind::Names | Kind::Ports, "none") => "[]",
        (Kind::Variables | Kind::Counts | Kind::Labels, "none") => "{}",
        (Kind::OneOf(words), example) if !words.contains(&example) => words[0],
        (_, example) => example,
    }
}
