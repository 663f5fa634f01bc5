{{/*
The text of a file of manifests. It takes a dict with root, and file, such as base/rbac.
Wherever the manifests say fluxqueue-system they mean the namespace that Fluxqueue is installed in; system:masters is the group that
the policies except, and ['fluxqueue'] the list of names that Fluxqueue serves.
*/}}
{{- define "fluxqueue.text" -}}
{{- $path := printf "files/%s.yaml" .file -}}
{{- $text := .root.Files.Get $path -}}
{{- if not $text }}{{ fail (printf "%s is missing from this chart" $path) }}{{ end -}}
{{- $text = replace "fluxqueue-system" .root.Release.Namespace $text -}}
{{- $text = replace "system:masters" .root.Values.policies.breakGlassGroup $text -}}
{{- with .root.Values.settings.schedulerNames }}{{ $text = replace "['fluxqueue']" (toJson .) $text }}{{ end -}}
{{- $text -}}
{{- end -}}

{{/*
The objects of such a file as YAML documents, with the labels that kustomization.yaml adds. Further in the dict: annotations for all of
them; kind and name, to have only the objects of that kind or name.
*/}}
{{- define "fluxqueue.objects" -}}
{{- $dict := . -}}
{{- $labels := dict "app.kubernetes.io/name" "fluxqueue" "app.kubernetes.io/part-of" "fluxqueue" -}}
{{- range regexSplit "(?m)^---$" (include "fluxqueue.text" .) -1 }}
{{- $object := fromYaml . }}
{{- if hasKey $object "Error" }}{{ fail (printf "%s: %s" $dict.file $object.Error) }}{{ end }}
{{- $is_kind := or (not (hasKey $dict "kind")) (eq $object.kind (get $dict "kind")) }}
{{- $is_name := or (not (hasKey $dict "name")) (eq $object.metadata.name (get $dict "name")) }}
{{- if and $is_kind $is_name }}
{{- if not $dict.plain }}
{{- $_ := set $object.metadata "labels" (merge (dict) $labels (default (dict) $object.metadata.labels)) }}
{{- end }}
{{- with $dict.annotations }}
{{- $_ := set $object.metadata "annotations" (merge (dict) . (default (dict) $object.metadata.annotations)) }}
{{- end }}
---
{{ toYaml $object }}
{{- end }}
{{- end }}
{{- end -}}
