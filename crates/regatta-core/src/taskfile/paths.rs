//! Paths in plans, made relative to the repository root.

/// Makes `path`, as written in a file in `dir`, relative to the repository root; the root itself is empty.
///
/// The error stands behind the path: `"../../x" leaves the repository`.
pub(super) fn inside(dir: &str, path: &str, repo_root: Option<&str>) -> Result<String, String> {
    let absolute = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    let from_root = if absolute {
        let root = repo_root.ok_or("is absolute; write a relative path")?;
        below(root, path).ok_or("leaves the repository")?
    } else {
        path.to_owned()
    };
    let base = if absolute { "" } else { dir };
    for part in base.split('/').chain(from_root.split('/')) {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop().ok_or("leaves the repository")?),
            _ => parts.push(part),
        }
    }
    Ok(parts.join("/"))
}

/// What remains of `path` below `root`, both absolute.
fn below(root: &str, path: &str) -> Option<String> {
    let mut rest = path.split('/').filter(|part| !part.is_empty() && *part != ".");
    for part in root.split('/').filter(|part| !part.is_empty() && *part != ".") {
        if rest.next() != Some(part) {
            return None;
        }
    }
    Some(rest.collect::<Vec<_>>().join("/"))
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
        assert!(inside("", "/etc", None).unwrap_err().starts_with("is absolute"));
    }
}
