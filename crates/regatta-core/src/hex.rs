//! Bytes as hexadecimal digits.

/// Two lower-case digits for each byte.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .map(|half| char::from(DIGITS[usize::from(half)]))
        .collect()
}

/// The bytes of such digits; `None` if they are not.
pub fn unhex(digits: &str) -> Option<Vec<u8>> {
    let halves: Option<Vec<u8>> =
        digits.chars().map(|digit| digit.to_digit(16).and_then(|half| u8::try_from(half).ok())).collect();
    let halves = halves.filter(|halves| halves.len().is_multiple_of(2))?;
    Some(halves.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

#[cfg(test)]
mod tests {
    #[test]
    fn each_byte_has_two_digits() {
        assert_eq!(super::hex(&[0, 9, 0xab, 0xff]), "0009abff");
        assert_eq!(super::unhex("0009abff"), Some(vec![0, 9, 0xab, 0xff]));
        for wrong in ["0", "0g", "é0"] {
            assert_eq!(super::unhex(wrong), None, "{wrong}");
        }
    }
}
