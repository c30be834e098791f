//! Environment variables that a task or an agent may set, and those refused because they would hijack programs.

use crate::diagnostic::Report;

use super::yaml::{Data, Entry, ScalarKind};

/// Refused by prefix.
const REFUSED_PREFIXES: [&str; 7] =
    ["LD_", "DYLD_", "GIT_", "REGATTA_", "ROOKERY_", "BASH_FUNC_", "PO_WORKTREE_GUARD"];

/// Refused by name: they load code, redirect programs or change how shells read commands.
const REFUSED: [&str; 24] = [
    "PATH",
    "PYTHONPATH",
    "PYTHONSTARTUP",
    "PYTHONHOME",
    "NODE_OPTIONS",
    "NODE_PATH",
    "BASH_ENV",
    "ENV",
    "IFS",
    "SHELLOPTS",
    "BASHOPTS",
    "PS4",
    "PROMPT_COMMAND",
    "ZDOTDIR",
    "PERL5OPT",
    "PERL5LIB",
    "PERL5DB",
    "RUBYOPT",
    "RUBYLIB",
    "JAVA_TOOL_OPTIONS",
    "_JAVA_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "GLIBC_TUNABLES",
    "GCONV_PATH",
];

/// Why a variable may not be set; completes a sentence that begins with its name.
pub fn refused_variable(name: &str) -> Option<&'static str> {
    let mut letters = name.chars();
    let valid = letters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
        && letters.all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !valid {
        return Some("is not a valid name for a variable; letters, digits and '_' are allowed");
    }
    if name.starts_with("REGATTA_") || name.starts_with("ROOKERY_") || name == "PO_WORKTREE_GUARD" {
        return Some("is set by Regatta itself");
    }
    if REFUSED.contains(&name) || REFUSED_PREFIXES.iter().any(|prefix| name.starts_with(prefix)) {
        return Some("is refused, because it can make programs run other code");
    }
    None
}

/// Parses a mapping of variables. Numbers and booleans are kept as written.
pub(crate) fn read(entries: &[Entry], path: &str, report: &mut Report) -> Option<Vec<(String, String)>> {
    let mut pairs = Vec::new();
    let mut ok = true;
    for entry in entries {
        let field = format!("{path}.{}", entry.key);
        if let Some(why) = refused_variable(&entry.key) {
            report.error(entry.key_pos, &field, format!("variable {:?} {why}", entry.key));
            ok = false;
            continue;
        }
        match &*entry.value.data {
            Data::Scalar(scalar) if scalar.text.contains('\0') => {
                report.error(
                    entry.value.pos,
                    &field,
                    format!("variable `{}` contains a NUL character", entry.key),
                );
                ok = false;
            }
            // `X:` and `X: ""` are the empty string; only quoted text can be literally `null`.
            Data::Scalar(scalar) if scalar.kind == ScalarKind::Null => {
                pairs.push((entry.key.clone(), String::new()));
            }
            Data::Scalar(scalar) => pairs.push((entry.key.clone(), scalar.text.clone())),
            Data::List(_) | Data::Map(_) => {
                let found = entry.value.describe();
                let message = format!(
                    "variable `{}` must be a string, a number or a boolean, found {found}",
                    entry.key
                );
                report.error(entry.value.pos, &field, message);
                ok = false;
            }
        }
    }
    ok.then_some(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_that_hijack_programs_are_refused() {
        for name in [
            "LD_PRELOAD",
            "DYLD_INSERT_LIBRARIES",
            "GIT_DIR",
            "PATH",
            "PYTHONPATH",
            "NODE_OPTIONS",
            "BASH_ENV",
            "IFS",
            "REGATTA_TOKEN",
            "ROOKERY_DB",
            "PO_WORKTREE_GUARD",
            "",
            "A B",
            "1X",
            "A=B",
            "é",
            "BASH_FUNC_x%%",
        ] {
            assert!(refused_variable(name).is_some(), "{name}");
        }
        for name in ["RUST_LOG", "_X", "CLAUDE_CONFIG_DIR", "HOME", "LDFLAGS", "GITHUB_TOKEN", "PATHS"] {
            assert_eq!(refused_variable(name), None, "{name}");
        }
    }
}
