//! The simulated agent's script: one instruction per line.
//!
//! If the prompt has fenced blocks that begin with ```` ```sim ````, they are the script, and a line in them that is
//! not an instruction is an error (except blank lines and `#` comments). Otherwise, every line that happens to be an
//! instruction is one, and prose is ignored.
//!
//! | instruction | what the agent does |
//! |---|---|
//! | `say TEXT` | says it |
//! | `think MS` | waits |
//! | `write PATH TEXT` · `append PATH TEXT` | a file, directories made; `\n`, `\t`, `\\` in the text |
//! | `edit PATH OLD => NEW` · `delete PATH` | changes a file |
//! | `run ARGV…` | runs a program, words as in a shell, no shell; a failure does not stop the agent |
//! | `commit MESSAGE` | commits everything in the lane |
//! | `tool NAME SUMMARY` | pretends to use a tool |
//! | `cost USD` · `tokens IN OUT` | adds to what it has used |
//! | `report VERDICT SUMMARY` · `progress LABEL` · `stuck WHY` | runs `regatta done`, `progress`, `stuck` |
//! | `marker VERDICT SUMMARY` · `json-result VERDICT SUMMARY` | the other two ways to report a verdict |
//! | `lie` | reports a pass without having done anything |
//! | `fail-until N` | fails unless this is attempt N or later |
//! | `limit-until SECONDS` · `limit-once SECONDS` | ends as rate limited; `-once` only in the first attempt |
//! | `exit N` · `crash` · `hang` · `ignore-term` | ends with a failure, or not at all |
//! | `spawn-orphan SECONDS` | leaves a process behind, in its own session |
//! | `flood BYTES` | prints that much |

use std::str::FromStr;

/// One instruction.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the table above says what each one does")]
pub enum Step {
    Say(String),
    Think(u64),
    Write { path: String, text: String },
    Append { path: String, text: String },
    Edit { path: String, old: String, new: String },
    Delete(String),
    Run(Vec<String>),
    Commit(String),
    Tool { name: String, summary: String },
    Cost(f64),
    Tokens(u64, u64),
    Report { verdict: String, summary: String },
    Progress(String),
    Stuck(String),
    Marker { verdict: String, summary: String },
    JsonResult { verdict: String, summary: String },
    Lie,
    FailUntil(u32),
    LimitUntil(u64),
    LimitOnce(u64),
    Exit(i32),
    Crash,
    Hang,
    IgnoreTerm,
    SpawnOrphan(u64),
    Flood(u64),
}

/// A line inside a fence that is not an instruction.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the prompt: {why}: `{text}`")]
pub struct ScriptError {
    /// The line number in the prompt, from 1.
    pub line: usize,
    /// The line.
    pub text: String,
    /// What is wrong with it.
    pub why: String,
}

/// Finds and parses the script in a prompt.
pub fn parse(prompt: &str) -> Result<Vec<Step>, ScriptError> {
    let is_opening = |line: &str| line.trim() == "```sim";
    if !prompt.lines().any(is_opening) {
        return Ok(prompt.lines().filter_map(|line| step(line.trim()).ok()).collect());
    }
    let mut steps = Vec::new();
    let mut inside = false;
    for (at, line) in prompt.lines().enumerate() {
        let line = line.trim();
        if !inside {
            inside = is_opening(line);
        } else if line.starts_with("```") {
            inside = false;
        } else if !line.is_empty() && !line.starts_with('#') {
            steps.push(step(line).map_err(|why| ScriptError { line: at + 1, text: line.to_owned(), why })?);
        }
    }
    Ok(steps)
}

fn step(line: &str) -> Result<Step, String> {
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest = rest.trim();
    let step = match word {
        "say" => Step::Say(unescape(rest)),
        "think" => Step::Think(number(rest)?),
        "write" => two(rest, "PATH TEXT").map(|(path, text)| Step::Write { path, text: unescape(&text) })?,
        "append" => {
            two(rest, "PATH TEXT").map(|(path, text)| Step::Append { path, text: unescape(&text) })?
        }
        "edit" => {
            let (path, change) = two(rest, "PATH OLD => NEW")?;
            let (old, new) = change.split_once("=>").ok_or("expected PATH OLD => NEW")?;
            let (old, new) = (unescape(old.trim()), unescape(new.trim()));
            if old.is_empty() {
                return Err("expected PATH OLD => NEW".to_owned());
            }
            Step::Edit { path, old, new }
        }
        "delete" => Step::Delete(some(rest, "PATH")?),
        "run" => {
            let argv = words(rest)?;
            if argv.is_empty() {
                return Err("expected a program".to_owned());
            }
            Step::Run(argv)
        }
        "commit" => Step::Commit(some(rest, "MESSAGE")?),
        "tool" => {
            let (name, summary) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
            Step::Tool { name: some(name, "NAME")?, summary: summary.trim().to_owned() }
        }
        "cost" => Step::Cost(number::<f64>(rest).and_then(|usd| {
            if usd.is_finite() && usd >= 0.0 { Ok(usd) } else { Err("expected dollars".to_owned()) }
        })?),
        "tokens" => {
            let (read, written) = two(rest, "IN OUT")?;
            Step::Tokens(number(&read)?, number(&written)?)
        }
        "report" => {
            two(rest, "VERDICT SUMMARY").map(|(verdict, summary)| Step::Report { verdict, summary })?
        }
        "marker" => {
            two(rest, "VERDICT SUMMARY").map(|(verdict, summary)| Step::Marker { verdict, summary })?
        }
        "json-result" => {
            two(rest, "VERDICT SUMMARY").map(|(verdict, summary)| Step::JsonResult { verdict, summary })?
        }
        "progress" => Step::Progress(some(rest, "LABEL")?),
        "stuck" => Step::Stuck(some(rest, "WHY")?),
        "fail-until" => Step::FailUntil(number(rest)?),
        "limit-until" => Step::LimitUntil(number(rest)?),
        "limit-once" => Step::LimitOnce(number(rest)?),
        "exit" => Step::Exit(number(rest)?),
        "spawn-orphan" => Step::SpawnOrphan(number(rest)?),
        "flood" => Step::Flood(number(rest)?),
        "lie" | "crash" | "hang" | "ignore-term" if !rest.is_empty() => {
            return Err(format!("`{word}` takes no argument"));
        }
        "lie" => Step::Lie,
        "crash" => Step::Crash,
        "hang" => Step::Hang,
        "ignore-term" => Step::IgnoreTerm,
        _ => return Err("no such instruction".to_owned()),
    };
    Ok(step)
}

fn some(text: &str, what: &str) -> Result<String, String> {
    if text.is_empty() { Err(format!("expected {what}")) } else { Ok(text.to_owned()) }
}

fn two(text: &str, what: &str) -> Result<(String, String), String> {
    let (first, rest) = text.split_once(char::is_whitespace).ok_or(format!("expected {what}"))?;
    Ok((first.to_owned(), rest.trim().to_owned()))
}

fn number<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| "expected a number".to_owned())
}

fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            plain.push(c);
            continue;
        }
        match chars.next() {
            Some('n') => plain.push('\n'),
            Some('t') => plain.push('\t'),
            Some('\\') | None => plain.push('\\'),
            Some(other) => plain.extend(['\\', other]),
        }
    }
    plain
}

/// Splits words as a shell would: blanks, single and double quotes, backslashes. Nothing is expanded.
pub(super) fn words(text: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            c if c.is_whitespace() => words.extend(word.take()),
            '\'' | '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next() {
                        None => return Err("a quote is not closed".to_owned()),
                        Some(end) if end == c => break,
                        Some('\\') if c == '"' && matches!(chars.peek(), Some('"' | '\\')) => {
                            word.extend(chars.next());
                        }
                        Some(other) => word.push(other),
                    }
                }
            }
            '\\' => word.get_or_insert_default().push(chars.next().ok_or("nothing follows the backslash")?),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests;
