package controlplane

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// user is the identity of a part for the API server. It uses tokens from a file, rather than client
// certificates, because the API server verifies a certificate's chain for each request, which would
// show in the measurements.
type user struct {
	name   string // also of its kubeconfig file
	id     string
	groups string
}

const adminName = "admin"

var users = []user{
	{adminName, "testbed-admin", "system:masters"},
	{"kube-controller-manager", "system:kube-controller-manager", ""},
	{"kube-scheduler", "system:kube-scheduler", ""},
	// One process speaks for all kubelets, so the Node authorizer, which knows one node per user, cannot judge it.
	{nodesName, "testbed-nodes", "system:masters"},
}

// KubeconfigPath is where the kubeconfig of a user of the testbed in dir is.
func KubeconfigPath(dir, name string) string { return filepath.Join(dir, name+".kubeconfig") }

// writeAccess writes the token file and a kubeconfig for each user, and returns the token file's path.
func writeAccess(dir, server string, k keys) (string, error) {
	var lines strings.Builder
	for _, u := range users {
		token := randomToken()
		fmt.Fprintf(&lines, "%s,%s,%s", token, u.id, u.id)
		if u.groups != "" {
			fmt.Fprintf(&lines, ",%q", u.groups)
		}
		lines.WriteByte('\n')
		ca, err := os.ReadFile(k.caCert)
		if err != nil {
			return "", err
		}
		if err := writeKubeconfig(KubeconfigPath(dir, u.name), server, ca, token, "default"); err != nil {
			return "", err
		}
	}
	path := filepath.Join(dir, "tokens.csv")
	return path, os.WriteFile(path, []byte(lines.String()), 0o600)
}

func writeKubeconfig(path, server string, ca []byte, token, namespace string) error {
	config := clientcmdapi.NewConfig()
	config.Clusters["testbed"] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: ca}
	config.AuthInfos["testbed"] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts["testbed"] = &clientcmdapi.Context{Cluster: "testbed", AuthInfo: "testbed", Namespace: namespace}
	config.CurrentContext = "testbed"
	return clientcmd.WriteToFile(*config, path)
}

// Client returns a client without a rate limit, and its configuration, for the kubeconfig at path.
func Client(path string) (*kubernetes.Clientset, *rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, nil, fmt.Errorf("reading kubeconfig %s: %w", path, err)
	}
	config.QPS = -1
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	client, err := kubernetes.NewForConfig(config)
	return client, config, err
}

// tokenLifeSeconds is longer than any test runs.
const tokenLifeSeconds = 24 * 60 * 60

// AccountKubeconfig writes a kubeconfig to path with which a program is the given service account, and no more.
func AccountKubeconfig(ctx context.Context, dir, namespace, account, path string) error {
	client, config, err := Client(KubeconfigPath(dir, adminName))
	if err != nil {
		return err
	}
	request := &authenticationv1.TokenRequest{}
	life := int64(tokenLifeSeconds)
	request.Spec.ExpirationSeconds = &life
	answer, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, account, request, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("asking for a token of service account %s/%s: %w", namespace, account, err)
	}
	return writeKubeconfig(path, config.Host, config.CAData, answer.Status.Token, namespace)
}
