//! The items of the workqueue: keys of Alerts, AlertProviders and Receivers.

use helmops_api::{Alert, AlertProvider, Decoded, Receiver};
use helmops_runtime::queue;
use kube::runtime::reflector::ObjectRef;

/// Namespace and name of an Alert.
pub type AlertKey = ObjectRef<Decoded<Alert>>;
/// Namespace and name of an AlertProvider.
pub type ProviderKey = ObjectRef<Decoded<AlertProvider>>;
/// Namespace and name of a Receiver.
pub type ReceiverKey = ObjectRef<Decoded<Receiver>>;

/// An object to reconcile, by the reconciler of its kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Work {
    /// Send its messages.
    Alert(AlertKey),
    /// Report whether messages can be sent to it.
    Provider(ProviderKey),
    /// Publish its token, and handle its pushes.
    Receiver(ReceiverKey),
}

impl queue::QueueKey for Work {
    fn namespace(&self) -> &str {
        let namespace = match self {
            Self::Alert(key) => &key.namespace,
            Self::Provider(key) => &key.namespace,
            Self::Receiver(key) => &key.namespace,
        };
        namespace.as_deref().unwrap_or_default()
    }
}
