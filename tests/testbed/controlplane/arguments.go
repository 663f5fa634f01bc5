package controlplane

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"fluxqueue/tests/testbed/component"
)

// nodesName is the part that simulates the nodes: this program's own `nodes` command.
const nodesName = "nodes"

const issuer = "https://kubernetes.default.svc"

func etcdArguments(dir string, clientPort, peerPort int) []string {
	client, peer := "http://"+loopback(clientPort), "http://"+loopback(peerPort)
	return []string{
		"--name=testbed",
		"--data-dir=" + filepath.Join(dir, "etcd"),
		"--listen-client-urls=" + client,
		"--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer,
		"--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=testbed=" + peer,
		"--quota-backend-bytes=8589934592",
		// The data is thrown away with the testbed, and must survive a killed process but not a crashed machine.
		"--unsafe-no-fsync",
		"--log-level=warn",
	}
}

func apiServerArguments(k keys, tokens string, port, etcdPort int) []string {
	return []string{
		"--bind-address=127.0.0.1",
		"--advertise-address=127.0.0.1",
		// The kubernetes Service refuses loopback endpoints, and nothing here would use them.
		"--endpoint-reconciler-type=none",
		fmt.Sprintf("--secure-port=%d", port),
		"--etcd-servers=http://" + loopback(etcdPort),
		"--tls-cert-file=" + k.servingCert,
		"--tls-private-key-file=" + k.servingKey,
		"--token-auth-file=" + tokens,
		"--authorization-mode=Node,RBAC",
		"--service-account-issuer=" + issuer,
		"--service-account-key-file=" + k.accountKey,
		"--service-account-signing-key-file=" + k.accountKey,
		"--service-cluster-ip-range=10.255.0.0/16",
		"--max-requests-inflight=4000",
		"--max-mutating-requests-inflight=2000",
		"--allow-privileged=true",
		"--profiling=false",
	}
}

func controllerManagerArguments(dir string, k keys) []string {
	return []string{
		"--kubeconfig=" + KubeconfigPath(dir, component.ControllerManager),
		"--secure-port=0",
		"--leader-elect=false",
		// Each controller is its own service account, so that it has the permissions of a real one, and
		// no more.
		"--use-service-account-credentials=true",
		"--service-account-private-key-file=" + k.accountKey,
		"--root-ca-file=" + k.caCert,
		"--kube-api-qps=1000",
		"--kube-api-burst=2000",
		"--concurrent-job-syncs=10",
		"--controllers=*",
		"--profiling=false",
	}
}

// schedulerArguments writes kube-scheduler's configuration too: its default, without the client's
// limits, which would otherwise be the thing that is measured.
func schedulerArguments(dir string) ([]string, error) {
	path := filepath.Join(dir, "kube-scheduler.yaml")
	config := fmt.Sprintf(`apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection:
  leaderElect: false
clientConnection:
  kubeconfig: %q
  qps: 10000
  burst: 10000
`, KubeconfigPath(dir, component.Scheduler))
	return []string{"--config=" + path, "--secure-port=0"}, os.WriteFile(path, []byte(config), 0o644)
}

// schedulingVersions are those of scheduling.k8s.io that have had PodGroups, the newest first.
var schedulingVersions = []string{"v1beta1", "v1alpha3", "v1alpha2"}

// workloadGates make the Job controller give each Job a Workload and a PodGroup, and name that in its pods; and let a PodGroup
// ask for one part of a level. Every part of the control plane knows these gates.
const workloadGates = "--feature-gates=GenericWorkload=true,WorkloadWithJob=true,TopologyAwareWorkloadScheduling=true"

// workloadAPIs make the API server serve PodGroups, in the newest version that this Kubernetes has.
func workloadAPIs() (string, error) {
	for _, version := range schedulingVersions {
		// The version v1beta1 is older than the PodGroups in it.
		kind := schema.GroupVersionKind{Group: "scheduling.k8s.io", Version: version, Kind: "PodGroup"}
		if scheme.Scheme.Recognizes(kind) {
			return "--runtime-config=scheduling.k8s.io/" + version + "=true", nil
		}
	}
	return "", errors.New("this Kubernetes has no PodGroups: --workload-with-job needs 1.36 or later")
}
