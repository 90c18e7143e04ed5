//! How many messages are sent before it is recorded that they were delivered.
//!
//! Each record writes the status of the Alert with the records of all its objects: with a write for each message, thousands of messages
//! would write gigabytes. What was sent and not recorded is sent again after a crash.

use crate::message_format::Format;

/// The size of the records, in bytes, for which one more message is sent before the next write.
const BYTES_PER_MESSAGE: usize = 4 << 10;
/// The maximum number of messages that a crash repeats.
const MAX: usize = 64;

/// The number of messages that are sent before the next write, to an Alert whose records have this size.
///
/// More than one only for events whose repetition has the same ID. People would read a message twice.
pub fn batch_size(format: Format, recorded: usize) -> usize {
    match format {
        Format::CdEvents => (1 + recorded / BYTES_PER_MESSAGE).min(MAX),
        // An Alertmanager gets many alerts in one message.
        Format::Alertmanager
        | Format::Generic
        | Format::GenericHmac
        | Format::Slack
        | Format::Discord
        | Format::MsTeams => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_read_is_recorded_one_by_one() {
        for format in [Format::Generic, Format::Slack, Format::Alertmanager] {
            assert_eq!(batch_size(format, 1 << 20), 1);
        }
        assert_eq!(batch_size(Format::CdEvents, 1_000), 1, "few records are cheap");
    }

    /// Events of 5,000 objects, with records of 130 bytes.
    #[test]
    fn what_is_written_grows_as_the_number_of_events() {
        let (mut sent, mut writes, mut written) = (0, 0, 0);
        while sent < 5_000 {
            let size = batch_size(Format::CdEvents, sent * 130);
            assert!((1..=MAX).contains(&size));
            sent += size;
            writes += 1;
            written += sent * 130;
        }
        assert!(writes < 200, "{writes}");
        // One by one it would be 1.6 GB.
        assert!(written < 40 << 20, "{written}");
    }
}
