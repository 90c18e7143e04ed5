package main

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	releasev1 "helm.sh/helm/v4/pkg/release/v1"
	"sigs.k8s.io/kustomize/api/types"
)

// merge is a strategic merge patch with a field that names it.
func merge(field, patch string, target *PatchTarget) Renderer {
	return Renderer{Patches: []Patch{{Field: field, Patch: patch, Target: target}}}
}

func rendered(t *testing.T, request *Request) (*engine, *releasev1.Release) {
	engine, _ := fake(t, request)
	if _, err := engine.do(context.Background()); err != nil {
		t.Fatal(err)
	}
	stored, err := engine.helm.Releases.Last("web")
	if err != nil {
		t.Fatal(err)
	}
	return engine, stored.(*releasev1.Release)
}

// Subcharts, partials, notes, brackets of templates in values, and what templates know of the release are as without post-renderers.
func TestOnlyWhatIsPatchedDiffers(t *testing.T) {
	files := map[string]string{
		"Chart.yaml": "apiVersion: v2\nname: web\nversion: 1.0.0\ndependencies:\n" +
			"- {name: cache, version: 1.0.0, condition: cache.enabled, alias: fast}\n- {name: cache, version: 1.0.0, alias: slow, condition: slow.enabled}\n",
		"values.yaml":                        "slow: {enabled: false}\n",
		"charts/cache/Chart.yaml":            "apiVersion: v2\nname: cache\nversion: 1.0.0\n",
		"charts/cache/values.yaml":           "size: 3\n",
		"charts/cache/templates/c.yaml":      "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Chart.Name }}}\ndata: {size: {{ .Values.size | quote }}}\n",
		"templates/_p.tpl":                   "{{ define \"p\" }}{{ .Release.Name }}-{{ .Release.Revision }}-{{ .Release.IsInstall }}{{ end }}",
		"templates/NOTES.txt":                "hello {{ .Values.msg }}",
		"templates/a.yaml":                   "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  p: {{ include \"p\" . }}\n  q: '{{ \"{{ x }}\" }}'\n  f: >\n    folded\n    text\n\n  r: |+\n    rest\n\n",
		"templates/b.yaml":                   "apiVersion: v1\nkind: Secret\nmetadata: {name: b}\n---\napiVersion: v1\nkind: Service\nmetadata: {name: b}\n",
		"templates/hook.yaml":                "apiVersion: v1\nkind: Pod\nmetadata: {name: h, annotations: {helm.sh/hook: pre-install, helm.sh/hook-weight: \"3\"}}\n",
		"crds/crd.yaml":                      "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: a.example.com}\n",
		"charts/cache/crds/crd.yaml":         "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: b.example.com}\n",
		"charts/cache/templates/tests/t.yml": "apiVersion: v1\nkind: Pod\nmetadata: {name: t, annotations: {helm.sh/hook: test}}\n",
	}
	_, plain := rendered(t, &Request{Action: "install", Apply: "server", SkipCRDs: true, Chart: chartOf(t, files)})
	post := &PostRender{Renderers: []Renderer{merge("p", `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"b"},"stringData":{"a":"b"}}`, nil)}}
	engine, patched := rendered(t, &Request{Action: "install", Apply: "server", SkipCRDs: true, Chart: chartOf(t, files), PostRender: post})
	before, after := split(plain.Manifest), split(patched.Manifest)
	if len(before) != 4 || len(after) != 4 {
		t.Fatalf("%q\n%q", before, after)
	}
	for at := range before {
		if strings.Contains(before[at].Text, "kind: Secret") {
			if after[at].Text != "apiVersion: v1\nkind: Secret\nmetadata:\n  name: b\nstringData:\n  a: b\n\n" {
				t.Errorf("%q", after[at])
			}
		} else if before[at] != after[at] {
			t.Errorf("%q is not %q", after[at], before[at])
		}
	}
	if len(patched.Hooks) != 2 || patched.Hooks[1].Weight != plain.Hooks[1].Weight || patched.Info.Notes != plain.Info.Notes {
		t.Errorf("%v, %q", patched.Hooks, patched.Info.Notes)
	}
	// The record has the chart itself.
	if chart := patched.Chart; len(chart.Dependencies()) != 1 || len(chart.Templates) != 5 || chart.Values["slow"] == nil {
		t.Errorf("%v", chart)
	}
	if crds := crdTexts(engine.rendering.standIn()); len(crds) != 2 || !maps.Equal(crds, crdTexts(engine.rendering.chart)) {
		t.Errorf("%v", crds)
	}
}

// As in Flux: Helm finds hooks in what the post-renderers return.
func TestAPatchMakesAndRemovesHooks(t *testing.T) {
	post := &PostRender{Renderers: []Renderer{
		merge("make", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","annotations":{"helm.sh/hook":"post-install"}}}`, nil),
		merge("remove", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b","annotations":{"helm.sh/hook":null}}}`, nil),
	}}
	_, record := rendered(t, &Request{Action: "install", Apply: "server", Chart: testChart(t), PostRender: post})
	if len(record.Hooks) != 1 || record.Hooks[0].Name != "a" || !strings.Contains(record.Manifest, "name: b") {
		t.Errorf("%v %s", record.Hooks, record.Manifest)
	}
}

func TestPatchesWithoutAnObjectAreReported(t *testing.T) {
	target := &PatchTarget{Kind: "Deployment"}
	post := &PostRender{Renderers: []Renderer{merge("first", `{"kind":"x","metadata":{"name":"x"},"data":{"a":"b"}}`, target)}}
	engine, _ := fake(t, &Request{Action: "install", Apply: "server", Chart: testChart(t), PostRender: post})
	outcome, err := engine.do(context.Background())
	if err != nil || !slices.Equal(outcome.UnmatchedPatches, []string{"first"}) {
		t.Errorf("%v %v", outcome, err)
	}
	post = &PostRender{Renderers: []Renderer{merge("first", `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"none"}}`, nil)}}
	engine, _ = fake(t, &Request{Action: "install", Apply: "server", Chart: testChart(t), PostRender: post})
	_, err = engine.do(context.Background())
	var refused *refusedError
	if !errors.As(err, &refused) || !strings.HasPrefix(refused.text, "lifecycle.postRenderers: no resource matches strategic merge patch") {
		t.Errorf("%v", err)
	}
}

// Helm separates such documents too, although Kubernetes does not.
func TestSeparatorsThatTouchADocumentAreSeparators(t *testing.T) {
	chart := chartOf(t, map[string]string{
		"Chart.yaml":       "apiVersion: v2\nname: web\nversion: 1.0.0\n",
		"templates/a.yaml": "---apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n--- {\"apiVersion\": \"v1\", \"kind\": \"ConfigMap\", \"metadata\": {\"name\": \"b\"}}\n",
	})
	target := &PatchTarget{Kind: "ConfigMap"}
	post := &PostRender{Renderers: []Renderer{merge("p", `{"kind":"x","metadata":{"name":"x"},"data":{"p":"q"}}`, target)}}
	_, record := rendered(t, &Request{Action: "install", Apply: "server", Chart: chart, PostRender: post})
	if strings.Count(record.Manifest, "p: q") != 2 {
		t.Errorf("%s", record.Manifest)
	}
}

// An error of Kustomize has the reason of objects, and none of their data. It panics for the second one.
func TestErrorsOfKustomizeSayWhatAndShowNoData(t *testing.T) {
	for patch, expected := range map[string]string{
		`[{"op":"add","path":"/metadata/namespace","value":5}]`:  "Secret b: kind, name, namespace",
		`[{"op":"replace","path":"/metadata/name","value":"a"}]`: "already registered id",
		`[{"op":"remove","path":"/data/none"}]`:                  "nonexistent key",
	} {
		chart := chartOf(t, map[string]string{
			"Chart.yaml":       "apiVersion: v2\nname: web\nversion: 1.0.0\n",
			"templates/a.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: b}\ndata: {key: c2VjcmV0}\n",
		})
		post := &PostRender{Renderers: []Renderer{merge("p", patch, &PatchTarget{Name: "b"})}}
		engine, _ := fake(t, &Request{Action: "install", Apply: "server", Chart: chart, PostRender: post})
		_, err := engine.do(context.Background())
		var refused *refusedError
		if !errors.As(err, &refused) || refused.reason != "ObjectsRefused" || !strings.Contains(refused.text, expected) {
			t.Errorf("%s: %v", patch, err)
		} else if strings.Contains(refused.text, "c2VjcmV0") || !strings.HasPrefix(refused.text, "lifecycle.postRenderers: ") {
			t.Errorf("%s", refused.text)
		}
	}
}

// A chart without objects is rendered too: its values are checked, and a patch without an object is an error.
func TestAChartWithoutTemplatesIsRendered(t *testing.T) {
	chart := chartOf(t, map[string]string{"Chart.yaml": "apiVersion: v2\nname: web\nversion: 1.0.0\n"})
	post := &PostRender{Renderers: []Renderer{merge("p", `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"}}`, nil)}}
	engine, _ := fake(t, &Request{Action: "install", Apply: "server", Chart: chart, PostRender: post})
	if _, err := engine.do(context.Background()); err == nil || !strings.Contains(err.Error(), "no resource matches") {
		t.Errorf("%v", err)
	}
}

// The error of a chart is that of Helm, not one about a function that the chart does not use.
func TestErrorsOfTheChartStay(t *testing.T) {
	chart := func() *ChartRequest {
		return chartOf(t, map[string]string{
			"Chart.yaml":       "apiVersion: v2\nname: web\nversion: 1.0.0\n",
			"templates/a.yaml": "{{ required \"msg2 is needed\" .Values.msg2 }}",
		})
	}
	engine, _ := fake(t, &Request{Action: "install", Apply: "server", Chart: chart()})
	_, expected := engine.do(context.Background())
	images := []types.Image{{Name: "a", NewTag: "b"}}
	engine, _ = fake(t, &Request{Action: "install", Apply: "server", Chart: chart(), PostRender: &PostRender{Renderers: []Renderer{{Images: images}}}})
	if _, err := engine.do(context.Background()); err == nil || err.Error() != expected.Error() {
		t.Errorf("%v\n%v", err, expected)
	}
}
