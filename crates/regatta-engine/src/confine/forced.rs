//! Weaknesses of a machine that tests pretend, by the variable `REGATTA_TEST_SANDBOX`: a list of `no-userns`,
//! `no-overlay`, `no-proc`, `no-landlock` and `abi=N`. Only builds with debug assertions read it. Each makes a step fail
//! as the kernel would; none skips a step.

/// The pretended weaknesses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Forced {
    pub(super) no_userns: bool,
    pub(super) no_overlay: bool,
    pub(super) no_proc: bool,
    /// The highest Landlock ABI; 0 for none.
    pub(super) abi: Option<u32>,
}

impl Forced {
    pub(super) fn from_environment() -> Self {
        if !cfg!(debug_assertions) {
            return Self::default();
        }
        Self::parse(&std::env::var("REGATTA_TEST_SANDBOX").unwrap_or_default())
    }

    fn parse(text: &str) -> Self {
        let mut forced = Self::default();
        for word in text.split(',').map(str::trim) {
            match word {
                "no-userns" => forced.no_userns = true,
                "no-overlay" => forced.no_overlay = true,
                "no-proc" => forced.no_proc = true,
                "no-landlock" => forced.abi = Some(0),
                _ => {
                    if let Some(version) = word.strip_prefix("abi=").and_then(|number| number.parse().ok()) {
                        forced.abi = Some(version);
                    }
                }
            }
        }
        forced
    }

    /// The lower of this cap and the document's.
    pub(super) fn cap(&self, document: Option<u32>) -> Option<u32> {
        match (self.abi, document) {
            (Some(forced), Some(document)) => Some(forced.min(document)),
            (forced, document) => forced.or(document),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_mean_nothing_change_nothing() {
        assert_eq!(Forced::parse("off, abi=x,none"), Forced::default());
        let forced = Forced::parse("no-proc,abi=4");
        assert_eq!((forced.no_proc, forced.cap(Some(7)), forced.cap(Some(2))), (true, Some(4), Some(2)));
    }
}
