//! Read-only operations: tasks, one task, the radar, the train, the end of a log.

pub mod activity;
pub mod log;
pub mod radar;
pub mod status;
pub mod tasks;
pub mod train;
