//! Paths in plans, made relative to the repository root.

/// Where a path of a plan leads.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Spot {
    /// Into the repository: relative to its root, which itself is empty.
    Inside(String),
    /// Outside: absolute.
    Outside(String),
}

/// Where `path`, as written in a file in `dir`, leads. `dir` is relative to the repository root, unless it is absolute.
///
/// The error follows the path in the message: `"../../x" leaves the repository`.
pub(super) fn locate(dir: &str, path: &str, repo_root: Option<&str>) -> Result<Spot, String> {
    let Some(root) = repo_root else {
        return if path.starts_with('/') || dir.starts_with('/') {
            Err("is absolute; write a relative path".to_owned())
        } else {
            joined([dir, path]).map(Spot::Inside).ok_or_else(|| "leaves the repository".to_owned())
        };
    };
    let absolute = if path.starts_with('/') {
        normal([path])
    } else if dir.starts_with('/') {
        normal([dir, path])
    } else {
        normal([root, dir, path])
    };
    let root = normal([root]);
    Ok(match below(&root, &absolute) {
        Some(rest) => Spot::Inside(rest.to_owned()),
        None => Spot::Outside(format!("/{absolute}")),
    })
}

/// Makes `path`, as written in a file in `dir`, relative to the repository root; the root itself is empty.
pub(super) fn inside(dir: &str, path: &str, repo_root: Option<&str>) -> Result<String, String> {
    match locate(dir, path, repo_root)? {
        Spot::Inside(path) => Ok(path),
        Spot::Outside(_) => Err("leaves the repository".to_owned()),
    }
}

/// The parts as one path without `.` and `..`; `None` if it climbs above its start.
fn joined<'a>(parts: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let mut clean: Vec<&str> = Vec::new();
    for part in parts.into_iter().flat_map(|part| part.split('/')) {
        match part {
            "" | "." => {}
            ".." => drop(clean.pop()?),
            _ => clean.push(part),
        }
    }
    Some(clean.join("/"))
}

/// An absolute path without `.`, `..` and its first `/`. `..` at the root stays at the root.
fn normal<'a>(parts: impl IntoIterator<Item = &'a str>) -> String {
    let mut clean: Vec<&str> = Vec::new();
    for part in parts.into_iter().flat_map(|part| part.split('/')) {
        match part {
            "" | "." => {}
            ".." => drop(clean.pop()),
            _ => clean.push(part),
        }
    }
    clean.join("/")
}

/// The rest of `path` below `root`, both normalised.
fn below<'a>(root: &str, path: &'a str) -> Option<&'a str> {
    match path.strip_prefix(root)? {
        "" => Some(""),
        rest if root.is_empty() => Some(rest),
        rest => rest.strip_prefix('/'),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_taken_from_the_plans_directory_and_stay_in_the_repository() {
        let check = |dir: &str, path: &str, expected: Result<&str, &str>| {
            let found = inside(dir, path, Some("/home/me/repo"));
            assert_eq!(found.as_deref().map_err(String::as_str), expected, "{path} in {dir}");
        };
        check("", ".", Ok(""));
        check("plans", ".", Ok("plans"));
        check("plans", "..", Ok(""));
        check(".claude/reports", "../../src//x.rs", Ok("src/x.rs"));
        check("plans", "../..", Err("leaves the repository"));
        check("plans", "/home/me/repo/src", Ok("src"));
        check("plans", "/home/me/./repo", Ok(""));
        check("plans", "/home/me/repo/../x", Err("leaves the repository"));
        check("plans", "/home/me/repository", Err("leaves the repository"));
        check("plans", "/etc", Err("leaves the repository"));
        check("plans", "../../repo/src", Ok("src"));
        check("/home/me", "repo", Ok(""));
        check("/home/me/plans", "../repo/src/x.rs", Ok("src/x.rs"));
        check("/home/me/plans", ".", Err("leaves the repository"));
        check("/", "home/me/repo/y", Ok("y"));
        assert!(inside("", "/etc", None).unwrap_err().starts_with("is absolute"));
        assert_eq!(inside("", "../x", None).unwrap_err(), "leaves the repository");
        assert_eq!(
            locate("/home/me/plans", "../other", Some("/home/me/repo")),
            Ok(Spot::Outside("/home/me/other".into()))
        );
    }
}
