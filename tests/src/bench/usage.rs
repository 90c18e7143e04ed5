//! What the kernel knows of a process (Linux's `/proc`).

use std::time::Duration;

use anyhow::{Context, Result};

/// Memory of a process, in KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Resident now.
    pub resident: u32,
    /// Most that was ever resident.
    pub peak: u32,
}

/// CPU time that a process has used in all its threads, to a hundredth of a second.
pub fn cpu_time(pid: u32) -> Result<Duration> {
    let stat = read(pid, "stat")?;
    let ticks = ticks(&stat).with_context(|| format!("/proc/{pid}/stat holds {stat:?}"))?;
    let frequency = rustix::param::clock_ticks_per_second();
    let millis = (ticks * 1000).checked_div(frequency);
    Ok(Duration::from_millis(millis.context("a kernel without a clock")?))
}

/// Its memory.
pub fn memory(pid: u32) -> Result<Memory> {
    let status = read(pid, "status")?;
    let kib = |name| kib(&status, name).with_context(|| format!("/proc/{pid}/status has no {name}"));
    Ok(Memory {
        resident: kib("VmRSS")?,
        peak: kib("VmHWM")?,
    })
}

fn read(pid: u32, file: &str) -> Result<String> {
    let path = format!("/proc/{pid}/{file}");
    std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))
}

/// The sum of `utime` and `stime`, fields 14 and 15. Field 2 is the name in parentheses, which may hold anything.
fn ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(14 - 3);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

fn kib(status: &str, name: &str) -> Option<u32> {
    let of_name = |line: &str| {
        line.strip_prefix(name)?
            .strip_prefix(':')?
            .trim()
            .strip_suffix(" kB")?
            .parse()
            .ok()
    };
    status.lines().find_map(of_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_program_does_not_move_the_fields() {
        let stat = "42 (a b) c) 9) S 1 42 42 0 -1 4194560 100 0 3 0 250 31 7 8 20 0 4 0 1000 1 2";
        assert_eq!(ticks(stat), Some(250 + 31));
        assert_eq!(ticks("42 (short) S 1 42"), None);
    }

    #[test]
    fn memory_is_found_by_its_name() {
        let status = "Name:\tVmRSS\nVmPeak:\t  9999 kB\nVmHWM:\t    5120 kB\nVmRSS:\t    4096 kB\n";
        assert_eq!(kib(status, "VmRSS"), Some(4096));
        assert_eq!(kib(status, "VmHWM"), Some(5120));
        assert_eq!(kib(status, "VmSwap"), None);
    }

    #[test]
    fn this_process_uses_memory_and_time() {
        let memory = memory(std::process::id()).unwrap();
        assert!(
            memory.resident > 100 && memory.peak >= memory.resident,
            "{memory:?}"
        );
        let began = std::time::Instant::now();
        while cpu_time(std::process::id()).unwrap().is_zero() {
            assert!(
                began.elapsed() < Duration::from_secs(10),
                "no CPU time is counted"
            );
        }
    }
}
