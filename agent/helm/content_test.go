package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
)

// ofBundle is a request for the chart that is made of the files of a Bundle.
func ofBundle(t *testing.T, dir string, files map[string]string) *Request {
	all := map[string]string{"Chart.yaml": "apiVersion: v2\nname: web\nversion: 1.0.0\n"}
	for name, text := range files {
		all[name] = text
	}
	return &Request{Action: "install", Apply: "server", Chart: chartOf(t, all), PostRender: &PostRender{Folder: dir, IsContent: true}}
}

func TestManifestsOfABundleBecomeObjectsAsTheyAre(t *testing.T) {
	_, record := rendered(t, ofBundle(t, "", map[string]string{
		"templates/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {msg: {{ .Values.msg | quote }}}\n",
		"raw-yaml/b.yaml": "# no template\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\ndata: {text: '{{ .Values.msg }}', yes: \"on\"}\n" +
			"---\n---\napiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: ConfigMap\n  metadata: {name: c}\n",
		"raw-yaml/_d.json":     `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "d"}}`,
		"raw-yaml/hook.yaml":   "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: e, annotations: {helm.sh/hook: pre-install}}\n",
		"raw-yaml/kind.yaml":   "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: no}\n---\na: b\n",
		"raw-yaml/none.yaml":   "kind: Kustomization\n",
		"raw-yaml/empty.yaml":  "# nothing\n",
		"raw-yaml/values.json": "{}",
	}))
	for _, part := range []string{
		"# Source: web/templates/a.yaml\n", "msg: \"two\"", "# Source: web/raw-yaml/b.yaml\n", "text: '{{ .Values.msg }}'", "name: c\n",
		"# Source: web/raw-yaml/d.json\n", "name: d\n",
	} {
		if !strings.Contains(record.Manifest, part) {
			t.Errorf("no %q in %s", part, record.Manifest)
		}
	}
	if strings.Contains(record.Manifest, "name: no\n") || strings.Contains(record.Manifest, "Kustomization") {
		t.Error(record.Manifest)
	}
	if len(record.Hooks) != 1 || record.Hooks[0].Name != "e" {
		t.Error(record.Hooks)
	}
}

func TestAManifestThatCannotBeReadIsNamed(t *testing.T) {
	for text, expected := range map[string]string{
		"a: [\n":              "deep/x.yaml: yaml: line",
		"{a: b}":              "deep/x.yaml: invalid character 'a'",
		"- kind: ConfigMap\n": "deep/x.yaml: json: cannot unmarshal array",
	} {
		engine, _ := fake(t, ofBundle(t, "", map[string]string{"raw-yaml/deep/x.yaml": text}))
		_, err := engine.do(context.Background())
		var refused *refusedError
		if !errors.As(err, &refused) || refused.reason != "ObjectsRefused" || !strings.HasPrefix(refused.text, expected) {
			t.Errorf("%q: %v", text, err)
		}
		if _, err := engine.helm.Releases.Last("web"); err == nil {
			t.Error("there is a record")
		}
	}
}

// The chart of a HelmOp may have a folder of this name.
func TestOnlyBundlesHaveManifests(t *testing.T) {
	request := ofBundle(t, "", map[string]string{"raw-yaml/b.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\n"})
	request.PostRender = nil
	if _, record := rendered(t, request); record.Manifest != "" {
		t.Error(record.Manifest)
	}
}

func TestAKustomizationOfABundleHasAllOfItsFiles(t *testing.T) {
	kustomization := "resources: [../../base]\nnamePrefix: x-\nconfigMapGenerator: [{name: made, files: [text], options: {disableNameSuffixHash: true}}]\n" +
		"patches: [{path: patch.yaml}]\n"
	files := map[string]string{
		".helmops-content/base/kustomization.yml":               "resources: [c.yaml]\n",
		".helmops-content/base/c.yaml":                          "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n",
		".helmops-content/overlays/dev/kustomization.yaml":      kustomization,
		".helmops-content/overlays/dev/patch.yaml":              "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: b}\n",
		".helmops-content/overlays/dev/text":                    "text",
		".helmops-content/overlays/prod/kustomization.yaml":     "resources: ['https://example.com/a.yaml']\n",
		".helmops-content/overlays/template/kustomization.yaml": "namePrefix: y-\n",
		"raw-yaml/raw.yaml":                                     "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: raw}\n",
	}
	for _, dir := range []string{"overlays/dev", "./overlays/dev/", "/overlays/dev"} {
		_, record := rendered(t, ofBundle(t, dir, files))
		for _, part := range []string{"name: x-c\n", "a: b\n", "name: x-made\n", "text: text\n", "name: raw\n"} {
			if !strings.Contains(record.Manifest, part) {
				t.Errorf("%s: no %q in %s", dir, part, record.Manifest)
			}
		}
		if slices.ContainsFunc(record.Chart.Files, func(file *common.File) bool { return strings.HasPrefix(file.Name, contentFolder) }) {
			t.Error("the record has files that are none of the chart")
		}
	}
	for dir, expected := range map[string]string{
		"overlays/prod": `resources has "https://example.com/a.yaml", which is no file`,
		"elsewhere":     `no kustomization.yaml in the folder "elsewhere"`,
	} {
		engine, _ := fake(t, ofBundle(t, dir, files))
		if _, err := engine.do(context.Background()); err == nil || !strings.Contains(err.Error(), expected) {
			t.Errorf("%s: %v", dir, err)
		}
	}
	files["templates/a.yaml"] = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
	if _, record := rendered(t, ofBundle(t, "overlays/template", files)); !strings.Contains(record.Manifest, "name: y-a\n") {
		t.Error(record.Manifest)
	}
}

func TestPatchesOfOverlays(t *testing.T) {
	deployment := "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec: {template: {spec: {containers: [{name: a, image: x}, {name: b, image: y}]}}}\n"
	other := "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: a}\nspec: {list: [1, 2], on: yes}\n---\nkind: Second\n"
	for _, test := range []struct{ text, patch, expected string }{
		{deployment, "spec: {template: {spec: {containers: [{name: b, image: z}]}}}", `{"image":"x","name":"a"},{"image":"z","name":"b"}`},
		{deployment, "[{op: replace, path: /metadata/name, value: c}]", `"metadata":{"name":"c"}`},
		{other, "spec: {list: [3]}", `"spec":{"list":[3],"on":"yes"}`},
		{"", "a: b", `{"a":"b"}`},
	} {
		file := PatchedFile{Path: "a.yaml", Text: test.text, Patches: []string{test.patch}}
		printed, err := patchFiles([]PatchedFile{file})
		if text := strings.ReplaceAll(printed, `\"`, `"`); err != nil || !strings.Contains(text, test.expected) || strings.Contains(text, "Second") {
			t.Errorf("%s: %s %v", test.patch, text, err)
		}
	}
	list := "spec: {template: {spec: {containers: [{env: [{value: geheim}], image: geheim}]}}}"
	for patch, expected := range map[string]string{
		"[{op: remove, path: /none}]": "nonexistent key none",
		"geheim":                      "is neither an object nor a list of operations",
		list:                          "an item of a list lacks name, by which it is merged",
		"{a: geheim":                  "no valid YAML, in line",
		"[{op: test, path: /kind, value: geheim}]": "",
	} {
		file := PatchedFile{Path: "a.yaml", Text: deployment, Patches: []string{patch}}
		_, err := patchFiles([]PatchedFile{file})
		if err == nil || !strings.HasPrefix(err.Error(), "overlays: cannot patch a.yaml: ") || !strings.Contains(err.Error(), expected) ||
			strings.Contains(err.Error(), "geheim") {
			t.Errorf("%s: %v", patch, err)
		}
	}
}
