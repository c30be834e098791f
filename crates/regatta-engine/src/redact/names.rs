//! Which variables hold secrets, by their names.

/// Words of a name that make its value secret.
const SECRET_WORDS: [&str; 16] = [
    "KEY",
    "APIKEY",
    "TOKEN",
    "SECRET",
    "SECRETS",
    "PASSWORD",
    "PASSWD",
    "PASS",
    "PASSPHRASE",
    "PWD",
    "CREDENTIAL",
    "CREDENTIALS",
    "COOKIE",
    "PAT",
    "AUTHORIZATION",
    "DSN",
];
/// Last words that mean the value is a location and not the secret itself.
const PLACES: [&str; 6] = ["PATH", "FILE", "DIR", "SOCK", "HOME", "URL"];

/// The parts of the variable's value that must not be shown.
pub(super) fn secrets<'v>(name: &str, value: &'v str) -> Vec<&'v str> {
    let mut found: Vec<&str> = password_in_url(value).into_iter().collect();
    if is_secret(name) {
        let value = value.trim();
        found.push(value);
        // A private key is printed line by line.
        if value.contains('\n') {
            found.extend(
                value.lines().map(str::trim).filter(|line| line.len() >= 16 && !line.starts_with("-----")),
            );
        }
    }
    found
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let words: Vec<&str> = name.split(|c: char| !c.is_ascii_alphanumeric()).collect();
    let is_place = words.last().is_some_and(|word| PLACES.contains(word));
    let ends_so = ["APIKEY", "TOKEN", "SECRET", "PASSWORD"].iter().any(|word| name.ends_with(word));
    !is_place
        && name != "PWD"
        && name != "OLDPWD"
        && (ends_so || words.iter().any(|word| SECRET_WORDS.contains(word)))
}

/// `scheme://user:password@host`.
fn password_in_url(value: &str) -> Option<&str> {
    let (_, rest) = value.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let (user, _) = authority.rsplit_once('@')?;
    user.split_once(':').map(|(_, password)| password)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_secrets_from_places_and_settings() {
        for name in [
            "ANTHROPIC_API_KEY",
            "CLAUDE_CODE_OAUTH_TOKEN",
            "REGATTA_TOKEN",
            "db_password",
            "AWS_SECRET_ACCESS_KEY",
            "MYAPIKEY",
            "GITHUB_PAT",
            "SENTRY_DSN",
            "PGPASSWORD",
            "DB_PWD",
        ] {
            assert!(is_secret(name), "{name}");
        }
        for name in [
            "PATH",
            "HOME",
            "PWD",
            "OLDPWD",
            "KEYBOARD_LAYOUT",
            "SSH_KEY_FILE",
            "SSH_AUTH_SOCK",
            "TOKENIZERS_PARALLELISM",
            "CLAUDE_CODE_MAX_OUTPUT_TOKENS",
            "COMPASS",
            "EDITOR",
        ] {
            assert!(!is_secret(name), "{name}");
        }
    }

    #[test]
    fn a_password_inside_a_url_is_a_secret_whatever_the_name() {
        assert_eq!(secrets("DATABASE_URL", "postgres://me:hunter2x@db/x?a=b@c"), ["hunter2x"]);
        let pem = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG\nab==\n-----END KEY-----";
        assert_eq!(secrets("DEPLOY_KEY", pem), [pem, "MIIEvQIBADANBgkqhkiG"]);
        assert_eq!(secrets("PROXY", "http://proxy:3128/"), [""; 0]);
    }
}
