//! Logging of changes only.

/// The state that was logged last. A state that lasts is logged once: most states here are checked again every few seconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct OnChange<S>(S);

impl<S: PartialEq> OnChange<S> {
    /// `initial` needs no log line.
    pub const fn new(initial: S) -> Self {
        Self(initial)
    }

    /// Records the state. Returns whether it has changed, so that it must be logged.
    pub fn record(&mut self, state: S) -> bool {
        let is_changed = self.0 != state;
        self.0 = state;
        is_changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_logged_once_until_it_changes() {
        let mut logged = OnChange::default();
        let states = [
            None,
            Some("403"),
            Some("403"),
            Some("500"),
            None,
            None,
            Some("500"),
        ];
        let is_logged = states.map(|state| logged.record(state));
        assert_eq!(is_logged, [false, true, false, true, true, false, true]);
    }
}
