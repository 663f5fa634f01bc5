// Package wire compares the fields that Fluxqueue reads of Kubernetes' binary encoding with the definitions of that
// encoding, in each supported version: Fluxqueue writes the numbers out by hand, and a wrong one is no error, but another
// field.
package wire

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// messagesFile has the messages as Fluxqueue reads them.
const messagesFile = "../../../scheduler/kube/protobuf/messages.rs"

// modfiles are those of the supported versions; tests/testbed/Makefile lists them too.
var modfiles = map[string]string{"1.37": "go.mod", "1.36": "kubernetes-1.36.mod", "1.35": "kubernetes-1.35.mod"}

// definitions say where the messages of a package are defined: in which module, and in which directory of it.
var definitions = map[string][2]string{
	"runtime":  {"k8s.io/apimachinery", "pkg/runtime"},
	"resource": {"k8s.io/apimachinery", "pkg/api/resource"},
	"meta.v1":  {"k8s.io/apimachinery", "pkg/apis/meta/v1"},
	"core.v1":  {"k8s.io/api", "core/v1"},
}

// versionsOf are the versions that have a field which not all of them have.
var versionsOf = map[string]string{
	"core.v1.PodSpec.workloadRef":             "1.35",
	"core.v1.WorkloadReference.name":          "1.35",
	"core.v1.PodSpec.schedulingGroup":         "1.36 1.37",
	"core.v1.PodSchedulingGroup.podGroupName": "1.36 1.37",
}

// field is one of a message: its number, and its type as a definition has it, without `optional`.
type field struct {
	number, kind string
}

// ours is a message as Fluxqueue reads it. It may stand for several that are alike where they are read.
type ours struct {
	standsFor []string
	fields    map[string]field // by the name in the definition
}

var (
	messageDoc = regexp.MustCompile("`([a-z0-9]+(?:\\.v[0-9]+)?\\.[A-Z][A-Za-z]*)`")
	fieldDoc   = regexp.MustCompile("^`([a-zA-Z]+)`$")
	attribute  = regexp.MustCompile(`^#\[prost\((.*), tag = "(\d+)"\)\]$`)
	member     = regexp.MustCompile(`^pub\(crate\) (?:r#)?([a-z_]+): (.*),$`)
	generic    = regexp.MustCompile(`^(?:Option|Vec)<(.*)>$`)
)

// read reads the messages of Fluxqueue. Whatever it does not understand is an error.
func read(t *testing.T, source string) map[string]*ours {
	t.Helper()
	messages := map[string]*ours{}
	var message *ours
	var docs []string
	var kind, number string
	for at, line := range strings.Split(source, "\n") {
		line = strings.TrimSpace(line)
		where := fmt.Sprintf("%s:%d: %s", messagesFile, at+1, line)
		switch {
		case strings.HasPrefix(line, "///"):
			docs = append(docs, strings.TrimSpace(strings.TrimPrefix(line, "///")))
			continue
		case strings.HasPrefix(line, "#[derive("):
			continue
		case strings.HasPrefix(line, "pub(crate) struct "):
			name, _, _ := strings.Cut(strings.TrimPrefix(line, "pub(crate) struct "), " ")
			message = &ours{fields: map[string]field{}}
			for _, found := range messageDoc.FindAllStringSubmatch(strings.Join(docs, " "), -1) {
				message.standsFor = append(message.standsFor, found[1])
			}
			messages[name] = message
		case strings.HasPrefix(line, "#[prost("):
			parts := attribute.FindStringSubmatch(line)
			if parts == nil || message == nil || kind != "" {
				t.Fatalf("not understood: %s", where)
			}
			kind, number = parts[1], parts[2]
			continue
		case kind != "":
			parts := member.FindStringSubmatch(line)
			if parts == nil {
				t.Fatalf("not understood: %s", where)
			}
			name := camelCase(parts[1])
			for _, doc := range docs {
				if found := fieldDoc.FindStringSubmatch(doc); found != nil {
					name = found[1]
				}
			}
			message.fields[name] = field{number: number, kind: typeOf(kind, parts[2])}
			kind, number = "", ""
		}
		docs = nil
	}
	return messages
}

func camelCase(name string) string {
	words := strings.Split(name, "_")
	for at, word := range words[1:] {
		words[at+1] = strings.ToUpper(word[:1]) + word[1:]
	}
	return strings.Join(words, "")
}

// typeOf is the type of a field as a definition has it, with Rust names of messages.
func typeOf(kind, rust string) string {
	words := strings.Split(kind, ", ")
	repeated := ""
	if words[len(words)-1] == "repeated" {
		repeated = "repeated "
	}
	switch first, _, _ := strings.Cut(words[0], " "); first {
	case "btree_map":
		key, value, _ := strings.Cut(strings.TrimSuffix(strings.SplitN(kind, "\"", 3)[1], "\""), ", ")
		if value == "message" {
			value = "Quantity"
		}
		return "map<" + key + ", " + value + ">"
	case "message":
		if inner := generic.FindStringSubmatch(rust); inner != nil {
			rust = inner[1]
		}
		return repeated + rust
	default:
		return repeated + first
	}
}

var (
	defined     = regexp.MustCompile(`^message (\w+) \{$`)
	definedPart = regexp.MustCompile(`^(?:optional )?((?:repeated )?(?:map<.*>|[\w.]+)) (\w+) = (\d+);$`)
)

// define reads a definition: the fields of each message, by name.
func define(t *testing.T, path string) map[string]map[string]field {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	messages := map[string]map[string]field{}
	var message string
	for _, line := range strings.Split(string(content), "\n") {
		line = strings.TrimSpace(line)
		if found := defined.FindStringSubmatch(line); found != nil {
			message = found[1]
			messages[message] = map[string]field{}
		} else if found := definedPart.FindStringSubmatch(line); found != nil && message != "" {
			messages[message][found[2]] = field{number: found[3], kind: found[1]}
		}
	}
	return messages
}

// moduleDir is where a module is, in the version of a modfile.
func moduleDir(t *testing.T, modfile, module string) string {
	t.Helper()
	command := exec.Command("go", "mod", "download", "-json", "-modfile="+modfile, module)
	command.Dir, command.Stderr = "..", os.Stderr
	output, err := command.Output()
	if err != nil {
		t.Fatalf("%s of %s: %v", module, modfile, err)
	}
	var found struct{ Dir string }
	if err := json.Unmarshal(output, &found); err != nil {
		t.Fatal(err)
	}
	return found.Dir
}

// is says whether a type of ours is the one of a definition.
func is(read, theirs string, messages map[string]*ours) bool {
	if read == theirs {
		return true
	}
	prefix, name := "", read
	for _, of := range []string{"repeated ", "map<string, "} {
		if rest, found := strings.CutPrefix(read, of); found {
			prefix, name = of, strings.TrimSuffix(rest, ">")
		}
	}
	rest, found := strings.CutPrefix(theirs, prefix)
	if !found {
		return false
	}
	rest = strings.TrimSuffix(rest, ">")
	last := rest[strings.LastIndex(rest, ".")+1:]
	if name == "Presence" {
		return last[:1] == strings.ToUpper(last[:1])
	}
	known := messages[name]
	if known == nil {
		return false
	}
	for _, standsFor := range known.standsFor {
		if standsFor[strings.LastIndex(standsFor, ".")+1:] == last {
			return true
		}
	}
	return false
}

// compare says how a message of ours differs from one that it stands for.
func compare(version, name string, message *ours, theirs map[string]field, messages map[string]*ours) []string {
	var differences []string
	for fieldName, read := range message.fields {
		full := name + "." + fieldName
		there, found := theirs[fieldName]
		if versions, limited := versionsOf[full]; limited && !strings.Contains(versions, version) {
			if found {
				differences = append(differences, fmt.Sprintf("%s: %s has it, too", full, version))
			}
			for other, taken := range theirs {
				if taken.number == read.number {
					differences = append(differences, fmt.Sprintf("%s: number %s is %s in %s", full, read.number, other, version))
				}
			}
			continue
		}
		switch {
		case !found:
			differences = append(differences, fmt.Sprintf("%s: %s has no such field", full, version))
		case there.number != read.number:
			differences = append(differences, fmt.Sprintf("%s: number %s is read, and it is %s in %s", full, read.number, there.number, version))
		case !is(read.kind, there.kind, messages):
			differences = append(differences, fmt.Sprintf("%s: %s is read, and it is %s in %s", full, read.kind, there.kind, version))
		}
	}
	return differences
}

func TestFieldsHaveTheNumbersOfEachSupportedVersion(t *testing.T) {
	source, err := os.ReadFile(messagesFile)
	if err != nil {
		t.Fatal(err)
	}
	messages := read(t, string(source))
	for version, modfile := range modfiles {
		compared := 0
		known := map[string]map[string]map[string]field{}
		for name, message := range messages {
			if len(message.standsFor) == 0 && name != "Presence" {
				t.Errorf("%s: its documentation names no message of Kubernetes", name)
			}
			for _, full := range message.standsFor {
				dot := strings.LastIndex(full, ".")
				definition, found := definitions[full[:dot]]
				if !found {
					t.Fatalf("%s: no package %s", name, full[:dot])
				}
				if known[full[:dot]] == nil {
					dir := moduleDir(t, modfile, definition[0])
					known[full[:dot]] = define(t, filepath.Join(dir, definition[1], "generated.proto"))
				}
				theirs, found := known[full[:dot]][full[dot+1:]]
				limited := false
				for fieldName := range message.fields {
					versions, isLimited := versionsOf[full+"."+fieldName]
					limited = limited || isLimited && !strings.Contains(versions, version)
				}
				if !found && !limited {
					t.Errorf("%s: %s has no such message", full, version)
					continue
				}
				for _, difference := range compare(version, full, message, theirs, messages) {
					t.Error(difference)
				}
				compared += len(message.fields)
			}
		}
		t.Logf("%s: %d fields", version, compared)
		if compared < 150 {
			t.Errorf("%s: only %d fields were compared", version, compared)
		}
	}
}

// Each of these differs in one thing from the message above it.
func TestDifferencesAreFound(t *testing.T) {
	messages := read(t, strings.Join([]string{
		"/// `core.v1.Thing`", "#[derive(Message)]", "pub(crate) struct Thing {",
		`#[prost(string, tag = "1")]`, "pub(crate) some_name: String,",
		`#[prost(message, repeated, tag = "2")]`, "pub(crate) parts: Vec<Thing>,",
		"/// `longName`", `#[prost(btree_map = "string, message", tag = "3")]`, "pub(crate) short: Quantities,",
		"}", "/// `resource.Quantity`", "pub(crate) struct Quantity {", "}",
	}, "\n"))
	right := func() map[string]field {
		return map[string]field{
			"someName": {"1", "string"},
			"parts":    {"2", "repeated .k8s.io.api.core.v1.Thing"},
			"longName": {"3", "map<string, .k8s.io.apimachinery.pkg.api.resource.Quantity>"},
		}
	}
	if differences := compare("1.37", "core.v1.Thing", messages["Thing"], right(), messages); len(differences) > 0 {
		t.Errorf("nothing differs: %q", differences)
	}
	for name, wrong := range map[string]field{
		"someName": {"4", "string"},
		"parts":    {"2", ".k8s.io.api.core.v1.Thing"},
		"longName": {"3", "map<string, string>"},
	} {
		theirs := right()
		theirs[name] = wrong
		if len(compare("1.37", "core.v1.Thing", messages["Thing"], theirs, messages)) != 1 {
			t.Errorf("%s: that it is %v is not found", name, wrong)
		}
		delete(theirs, name)
		if len(compare("1.37", "core.v1.Thing", messages["Thing"], theirs, messages)) != 1 {
			t.Errorf("%s: that it is missing is not found", name)
		}
	}
}
