{{/*
A ClusterRoleBinding of the name of its role, or nothing if it is bound to no subject. It takes a dict with root, role and subjects.
*/}}
{{- define "fluxqueue.binding" -}}
{{- $api := "rbac.authorization.k8s.io" -}}
{{- $subjects := list -}}
{{- range .subjects }}
{{- $subject := dict -}}
{{- if ne .kind "ServiceAccount" }}{{ $subject = dict "apiGroup" $api }}{{ end -}}
{{- $subjects = append $subjects (merge $subject .) -}}
{{- end -}}
{{- with $subjects }}
{{- $binding := dict "apiVersion" (printf "%s/v1" $api) "kind" "ClusterRoleBinding" "metadata" (dict "name" $.role) -}}
{{- $_ := set $binding "roleRef" (dict "apiGroup" $api "kind" "ClusterRole" "name" $.role) -}}
{{- $_ := set $binding "subjects" . -}}
{{- include "fluxqueue.object" (dict "root" $.root "object" $binding) }}
{{- end }}
{{- end -}}
