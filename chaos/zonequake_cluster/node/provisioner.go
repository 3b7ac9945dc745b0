package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

// provisionVolumes gives every claim of the storage class a directory on this node, as a volume of
// kind `local`. The controller manager's own host path provisioner does not serve: it makes
// directories of mode 0750 that belong to root, and the kubelet applies a pod's fsGroup to volumes of
// kind `local` but not to host paths, so that a pod of another user could not write.
func provisionVolumes() {
	flags := flag.NewFlagSet("provision-volumes", flag.ExitOnError)
	kubeconfig := flags.String("kubeconfig", "", "file with the API server's address and credentials")
	directory := flags.String("directory", "", "folder below which each volume gets a directory")
	node := flags.String("node", "", "name of the node that the volumes are tied to")
	name := flags.String("provisioner", "", "provisioner that the storage class names")
	_ = flags.Parse(os.Args[1:])

	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		fmt.Fprintf(os.Stderr, "provision-volumes: kubeconfig %s: %v\n", *kubeconfig, err)
		os.Exit(1)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	provisioner := &directoryProvisioner{directory: *directory, node: *node}
	controller.NewProvisionController(
		ctx, kubernetes.NewForConfigOrDie(config), *name, provisioner,
		controller.LeaderElection(false),
	).Run(ctx)
}

type directoryProvisioner struct {
	directory string
	node      string
}

func (p *directoryProvisioner) Provision(
	_ context.Context, options controller.ProvisionOptions,
) (*corev1.PersistentVolume, controller.ProvisioningState, error) {
	path := filepath.Join(p.directory, options.PVName)
	// The group is set from fsGroup at mount; a pod without one may still run as any user.
	if err := os.MkdirAll(path, 0o777); err != nil {
		return nil, controller.ProvisioningNoChange, err
	}
	if err := os.Chmod(path, 0o777); err != nil {
		return nil, controller.ProvisioningNoChange, err
	}
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: options.PVName},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes:                   options.PVC.Spec.AccessModes,
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: options.PVC.Spec.Resources.Requests[corev1.ResourceStorage]},
			MountOptions:                  options.StorageClass.MountOptions,
			PersistentVolumeReclaimPolicy: *options.StorageClass.ReclaimPolicy,
			VolumeMode:                    options.PVC.Spec.VolumeMode,
			PersistentVolumeSource:        corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: path}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{
					MatchExpressions: []corev1.NodeSelectorRequirement{{
						Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{p.node},
					}},
				}},
			}},
		},
	}, controller.ProvisioningFinished, nil
}

func (p *directoryProvisioner) Delete(_ context.Context, volume *corev1.PersistentVolume) error {
	if volume.Spec.Local == nil || filepath.Dir(volume.Spec.Local.Path) != p.directory {
		return fmt.Errorf("volume %s is not a directory below %s: remove it by hand", volume.Name, p.directory)
	}
	return os.RemoveAll(volume.Spec.Local.Path)
}
