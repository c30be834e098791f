//! Read-only operations: tasks, one task, the radar, the train, the event log, the end of a log.

pub mod activity;
pub mod events;
pub mod log;
pub mod radar;
pub mod status;
pub mod tasks;
pub mod train;
