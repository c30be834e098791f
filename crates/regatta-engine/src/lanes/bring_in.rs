//! x
use std::path::PathBuf;
/// x
#[derive(Clone, Debug, Default)]
pub struct Includes;
/// x
#[derive(Clone, Debug, Default)]
pub struct BroughtIn {
    /// x
    pub copied: Vec<PathBuf>,
}
