//! From the request of a registry to the HelmOps that are polled.
