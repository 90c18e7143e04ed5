// Command helmops-helm is Helm with one difference: it applies objects as the field manager `fleetagent`.
//
// Helm derives the name from no flag, and every other name would end in conflicts with objects that Fleet's agent has applied.
// The agent runs this program; a person can run it with the same arguments, as `helm`.
package main

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	// The clients of authentication providers that a kubeconfig can name.
	_ "k8s.io/client-go/plugin/pkg/client/auth"

	"helm.sh/helm/v4/pkg/cmd"
	"helm.sh/helm/v4/pkg/kube"
)

func main() {
	kube.ManagedFieldsManager = "fleetagent"
	if os.Getenv("HELMOPS_PARENT_PIPE") != "" {
		go endWithParent()
	}
	completeAfterSignal()
	go returnMemoryAfterSignal()
	os.Exit(run())
}

func run() int {
	root, err := cmd.NewRootCmd(os.Stdout, os.Args[1:], cmd.SetupLogging)
	if err != nil {
		slog.Error("cannot start", slog.Any("error", err))
		return 1
	}
	var failed cmd.CommandError
	switch err := root.Execute(); {
	case err == nil:
		return 0
	case errors.As(err, &failed):
		return failed.ExitCode
	default:
		return 1
	}
}

// completeAfterSignal lets a rollback or a removal end by itself after SIGTERM, so that it leaves no record in between. Helm
// itself interrupts only installations and upgrades in order.
func completeAfterSignal() {
	if len(os.Args) > 1 && (os.Args[1] == "rollback" || os.Args[1] == "uninstall") {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGTERM)
	}
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
// end, and writes nothing. Helm has a moment to record that it was interrupted.
func endWithParent() {
	_, _ = io.Copy(io.Discard, os.Stdin)
	_ = syscall.Kill(os.Getpid(), syscall.SIGTERM)
	time.Sleep(5 * time.Second)
	_ = syscall.Kill(0, syscall.SIGKILL)
}
