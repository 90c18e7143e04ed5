//! Validation of Alerts, AlertProviders and Receivers: one rule for each kind, used at admission and before they take effect.
