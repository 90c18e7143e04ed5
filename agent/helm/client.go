package main

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"helm.sh/helm/v4/pkg/kube"
	"k8s.io/apimachinery/pkg/api/meta"
)

// client is Helm's client of the API server.
type client struct {
	kube.Interface
	target *target
	// crds are files of the chart that Helm applies before it renders anything.
	crds map[string]bool
}

// Until the API server lists the kinds of new CRDs: it usually takes some tens of milliseconds. Each pause is twice as long as the one before.
const maxListed, firstPause = 10 * time.Second, 100 * time.Millisecond

// IsReachable sends no request: whatever comes next does.
func (c *client) IsReachable() error { return nil }

// Build reads objects. Those that are deployed are marked.
func (c *client) Build(reader io.Reader, validate bool) (kube.ResourceList, error) {
	bytes, err := io.ReadAll(reader)
	if err != nil {
		return nil, err
	}
	text := string(bytes)
	isHook := c.target.isKnown && text != c.target.rendered
	if !c.crds[text] || c.target.isKnown {
		if text, err = c.target.deployed(text); err != nil {
			return nil, err
		}
	}
	resources, err := c.Interface.Build(strings.NewReader(text), validate)
	// Helm does not wait for its CRDs, nor for those of templates: it waits for nothing but hooks.
	hasNewKinds := len(c.crds) > 0 || isHook && len(c.target.crds) > 0
	end := time.Now().Add(maxListed)
	for pause := firstPause; hasNewKinds && meta.IsNoMatchError(err) && time.Now().Before(end); pause *= 2 {
		time.Sleep(pause)
		resources, err = c.Interface.Build(strings.NewReader(text), validate)
	}
	return resources, err
}

// GetWaiter waits for nothing but hooks: see kube.HookOnlyStrategy.
func (c *client) GetWaiter(strategy kube.WaitStrategy) (kube.Waiter, error) {
	below, err := c.Interface.GetWaiter(strategy)
	return &waiter{below}, err
}

type waiter struct{ kube.Waiter }

// WatchUntilReady says whether a hook failed or did not end in time.
func (w *waiter) WatchUntilReady(hook kube.ResourceList, timeout time.Duration) error {
	err := w.Waiter.WatchUntilReady(hook, timeout)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		return &knownError{error: err, reason: "HookTimeout"}
	default:
		return withReason(err, "HookFailed")
	}
}
