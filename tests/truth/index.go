package main

import (
	"io"
	"log/slog"

	chart "helm.sh/helm/v4/pkg/chart/v2"
	repo "helm.sh/helm/v4/pkg/repo/v1"
)

// Every shape of version meets every shape of request several times.
const randomIndexQuestions = 3500

// indexTables: versions, what is requested, and what Helm chooses from an index.
func indexTables() []table {
	// Helm logs every choice that is not a literal one.
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil)))
	r := newRandom(5)
	questions := pickedIndexQuestions()
	for range randomIndexQuestions {
		versions := r.versionList(r.listedVersion)
		questions = append(questions, question{versions, r.request(versions)})
	}
	what := "IndexFile.SortEntries and Get of " + release("helm.sh/helm/v4") + ": versions, request, choice"
	return []table{choices("index.tsv", what, questions, func(q question) ([]string, bool) {
		answers := r.answers(q, indexChoice)
		return []string{column(answers)}, len(answers) > 1
	})}
}

// indexChoice is the choice from an index that lists the versions in this order.
func indexChoice(versions []string, request string) answer {
	entries := repo.ChartVersions{}
	for _, version := range versions {
		entries = append(entries, &repo.ChartVersion{Metadata: &chart.Metadata{Name: "web", Version: version}})
	}
	index := repo.IndexFile{Entries: map[string]repo.ChartVersions{"web": entries}}
	index.SortEntries()
	found, err := index.Get("web", request)
	if err != nil {
		return refused(err)
	}
	return chosen(found.Version)
}
