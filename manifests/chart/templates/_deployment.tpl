{{/*
A Deployment of the manifests, with what values say. It takes a dict with root and file; values, of this Deployment; args, besides its
own; volumes and volumeMounts, besides its own; annotations of its pods.
*/}}
{{- define "fluxqueue.deployment" -}}
{{- $deployment := fromYaml (include "fluxqueue.objects" (dict "root" .root "file" .file)) -}}
{{- $template := $deployment.spec.template -}}
{{- $pod := $template.spec -}}
{{- $container := first $pod.containers -}}
{{- $image := .root.Values.image -}}
{{- $tag := printf ":%s" ($image.tag | default .root.Chart.AppVersion) -}}
{{- if $image.digest }}{{ $tag = printf "@%s" $image.digest }}{{ end -}}
{{- $_ := set $container "image" (print $image.repository $tag) -}}
{{- with $image.pullPolicy }}{{ $_ := set $container "imagePullPolicy" . }}{{ end -}}
{{- with $image.pullSecrets }}{{ $_ := set $pod "imagePullSecrets" . }}{{ end -}}
{{- $_ := set $deployment.spec "replicas" .values.replicas -}}
{{- $_ := set $container "resources" .values.resources -}}
{{- $_ := set $container "args" (concat $container.args .args .values.extraArgs) -}}
{{- with .volumes }}{{ $_ := set $pod "volumes" (concat (default list $pod.volumes) .) }}{{ end -}}
{{- with .volumeMounts }}{{ $_ := set $container "volumeMounts" (concat (default list $container.volumeMounts) .) }}{{ end -}}
{{- if .values.priorityClassName -}}
{{- $_ := set $pod "priorityClassName" .values.priorityClassName -}}
{{- else -}}
{{- $_ := unset $pod "priorityClassName" -}}
{{- end -}}
{{- range $field := list "nodeSelector" "tolerations" "affinity" "topologySpreadConstraints" }}
{{- with get $.values $field }}{{ $_ := set $pod $field . }}{{ end -}}
{{- end -}}
{{- with .values.podLabels }}{{ $_ := set $template.metadata "labels" (merge (dict) $template.metadata.labels .) }}{{ end -}}
{{- with merge (dict) .annotations .values.podAnnotations }}{{ $_ := set $template.metadata "annotations" . }}{{ end -}}
---
{{ toYaml $deployment }}
{{- end -}}
