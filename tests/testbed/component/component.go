// Package component runs the real parts of a control plane, each as this process, by name.
//
// Nothing is configured here: the arguments are those of the program of that name. Package
// controlplane decides which programs start, and with which arguments.
package component

import (
	"os"
	"slices"
	_ "time/tzdata" // CronJobs name time zones; the machine need not have them

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // the client's metrics, as in the programs themselves
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectlcmd "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

// The names of the programs.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
	Kubectl           = "kubectl"
)

// Is says whether name is a program that [Run] knows.
func Is(name string) bool {
	return slices.Contains([]string{Etcd, APIServer, ControllerManager, Scheduler, Kubectl}, name)
}

// Run runs the named program in this process until it ends, and returns its exit status.
func Run(name string, args []string) int {
	// The programs look at os.Args too: for their own name, and for what they treat before their flags are parsed.
	os.Args = append([]string{name}, args...)
	switch name {
	case Etcd:
		etcdmain.Main(os.Args)
		return 0
	case APIServer:
		return run(apiserver.NewAPIServerCommand(), args)
	case ControllerManager:
		return run(controllermanager.NewControllerManagerCommand(), args)
	case Scheduler:
		return run(scheduler.NewSchedulerCommand(), args)
	case Kubectl:
		if err := cli.RunNoErrOutput(kubectlcmd.NewDefaultKubectlCommand()); err != nil {
			kubectlutil.CheckErr(err)
		}
		return 0
	default:
		return 2
	}
}

func run(cmd *cobra.Command, args []string) int {
	cmd.SetArgs(args)
	return cli.Run(cmd)
}
