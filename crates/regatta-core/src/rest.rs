//! What only a newer version knows of a record.
//!
//! Machines are upgraded one after the other, so records of a newer version meet an older one. The older one reads the
//! fields that it knows and keeps the others, and whatever it writes contains them again.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The fields of a record that this version does not know, as a record has them with `#[serde(flatten)]`. Empty, and
/// without memory of its own, in every record that no newer version has written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Rest(Map<String, Value>);

impl Rest {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the fields of `earlier` that are not here.
    pub fn keep(&mut self, earlier: &Rest) {
        for (name, value) in &earlier.0 {
            if !self.0.contains_key(name) {
                self.0.insert(name.clone(), value.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Known {
        a: u32,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        b: Option<String>,
        #[serde(flatten)]
        rest: Rest,
    }

    #[test]
    fn what_is_not_known_is_written_back_as_it_was() {
        let text = r#"{"a":1,"sail":{"red":[1,2.5,null]},"wind":"5"}"#;
        let mut known: Known = serde_json::from_str(text).unwrap();
        known.a = 2;
        let written = serde_json::to_string(&known).unwrap();
        assert_eq!(written, r#"{"a":2,"sail":{"red":[1,2.5,null]},"wind":"5"}"#);
    }

    #[test]
    fn a_record_without_such_fields_is_as_it_would_be_without_the_type() {
        let known: Known = serde_json::from_str(r#"{"a":1,"b":"x"}"#).unwrap();
        assert!(known.rest.is_empty());
        assert_eq!(serde_json::to_string(&known).unwrap(), r#"{"a":1,"b":"x"}"#);
    }

    #[test]
    fn the_later_value_of_a_field_counts() {
        let rest = |text: &str| serde_json::from_str::<Rest>(text).unwrap();
        let mut later = rest(r#"{"wind":6}"#);
        later.keep(&rest(r#"{"sail":1,"wind":5}"#));
        assert_eq!(later, rest(r#"{"sail":1,"wind":6}"#));
    }
}
