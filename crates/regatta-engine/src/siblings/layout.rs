//! Where repositories are in a bay: as the user's own checkouts are from their common parent.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use regatta_core::repos::RepoName;

/// The places of a repository and its siblings in a bay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// The lane.
    pub(crate) own: PathBuf,
    /// The siblings.
    pub(crate) siblings: BTreeMap<RepoName, PathBuf>,
}

impl Layout {
    /// From the roots of the checkouts. A sibling inside the lane's own repository, or around it, is beside the lane
    /// under its name: no file of one repository is a file of another.
    pub(crate) fn of(own: &Path, siblings: &[(RepoName, PathBuf)]) -> Self {
        let is_apart = |dir: &Path| !dir.starts_with(own) && !own.starts_with(dir);
        let apart = siblings.iter().filter(|(_, dir)| is_apart(dir));
        let parent = own.parent().unwrap_or(own).to_owned();
        let common = apart.clone().fold(parent, |common, (_, dir)| {
            common.ancestors().find(|above| dir.starts_with(above)).unwrap_or(Path::new("/")).to_owned()
        });
        let below = |dir: &Path| dir.strip_prefix(&common).map(Path::to_owned).ok();
        let own_place = below(own).unwrap_or_else(|| PathBuf::from("repo"));
        let places = siblings.iter().map(|(name, dir)| {
            let place = below(dir).filter(|_| is_apart(dir)).unwrap_or_else(|| PathBuf::from(name.as_str()));
            (name.clone(), place)
        });
        Self { siblings: places.collect(), own: own_place }
    }

    /// The bay of a checkout, if it is in one below `root`.
    pub(crate) fn bay_of(&self, checkout: &Path, root: &Path) -> Option<PathBuf> {
        if !checkout.ends_with(&self.own) {
            return None;
        }
        let bay = checkout.ancestors().nth(self.own.components().count())?;
        (bay.starts_with(root) && bay != root).then(|| bay.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(own: &str, siblings: &[(&str, &str)]) -> (String, Vec<String>) {
        let siblings: Vec<(RepoName, PathBuf)> =
            siblings.iter().map(|(name, dir)| (RepoName::parse(name).unwrap(), dir.into())).collect();
        let found = Layout::of(Path::new(own), &siblings);
        let places = found.siblings.values().map(|place| place.display().to_string());
        (found.own.display().to_string(), places.collect())
    }

    #[test]
    fn a_bay_mirrors_the_users_layout() {
        assert_eq!(layout("/src/api", &[("shared", "/src/shared")]), ("api".into(), vec!["shared".into()]));
        let places = vec!["libs/core".to_owned(), "shared".to_owned()];
        assert_eq!(
            layout("/src/api", &[("core", "/src/libs/core"), ("shared", "/src/shared")]),
            ("api".into(), places)
        );
        let places = vec!["libs/shared".to_owned()];
        assert_eq!(layout("/src/apps/api", &[("shared", "/src/libs/shared")]), ("apps/api".into(), places));
        // A repository inside the other is beside the lane.
        assert_eq!(
            layout("/src/home", &[("shared", "/src/home/libs/shared")]),
            ("home".into(), vec!["shared".into()])
        );
        assert_eq!(layout("/src/home/api", &[("home", "/src/home")]), ("api".into(), vec!["home".into()]));
    }

    #[test]
    fn a_bay_is_found_from_its_checkout() {
        let found =
            Layout::of(Path::new("/src/apps/api"), &[(RepoName::parse("x").unwrap(), "/src/x".into())]);
        let root = Path::new("/src/api.lanes");
        let bay = found.bay_of(Path::new("/src/api.lanes/t1/apps/api"), root);
        assert_eq!(bay.as_deref(), Some(Path::new("/src/api.lanes/t1")));
        assert_eq!(found.bay_of(Path::new("/src/api.lanes/t1"), root), None);
        assert_eq!(found.bay_of(Path::new("/elsewhere/apps/api"), root), None);
    }
}
