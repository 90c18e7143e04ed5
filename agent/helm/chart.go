package main

import (
	"fmt"
	"strings"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart"
	"helm.sh/helm/v4/pkg/chart/loader"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	valuesloader "helm.sh/helm/v4/pkg/chart/v2/loader"
)

// load reads the archive of a chart and merges its values.
func load(request *ChartRequest) (chart.Charter, map[string]any, error) {
	values := map[string]any{}
	for _, text := range request.Values {
		more, err := valuesloader.LoadValues(strings.NewReader(text))
		if err != nil {
			return nil, nil, fmt.Errorf("failed to parse the values: %w", err)
		}
		values = valuesloader.MergeMaps(values, more)
	}
	loaded, err := loader.Load(request.Archive)
	if err != nil {
		return nil, nil, invalid("%v", err)
	}
	accessor, err := chart.NewAccessor(loaded)
	if err != nil {
		return nil, nil, invalid("%v", err)
	}
	if kind := accessor.MetadataAsMap()["Type"]; kind != "" && kind != "application" {
		return nil, nil, invalid("%s charts are not installable", kind)
	}
	if dependencies := accessor.MetaDependencies(); len(dependencies) > 0 {
		if err := action.CheckDependencies(loaded, dependencies); err != nil {
			return nil, nil, invalid("an error occurred while checking for chart dependencies: %v", err)
		}
	}
	return loaded, values, nil
}

// crdTexts are the files in the folders crds of a chart and its subcharts.
func crdTexts(loaded chart.Charter) map[string]bool {
	texts := map[string]bool{}
	if chart, isKnown := loaded.(*chartv2.Chart); isKnown {
		for _, crd := range chart.CRDObjects() {
			texts[string(crd.File.Data)] = true
		}
	}
	return texts
}

func invalid(format string, values ...any) error {
	return &refusedError{text: fmt.Sprintf(format, values...), reason: "ChartInvalid"}
}
