//! Lost requests and lost answers.
