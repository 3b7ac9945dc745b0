{{/* Labels of one component; call with (dict "root" $ "component" "store"). */}}
{{- define "zonequake.selector" -}}
app.kubernetes.io/name: zonequake
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "zonequake.labels" -}}
{{ include "zonequake.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- end }}

{{/* Security contexts that a namespace with enforce=restricted accepts. */}}
{{- define "zonequake.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "zonequake.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{/* One of our images: what the values name, else that of this version. Call with
     (dict "root" $ "name" "store"). */}}
{{- define "zonequake.image" -}}
{{- $images := .root.Values.images }}
{{- get $images .name | default (printf "%s/%s:%s" $images.repository .name .root.Chart.AppVersion) }}
{{- end }}

{{- define "zonequake.pullSecrets" -}}
{{- with .Values.images.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- end }}

{{/* Names of all data nodes that the pools' sizes say, for helm test. */}}
{{- define "zonequake.nodeNames" -}}
{{- $names := list }}
{{- range $pool := .Values.nodePools }}
{{- range $ordinal := until (int $pool.replicas) }}
{{- $names = append $names (printf "%s-%s-%d" $.Release.Name $pool.name $ordinal) }}
{{- end }}
{{- end }}
{{- join " " $names }}
{{- end }}

{{/* What else of the release is to answer, for helm test. */}}
{{- define "zonequake.testUrls" -}}
{{- $urls := list }}
{{- if .Values.operator.enabled }}
{{- $urls = append $urls (printf "http://%s-operator.%s.svc:8080/healthz" .Release.Name .Release.Namespace) }}
{{- end }}
{{- if .Values.prometheus.enabled }}
{{- $urls = append $urls (printf "http://%s-prometheus.%s.svc:9090/-/ready" .Release.Name .Release.Namespace) }}
{{- end }}
{{- join " " $urls }}
{{- end }}

{{/* What the identities of the release end in (docs/tls.md). */}}
{{- define "zonequake.tlsDomain" -}}
{{ printf "%s.%s.zonequake.internal" .Release.Name .Release.Namespace }}
{{- end }}

{{/* What a process must know of TLS; call with the root. */}}
{{- define "zonequake.tlsEnvironment" -}}
- name: ZQ_TLS_DIR
  value: /tls
- name: ZQ_TLS_DOMAIN
  value: {{ include "zonequake.tlsDomain" . | quote }}
- name: ZQ_TLS_RENEW_SECONDS
  value: {{ .Values.tls.renewSeconds | quote }}
{{- end }}

{{/* The files of one role; call with (dict "root" $ "role" "store"). */}}
{{- define "zonequake.tlsVolume" -}}
name: tls
projected:
  defaultMode: 0440
  sources:
    - secret:
        name: {{ .root.Release.Name }}-tls-{{ .role }}
        items:
          - {key: tls.crt, path: tls.crt}
          - {key: tls.key, path: tls.key}
          {{- if not .root.Values.tls.authorities.configMap }}
          - {key: ca.crt, path: ca.crt}
          {{- end }}
    {{- with .root.Values.tls.authorities.configMap }}
    - configMap:
        name: {{ . }}
        items:
          - {key: {{ $.root.Values.tls.authorities.key }}, path: ca.crt}
    {{- end }}
{{- end }}

{{/* Parts of network policies; call zonequake.ofUs with (dict "root" $ "components" "store, load"). */}}
{{- define "zonequake.ofUs" -}}
podSelector:
  matchLabels:
    app.kubernetes.io/name: zonequake
    app.kubernetes.io/instance: {{ .root.Release.Name }}
  matchExpressions:
    - {key: app.kubernetes.io/component, operator: In, values: [{{ .components }}]}
{{- end }}

{{/* TCP ports as a list of a policy. */}}
{{- define "zonequake.tcp" -}}
[{{ range $at, $port := . }}{{ if $at }}, {{ end }}{protocol: TCP, port: {{ $port }}}{{ end }}]
{{- end }}

{{- define "zonequake.addresses" -}}
{{- range . }}
- ipBlock: {cidr: {{ . }}}
{{- end }}
{{- end }}

{{- define "zonequake.lookups" -}}
# Names are looked up everywhere.
- ports:
    - {protocol: UDP, port: 53}
    - {protocol: TCP, port: 53}
{{- end }}

{{- define "zonequake.toApi" -}}
- ports:
    {{- range .Values.networkPolicy.apiServer.ports }}
    - {protocol: TCP, port: {{ . }}}
    {{- end }}
  {{- with .Values.networkPolicy.apiServer.cidrs }}
  to:
    {{- include "zonequake.addresses" . | nindent 4 }}
  {{- end }}
{{- end }}

{{- define "zonequake.toRunStore" -}}
{{- $store := .Values.networkPolicy.runStore }}
- ports:
    {{- range $store.ports }}
    - {protocol: TCP, port: {{ . }}}
    {{- end }}
  {{- with $store.to }}
  to:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}

{{/* The fault agent's namespace; empty without one. */}}
{{- define "zonequake.agentNamespace" -}}
{{- if .Values.faultAgent.enabled }}{{ printf "%s-faults" .Release.Namespace }}{{ end }}
{{- end }}
