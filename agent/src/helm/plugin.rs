//! The plugin by which Helm runs this program as its post-renderer.

/// Its name.
pub const NAME: &str = "helmops";
/// The environment variable with the path of this program. Helm splits the command of a plugin at spaces, and then replaces
/// variables.
pub const PROGRAM: &str = "HELMOPS_POST_RENDERER";

/// The file `plugin.yaml`. The input is in the folder of the plugin.
pub const PLUGIN: &str = r"apiVersion: v1
type: postrenderer/v1
name: helmops
version: 1.0.0
runtime: subprocess
config: {}
runtimeConfig:
  platformCommand:
  - command: $HELMOPS_POST_RENDERER
    args: [post-render, --input, $HELM_PLUGIN_DIR/input.json]
";
