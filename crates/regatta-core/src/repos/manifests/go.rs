//! `go.mod` and `go.work`: directives, one per line or in a block.

use super::{Ecosystem, Manifest, Mistake, Target};
use crate::diagnostic::Pos;

pub(super) fn read_module(text: &str, manifest: &mut Manifest) -> Result<(), Mistake> {
    for Directive { line, verb, words } in directives(text)? {
        match (verb.as_str(), words.as_slice()) {
            ("module", [name, ..]) => manifest.provides.push((Ecosystem::Go, name.clone())),
            ("require", [name, ..]) => {
                manifest.refer(line, Target::Package(Ecosystem::Go, name.clone()));
            }
            ("replace", words) => replaced(line, words, manifest),
            _ => {}
        }
    }
    Ok(())
}

pub(super) fn read_workspace(text: &str, manifest: &mut Manifest) -> Result<(), Mistake> {
    for Directive { line, verb, words } in directives(text)? {
        match (verb.as_str(), words.as_slice()) {
            ("use", [path, ..]) => manifest.refer(line, Target::Path(path.clone())),
            ("replace", words) => replaced(line, words, manifest),
            _ => {}
        }
    }
    Ok(())
}

/// `old [version] => path`, or `old [version] => module version`.
fn replaced(line: usize, words: &[String], manifest: &mut Manifest) {
    let new = words.iter().skip_while(|word| *word != "=>").nth(1);
    let Some(new) = new else { return };
    let is_path = ["./", "../", "/"].iter().any(|start| new.starts_with(start)) || new == "." || new == "..";
    let target =
        if is_path { Target::Path(new.clone()) } else { Target::Package(Ecosystem::Go, new.clone()) };
    manifest.refer(line, target);
}

struct Directive {
    line: usize,
    verb: String,
    words: Vec<String>,
}

fn directives(text: &str) -> Result<Vec<Directive>, Mistake> {
    let mut found = Vec::new();
    let mut block: Option<(usize, String)> = None;
    for (index, content) in text.lines().enumerate() {
        let line = index + 1;
        let mut words = words(content);
        if words.is_empty() {
            continue;
        }
        if let Some((_, verb)) = &block {
            if words == [")"] {
                block = None;
            } else {
                found.push(Directive { line, verb: verb.clone(), words });
            }
            continue;
        }
        let verb = words.remove(0);
        if words == ["("] {
            block = Some((line, verb));
        } else if let Some(verb) = verb.strip_suffix('(') {
            block = Some((line, verb.to_owned()));
        } else {
            found.push(Directive { line, verb, words });
        }
    }
    match block {
        None => Ok(found),
        Some((line, verb)) => {
            let message = format!("the block `{verb} (` is never closed");
            Err(Mistake { pos: Pos { line, column: 1 }, message })
        }
    }
}

/// The words of a line without its comment, and without the quotes around them.
fn words(line: &str) -> Vec<String> {
    let line = match line.find("//") {
        Some(at) if at == 0 || line[..at].ends_with([' ', '\t']) => &line[..at],
        _ => line,
    };
    line.split_whitespace().map(|word| word.trim_matches(['"', '`']).to_owned()).collect()
}
