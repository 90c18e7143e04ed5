package main

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	templates "helm.sh/helm/v4/pkg/engine"
	releaseutil "helm.sh/helm/v4/pkg/release/v1/util"
)

// rendering is how objects are changed between Helm's rendering and everything that Helm does with them, such as finding hooks. Helm's own
// step for that changes values: it reads YAML in another way than Kubernetes does, and writes all of it again.
//
//	chart ─► stand-in, with one template for each template ─► Helm ─► template function: renders the chart once, changes the files
//
// The release gets the chart itself.
type rendering struct {
	chart *chartv2.Chart
	// content are files beside the chart, for a kustomization.
	content []*common.File
	values  map[string]any
	request *Request
	helm    *action.Configuration
	// files are what the templates render to, or err is why they do not. Neither is known before the first call.
	isRendered bool
	files      map[string]string
	err        error
	unmatched  []string
}

// function is the name of the template function.
const function = "helmopsFile"

// newRendering prepares a chart with values: it removes subcharts that they disable.
func newRendering(helm *action.Configuration, request *Request, chart *chartv2.Chart, values map[string]any) (*rendering, error) {
	if err := chartutil.ProcessDependencies(chart, values); err != nil {
		return nil, invalid("chart dependencies processing failed: %v", err)
	}
	rendering := &rendering{chart: chart, values: values, request: request, helm: helm}
	if request.PostRender.IsContent {
		rendering.content = takeContent(chart)
	}
	return rendering, nil
}

// standIn is the chart that Helm gets: no values and no subcharts, since templates of the chart get those of the chart.
func (r *rendering) standIn() *chartv2.Chart {
	metadata := *r.chart.Metadata
	metadata.Dependencies = nil
	standIn := &chartv2.Chart{Metadata: &metadata}
	r.addTemplates(standIn, r.chart)
	// Also for what is in no template, and to render a chart without any: its values are checked then, and so are the patches.
	r.addTemplate(standIn, kustomizedFile(r.chart))
	if r.request.PostRender.IsContent {
		for _, file := range r.chart.Files {
			if strings.HasPrefix(file.Name, rawFolder) {
				r.addTemplate(standIn, rawFile(r.chart, file.Name))
			}
		}
	}
	for at, crd := range r.chart.CRDObjects() {
		file := &common.File{Name: fmt.Sprintf("crds/%d/%s", at, path.Base(crd.Filename)), Data: crd.File.Data}
		standIn.Files = append(standIn.Files, file)
	}
	if r.helm.CustomTemplateFuncs == nil {
		r.helm.CustomTemplateFuncs = map[string]any{}
	}
	r.helm.CustomTemplateFuncs[function] = r.file
	return standIn
}

func (r *rendering) addTemplates(standIn, chart *chartv2.Chart) {
	for _, template := range chart.Templates {
		if template != nil && !strings.HasPrefix(path.Base(template.Name), "_") {
			r.addTemplate(standIn, path.Join(chart.ChartFullPath(), template.Name))
		}
	}
	for _, dependency := range chart.Dependencies() {
		r.addTemplates(standIn, dependency)
	}
}

func (r *rendering) addTemplate(standIn *chartv2.Chart, name string) {
	inChart := strings.TrimPrefix(name, r.chart.ChartFullPath()+"/")
	isSame := func(template *common.File) bool { return template.Name == inChart }
	if !slices.ContainsFunc(standIn.Templates, isSame) {
		data := fmt.Appendf(nil, "{{ %s . %q }}", function, name)
		standIn.Templates = append(standIn.Templates, &common.File{Name: inChart, Data: data})
	}
}

// file is what a template of the chart renders to. The first call renders all.
func (r *rendering) file(scope map[string]any, name string) (string, error) {
	if !r.isRendered {
		r.isRendered = true
		r.files, r.err = r.render(scope)
	}
	return r.files[name], r.err
}

func (r *rendering) render(scope map[string]any) (files map[string]string, err error) {
	defer func() {
		// Kustomize panics when a patch gives an object the name of another one.
		if reason := recover(); reason != nil {
			err = refusedByKustomize(postRenderers, fmt.Errorf("%v", reason))
		}
	}()
	release, isRelease := scope["Release"].(map[string]any)
	capabilities, isKnown := scope["Capabilities"].(*common.Capabilities)
	if !isRelease || !isKnown {
		return nil, fmt.Errorf("unexpected scope of templates: %T, %T", scope["Release"], scope["Capabilities"])
	}
	options := common.ReleaseOptions{}
	options.Name, _ = release["Name"].(string)
	options.Namespace, _ = release["Namespace"].(string)
	options.Revision, _ = release["Revision"].(int)
	options.IsUpgrade, _ = release["IsUpgrade"].(bool)
	options.IsInstall, _ = release["IsInstall"].(bool)
	values, err := util.ToRenderValuesWithSchemaValidation(r.chart, r.values, options, capabilities, r.request.Chart.SkipSchema)
	if err != nil {
		return nil, err
	}
	var renderer templates.Engine
	if r.helm.RESTClientGetter != nil {
		config, err := r.helm.RESTClientGetter.ToRESTConfig()
		if err != nil {
			return nil, err
		}
		renderer = templates.New(config)
	}
	renderer.EnableDNS = r.request.Chart.EnableDNS
	files, err = renderer.Render(r.chart, values)
	if err != nil {
		return nil, err
	}
	return r.changed(files)
}

// changed are the files after the post-renderers. Notes are no objects.
func (r *rendering) changed(files map[string]string) (map[string]string, error) {
	var documents []document
	result := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if strings.HasSuffix(name, "NOTES.txt") {
			result[name] = files[name]
			continue
		}
		texts := releaseutil.SplitManifests(files[name])
		for _, number := range slices.SortedFunc(maps.Keys(texts), byNumber) {
			documents = append(documents, document{File: name, Text: texts[number]})
		}
	}
	documents, err := r.kustomized(documents)
	if err != nil {
		return nil, err
	}
	documents, unmatched, err := r.request.PostRender.apply(documents)
	if err != nil {
		return nil, err
	}
	r.unmatched = unmatched
	for _, document := range documents {
		text := result[document.File]
		if text != "" && !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		result[document.File] = text + "---\n" + document.Text
	}
	return result, nil
}

// kustomized are the documents before the post-renderers.
func (r *rendering) kustomized(documents []document) ([]document, error) {
	folder := r.request.PostRender.Folder
	switch {
	case r.request.PostRender.IsContent:
		return r.ofContent(documents)
	case folder != "":
		return kustomizedChart(r.chart, folder, documents)
	default:
		return documents, nil
	}
}

// byNumber is the order of the documents of a file: Helm counts in their names.
func byNumber(one, other string) int {
	return cmp.Or(cmp.Compare(len(one), len(other)), cmp.Compare(one, other))
}
