// Package cluster has the pages of operators and students: what the aggregator shows to the person's certificate.
package cluster
