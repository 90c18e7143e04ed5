// Command helmops-helm does one thing with a Helm release, by Helm's own packages.
//
//	request on standard input ─► chart, values ─► action of Helm ─► outcome on standard output
//	                                               │      ▲
//	                      objects: client.go ◄─────┴──────┴─────► records: storage.go
//
// Rendering, hooks, order and records are Helm's. Two things differ from its command line: objects are applied by the field manager
// `fleetagent`, since every other name would end in conflicts with objects that Fleet's agent has applied; and they are marked without
// Helm's post-render step, which changes texts.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"sync"
	"syscall"
	"time"

	// The clients of authentication providers that a kubeconfig can name.
	_ "k8s.io/client-go/plugin/pkg/client/auth"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/kube"
	"k8s.io/client-go/rest"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "version" {
		fmt.Println(common.DefaultCapabilities.HelmVersion.Version)
		return
	}
	os.Exit(run(os.Stdin, os.Stdout))
}

func run(in io.Reader, out io.Writer) int {
	kube.ManagedFieldsManager = "fleetagent"
	// Helm logs what is in the error or the outcome as well.
	slog.SetDefault(slog.New(slog.DiscardHandler))
	decoder := json.NewDecoder(in)
	// An option of a newer agent would have no effect.
	decoder.DisallowUnknownFields()
	var request Request
	if err := decoder.Decode(&request); err != nil {
		fmt.Fprintf(os.Stderr, "cannot read the request: %v\n", err)
		return 2
	}
	if request.EndsWithInput {
		go endWithParent(io.MultiReader(decoder.Buffered(), in))
	}
	go returnMemoryAfterSignal()
	outcome := perform(interruptible(request.Action), &request)
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(outcome); err != nil {
		fmt.Fprintf(os.Stderr, "cannot write the outcome: %v\n", err)
		return 2
	}
	if outcome.Error != nil {
		return 1
	}
	return 0
}

func perform(ctx context.Context, request *Request) Outcome {
	warnings := &warnings{}
	rest.SetDefaultWarningHandler(warnings)
	var outcome Outcome
	engine, err := newEngine(request)
	if err == nil {
		outcome, err = engine.do(ctx)
	}
	outcome.Warnings = warnings.all()
	if err != nil {
		outcome.Error = failureOf(err)
	}
	return outcome
}

// interruptible ends with SIGTERM for an installation or upgrade, which Helm records as failed then. A rollback or a removal ends by
// itself after SIGTERM, so that it leaves no record in between.
func interruptible(action string) context.Context {
	ctx := context.Background()
	switch action {
	case "install", "upgrade":
		// The context lives as long as the process.
		ctx, _ = signal.NotifyContext(ctx, syscall.SIGTERM)
	case "rollback", "uninstall":
		signal.Ignore(syscall.SIGTERM)
	}
	return ctx
}

// returnMemoryAfterSignal returns what is no longer needed to the system after SIGUSR1: the parent sends it when only hooks are waited
// for, which may take hours.
func returnMemoryAfterSignal() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR1)
	for range signals {
		debug.SetGCPercent(50)
		debug.FreeOSMemory()
	}
}

// endWithParent ends the process group when the parent is gone: standard input is a pipe of which the parent holds the other
// end, and after the request it writes nothing. Helm has a moment to record that it was interrupted.
func endWithParent(in io.Reader) {
	_, _ = io.Copy(io.Discard, in)
	_ = syscall.Kill(os.Getpid(), syscall.SIGTERM)
	time.Sleep(5 * time.Second)
	_ = syscall.Kill(0, syscall.SIGKILL)
}

// The number of warnings that are kept.
const maxWarnings = 100

// warnings are those of the API server.
type warnings struct {
	mutex sync.Mutex
	texts []string
}

// HandleWarningHeader keeps the text of a warning.
func (w *warnings) HandleWarningHeader(code int, _ string, text string) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if code == 299 && text != "" && len(w.texts) < maxWarnings && !slices.Contains(w.texts, text) {
		w.texts = append(w.texts, text)
	}
}

func (w *warnings) all() []string {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.texts
}
