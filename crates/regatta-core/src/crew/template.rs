//! Templates: text with `{{variables}}` in it.
//!
//! Invariant: a variable's value is inserted as it is and never parsed again, so that no member's text can refer to
//! another variable. An unknown variable is an error that names its line.

use std::fmt::Write as _;

/// A text with variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Variable(String),
}

/// A mistake in a template.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct TemplateError {
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong.
    pub what: String,
}

impl Template {
    /// Parses `text`, which may use only the variables in `known`.
    pub fn parse(text: &str, known: &[&str]) -> Result<Self, TemplateError> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some(open) = rest.find("{{") {
            let line = text[..text.len() - rest.len() + open].matches('\n').count() + 1;
            let wrong = |what: String| TemplateError { line, what };
            let Some(length) = rest[open + 2..].find("}}") else {
                return Err(wrong("`{{` has no `}}`".to_owned()));
            };
            let name = rest[open + 2..open + 2 + length].trim();
            if !known.contains(&name) {
                let mut what = format!("unknown variable {name:?};");
                let _ = write!(what, " known here: {}", known.join(", "));
                return Err(wrong(what));
            }
            parts.push(Part::Text(rest[..open].to_owned()));
            parts.push(Part::Variable(name.to_owned()));
            rest = &rest[open + 2 + length + 2..];
        }
        parts.push(Part::Text(rest.to_owned()));
        Ok(Self { parts })
    }

    /// The text with every variable replaced by its `value`.
    pub fn render(&self, value: impl Fn(&str) -> String) -> String {
        let text = |part: &Part| match part {
            Part::Text(text) => text.clone(),
            Part::Variable(name) => value(name),
        };
        self.parts.iter().map(text).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_put_in_once_and_as_they_are() {
        let template = Template::parse("From {{from}}: {{ text }}!\n", &["from", "text"]).unwrap();
        let value = |name: &str| match name {
            "from" => "{{text}}".to_owned(),
            _ => "hello".to_owned(),
        };
        assert_eq!(template.render(value), "From {{text}}: hello!\n");
        let plain = Template::parse("nothing {in} it }} at all", &[]).unwrap();
        assert_eq!(plain.render(|_| unreachable!("no variable")), "nothing {in} it }} at all");
    }

    #[test]
    fn a_mistake_is_told_with_its_line() {
        let check = |text: &str, line: usize, what: &str| {
            let error = Template::parse(text, &["from", "text"]).unwrap_err();
            assert_eq!((error.line, error.what.as_str()), (line, what));
        };
        check("a\nb {{form}}", 2, "unknown variable \"form\"; known here: from, text");
        check("a\n\n{{from", 3, "`{{` has no `}}`");
        check("{{}}", 1, "unknown variable \"\"; known here: from, text");
    }
}
