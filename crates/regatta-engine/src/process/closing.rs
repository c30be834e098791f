//! Completes the beginning of a long JSON line so that it parses: the cut-off part is missing, the rest is usable.

/// The parser's state at one position of a text.
#[derive(Default)]
struct Open {
    /// The closing brackets still needed, innermost last.
    brackets: Vec<u8>,
    in_string: bool,
    /// Within a string: where the unfinished escape begins.
    escape: Option<usize>,
    /// The next or the current string is a key.
    at_key: bool,
}

impl Open {
    /// Takes in the byte at this position.
    fn take(&mut self, at: usize, byte: u8) {
        match (self.in_string, self.escape) {
            (true, Some(begin)) if at - begin == 1 && byte != b'u' || at - begin == 5 => self.escape = None,
            (true, Some(_)) => {}
            (true, None) => match byte {
                b'\\' => self.escape = Some(at),
                b'"' => self.in_string = false,
                _ => {}
            },
            (false, _) => self.outside(byte),
        }
    }

    fn outside(&mut self, byte: u8) {
        match byte {
            b'"' => self.in_string = true,
            b'{' | b'[' => {
                self.brackets.push(if byte == b'{' { b'}' } else { b']' });
                self.at_key = byte == b'{';
            }
            b'}' | b']' => {
                self.brackets.pop();
                self.at_key = false;
            }
            b':' => self.at_key = false,
            b',' => self.at_key = self.brackets.last() == Some(&b'}'),
            _ => {}
        }
    }
}

/// Closes a JSON object that was cut. Any other text stays as it is.
pub(super) fn close(text: &mut Vec<u8>) {
    if text.trim_ascii_start().first() != Some(&b'{') {
        return;
    }
    let mut open = Open::default();
    // The last position at which nothing but brackets was open, and how many.
    let mut whole = (0, 0);
    for (at, &byte) in text.iter().enumerate() {
        if !open.in_string && byte == b',' {
            whole = (at, open.brackets.len());
        }
        open.take(at, byte);
        if !open.in_string && matches!(byte, b'{' | b'[' | b'}' | b']') {
            whole = (at + 1, open.brackets.len());
        }
    }
    if open.in_string && !open.at_key {
        if let Some(begin) = open.escape {
            text.truncate(begin);
        }
        text.push(b'"');
    } else {
        text.truncate(whole.0);
        // Brackets opened after that position are no longer in the text.
        open.brackets.truncate(whole.1);
    }
    text.extend(open.brackets.iter().rev());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_cut_off_the_rest_is_json() {
        let line = r#"{"type":"user","n":[1,-2.5e3,{"a":null},[]],"message":{"id":"t\\1","content":"a\n\u00e9\"}{,:b\\"},"ok":true}"#;
        let whole: serde_json::Value = serde_json::from_str(line).unwrap();
        for cut in 1..=line.len() {
            let mut text = line.as_bytes()[..cut].to_vec();
            close(&mut text);
            let value: serde_json::Value = serde_json::from_slice(&text)
                .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&text)));
            // The result contains nothing that was not in the line.
            for (key, found) in value.as_object().unwrap() {
                let meant = &whole[key];
                let same = found == meant
                    || found.is_object()
                    || found.is_array()
                    || meant.as_str().unwrap().starts_with(found.as_str().unwrap());
                assert!(same, "{found} of {meant}");
            }
            if cut >= line.find("content").unwrap() {
                assert_eq!(value["message"]["id"], "t\\1");
            }
        }
    }

    #[test]
    fn what_is_no_object_stays_as_it_is() {
        for text in [&b"AAAA \"x"[..], b"[1, 2", b""] {
            let mut kept = text.to_vec();
            close(&mut kept);
            assert_eq!(kept, text);
        }
    }
}
