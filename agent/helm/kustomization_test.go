package main

import (
	"context"
	"errors"
	"strings"
	"testing"
)

func withKustomization(t *testing.T, folder, kustomization string) *Request {
	chart := chartOf(t, map[string]string{
		"Chart.yaml":                 "apiVersion: v2\nname: web\nversion: 1.0.0\n",
		"templates/config.yaml":      "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {msg: {{ .Values.msg | quote }}}\n",
		"templates/hook.yaml":        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b, annotations: {helm.sh/hook: pre-install}}\n",
		"overlay/more.yaml":          "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: more}\n",
		"overlay/kustomization.yaml": kustomization,
		"base/kustomization.yaml":    "resources: [c.yaml]\n",
		// A folder of this name is a repository for Kustomize.
		"overlay/github.com/example/there/kustomization.yaml": "resources: []\n",
		"base/c.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n",
	})
	return &Request{Action: "install", Apply: "server", Chart: chart, PostRender: &PostRender{Folder: folder}}
}

// As in Fleet: it replaces the objects, and leaves hooks alone.
func TestAKustomizationOfTheChartReplacesTheObjects(t *testing.T) {
	text := "namePrefix: x-\nresources: [more.yaml, ../base]\n"
	for _, folder := range []string{"overlay", "./overlay/", ".chart/0123abc/overlay"} {
		_, record := rendered(t, withKustomization(t, folder, text))
		for _, part := range []string{"name: x-a\n", "name: x-more\n", "name: x-c\n", "msg: two"} {
			if !strings.Contains(record.Manifest, part) {
				t.Errorf("%s: no %q in %s", folder, part, record.Manifest)
			}
		}
		if strings.Contains(record.Manifest, "name: a\n") || len(record.Hooks) != 1 || record.Hooks[0].Name != "b" {
			t.Errorf("%s: %s %v", folder, record.Manifest, record.Hooks)
		}
	}
	engine, _ := fake(t, withKustomization(t, "other", text))
	if _, err := engine.do(context.Background()); err == nil || !strings.Contains(err.Error(), `no kustomization.yaml in the folder "other"`) {
		t.Errorf("%v", err)
	}
}

func TestAKustomizationReadsFilesOfTheChartOnly(t *testing.T) {
	for _, text := range []string{
		"resources: [https://example.com/a.yaml]\n",
		"resources: [github.com/example/repo]\n",
		"resources: [\"https://example.com/org/repo\\n\"]\n",
		"generators: [\"https://example.com/org/repo\\n\"]\n",
		"resources: [github.com/example/there]\n",
		"components: ['git@example.com:a/b']\n",
		"resources: [../../outside]\n",
		"patches: [{path: https://example.com/p.yaml}]\n",
		"configMapGenerator: [{name: a, files: ['https://example.com/f']}]\n",
		"configMapGenerator: [{name: a, files: ['/etc/hostname']}]\n",
		"helmCharts: [{name: a, repo: https://example.com, version: 1.0.0}]\n",
		"transformers: ['https://example.com/t.yaml']\n",
		"openapi: {path: https://example.com/o.json}\n",
	} {
		engine, _ := fake(t, withKustomization(t, "overlay", text))
		_, err := engine.do(context.Background())
		var refused *refusedError
		if !errors.As(err, &refused) || !strings.HasPrefix(refused.text, "kustomize.dir: ") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
