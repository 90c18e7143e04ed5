package main

import (
	"encoding/json"
	"fmt"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes/scheme"
	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"
)

// PatchedFile is a file of a Bundle with patches of its overlays.
type PatchedFile struct {
	// Path names the file in messages.
	Path    string   `json:"path"`
	Text    string   `json:"text"`
	Patches []string `json:"patches"`
}

// patchFiles applies the patches of files, and prints a list of the results.
func patchFiles(files []PatchedFile) (string, error) {
	results := []string{}
	for _, file := range files {
		patched, err := file.patched()
		if err != nil {
			cause := withoutValues(err, "they do not fit the file, or one of them is neither an object nor a list of operations")
			return "", &refusedError{text: fmt.Sprintf("overlays: cannot patch %s: %s", file.Path, cause), reason: "ObjectsRefused"}
		}
		results = append(results, string(patched))
	}
	printed, err := json.Marshal(results)
	return string(printed), err
}

// patched is the file as JSON: its first document, with all patches.
func (f *PatchedFile) patched() ([]byte, error) {
	patched, err := firstDocument(f.Text)
	if err != nil {
		return nil, err
	}
	for _, text := range f.Patches {
		patch, err := firstDocument(text)
		if err != nil {
			return nil, err
		}
		if patched, err = applyPatch(patched, patch); err != nil {
			return nil, err
		}
	}
	return patched, nil
}

// firstDocument reads YAML as Fleet does for overlays: YAML 1.2.
func firstDocument(text string) ([]byte, error) {
	object := map[string]any{}
	err := kyaml.Unmarshal([]byte(text), &object)
	if err == nil {
		return json.Marshal(object)
	}
	var list []any
	if err := kyaml.Unmarshal([]byte(text), &list); err != nil {
		return nil, err
	}
	return json.Marshal(list)
}

// applyPatch is a JSON Patch for a list; else a strategic merge patch for a kind of Kubernetes, and a merge patch for others.
func applyPatch(original, patch []byte) ([]byte, error) {
	if patch[0] == '[' {
		operations, err := jsonpatch.DecodePatch(patch)
		if err != nil {
			return nil, err
		}
		return operations.Apply(original)
	}
	var head struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	// What is no object is for the merge patch to refuse.
	_ = json.Unmarshal(original, &head)
	typed, err := scheme.Scheme.New(schema.FromAPIVersionAndKind(head.APIVersion, head.Kind))
	if runtime.IsNotRegisteredError(err) || head.Kind == "" || head.Kind == "CustomResourceDefinition" {
		return jsonpatch.MergePatch(original, patch)
	}
	if err != nil {
		return nil, err
	}
	return strategicpatch.StrategicMergePatch(original, patch, typed)
}
