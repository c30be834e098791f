//! The user's settings for the pool.

use super::pattern::TreePattern;

/// A tree with fewer files is created just as fast, unless it keeps build directories.
const LEAST_FILES: usize = 256;

/// How many trees are kept, and what may stay in them.
#[derive(Clone, Debug, Default)]
pub struct PoolOptions {
    /// Maximum number of trees; zero turns the pool off.
    pub size: usize,
    /// No tree is kept while less disk than this is free.
    pub min_free_disk_gb: Option<f64>,
    build_dirs: Vec<TreePattern>,
    setup_inputs: Vec<TreePattern>,
}

impl PoolOptions {
    /// At most `size` trees, which keep `build_dirs`; setup depends on `setup_inputs`.
    pub fn new(size: usize, build_dirs: &[String], setup_inputs: &[String]) -> Self {
        let patterns = |texts: &[String]| texts.iter().map(|text| TreePattern::new(text)).collect();
        let (build_dirs, setup_inputs) = (patterns(build_dirs), patterns(setup_inputs));
        Self { size, min_free_disk_gb: None, build_dirs, setup_inputs }
    }

    pub(super) fn build_dirs(&self) -> &[TreePattern] {
        &self.build_dirs
    }

    pub(super) fn setup_inputs(&self) -> &[TreePattern] {
        &self.setup_inputs
    }

    /// Whether a tree with this many files is worth keeping.
    pub(super) fn wants(&self, n_files: usize) -> bool {
        self.size > 0 && (n_files >= LEAST_FILES || !self.build_dirs.is_empty())
    }
}
