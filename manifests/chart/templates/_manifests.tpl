{{/*
The text of a file of manifests. It takes a dict with root, and file, such as base/rbac.
Wherever the manifests say fluxqueue-system they mean the namespace that Fluxqueue is installed in; system:masters is the group that
the policies except, and ['fluxqueue'] the list of names that Fluxqueue serves.
*/}}
{{- define "fluxqueue.text" -}}
{{- $path := printf "files/%s.yaml" .file -}}
{{- $text := .root.Files.Get $path -}}
{{- if not $text }}{{ fail (printf "%s is missing from this chart" $path) }}{{ end -}}
{{- $namespace := .root.Release.Namespace -}}
{{- if not (regexMatch "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$" $namespace) }}
{{- fail (printf "namespace: %q is no name of a namespace" $namespace) }}
{{- end -}}
{{- $text = replace "fluxqueue-system" $namespace $text -}}
{{- $text = replace "system:masters" .root.Values.policies.breakGlassGroup $text -}}
{{- with .root.Values.settings.schedulerNames }}{{ $text = replace "['fluxqueue']" (toJson .) $text }}{{ end -}}
{{- $text -}}
{{- end -}}

{{/*
An object as a YAML document, with the labels that kustomization.yaml adds and those of values. It takes a dict with root and object;
plain, if kustomization.yaml adds no labels; and annotations, besides those of values.
*/}}
{{- define "fluxqueue.object" -}}
{{- $metadata := .object.metadata -}}
{{- $labels := dict "app.kubernetes.io/name" "fluxqueue" "app.kubernetes.io/part-of" "fluxqueue" -}}
{{- if .plain }}{{ $labels = dict }}{{ end -}}
{{- with merge (dict) $labels (default (dict) $metadata.labels) .root.Values.labels }}{{ $_ := set $metadata "labels" . }}{{ end -}}
{{- with merge (dict) (default (dict) .annotations) (default (dict) $metadata.annotations) .root.Values.annotations }}
{{- $_ := set $metadata "annotations" . }}
{{- end }}
---
{{ toYaml .object }}
{{- end -}}

{{/*
The objects of a file of manifests as YAML documents. It takes a dict with root and file; plain and annotations, as fluxqueue.object does;
kind and name, to have only the objects of that kind or name.
*/}}
{{- define "fluxqueue.objects" -}}
{{- $dict := . -}}
{{- range regexSplit "(?m)^---$" (include "fluxqueue.text" .) -1 }}
{{- $object := fromYaml . }}
{{- if hasKey $object "Error" }}{{ fail (printf "%s: %s" $dict.file $object.Error) }}{{ end }}
{{- $is_kind := or (not (hasKey $dict "kind")) (eq $object.kind (get $dict "kind")) }}
{{- $is_name := or (not (hasKey $dict "name")) (eq $object.metadata.name (get $dict "name")) }}
{{- if and $is_kind $is_name }}
{{- include "fluxqueue.object" (merge (dict "object" $object) (pick $dict "root" "plain" "annotations")) }}
{{- end }}
{{- end }}
{{- end -}}

{{/*
The text of a file for Prometheus or Grafana, as it stands. It takes a dict with root, and file, such as alerts.yaml.
*/}}
{{- define "fluxqueue.monitoring" -}}
{{- $path := printf "files/monitoring/%s" .file -}}
{{- $text := .root.Files.Get $path -}}
{{- if not $text }}{{ fail (printf "%s is missing from this chart" $path) }}{{ end -}}
{{- $text -}}
{{- end -}}
