package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart"
	"helm.sh/helm/v4/pkg/chart/loader"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	chartloader "helm.sh/helm/v4/pkg/chart/v2/loader"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
)

// load reads the archive of a chart and merges its values.
func load(request *ChartRequest) (*chartv2.Chart, map[string]any, error) {
	values := map[string]any{}
	for _, text := range request.Values {
		more, err := chartloader.LoadValues(strings.NewReader(text))
		if err != nil {
			return nil, nil, fmt.Errorf("failed to parse the values: %w", err)
		}
		values = chartloader.MergeMaps(values, more)
	}
	read, err := loader.Load(request.Archive)
	if err != nil {
		return nil, nil, invalid("%v", err)
	}
	loaded, isKnown := read.(*chartv2.Chart)
	if !isKnown {
		return nil, nil, invalid("invalid chart apiVersion")
	}
	if kind := loaded.Metadata.Type; kind != "" && kind != "application" {
		return nil, nil, invalid("%s charts are not installable", kind)
	}
	var dependencies []chart.Dependency
	for _, dependency := range loaded.Metadata.Dependencies {
		dependencies = append(dependencies, dependency)
	}
	if err := action.CheckDependencies(loaded, dependencies); err != nil {
		return nil, nil, invalid("an error occurred while checking for chart dependencies: %v", err)
	}
	if request.Annotations != nil {
		request.Annotations.write(loaded.Metadata)
	}
	return loaded, values, nil
}

// write replaces all that the chart itself has with the prefixes.
func (a *Annotations) write(chart *chartv2.Metadata) {
	written := map[string]string{}
	for key, value := range chart.Annotations {
		if !slices.ContainsFunc(a.Prefixes, func(prefix string) bool { return strings.HasPrefix(key, prefix) }) {
			written[key] = value
		}
	}
	maps.Copy(written, a.Values)
	if written[a.Version] == chart.Version {
		delete(written, a.Version)
	}
	chart.Annotations = written
}

// crdTexts are the files in the folders crds of a chart and its subcharts.
func crdTexts(loaded *chartv2.Chart) map[string]bool {
	texts := map[string]bool{}
	for _, crd := range loaded.CRDObjects() {
		texts[string(crd.File.Data)] = true
	}
	return texts
}

// printCRDs prints the files in the folders crds of a chart and of its enabled subcharts. No template is rendered, so none can fail.
func printCRDs(request *Request) (string, error) {
	loaded, values, err := load(request.Chart)
	if err != nil {
		return "", err
	}
	// Helm checks it when it renders. A chart for other clusters changes nothing on this one.
	required := loaded.Metadata.KubeVersion
	if required != "" && !chartutil.IsCompatibleRange(required, request.KubeVersion) {
		text := "chart requires kubeVersion: %s which is incompatible with Kubernetes %s"
		return "", fmt.Errorf(text, required, request.KubeVersion)
	}
	if err := chartutil.ProcessDependencies(loaded, values); err != nil {
		return "", invalid("chart dependencies processing failed: %v", err)
	}
	var printed strings.Builder
	for _, crd := range loaded.CRDObjects() {
		fmt.Fprintf(&printed, "---\n# Source: %s\n%s\n", crd.Filename, crd.File.Data)
	}
	return printed.String(), nil
}

func invalid(format string, values ...any) error {
	return &refusedError{text: fmt.Sprintf(format, values...), reason: "ChartInvalid"}
}
