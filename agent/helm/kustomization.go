package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strings"

	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// manifests is the file that a kustomization gets the rendered objects in, as in Fleet.
const manifests = "fleet-manifests.yaml"

// chartFolder is what Fleet's paths start with: it keeps a chart in a folder with its checksum.
var chartFolder = regexp.MustCompile(`^\.chart/[^/]+/`)

// listsOfFiles are the fields of a kustomization whose entries are files or folders, or repositories that it would clone; those of the
// second list may be objects as well.
var (
	listsOfFiles         = []string{"resources", "bases", "components", "crds", "configurations"}
	listsOfFilesOrObject = []string{"generators", "transformers", "validators"}
)

// repository is what Kustomize takes for a repository, whether there is such a file or not.
var repository = regexp.MustCompile(`(?i)^(git::|[a-z0-9+.-]+://|[^/@]+@|github\.com[/:])|\.git(/|$|\?)|[?&](ref|version)=|_git/`)

// kustomized are the documents after the kustomization in a folder of the chart, which has them as its first resource. It replaces all
// of them but hooks, as in Fleet, which does nothing if there is no kustomization in the folder: here that is an error.
func kustomized(chart *chartv2.Chart, folder string, documents []document) ([]document, error) {
	folder = path.Clean(chartFolder.ReplaceAllString(folder, ""))
	files, isThere, err := filesOf(chart, folder)
	if err != nil {
		return nil, err
	}
	if !isThere {
		return nil, kustomizationError(fmt.Errorf("the chart has no kustomization.yaml in the folder %q", folder))
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
	if err := files.WriteFile(path.Join(folder, manifests), all.Bytes()); err != nil {
		return nil, err
	}
	// What a kustomization names is in memory, or refused: this is for what Kustomize may learn to fetch.
	transport := http.DefaultTransport
	http.DefaultTransport = noTransport{}
	result, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(files, folder)
	http.DefaultTransport = transport
	if err != nil {
		return nil, kustomizationError(err)
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

// kustomizedFile is what the objects of a kustomization are from.
func kustomizedFile(chart *chartv2.Chart) string {
	return path.Join(chart.ChartFullPath(), "templates/kustomization.yaml")
}

// filesOf are the files of the chart in memory, and whether the folder has a kustomization.
func filesOf(chart *chartv2.Chart, folder string) (filesys.FileSystem, bool, error) {
	files := filesys.MakeFsInMemory()
	for _, file := range chart.Raw {
		if err := files.WriteFile(file.Name, file.Data); err != nil {
			return nil, false, err
		}
	}
	isThere := false
	for _, file := range chart.Raw {
		if !slices.Contains(konfig.RecognizedKustomizationFileNames(), path.Base(file.Name)) {
			continue
		}
		fields := map[string]any{}
		if err := yaml.Unmarshal(file.Data, &fields); err != nil {
			return nil, false, kustomizationError(fmt.Errorf("%s: %w", file.Name, err))
		}
		isFirst := path.Dir(file.Name) == folder
		if err := checkFiles(files, file.Name, fields, isFirst); err != nil {
			return nil, false, err
		}
		if !isFirst {
			continue
		}
		isThere = true
		resources, _ := fields["resources"].([]any)
		if !slices.Contains(resources, any(manifests)) {
			fields["resources"] = append([]any{manifests}, resources...)
		}
		text, err := yaml.Marshal(fields)
		if err != nil {
			return nil, false, err
		}
		if err := files.WriteFile(file.Name, text); err != nil {
			return nil, false, err
		}
	}
	return files, isThere, nil
}

// checkFiles refuses what is not in the chart: Kustomize would fetch or clone it.
func checkFiles(files filesys.FileSystem, name string, fields map[string]any, hasManifests bool) error {
	for _, field := range slices.Concat(listsOfFiles, listsOfFilesOrObject) {
		entries, _ := fields[field].([]any)
		for _, entry := range entries {
			text, isText := entry.(string)
			isObject := slices.Contains(listsOfFilesOrObject, field) && len(readObjects(text)) > 0
			isKnown := hasManifests && text == manifests
			if !isText || isObject || isKnown {
				continue
			}
			if repository.MatchString(text) || !files.Exists(path.Join(path.Dir(name), text)) {
				return kustomizationError(fmt.Errorf("%s: %s has %q, which is no file of the chart; only files of the chart are read", name, field, text))
			}
		}
	}
	if remote := remoteIn(fields); remote != "" {
		return kustomizationError(fmt.Errorf("%s: %q is not in the chart; only files of the chart are read", name, remote))
	}
	return nil
}

// remoteIn is a text that names a file of a server, where a file is named. Inline patches may have any texts.
func remoteIn(value any) string {
	switch value := value.(type) {
	case string:
		if !strings.Contains(value, "\n") && strings.Contains(value, "://") {
			return value
		}
	case []any:
		for _, item := range value {
			if remote := remoteIn(item); remote != "" {
				return remote
			}
		}
	case map[string]any:
		for key, item := range value {
			// Values of objects, not files.
			if slices.Contains([]string{"literals", "commonAnnotations", "commonLabels", "labels", "patch", "options", "images"}, key) {
				continue
			}
			if remote := remoteIn(item); remote != "" {
				return remote
			}
		}
	}
	return ""
}

func kustomizationError(err error) error {
	return &refusedError{text: fmt.Sprintf("kustomize.dir: %v", err), reason: "ObjectsRefused"}
}

type noTransport struct{}

// RoundTrip sends nothing.
func (noTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	return nil, errors.New("a kustomization must not fetch " + request.URL.Redacted())
}
