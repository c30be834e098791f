//! x
use super::*;
impl Lanes {
    pub(super) fn populate_submodules(&self, _lane: &Lane) -> Result<Vec<String>, GitError> {
        Ok(Vec::new())
    }
    pub(super) fn dirty_submodule(&self, _lane: &Lane) -> Result<Option<PathBuf>, GitError> {
        Ok(None)
    }
    pub(super) fn keep_submodule_work(&self, _lane: &Lane) -> Result<(), GitError> {
        Ok(())
    }
}
