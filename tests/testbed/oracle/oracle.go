// Package oracle computes, by kube-scheduler's own plugins, which nodes of a made-up cluster take a
// pod, and why the others do not. It reads one cluster a line as JSON, with the pods of its
// questions, and writes one line of answers for each.
package oracle

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// lineBytesMax bounds one cluster.
const lineBytesMax = 256 << 20

// Cluster is a cluster with the questions about it.
type Cluster struct {
	Namespaces []*v1.Namespace `json:"namespaces"`
	Nodes      []*v1.Node      `json:"nodes"`
	Storage    Storage         `json:"storage"`
	// Pods are on nodes already: spec.nodeName says where. Those without are nominated to one: status.nominatedNodeName does.
	Pods      []*v1.Pod  `json:"pods"`
	Questions []Question `json:"questions"`
}

// Question asks where a pod may go. With Then, the pod is put on that node before the next question.
type Question struct {
	Pod  *v1.Pod `json:"pod"`
	Then string  `json:"then"`
	// Scores says that the nodes that pass are to be scored.
	Scores bool `json:"scores"`
}

// Answer is what kube-scheduler would find.
type Answer struct {
	// Passing are the nodes that take the pod, with their weighted scores by plugin if the question
	// asks for them.
	Passing map[string]map[string]int64 `json:"passing"`
	// Rejected are the nodes that some plugin has looked at and rejected, with all its reasons.
	Rejected map[string][]string `json:"rejected"`
	// Text is what kube-scheduler would write if no node takes the pod, "" otherwise.
	Text string `json:"text"`
}

// Run answers until there are no more lines.
func Run(ctx context.Context, in io.Reader, out io.Writer) error {
	scheduler, err := newScheduler(ctx)
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, lineBytesMax)
	answers := json.NewEncoder(out)
	for number := 1; lines.Scan(); number++ {
		var cluster Cluster
		if err := json.Unmarshal(lines.Bytes(), &cluster); err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
		answered, err := scheduler.answer(ctx, &cluster)
		if err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
		if err := answers.Encode(answered); err != nil {
			return err
		}
	}
	return lines.Err()
}

func (s *scheduler) answer(ctx context.Context, cluster *Cluster) ([]Answer, error) {
	if err := s.setNamespaces(cluster.Namespaces); err != nil {
		return nil, err
	}
	if err := s.setStorage(&cluster.Storage); err != nil {
		return nil, err
	}
	var pods, nominated []*v1.Pod
	for _, pod := range cluster.Pods {
		if pod.Spec.NodeName == "" {
			nominated = append(nominated, pod)
		} else {
			pods = append(pods, pod)
		}
	}
	if err := s.nominator.set(nominated); err != nil {
		return nil, err
	}
	s.lister.SharedLister = cache.NewSnapshot(pods, cluster.Nodes)
	answers := make([]Answer, 0, len(cluster.Questions))
	for at, question := range cluster.Questions {
		answer, err := s.ask(ctx, question)
		if err != nil {
			return nil, fmt.Errorf("question %d: %w", at, err)
		}
		answers = append(answers, *answer)
		if question.Then != "" {
			placed := question.Pod.DeepCopy()
			placed.Spec.NodeName = question.Then
			pods = append(pods, placed)
			s.lister.SharedLister = cache.NewSnapshot(pods, cluster.Nodes)
		}
	}
	return answers, nil
}

// ask does what kube-scheduler does in a scheduling cycle, on all nodes.
func (s *scheduler) ask(ctx context.Context, question Question) (*Answer, error) {
	pod, state := question.Pod, framework.NewCycleState()
	nodes, err := s.lister.NodeInfos().List()
	if err != nil {
		return nil, err
	}
	answer := &Answer{Passing: map[string]map[string]int64{}, Rejected: map[string][]string{}}
	found := framework.FitError{Pod: pod, NumAllNodes: len(nodes)}
	found.Diagnosis.NodeToStatus = framework.NewDefaultNodeToStatus()
	only, status, plugins := s.framework.RunPreFilterPlugins(ctx, state, pod)
	switch {
	case status.IsRejected():
		found.Diagnosis.PreFilterMsg = status.Message()
		answer.Text = found.Error()
		for _, node := range nodes {
			answer.Rejected[node.Node().Name] = status.Reasons()
		}
		return answer, nil
	case !status.IsSuccess():
		return nil, status.AsError()
	case !only.AllNodes():
		absent := fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", sets.List(plugins))
		found.Diagnosis.NodeToStatus.SetAbsentNodesStatus(fwk.NewStatus(fwk.UnschedulableAndUnresolvable, absent))
	}
	var passing []fwk.NodeInfo
	for _, node := range nodes {
		name := node.Node().Name
		if !only.AllNodes() && !only.NodeNames.Has(name) {
			answer.Rejected[name] = found.Diagnosis.NodeToStatus.AbsentNodesStatus().Reasons()
			continue
		}
		status := s.framework.RunFilterPluginsWithNominatedPods(ctx, state, pod, node)
		switch {
		case status.IsSuccess():
			answer.Passing[name] = nil
			passing = append(passing, node)
		case status.IsRejected():
			answer.Rejected[name] = status.Reasons()
			found.Diagnosis.NodeToStatus.Set(name, status)
		default:
			return nil, status.AsError()
		}
	}
	if len(passing) == 0 {
		answer.Text = found.Error()
	} else if question.Scores {
		return answer, s.score(ctx, state, pod, passing, answer)
	}
	return answer, nil
}

func (s *scheduler) score(
	ctx context.Context, state fwk.CycleState, pod *v1.Pod, passing []fwk.NodeInfo, answer *Answer,
) error {
	if status := s.framework.RunPreScorePlugins(ctx, state, pod, passing); !status.IsSuccess() {
		return status.AsError()
	}
	scores, status := s.framework.RunScorePlugins(ctx, state, pod, passing)
	if !status.IsSuccess() {
		return status.AsError()
	}
	for _, node := range scores {
		byPlugin := make(map[string]int64, len(node.Scores))
		for _, score := range node.Scores {
			byPlugin[score.Name] = score.Score
		}
		answer.Passing[node.Name] = byPlugin
	}
	return nil
}
