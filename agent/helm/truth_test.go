package main

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"reflect"
	"testing"

	releasev1 "helm.sh/helm/v4/pkg/release/v1"
	"sigs.k8s.io/kustomize/api/types"
)

// fluxCase is a chart with post-renderers, and what helm-controller 1.6.3 makes of it.
type fluxCase struct {
	Name          string            `json:"name"`
	Files         map[string]string `json:"files"`
	PostRenderers []struct {
		Kustomize struct {
			Patches []struct {
				Patch  string       `json:"patch"`
				Target *PatchTarget `json:"target"`
			} `json:"patches"`
			Images []types.Image `json:"images"`
		} `json:"kustomize"`
	} `json:"postRenderers"`
	Strategy string `json:"strategy"`
	Objects  []any  `json:"objects"`
	Hooks    []struct {
		Object any `json:"object"`
	} `json:"hooks"`
	Error string `json:"error"`
	// Differs is whether the result has to be another one: Flux changes values that no patch is about, since its step reads YAML 1.2, and
	// refuses keys that are no texts.
	Differs bool `json:"differs"`
}

func (c *fluxCase) request(t *testing.T) *Request {
	steps := &PostRender{Strategy: c.Strategy}
	for _, renderer := range c.PostRenderers {
		step := Renderer{Images: renderer.Kustomize.Images}
		for _, patch := range renderer.Kustomize.Patches {
			step.Patches = append(step.Patches, Patch{Field: "patch", Patch: patch.Patch, Target: patch.Target})
		}
		steps.Renderers = append(steps.Renderers, step)
	}
	files := map[string]string{"Chart.yaml": "apiVersion: v2\nname: web\nversion: 1.0.0\n"}
	for name, text := range c.Files {
		files[name] = text
	}
	return &Request{Action: "install", Apply: "server", SkipCRDs: true, Chart: chartOf(t, files), PostRender: steps}
}

func valuesOf(t *testing.T, documents ...string) []any {
	var values []any
	for _, document := range documents {
		for _, object := range readObjects(document) {
			var value any
			if err := json.Unmarshal(object.json, &value); err != nil {
				t.Fatal(err)
			}
			values = append(values, value)
		}
	}
	return values
}

// The table is from a program over the code of Flux, with Helm 4.2.4 and the Kustomize of go.mod.
func TestPostRenderersDoTheSameAsInFlux(t *testing.T) {
	file, err := os.Open("testdata/postrender.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	count := 0
	for ; lines.Scan(); count++ {
		var expected fluxCase
		if err := json.Unmarshal(lines.Bytes(), &expected); err != nil {
			t.Fatal(err)
		}
		engine, _ := fake(t, expected.request(t))
		_, failure := engine.do(context.Background())
		isSame := (failure != nil) == (expected.Error != "")
		if failure == nil && expected.Error == "" {
			stored, err := engine.helm.Releases.Last("web")
			if err != nil {
				t.Fatal(err)
			}
			record := stored.(*releasev1.Release)
			var objects, hooks, expectedHooks []any
			for _, document := range split(record.Manifest) {
				objects = append(objects, valuesOf(t, document.Text)...)
			}
			for _, hook := range record.Hooks {
				hooks = append(hooks, valuesOf(t, hook.Manifest)...)
			}
			for _, hook := range expected.Hooks {
				expectedHooks = append(expectedHooks, hook.Object)
			}
			isSame = areEqual(objects, expected.Objects) && areEqual(hooks, expectedHooks)
		}
		if isSame == expected.Differs {
			t.Errorf("%s: is as in Flux: %v, %v", expected.Name, isSame, failure)
		}
	}
	if err := lines.Err(); err != nil || count < 200 {
		t.Error(count, err)
	}
}

func areEqual(one, other []any) bool {
	return len(one) == 0 && len(other) == 0 || reflect.DeepEqual(one, other)
}
