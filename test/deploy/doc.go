// Package deploy tests deploy/k8s and the Dockerfile: that every manifest is what
// Kubernetes takes, that they fit each other and the programs' configurations, and
// that the pods they describe run on this machine, without a Kubernetes: confined as
// there, each in a root of its own that is read-only.
//
// It is a module of its own: what only it needs, Kubernetes' types and kustomize, is not in the
// go.mod of the programs.
package deploy
