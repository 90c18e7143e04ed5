//! Types that decode another type's objects.

pub use kube_core::Resource;

/// The items of `Resource` that are those of another type: an `Api` of the implementing type requests the same objects.
#[macro_export]
macro_rules! same_resource_as {
    ($resource:ident) => {
        type DynamicType = <$resource as $crate::same_resource::Resource>::DynamicType;
        type Scope = <$resource as $crate::same_resource::Resource>::Scope;

        fn kind(dt: &Self::DynamicType) -> std::borrow::Cow<'_, str> {
            $resource::kind(dt)
        }

        fn group(dt: &Self::DynamicType) -> std::borrow::Cow<'_, str> {
            $resource::group(dt)
        }

        fn version(dt: &Self::DynamicType) -> std::borrow::Cow<'_, str> {
            $resource::version(dt)
        }

        fn plural(dt: &Self::DynamicType) -> std::borrow::Cow<'_, str> {
            $resource::plural(dt)
        }
    };
}

pub use same_resource_as;
