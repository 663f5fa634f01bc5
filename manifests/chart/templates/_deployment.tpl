{{/*
The name of the image.
*/}}
{{- define "fluxqueue.image" -}}
{{- with .Values.image -}}
{{- $repository := required "image.repository: name the image that you have built and pushed, as in --set image.repository=registry.example.com/fluxqueue" .repository -}}
{{- with .registry }}{{ $repository = printf "%s/%s" . $repository }}{{ end -}}
{{- if .digest }}{{ printf "%s@%s" $repository .digest }}{{ else }}{{ printf "%s:%s" $repository (.tag | default $.Chart.AppVersion) }}{{ end -}}
{{- end -}}
{{- end -}}

{{/*
Ends the rendering if values name something of a Deployment twice. It takes a dict with value, the path of the value; taken, the list of
the Deployment's own; and more, the list of the value. Both have names.
*/}}
{{- define "fluxqueue.names-are-free" -}}
{{- $taken := dict -}}
{{- range .taken }}{{ $_ := set $taken .name true }}{{ end -}}
{{- range .more -}}
{{- if hasKey $taken .name }}{{ fail (printf "%s: %s is there already" $.value .name) }}{{ end -}}
{{- $_ := set $taken .name true -}}
{{- end -}}
{{- end -}}

{{/*
A Deployment of the manifests, with what values say. It takes a dict with root and file; key, the path of its values, and values; args,
besides its own; volumes and volumeMounts, besides its own; annotations of its pods.
*/}}
{{- define "fluxqueue.deployment" -}}
{{- $deployment := fromYaml (include "fluxqueue.objects" (dict "root" .root "file" .file)) -}}
{{- $template := $deployment.spec.template -}}
{{- $pod := $template.spec -}}
{{- $container := first $pod.containers -}}
{{- $image := .root.Values.image -}}
{{- $_ := set $container "image" (include "fluxqueue.image" .root) -}}
{{- with $image.pullPolicy }}{{ $_ := set $container "imagePullPolicy" . }}{{ end -}}
{{- with $image.pullSecrets }}{{ $_ := set $pod "imagePullSecrets" . }}{{ end -}}
{{- if .root.Values.runAsUser -}}
{{- range list "runAsUser" "runAsGroup" }}{{ $_ := set $pod.securityContext . (int64 $.root.Values.runAsUser) }}{{ end -}}
{{- else -}}
{{- range list "runAsUser" "runAsGroup" }}{{ $_ := unset $pod.securityContext . }}{{ end -}}
{{- end -}}
{{- $_ := set $deployment.spec "replicas" .values.replicas -}}
{{- $_ := set $container "resources" .values.resources -}}
{{- $_ := set $container "args" (concat $container.args .args .values.extraArgs) -}}
{{- include "fluxqueue.names-are-free" (dict "value" (printf "%s.extraEnv" .key) "taken" $container.env "more" .values.extraEnv) -}}
{{- $_ := set $container "env" (concat $container.env .values.extraEnv) -}}
{{- $own := concat (default list $pod.volumes) (default list .volumes) -}}
{{- include "fluxqueue.names-are-free" (dict "value" (printf "%s.extraVolumes" .key) "taken" $own "more" .values.extraVolumes) -}}
{{- with concat $own .values.extraVolumes }}{{ $_ := set $pod "volumes" . }}{{ end -}}
{{- with concat (default list $container.volumeMounts) (default list .volumeMounts) .values.extraVolumeMounts -}}
{{- $_ := set $container "volumeMounts" . -}}
{{- end -}}
{{- if .values.priorityClassName -}}
{{- $_ := set $pod "priorityClassName" .values.priorityClassName -}}
{{- else -}}
{{- $_ := unset $pod "priorityClassName" -}}
{{- end -}}
{{- range $field := list "nodeSelector" "tolerations" "affinity" }}
{{- with get $.values $field }}{{ $_ := set $pod $field . }}{{ end -}}
{{- end -}}
{{- $constraints := list -}}
{{- range .values.topologySpreadConstraints }}
{{- $constraint := merge (dict) . -}}
{{- if not (hasKey . "labelSelector") }}{{ $_ := set $constraint "labelSelector" $deployment.spec.selector }}{{ end -}}
{{- $constraints = append $constraints $constraint -}}
{{- end -}}
{{- with $constraints }}{{ $_ := set $pod "topologySpreadConstraints" . }}{{ end -}}
{{- with merge (dict) $template.metadata.labels .values.podLabels .root.Values.labels }}{{ $_ := set $template.metadata "labels" . }}{{ end -}}
{{- with merge (dict) .annotations .values.podAnnotations .root.Values.annotations }}{{ $_ := set $template.metadata "annotations" . }}{{ end -}}
{{- if .values.hostNetwork -}}
{{- $_ := set $pod "hostNetwork" true -}}
{{- $_ := set $pod "dnsPolicy" "ClusterFirstWithHostNet" -}}
{{- /* Its ports are those of the node, so the pod that goes has to make room for the one that comes. */ -}}
{{- $_ := set $deployment.spec.strategy "rollingUpdate" (dict "maxUnavailable" 1 "maxSurge" 0) -}}
{{- end -}}
{{- with .values.ports -}}
{{- if ne (len (uniq (values .))) (len .) }}{{ fail (printf "%s.ports: two of them are the same" $.key) }}{{ end -}}
{{- range $port := $container.ports }}{{ $_ := set $port "containerPort" (int (get $.values.ports $port.name)) }}{{ end -}}
{{- $flags := dict "webhook" "--bind-address=" "metrics" "--metrics-bind-address=" "health" "--health-bind-address=" -}}
{{- $args := list -}}
{{- range $arg := $container.args -}}
{{- range $name, $flag := $flags -}}
{{- if hasPrefix $flag $arg }}{{ $arg = printf "%s:%d" $flag (int (get $.values.ports $name)) }}{{ end -}}
{{- end -}}
{{- $args = append $args $arg -}}
{{- end -}}
{{- $_ := set $container "args" $args -}}
{{- end -}}
---
{{ toYaml $deployment }}
{{- end -}}
