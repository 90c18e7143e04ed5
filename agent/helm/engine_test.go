package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/kube"
	kubefake "helm.sh/helm/v4/pkg/kube/fake"
	"helm.sh/helm/v4/pkg/release"
	releasev1 "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage"
	"helm.sh/helm/v4/pkg/storage/driver"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	clientset "k8s.io/client-go/kubernetes/fake"
)

// asMarker makes this program the one that marks objects.
const asMarker = "ENGINE_TEST_MARKER"

func TestMain(m *testing.M) {
	switch os.Getenv(asMarker) {
	case "":
		os.Exit(m.Run())
	case "refuse":
		_, _ = os.Stderr.WriteString("the object is refused\n")
		os.Exit(1)
	}
	var input struct {
		Documents []document `json:"documents"`
	}
	if err := json.NewDecoder(os.Stdin).Decode(&input); err != nil {
		os.Exit(2)
	}
	texts := []string{}
	for _, document := range input.Documents {
		if os.Getenv(asMarker) == "refuse hooks" && strings.Contains(document.File, "hook") {
			_, _ = os.Stderr.WriteString("the hook is refused")
			os.Exit(1)
		}
		texts = append(texts, strings.TrimSuffix(document.Text, "\n")+"\n# marked in "+document.File+"\n")
	}
	_ = json.NewEncoder(os.Stdout).Encode(texts)
}

func marker(t *testing.T, how string) *Marks {
	t.Setenv(asMarker, how)
	return &Marks{Program: os.Args[0], Step: json.RawMessage("{}")}
}

func TestDocumentsKeepTheirLineBreaks(t *testing.T) {
	manifest := "---\n# Source: web/templates/a.yaml\na: |+\n  text\n\n\n--- # next\n# Source: web/templates/b.yaml\n# Source: x\nb: 1\n---\n\n---\nc: 2"
	expected := []document{
		{File: "web/templates/a.yaml", Text: "a: |+\n  text\n\n\n"},
		{File: "web/templates/b.yaml", Text: "# Source: x\nb: 1\n"},
		{File: unknown, Text: "c: 2"},
	}
	if found := split(manifest); !slices.Equal(found, expected) {
		t.Errorf("%q", found)
	}
}

// client without a cluster, with the texts that it was given.
type fakeClient struct {
	kubefake.PrintingKubeClient
	built []string
	// deletion is why nothing can be deleted.
	deletion error
}

func (f *fakeClient) Delete(kube.ResourceList, metav1.DeletionPropagation) (*kube.Result, []error) {
	if f.deletion != nil {
		return nil, []error{f.deletion}
	}
	return &kube.Result{}, nil
}

func (f *fakeClient) Build(reader io.Reader, _ bool) (kube.ResourceList, error) {
	text, err := io.ReadAll(reader)
	f.built = append(f.built, string(text))
	if f.deletion != nil {
		return kube.ResourceList{{Name: "a"}}, err
	}
	return nil, err
}

// fake is an engine without a cluster, with these records.
func fake(t *testing.T, request *Request, existing ...*releasev1.Release) (*engine, *fakeClient) {
	client := &fakeClient{PrintingKubeClient: kubefake.PrintingKubeClient{Out: io.Discard}}
	helm := action.NewConfiguration()
	helm.KubeClient = client
	memory := driver.NewMemory()
	memory.SetNamespace("shop")
	helm.Releases = storage.Init(memory)
	helm.Capabilities = common.DefaultCapabilities.Copy()
	for _, record := range existing {
		if err := helm.Releases.Create(record); err != nil {
			t.Fatal(err)
		}
	}
	request.Release, request.Namespace = "web", "shop"
	return over(request, helm), client
}

func testChart(t *testing.T) *ChartRequest {
	return chartOf(t, map[string]string{
		"Chart.yaml":            "apiVersion: v2\nname: web\nversion: 1.0.0\n",
		"templates/config.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {msg: {{ .Values.msg | quote }}}\n",
		"templates/hook.yaml":   "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b, annotations: {helm.sh/hook: pre-install}}\n",
	})
}

// chartOf is a chart with these files, and values.
func chartOf(t *testing.T, files map[string]string) *ChartRequest {
	folder := t.TempDir()
	for name, text := range files {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return &ChartRequest{Archive: folder, Values: []string{"msg: one", `{"msg": "two"}`}}
}

func TestAnInstallationMarksObjectsAndHooksInItsRecord(t *testing.T) {
	request := &Request{Action: "install", Chart: testChart(t), Marks: marker(t, "mark"), Apply: "server", Description: "why"}
	engine, client := fake(t, request)
	outcome, err := engine.do(context.Background())
	if err != nil || outcome.Revision != 1 {
		t.Fatal(outcome, err)
	}
	for _, text := range client.built {
		if !strings.Contains(text, "# marked in ") {
			t.Errorf("not marked: %q", text)
		}
	}
	stored, err := engine.helm.Releases.Last("web")
	if err != nil {
		t.Fatal(err)
	}
	record := stored.(*releasev1.Release)
	expected := "---\n# Source: web/templates/config.yaml\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {msg: \"two\"}\n\n" +
		"# marked in web/templates/config.yaml\n"
	if record.Manifest != expected {
		t.Errorf("%q", record.Manifest)
	}
	if hook := record.Hooks[0].Manifest; !strings.HasSuffix(hook, "# marked in web/templates/hook.yaml\n") {
		t.Errorf("%q", hook)
	}
	if record.Info.Description != "why" {
		t.Errorf("%q", record.Info.Description)
	}
}

func TestAnnotationsLeaveTheRestOfTheChart(t *testing.T) {
	chartYaml := "apiVersion: v2\nname: web\nversion: 1.0.0\nappVersion: \"1.10\"\n" +
		"annotations: {team: shop, own/old: x, own/id: exported}\n"
	for resolved, expected := range map[string]map[string]string{
		"1.0.0":  {"team": "shop", "own/id": "web"},
		"v1.0.0": {"team": "shop", "own/id": "web", "own/version": "v1.0.0"},
	} {
		request := &Request{Action: "install", Apply: "server", Chart: chartOf(t, map[string]string{
			"Chart.yaml":       chartYaml,
			"templates/a.yaml": "{{ if ne (index .Chart.Annotations \"own/id\") \"web\" }}{{ fail \"no annotation\" }}{{ end }}",
		})}
		request.Chart.Annotations = &Annotations{
			Prefixes: []string{"own/"},
			Values:   map[string]string{"own/id": "web", "own/version": resolved},
			Version:  "own/version",
		}
		_, stored := rendered(t, request)
		chart := stored.Chart.Metadata
		if !maps.Equal(chart.Annotations, expected) || chart.Version != "1.0.0" || chart.AppVersion != "1.10" {
			t.Error(chart)
		}
	}
}

func TestRefusedObjectsLeaveNoRecord(t *testing.T) {
	engine, _ := fake(t, &Request{Action: "install", Chart: testChart(t), Marks: marker(t, "refuse"), Apply: "server"})
	_, err := engine.do(context.Background())
	var refused *refusedError
	if !errors.As(err, &refused) || refused.reason != "ObjectsRefused" || refused.text != "the object is refused" {
		t.Errorf("%v", err)
	}
	if _, err := engine.helm.Releases.Last("web"); err == nil {
		t.Error("there is a record")
	}
}

// late is a client that knows a kind only at the second look.
type late struct {
	kube.Interface
	looks int
}

func (l *late) Build(io.Reader, bool) (kube.ResourceList, error) {
	l.looks++
	if l.looks == 1 {
		return nil, fmt.Errorf("resource mapping not found: %w", &meta.NoKindMatchError{})
	}
	return nil, nil
}

// Helm would give its time of the last change to the next revision.
func TestARecordHasNoSystemLabelsOfTheOneBefore(t *testing.T) {
	secrets := clientset.NewClientset().CoreV1().Secrets("shop")
	records := &records{Driver: driver.NewSecrets(secrets), target: &target{}}
	record := releasev1.Mock(&releasev1.MockReleaseOptions{Name: "web", Version: 1})
	record.Labels = map[string]string{"own": "a", "modifiedAt": "1"}
	if err := records.Create("sh.helm.release.v1.web.v1", record); err != nil {
		t.Fatal(err)
	}
	found, err := records.Query(map[string]string{"name": "web"})
	if err != nil {
		t.Fatal(err)
	}
	if labels := found[0].(*releasev1.Release).Labels; !maps.Equal(labels, map[string]string{"own": "a"}) {
		t.Error(labels)
	}
}

func TestKindsOfNewCRDsAreWaitedFor(t *testing.T) {
	ofChart := map[string]bool{"kind: A": true}
	ofTemplates := target{isKnown: true, rendered: "kind: A", crds: []document{{}}}
	for _, test := range []struct {
		crds   map[string]bool
		target target
		text   string
		waits  bool
	}{
		{ofChart, target{}, "kind: B", true},
		{nil, ofTemplates, "kind: Hook", true},
		// The objects themselves are read before anything of them is applied.
		{nil, ofTemplates, "kind: A", false},
		{nil, target{isKnown: true}, "kind: Hook", false},
	} {
		client := &client{Interface: &late{}, target: &test.target, crds: test.crds}
		if _, err := client.Build(strings.NewReader(test.text), false); (err == nil) != test.waits {
			t.Error(test, err)
		}
	}
}

// A hook or another client may have created the kind since.
func TestAKindThatIsNotKnownIsLookedForAgain(t *testing.T) {
	kinds := []string{"ConfigMap"}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		var found any = &metav1.APIVersions{Versions: []string{"v1"}}
		switch request.URL.Path {
		case "/api":
		case "/apis":
			found = &metav1.APIGroupList{}
		default:
			list := &metav1.APIResourceList{GroupVersion: "v1"}
			for _, kind := range kinds {
				resource := metav1.APIResource{Kind: kind, Name: strings.ToLower(kind) + "s", Verbs: metav1.Verbs{"get"}}
				list.APIResources = append(list.APIResources, resource)
			}
			found = list
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(found)
	}))
	defer server.Close()
	flags := genericclioptions.NewConfigFlags(false)
	flags.APIServer = &server.URL
	cluster := newCluster(flags)
	look := func(kind string) error {
		mapper, err := cluster.ToRESTMapper()
		if err == nil {
			_, err = mapper.RESTMapping(schema.GroupKind{Kind: kind}, "v1")
		}
		return err
	}
	if err := look("ConfigMap"); err != nil {
		t.Fatal(err)
	}
	if err := look("Widget"); !meta.IsNoMatchError(err) {
		t.Fatal(err)
	}
	kinds = append(kinds, "Widget")
	if err := look("Widget"); err != nil {
		t.Fatal(err)
	}
}

func TestRecordsMayBeInAnotherNamespace(t *testing.T) {
	var paths []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		paths = append(paths, request.URL.Path)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"apiVersion":"v1","kind":"SecretList","metadata":{},"items":[]}`)
	}))
	defer server.Close()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"a","clusters":[{"name":"a","cluster":{"server":%q}}],`+
		`"contexts":[{"name":"a","context":{"cluster":"a"}}]}`, server.URL)
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	request := &Request{
		Release: "web", Namespace: "shop", StorageNamespace: "flux", Kubeconfig: kubeconfig, Chart: &ChartRequest{},
	}
	engine, err := newEngine(request)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := engine.helm.Releases.Last("web"); !errors.Is(err, driver.ErrReleaseNotFound) {
		t.Fatal(err)
	}
	if !slices.Equal(paths, []string{"/api/v1/namespaces/flux/secrets"}) {
		t.Error(paths)
	}
	if release := engine.installation().Namespace; release != "shop" {
		t.Error(release)
	}
}

func TestAnUpgradeMarksOnlyWhatIsNew(t *testing.T) {
	rendered := "---\n# Source: web/templates/config.yaml\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {msg: \"two\"}\n\n"
	// Of a person's Helm, with the same chart and values.
	existing := &releasev1.Release{
		Name: "web", Namespace: "shop", Version: 1, Manifest: rendered, Info: &releasev1.Info{Status: "deployed"},
	}
	request := &Request{Action: "upgrade", Chart: testChart(t), Marks: marker(t, "mark"), Apply: "server", MaxHistory: 2}
	engine, client := fake(t, request, existing)
	if _, err := engine.do(context.Background()); err != nil {
		t.Fatal(err)
	}
	var marked []bool
	for _, text := range client.built {
		marked = append(marked, strings.Contains(text, "# marked in "))
	}
	// It is validated; then the recorded and the new objects are compared.
	if !slices.Equal(marked, []bool{true, false, true}) {
		t.Error(marked, client.built)
	}
}

func TestARefusedHookChangesNoRecord(t *testing.T) {
	existing := &releasev1.Release{Name: "web", Namespace: "shop", Version: 1, Info: &releasev1.Info{Status: "uninstalled"}}
	request := &Request{Action: "install", Chart: testChart(t), Marks: marker(t, "refuse hooks"), Apply: "server", Replace: true}
	engine, _ := fake(t, request, existing)
	_, err := engine.do(context.Background())
	if err == nil || err.Error() != "the hook is refused" {
		t.Error(err)
	}
	last, err := engine.helm.Releases.Get("web", 1)
	if err != nil || len(engine.helm.Releases.Driver.(*records).held) != 1 {
		t.Error(last, err)
	}
	// Once they are accepted, the record is replaced.
	t.Setenv(asMarker, "mark")
	existing.Info.Status = "uninstalled"
	engine, _ = fake(t, request, existing)
	if outcome, err := engine.do(context.Background()); err != nil || outcome.Revision != 2 {
		t.Error(outcome, err)
	}
}

// waits is a client whose hooks end with this error.
type waits struct {
	kube.Interface
	kube.Waiter
	err error
}

func (w *waits) GetWaiter(kube.WaitStrategy) (kube.Waiter, error) { return w, nil }

func (w *waits) WatchUntilReady(kube.ResourceList, time.Duration) error { return w.err }

func TestAHookFailsOrDoesNotEndInTime(t *testing.T) {
	notReady := errors.New("resource Job/shop/h not ready. status: Failed")
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "jobs"}, "h", errors.New("no"))
	for reason, err := range map[string]error{
		"HookFailed":  notReady,
		"HookTimeout": errors.Join(errors.New("resource Job/shop/h not ready. status: InProgress"), context.DeadlineExceeded),
		"":            forbidden,
	} {
		client := &client{Interface: &waits{err: err}}
		waiter, _ := client.GetWaiter(kube.HookOnlyStrategy)
		failure := failureOf(fmt.Errorf("failed pre-install: %w", waiter.WatchUntilReady(nil, 0)))
		if failure.Reason != reason || failure.Text != "failed pre-install: "+err.Error() || (failure.Response != nil) != (reason == "") {
			t.Error(reason, failure)
		}
	}
}

func TestAResponseOfTheAPIServerIsFoundInAnError(t *testing.T) {
	cause := metav1.StatusCause{Type: metav1.CauseTypeFieldManagerConflict, Message: strings.Repeat("x", 2*maxCause), Field: ".data.msg"}
	conflict := apierrors.NewApplyConflict(slices.Repeat([]metav1.StatusCause{cause}, 2*maxCauses), "Apply failed")
	several := utilerrors.NewAggregate([]error{errors.New("one"), fmt.Errorf("conflict occurred: %w", conflict)})
	failure := failureOf(fmt.Errorf("failed to create: %w", several))
	if failure.Reason != "" || failure.Response == nil || failure.Response.Code != 409 || failure.Response.Message != "" {
		t.Fatal(failure)
	}
	causes := failure.Response.Details.Causes
	if len(causes) != maxCauses || causes[0].Field != ".data.msg" || len(causes[0].Message) != maxCause || len(conflict.ErrStatus.Details.Causes) == maxCauses {
		t.Error(len(causes), causes[0])
	}
}

func TestErrorsOfATypeHaveAReason(t *testing.T) {
	refused := &url.Error{Op: "Get", URL: "https://10.0.0.1", Err: &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}}
	for text, err := range map[string]error{
		"NoRecord":    driver.NewErrNoDeployedReleases("web"),
		"InProgress":  driver.ErrReleaseExists,
		"Stopped":     context.Canceled,
		"Unreachable": refused,
		"":            errors.New("another operation (install/upgrade/rollback) is in progress"),
	} {
		if failure := failureOf(fmt.Errorf("query: %w", err)); failure.Reason != text || failure.Response != nil {
			t.Error(text, failure)
		}
	}
}

func TestAFailedDeletionHasItsCauses(t *testing.T) {
	existing := &releasev1.Release{
		Name: "web", Namespace: "shop", Version: 1, Info: &releasev1.Info{Status: "deployed"}, Chart: &chartv2.Chart{},
		Manifest: "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n",
	}
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "a", errors.New("no"))
	for reason, err := range map[string]error{"": forbidden, "DeletionFailed": errors.New("no")} {
		existing.Info.Status = "deployed"
		engine, client := fake(t, &Request{Action: "uninstall"}, existing)
		client.deletion = err
		_, failed := engine.do(context.Background())
		failure := failureOf(failed)
		if failure.Text != "failed to delete release: web: "+err.Error() || failure.Reason != reason {
			t.Error(reason, failure)
		}
	}
}

func TestLongErrorsKeepTheirStartAndEnd(t *testing.T) {
	text := bounded("start" + strings.Repeat("ä", 2*maxError) + "end")
	if len(text) > 2*maxError+10 || !strings.HasPrefix(text, "start") || !strings.HasSuffix(text, "end") {
		t.Error(len(text))
	}
}

func TestARenderingIsNotMarked(t *testing.T) {
	request := &Request{Action: "render", Chart: testChart(t)}
	engine, _ := fake(t, request)
	outcome, err := engine.do(context.Background())
	if err != nil || strings.Contains(outcome.Printed, "marked") || strings.Count(outcome.Printed, "# Source: ") != 2 {
		t.Errorf("%v %v", outcome, err)
	}
}

func TestCRDsAreThoseOfEnabledSubcharts(t *testing.T) {
	files := map[string]string{
		"Chart.yaml": "apiVersion: v2\nname: web\nversion: 1.0.0\nkubeVersion: '>=1.30.0'\n" +
			"dependencies: [{name: db, version: 1.x, condition: db.enabled}]\n",
		"values.yaml":            "db: {enabled: false}\n",
		"values.schema.json":     `{"required":["nothing"]}`,
		"templates/fails.yaml":   "{{ fail \"it is rendered\" }}",
		"crds/a.yaml":            "kind: A",
		"crds/README.md":         "no CRD",
		"charts/db/Chart.yaml":   "apiVersion: v2\nname: db\nversion: 1.2.0\n",
		"charts/db/crds/b.json":  "{}",
		"charts/_old/Chart.yaml": "apiVersion: v2\nname: old\nversion: 1.0.0\n",
		"charts/_old/crds/c.yml": "kind: C",
	}
	own, ofSubchart := "---\n# Source: web/crds/a.yaml\nkind: A\n", "---\n# Source: web/charts/db/crds/b.json\n{}\n"
	for values, expected := range map[string]string{"{}": own, "db: {enabled: true}": own + ofSubchart} {
		request := &Request{Action: "crds", KubeVersion: "v1.36.0", Chart: chartOf(t, files)}
		request.Chart.Values = []string{values}
		engine, _ := fake(t, request)
		if outcome, err := engine.do(context.Background()); err != nil || outcome.Printed != expected {
			t.Errorf("%s: %q %v", values, outcome.Printed, err)
		}
		request.KubeVersion = "v1.29.0"
		if _, err := engine.do(context.Background()); err == nil || !strings.HasPrefix(err.Error(), "chart requires kubeVersion: >=1.30.0 ") {
			t.Error(err)
		}
	}
}

func TestAChartThatCannotBeDeployedIsInvalid(t *testing.T) {
	broken := testChart(t)
	library := "apiVersion: v2\nname: web\nversion: 1.0.0\ntype: library\n"
	if err := os.WriteFile(filepath.Join(broken.Archive, "Chart.yaml"), []byte(library), 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, err := load(broken)
	refused, isRefused := err.(*refusedError)
	if !isRefused || refused.reason != "ChartInvalid" || refused.text != "library charts are not installable" {
		t.Errorf("%v", err)
	}
}

func TestAnotherVersionOfTheAgentIsRefused(t *testing.T) {
	if code := run(strings.NewReader(`{"action":"test","newOption":true}`), io.Discard); code != 2 {
		t.Error(code)
	}
	var out bytes.Buffer
	if code := run(strings.NewReader(`{"action":"fly"}`), &out); code != 1 || !strings.Contains(out.String(), `unknown action \"fly\"`) {
		t.Error(code, out.String())
	}
}

func TestForcedReplacementExcludesServerSideApply(t *testing.T) {
	for apply, expected := range map[string]string{
		"as-before": "auto", "server": "true", "override": "true", "client": "false", "replace": "false",
	} {
		if found := serverSide(apply); found != expected {
			t.Errorf("%s: %s", apply, found)
		}
	}
}

// counted is a storage that counts queries.
type counted struct {
	driver.Driver
	queries int
}

func (c *counted) Query(labels map[string]string) ([]release.Releaser, error) {
	c.queries++
	return c.Driver.Query(labels)
}

func TestRecordsAreQueriedAgainAfterAWriteOnly(t *testing.T) {
	memory := driver.NewMemory()
	memory.SetNamespace("shop")
	below := &counted{Driver: memory}
	stored := storage.Init(&records{Driver: below, target: &target{}})
	record := &releasev1.Release{Name: "web", Namespace: "shop", Version: 1, Info: &releasev1.Info{Status: "deployed"}}
	if err := stored.Create(record); err != nil {
		t.Fatal(err)
	}
	before := below.queries
	for range 3 {
		if _, err := stored.Last("web"); err != nil {
			t.Fatal(err)
		}
	}
	if below.queries != before+1 {
		t.Error(below.queries - before)
	}
	record.Info.Status = "failed"
	if err := stored.Update(record); err != nil {
		t.Fatal(err)
	}
	last, err := stored.Last("web")
	if err != nil || last.(*releasev1.Release).Info.Status != "failed" || below.queries != before+2 {
		t.Error(last, err, below.queries)
	}
}
