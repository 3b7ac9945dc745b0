{{/* The analysis's namespace; empty without it. */}}
{{- define "zonequake.analysisNamespace" -}}
{{- if .Values.analysis.enabled }}{{ printf "%s-analysis" .Release.Namespace }}{{ end }}
{{- end }}

{{/* Template of a pod of the analysis; call with (dict "root" $ "component" "analysis" "container"
     "spark-kubernetes-driver" "account" "zq-analysis" "token" true). Spark adds what it decides:
     names, the image of executors, memory, and variables. */}}
{{- define "zonequake.analysisPod" -}}
{{- $values := .root.Values.analysis }}
apiVersion: v1
kind: Pod
metadata:
  labels:
    {{- include "zonequake.labels" . | nindent 4 }}
spec:
  restartPolicy: Never
  serviceAccountName: {{ .account }}
  automountServiceAccountToken: {{ .token }}
  enableServiceLinks: false
  {{- include "zonequake.pullSecrets" .root | nindent 2 }}
  {{- with $values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    {{- include "zonequake.podSecurity" . | nindent 4 }}
  containers:
    - name: {{ .container }}
      image: {{ include "zonequake.image" (dict "root" .root "name" "analysis") | quote }}
      imagePullPolicy: {{ .root.Values.images.pullPolicy }}
      workingDir: /work
      securityContext:
        {{- include "zonequake.containerSecurity" . | nindent 8 }}
      resources:
        {{- $memory := printf "%dMi" (add .size.memoryMebibytes .size.overheadMebibytes) }}
        requests: {cpu: {{ .size.cpu | quote }}, memory: {{ $memory }}}
        limits: {memory: {{ $memory }}}
      env:
        - {name: SPARK_LOCAL_DIRS, value: /scratch}
        {{- if .token }}
        - {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
        - {name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
        {{- end }}
      {{- with $values.storeSecret }}
      envFrom:
        - secretRef: {name: {{ . }}}
      {{- end }}
      volumeMounts:
        - {name: tmp, mountPath: /tmp}
        - {name: work, mountPath: /work}
        - {name: spark-local-dir-1, mountPath: /scratch}
        {{- if .token }}
        - {name: settings, mountPath: /etc/zonequake/analysis, readOnly: true}
        {{- end }}
        {{- if $values.storeSecret }}
        - {name: store-credentials, mountPath: /etc/zonequake/store, readOnly: true}
        {{- end }}
  volumes:
    - {name: tmp, emptyDir: {sizeLimit: 1Gi}}
    - {name: work, emptyDir: {sizeLimit: 1Gi}}
    - {name: spark-local-dir-1, emptyDir: {sizeLimit: {{ $values.scratchSize }}}}
    {{- if .token }}
    - {name: settings, configMap: {name: {{ .root.Release.Name }}-analysis}}
    {{- end }}
    {{- with $values.storeSecret }}
    # Optional, so that a Secret that isn't there is reported by its variables, with its name.
    - {name: store-credentials, secret: {secretName: {{ . }}, defaultMode: 0440, optional: true}}
    {{- end }}
{{- end }}
