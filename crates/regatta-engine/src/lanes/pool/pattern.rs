//! Patterns of `lane.build_dirs` and `lane.setup_inputs`, with the meaning of `.gitignore`.
//!
//! They differ from `core::writes`, whose declarations all start at the root and are compared with each other: here a
//! bare name matches at any depth, paths are bytes, and a pattern is only compared with paths.

/// A name without a slash matches at any depth, a path is relative to the repository's root. `*` and `?` stay within a
/// name, `**` does not. A match includes everything below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TreePattern {
    parts: Vec<Vec<u8>>,
}

impl TreePattern {
    /// Parses a line as written; a pattern that cannot match inside a repository matches nothing.
    pub(crate) fn new(text: &str) -> Self {
        let anchored = text.trim_end_matches('/').contains('/');
        let named = text.split('/').filter(|part| !matches!(*part, "" | "."));
        let mut parts: Vec<Vec<u8>> = named.map(|part| part.as_bytes().to_vec()).collect();
        if !anchored && !parts.is_empty() {
            parts.insert(0, b"**".to_vec());
        }
        Self { parts }
    }

    /// Whether `path`, or a directory above it, matches.
    pub(crate) fn covers(&self, path: &[u8]) -> bool {
        let names: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
        !self.parts.is_empty() && covers(&self.parts, &names)
    }
}

fn covers(parts: &[Vec<u8>], names: &[&[u8]]) -> bool {
    match (parts.split_first(), names.split_first()) {
        (None, _) => true,
        (Some((any, rest)), _) if any == b"**" => (0..names.len()).any(|n| covers(rest, &names[n..])),
        (Some((part, rest)), Some((name, below))) => is_like(part, name) && covers(rest, below),
        (Some(_), None) => false,
    }
}

/// Whether a name matches a part; a star is tried at every length, the shortest first.
fn is_like(part: &[u8], name: &[u8]) -> bool {
    let (mut at, mut of, mut star) = (0, 0, None);
    while of < name.len() {
        match part.get(at) {
            Some(b'*') => {
                star = Some((at, of));
                at += 1;
            }
            Some(byte) if *byte == b'?' || *byte == name[of] => (at, of) = (at + 1, of + 1),
            _ => {
                let Some((was, from)) = star else { return false };
                star = Some((was, from + 1));
                (at, of) = (was + 1, from + 1);
            }
        }
    }
    part[at..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_meant_anywhere_and_a_path_from_the_root() {
        for (pattern, path, meant) in [
            ("target/", "target", true),
            ("target", "target/debug/a", true),
            ("target", "a/b/target", true),
            ("target", "targets", false),
            ("web/node_modules", "web/node_modules", true),
            ("web/node_modules", "app/web/node_modules", false),
            ("./web/dist/", "web/dist", true),
            ("/dist", "dist", true),
            ("/dist", "a/dist", false),
            ("package*.json", "a/package-lock.json", true),
            ("package*.json", "package.json5", false),
            ("apps/*/Cargo.lock", "apps/x/Cargo.lock", true),
            ("apps/*/Cargo.lock", "apps/x/y/Cargo.lock", false),
            ("apps/**/Cargo.lock", "apps/x/y/Cargo.lock", true),
            ("apps/**/Cargo.lock", "apps/Cargo.lock", true),
            ("?.txt", "a.txt", true),
            ("?.txt", "ab.txt", false),
            ("*a*b*", "xxaxxbxx", true),
            ("*a*b*", "xxbxxaxx", false),
            ("", "a", false),
            ("/", "a", false),
            ("../up", "up", false),
        ] {
            assert_eq!(TreePattern::new(pattern).covers(path.as_bytes()), meant, "{pattern:?} of {path:?}");
        }
    }
}
