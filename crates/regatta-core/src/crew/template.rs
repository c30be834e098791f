//! Templates: text with `{{variables}}` in it.
//!
//! Invariant: what a variable stands for is put in as it is and never read again, so that nothing a member writes can
//! name another variable. A variable that is not there is a mistake that is told with its line.

use std::fmt::Write as _;

/// A text with places in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Variable(String),
}

/// What is wrong with a template, and in which line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct TemplateError {
    /// The line, from 1.
    pub line: usize,
    /// What.
    pub what: String,
}

impl Template {
    /// Parses `text`, in which only the variables `known` may stand.
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
                let mut what = format!("there is no variable {name:?} here;");
                let _ = write!(what, " there are {}", known.join(", "));
                return Err(wrong(what));
            }
            parts.push(Part::Text(rest[..open].to_owned()));
            parts.push(Part::Variable(name.to_owned()));
            rest = &rest[open + 2 + length + 2..];
        }
        parts.push(Part::Text(rest.to_owned()));
        Ok(Self { parts })
    }

    /// The text with every variable replaced by what `value` says of it.
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
        check("a\nb {{form}}", 2, "there is no variable \"form\" here; there are from, text");
        check("a\n\n{{from", 3, "`{{` has no `}}`");
        check("{{}}", 1, "there is no variable \"\" here; there are from, text");
    }
}
