//! Output as a snapshot compares it: whole, with a word in place of everything that differs from run to run.
//!
//! `DIR` is the world's directory, `HASH` an object id, `TOKEN` a proof of ownership, `TIME` a duration, `CLOCK`, `DATE`
//! and `WHEN` a time of day, a date and both, `PID` a process, `HOST` the machine, `UUID` a session, `LEVEL` a level of
//! the sandbox.

use std::sync::LazyLock;

static HOST: LazyLock<String> = LazyLock::new(|| {
    std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned()
});

/// Replaces what differs from run to run, and removes spaces at the ends of lines.
///
/// Between such a word and the next column are always two spaces, because its width varies.
pub fn shown(text: &str) -> String {
    let text = without_directory(text);
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        out.push_str(&masked(line.trim_end_matches('\n')));
        if line.ends_with('\n') {
            out.push('\n');
        }
    }
    out
}

/// What `regatta doctor --json` found about `check`, as a person sees it.
pub fn told(findings: &serde_json::Value, check: &str) -> String {
    let list = findings
        .as_array()
        .expect("findings are an array")
        .iter()
        .filter(|finding| finding["check"] == check);
    let lines = list.map(|finding| {
        let text = |key: &str| finding[key].as_str().unwrap_or_default();
        let hint = finding["hint"].as_str().map(|hint| format!("  hint: {hint}\n"));
        format!("{}: {}\n{}", text("status"), text("detail"), hint.unwrap_or_default())
    });
    shown(&lines.collect::<String>())
}

/// Every path to a temporary directory of the tests becomes `DIR`.
fn without_directory(text: &str) -> String {
    const PREFIX: &str = "/regatta-test-";
    const RANDOM: usize = 6;
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(PREFIX) {
        let in_path = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-');
        let start = rest[..at]
            .rfind(|c| !in_path(c))
            .map_or(0, |before| before + rest[before..].chars().next().map_or(1, char::len_utf8));
        let after = &rest[at + PREFIX.len()..];
        // A name that was cut to the width of a column has fewer.
        let random = after.bytes().take(RANDOM).take_while(u8::is_ascii_alphanumeric).count();
        let end = at + PREFIX.len() + random;
        out.push_str(&rest[..start]);
        out.push_str("DIR");
        rest = &rest[end..];
    }
    out + rest
}

fn masked(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    let mut varies = line.contains("DIR");
    while let Some(first) = rest.chars().next() {
        let word = if is_host(&out, rest) { &rest[..HOST.len()] } else { first_word(rest) };
        let Some(mask) = mask(word, &out, &rest[word.len()..]) else {
            let end = word.len().max(first.len_utf8());
            out.push_str(&rest[..end]);
            rest = &rest[end..];
            continue;
        };
        rest = &rest[word.len()..];
        let before = out.trim_end_matches(' ').len();
        if before > 0 && out.len() > before + 2 {
            out.truncate(before + 2);
        }
        // In the lines of a run the duration is right-aligned: `12.3s` takes a space of `9.8s`.
        if mask == "TIME" && out == "   " {
            out.push(' ');
        }
        out.push_str(mask);
        let spaces = rest.len() - rest.trim_start_matches(' ').len();
        rest = &rest[spaces.saturating_sub(2)..];
        varies = true;
    }
    // `now` and `1s ago` have different widths.
    while let Some(at) = out.find("TIME ago   ") {
        out.remove(at + "TIME ago".len());
    }
    let out = out.trim_end();
    match out.strip_suffix("───") {
        // A rule that fills the rest of the line.
        Some(out) if varies => format!("{}──", out.trim_end_matches('─')),
        _ => out.to_owned(),
    }
}

/// The letters, digits and what can connect them, from the start; empty if there are none.
fn first_word(text: &str) -> &str {
    let bytes = text.as_bytes();
    let digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let goes_on = |at: usize| match bytes[at] {
        b'.' => at > 0 && digit(at - 1) && digit(at + 1),
        b'_' | b':' | b'-' => at > 0,
        byte => byte.is_ascii_alphanumeric(),
    };
    let end = (0..bytes.len()).find(|at| !goes_on(*at)).unwrap_or(bytes.len());
    text[..end].trim_end_matches([':', '-'])
}

fn mask(word: &str, before: &str, after: &str) -> Option<&'static str> {
    let shape: String = word.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    if shape.starts_with("0000-00-00T00:00") {
        return Some("WHEN");
    }
    let digits = !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit());
    let named = |name: &str| before.trim_end_matches([' ', '=', ':', '"']).ends_with(name);
    match shape.as_str() {
        // In a column, in parentheses or after a commit it is an age, as `1s ago` is; `TIME`, `SINCE` and
        // `WHEN` are the heads of such columns.
        "now"
            if (before.ends_with("  ") && (after.is_empty() || after.starts_with("  ")))
                || ((before.ends_with('(') || before.ends_with("(seen "))
                    && after.starts_with([')', ';']))
                || (before.ends_with("HASH ") && after.is_empty())
                || (before.ends_with("stopped ") && after.starts_with(':')) =>
        {
            Some("TIME ago")
        }
        "TIME" => Some("TIME"),
        "SINCE" => Some("SINCE"),
        "WHEN" => Some("WHEN"),
        "full" | "files" if before.ends_with("sandbox ") => Some("LEVEL"),
        "0000-00-00" => Some("DATE"),
        "00:00" | "00:00:00" => Some("CLOCK"),
        _ if digits
            && (named("pid")
                || named("process")
                || (!HOST.is_empty() && after.trim_start().starts_with(HOST.as_str()))) =>
        {
            Some("PID")
        }
        _ if is_host(before, word) => Some("HOST"),
        // The name of the machine, in the column beside a process.
        _ if before.ends_with("PID  ") && !word.is_empty() && HOST.starts_with(word) => Some("HOST"),
        _ if is_uuid(word) => Some("UUID"),
        // The checkout of a gate: commit, process, number.
        _ if word.starts_with("gate-") && shape.ends_with('0') => Some("gate-N"),
        _ if is_duration(word) || (digits && after.starts_with(" ms")) => Some("TIME"),
        _ if word.len() == 64 && word.bytes().all(|b| b.is_ascii_hexdigit()) => Some("TOKEN"),
        _ if (7..=40).contains(&word.len()) && word.bytes().all(|b| b.is_ascii_hexdigit()) => Some("HASH"),
        _ => None,
    }
}

/// Whether the name of the machine follows: `process 12 on HOST`, `claimed by HOST`.
fn is_host(before: &str, rest: &str) -> bool {
    let announced = ["PID on ", "claimed by "].iter().any(|words| before.ends_with(words))
        || (before.ends_with(" on ") && before.contains("the crew: member "));
    announced && !HOST.is_empty() && rest.starts_with(HOST.as_str())
}

fn is_uuid(word: &str) -> bool {
    let lengths: Vec<usize> = word.split('-').map(str::len).collect();
    lengths == [8, 4, 4, 4, 12] && word.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit())
}

/// `3s`, `0.4s`, `12ms`; but not `2h`, which no test waits for.
fn is_duration(word: &str) -> bool {
    let number = word.strip_suffix("ms").or_else(|| word.strip_suffix('s'));
    number.is_some_and(|number| {
        number.starts_with(|c: char| c.is_ascii_digit()) && number.parse::<f64>().is_ok()
    })
}

#[cfg(test)]
mod tests {
    use super::shown;

    #[test]
    fn what_differs_is_a_word_and_all_else_stays() {
        let text = "\
● a   running  12s       in /tmp/regatta-test-Ab3dE9/repo.lanes/a
landed on main as 0123456789ab (0123456..89abcde), 0.3s, 46 ms: see https://example.org:80/x.
2026-11-15T23:41:57.123Z at 23:41, 2026-11-15; pid 4711, {\"pid\":4711,\"n\":4711} café... -
  two  words   
  9s ago
    9.8s a  landed
   12.3s a  landed
a  now   b (now) and now (seen now) (now; it keeps running)
landed as 0123456789ab now
stopped now: the
── a 3s ──────
── b ──────
in /tmp/regatta-test-Ab…
session 5d27e861-dabc-4053-afe7-13ef3590d820 in .readers/gate-ee1d10c13673-27564-41
";
        assert_eq!(
            shown(text),
            "\
● a   running  TIME  in DIR/repo.lanes/a
landed on main as HASH (HASH..HASH), TIME, TIME ms: see https://example.org:80/x.
WHEN at CLOCK, DATE; pid PID, {\"pid\":PID,\"n\":4711} café... -
  two  words
  TIME ago
    TIME a  landed
    TIME a  landed
a  TIME ago  b (TIME ago) and now (seen TIME ago) (TIME ago; it keeps running)
landed as HASH TIME ago
stopped TIME ago: the
── a TIME ──
── b ──────
in DIR…
session UUID in .readers/gate-N
"
        );
    }
}
