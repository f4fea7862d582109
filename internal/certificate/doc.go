// Package certificate states what was guaranteed: the small JSON file that travels with
// synthetic rows ([New], [Read], [Certificate.WriteFile]). [Certificate.Verify] recomputes it from
// the ledger, but for what [Stated] lists. It never holds a figure computed from real rows
// without noise.
package certificate
