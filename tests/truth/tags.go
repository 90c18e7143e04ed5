package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"

	"github.com/Masterminds/semver/v3"
	"helm.sh/helm/v4/pkg/registry"
	"oras.land/oras-go/v2/registry/remote/auth"
)

// Fewer than for an index: the rules are the same but for the shape of a tag.
const randomTagQuestions = 2200

// tagsTables: tags, what is requested, what Helm chooses from a registry that lists them, and what Fleet chooses.
//
// The two differ: Helm reads "_" as "+" and passes over whatever is then no strict semantic version; Fleet takes the tags
// as they are and reads them loosely, and refuses an empty request, for which Helm takes the latest release.
func tagsTables() []table {
	r := newRandom(6)
	questions := pickedTagQuestions()
	for range randomTagQuestions {
		tags := r.versionList(r.listedTag)
		questions = append(questions, question{tags, r.request(tags)})
	}
	what := "Client.Tags and GetTagMatchingVersionOrConstraint of " + release("helm.sh/helm/v4") +
		": tags, request, choice (with + for _), choice by Fleet's rule (the tag)"
	registry := newListing()
	return []table{choices("tags.tsv", what, questions, func(q question) ([]string, bool) {
		answers := r.answers(q, registry.choice)
		return []string{column(answers), fleetsTag(q.versions, q.request).json()}, len(answers) > 1
	})}
}

// listing is a registry without a network, whose every repository has the same tags.
type listing struct {
	tags   []string
	client *registry.Client
}

func newListing() *listing {
	l := &listing{}
	client, err := registry.NewClient(registry.ClientOptAuthorizer(auth.Client{Client: &http.Client{Transport: l}}))
	if err != nil {
		panic(err)
	}
	l.client = client
	return l
}

// RoundTrip answers a request for a list of tags.
func (l *listing) RoundTrip(request *http.Request) (*http.Response, error) {
	body, err := json.Marshal(map[string]any{"name": "web", "tags": l.tags})
	if err != nil {
		return nil, err
	}
	return &http.Response{
		Status:     "200 OK",
		StatusCode: http.StatusOK,
		Header:     http.Header{"Content-Type": {"application/json"}},
		Body:       io.NopCloser(bytes.NewReader(body)),
		Request:    request,
	}, nil
}

// choice is what `helm pull` takes.
func (l *listing) choice(tags []string, request string) answer {
	l.tags = tags
	listed, err := l.client.Tags("registry.example.com/web")
	if err != nil {
		panic(err)
	}
	tag, err := registry.GetTagMatchingVersionOrConstraint(listed, request)
	if err != nil {
		return refused(err)
	}
	return chosen(tag)
}

// fleetsTag follows Fleet's rule (internal/bundlereader, GetOCITag), restated: a tag that is literally the strict version
// requested, otherwise the highest that will do, and the first of equals.
func fleetsTag(tags []string, request string) answer {
	constraint, err := semver.NewConstraint(request)
	if err != nil {
		return refused(err)
	}
	_, err = semver.StrictNewVersion(request)
	strict := err == nil
	var highest *semver.Version
	for _, tag := range tags {
		if strict && tag == request {
			return chosen(tag)
		}
		version, err := semver.NewVersion(tag)
		if err == nil && constraint.Check(version) && (highest == nil || version.GreaterThan(highest)) {
			highest = version
		}
	}
	if highest == nil {
		return answer{err: "no tag"}
	}
	return chosen(highest.Original())
}
