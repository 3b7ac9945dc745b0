// Command zonequake-node is every program of a single Kubernetes node in one binary: it runs the
// component named by its first argument, or by the name it is called under.
//
// One binary instead of eight, because the components share nearly all of their packages: it is
// built once, in one module, with one set of versions.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/coredns/coredns/coremain"
	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubeapiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	kubecontrollermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	kubeproxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	kubescheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"

	// What the node's Corefile names, and metric and log formats of the Kubernetes components.
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/template"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
)

// Each entry runs with os.Args set as if the component were a program of its own.
var components = map[string]func(){
	"coredns":                 coremain.Run,
	"etcd":                    func() { etcdmain.Main(os.Args) },
	"kube-apiserver":          command(kubeapiserver.NewAPIServerCommand),
	"kube-controller-manager": command(kubecontrollermanager.NewControllerManagerCommand),
	"kube-proxy":              command(kubeproxy.NewProxyCommand),
	"kube-scheduler":          command(func() *cobra.Command { return kubescheduler.NewSchedulerCommand() }),
	"kubectl":                 runKubectl,
	"kubelet":                 command(func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) }),
	"enforce-policies":        enforcePolicies,
	"provision-volumes":       provisionVolumes,
}

func main() {
	if run, found := components[filepath.Base(os.Args[0])]; found {
		run()
		return
	}
	if len(os.Args) > 1 {
		if run, found := components[os.Args[1]]; found {
			os.Args = os.Args[1:]
			run()
			return
		}
	}
	var names []string
	for name := range components {
		names = append(names, name)
	}
	slices.Sort(names)
	fmt.Fprintf(os.Stderr, "zonequake-node: %q names no component; the first argument must be one of: %s\n",
		os.Args[1:], strings.Join(names, ", "))
	os.Exit(2)
}

func command(build func() *cobra.Command) func() {
	return func() { os.Exit(cli.Run(build())) }
}

func runKubectl() {
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
