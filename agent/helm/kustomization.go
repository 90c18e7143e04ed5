package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path"
	"regexp"
	"slices"

	"helm.sh/helm/v4/pkg/chart/common"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// manifests is the file that a kustomization gets the rendered objects in, as in Fleet.
const manifests = "fleet-manifests.yaml"

// chartFolder is what Fleet's paths start with: it keeps a chart in a folder with its checksum.
var chartFolder = regexp.MustCompile(`^\.chart/[^/]+/`)

// kustomizedChart are the documents after the kustomization in a folder of the chart. Fleet does nothing if there is none in the folder: here
// that is an error.
func kustomizedChart(chart *chartv2.Chart, folder string, documents []document) ([]document, error) {
	folder = path.Clean(chartFolder.ReplaceAllString(folder, ""))
	isThere := func(file *common.File) bool {
		return path.Dir(file.Name) == folder && slices.Contains(konfig.RecognizedKustomizationFileNames(), path.Base(file.Name))
	}
	if !slices.ContainsFunc(chart.Raw, isThere) {
		return nil, kustomizationError("the chart has no kustomization.yaml in the folder %q", folder)
	}
	return kustomized(chart, chart.Raw, folder, documents)
}

// kustomized are the documents after the kustomization in a folder of these files, which has them as its first resource. It replaces all of
// them but hooks.
func kustomized(chart *chartv2.Chart, from []*common.File, folder string, documents []document) ([]document, error) {
	files := filesys.MakeFsInMemory()
	for _, file := range from {
		if err := files.WriteFile(file.Name, file.Data); err != nil {
			return nil, kustomizationError("%s: Kustomize cannot have this file: %v", file.Name, err)
		}
	}
	var all bytes.Buffer
	var rest []document
	for _, document := range documents {
		objects := readObjects(document.Text)
		if len(objects) == 0 || objects[0].isHook {
			rest = append(rest, document)
			continue
		}
		for _, object := range objects {
			fmt.Fprintf(&all, "---\n%s\n", object.json)
		}
	}
	if err := addManifests(files, folder, all.Bytes()); err != nil {
		return nil, err
	}
	if err := checkFolder(files, folder, map[string]bool{}); err != nil {
		return nil, err
	}
	result, err := build(files, folder)
	if err != nil {
		return nil, refusedByKustomize(kustomizeDir, err)
	}
	for _, resource := range result.Resources() {
		object, err := objectOfNode(resource.YNode())
		if err != nil {
			return nil, err
		}
		text, err := yaml.JSONToYAML(object.json)
		if err != nil {
			return nil, err
		}
		rest = append(rest, document{File: kustomizedFile(chart), Text: string(text)})
	}
	return rest, nil
}

// build runs Kustomize. What a kustomization names is in memory, or refused: that it can neither fetch nor run anything is for what it may
// learn to.
func build(files filesys.FileSystem, folder string) (result resmap.ResMap, err error) {
	defer func() {
		// Kustomize panics when a patch gives an object the name of another one.
		if reason := recover(); reason != nil {
			err = fmt.Errorf("%v", reason)
		}
	}()
	err = isolated(func() error {
		result, err = krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(files, folder)
		return err
	})
	return result, err
}

// isolated runs an action without HTTP and without programs, such as git.
func isolated(action func() error) error {
	transport, programs := http.DefaultTransport, os.Getenv("PATH")
	defer func() {
		http.DefaultTransport = transport
		_ = os.Setenv("PATH", programs)
	}()
	http.DefaultTransport = noTransport{}
	if err := os.Setenv("PATH", ""); err != nil {
		return err
	}
	return action()
}

// kustomizedFile is what the objects of a kustomization are from.
func kustomizedFile(chart *chartv2.Chart) string {
	return path.Join(chart.ChartFullPath(), "templates/kustomization.yaml")
}

// addManifests adds the rendered objects to the kustomization in a folder, as its first resource. Without any, it stays as it is.
func addManifests(files filesys.FileSystem, folder string, objects []byte) error {
	if err := files.WriteFile(path.Join(folder, manifests), objects); err != nil || len(objects) == 0 {
		return err
	}
	name, kustomization, err := kustomizationIn(files, folder)
	if err != nil || name == "" {
		return err
	}
	if slices.Contains(kustomization.Resources, manifests) {
		return nil
	}
	kustomization.Resources = append([]string{manifests}, kustomization.Resources...)
	text, err := yaml.Marshal(kustomization)
	if err != nil {
		return err
	}
	return files.WriteFile(name, text)
}

// kustomizationIn is the kustomization in a folder, as Kustomize itself reads it; it has no name if there is none.
func kustomizationIn(files filesys.FileSystem, folder string) (name string, kustomization *types.Kustomization, err error) {
	for _, file := range konfig.RecognizedKustomizationFileNames() {
		name := path.Join(folder, file)
		if !files.Exists(name) {
			continue
		}
		text, err := files.ReadFile(name)
		if err != nil {
			return "", nil, refusedByKustomize(kustomizeDir+": "+name, err)
		}
		kustomization := &types.Kustomization{}
		if err := kustomization.Unmarshal(text); err != nil {
			return "", nil, refusedByKustomize(kustomizeDir+": "+name, err)
		}
		kustomization.FixKustomization()
		return name, kustomization, nil
	}
	return "", nil, nil
}

// checkFolder refuses what the kustomization in a folder, or one that it names, would fetch or clone: all of it has to be among the files.
func checkFolder(files filesys.FileSystem, folder string, isChecked map[string]bool) error {
	if isChecked[folder] {
		return nil
	}
	isChecked[folder] = true
	name, kustomization, err := kustomizationIn(files, folder)
	if err != nil || name == "" {
		return err
	}
	if len(kustomization.HelmCharts) > 0 {
		return kustomizationError("%s: helmCharts cannot be used, since a kustomization fetches nothing; name the chart in helm", name)
	}
	for _, named := range namedFiles(kustomization) {
		if named.isInline() {
			continue
		}
		if !named.isIn(files, folder) {
			return kustomizationError("%s: %s, which is no file of the chart or the Bundle; only these are read", name, named)
		}
		if at := path.Join(folder, named.text); files.IsDir(at) {
			if err := checkFolder(files, at, isChecked); err != nil {
				return err
			}
		}
	}
	return nil
}

// kustomizeDir is the field with the folder of a kustomization, for messages.
const kustomizeDir = "kustomize.dir"

func kustomizationError(format string, arguments ...any) error {
	return &refusedError{text: kustomizeDir + ": " + fmt.Sprintf(format, arguments...), reason: "ObjectsRefused"}
}

type noTransport struct{}

// RoundTrip sends nothing.
func (noTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	return nil, errors.New("a kustomization must not fetch " + request.URL.Redacted())
}
