//! The metric registry of the process.

use prometheus::{IntCounterVec, IntGauge, Opts, Registry, core::Collector};

use super::build_info::{COMMIT, VERSION};

/// A registry that already holds `helmops_build_info{version,commit}` (always 1) and, on Linux, the
/// `process_*` metrics. It has no prefix, because a prefix would rename `process_*` too.
///
/// # Errors
/// Only if the metrics conflict with each other, which is a bug in this code.
pub fn registry() -> Result<Registry, prometheus::Error> {
    let registry = Registry::new();
    let opts = Opts::new(
        "helmops_build_info",
        "Version and commit of the running build; always 1.",
    )
    .const_label("version", VERSION)
    .const_label("commit", COMMIT);
    let info = IntGauge::with_opts(opts)?;
    info.set(1);
    registry.register(Box::new(info))?;
    #[cfg(target_os = "linux")]
    registry.register(Box::new(
        prometheus::process_collector::ProcessCollector::for_self(),
    ))?;
    Ok(registry)
}

/// Registers a metric and returns it.
///
/// # Errors
/// If a metric of the same name is already registered.
pub fn registered<C: Collector + Clone + 'static>(
    registry: &Registry,
    metric: C,
) -> Result<C, prometheus::Error> {
    registry.register(Box::new(metric.clone()))?;
    Ok(metric)
}

/// Registers a counter with labels, and returns it.
///
/// # Errors
/// If a metric of the same name is already registered.
pub fn counters(
    registry: &Registry,
    name: &str,
    help: &str,
    labels: &[&str],
) -> prometheus::Result<IntCounterVec> {
    registered(registry, IntCounterVec::new(Opts::new(name, help), labels)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn build_info_and_process_metrics_are_registered() {
        let text = prometheus::TextEncoder::new()
            .encode_to_string(&registry().unwrap().gather())
            .unwrap();
        let info = format!(r#"helmops_build_info{{commit="{COMMIT}",version="{VERSION}"}} 1"#);
        assert!(text.contains(&info), "{text}");
        #[cfg(target_os = "linux")]
        assert!(text.contains("process_resident_memory_bytes "), "{text}");
    }
}
