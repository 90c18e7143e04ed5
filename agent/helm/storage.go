package main

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"helm.sh/helm/v4/pkg/release"
	releasev1 "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage/driver"
)

// records is Helm's storage. A record is created before its objects are applied and its hooks run: both are changed here.
type records struct {
	driver.Driver
	target *target
	// An interrupted action still runs while its end is recorded.
	mutex sync.Mutex
	// found are the results of queries since the last write: Helm sends the same one several times.
	found map[string][]release.Releaser
	// held are the writes before the record is created: nothing is changed if the objects are refused.
	held []func() error
	// isCreated is whether there are no such writes any more.
	isCreated bool
}

// isHeld holds a write back until the record is created.
func (r *records) isHeld(write func() error) bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.found = nil
	if r.isCreated || r.target.marks == nil {
		return false
	}
	r.held = append(r.held, write)
	return true
}

func (r *records) Create(key string, created release.Releaser) error {
	if record, isRecord := created.(*releasev1.Release); isRecord {
		if err := r.target.record(record); err != nil {
			return err
		}
	}
	r.mutex.Lock()
	held := r.held
	r.found, r.held, r.isCreated = nil, nil, true
	r.mutex.Unlock()
	for _, write := range held {
		if err := write(); err != nil {
			return err
		}
	}
	return r.Driver.Create(key, created)
}

func (r *records) Update(key string, updated release.Releaser) error {
	write := func() error { return r.Driver.Update(key, updated) }
	if r.isHeld(write) {
		return nil
	}
	return write()
}

func (r *records) Delete(key string) (release.Releaser, error) {
	write := func() error {
		_, err := r.Driver.Delete(key)
		return err
	}
	if r.isHeld(write) {
		return nil, nil
	}
	return r.Driver.Delete(key)
}

func (r *records) Query(labels map[string]string) ([]release.Releaser, error) {
	// Maps are printed in the order of their keys.
	query := fmt.Sprint(labels)
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if found, isKnown := r.found[query]; isKnown {
		return slices.Clone(found), nil
	}
	found, err := r.Driver.Query(labels)
	for _, one := range found {
		// Helm gives the next revision the labels of this one. With its time of the last change, a record looks older than it is, and the
		// next attempt after a failure comes too early.
		if record, isRecord := one.(*releasev1.Release); isRecord {
			maps.DeleteFunc(record.Labels, func(name, _ string) bool { return slices.Contains(driver.GetSystemLabels(), name) })
		}
	}
	if err == nil {
		if r.found == nil {
			r.found = map[string][]release.Releaser{}
		}
		r.found[query] = slices.Clone(found)
	}
	return found, err
}
