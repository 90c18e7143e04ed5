package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	releasev1 "helm.sh/helm/v4/pkg/release/v1"
	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"
	"sigs.k8s.io/yaml"
)

// object is a rendered object.
type object struct {
	// document is the number of the document that it is from.
	document int
	// id is its API version, kind, namespace and name. A group of objects has each once.
	id     [4]string
	isHook bool
	// json has its keys in order.
	json []byte
}

// readObjects are the object of a document, or those of its list. What is no object is for others to refuse.
func readObjects(text string) []object {
	encoded, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		return nil
	}
	var list struct {
		Kind  string            `json:"kind"`
		Items []json.RawMessage `json:"items"`
	}
	whole, _ := objectOf(encoded)
	isHook, parts := whole.isHook, []json.RawMessage{encoded}
	if json.Unmarshal(encoded, &list) == nil && strings.HasSuffix(list.Kind, "List") && list.Items != nil {
		parts = list.Items
	}
	var objects []object
	for _, part := range parts {
		if one, isObject := objectOf(part); isObject {
			// Helm looks for hooks in documents only.
			one.isHook = isHook
			objects = append(objects, one)
		}
	}
	return objects
}

func objectOf(encoded []byte) (object, bool) {
	decoder := json.NewDecoder(bytes.NewReader(encoded))
	// Integers keep their digits.
	decoder.UseNumber()
	var fields any
	if err := decoder.Decode(&fields); err != nil {
		return object{}, false
	}
	ordered, err := json.Marshal(fields)
	if err != nil {
		return object{}, false
	}
	var head struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Metadata   struct {
			Name        string         `json:"name"`
			Namespace   string         `json:"namespace"`
			Annotations map[string]any `json:"annotations"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(encoded, &head); err != nil || head.Kind == "" {
		return object{}, false
	}
	_, isHook := head.Metadata.Annotations[releasev1.HookAnnotation]
	id := [4]string{head.APIVersion, head.Kind, head.Metadata.Namespace, head.Metadata.Name}
	return object{id: id, isHook: isHook, json: ordered}, true
}

// objectOfNode is an object of Kustomize.
func objectOfNode(node *kyaml.Node) (object, error) {
	value, err := plain(node)
	if err != nil {
		return object{}, err
	}
	encoded, err := json.Marshal(value)
	if err != nil {
		return object{}, err
	}
	one, isObject := objectOf(encoded)
	if !isObject {
		var head struct {
			Kind     string `json:"kind"`
			Metadata struct {
				Name any `json:"name"`
			} `json:"metadata"`
		}
		_ = json.Unmarshal(encoded, &head)
		return object{}, fmt.Errorf("%s %v: kind, name, namespace or annotations are not texts", head.Kind, head.Metadata.Name)
	}
	return one, nil
}

// plain is a value of Kustomize. Its own conversion takes a key that looks like another type for no text.
func plain(node *kyaml.Node) (any, error) {
	switch node.Kind {
	case kyaml.MappingNode:
		fields := map[string]any{}
		for at := 0; at+1 < len(node.Content); at += 2 {
			value, err := plain(node.Content[at+1])
			if err != nil {
				return nil, err
			}
			fields[node.Content[at].Value] = value
		}
		return fields, nil
	case kyaml.SequenceNode:
		items := make([]any, 0, len(node.Content))
		for _, item := range node.Content {
			value, err := plain(item)
			if err != nil {
				return nil, err
			}
			items = append(items, value)
		}
		return items, nil
	case kyaml.AliasNode:
		return plain(node.Alias)
	default:
		// It keeps the quotes of the text that it replaces with a number.
		if node.Style&(kyaml.DoubleQuotedStyle|kyaml.SingleQuotedStyle|kyaml.LiteralStyle|kyaml.FoldedStyle) != 0 {
			return node.Value, nil
		}
		var value any
		err := node.Decode(&value)
		return value, err
	}
}

// placed gives changed objects the documents of those that they were. One with another name or kind has the first document of which no
// object is left.
func placed(before, after []object) []object {
	left := slices.Clone(before)
	take := func(is func(object) bool) (int, bool) {
		at := slices.IndexFunc(left, is)
		if at < 0 {
			return 0, false
		}
		document := left[at].document
		left = slices.Delete(left, at, at+1)
		return document, true
	}
	isPlaced := make([]bool, len(after))
	for at := range after {
		after[at].document, isPlaced[at] = take(func(one object) bool { return one.id == after[at].id })
	}
	for at := range after {
		if !isPlaced[at] {
			after[at].document, _ = take(func(object) bool { return true })
		}
	}
	return after
}

// replaced are documents with other objects in place of those that they had: one document for each.
func replaced(documents []document, before, after []object) ([]document, error) {
	had := map[int][]object{}
	for _, one := range before {
		had[one.document] = append(had[one.document], one)
	}
	has := map[int][]object{}
	for _, one := range after {
		has[one.document] = append(has[one.document], one)
	}
	var all []document
	for at, document := range documents {
		isSame := slices.EqualFunc(had[at], has[at], func(one, other object) bool { return bytes.Equal(one.json, other.json) })
		if isSame {
			all = append(all, document)
			continue
		}
		for _, one := range has[at] {
			text, err := yaml.JSONToYAML(one.json)
			if err != nil {
				return nil, err
			}
			document.Text = string(text)
			all = append(all, document)
		}
	}
	return all, nil
}
