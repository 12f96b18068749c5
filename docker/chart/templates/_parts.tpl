{{/* What all have in common. Each is given a dict: top (the chart's root), name, and what is its own. */}}

{{- define "labels" -}}
app.kubernetes.io/name: jbm-kafka
app.kubernetes.io/instance: {{ .top.Release.Name }}
app.kubernetes.io/component: {{ .name }}
{{- end }}

{{- define "image" -}}
{{ .top.Values.image.registry }}jbm-kafka-{{ .name }}:{{ .top.Values.image.tag | default .top.Chart.AppVersion }}
{{- end }}

{{- define "metadata" -}}
name: {{ .top.Release.Name }}-{{ .name }}
labels:
  {{- include "labels" . | nindent 2 }}
{{- end }}

{{- define "selector" -}}
selector:
  matchLabels:
    {{- include "labels" . | nindent 4 }}
{{- end }}

{{- define "pod metadata" -}}
metadata:
  labels:
    {{- include "labels" . | nindent 4 }}
  annotations:
    checksum/configuration: {{ .top.Values.configuration | sha256sum }}
    {{- with .scraped }}
    prometheus.io/scrape: "true"
    prometheus.io/port: {{ . | quote }}
    {{- end }}
{{- end }}

{{/* Not more than one away at a time, and on as many nodes and zones as there are. */}}
{{- define "pod" -}}
automountServiceAccountToken: false
{{- with .top.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 1000
  runAsGroup: 1000
  fsGroup: 1000
  seccompProfile: {type: RuntimeDefault}
topologySpreadConstraints:
  {{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
  - maxSkew: 1
    topologyKey: {{ . }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "labels" $ | nindent 8 }}
  {{- end }}
volumes:
  - name: configuration
    configMap: {name: {{ .top.Release.Name }}-configuration}
  - name: state
    emptyDir: {sizeLimit: {{ .top.Values.stateSize }}}
  {{- if and .serves .top.Values.tlsSecret }}
  - name: tls
    secret: {secretName: {{ .top.Values.tlsSecret }}, defaultMode: 0440}
  {{- end }}
{{- end }}

{{- define "container" -}}
imagePullPolicy: {{ .top.Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
resources:
  {{- toYaml .resources | nindent 2 }}
volumeMounts:
  - {name: configuration, mountPath: /etc/jbm-kafka, readOnly: true}
  - {name: state, mountPath: /var/lib/jbm-kafka}
  {{- if and .serves .top.Values.tlsSecret }}
  - {name: tls, mountPath: /etc/jbm-kafka-tls, readOnly: true}
  {{- end }}
{{- with .top.Values.secret }}
envFrom:
  - secretRef: {name: {{ . }}}
{{- end }}
{{- end }}

{{- define "environment" -}}
- {name: JBM_CONFIG, value: /etc/jbm-kafka/jbm-kafka.toml}
- {name: JBM_CONNECTION__STATE_DIR, value: /var/lib/jbm-kafka/state}
{{- end }}

{{/* Liveness never asks Kafka, so that its outage restarts nothing; readiness does. */}}
{{- define "probes" -}}
startupProbe:
  httpGet: {path: /healthz, port: {{ .port }}, scheme: {{ .scheme | default "HTTP" }}}
  periodSeconds: 2
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /healthz, port: {{ .port }}, scheme: {{ .scheme | default "HTTP" }}}
  periodSeconds: 10
  timeoutSeconds: 6
  failureThreshold: 3
readinessProbe:
  httpGet: {path: {{ .ready | default "/readyz" }}, port: {{ .port }}, scheme: {{ .scheme | default "HTTP" }}}
  periodSeconds: 5
  timeoutSeconds: 6
  failureThreshold: 1
{{- end }}
