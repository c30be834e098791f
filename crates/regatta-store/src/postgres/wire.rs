//! Values on their way to the server and back.
//!
//! PostgreSQL's `text` cannot hold a NUL, which texts of users may contain. It is written as an escape.

use std::borrow::Cow;

use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, ToSql};

use crate::Result;
use crate::stored::unreadable;

/// A parameter of a statement.
pub(super) type Param = Box<dyn ToSql + Sync + Send>;

/// The last code point, which no text has a use for, introduces an escape.
const ESCAPE: char = '\u{10FFFF}';

/// The text without NUL.
pub(super) fn escaped(text: &str) -> Cow<'_, str> {
    if !text.contains(['\0', ESCAPE]) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.replace(ESCAPE, "\u{10FFFF}1").replace('\0', "\u{10FFFF}0"))
}

fn unescaped(text: String) -> String {
    if !text.contains(ESCAPE) {
        return text;
    }
    text.replace("\u{10FFFF}0", "\0").replace("\u{10FFFF}1", "\u{10FFFF}")
}

/// A text of each row.
pub(super) fn texts<'r, R, T: AsRef<str>>(rows: &'r [R], of: impl Fn(&'r R) -> T) -> Param {
    Box::new(rows.iter().map(|row| escaped(of(row).as_ref()).into_owned()).collect::<Vec<String>>())
}

/// A text of each row that has one.
pub(super) fn maybe_texts<'r, R, T: AsRef<str>>(rows: &'r [R], of: impl Fn(&'r R) -> Option<T>) -> Param {
    let texts = rows.iter().map(|row| of(row).map(|text| escaped(text.as_ref()).into_owned()));
    Box::new(texts.collect::<Vec<Option<String>>>())
}

/// A value of each row.
pub(super) fn values<R, T: ToSql + Sync + Send + 'static>(rows: &[R], of: impl Fn(&R) -> T) -> Param
where
    Vec<T>: ToSql,
{
    Box::new(rows.iter().map(of).collect::<Vec<T>>())
}

/// One text.
pub(super) fn text(text: &str) -> Param {
    Box::new(escaped(text).into_owned())
}

/// A column of a row.
pub(super) fn get<'a, T: FromSql<'a>>(row: &'a Row, n: usize) -> Result<T> {
    row.try_get(n).map_err(|error| unreadable("a row", error))
}

/// A text of a row.
pub(super) fn get_text(row: &Row, n: usize) -> Result<String> {
    Ok(unescaped(get(row, n)?))
}

/// A text that may be missing.
pub(super) fn maybe_text(row: &Row, n: usize) -> Result<Option<String>> {
    Ok(get::<Option<String>>(row, n)?.map(unescaped))
}

/// The texts of an array.
pub(super) fn get_texts(row: &Row, n: usize) -> Result<Vec<String>> {
    Ok(get::<Vec<String>>(row, n)?.into_iter().map(unescaped).collect())
}

/// A number that is never negative.
pub(super) fn get_u64(row: &Row, n: usize) -> Result<u64> {
    Ok(get::<i64>(row, n)?.cast_unsigned())
}

/// A small number.
pub(super) fn get_u32(row: &Row, n: usize) -> Result<u32> {
    u32::try_from(get::<i64>(row, n)?).map_err(|error| unreadable("a number", error))
}

/// A number within the database's range.
pub(super) fn stored(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::{escaped, unescaped};

    #[test]
    fn any_text_comes_back() {
        for text in ["", "plain", "a\0b", "\u{10FFFF}", "\u{10FFFF}0", "\0\u{10FFFF}\0", "\u{10FFFF}1\0"] {
            let there = escaped(text);
            assert!(!there.contains('\0'));
            assert_eq!(unescaped(there.into_owned()), text);
        }
    }
}
