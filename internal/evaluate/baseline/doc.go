// Package baseline puts the figures of an evaluation beside those of rows that are not synthetic: real ones, the best
// that can be hoped for, and rows whose columns were shuffled, which know single columns and nothing else. It also
// finds combinations of values that no real row has. All of it is computed from real rows: NOT PRIVATE.
package baseline
