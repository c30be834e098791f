//! Passwords in addresses: `scheme://user:password@host`, wherever they occur.

/// What is found at one position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PasswordSeen {
    No,
    /// More text could make it an address.
    Perhaps,
    /// The bytes before the password, and those of the password.
    Yes(usize, usize),
}

/// What separates the scheme from the user. JSON may escape its slashes.
pub(super) const SIGNS: [&str; 2] = ["://", ":\\/\\/"];
/// Maximum length of a part of an address.
const MAX_AUTHORITY: usize = 1024;

/// Looks for a password behind the separator at the beginning of `rest`.
pub(super) fn find(rest: &[u8], at_end: bool) -> PasswordSeen {
    for sign in SIGNS.map(str::as_bytes) {
        let common = rest.len().min(sign.len());
        if rest[..common] != sign[..common] {
            continue;
        }
        if common < sign.len() {
            return if at_end { PasswordSeen::No } else { PasswordSeen::Perhaps };
        }
        let authority =
            rest[common..].iter().take(MAX_AUTHORITY).take_while(|byte| is_authority(**byte)).count();
        if !at_end && authority < MAX_AUTHORITY && common + authority == rest.len() {
            return PasswordSeen::Perhaps;
        }
        let authority = &rest[common..common + authority];
        let Some(at) = authority.iter().rposition(|byte| *byte == b'@') else { return PasswordSeen::No };
        let Some(colon) = authority[..at].iter().position(|byte| *byte == b':') else {
            return PasswordSeen::No;
        };
        let length = at - colon - 1;
        return if length == 0 { PasswordSeen::No } else { PasswordSeen::Yes(common + colon + 1, length) };
    }
    PasswordSeen::No
}

/// What may occur between `//` and the path.
fn is_authority(byte: u8) -> bool {
    !byte.is_ascii_whitespace()
        && !byte.is_ascii_control()
        && !matches!(byte, b'/' | b'?' | b'#' | b'"' | b'\\' | b'<' | b'>' | b'`')
}
