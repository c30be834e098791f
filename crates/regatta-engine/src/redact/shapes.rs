//! Tokens recognised by their shape.

use super::FoundSecret;

/// A prefix followed by a run of characters.
#[derive(Debug)]
pub(super) struct Shape {
    /// The name in the mask.
    pub(super) name: &'static str,
    pub(super) prefix: &'static str,
    /// The prefix stays readable and case does not matter: `Bearer `.
    pub(super) keep_prefix: bool,
    /// Minimum number of characters behind the prefix.
    min: usize,
    /// The token's characters besides letters and digits.
    more: &'static [u8],
    /// What must occur in its first [`HEADER`] bytes.
    inner: Option<&'static [u8]>,
}

/// A signed token identifies itself within this many bytes.
const HEADER: usize = 1024;

const fn token(name: &'static str, prefix: &'static str, min: usize) -> Shape {
    Shape { name, prefix, keep_prefix: false, min, more: b"-_", inner: None }
}

/// A private key as text; line endings may be escaped.
const fn private_key(prefix: &'static str) -> Shape {
    Shape { name: "private-key", prefix, keep_prefix: false, min: 16, more: b"+/=\\\r\n \t:,", inner: None }
}

/// Longer prefixes come before those they begin with.
pub(super) static SHAPES: [Shape; 33] = [
    token("anthropic-key", "sk-ant-", 8),
    token("openai-key", "sk-proj-", 16),
    token("api-key", "sk-", 32),
    token("github-token", "github_pat_", 20),
    token("github-token", "ghp_", 20),
    token("github-token", "gho_", 20),
    token("github-token", "ghu_", 20),
    token("github-token", "ghs_", 20),
    token("github-token", "ghr_", 20),
    token("gitlab-token", "glpat-", 16),
    token("aws-key", "AKIA", 16),
    token("aws-key", "ASIA", 16),
    token("google-key", "AIza", 30),
    token("npm-token", "npm_", 30),
    token("slack-token", "xoxb-", 16),
    token("slack-token", "xoxp-", 16),
    token("slack-token", "xoxa-", 16),
    token("slack-token", "xoxs-", 16),
    token("slack-token", "xapp-", 16),
    token("stripe-key", "sk_live_", 16),
    token("stripe-key", "rk_live_", 16),
    token("hugging-face-token", "hf_", 30),
    token("pypi-token", "pypi-", 32),
    token("grafana-token", "glsa_", 24),
    token("digitalocean-token", "dop_v1_", 40),
    token("age-key", "AGE-SECRET-KEY-", 40),
    private_key("-----BEGIN PRIVATE KEY-----"),
    private_key("-----BEGIN RSA PRIVATE KEY-----"),
    private_key("-----BEGIN EC PRIVATE KEY-----"),
    private_key("-----BEGIN OPENSSH PRIVATE KEY-----"),
    private_key("-----BEGIN ENCRYPTED PRIVATE KEY-----"),
    Shape {
        name: "signed-token",
        prefix: "eyJ",
        keep_prefix: false,
        min: 24,
        more: b"-_.",
        inner: Some(b".eyJ"),
    },
    Shape { name: "bearer", prefix: "bearer ", keep_prefix: true, min: 16, more: b"-_.~+/=", inner: None },
];

impl Shape {
    /// Characters of the token itself.
    pub(super) fn takes(&self, byte: u8) -> bool {
        byte.is_ascii_alphanumeric() || self.more.contains(&byte)
    }

    /// Looks for such a token at the beginning of `rest`.
    pub(super) fn find(&'static self, rest: &[u8], at_end: bool) -> FoundSecret {
        let prefix = self.prefix.as_bytes();
        let common = rest.len().min(prefix.len());
        let same = if self.keep_prefix {
            rest[..common].eq_ignore_ascii_case(&prefix[..common])
        } else {
            rest[..common] == prefix[..common]
        };
        if !same {
            return FoundSecret::Nothing;
        }
        let run = rest[common..].iter().take(self.min).take_while(|byte| self.takes(**byte)).count();
        if run == self.min && self.inner.is_some_and(|inner| !self.holds(inner, rest)) {
            let open = rest.len() < HEADER && rest.iter().all(|byte| self.takes(*byte));
            return if open && !at_end { FoundSecret::Undecided } else { FoundSecret::Nothing };
        }
        if run == self.min {
            let (kept, masked) = if self.keep_prefix { (common, run) } else { (0, common + run) };
            FoundSecret::Token(kept, masked, self)
        } else if !at_end && common + run == rest.len() {
            FoundSecret::Undecided
        } else {
            FoundSecret::Nothing
        }
    }

    /// Whether the token at the beginning of `rest` contains `inner`.
    fn holds(&self, inner: &[u8], rest: &[u8]) -> bool {
        let token = rest.iter().take(HEADER).take_while(|byte| self.takes(**byte)).count();
        rest[..token].windows(inner.len()).any(|window| window == inner)
    }
}
