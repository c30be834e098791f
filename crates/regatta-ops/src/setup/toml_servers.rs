//! Regatta's server in codex's `config.toml`: our own block at its end; nothing else in it is changed.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use super::files::{FileDone, FileStep, write};
use crate::refusal::Refusal;

/// The block. It is at the end of the file, so that it is not part of a table of the user's.
const BLOCK: &str = "\
# Written by `regatta setup codex`.
[mcp_servers.regatta]
command = \"regatta\"
args = [\"mcp\"]
tool_timeout_sec = 660
# End of what `regatta setup codex` wrote.
";

/// Adds the server, or removes it.
pub(super) fn change(path: &Path, remove: bool, dry: bool) -> Result<FileStep, Refusal> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        Err(error) => return Err(Refusal::io("reading", path, &error)),
    };
    let (text, done) = match changed(&text, remove) {
        Ok((None, done)) => return Ok(FileStep::of(path, done)),
        Ok((Some(text), done)) => (text, done),
        Err(why) => return Ok(FileStep::kept(path, why)),
    };
    if !dry {
        if text.is_empty() {
            fs::remove_file(path).map_err(|error| Refusal::io("removing", path, &error))?;
        } else {
            write(path, &text)?;
        }
    }
    Ok(FileStep::of(path, done))
}

/// The new text, if it differs.
fn changed(text: &str, remove: bool) -> Result<(Option<String>, FileDone), String> {
    let has_block = text.contains(BLOCK);
    let rest = text.replacen(BLOCK, "", 1);
    let names_it = rest.lines().any(|line| {
        let line: String = line.split('#').next().unwrap_or_default().split_whitespace().collect();
        let line = line.replace(['"', '\''], "");
        line.starts_with("[mcp_servers.regatta]")
            || line.starts_with("mcp_servers.regatta")
            || line.starts_with("mcp_servers=")
    });
    match (remove, has_block) {
        (true, true) => {
            let rest = rest.trim_end();
            let rest = if rest.is_empty() { String::new() } else { format!("{rest}\n") };
            Ok((Some(rest), FileDone::Removed))
        }
        (false, true) => Ok((None, FileDone::Current)),
        _ if names_it => {
            Err("it has settings for a server `regatta`, or one list of all servers; add `command = \"regatta\"` and `args = [\"mcp\"]` there, or change it yourself".to_owned())
        }
        (true, false) => Ok((None, FileDone::Absent)),
        (false, false) => {
            let rest = text.trim_end();
            let gap = if rest.is_empty() { "" } else { "\n\n" };
            Ok((Some(format!("{rest}{gap}{BLOCK}")), FileDone::Written))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_block_comes_and_goes_and_the_rest_stays() {
        let mine = "model = \"x\"\n\n[features]\nplugins = false\n";
        let (with, done) = changed(mine, false).unwrap();
        let with = with.unwrap();
        assert!(done == FileDone::Written && with.starts_with(mine.trim_end()) && with.ends_with(BLOCK));
        assert_eq!(changed(&with, false).unwrap(), (None, FileDone::Current));
        assert_eq!(changed(&with, true).unwrap(), (Some(mine.to_owned()), FileDone::Removed));
        assert_eq!(changed(BLOCK, true).unwrap(), (Some(String::new()), FileDone::Removed));
        assert_eq!(changed(mine, true).unwrap(), (None, FileDone::Absent));
        for other in [
            "[mcp_servers.regatta]\ncommand = \"x\"\n",
            "[ mcp_servers . \"regatta\" ]\n",
            "mcp_servers = {}\n",
        ] {
            assert!(changed(other, false).is_err(), "{other}");
        }
    }
}
