package main

import (
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

// cluster is the access to the API server, with what is discovered of it in memory. Helm and kubectl keep that in files for their next run.
// Here each run has folders of its own: to fill them took three quarters of its CPU time.
type cluster struct {
	genericclioptions.RESTClientGetter
	config    func() (*rest.Config, error)
	discovery func() (discovery.CachedDiscoveryInterface, error)
}

func newCluster(getter genericclioptions.RESTClientGetter) *cluster {
	config := sync.OnceValues(getter.ToRESTConfig)
	return &cluster{
		RESTClientGetter: getter,
		config:           config,
		discovery: sync.OnceValues(func() (discovery.CachedDiscoveryInterface, error) {
			config, err := config()
			if err != nil {
				return nil, err
			}
			client, err := discovery.NewDiscoveryClientForConfig(config)
			if err != nil {
				return nil, err
			}
			return memory.NewMemCacheClient(client), nil
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
	return c.discovery()
}

func (c *cluster) ToRESTMapper() (meta.RESTMapper, error) {
	discovered, err := c.discovery()
	if err != nil {
		return nil, err
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(discovered)
	return restmapper.NewShortcutExpander(mapper, discovered, nil), nil
}
