//! Variables in `.env` files.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use rustix::fs::{Mode, OFlags};

/// The most bytes to read of a file.
const LONGEST_FILE_BYTES: u64 = 1024 * 1024;

/// The text of such a file. An agent may have put anything there, so only a plain file is read, and not all of a huge
/// one.
pub(crate) fn read(path: &Path) -> io::Result<String> {
    // A FIFO is opened without waiting for a writer.
    let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?;
    let file = File::from(file);
    if !file.metadata()?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut bytes = Vec::new();
    file.take(LONGEST_FILE_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// True for files that programs read their variables from: `.env`, `.env.local`, `dev.env`, `.envrc`.
pub(crate) fn is_env_file(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    name == ".envrc" || name.starts_with(".env.") || name.ends_with(".env")
}

/// Name and value of each `KEY=VALUE`. Other lines are ignored: this only collects what to mask.
pub(crate) fn variables(text: &str) -> Vec<(String, String)> {
    text.lines().filter_map(variable).collect()
}

fn variable(line: &str) -> Option<(String, String)> {
    let line = line.trim();
    let line = line.strip_prefix("export ").unwrap_or(line);
    let (name, value) = line.split_once('=')?;
    let name = name.trim();
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c));
    is_name.then(|| (name.to_owned(), unquoted(value.trim())))
}

fn unquoted(value: &str) -> String {
    for quote in ['"', '\'', '`'] {
        if let Some((inner, _)) = value.strip_prefix(quote).and_then(|rest| rest.rsplit_once(quote)) {
            return match quote {
                '"' => inner.replace("\\n", "\n").replace("\\\"", "\"").replace("\\$", "$"),
                _ => inner.to_owned(),
            };
        }
    }
    value.split(" #").next().unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_what_programs_read() {
        let text = "# A_TOKEN=no\nA_TOKEN=plain # said\nexport B_KEY=\"with # and \\\"\"\nC_SECRET='it is'\n\nD = x \nnot a line\n=y";
        let pairs: Vec<String> =
            variables(text).into_iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(pairs, ["A_TOKEN=plain", "B_KEY=with # and \"", "C_SECRET=it is", "D=x"]);
    }

    #[test]
    fn env_files_are_known_by_their_names() {
        for name in [".env", "web/.env.local", "dev.env", ".envrc"] {
            assert!(is_env_file(Path::new(name)), "{name}");
        }
        for name in ["env", "environment.ts", ".environment", "src/env.rs"] {
            assert!(!is_env_file(Path::new(name)), "{name}");
        }
    }
}
