//! Hidden parts of Markdown and HTML.
//!
//! A block of code shows everything, so nothing is removed from it. Where it is doubtful whether the forge sees a block
//! of code too, it is none.

use super::Hidden;

/// The text without HTML comments, attributes of tags, descriptions of images, and link targets that lead nowhere.
pub(super) fn without(text: &str, removed: &mut Hidden) -> String {
    let mut out = String::with_capacity(text.len());
    let mut prose = String::new();
    let mut rest = text;
    // Whether HTML may be open, in which three backticks mean nothing.
    let mut html = Doubt::default();
    while !rest.is_empty() {
        let line = first_line(rest);
        if !html.any()
            && let Some(block) = code_block(rest)
        {
            prose_into(&mut out, &mut prose, removed);
            out.push_str(&rest[..block]);
            rest = &rest[block..];
            continue;
        }
        html.sees(line);
        prose.push_str(line);
        rest = &rest[line.len()..];
    }
    prose_into(&mut out, &mut prose, removed);
    out
}

/// Whether raw HTML may be open at the beginning of a line.
#[derive(Default)]
struct Doubt {
    /// Since the last empty line there was a `<`.
    paragraph: bool,
    /// There was HTML that an empty line does not end.
    document: bool,
}

impl Doubt {
    fn any(&self) -> bool {
        self.paragraph || self.document
    }

    fn sees(&mut self, line: &str) {
        if line.trim().is_empty() {
            self.paragraph = false;
            return;
        }
        self.paragraph |= line.contains('<');
        let lower = line.to_ascii_lowercase();
        let lasting = ["<pre", "<script", "<style", "<textarea", "<!", "<?"];
        self.document |= lasting.iter().any(|open| lower.contains(open));
    }
}

fn first_line(text: &str) -> &str {
    match text.find('\n') {
        Some(end) => &text[..=end],
        None => text,
    }
}

/// The length of the block of code at the beginning of `text`, if there is one that has an end.
fn code_block(text: &str) -> Option<usize> {
    let first = first_line(text);
    let mark = first.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let length = first.chars().take_while(|c| *c == mark).count();
    if length < 3 || (mark == '`' && first[length..].contains('`')) {
        return None;
    }
    let mut at = first.len();
    while at < text.len() {
        let line = first_line(&text[at..]);
        at += line.len();
        let closing = line.trim_end();
        if closing.len() >= length && closing.chars().all(|c| c == mark) {
            return Some(at);
        }
    }
    None
}

fn prose_into(out: &mut String, prose: &mut String, removed: &mut Hidden) {
    let mut rest = prose.as_str();
    while !rest.is_empty() {
        let line_start = out.is_empty() || out.ends_with('\n');
        let (used, kept) = piece(rest, line_start, removed);
        out.push_str(&kept);
        rest = &rest[used..];
    }
    prose.clear();
}

/// How many bytes the next piece of prose has, and what is kept of it.
fn piece(rest: &str, line_start: bool, removed: &mut Hidden) -> (usize, String) {
    if let Some(inner) = rest.strip_prefix("<!--") {
        removed.comments += 1;
        // One without an end hides everything after it.
        let after = inner.split_once("-->").map_or("", |(_, after)| after);
        return (rest.len() - after.len(), String::new());
    }
    if let Some((used, kept)) = tag(rest, line_start) {
        if kept.len() != used {
            removed.markup += 1;
        }
        return (used, kept);
    }
    if let Some(used) = image(rest) {
        removed.markup += 1;
        return (used, "[image]".to_owned());
    }
    if line_start && let Some((used, kept)) = definition(rest) {
        if kept.len() != used {
            removed.markup += 1;
        }
        return (used, kept);
    }
    let first = rest.chars().next().map_or(0, char::len_utf8);
    let next = rest[first..].find(['<', '!', '\n']).map_or(rest.len(), |at| {
        // A line ending belongs to its line, so that the next piece begins a line.
        let at = first + at;
        if rest[at..].starts_with('\n') { at + 1 } else { at }
    });
    let next = if rest.starts_with('\n') { first } else { next };
    (next, rest[..next].to_owned())
}

/// A tag at the beginning: its length, and the tag without its attributes.
fn tag(rest: &str, line_start: bool) -> Option<(usize, String)> {
    let inner = rest.strip_prefix('<')?;
    let (slash, inner) = match inner.strip_prefix('/') {
        Some(inner) => ("/", inner),
        None => ("", inner),
    };
    let declaration = inner.starts_with(['!', '?']);
    if !declaration && !inner.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return None;
    }
    let name_end = inner
        .find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '!' | '?')))
        .unwrap_or(inner.len());
    let (name, attributes) = inner.split_at(name_end);
    let begins = |c: char| c.is_whitespace() || matches!(c, '/' | '>');
    if !attributes.is_empty() && !attributes.starts_with(begins) {
        // An address such as <https://…>, or code such as a<b::c>.
        return None;
    }
    match end_of_tag(attributes) {
        Some(end) => {
            let used = rest.len() - inner.len() + name.len() + end + 1;
            Some((used, format!("<{slash}{name}>")))
        }
        // HTML that begins a line and has no end hides what follows.
        None if line_start => Some((rest.len(), format!("<{slash}{name}>"))),
        None => None,
    }
}

/// Where the `>` is that ends a tag, outside quotes if these are closed.
fn end_of_tag(attributes: &str) -> Option<usize> {
    let mut quote = None;
    for (at, c) in attributes.char_indices() {
        match (quote, c) {
            (None, '>') => return Some(at),
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), c) if open == c => quote = None,
            _ => {}
        }
    }
    attributes.find('>')
}

/// The length of an image, whose description and title people do not see.
fn image(rest: &str) -> Option<usize> {
    let inner = rest.strip_prefix("![")?;
    let (mut depth, mut end) = (1, None);
    for (at, c) in inner.char_indices() {
        match c {
            '[' => depth += 1,
            ']' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            end = Some(at);
            break;
        }
    }
    let after = 2 + end? + 1;
    let tail = &rest[after..];
    let close = match tail.chars().next() {
        Some('(') => tail.find(')')?,
        Some('[') => tail.find(']')?,
        // By a definition elsewhere, or only text.
        _ => return Some(after),
    };
    Some(after + close + 1)
}

/// A definition of a link target, which is not shown: its line, and the line without its title.
fn definition(rest: &str) -> Option<(usize, String)> {
    let line = first_line(rest);
    let inner = line.trim_start_matches(' ').strip_prefix('[')?;
    let (label, target) = inner.split_once("]:")?;
    if label.is_empty() || label.contains(['[', ']']) || label.starts_with('^') {
        return None;
    }
    let url = target.split_whitespace().next().unwrap_or_default();
    let leads = url.contains("://") || url.starts_with('/') || url.starts_with("mailto:");
    let end = if line.ends_with('\n') { "\n" } else { "" };
    let kept = if leads && is_short_label(label) { format!("[{label}]: {url}{end}") } else { end.to_owned() };
    Some((line.len(), kept))
}

fn is_short_label(label: &str) -> bool {
    label.chars().count() <= 40
}
