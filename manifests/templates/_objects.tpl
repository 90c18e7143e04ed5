{{/*
The templates read the files that `kubectl apply -k` uses and apply the values to them. Everything that no value changes is
defined in these files only.
*/}}

{{/* The text of a file, for the namespace of the release: include "helmops.text" (list $ "base/rbac.yaml") */}}
{{- define "helmops.text" -}}
{{- $root := index . 0 -}}
{{- $file := index . 1 -}}
{{- $text := $root.Files.Get $file | required (print "the chart lacks the file " $file) -}}
{{- $namespace := $root.Release.Namespace -}}
{{- $text | replace "namespace: helmops-system" (print "namespace: " $namespace) | replace ".helmops-system.svc" (print "." $namespace ".svc") -}}
{{- end -}}

{{/* All objects of a file, unchanged: include "helmops.file" (list $ "base/rbac.yaml") */}}
{{- define "helmops.file" -}}
{{- $root := index . 0 -}}
{{- range splitList "\n---\n" (include "helmops.text" .) }}
{{- $object := fromYaml . }}
{{- if not (include "helmops.isForeign" (list $root $object)) }}
{{- include "helmops.object" $object }}
{{- end }}
{{- end }}
{{- end -}}

{{/*
Whether an object is a Secret that exists and is not of a Helm release: include "helmops.isForeign" (list $ $object)
The processes of earlier versions have created it, and Helm would refuse to take it over.
*/}}
{{- define "helmops.isForeign" -}}
{{- $root := index . 0 -}}
{{- $object := index . 1 -}}
{{- if eq $object.kind "Secret" -}}
{{- $found := lookup "v1" "Secret" $root.Release.Namespace $object.metadata.name -}}
{{- if and $found (not (hasKey ($found.metadata.annotations | default dict) "meta.helm.sh/release-name")) -}}
true
{{- end -}}
{{- end -}}
{{- end -}}

{{/* An object: include "helmops.object" $object */}}
{{- define "helmops.object" }}
---
{{ toYaml . }}
{{ end -}}

{{/* A Deployment with the values of its component: include "helmops.deployment" (list $ $deployment $values) */}}
{{- define "helmops.deployment" -}}
{{- $root := index . 0 -}}
{{- $deployment := index . 1 -}}
{{- $values := index . 2 -}}
{{- $template := $deployment.spec.template -}}
{{- $pod := $template.spec -}}
{{- $container := first $pod.containers -}}
{{- /* The agent has an image of its own. */}}
{{- $image := $values.image | default $root.Values.image -}}
{{- $pull := $root.Values.image -}}
{{- $_ := set $deployment.spec "replicas" $values.replicas -}}
{{- $_ := set $template.metadata "labels" (merge $template.metadata.labels $values.podLabels) -}}
{{- with $values.podAnnotations }}{{ $_ := set $template.metadata "annotations" . }}{{ end -}}
{{- if and $image.tag $image.digest -}}
{{- fail (printf "tag %q and digest of image %s are mutually exclusive; to use a tag, set the digest to \"\"" $image.tag $image.repository) -}}
{{- end -}}
{{- $tag := print ":" ($image.tag | default $root.Chart.AppVersion) -}}
{{- $_ := set $container "image" (print $image.repository (ternary (print "@" $image.digest) $tag (not (empty $image.digest)))) -}}
{{- with $pull.pullPolicy }}{{ $_ := set $container "imagePullPolicy" . }}{{ end -}}
{{- with $pull.pullSecrets }}{{ $_ := set $pod "imagePullSecrets" . }}{{ end -}}
{{- $_ := set $container "resources" (mergeOverwrite $container.resources $values.resources) -}}
{{- /* A null removes a default. */}}
{{- range $which, $amounts := omit $container.resources "claims" }}
{{- range $resource, $amount := $amounts }}
{{- if kindIs "invalid" $amount }}{{ $_ := unset $amounts $resource }}{{ end }}
{{- end }}
{{- if empty $amounts }}{{ $_ := unset $container.resources $which }}{{ end }}
{{- end }}
{{- $_ := set $container "args" (concat ($container.args | default list) $values.args) -}}
{{- /* The last variable of a name overrides the others. */}}
{{- $env := list }}
{{- range $variable := concat ($container.env | default list) $values.env }}
{{- range $before := $env }}
{{- if eq $before.name $variable.name }}{{ $env = without $env $before }}{{ end }}
{{- end }}
{{- $env = append $env $variable }}
{{- end }}
{{- $_ := set $container "env" $env -}}
{{- with $root.Values.priorityClassName }}{{ $_ := set $pod "priorityClassName" . }}{{ end -}}
{{- range $field := list "nodeSelector" "tolerations" "affinity" }}
{{- with get $values $field }}{{ $_ := set $pod $field . }}{{ end }}
{{- end }}
{{- if empty $container.args }}{{ $_ := unset $container "args" }}{{ end }}
{{- if empty $container.env }}{{ $_ := unset $container "env" }}{{ end }}
{{- include "helmops.object" $deployment }}
{{- end -}}
