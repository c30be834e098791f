//! One pass over a text: every word that would act on a forge becomes one that does not.

/// Words in brackets that turn checks off, with one of [`OFF`].
const STEERED: [&str; 5] = ["ci", "actions", "checks", "netlify", "vercel"];
const OFF: [&str; 3] = ["skip", "no", "skipped"];

pub(super) fn defused(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 64);
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let (used, plain) = replacement(rest, &out).unwrap_or((c.len_utf8(), None));
        match plain {
            Some(plain) => out.push_str(&plain),
            None => out.push_str(&rest[..used]),
        }
        rest = &rest[used..];
    }
    out
}

/// What the beginning of `rest` is replaced by, and how many bytes of it, if it would act. `before` is what was written
/// so far.
fn replacement(rest: &str, before: &str) -> Option<(usize, Option<String>)> {
    let previous = before.chars().next_back();
    let after_word = previous.is_some_and(char::is_alphanumeric);
    match rest.as_bytes()[0] {
        // A word before it makes it an address of mail, which notifies nobody.
        b'@' if follows(rest, 1, |c| c.is_ascii_alphanumeric()) && !after_word => {
            Some((1, Some("@ ".into())))
        }
        b'#' => {
            let digits = digits(&rest[1..])?;
            let gap = if after_word || previous.is_some_and(|c| "_.-/".contains(c)) { " " } else { "" };
            Some((1 + digits.len(), Some(format!("{gap}issue {digits}"))))
        }
        b'g' | b'G' if !after_word => {
            let digits = digits(strip_word(rest, "gh-")?)?;
            Some((3 + digits.len(), Some(format!("issue {digits}"))))
        }
        b'/' if is_line_start(before) => command(rest),
        b'/' => address(rest),
        b'&' if is_entity(rest) => Some((1, Some("& ".into()))),
        b'<' if rest.starts_with("<!--") => Some((4, Some("<! --".into()))),
        b'[' => steering(rest),
        b'*' if strip_word(rest, "***no_ci***").is_some() => Some((11, Some("no ci".into()))),
        b's' | b'S' => {
            let tail = strip_word(rest, "skip-checks")?.trim_start_matches([' ', '\t']);
            tail.starts_with(':').then(|| (11, Some("skip checks".into())))
        }
        _ => None,
    }
}

fn follows(text: &str, at: usize, is: impl Fn(char) -> bool) -> bool {
    text[at..].chars().next().is_some_and(is)
}

/// The number at the beginning, unless it is a part of a longer word.
fn digits(text: &str) -> Option<&str> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let part_of_word = text[end..].starts_with(|c: char| c.is_alphanumeric() || c == '_');
    (end > 0 && !part_of_word).then(|| &text[..end])
}

/// What follows `word`, whatever the case of its letters.
fn strip_word<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let head = text.get(..word.len())?;
    head.eq_ignore_ascii_case(word).then(|| &text[word.len()..])
}

fn is_line_start(before: &str) -> bool {
    before.rsplit('\n').next().unwrap_or_default().trim_start().is_empty()
}

/// `/lgtm` alone at the beginning of a line: a command to a bot.
fn command(rest: &str) -> Option<(usize, Option<String>)> {
    let line = rest.lines().next().unwrap_or_default();
    let word = line.split_whitespace().next().unwrap_or_default();
    let name = &word[1..];
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    is_name.then(|| (word.len(), Some(format!("`{word}`"))))
}

/// `/issues/12` in an address refers like `#12` does.
fn address(rest: &str) -> Option<(usize, Option<String>)> {
    let kinds = ["/issues/", "/pull/", "/pulls/", "/discussions/"];
    let kind = kinds.into_iter().find(|kind| strip_word(rest, kind).is_some())?;
    let digits = digits(&rest[kind.len()..])?;
    Some((kind.len() + digits.len(), Some(format!(" issue {digits}"))))
}

/// `&commat;` and the like become the character that they name.
fn is_entity(rest: &str) -> bool {
    let name = rest[1..].split(';').next().unwrap_or_default();
    let bare = name.strip_prefix('#').unwrap_or(name);
    name.len() < rest.len() - 1
        && !bare.is_empty()
        && bare.len() <= 40
        && bare.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// `[skip ci]` and its relatives.
fn steering(rest: &str) -> Option<(usize, Option<String>)> {
    let end = rest[..rest.floor_char_boundary(64)].find(']')?;
    let inner = &rest[1..end];
    let lower = inner.to_ascii_lowercase();
    let words: Vec<&str> = lower.split([' ', '\t', '-', '_', ':']).filter(|word| !word.is_empty()).collect();
    let has = |list: &[&str]| words.iter().any(|word| list.contains(word));
    let steers = words.len() <= 4 && has(&OFF) && (has(&STEERED) || words.len() == 2);
    steers.then(|| (end + 1, Some(format!("({inner})"))))
}
