{{/*
A NetworkPolicy of the manifests, with what values say. It takes a dict with root and file; and clients, a list of peers for each rule of
its ingress.
*/}}
{{- define "fluxqueue.policy" -}}
{{- $policy := fromYaml (include "fluxqueue.objects" (dict "root" .root "file" .file)) -}}
{{- range $at, $rule := $policy.spec.ingress }}{{ $_ := set $rule "from" (index $.clients $at) }}{{ end -}}
{{- $_ := set $policy.spec "egress" .root.Values.networkPolicy.egress -}}
---
{{ toYaml $policy }}
{{- end -}}
