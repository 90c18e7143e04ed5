package main

import (
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/openapi"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

// cluster is the access to the API server, with what is discovered of it in memory. Helm and kubectl keep that in files for their next run.
// Here each run has folders of its own: to fill them took three quarters of its CPU time.
type cluster struct {
	genericclioptions.RESTClientGetter
	config    func() (*rest.Config, error)
	discovery func() (*discovered, error)
}

// discovered is what one user of the cluster knows of it. All share one cache, and who finds that it lacks a kind reads it again, once: hooks,
// CRDs of the chart and others create kinds during a run.
type discovered struct {
	discovery.CachedDiscoveryInterface
	client  *discovery.DiscoveryClient
	isFresh bool
}

func newCluster(getter genericclioptions.RESTClientGetter) *cluster {
	config := sync.OnceValues(getter.ToRESTConfig)
	return &cluster{
		RESTClientGetter: getter,
		config:           config,
		discovery: sync.OnceValues(func() (*discovered, error) {
			config, err := config()
			if err != nil {
				return nil, err
			}
			client, err := discovery.NewDiscoveryClientForConfig(config)
			if err != nil {
				return nil, err
			}
			return &discovered{CachedDiscoveryInterface: memory.NewMemCacheClient(client), client: client}, nil
		}),
	}
}

// ToRESTConfig is a copy, which the caller may change.
func (c *cluster) ToRESTConfig() (*rest.Config, error) {
	config, err := c.config()
	if err != nil {
		return nil, err
	}
	return rest.CopyConfig(config), nil
}

func (c *cluster) ToDiscoveryClient() (discovery.CachedDiscoveryInterface, error) {
	shared, err := c.discovery()
	if err != nil {
		return nil, err
	}
	return &discovered{CachedDiscoveryInterface: shared.CachedDiscoveryInterface, client: shared.client}, nil
}

func (c *cluster) ToRESTMapper() (meta.RESTMapper, error) {
	discovered, err := c.ToDiscoveryClient()
	if err != nil {
		return nil, err
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(discovered)
	return restmapper.NewShortcutExpander(mapper, discovered, nil), nil
}

// Fresh is whether a kind that is not known does not exist.
func (d *discovered) Fresh() bool { return d.isFresh }

// Invalidate makes the next use of the cache read it again.
func (d *discovered) Invalidate() {
	d.isFresh = true
	d.CachedDiscoveryInterface.Invalidate()
}

// OpenAPIV3 is not kept: the schemas of new kinds are added to groups that exist.
func (d *discovered) OpenAPIV3() openapi.Client { return d.client.OpenAPIV3() }
