// Package discriminator is the network of DPGAN that scores records: high for real. Student and nodes build the
// same network from a [Spec], so only its weights are sent. The student moves generated records along its slope;
// nodes compute its gradients at real records.
//
// Start with [New]. The package knows nothing about privacy: package nn clips, and the aggregator adds noise.
package discriminator
