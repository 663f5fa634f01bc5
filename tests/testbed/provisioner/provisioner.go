// Package provisioner makes volumes for claims that say a node, as an external provisioner would, and can be told by each claim to be
// late, to give up, or to make the volume elsewhere.
package provisioner

import (
	"context"
	"fmt"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	selectedNode = "volume.kubernetes.io/selected-node"
	// delaySeconds is an annotation of a claim: its volume is made so long after a node was selected.
	delaySeconds = "testbed/provision-seconds"
	// behaviour is an annotation of a claim: "fail", "anywhere" for a volume that every node can use, or the name of the node where
	// the volume is made instead.
	behaviour = "testbed/provision"
	hostname  = "kubernetes.io/hostname"

	lookEvery = 100 * time.Millisecond
)

type provisioner struct {
	client *kubernetes.Clientset
	name   string
	// selected says since when the claim of a uid has named its node.
	selected map[types.UID]time.Time
}

// Run serves the StorageClasses that name this provisioner, until the context is done.
func Run(ctx context.Context, kubeconfig, name string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.QPS, config.Burst = 200, 200
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	p := &provisioner{client: client, name: name, selected: map[types.UID]time.Time{}}
	for ctx.Err() == nil {
		if err := p.look(ctx); err != nil {
			fmt.Println("provisioner:", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(lookEvery):
		}
	}
	return nil
}

func (p *provisioner) look(ctx context.Context) error {
	classes, err := p.client.StorageV1().StorageClasses().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	ours := map[string]bool{}
	for _, class := range classes.Items {
		ours[class.Name] = class.Provisioner == p.name
	}
	claims, err := p.client.CoreV1().PersistentVolumeClaims("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for at := range claims.Items {
		claim := &claims.Items[at]
		if claim.Spec.StorageClassName == nil || !ours[*claim.Spec.StorageClassName] || claim.Spec.VolumeName != "" {
			continue
		}
		node, ok := claim.Annotations[selectedNode]
		if !ok || claim.DeletionTimestamp != nil {
			delete(p.selected, claim.UID)
			continue
		}
		if _, known := p.selected[claim.UID]; !known {
			p.selected[claim.UID] = time.Now()
		}
		if err := p.serve(ctx, claim, node); err != nil {
			fmt.Println("provisioner:", claim.Namespace, claim.Name, err)
		}
	}
	return nil
}

func (p *provisioner) serve(ctx context.Context, claim *v1.PersistentVolumeClaim, node string) error {
	seconds, _ := strconv.ParseFloat(claim.Annotations[delaySeconds], 64)
	if time.Since(p.selected[claim.UID]) < time.Duration(seconds*float64(time.Second)) {
		return nil
	}
	switch instead := claim.Annotations[behaviour]; instead {
	case "":
		return p.make(ctx, claim, node)
	case "fail":
		// An external provisioner does this if it wants the pod to be scheduled again.
		changed := claim.DeepCopy()
		delete(changed.Annotations, selectedNode)
		_, err := p.client.CoreV1().PersistentVolumeClaims(claim.Namespace).Update(ctx, changed, metav1.UpdateOptions{})
		return err
	case "anywhere":
		return p.make(ctx, claim, "")
	default:
		return p.make(ctx, claim, instead)
	}
}

// make makes a volume on this node's disk, or one that every node can use if it is "", and leaves binding it to the controller.
func (p *provisioner) make(ctx context.Context, claim *v1.PersistentVolumeClaim, node string) error {
	path := v1.HostPathVolumeSource{Path: "/volumes/" + string(claim.UID)}
	var affinity *v1.VolumeNodeAffinity
	if node != "" {
		there := v1.NodeSelectorRequirement{Key: hostname, Operator: v1.NodeSelectorOpIn, Values: []string{node}}
		affinity = &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{
			NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{there}}},
		}}
	}
	volume := &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name:        "pvc-" + string(claim.UID),
			Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": p.name},
		},
		Spec: v1.PersistentVolumeSpec{
			AccessModes:                   claim.Spec.AccessModes,
			Capacity:                      v1.ResourceList{v1.ResourceStorage: claim.Spec.Resources.Requests[v1.ResourceStorage]},
			ClaimRef:                      &v1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID},
			PersistentVolumeReclaimPolicy: v1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource:        v1.PersistentVolumeSource{HostPath: &path},
			StorageClassName:              *claim.Spec.StorageClassName,
			NodeAffinity:                  affinity,
		},
	}
	_, err := p.client.CoreV1().PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{})
	if errors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
