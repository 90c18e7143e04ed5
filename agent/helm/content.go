package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// Folders of a chart that is made of the files of a Bundle.
const (
	// rawFolder has manifests, which are no templates.
	rawFolder = "raw-yaml/"
	// contentFolder has the files that a kustomization reads. They are no files of the chart.
	contentFolder = ".helmops-content/"
)

// takeContent removes the files from a chart that only a kustomization reads, and returns them.
func takeContent(chart *chartv2.Chart) []*common.File {
	var content []*common.File
	isContent := func(file *common.File) bool { return strings.HasPrefix(file.Name, contentFolder) }
	for _, file := range chart.Raw {
		if isContent(file) {
			content = append(content, &common.File{Name: strings.TrimPrefix(file.Name, contentFolder), Data: file.Data})
		}
	}
	chart.Raw = slices.DeleteFunc(chart.Raw, isContent)
	chart.Files = slices.DeleteFunc(chart.Files, isContent)
	return content
}

// ofContent are the objects of a Bundle with files: what its kustomization makes of the rendered ones, if it has one, and its manifests.
func (r *rendering) ofContent(documents []document) ([]document, error) {
	if len(r.content) > 0 {
		folder := path.Join(".", strings.TrimPrefix(path.Clean(r.request.PostRender.Folder), "/"))
		kustomization := path.Join(folder, "kustomization.yaml")
		if !slices.ContainsFunc(r.content, func(file *common.File) bool { return file.Name == kustomization }) {
			return nil, kustomizationError("the Bundle has no kustomization.yaml in the folder %q", folder)
		}
		var err error
		if documents, err = kustomized(r.chart, r.content, folder, documents); err != nil {
			return nil, err
		}
	}
	manifests, err := rawDocuments(r.chart)
	return append(documents, manifests...), err
}

// rawFile is what the objects of a file in rawFolder are from. Helm ignores files whose names start with an underscore.
func rawFile(chart *chartv2.Chart, name string) string {
	folder, file := path.Split(name)
	return path.Join(chart.ChartFullPath(), folder, strings.TrimLeft(file, "_"))
}

// rawDocuments are the objects of the files in rawFolder. As in Fleet, a file with something that has no kind is none of objects, and no
// object has no API version.
func rawDocuments(chart *chartv2.Chart) ([]document, error) {
	var documents []document
	for _, file := range chart.Files {
		if !strings.HasPrefix(file.Name, rawFolder) {
			continue
		}
		objects, err := rawObjects(file.Data)
		if runtime.IsMissingKind(err) {
			continue
		}
		if err != nil {
			return nil, refusedManifest(file.Name, err)
		}
		for _, object := range objects {
			if object.GetAPIVersion() == "" || object.GetKind() == "" {
				continue
			}
			text, err := yaml.Marshal(object)
			if err != nil {
				return nil, refusedManifest(file.Name, err)
			}
			documents = append(documents, document{File: rawFile(chart, file.Name), Text: string(text)})
		}
	}
	return documents, nil
}

func refusedManifest(name string, err error) error {
	return &refusedError{text: fmt.Sprintf("%s: %v", strings.TrimPrefix(name, rawFolder), err), reason: "ObjectsRefused"}
}

// rawObjects are the objects of a file, as Fleet reads them: those of lists one by one.
func rawObjects(data []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		text, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		encoded, err := utilyaml.ToJSON(text)
		if err != nil {
			return nil, err
		}
		fields := map[string]any{}
		if err := json.Unmarshal(encoded, &fields); err != nil {
			return nil, err
		}
		if len(fields) == 0 {
			continue
		}
		decoded, _, err := unstructured.UnstructuredJSONScheme.Decode(encoded, nil, nil)
		if err != nil {
			return nil, err
		}
		switch decoded := decoded.(type) {
		case *unstructured.Unstructured:
			objects = append(objects, decoded)
		case *unstructured.UnstructuredList:
			for at := range decoded.Items {
				objects = append(objects, &decoded.Items[at])
			}
		}
	}
}
