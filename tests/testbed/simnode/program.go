package simnode

import (
	"math"
	"path"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
)

// Annotations describe the containers of a pod. They come before the commands.
const (
	// RunSecondsAnnotation is after how many seconds all containers end. May have a fraction.
	RunSecondsAnnotation = "testbed/run-seconds"
	// ExitCodeAnnotation is the exit code of all containers.
	ExitCodeAnnotation = "testbed/exit-code"
	// StopSecondsAnnotation is how long the containers take to end when the pod is deleted, at most the pod's grace.
	StopSecondsAnnotation = "testbed/stop-seconds"
)

const (
	forever time.Duration = math.MaxInt64
	// brief is the run time of commands that do their work at once.
	brief = 200 * time.Millisecond
	// stopping is the time that a container takes to end on a signal, by default.
	stopping = 50 * time.Millisecond
)

// program is the behaviour of a container: it runs, and ends.
type program struct {
	run  time.Duration
	code int32
}

// containerProgram reads a container's command. A container without one runs the program of its
// image, which is not known here: it counts as a service, and runs for ever.
func containerProgram(c *v1.Container) program {
	words := append(append([]string{}, c.Command...), c.Args...)
	return commandProgram(words)
}

func commandProgram(words []string) program {
	if len(words) == 0 {
		return program{run: forever}
	}
	switch name := path.Base(words[0]); name {
	case "sh", "bash", "ash", "dash":
		for i, word := range words[1:] {
			if strings.HasPrefix(word, "-") && strings.HasSuffix(word, "c") && i+2 < len(words) {
				return scriptProgram(words[i+2])
			}
		}
		return program{run: forever}
	case "sleep":
		return program{run: sleepTime(words[1:])}
	case "exit":
		return program{run: brief, code: exitCode(words[1:])}
	case "false":
		return program{run: brief, code: 1}
	case "pause", "tail", "nginx", "httpd", "while", "until":
		return program{run: forever}
	default:
		return program{run: brief}
	}
}

// scriptProgram follows a shell script of simple commands one after the other: times add up, the last code counts,
// `exit` ends it, and a `while` never ends. It is no shell: conditions, functions and variables are not understood.
func scriptProgram(script string) program {
	total := program{}
	for _, line := range strings.FieldsFunc(script, func(r rune) bool { return r == ';' || r == '\n' || r == '&' }) {
		words := strings.Fields(line)
		if len(words) > 0 && words[0] == "exec" {
			words = words[1:]
		}
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		step := commandProgram(words)
		total.code = step.code
		if step.run == forever {
			return program{run: forever}
		}
		total.run += step.run
		if words[0] == "exit" {
			break
		}
	}
	return total
}

func exitCode(words []string) int32 {
	if len(words) == 0 {
		return 0
	}
	code, err := strconv.ParseUint(words[0], 10, 8)
	if err != nil {
		return 2 // as a shell answers to `exit nonsense`
	}
	return int32(code)
}

var sleepUnits = map[byte]float64{'s': 1, 'm': 60, 'h': 3600, 'd': 86400}

// sleepTime adds up the arguments of sleep(1). What sleep would refuse ends at once.
func sleepTime(words []string) time.Duration {
	total := time.Duration(0)
	for _, word := range words {
		word = strings.Trim(word, `"'`)
		if word == "infinity" || word == "inf" {
			return forever
		}
		unit := 1.0
		if n := len(word); n > 0 && sleepUnits[word[n-1]] > 0 {
			unit, word = sleepUnits[word[n-1]], word[:n-1]
		}
		total = addSeconds(total, word, unit)
	}
	return total
}

func addSeconds(total time.Duration, number string, unit float64) time.Duration {
	value, err := strconv.ParseFloat(number, 64)
	if err != nil || value < 0 || math.IsNaN(value) {
		return total
	}
	seconds := value*unit + total.Seconds()
	if seconds > float64(math.MaxInt64/int64(time.Second))/2 {
		return forever
	}
	return time.Duration(seconds * float64(time.Second))
}

// annotated applies a pod's annotations about its containers.
func annotated(pod *v1.Pod, p program) program {
	if text, found := pod.Annotations[RunSecondsAnnotation]; found {
		p.run = sleepTime([]string{text})
	}
	if text, found := pod.Annotations[ExitCodeAnnotation]; found {
		p.code = exitCode([]string{text})
	}
	return p
}

// stopTime is how long a deleted pod's containers still run.
func stopTime(pod *v1.Pod) time.Duration {
	text, found := pod.Annotations[StopSecondsAnnotation]
	if !found {
		return stopping
	}
	wanted := sleepTime([]string{text})
	if grace := pod.DeletionGracePeriodSeconds; grace != nil {
		return min(wanted, time.Duration(*grace)*time.Second)
	}
	return wanted
}
