package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
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
		"overlay/lib.git/icon.yaml":                           "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: icon}\n",
		"base/c.yaml":                                         "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n",
	})
	return &Request{Action: "install", Apply: "server", Chart: chart, PostRender: &PostRender{Folder: folder}}
}

// As in Fleet: it replaces the objects, and leaves hooks alone.
func TestAKustomizationOfTheChartReplacesTheObjects(t *testing.T) {
	text := "namePrefix: x-\nresources: [more.yaml, ../base]\n"
	// Kustomize ignores the case of fields.
	_, record := rendered(t, withKustomization(t, "overlay", "namePrefix: x-\nResources: [more.yaml, ../base]\n"))
	if !strings.Contains(record.Manifest, "name: x-more\n") || !strings.Contains(record.Manifest, "name: x-a\n") {
		t.Errorf("%s", record.Manifest)
	}
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
		"Resources: [github.com/example/repo]\n",
		"RESOURCES: [../outside]\n",
		"Bases: [github.com/example/repo]\n",
		"Components: [github.com/example/there]\n",
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
		isNamed := errors.As(err, &refused) && (strings.Contains(refused.text, "is no file of the chart") || strings.Contains(refused.text, "helmCharts"))
		if !isNamed || !strings.HasPrefix(refused.text, "kustomize.dir: ") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// Values of objects, and files that look like repositories.
func TestAKustomizationMayHaveURLsInValues(t *testing.T) {
	for _, text := range []string{
		"generatorOptions: {annotations: {docs: 'https://example.com'}}\n",
		"metadata: {name: a, annotations: {docs: 'https://example.com'}}\n",
		"patchesStrategicMerge: ['{apiVersion: v1, kind: ConfigMap, metadata: {name: a, annotations: {docs: \"https://example.com\"}}}']\n",
		"configMapGenerator: [{name: made, files: ['lib.git/icon.yaml']}]\n",
		"resources: ['lib.git/icon.yaml']\n",
	} {
		if _, record := rendered(t, withKustomization(t, "overlay", text)); !strings.Contains(record.Manifest, "name: a\n") {
			t.Errorf("%s: %s", text, record.Manifest)
		}
	}
}

func TestKustomizeRunsNothing(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "git"), []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", folder)
	err := isolated(func() error {
		_, err := exec.LookPath("git")
		return err
	})
	if err == nil {
		t.Error("git is found")
	}
	if _, err := exec.LookPath("git"); err != nil {
		t.Errorf("%v", err)
	}
}

// An error of Kustomize may print a literal, a patch or an object. What is known says what to correct.
func TestErrorsOfAKustomizationShowNoData(t *testing.T) {
	secret := "{apiVersion: v1, kind: Secret, metadata: {name: none}, stringData: {a: geheim}}"
	for text, expected := range map[string]string{
		"secretGenerator: [{name: s, literals: ['password:geheim']}]\n":                              "write key=value",
		"patches: [{patch: '" + secret + "'}]\n":                                                     "no resource matches strategic merge patch",
		"patches: [{patch: '[{op: replace, path: /data/x/y, value: geheim}]', target: {name: a}}]\n": "kustomize.dir: ",
		"patches: [{patch: 'geheim'}]\n":                                                             "kustomize.dir: ",
		"patchesStrategicMerge: ['{stringData: {a: geheim}}']\n":                                     "patchesStrategicMerge[0]",
		"secretGenerator: {a: geheim}\n":                                                             "overlay/kustomization.yaml: Kustomization.secretGenerator",
		"geheim: geheim\nnone: 1\n":                                                                  "overlay/kustomization.yaml: ",
		"namePrefix: [geheim\n":                                                                      "no valid YAML, in line",
	} {
		engine, _ := fake(t, withKustomization(t, "overlay", text))
		_, err := engine.do(context.Background())
		var refused *refusedError
		if !errors.As(err, &refused) || refused.reason != "ObjectsRefused" || !strings.HasPrefix(refused.text, "kustomize.dir: ") {
			t.Errorf("%s: %v", text, err)
			continue
		}
		shown := strings.ReplaceAll(refused.text, `unknown field "geheim"`, "")
		if !strings.Contains(refused.text, expected) || strings.Contains(shown, "geheim") {
			t.Errorf("%s: %s", text, refused.text)
		}
	}
}
