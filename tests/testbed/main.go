// Command testbed is a Kubernetes control plane for tests, in one program: etcd, API server, controllers,
// kube-scheduler and kubectl are the real ones, and nodes are simulated. See README.md.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"fluxqueue/tests/testbed/bench"
	"fluxqueue/tests/testbed/component"
	"fluxqueue/tests/testbed/controlplane"
	"fluxqueue/tests/testbed/e2e"
	"fluxqueue/tests/testbed/oracle"
	"fluxqueue/tests/testbed/provisioner"
	"fluxqueue/tests/testbed/simnode"
)

const usage = `usage: testbed COMMAND [flags]

  up            start a control plane with simulated nodes, and keep it until told to stop
  start, stop, kill, restart
                do that to one part of a running testbed: --dir D PART
  refusals      print how many pods the simulated kubelets of a running testbed refused
  bench         measure how fast pods are bound, and print a table
  e2e           run specs of Kubernetes' own suite with kube-scheduler and with Fluxqueue, and print a table
  kubeconfig    write a kubeconfig for a service account
  oracle        answer which nodes take a pod, by kube-scheduler's plugins: clusters as JSON on stdin, one a line
  provisioner   make volumes for claims that name a node: --dir D --name PROVISIONER
  nodes         the simulated nodes (started by up)
  etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubectl
                the program of that name, with its own flags
`

func main() {
	if len(os.Args) < 2 {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	controlplane.DieWithParent()
	name, args := os.Args[1], os.Args[2:]
	if component.Is(name) {
		os.Exit(component.Run(name, args))
	}
	if err := command(name, args); err != nil {
		fmt.Fprintln(os.Stderr, "testbed:", err)
		os.Exit(1)
	}
}

func command(name string, args []string) error {
	flags := flag.NewFlagSet("testbed "+name, flag.ExitOnError)
	dir := flags.String("dir", "", "directory of the testbed (required)")
	switch name {
	case "up":
		return up(flags, dir, args)
	case "start", "stop", "kill", "restart":
		if err := parse(flags, args, dir); err != nil {
			return err
		}
		if flags.NArg() != 1 {
			return fmt.Errorf("%s: one part is wanted, not %q", name, flags.Args())
		}
		return controlplane.Control(*dir, name, flags.Arg(0))
	case "refusals":
		return refusals(flags, dir, args)
	case "bench":
		return measure(flags, dir, args)
	case "e2e":
		return compare(flags, dir, args)
	case "kubeconfig":
		return kubeconfig(flags, dir, args)
	case "nodes":
		return nodes(flags, dir, args)
	case "provisioner":
		return provision(flags, dir, args)
	case "oracle":
		return oracle.Run(context.Background(), os.Stdin, os.Stdout)
	default:
		fmt.Fprint(os.Stderr, usage)
		return fmt.Errorf("no command %q", name)
	}
}

func parse(flags *flag.FlagSet, args []string, dir *string) error {
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *dir == "" {
		return fmt.Errorf("%s: --dir is required", flags.Name())
	}
	return nil
}

func up(flags *flag.FlagSet, dir *string, args []string) error {
	nodes := flags.String("nodes", "", "node file")
	scheduler := flags.Bool("kube-scheduler", false, "run kube-scheduler")
	noKubelets := flags.Bool("no-kubelets", false, "do not simulate kubelets: bound pods stay pending")
	noControllers := flags.Bool("no-controllers", false, "do not run kube-controller-manager")
	outlive := flags.Bool("outlive-parent", false, "go on when the process that started this one is gone")
	verbosity := flags.Int("v", 0, "verbosity of the components' logs")
	workloads := flags.Bool("workload-with-job", false, workloadUsage)
	if err := parse(flags, args, dir); err != nil {
		return err
	}
	if flags.NArg() != 0 {
		return fmt.Errorf("up: unexpected arguments %q", flags.Args())
	}
	if *nodes != "" {
		// A mistake in the file is reported before anything is started.
		if _, err := simnode.ReadFile(*nodes); err != nil {
			return err
		}
	}
	return controlplane.Up(controlplane.Options{
		Dir: *dir, Nodes: *nodes, Scheduler: *scheduler, Kubelets: !*noKubelets, Controllers: !*noControllers,
		OutliveParent: *outlive, Verbosity: *verbosity, Workloads: *workloads,
	})
}

func nodes(flags *flag.FlagSet, dir *string, args []string) error {
	file := flags.String("file", "", "node file, read again on SIGHUP")
	create := flags.Bool("create", false, "make the nodes of the file now")
	kubelets := flags.Bool("kubelets", true, "simulate kubelets")
	untaint := flags.Bool("untaint", false, "take the not-ready taint from new nodes, where no controller does")
	if err := parse(flags, args, dir); err != nil {
		return err
	}
	client, _, err := controlplane.Client(controlplane.KubeconfigPath(*dir, "nodes"))
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	return simnode.Run(ctx, client, simnode.Options{
		File: *file, Create: *create, Kubelets: *kubelets, Untaint: *untaint,
		Refusals: controlplane.RefusalsPath(*dir), Ready: controlplane.ReadyPath(*dir),
	})
}

func refusals(flags *flag.FlagSet, dir *string, args []string) error {
	if err := parse(flags, args, dir); err != nil {
		return err
	}
	content, err := os.ReadFile(controlplane.RefusalsPath(*dir))
	if err != nil {
		return err
	}
	fmt.Println(strings.Count(string(content), "\n"))
	return nil
}

func kubeconfig(flags *flag.FlagSet, dir *string, args []string) error {
	namespace := flags.String("namespace", "default", "namespace of the service account")
	account := flags.String("serviceaccount", "default", "name of the service account")
	output := flags.String("output", "", "file to write (required)")
	if err := parse(flags, args, dir); err != nil {
		return err
	}
	if *output == "" {
		return fmt.Errorf("%s: --output is required", flags.Name())
	}
	return controlplane.AccountKubeconfig(context.Background(), *dir, *namespace, *account, *output)
}

func measure(flags *flag.FlagSet, dir *string, args []string) error {
	options := bench.Options{Progress: os.Stderr}
	flags.StringVar(&options.Nodes, "nodes", "nodes/bench.yaml", "node file")
	flags.StringVar(&options.Fluxqueue, "fluxqueue", "", "Fluxqueue's binary; without it, its rows are left out")
	flags.StringVar(&options.Namespace, "namespace", "default", "namespace of Fluxqueue's service account")
	flags.StringVar(&options.Account, "serviceaccount", "", "Fluxqueue's service account; without it, it is the administrator")
	flags.IntVar(&options.Rounds, "rounds", 4, "how often each row is measured")
	flags.IntVar(&options.Pods, "pods", 5000, "pods in each row")
	flags.IntVar(&options.RestartPods, "restart-pods", 20000, "pods that run while schedulers are restarted")
	flags.IntVar(&options.GangSize, "gang-size", 200, "pods in each gang")
	flags.BoolVar(&options.Jobs, "gang-jobs", false, "gangs are Jobs, not bare pods with group labels")
	flags.IntVar(&options.InFlight, "in-flight", 48, "bare Binding requests at a time")
	flags.Func("install", installUsage, appendTo(&options.Install))
	flags.BoolVar(&options.Workloads, "workload-with-job", false, workloadUsage)
	only := flags.String("rows", "", "which rows, by comma: bindings,kube-scheduler,fluxqueue,fluxqueue-gangs,restart")
	if err := parse(flags, args, dir); err != nil {
		return err
	}
	if *only != "" {
		options.Only = strings.Split(*only, ",")
	}
	if options.Rounds < 1 {
		return fmt.Errorf("--rounds %d: must be at least 1", options.Rounds)
	}
	options.Dir = *dir
	return whileWanted(func(ctx context.Context) error { return bench.Run(ctx, options, os.Stdout) })
}

func compare(flags *flag.FlagSet, dir *string, args []string) error {
	options := e2e.Options{Progress: os.Stderr}
	flags.StringVar(&options.Suite, "suite", "", "upstream's e2e.test (required)")
	flags.StringVar(&options.Focus, "focus", `\[sig-scheduling\]`, "regular expression of the specs that are run")
	flags.StringVar(&options.Skip, "skip", "", "regular expression of those that are left out")
	flags.DurationVar(&options.SpecTimeout, "spec-timeout", 10*time.Minute, "how long a spec may take")
	flags.StringVar(&options.Nodes, "nodes", "nodes/e2e.yaml", "node file")
	flags.StringVar(&options.Fluxqueue, "fluxqueue", "", "Fluxqueue's binary (required)")
	flags.StringVar(&options.Namespace, "namespace", "default", "namespace of Fluxqueue's service account")
	flags.StringVar(&options.Account, "serviceaccount", "", "Fluxqueue's service account; without it, it is the administrator")
	flags.Func("install", installUsage, appendTo(&options.Install))
	flags.Func("flag", "flag of Fluxqueue; may be repeated", appendTo(&options.Flags))
	flags.BoolVar(&options.Workloads, "workload-with-job", false, workloadUsage)
	if err := parse(flags, args, dir); err != nil {
		return err
	}
	if options.Suite == "" || options.Fluxqueue == "" {
		return fmt.Errorf("%s: --suite and --fluxqueue are required", flags.Name())
	}
	options.Dir = *dir
	return whileWanted(func(ctx context.Context) error { return e2e.Run(ctx, options, os.Stdout) })
}

const workloadUsage = "the Job controller gives each Job a Workload and a PodGroup (gates GenericWorkload and WorkloadWithJob), which may ask for a level (TopologyAwareWorkloadScheduling)"

const installUsage = "manifest or kustomization directory to apply first; may be repeated"

func appendTo(list *[]string) func(string) error {
	return func(value string) error {
		*list = append(*list, value)
		return nil
	}
}

// whileWanted runs until it is done, or this program or the one that started it is to end.
func whileWanted(run func(ctx context.Context) error) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := controlplane.StopWithParent(stop); err != nil {
		return err
	}
	return run(ctx)
}

func provision(flags *flag.FlagSet, dir *string, args []string) error {
	name := flags.String("name", "testbed/provisioner", "the provisioner that StorageClasses name")
	if err := parse(flags, args, dir); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	return provisioner.Run(ctx, filepath.Join(*dir, "admin.kubeconfig"), *name)
}
