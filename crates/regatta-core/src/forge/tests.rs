//! Names, marks and texts, over collections of good and bad ones.

mod feedback;
mod names;
mod quota;
mod strangers;
mod texts;
