package main

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Request is what the engine is to do: one value of JSON on standard input.
type Request struct {
	// Action is install, upgrade, rollback, uninstall, test, crds, render or patch.
	Action    string `json:"action"`
	Release   string `json:"release"`
	Namespace string `json:"namespace"`
	// StorageNamespace is the namespace of the records, which may be another one than that of the release.
	StorageNamespace string `json:"storageNamespace"`
	// Kubeconfig is the path of a file. CRDs are printed without a cluster.
	Kubeconfig string `json:"kubeconfig,omitempty"`
	// User is impersonated, if there is one.
	User string `json:"user,omitempty"`
	// HookTimeout is how long each hook may take, in milliseconds.
	HookTimeout int64 `json:"hookTimeout"`
	// EndsWithInput is whether standard input stays open as long as the parent wants the action: its end is that of the parent.
	EndsWithInput bool `json:"endsWithInput,omitempty"`
	// Chart is for an installation, an upgrade, a rendering and its CRDs.
	Chart *ChartRequest `json:"chart,omitempty"`
	// PostRender is what a user changes in the objects of an installation, an upgrade or a rendering.
	PostRender *PostRender `json:"postRender,omitempty"`
	// Patched are the files of a Bundle with patches of its overlays.
	Patched []PatchedFile `json:"patched,omitempty"`
	// Marks are what is changed in the objects of an installation and an upgrade.
	Marks *Marks `json:"marks,omitempty"`

	// Apply is how objects are applied: as-before, server, override (server-side, with force), client or replace.
	Apply         string `json:"apply,omitempty"`
	TakeOwnership bool   `json:"takeOwnership,omitempty"`
	// CleanupOnFail is whether the objects are deleted that a failed upgrade or rollback has created.
	CleanupOnFail bool `json:"cleanupOnFail,omitempty"`
	// Replace is for an installation over the records of a release that failed or was uninstalled.
	Replace     bool   `json:"replace,omitempty"`
	SkipCRDs    bool   `json:"skipCRDs,omitempty"`
	Description string `json:"description,omitempty"`
	// Labels are those of the record. The value null removes one that the revision before has.
	Labels     map[string]string `json:"labels,omitempty"`
	MaxHistory int               `json:"maxHistory,omitempty"`
	// Revision is the one that a rollback restores.
	Revision     int  `json:"revision,omitempty"`
	KeepHistory  bool `json:"keepHistory,omitempty"`
	DisableHooks bool `json:"disableHooks,omitempty"`
	// DeletionPropagation is background, foreground or orphan, for an uninstallation.
	DeletionPropagation string `json:"deletionPropagation,omitempty"`
	// Include and Exclude are names of tests.
	Include []string `json:"include,omitempty"`
	Exclude []string `json:"exclude,omitempty"`
	// IsUpgrade is for a rendering: whether it is one as for an upgrade.
	IsUpgrade bool `json:"isUpgrade,omitempty"`
	// KubeVersion is the version of the cluster that the CRDs are for.
	KubeVersion string `json:"kubeVersion,omitempty"`
}

// ChartRequest is a chart with its values.
type ChartRequest struct {
	// Archive is the path of a .tgz file.
	Archive string `json:"archive"`
	// Values are JSON or YAML; later ones override earlier ones.
	Values []string `json:"values"`
	// Annotations are for all but CRDs.
	Annotations *Annotations `json:"annotations,omitempty"`
	EnableDNS   bool         `json:"enableDNS,omitempty"`
	SkipSchema  bool         `json:"skipSchema,omitempty"`
}

// Annotations are what the record says of the release, as annotations of the chart.
type Annotations struct {
	// Prefixes are those that the chart itself must not have.
	Prefixes []string          `json:"prefixes"`
	Values   map[string]string `json:"values"`
	// Version is the annotation that is left out if it is the version of the chart itself.
	Version string `json:"version"`
}

// Marks is the program that changes rendered objects before they are applied and recorded.
type Marks struct {
	Program   string   `json:"program"`
	Arguments []string `json:"arguments"`
	// Step is input of the program, and of no meaning here.
	Step json.RawMessage `json:"step"`
}

// Outcome is what the engine did: one value of JSON on standard output.
type Outcome struct {
	// Revision is the one that was written.
	Revision int `json:"revision,omitempty"`
	// Warnings are those of the API server.
	Warnings []string `json:"warnings,omitempty"`
	// Printed are the objects of a rendering, the CRDs of a chart, or a list of patched files as JSON.
	Printed string `json:"printed,omitempty"`
	// UnmatchedPatches are the fields of patches whose target selects no object.
	UnmatchedPatches []string `json:"unmatchedPatches,omitempty"`
	// Error is set if the action failed.
	Error *Failure `json:"error,omitempty"`
}

// Failure is why an action failed.
type Failure struct {
	Text string `json:"text"`
	// Reason is set where there is more than a text that says it: ObjectsRefused, OutOfMemory and ChartInvalid of the engine itself; HookFailed,
	// HookTimeout, DeletionFailed, Stopped, InProgress, NoRecord and Unreachable of errors with a value or a type.
	Reason string `json:"reason,omitempty"`
	// Response is that of the API server, if the error has one.
	Response *metav1.Status `json:"response,omitempty"`
}
