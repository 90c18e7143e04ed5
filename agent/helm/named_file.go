package main

import (
	"fmt"
	"path"
	"regexp"
	"strings"

	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// repository is what Kustomize takes for a repository, whether there is such a folder or not.
var repository = regexp.MustCompile(`(?i)^(git::|[a-z0-9+.-]+://|[^/@]+@|github\.com[/:])|\.git(/|$|\?)|[?&](ref|version)=|_git/`)

// namedFile is a file or a folder that a kustomization names.
type namedFile struct {
	field string
	text  string
	// mayBeInline is whether the text may be the content itself.
	mayBeInline bool
	// isFolder is whether it cannot be a file.
	isFolder bool
}

// namedFiles are all that a kustomization names. Other fields have names and values of objects.
func namedFiles(kustomization *types.Kustomization) []namedFile {
	var files []namedFile
	add := func(field string, texts ...string) {
		for _, text := range texts {
			files = append(files, namedFile{field: field, text: text, isFolder: field == "components"})
		}
	}
	addInline := func(field string, texts ...string) {
		for at, text := range texts {
			files = append(files, namedFile{field: fmt.Sprintf("%s[%d]", field, at), text: text, mayBeInline: true})
		}
	}
	add("resources", kustomization.Resources...)
	add("components", kustomization.Components...)
	add("crds", kustomization.Crds...)
	add("configurations", kustomization.Configurations...)
	addInline("generators", kustomization.Generators...)
	addInline("transformers", kustomization.Transformers...)
	addInline("validators", kustomization.Validators...)
	for at, patch := range kustomization.PatchesStrategicMerge {
		field := fmt.Sprintf("patchesStrategicMerge[%d]", at)
		files = append(files, namedFile{field: field, text: string(patch), mayBeInline: true})
	}
	for _, patch := range kustomization.PatchesJson6902 {
		add("patchesJson6902.path", patch.Path)
	}
	for _, patch := range kustomization.Patches {
		add("patches.path", patch.Path)
	}
	for _, replacement := range kustomization.Replacements {
		add("replacements.path", replacement.Path)
	}
	add("openapi.path", kustomization.OpenAPI["path"])
	for _, generator := range kustomization.ConfigMapGenerator {
		addSources(add, "configMapGenerator", generator.KvPairSources)
	}
	for _, generator := range kustomization.SecretGenerator {
		addSources(add, "secretGenerator", generator.KvPairSources)
	}
	return files
}

func addSources(add func(string, ...string), field string, sources types.KvPairSources) {
	for _, source := range sources.FileSources {
		// The key comes first, if there is one.
		if _, file, hasKey := strings.Cut(source, "="); hasKey {
			source = file
		}
		add(field+".files", source)
	}
	add(field+".envs", sources.EnvSources...)
}

// isInline is whether there is no file, or an object in place of one. Kustomize loads what is none, so it has to be a file.
func (f namedFile) isInline() bool {
	return f.text == "" || f.mayBeInline && len(readObjects(f.text)) > 0
}

// isIn is whether Kustomize reads it from these files.
func (f namedFile) isIn(files filesys.FileSystem, folder string) bool {
	named := path.Join(folder, f.text)
	if strings.Contains(f.text, "://") || !files.Exists(named) {
		return false
	}
	return !repository.MatchString(f.text) || !f.isFolder && !files.IsDir(named)
}

// String is for messages. What may be inline may be the data of a Secret, and a URL may have a password.
func (f namedFile) String() string {
	if f.mayBeInline || strings.Contains(f.text, "@") || strings.Contains(f.text, "?") {
		return f.field + " has a text"
	}
	return fmt.Sprintf("%s has %q", f.field, f.text)
}
