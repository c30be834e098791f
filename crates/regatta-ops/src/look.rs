//! Read-only operations: tasks, one task, the radar, the train, the event log, logs.

pub mod activity;
pub mod events;
pub mod listing;
pub mod log;
pub mod logs;
pub mod places;
pub mod radar;
pub mod review;
pub mod status;
pub mod tasks;
pub mod train;
