{{/*
A PodDisruptionBudget of the manifests, with what values say. It takes a dict with root and file.
*/}}
{{- define "fluxqueue.budget" -}}
{{- $budget := fromYaml (include "fluxqueue.objects" .) -}}
{{- $_ := set $budget.spec "maxUnavailable" .root.Values.podDisruptionBudget.maxUnavailable -}}
---
{{ toYaml $budget }}
{{- end -}}
