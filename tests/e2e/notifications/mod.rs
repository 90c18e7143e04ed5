//! Notifications.

mod receivers;
