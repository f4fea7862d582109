// Package cluster has the pages of operators and students: what the aggregator tells the certificate of the person.
package cluster
