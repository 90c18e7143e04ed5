package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"helm.sh/helm/v4/pkg/action"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/cli"
	"helm.sh/helm/v4/pkg/kube"
	"helm.sh/helm/v4/pkg/release"
	releasev1 "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage"
)

// Requests per second to the API server. Helm's default of 5, after the first 100, makes a chart of 200 objects take a minute.
const qps = 100

// engine is Helm for one request.
type engine struct {
	request   *Request
	helm      *action.Configuration
	client    *client
	rendering *rendering
}

func newEngine(request *Request) (*engine, error) {
	settings := cli.New()
	settings.KubeConfig = request.Kubeconfig
	settings.KubeAsUser = request.User
	settings.QPS = qps
	settings.SetNamespace(request.Namespace)
	helm := action.NewConfiguration()
	if err := helm.Init(newCluster(settings.RESTClientGetter()), request.StorageNamespace, "secret"); err != nil {
		return nil, err
	}
	return over(request, helm), nil
}

// over is Helm with this client and storage, which are wrapped.
func over(request *Request, helm *action.Configuration) *engine {
	target := &target{marks: request.Marks, replaces: request.Action == "upgrade"}
	client := &client{Interface: helm.KubeClient, target: target}
	helm.KubeClient = client
	helm.Releases = storage.Init(&records{Driver: helm.Releases.Driver, target: target})
	return &engine{request: request, helm: helm, client: client}
}

// do returns why the objects could not be rendered or changed, not that a template function of the stand-in has failed.
func (e *engine) do(ctx context.Context) (Outcome, error) {
	outcome, err := e.act(ctx)
	if rendering := e.rendering; rendering != nil {
		outcome.UnmatchedPatches = rendering.unmatched
		if rendering.err != nil {
			err = rendering.err
		}
	}
	return outcome, err
}

// load is the chart with its values, or the chart that stands in for it.
func (e *engine) load() (*chartv2.Chart, map[string]any, error) {
	chart, values, err := load(e.request.Chart)
	if err != nil || e.request.PostRender == nil {
		return chart, values, err
	}
	e.rendering, err = newRendering(e.helm, e.request, chart, values)
	if err != nil {
		return nil, nil, err
	}
	e.client.target.chart = chart
	return e.rendering.standIn(), values, nil
}

func (e *engine) act(ctx context.Context) (Outcome, error) {
	switch e.request.Action {
	case "install":
		return e.install(ctx)
	case "upgrade":
		return e.upgrade(ctx)
	case "rollback":
		return e.rollback()
	case "uninstall":
		return e.uninstall()
	case "test":
		return e.test()
	case "crds":
		printed, err := printCRDs(e.request)
		return Outcome{Printed: printed}, err
	case "render":
		return e.render(ctx)
	case "patch":
		printed, err := patchFiles(e.request.Patched)
		return Outcome{Printed: printed}, err
	default:
		return Outcome{}, fmt.Errorf("unknown action %q", e.request.Action)
	}
}

func (e *engine) hookTimeout() time.Duration {
	return time.Duration(e.request.HookTimeout) * time.Millisecond
}

func (e *engine) install(ctx context.Context) (Outcome, error) {
	chart, values, err := e.load()
	if err != nil {
		return Outcome{}, err
	}
	if !e.request.SkipCRDs {
		e.client.crds = crdTexts(chart)
	}
	install := e.installation()
	install.Replace = e.request.Replace
	install.DisableHooks = e.request.DisableHooks
	// An installation knows no earlier way.
	install.ServerSideApply = serverSide(e.request.Apply) != "false"
	install.ForceReplace = e.request.Apply == "replace"
	install.ForceConflicts = e.request.Apply == "override"
	return revision(install.RunWithContext(ctx, chart, values))
}

// installation is what installations and renderings have in common.
func (e *engine) installation() *action.Install {
	install := action.NewInstall(e.helm)
	install.ReleaseName = e.request.Release
	install.Namespace = e.request.Namespace
	install.Timeout = e.hookTimeout()
	install.WaitStrategy = kube.HookOnlyStrategy
	install.Description = e.request.Description
	install.Labels = e.request.Labels
	install.TakeOwnership = e.request.TakeOwnership
	install.SkipCRDs = e.request.SkipCRDs
	install.EnableDNS = e.request.Chart.EnableDNS
	install.SkipSchemaValidation = e.request.Chart.SkipSchema
	// It costs half of the time, and validates nothing that the API server does not.
	install.DisableOpenAPIValidation = true
	return install
}

func (e *engine) upgrade(ctx context.Context) (Outcome, error) {
	chart, values, err := e.load()
	if err != nil {
		return Outcome{}, err
	}
	upgrade := action.NewUpgrade(e.helm)
	upgrade.Namespace = e.request.Namespace
	upgrade.Timeout = e.hookTimeout()
	upgrade.WaitStrategy = kube.HookOnlyStrategy
	upgrade.Description = e.request.Description
	upgrade.Labels = e.request.Labels
	upgrade.TakeOwnership = e.request.TakeOwnership
	upgrade.DisableHooks = e.request.DisableHooks
	upgrade.CleanupOnFail = e.request.CleanupOnFail
	upgrade.MaxHistory = e.request.MaxHistory
	// Without values, Helm would take those of the previous revision.
	upgrade.ResetValues = true
	upgrade.EnableDNS = e.request.Chart.EnableDNS
	upgrade.SkipSchemaValidation = e.request.Chart.SkipSchema
	upgrade.DisableOpenAPIValidation = true
	upgrade.ServerSideApply = serverSide(e.request.Apply)
	upgrade.ForceReplace = e.request.Apply == "replace"
	upgrade.ForceConflicts = e.request.Apply == "override"
	return revision(upgrade.RunWithContext(ctx, e.request.Release, chart, values))
}

func serverSide(apply string) string {
	switch apply {
	case "server", "override":
		return "true"
	case "client", "replace":
		return "false"
	default:
		return "auto"
	}
}

func revision(written release.Releaser, err error) (Outcome, error) {
	record, err := recordOf(written, err)
	if err != nil {
		return Outcome{}, err
	}
	return Outcome{Revision: record.Version}, nil
}

// recordOf is the record that an action of Helm returns.
func recordOf(returned release.Releaser, err error) (*releasev1.Release, error) {
	if err != nil {
		return nil, err
	}
	record, isRecord := returned.(*releasev1.Release)
	if !isRecord {
		return nil, fmt.Errorf("unexpected record %T", returned)
	}
	return record, nil
}

func (e *engine) rollback() (Outcome, error) {
	rollback := action.NewRollback(e.helm)
	rollback.Version = e.request.Revision
	rollback.Timeout = e.hookTimeout()
	rollback.WaitStrategy = kube.HookOnlyStrategy
	rollback.DisableHooks = e.request.DisableHooks
	rollback.CleanupOnFail = e.request.CleanupOnFail
	rollback.MaxHistory = e.request.MaxHistory
	rollback.ServerSideApply = serverSide(e.request.Apply)
	rollback.ForceReplace = e.request.Apply == "replace"
	rollback.ForceConflicts = e.request.Apply == "override"
	return Outcome{}, rollback.Run(e.request.Release)
}

func (e *engine) uninstall() (Outcome, error) {
	uninstall := action.NewUninstall(e.helm)
	uninstall.Timeout = e.hookTimeout()
	uninstall.WaitStrategy = kube.HookOnlyStrategy
	uninstall.DisableHooks = e.request.DisableHooks
	uninstall.KeepHistory = e.request.KeepHistory
	uninstall.DeletionPropagation = e.request.DeletionPropagation
	uninstall.Description = e.request.Description
	log := &deletionLog{}
	e.helm.SetLogger(log)
	_, err := uninstall.Run(e.request.Release)
	// Helm's error does not say why objects were not deleted.
	if err != nil && log.causes != nil {
		err = withReason(fmt.Errorf("%w: %w", err, errors.Join(log.causes...)), "DeletionFailed")
	}
	return Outcome{}, err
}

// deletionLog keeps why objects were not deleted, which Helm only logs.
type deletionLog struct{ causes []error }

// Enabled is for all levels: it is a debug message.
func (l *deletionLog) Enabled(context.Context, slog.Level) bool { return true }

// Handle keeps the causes.
func (l *deletionLog) Handle(_ context.Context, record slog.Record) error {
	if record.Message == "uninstall: Failed to delete release" {
		record.Attrs(func(attribute slog.Attr) bool {
			causes, isCauses := attribute.Value.Any().([]error)
			if isCauses {
				l.causes = causes
			}
			return !isCauses
		})
	}
	return nil
}

// WithAttrs adds nothing.
func (l *deletionLog) WithAttrs([]slog.Attr) slog.Handler { return l }

// WithGroup adds nothing.
func (l *deletionLog) WithGroup(string) slog.Handler { return l }

func (e *engine) test() (Outcome, error) {
	test := action.NewReleaseTesting(e.helm)
	test.Namespace = e.request.Namespace
	test.Timeout = e.hookTimeout()
	test.Filters[action.IncludeNameFilter] = e.request.Include
	test.Filters[action.ExcludeNameFilter] = e.request.Exclude
	_, shutdown, err := test.Run(e.request.Release)
	// After a failed test it has the same error.
	if ended := shutdown(); err == nil {
		err = ended
	}
	return Outcome{}, err
}

func (e *engine) render(ctx context.Context) (Outcome, error) {
	chart, values, err := e.load()
	if err != nil {
		return Outcome{}, err
	}
	install := e.installation()
	// Objects that exist, and records of the same name, are no reason to print nothing.
	install.Replace = true
	install.TakeOwnership = true
	install.SkipCRDs = true
	install.IsUpgrade = e.request.IsUpgrade
	install.DryRunStrategy = action.DryRunServer
	record, err := recordOf(install.RunWithContext(ctx, chart, values))
	if err != nil {
		return Outcome{}, err
	}
	var printed strings.Builder
	fmt.Fprintln(&printed, strings.TrimSpace(record.Manifest))
	for _, hook := range record.Hooks {
		fmt.Fprintf(&printed, "---\n# Source: %s\n%s\n", hook.Path, hook.Manifest)
	}
	return Outcome{Printed: printed.String()}, nil
}
