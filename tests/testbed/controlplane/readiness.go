package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fluxqueue/tests/testbed/component"
)

const probeTimeout = 2 * time.Second

// readiness returns a check that answers nil when the part of that name does the work that others
// rely on.
func (t *Testbed) readiness(name string) func(context.Context) error {
	switch name {
	case component.Etcd:
		return t.etcdListens
	case component.APIServer:
		return t.apiServerReady
	case component.ControllerManager:
		return t.accountsMade
	case nodesName:
		return t.nodesMade
	default:
		return func(context.Context) error { return nil }
	}
}

func (t *Testbed) etcdListens(context.Context) error {
	p, err := t.part(component.Etcd)
	if err != nil {
		return err
	}
	for _, arg := range p.args {
		if url, found := strings.CutPrefix(arg, "--listen-client-urls=http://"); found {
			conn, err := net.DialTimeout("tcp", url, probeTimeout)
			if err != nil {
				return err
			}
			return conn.Close()
		}
	}
	return errors.New("etcd has no client address")
}

func (t *Testbed) apiServerReady(ctx context.Context) error {
	client, _, err := Client(KubeconfigPath(t.options.Dir, adminName))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	answer, err := client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
	if err != nil {
		return fmt.Errorf("/readyz: %w: %s", err, answer)
	}
	return nil
}

// accountsMade answers nil when a pod can be created in the default namespace: the admission of pods wants the
// account, and what runs in a cluster wants the certificate.
func (t *Testbed) accountsMade(ctx context.Context) error {
	client, _, err := Client(KubeconfigPath(t.options.Dir, adminName))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	if _, err := client.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{}); err != nil {
		return err
	}
	_, err = client.CoreV1().ConfigMaps("default").Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
	return err
}

// nodesMade answers nil when the nodes part has made all nodes and seen each of them usable.
func (t *Testbed) nodesMade(context.Context) error {
	_, err := os.Stat(ReadyPath(t.options.Dir))
	return err
}
