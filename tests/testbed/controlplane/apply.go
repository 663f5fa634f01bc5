package controlplane

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Apply applies manifests, and directories with a kustomization, in their order.
func (t *Testbed) Apply(ctx context.Context, paths ...string) error {
	executable, err := os.Executable()
	if err != nil {
		return err
	}
	for _, path := range paths {
		flag := "-f"
		if _, err := os.Stat(filepath.Join(path, "kustomization.yaml")); err == nil {
			flag = "-k"
		}
		cmd := exec.CommandContext(ctx, executable, "kubectl", "--kubeconfig", t.Kubeconfig(), "apply", "--server-side", flag, path)
		if output, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("applying %s: %w:\n%s", path, err, output)
		}
	}
	return nil
}
