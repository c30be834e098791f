//! TOML with the lines of its values.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::Mistake;
use super::lines::Lines;
use crate::diagnostic::Pos;

/// A parsed document.
pub(super) struct TomlText<'t> {
    pub(super) root: DeTable<'t>,
    lines: Lines<'t>,
}

/// A value and its line.
pub(super) type Value<'t> = Spanned<DeValue<'t>>;

impl<'t> TomlText<'t> {
    pub(super) fn parse(text: &'t str) -> Result<Self, Mistake> {
        let lines = Lines::of(text);
        match DeTable::parse(text) {
            Ok(root) => Ok(Self { root: root.into_inner(), lines }),
            Err(error) => {
                let pos = error.span().map_or(Pos::START, |span| lines.pos(span.start));
                let first = error.message().lines().next().unwrap_or_default().to_owned();
                Err(Mistake { pos, message: format!("not valid TOML: {first}") })
            }
        }
    }

    /// The line of a value.
    pub(super) fn line(&self, value: &Value<'_>) -> usize {
        self.lines.line(value.span().start)
    }

    /// The table at a path of keys.
    pub(super) fn table(&self, path: &[&str]) -> Option<&DeTable<'t>> {
        let mut table = &self.root;
        for key in path {
            table = child(table, key)?;
        }
        Some(table)
    }
}

/// The table under a key.
pub(super) fn child<'a, 't>(table: &'a DeTable<'t>, key: &str) -> Option<&'a DeTable<'t>> {
    table.get(key)?.get_ref().as_table()
}

/// The text under a key, with its value.
pub(super) fn text<'a>(table: &'a DeTable<'_>, key: &str) -> Option<&'a str> {
    table.get(key)?.get_ref().as_str()
}

/// The texts of a list under a key.
pub(super) fn texts<'a, 't>(
    table: &'a DeTable<'t>,
    key: &str,
) -> impl Iterator<Item = (&'a Value<'t>, &'a str)> {
    let list = table.get(key).and_then(|value| value.get_ref().as_array());
    list.into_iter().flat_map(|list| list.iter()).filter_map(|value| Some((value, value.get_ref().as_str()?)))
}

/// All entries of a table.
pub(super) fn entries<'a, 't>(
    table: Option<&'a DeTable<'t>>,
) -> impl Iterator<Item = (&'a str, &'a Value<'t>)> {
    table.into_iter().flat_map(|table| table.iter()).map(|(key, value)| (key.get_ref().as_ref(), value))
}
