package main

import (
	"context"
	"flag"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/cloudnativelabs/kube-router/v2/pkg/controllers/netpol"
	"github.com/cloudnativelabs/kube-router/v2/pkg/healthcheck"
	"github.com/cloudnativelabs/kube-router/v2/pkg/options"
	"github.com/cloudnativelabs/kube-router/v2/pkg/utils"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
)

// enforcePolicies turns NetworkPolicies into iptables rules and IP sets of the node, with the
// controller of kube-router and nothing else of it: pods' addresses and services have their own parts.
func enforcePolicies() {
	flags := flag.NewFlagSet("enforce-policies", flag.ExitOnError)
	kubeconfig := flags.String("kubeconfig", "", "file with the API server's address and credentials")
	node := flags.String("node", "", "name of the node whose pods are shielded")
	services := flags.String("service-range", "", "addresses of services, as a CIDR")
	enforced := flags.String("enforced", "", "file that is made once the first rules are in force")
	klog.InitFlags(flags)
	_ = flags.Parse(os.Args[1:])

	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		klog.Exitf("enforce-policies: kubeconfig %s: %v", *kubeconfig, err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	client := kubernetes.NewForConfigOrDie(config)
	waitForNode(ctx, client, *node)

	factory := informers.NewSharedInformerFactory(client, 0)
	pods := factory.Core().V1().Pods().Informer()
	namespaces := factory.Core().V1().Namespaces().Informer()
	policies := factory.Networking().V1().NetworkPolicies().Informer()
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())

	settings := options.NewKubeRouterConfig()
	settings.EnableIPv4 = true
	settings.ClusterIPCIDRs = []string{*services}
	settings.HostnameOverride = *node
	tables, sets, err := netpol.NewIPTablesHandlers(settings)
	if err != nil {
		klog.Exitf("enforce-policies: %v", err)
	}
	waitForProxy(ctx, tables[corev1.IPv4Protocol])
	leaveServices(tables[corev1.IPv4Protocol], *services)
	var oneAtATime sync.Mutex
	controller, err := netpol.NewNetworkPolicyController(
		client, settings, pods, policies, namespaces, &oneAtATime, tables, sets,
	)
	if err != nil {
		klog.Exitf("enforce-policies: %v", err)
	}
	handle(pods, controller.PodEventHandler)
	handle(namespaces, controller.NamespaceEventHandler)
	handle(policies, controller.NetworkPolicyEventHandler)

	var running sync.WaitGroup
	running.Add(1)
	heartbeats := make(chan *healthcheck.ControllerHeartbeat)
	go tellWhenEnforced(controller, heartbeats, *enforced)
	controller.Run(heartbeats, ctx.Done(), &running)
	running.Wait()
}

// waitForNode waits until the kubelet has registered the node with an address, and until this
// component has its rights: both come after its start.
func waitForNode(ctx context.Context, client kubernetes.Interface, name string) {
	for {
		node, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err == nil && len(node.Status.Addresses) > 0 {
			return
		}
		pause(ctx)
	}
}

// waitForProxy waits until kube-proxy has written its rules. The controller reads a whole table and
// writes it back, so that what another program adds in between is lost; and kube-proxy adds most of its
// rules only once.
func waitForProxy(ctx context.Context, table utils.IPTablesHandler) {
	const chain = "KUBE-FORWARD"
	for {
		if found, err := table.ChainExists("filter", chain); err == nil && found {
			// The first line is the chain itself.
			if lines, err := table.List("filter", chain); err == nil && len(lines) > 1 {
				return
			}
		}
		pause(ctx)
	}
}

func pause(ctx context.Context) {
	select {
	case <-ctx.Done():
		os.Exit(0)
	case <-time.After(200 * time.Millisecond):
	}
}

// leaveServices lets packets to an address of a service leave the controller's chain unjudged. What
// still has such an address there belongs to a service without endpoints: kube-proxy refuses it in a
// later chain, which the controller's own acceptance would keep it from, so that clients would wait
// for a time-out. The controller has the same rule for packets to the node.
func leaveServices(table utils.IPTablesHandler, services string) {
	const chain = "KUBE-ROUTER-FORWARD"
	rule := []string{"-d", services, "-m", "comment", "--comment", "kube-proxy judges services", "-j", "RETURN"}
	found, err := table.ChainExists("filter", chain)
	if err == nil && !found {
		err = table.NewChain("filter", chain)
	}
	if err == nil {
		found, err = table.Exists("filter", chain, rule...)
	}
	if err == nil && !found {
		err = table.Insert("filter", chain, 1, rule...)
	}
	if err != nil {
		klog.Exitf("enforce-policies: rule of services: %v", err)
	}
}

func handle(informer cache.SharedIndexInformer, handler cache.ResourceEventHandler) {
	if _, err := informer.AddEventHandler(handler); err != nil {
		klog.Exitf("enforce-policies: %v", err)
	}
}

// tellWhenEnforced makes the file at the beginning of the second round, which is the end of the first:
// the controller tells only when it begins one.
func tellWhenEnforced(
	controller *netpol.NetworkPolicyController, heartbeats <-chan *healthcheck.ControllerHeartbeat, file string,
) {
	<-heartbeats
	controller.RequestFullSync()
	<-heartbeats
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		klog.Exitf("enforce-policies: %v", err)
	}
	for range heartbeats { // The controller waits until each is read.
	}
}
