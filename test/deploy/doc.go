// Package deploy tests deploy/k8s and the Dockerfile. It checks that Kubernetes accepts every manifest, that they fit
// each other and the programs' configurations, and that their pods run on this machine without Kubernetes, each
// confined as there in its own read-only root.
//
// It is its own module: its dependencies, Kubernetes' types and kustomize, are not in the go.mod of the programs.
package deploy
