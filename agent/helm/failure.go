package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"strings"

	"helm.sh/helm/v4/pkg/storage/driver"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
)

// Bytes of the start and of the end of an error that are kept: with thousands of objects it has thousands of lines.
const maxError = 32 << 10

// Causes of a response that are kept, and bytes of the message of each, which may be a whole object.
const maxCauses, maxCause = 100, 256

// refusedError is a failure of the engine itself. What Helm says around it is left out.
type refusedError struct{ text, reason string }

func (e *refusedError) Error() string { return e.text }

// knownError is a failure of Helm of which the engine knows where it happened.
type knownError struct {
	error
	reason string
}

func (e *knownError) Unwrap() error { return e.error }

// reasonOf is the reason of an error, where Helm or a library has a value or a type for it.
func reasonOf(err error) string {
	known, isKnown := find[*knownError](err)
	// Not net.Error, which any error of the operating system is too.
	_, isRequest := find[*url.Error](err)
	_, isConnection := find[*net.OpError](err)
	switch {
	case isKnown:
		return known.reason
	case errors.Is(err, context.Canceled):
		return "Stopped"
	case errors.Is(err, driver.ErrReleaseExists):
		return "InProgress"
	case errors.Is(err, driver.ErrReleaseNotFound), errors.Is(err, driver.ErrNoDeployedReleases):
		return "NoRecord"
	case isRequest, isConnection, errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, context.DeadlineExceeded):
		return "Unreachable"
	default:
		return ""
	}
}

// withReason is an error with the reason that it has if nothing in it says more.
func withReason(err error, reason string) error {
	if _, isResponse := find[apierrors.APIStatus](err); isResponse || reasonOf(err) != "" {
		return err
	}
	return &knownError{error: err, reason: reason}
}

func failureOf(err error) *Failure {
	if refused, isRefused := find[*refusedError](err); isRefused {
		return &Failure{Text: bounded(refused.text), Reason: refused.reason}
	}
	failure := &Failure{Text: bounded(err.Error()), Reason: reasonOf(err)}
	if response, isResponse := find[apierrors.APIStatus](err); isResponse {
		failure.Response = trimmed(response.Status())
	}
	return failure
}

// find is the first error of a type in a tree of errors. It also enters the lists of Kubernetes, which errors.As does not.
func find[T any](err error) (T, bool) {
	var found T
	if errors.As(err, &found) {
		return found, true
	}
	var list utilerrors.Aggregate
	if errors.As(err, &list) {
		for _, err := range list.Errors() {
			if found, isFound := find[T](err); isFound {
				return found, true
			}
		}
	}
	return found, false
}

// trimmed is what is used of a response: not its message, which the text of the error has. Servers of aggregated APIs write it.
func trimmed(response metav1.Status) *metav1.Status {
	kept := &metav1.Status{Code: min(max(response.Code, 0), 999), Reason: metav1.StatusReason(start(string(response.Reason), maxCause))}
	if details := response.Details; details != nil {
		kept.Details = &metav1.StatusDetails{
			Name: start(details.Name, maxCause), Group: start(details.Group, maxCause), Kind: start(details.Kind, maxCause),
		}
		for _, cause := range details.Causes[:min(len(details.Causes), maxCauses)] {
			cause.Type = metav1.CauseType(start(string(cause.Type), maxCause))
			cause.Message, cause.Field = start(cause.Message, maxCause), start(cause.Field, maxCause)
			kept.Details.Causes = append(kept.Details.Causes, cause)
		}
	}
	return kept
}

func bounded(text string) string {
	if len(text) <= 2*maxError {
		return text
	}
	return start(text, maxError) + "\n…\n" + strings.ToValidUTF8(text[len(text)-maxError:], "")
}

// start is a text up to a number of bytes.
func start(text string, limit int) string {
	return strings.ToValidUTF8(text[:min(len(text), limit)], "")
}
