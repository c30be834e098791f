//! Conventions as tests.

mod tidy;
