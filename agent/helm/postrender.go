package main

import (
	"bytes"
	"fmt"
	"slices"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/provider"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/kustomize/kyaml/resid"
	"sigs.k8s.io/yaml"
)

// postRenderers is the field with the steps, for messages.
const postRenderers = "lifecycle.postRenderers"

// PostRender is what a user changes in rendered objects with Kustomize, before Helm sorts them and they are marked.
type PostRender struct {
	// Folder is one of the chart with a kustomization, which comes first; empty for none.
	Folder string `json:"folder,omitempty"`
	// IsContent is whether the chart is made of the files of a Bundle: the folder is one of these, and the chart may have manifests.
	IsContent bool `json:"isContent,omitempty"`
	// Renderers are in the order in which they change the objects.
	Renderers []Renderer `json:"renderers"`
	// Strategy is combined, separate or nohooks: which objects are changed together.
	Strategy string `json:"strategy"`
}

// Renderer is one step: patches, and then images.
type Renderer struct {
	Patches []Patch       `json:"patches"`
	Images  []types.Image `json:"images"`
}

// Patch is one strategic merge patch or JSON Patch. Without a target, it names its object.
type Patch struct {
	// Field names it in messages.
	Field  string       `json:"field"`
	Patch  string       `json:"patch"`
	Target *PatchTarget `json:"target,omitempty"`
}

// PatchTarget is what an object that is patched fulfils.
type PatchTarget struct {
	Group              string `json:"group"`
	Version            string `json:"version"`
	Kind               string `json:"kind"`
	Name               string `json:"name"`
	Namespace          string `json:"namespace"`
	LabelSelector      string `json:"labelSelector"`
	AnnotationSelector string `json:"annotationSelector"`
}

func (t *PatchTarget) selector() *types.Selector {
	if t == nil {
		return nil
	}
	return &types.Selector{
		ResId: resid.ResId{
			Gvk:       resid.Gvk{Group: t.Group, Version: t.Version, Kind: t.Kind},
			Name:      t.Name,
			Namespace: t.Namespace,
		},
		LabelSelector:      t.LabelSelector,
		AnnotationSelector: t.AnnotationSelector,
	}
}

// apply changes the documents, and returns the fields of patches whose target selects none.
//
// Kustomize gets objects as JSON, since it takes some YAML for other values than Kubernetes does. A document that it does not change keeps
// its text.
func (p *PostRender) apply(documents []document) (changed []document, unmatched []string, err error) {
	var objects []object
	for at, document := range documents {
		for _, read := range readObjects(document.Text) {
			read.document = at
			objects = append(objects, read)
		}
	}
	matched := map[string]bool{}
	var after []object
	for _, group := range p.groups(objects) {
		if group, err = p.applyTo(group, matched); err != nil {
			return nil, nil, err
		}
		after = append(after, group...)
	}
	if p.Strategy == "nohooks" {
		after = append(after, chosen(objects, true)...)
	}
	if documents, err = replaced(documents, objects, after); err != nil {
		return nil, nil, err
	}
	for _, renderer := range p.Renderers {
		for _, patch := range renderer.Patches {
			if !matched[patch.Field] {
				unmatched = append(unmatched, patch.Field)
			}
		}
	}
	return documents, unmatched, nil
}

// groups are the objects that are changed together.
func (p *PostRender) groups(objects []object) [][]object {
	isEmpty := func(group []object) bool { return len(group) == 0 }
	switch p.Strategy {
	case "nohooks":
		return slices.DeleteFunc([][]object{chosen(objects, false)}, isEmpty)
	case "separate":
		return slices.DeleteFunc([][]object{chosen(objects, true), chosen(objects, false)}, isEmpty)
	default:
		return [][]object{objects}
	}
}

// chosen are the hooks, or the others.
func chosen(objects []object, isHook bool) []object {
	return slices.DeleteFunc(slices.Clone(objects), func(one object) bool { return one.isHook != isHook })
}

func (p *PostRender) applyTo(objects []object, matched map[string]bool) ([]object, error) {
	for _, renderer := range p.Renderers {
		var err error
		if objects, err = renderer.run(objects, matched); err != nil {
			return nil, err
		}
	}
	return objects, nil
}

// run is one run of Kustomize. There are no files but those of the run.
func (r *Renderer) run(objects []object, matched map[string]bool) ([]object, error) {
	kustomization := types.Kustomization{Images: r.Images, Resources: []string{"objects.yaml"}}
	for _, patch := range r.Patches {
		kustomization.Patches = append(kustomization.Patches, types.Patch{Patch: patch.Patch, Target: patch.Target.selector()})
	}
	text, err := yaml.Marshal(kustomization)
	if err != nil {
		return nil, err
	}
	var all bytes.Buffer
	for _, object := range objects {
		fmt.Fprintf(&all, "---\n%s\n", object.json)
	}
	files := filesys.MakeFsInMemory()
	for name, content := range map[string][]byte{"kustomization.yaml": text, "objects.yaml": all.Bytes()} {
		if err := files.WriteFile(name, content); err != nil {
			return nil, err
		}
	}
	before, err := resmap.NewFactory(provider.NewDefaultDepProvider().GetResourceFactory()).NewResMapFromBytes(all.Bytes())
	if err != nil {
		return nil, refusedByKustomize(postRenderers, err)
	}
	after, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(files, ".")
	if err != nil {
		return nil, refusedByKustomize(postRenderers, err)
	}
	for _, patch := range r.Patches {
		if patch.selects(before) || patch.selects(after) {
			matched[patch.Field] = true
		}
	}
	var changed []object
	for _, resource := range after.Resources() {
		one, err := objectOfNode(resource.YNode())
		if err != nil {
			return nil, refusedByKustomize(postRenderers, err)
		}
		changed = append(changed, one)
	}
	return placed(objects, changed), nil
}

// selects is whether a patch has an object. One without a target has one, or Kustomize has failed.
func (p *Patch) selects(objects resmap.ResMap) bool {
	if p.Target == nil {
		return true
	}
	selected, err := objects.Select(*p.Target.selector())
	return err == nil && len(selected) > 0
}
